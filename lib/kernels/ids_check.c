/* ids_check.c - every index into a vocabulary, and every length, is checked before anything uses
 * it.
 */
#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"

ls_status ls_ids_check(const int32_t *ids, size_t n, size_t vocab, int allow_ignore,
                       const char *what)
{
    ls_status status = LS_OK;
    for (size_t t = 0; t < n; t++) {
        if (ids[t] >= 0 && (size_t)ids[t] < vocab) continue;
        if (allow_ignore && ids[t] == LS_IGNORE) continue;
        if (vocab == 0)
            LS_FAIL(LS_ERR_INPUT, "%s %zu is %d: the vocabulary is empty", what, t, (int)ids[t]);
        if (allow_ignore)
            LS_FAIL(LS_ERR_INPUT, "%s %zu is %d: allowed are 0 to %zu and %d (ignored)", what, t,
                    (int)ids[t], vocab - 1, (int)LS_IGNORE);
        LS_FAIL(LS_ERR_INPUT, "%s %zu is %d: allowed are 0 to %zu", what, t, (int)ids[t],
                vocab - 1);
    }
exit:
    return status;
}

ls_status ls_lengths_check(const int32_t *lengths, size_t B, size_t S)
{
    ls_status status = LS_OK;
    for (size_t b = 0; lengths && b < B; b++)
        if (lengths[b] < 0 || (size_t)lengths[b] > S)
            LS_FAIL(LS_ERR_INPUT,
                    "length %zu is %d: allowed are 0 to %zu, the tokens of a sequence", b,
                    (int)lengths[b], S);
exit:
    return status;
}
