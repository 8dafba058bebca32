/* masked_text.c - two spans of a text, some of their bytes hidden. */
#include "lockstep/model/masked_text.h"

#include "lockstep/base/show.h"
#include "lockstep/model/batch.h"
#include "lockstep/numerics/random.h"

/* [CLS] and two [SEP]. */
enum { FRAME = 3, SHORTEST = FRAME + 2 };

ls_status ls_masked_text_check(const ls_text *text, const char *path, size_t S, size_t vocab)
{
    ls_status status = LS_OK;
    if (S < SHORTEST)
        LS_FAIL(LS_ERR_INPUT,
                "--seq %zu: a masked-token model reads [CLS] a [SEP] b [SEP]; use at least %d", S,
                (int)SHORTEST);
    if (vocab < LS_MASKED_VOCAB)
        LS_FAIL(LS_ERR_INPUT,
                "--vocab %zu: a masked-token model needs 256 bytes, [CLS], [SEP], [MASK] and "
                "[PAD]; use at least %d",
                vocab, (int)LS_MASKED_VOCAB);
    if (text->count < S - FRAME)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu byte%s long; --seq %zu needs at least %zu for two spans",
                ls_show(path), text->count, text->count == 1 ? "" : "s", S, S - FRAME);
exit:
    return status;
}

/* Where the spans of a sequence lie in the text. */
typedef struct spans {
    size_t start, first, second; /* bytes of the two, one after the other */
    bool swapped;
} spans;

static spans choose_spans(const ls_text *text, ls_stream stream, uint64_t b, size_t S)
{
    /* A uniform number is at most 1 - 2^-53, so below 2^53 the rounded products stay below their
     * second factor. */
    const double u0 = ls_random_uniform(stream, 4 * b), u1 = ls_random_uniform(stream, 4 * b + 1);
    const double u2 = ls_random_uniform(stream, 4 * b + 2);
    const double u3 = ls_random_uniform(stream, 4 * b + 3);
    spans s;
    size_t bytes = S - FRAME;
    if (u0 >= 0.5) bytes = 2 + (size_t)((2 * u0 - 1) * (double)(S - FRAME - 1));
    s.first = 1 + (size_t)(u1 * (double)(bytes - 1));
    s.second = bytes - s.first;
    s.start = (size_t)(u2 * (double)(text->count - bytes + 1));
    s.swapped = u3 >= 0.5;
    return s;
}

/* Writes [CLS] A [SEP] B [SEP] and padding; returns the length without padding. */
static size_t write_spans(int32_t *tokens, int32_t *segments, const ls_text *text, spans s,
                          size_t S)
{
    const unsigned char *a = text->bytes + s.start, *b = a + s.first;
    size_t a_bytes = s.first, b_bytes = s.second, at = 0;
    if (s.swapped) {
        a = text->bytes + s.start + s.first, a_bytes = s.second;
        b = text->bytes + s.start, b_bytes = s.first;
    }
    tokens[at++] = LS_TOKEN_CLS;
    for (size_t i = 0; i < a_bytes; i++) tokens[at++] = a[i];
    tokens[at++] = LS_TOKEN_SEP;
    const size_t boundary = at;
    for (size_t i = 0; i < b_bytes; i++) tokens[at++] = b[i];
    tokens[at++] = LS_TOKEN_SEP;
    for (size_t i = at; i < S; i++) tokens[i] = LS_TOKEN_PAD;
    for (size_t i = 0; i < S; i++) segments[i] = i >= boundary && i < at;
    return at;
}

/* Hides the byte at one place. */
static void hide(int32_t *token, int32_t *target, const uint32_t words[4])
{
    *target = *token;
    if (words[1] < (uint32_t)(0.8 * 4294967296.0))
        *token = LS_TOKEN_MASK;
    else if (words[1] < (uint32_t)(0.9 * 4294967296.0))
        *token = (int32_t)(words[2] >> 24);
}

static void hide_some(int32_t *tokens, int32_t *targets, ls_stream stream, uint64_t first_index,
                      size_t S, size_t length)
{
    const uint32_t limit = (uint32_t)(0.15 * 4294967296.0);
    uint32_t words[4], smallest = UINT32_MAX;
    size_t nearest = 0, hidden = 0; /* nearest: the byte that was nearest to being hidden */
    for (size_t s = 0; s < S; s++) {
        targets[s] = LS_IGNORE;
        if (s >= length || tokens[s] >= LS_TOKEN_CLS) continue;
        ls_random_words(stream, first_index + s, words);
        if (nearest == 0 || words[0] < smallest) {
            nearest = s; /* never 0: [CLS] is there */
            smallest = words[0];
        }
        if (words[0] >= limit) continue;
        hide(&tokens[s], &targets[s], words);
        hidden++;
    }
    if (hidden == 0) {
        ls_random_words(stream, first_index + nearest, words);
        hide(&tokens[nearest], &targets[nearest], words);
    }
}

void ls_masked_text_batch(const ls_text *text, uint64_t seed, uint32_t step, size_t first,
                          size_t sequences, size_t S, const ls_masked_arrays *ret_arrays)
{
    const ls_stream data = {seed, LS_RANDOM_DATA, 0, step};
    const ls_stream masking = {seed, LS_RANDOM_MASKING, 0, step};
    for (size_t i = 0; i < sequences; i++) {
        const uint64_t b = first + i;
        int32_t *tokens = ret_arrays->tokens + i * S;
        const spans s = choose_spans(text, data, b, S);
        const size_t length = write_spans(tokens, ret_arrays->segments + i * S, text, s, S);
        hide_some(tokens, ret_arrays->targets + i * S, masking, b * S, S, length);
        ret_arrays->lengths[i] = (int32_t)length;
        ret_arrays->order[i] = s.swapped;
    }
}
