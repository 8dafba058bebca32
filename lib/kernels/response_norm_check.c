/* response_norm_check.c - which channels a response normalisation reads, and what it may be. */
#include "lockstep/kernels/response_norm.h"

/* first - before .. end + after, inside the layer. */
static ls_channels widened(const ls_response_norm *norm, ls_channels made, size_t before,
                           size_t after)
{
    if (made.count == 0) return made;
    size_t first = made.first > before ? made.first - before : 0;
    size_t end = made.first + made.count;
    end = norm->channels - end > after ? end + after : norm->channels;
    return (ls_channels){first, end - first};
}

ls_channels ls_response_norm_reads(const ls_response_norm *norm, ls_channels made)
{
    return widened(norm, made, norm->n / 2, norm->n - 1 - norm->n / 2);
}

ls_channels ls_response_norm_read_by(const ls_response_norm *norm, ls_channels made)
{
    return widened(norm, made, norm->n - 1 - norm->n / 2, norm->n / 2);
}

ls_status ls_response_norm_check(const char *name, const ls_response_norm *norm)
{
    ls_status status = LS_OK;
    if (norm->channels == 0 || norm->n == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: a window of %zu in %zu channels: at least 1 of each is needed",
                name, norm->n, norm->channels);
    if (!(norm->k > 0) || !(norm->alpha >= 0) || !(norm->beta >= 0))
        LS_FAIL(LS_ERR_INPUT,
                "%s: k %g, alpha %g, beta %g: k must be above 0, the others not below 0", name,
                norm->k, norm->alpha, norm->beta);
exit:
    return status;
}
