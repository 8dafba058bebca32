/* text.c - batches of bytes from a text. */
#include "lockstep/model/text.h"

#include <stdlib.h>

#include "base/read_file.h"
#include "lockstep/base/show.h"
#include "lockstep/model/masked_text.h"
#include "lockstep/numerics/random.h"

ls_status ls_text_read(const char *path, ls_text *ret_text)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    LS_TRY(ls_read_file(path, SIZE_MAX / 4, &bytes, &count));
    if (count == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: empty; a text has at least two bytes", ls_show(path));
    ret_text->bytes = bytes;
    ret_text->count = count;
    bytes = NULL;
exit:
    free(bytes);
    return status;
}

void ls_text_free(ls_text *text)
{
    free(text->bytes);
    text->bytes = NULL;
    text->count = 0;
}

ls_status ls_text_check(const ls_text *text, const char *path, size_t S, size_t vocab)
{
    ls_status status = LS_OK;
    if (text->count <= S) {
        LS_FAIL(
            LS_ERR_INPUT,
            "%s: %zu byte%s long; --seq %zu needs at least %zu (each token and the one after it)",
            ls_show(path), text->count, text->count == 1 ? "" : "s", S, S + 1);
    }
    for (size_t i = 0; i < text->count; i++) {
        if (text->bytes[i] >= vocab) {
            LS_FAIL(LS_ERR_INPUT,
                    "%s: byte %u at offset %zu is outside the vocabulary; --vocab %zu allows 0 to "
                    "%zu, --vocab 256 any text",
                    ls_show(path), (unsigned)text->bytes[i], i, vocab, vocab - 1);
        }
    }
exit:
    return status;
}

ls_status ls_text_check_model(const ls_text *text, const char *path, const ls_config *config)
{
    ls_status status = LS_OK;
    LS_TRY(ls_config_require(config, LS_MODEL_TRANSFORMER, "a text"));
    if (config->objective == LS_MASKED_TOKEN)
        LS_TRY(ls_masked_text_check(text, path, config->seq, config->vocab));
    else
        LS_TRY(ls_text_check(text, path, config->seq, config->vocab));
exit:
    return status;
}

void ls_text_batch(const ls_text *text, uint64_t seed, uint32_t step, size_t first,
                   size_t sequences, size_t S, int32_t *ret_tokens, int32_t *ret_targets)
{
    ls_stream stream = {.seed = seed, .purpose = LS_RANDOM_DATA, .layer = 0, .step = step};
    /* The last start leaves room for S tokens and the target of the last of them. A uniform number
     * is at most 1 - 2^-53, so below 2^53 starts the rounded product stays below their number. */
    size_t starts = text->count - S;
    for (size_t b = 0; b < sequences; b++) {
        double place = ls_random_uniform(stream, first + b) * (double)starts;
        const unsigned char *from = text->bytes + (size_t)place;
        for (size_t s = 0; s < S; s++) {
            ret_tokens[b * S + s] = from[s];
            ret_targets[b * S + s] = from[s + 1];
        }
    }
}
