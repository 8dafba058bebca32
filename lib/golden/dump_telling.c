/* dump_telling.c - the batch of the telling start (GOLDEN.md, "The batch that tells"): a text's
 * batch, changed where it would let a mistake pass.
 *
 *   1. Targets count in unequal numbers: in every sequence, micro-batch, replica and shard of the
 *      tokens, so that no mean of means is the mean.
 *   2. Words at both ends of every vocabulary shard are tokens and targets that count.
 *   3. Words repeat, in a sequence and from sequence to sequence.
 *
 * In this order: what is asked for first is never undone for what comes later. */
#include "golden/dump_telling.h"

#include <stdlib.h>

#include "lockstep/model/masked_text.h"
#include "lockstep/numerics/ignore.h"
#include "lockstep/numerics/random.h"
#include "lockstep/partition/layout.h"
#include "base/allocate.h"

enum {
    MOST_TP = 12,
    MOST_ENDS = MOST_TP * (MOST_TP + 1), /* two per shard */
    REPEATS = 2                          /* of the last word, in a sequence */
};

typedef struct telling {
    const ls_config *config;
    ls_step_batch *batch;
    size_t B, S;
    bool masked;
    bool *taken; /* [B, S] words that were put there */
} telling;

static int32_t *row(const telling *t, int32_t *values, size_t b)
{
    return values + b * t->S;
}

/* ---- targets that count ---- */

static size_t rounded_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Next words: sequence b of B loses S b / (2 B), rounded up; a single one loses a quarter. The last
 * token loses its target first, then tokens at distances that grow towards the beginning. */
static void ignore_next_words(const telling *t, size_t b)
{
    const size_t S = t->S;
    int32_t *targets = row(t, t->batch->targets, b);
    size_t n = t->B == 1 ? rounded_up(S, 4) : rounded_up(S * b, 2 * t->B);
    if (n > S - 1) n = S - 1;
    for (size_t k = 0, before = S; k < n; k++) {
        const size_t place = S - 1 - S * k * k / (n * n);
        before = place < before ? place : before - 1;
        targets[before] = LS_IGNORE;
    }
}

/* A word of the text, hidden or not: no [CLS], [SEP] or [PAD]. */
static bool is_word(const telling *t, size_t b, size_t s)
{
    const int32_t token = row(t, t->batch->tokens, b)[s];
    return s < (size_t)t->batch->lengths[b] && s > 0 &&
           (t->taken[b * t->S + s] || token < LS_TOKEN_CLS || token == LS_TOKEN_MASK);
}

/* Hidden words: sequence b of B has (S - 3) (B - b) / (2 B) targets, rounded up, as far as it has
 * words. The last targets go; where there are too few the first words become targets and are not
 * hidden. */
static void count_hidden_words(const telling *t, size_t b)
{
    const size_t S = t->S;
    int32_t *targets = row(t, t->batch->targets, b);
    const int32_t *tokens = row(t, t->batch->tokens, b);
    const size_t wanted = rounded_up((S - 3) * (t->B - b), 2 * t->B);
    size_t found = 0;
    for (size_t s = 0; s < S; s++) found += targets[s] != LS_IGNORE;
    for (size_t s = S; s-- > 0 && found > wanted;)
        if (targets[s] != LS_IGNORE) targets[s] = LS_IGNORE, found--;
    for (size_t s = 0; s < S && found < wanted; s++)
        if (targets[s] == LS_IGNORE && is_word(t, b, s)) targets[s] = tokens[s], found++;
}

/* Where no sequence is padded, the last one whose second span has two words loses one. */
static void pad_one(const telling *t)
{
    ls_step_batch *batch = t->batch;
    const size_t S = t->S;
    for (size_t b = 0; b < t->B; b++)
        if ((size_t)batch->lengths[b] < S) return;
    for (size_t b = t->B; b-- > 0;) {
        int32_t *tokens = row(t, batch->tokens, b), *targets = row(t, batch->targets, b);
        int32_t *segments = row(t, batch->segments, b);
        if (S < 3 || !segments[S - 3]) continue; /* words S - 3 and S - 2, [SEP] at S - 1 */
        tokens[S - 2] = LS_TOKEN_SEP, tokens[S - 1] = LS_TOKEN_PAD;
        targets[S - 2] = LS_IGNORE, segments[S - 1] = 0;
        batch->lengths[b]--;
        return;
    }
}

