/* test_masked_text.c - batches for a masked-token model: two spans, their order, hidden bytes. */
#include <math.h>
#include <stdint.h>

#include "io/scratch.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/masked_text.h"
#include "lockstep/numerics/random.h"
#include "run_tests.h"

enum { COUNT = 997, S = 24, B = 8, MOST_S = 40 };

/* Every run of three bytes says where it stands. */
static ls_text counting(unsigned char bytes[COUNT])
{
    for (int i = 0; i < COUNT; i++) bytes[i] = (unsigned char)(i * 7 + i / 256);
    return (ls_text){bytes, COUNT};
}

typedef struct room {
    int32_t tokens[B + 1][MOST_S], targets[B + 1][MOST_S], segments[B + 1][MOST_S];
    int32_t lengths[B + 1], order[B + 1];
    size_t S;
} room;

static room batch_of(const ls_text *text, uint64_t seed, uint32_t step, size_t first, size_t n,
                     size_t width)
{
    room r = {.S = width};
    int32_t ids[3][(B + 1) * MOST_S];
    memset(ids, 0x55, sizeof ids);
    memset(r.lengths, 0x55, sizeof r.lengths);
    memset(r.order, 0x55, sizeof r.order);
    const ls_masked_arrays arrays = {ids[0], ids[1], ids[2], r.lengths, r.order};
    ls_masked_text_batch(text, seed, step, first, n, width, &arrays);
    for (size_t i = n * width; i < (B + 1) * MOST_S; i++) /* nothing behind */
        for (int a = 0; a < 3; a++) ck_assert_int_eq(ids[a][i], 0x55555555);
    ck_assert(r.lengths[n] == 0x55555555 && r.order[n] == 0x55555555);
    for (size_t b = 0; b < n; b++) {
        memcpy(r.tokens[b], ids[0] + b * width, width * sizeof(int32_t));
        memcpy(r.targets[b], ids[1] + b * width, width * sizeof(int32_t));
        memcpy(r.segments[b], ids[2] + b * width, width * sizeof(int32_t));
    }
    return r;
}

/* The byte that stood at a place before anything was hidden. */
static int32_t original(const room *r, size_t b, size_t s)
{
    return r->targets[b][s] == LS_IGNORE ? r->tokens[b][s] : r->targets[b][s];
}

/* By the definition, from the same random numbers. */
static void assert_sequence(const room *r, size_t b, const ls_text *text, uint64_t seed,
                            uint32_t step, uint64_t number)
{
    const size_t W = r->S;
    const ls_stream data = {seed, LS_RANDOM_DATA, 0, step};
    const ls_stream masking = {seed, LS_RANDOM_MASKING, 0, step};
    double u[4];
    for (uint64_t i = 0; i < 4; i++) u[i] = ls_random_uniform(data, 4 * number + i);
    size_t n = u[0] < 0.5 ? W - 3 : 2 + (size_t)((2 * u[0] - 1) * (double)(W - 4));
    size_t cut = 1 + (size_t)(u[1] * (double)(n - 1));
    size_t start = (size_t)(u[2] * (double)(text->count - n + 1));
    bool swapped = u[3] >= 0.5;
    size_t a = swapped ? n - cut : cut; /* bytes of the span that comes first */
    ck_assert(n >= 2 && n <= W - 3 && cut >= 1 && cut < n && start + n <= text->count);
    ck_assert_int_eq(r->lengths[b], (int32_t)n + 3);
    ck_assert_int_eq(r->order[b], swapped);

    size_t hidden = 0, wished = 0, nearest = 0;
    uint32_t least = UINT32_MAX, w[4];
    for (size_t s = 1; s < n + 2; s++) {
        if (s == a + 1) continue;
        ls_random_words(masking, number * W + s, w);
        if (w[0] < least) least = w[0], nearest = s;
        wished += w[0] < 644245094; /* 0.15 2^32 */
    }
    for (size_t s = 0; s < W; s++) {
        int32_t expected = s == 0                     ? LS_TOKEN_CLS
                           : s == a + 1 || s == n + 2 ? LS_TOKEN_SEP
                           : s > n + 2                ? LS_TOKEN_PAD
                                                      : -1;
        ck_assert_int_eq(r->segments[b][s], s > a + 1 && s <= n + 2);
        if (expected >= 0) {
            ck_assert_int_eq(r->tokens[b][s], expected);
            ck_assert_int_eq(r->targets[b][s], LS_IGNORE);
            continue;
        }
        size_t i = s <= a ? s - 1 : s - a - 2; /* place inside its span */
        bool second = (s > a) != swapped;      /* which of the text's two spans that is */
        ck_assert_int_eq(original(r, b, s), text->bytes[start + (second ? cut : 0) + i]);
        ls_random_words(masking, number * W + s, w);
        bool hide = wished ? w[0] < 644245094 : s == nearest;
        ck_assert_int_eq(r->targets[b][s] != LS_IGNORE, hide);
        if (!hide) continue;
        hidden++;
        ck_assert_int_eq(r->tokens[b][s], w[1] < 3435973836   ? LS_TOKEN_MASK /* 0.8 2^32 */
                                          : w[1] < 3865470566 ? (int32_t)(w[2] >> 24)
                                                              : r->targets[b][s]);
    }
    ck_assert_uint_ge(hidden, 1);
}

