/* test_dump_telling.c - the batch that tells: what lib/golden/GOLDEN.md says of it, many sizes.
 */
#include "lockstep/model/masked_text.h"
#include "lockstep/numerics/ignore.h"
#include "lockstep/partition/share.h"
#include "golden/dump_fixture.h"
#include "golden/dump_telling.h"
#include "run_tests.h"

static ls_config config;
static ls_text text;

/* ---- the batch ---- */

typedef struct batch_of {
    ls_run run;
    ls_step_batch plain, batch; /* as the text has it, and changed */
    ls_dump_told told;
    size_t B, S;
} batch_of;

static void make_batch(batch_of *m, const ls_config *of, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    config = *of;
    text = fixture_text();
    m->run = fixture_run(&config, &text, 1);
    m->run.seed = seed;
    m->B = config.batch, m->S = config.seq;
    ASSERT_OK(ls_step_batch_create(&m->plain, &m->run, 0, m->B));
    ASSERT_OK(ls_step_batch_create(&m->batch, &m->run, 0, m->B));
    ls_step_batch_fill(&m->plain, &m->run, 0);
    ls_step_batch_fill(&m->batch, &m->run, 0);
    ASSERT_OK(ls_dump_make_telling(&config, &m->batch, &m->told));
}

static void free_batch(batch_of *m)
{
    ls_step_batch_free(&m->plain);
    ls_step_batch_free(&m->batch);
}

static size_t targets_in(const batch_of *m, ls_share sequences, ls_share tokens)
{
    size_t n = 0;
    for (size_t b = sequences.first; b < sequences.first + sequences.count; b++)
        for (size_t s = tokens.first; s < tokens.first + tokens.count; s++)
            n += m->batch.targets[b * m->S + s] != LS_IGNORE;
    return n;
}

/* A mean of `parts` means is not the mean: those that are as large as the first differ. */
static void expect_unequal(const batch_of *m, size_t parts, bool tokens)
{
    const ls_share all_b = {0, m->B}, all_s = {0, m->S};
    bool unequal = false;
    size_t first = 0;
    for (size_t p = 0; p < parts; p++) {
        const ls_share part = ls_share_of(tokens ? m->S : m->B, parts, p);
        const size_t n = tokens ? targets_in(m, all_b, part) : targets_in(m, part, all_s);
        if (p == 0) first = n;
        unequal |= n != first;
    }
    ck_assert_msg(unequal, "%s, B %zu, S %zu: %zu runs of %s have %zu targets each", config.name,
                  m->B, m->S, parts, tokens ? "tokens" : "sequences", first);
}

/* How often a word is read and asked for where both count. */
static size_t times_met(const batch_of *m, size_t b, int32_t word)
{
    const int32_t *tokens = m->batch.tokens + b * m->S, *targets = m->batch.targets + b * m->S;
    const size_t before = config.objective == LS_MASKED_TOKEN ? 0 : 1;
    size_t n = 0;
    for (size_t s = before; s < m->S; s++)
        n += tokens[s] == word && targets[s] != LS_IGNORE && targets[s - before] == word;
    return n;
}

static void expect_word_met(const batch_of *m, size_t word)
{
    size_t n = 0;
    for (size_t b = 0; b < m->B; b++) n += times_met(m, b, (int32_t)word);
    ck_assert_msg(n > 0, "%s, B %zu, S %zu: word %zu is not met", config.name, m->B, m->S, word);
}

/* Counted here once more: the rows of tp shards of a vocabulary padded to 128 and the heads. */
static void expect_ends_met(const batch_of *m)
{
    size_t padded = 0;
    do padded += 128;
    while (padded < config.vocab || padded % config.heads != 0);
    for (size_t tp = 1; tp <= 12; tp++) {
        if (config.heads % tp != 0) continue;
        for (size_t r = 0; r < tp; r++) {
            const size_t first = r * padded / tp, end = (r + 1) * padded / tp;
            if (first >= config.vocab) continue;
            expect_word_met(m, first);
            expect_word_met(m, (end < config.vocab ? end : config.vocab) - 1);
        }
    }
    ck_assert_uint_eq(m->told.ends_met, m->told.ends);
    ck_assert_uint_gt(m->told.ends, 2);
}

static void expect_next_words(const batch_of *m)
{
    const ls_share tokens = {0, m->S};
    for (size_t b = 0; b < m->B; b++) {
        const int32_t *x = m->batch.tokens + b * m->S, *y = m->batch.targets + b * m->S;
        const int32_t *last = m->plain.targets + (b + 1) * m->S - 1;
        for (size_t s = 0; s < m->S; s++)
            ck_assert(y[s] == LS_IGNORE || y[s] == (s + 1 < m->S ? x[s + 1] : *last));
        const size_t n = targets_in(m, (ls_share){b, 1}, tokens);
        ck_assert_uint_ge(n, 1);
        if (b > 0 && m->S >= 2 * m->B)
            ck_assert_uint_lt(n, targets_in(m, (ls_share){b - 1, 1}, tokens));
    }
    if (m->B > 1) ck_assert_uint_eq(targets_in(m, (ls_share){0, 1}, tokens), m->S);
}

/* Whether what is put there leaves some words of the text: sequences may be short. */
static bool is_roomy(const batch_of *m)
{
    size_t words = 0;
    for (size_t b = 0; m->batch.lengths && b < m->B; b++) words += (size_t)m->batch.lengths[b] - 3;
    return !m->batch.lengths || words >= 3 * (m->told.ends + 2 * m->B);
}