/* ---- words that are put into the batch ---- */

/* Whether a word at place s of sequence b is both read and asked for, where that counts. */
static bool is_met_at(const telling *t, size_t b, size_t s)
{
    const int32_t *targets = row(t, t->batch->targets, b);
    if (t->masked) return targets[s] != LS_IGNORE;
    return s > 0 && targets[s - 1] != LS_IGNORE && targets[s] != LS_IGNORE;
}

static void put(const telling *t, size_t place, int32_t word)
{
    ls_step_batch *batch = t->batch;
    batch->tokens[place] = word;
    if (!t->masked)
        batch->targets[place - 1] = word;
    else if (batch->targets[place] != LS_IGNORE)
        batch->targets[place] = word;
    t->taken[place] = true;
}

/* Puts the word to the place among first <= b < end that has the smallest number, words that are
 * hidden last. met: where it is met; else, of hidden words' models, where it is only read. */
static bool put_somewhere(const telling *t, size_t first, size_t end, bool met, int32_t word)
{
    const ls_batch *batch = &t->batch->batch;
    const ls_stream stream = {batch->seed, LS_RANDOM_TEST, 0, batch->step};
    size_t least = 0;
    double smallest = 2;
    for (size_t i = first * t->S; i < end * t->S; i++) {
        const size_t b = i / t->S, s = i % t->S;
        if (t->taken[i] || is_met_at(t, b, s) != met || (!met && !is_word(t, b, s))) continue;
        double u = ls_random_uniform(stream, i);
        if (t->masked && batch->tokens[i] == LS_TOKEN_MASK) u += 1;
        if (u >= smallest) continue;
        smallest = u;
        least = i;
    }
    if (smallest < 2) put(t, least, word);
    return smallest < 2;
}

static size_t add_end(int32_t *ends, size_t n, size_t word)
{
    for (size_t i = 0; i < n; i++)
        if ((size_t)ends[i] == word) return n;
    ends[n] = (int32_t)word;
    return n + 1;
}

/* First and last word of every shard, of few shards first; a shard of padding has none. */
static size_t list_ends(const ls_config *config, int32_t ends[MOST_ENDS])
{
    const ls_axis rows = ls_config_vocab_axis(config);
    size_t n = 0;
    for (size_t tp = 1; tp <= MOST_TP; tp++) {
        if (rows.granules % tp != 0) continue;
        const size_t share = ls_axis_extent(rows) / tp;
        for (size_t first = 0; first < config->vocab; first += share) {
            const size_t end = first + share < config->vocab ? first + share : config->vocab;
            n = add_end(ends, n, end - 1);
            n = add_end(ends, n, first);
        }
    }
    return n;
}

static void put_ends(const telling *t, ls_dump_told *told)
{
    int32_t ends[MOST_ENDS];
    size_t met = 0;
    told->ends = list_ends(t->config, ends);
    while (met < told->ends && put_somewhere(t, 0, t->B, true, ends[met])) met++;
    if (told->steps == 0 || met < told->ends_met) told->ends_met = met;
}

static void put_repeats(const telling *t)
{
    const int32_t last = (int32_t)t->config->vocab - 1;
    for (size_t b = 0; b < t->B; b++)
        for (int n = 0; n < REPEATS; n++)
            if (!t->masked || !put_somewhere(t, b, b + 1, false, last))
                (void)put_somewhere(t, b, b + 1, true, last);
}

ls_status ls_dump_make_telling(const ls_config *config, ls_step_batch *batch, ls_dump_told *told)
{
    ls_status status = LS_OK;
    telling t = {.config = config,
                 .batch = batch,
                 .B = batch->batch.B,
                 .S = batch->batch.S,
                 .masked = config->objective == LS_MASKED_TOKEN};
    LS_NEW(t.taken, t.B * t.S + 1);
    if (t.masked) pad_one(&t);
    for (size_t b = 0; b < t.B; b++) {
        if (t.masked)
            count_hidden_words(&t, b);
        else
            ignore_next_words(&t, b);
    }
    if (t.masked && t.B > 1) batch->order[t.B - 1] = LS_IGNORE;
    put_ends(&t, told);
    put_repeats(&t);
    for (size_t i = 0; i < t.B * t.S; i++) told->targets += batch->targets[i] != LS_IGNORE;
    told->tokens += t.B * t.S;
    told->steps++;
exit:
    free(t.taken);
    return status;
}