START_TEST(batch_is_the_definition)
{
    static const size_t widths[] = {5, 6, 7, 24, 40};
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    for (size_t i = 0; i < 5; i++)
        for (uint32_t step = 0; step < 60; step++) {
            room r = batch_of(&text, 1234, step, 0, B, widths[i]);
            for (size_t b = 0; b < B; b++) assert_sequence(&r, b, &text, 1234, step, b);
        }
}
END_TEST

/* Whoever asks for a part of a batch gets that part. */
START_TEST(slices_of_a_batch)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    room whole = batch_of(&text, 5, 9, 0, B, S);
    for (size_t first = 0; first <= B; first++)
        for (size_t n = 0; first + n <= B; n++) {
            room part = batch_of(&text, 5, 9, first, n, S);
            for (size_t b = 0; b < n; b++) {
                ck_assert(memcmp(part.tokens[b], whole.tokens[first + b], S * 4) == 0);
                ck_assert(memcmp(part.targets[b], whole.targets[first + b], S * 4) == 0);
                ck_assert(memcmp(part.segments[b], whole.segments[first + b], S * 4) == 0);
                ck_assert_int_eq(part.lengths[b], whole.lengths[first + b]);
                ck_assert_int_eq(part.order[b], whole.order[first + b]);
            }
        }
}
END_TEST

/* The shares that BERT was trained with, within five standard deviations; every length, both
 * orders, unequal numbers of targets. */
START_TEST(shares)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    double places = 0, hidden = 0, masked = 0, kept = 0, swapped = 0, full = 0, sequences = 0;
    int lengths[S + 1] = {0}, counts[S + 1] = {0};
    for (uint32_t step = 0; step < 2000; step++) {
        room r = batch_of(&text, 77, step, 0, B, S);
        for (size_t b = 0; b < B; b++, sequences++) {
            int here = 0;
            lengths[r.lengths[b]]++;
            swapped += r.order[b];
            full += r.lengths[b] == S;
            for (size_t s = 0; s < S; s++) {
                places += original(&r, b, s) < 256;
                if (r.targets[b][s] == LS_IGNORE) continue;
                here++;
                masked += r.tokens[b][s] == LS_TOKEN_MASK;
                kept += r.tokens[b][s] == r.targets[b][s];
            }
            counts[here]++;
            hidden += here;
        }
    }