/* [CLS] words [SEP] words [SEP] padding; a target is the hidden word, or the one that is there. */
static void expect_hidden_words(const batch_of *m)
{
    size_t padded = 0, hidden = 0, were_hidden = 0;
    for (size_t b = 0; b < m->B; b++) {
        const int32_t *x = m->batch.tokens + b * m->S, *y = m->batch.targets + b * m->S;
        const int32_t *segments = m->batch.segments + b * m->S;
        const size_t length = (size_t)m->batch.lengths[b];
        size_t boundary = 0;
        padded += length < m->S;
        ck_assert_int_eq(x[0], LS_TOKEN_CLS);
        ck_assert_int_eq(x[length - 1], LS_TOKEN_SEP);
        ck_assert_int_eq(y[length - 1], LS_IGNORE);
        while (!segments[boundary]) boundary++;
        ck_assert_int_eq(x[boundary - 1], LS_TOKEN_SEP);
        ck_assert_uint_ge(length, boundary + 2);
        for (size_t s = 0; s < m->S; s++) {
            ck_assert_int_eq(segments[s], s >= boundary && s < length);
            if (s >= length) ck_assert(x[s] == LS_TOKEN_PAD && y[s] == LS_IGNORE);
            hidden += x[s] == LS_TOKEN_MASK && y[s] != LS_IGNORE;
            were_hidden += m->plain.tokens[b * m->S + s] == LS_TOKEN_MASK;
        }
        ck_assert_int_eq(y[0], LS_IGNORE);
        ck_assert_uint_ge(targets_in(m, (ls_share){b, 1}, (ls_share){0, m->S}), 1);
        ck_assert((m->batch.order[b] == LS_IGNORE) == (b > 0 && b == m->B - 1));
    }
    ck_assert_uint_gt(padded, 0);
    if (is_roomy(m) && were_hidden > 0) ck_assert_uint_gt(hidden, 0);
}

typedef struct size_of {
    size_t B, S, heads, vocab;
} size_of;

/* Built-in sizes, vocabularies that shards do not divide, many heads, one sequence. */
static const size_of sizes[] = {{8, 24, 12, 256}, {5, 11, 6, 263},     {4, 10, 4, 263},
                                {6, 32, 8, 512},  {16, 64, 12, 50257}, {2, 40, 10, 1000},
                                {3, 48, 11, 300}, {1, 32, 2, 260}};
enum { SIZES = sizeof sizes / sizeof sizes[0], SEEDS = 5 };

START_TEST(batches_that_tell)
{
    const size_of *size = &sizes[_i % SIZES];
    const bool masked = _i >= SIZES;
    ls_config of = fixture_config(masked ? "bert-nano" : "gpt2-nano");
    of.batch = size->B, of.seq = size->S, of.vocab = size->vocab;
    of.heads = of.kv_heads = size->heads;
    of.d_model = of.d_ff = 2 * size->heads;
    if (masked && of.vocab < LS_MASKED_VOCAB) of.vocab = LS_MASKED_VOCAB;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        batch_of m;
        make_batch(&m, &of, seed);
        if (masked)
            expect_hidden_words(&m);
        else
            expect_next_words(&m);
        expect_ends_met(&m);
        for (size_t parts = 2; parts <= m.B; parts++) expect_unequal(&m, parts, false);
        for (size_t parts = 2; parts <= 12 && parts <= m.S; parts++)
            expect_unequal(&m, parts, true);
        const int32_t last = (int32_t)of.vocab - 1;
        for (size_t b = 0; b < m.B; b++) {
            size_t n = 0;
            for (size_t s = 0; s < m.S; s++) n += m.batch.tokens[b * m.S + s] == last;
            if (is_roomy(&m) && (!masked || m.batch.lengths[b] >= 8)) ck_assert_uint_ge(n, 2);
        }
        free_batch(&m);
    }
}
END_TEST

/* As much as fits: every size from one word on, ids inside the vocabulary, something ignored and
 * something left, and the facts say what did not fit. */
START_TEST(too_small_for_all)
{
    ls_config of = fixture_config("gpt2-nano");
    of.vocab = 256;
    for (size_t B = 1; B <= 4; B++)
        for (size_t S = 1; S <= 6; S++) {
            batch_of m;
            of.batch = B, of.seq = S;
            make_batch(&m, &of, 7);
            expect_next_words(&m);
            const size_t n = targets_in(&m, (ls_share){0, B}, (ls_share){0, S});
            ck_assert_uint_eq(n, m.told.targets);
            ck_assert_uint_eq(B * S, m.told.tokens);
            ck_assert(S == 1 ? n == B * S : n < B * S);
            ck_assert_uint_eq(m.told.ends, 16);
            ck_assert_uint_lt(m.told.ends_met, 16);
            /* the last word is the most important */
            if (m.told.ends_met > 0) expect_word_met(&m, 255);
            ck_assert(m.told.ends_met > 0 || S <= 3);
            for (size_t i = 0; i < B * S; i++)
                ck_assert(m.batch.tokens[i] >= 0 && m.batch.tokens[i] < 256);
            free_batch(&m);
        }
    of = fixture_config("bert-nano");
    for (size_t B = 1; B <= 3; B++)
        for (size_t S = 5; S <= 9; S++) {
            batch_of m;
            of.batch = B, of.seq = S;
            make_batch(&m, &of, 3);
            for (size_t b = 0; b < B; b++)
                ck_assert_uint_ge(targets_in(&m, (ls_share){b, 1}, (ls_share){0, S}), 1);
            free_batch(&m);
        }
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("dump_telling", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, batches_that_tell, 0, 2 * SIZES);
    tcase_add_test(tcase, too_small_for_all);
    return run_tests();
}