#define NEAR(part, all, share)                                                                     \
    ck_assert_msg(fabs((part) / (all) - (share)) < 5 * sqrt((share) * (1 - (share)) / (all)),      \
                  #part ": %g of %g, not %g", part, all, share)
    NEAR(masked, hidden, 0.8);
    NEAR(kept, hidden, 0.1 + 0.1 / 256); /* a random byte may be the byte itself */
    NEAR(swapped, sequences, 0.5);
    NEAR(full, sequences, 0.5 + 0.5 / (S - 4));
#undef NEAR
    /* Above 15 %: a sequence where nobody was chosen hides one byte all the same. */
    ck_assert(hidden / places > 0.15 && hidden / places < 0.18);
    for (int n = 5; n <= S; n++) ck_assert_int_gt(lengths[n], 0);
    for (int n = 1; n <= 5; n++) ck_assert_int_gt(counts[n], 0);
    ck_assert(lengths[4] == 0 && counts[0] == 0);
}
END_TEST

START_TEST(seeds_and_steps_differ)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    room a = batch_of(&text, 1, 0, 0, B, S), same = batch_of(&text, 1, 0, 0, B, S);
    ck_assert(memcmp(a.tokens, same.tokens, sizeof a.tokens) == 0);
    room b = batch_of(&text, 1, 1, 0, B, S), c = batch_of(&text, 2, 0, 0, B, S);
    ck_assert(memcmp(a.tokens, b.tokens, sizeof a.tokens) != 0);
    ck_assert(memcmp(a.tokens, c.tokens, sizeof a.tokens) != 0);
    ck_assert(memcmp(a.tokens[0], a.tokens[1], sizeof a.tokens[0]) != 0);
}
END_TEST

/* The shortest text is all used, and nothing beyond it; it lies at the end of its block, so that a
 * step too far is seen by a sanitizer. */
START_TEST(shortest_texts)
{
    for (size_t extra = 0; extra <= 2; extra++) {
        ls_text text = {malloc(S - 3 + extra), S - 3 + extra};
        for (size_t i = 0; i < text.count; i++) text.bytes[i] = (unsigned char)(200 + i);
        ASSERT_OK(ls_masked_text_check(&text, "t", S, 260));
        bool seen[64] = {false};
        for (uint32_t step = 0; step < 40; step++) {
            room r = batch_of(&text, 3, step, 0, B, S);
            for (size_t b = 0; b < B; b++) {
                assert_sequence(&r, b, &text, 3, step, b);
                for (size_t s = 0; s < S; s++)
                    if (original(&r, b, s) < 256) seen[original(&r, b, s) - 200] = true;
            }
        }
        for (size_t i = 0; i < text.count; i++) ck_assert(seen[i]);
        free(text.bytes);
    }
}
END_TEST

START_TEST(check_of_length_and_vocabulary)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    ls_config bert, gpt;
    ASSERT_OK(ls_masked_text_check(&text, "t", 1000, 260));
    ASSERT_SAYS(ls_masked_text_check(&text, "t\n", 1001, 260), LS_ERR_INPUT, "t\\x0a: 997 bytes",
                "--seq 1001", "at least 998");
    ASSERT_SAYS(ls_masked_text_check(&text, "t", 4, 260), LS_ERR_INPUT,
                "--seq 4: ", "use at least 5");
    ASSERT_SAYS(ls_masked_text_check(&text, "t", 24, 259), LS_ERR_INPUT,
                "--vocab 259: ", "use at least 260");
    ASSERT_OK(ls_masked_text_check(&text, "t", 5, 30522));

    ASSERT_OK(ls_config_named("bert-nano", &bert));
    ASSERT_OK(ls_config_named("gpt2-nano", &gpt));
    bert.vocab = gpt.vocab = 256;
    ASSERT_OK(ls_text_check_model(&text, "t", &gpt));
    ASSERT_SAYS(ls_text_check_model(&text, "t", &bert), LS_ERR_INPUT, "--vocab 256: ");
    text.count = gpt.seq;
    ASSERT_SAYS(ls_text_check_model(&text, "t", &gpt), LS_ERR_INPUT, "t: 24 bytes");
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("masked_text", 0);
    tcase_add_test(tcase, batch_is_the_definition);
    tcase_add_test(tcase, slices_of_a_batch);
    tcase_add_test(tcase, shares);
    tcase_add_test(tcase, seeds_and_steps_differ);
    tcase_add_test(tcase, shortest_texts);
    tcase_add_test(tcase, check_of_length_and_vocabulary);
    return run_tests();
}
