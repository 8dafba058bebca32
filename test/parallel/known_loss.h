/* known_loss.h - a model whose loss and gradients are known beforehand, and batches with unequal
 * numbers of targets: for tests of what a target weighs. */
#ifndef TEST_PARALLEL_KNOWN_LOSS_H
#define TEST_PARALLEL_KNOWN_LOSS_H

#include "stage_fixture.h"

/* A model whose loss is known beforehand: only head row v has an entry, z_v, that meets the final
 * norm's shift (1, 0, ...), so every token's logits are z. Five rows, spread over the ranks, have
 * z_v = -k for k = 1, 2, 3, 4, 7; z_0 makes the sum of exponentials 1; all else is far below. So a
 * target in row `row_of_loss[k]` costs k. */
enum { V = 300, MOST_TOKENS = 102 };

static const int32_t row_of_loss[8] = {-1, 40, 299, 130, 200, -1, -1, 75};

typedef struct known_loss {
    ls_param_table *table;
    double *values;
    double p[8]; /* e^-k: what softmax gives row_of_loss[k] */
} known_loss;

static inline known_loss known_loss_begin(void)
{
    ls_config config = tiny_base("known loss");
    known_loss k = {NULL, NULL, {0}};
    config.layers = 1;
    config.heads = config.kv_heads = config.d_model = config.d_ff = 12;
    config.seq = MOST_TOKENS;
    config.vocab = V;
    config.tied = false;
    config.dropout = 0;
    ck_assert_msg(ls_param_table_create(&k.table, &config) == LS_OK, "%s", ls_error_text());
    k.values = calloc(ls_param_table_elements(k.table), sizeof *k.values);
    double *shift =
        k.values + place_in_table(k.table, ls_param_find(k.table, LS_FINAL_NORM_SHIFT, 0));
    double *head = k.values + place_in_table(k.table, ls_param_find(k.table, LS_HEAD_WEIGHT, 0));
    double rest = 1;
    shift[0] = 1;
    for (size_t v = 0; v < V; v++) head[v * 12] = -1000;
    for (int cost = 1; cost < 8; cost++) {
        if (row_of_loss[cost] < 0) continue;
        head[row_of_loss[cost] * 12] = -cost;
        rest -= k.p[cost] = exp(-cost);
    }
    head[0] = log(rest);
    return k;
}

static inline void known_loss_end(known_loss *k)
{
    free(k->values);
    ls_param_table_destroy(&k->table);
}

/* ---- batches ---- */

enum { MOST_SEQUENCES = 8 };

/* Sequence b has counts[b] targets of cost costs[b]; they begin at place b, all others are ignored.
 */
typedef struct example {
    const char *what;
    size_t B, counts[MOST_SEQUENCES], costs[MOST_SEQUENCES];
    double loss;
} example;

static const example examples[] = {
    {"samples of 10 and 100 targets (mean of means: 1.5)", 2, {10, 100}, {1, 2}, 210.0 / 110},
    {"sums 1 of 1 and 9 of 3 (mean of means: 2, not divided: 10)", 2, {1, 3}, {1, 3}, 2.5},
    {"five targets of 1 and one of 7 (mean of means: 4)", 2, {5, 1}, {1, 7}, 2},
    {"1, 2, 3, 4 targets (in pairs: 2.62, alone: 2.5)", 4, {1, 2, 3, 4}, {1, 2, 3, 4}, 3},
    {"a sequence without targets (0 / 0: NaN; as a mean of 0: 1.5)", 2, {3, 0}, {3, 1}, 3},
    {"one of six tokens ignored (over all rows: 2.5)", 1, {5}, {3}, 3},
    {"a target of a sequence each (summed over them: 20)",
     8,
     {1, 1, 1, 1, 1, 1, 1, 1},
     {1, 2, 3, 4, 1, 1, 7, 1},
     2.5},
    {"no target at all", 3, {0, 0, 0}, {1, 2, 3}, 0},
};
enum { EXAMPLES = sizeof examples / sizeof examples[0] };

/* Its tokens and targets, *ret_S a sequence. */
static inline void example_fill(const example *e, size_t *ret_S, int32_t *tokens, int32_t *targets)
{
    size_t S = 0;
    for (size_t b = 0; b < e->B; b++)
        if (S < b + e->counts[b] + 1) S = b + e->counts[b] + 1;
    ck_assert_uint_le(S, MOST_TOKENS);
    for (size_t t = 0; t < e->B * S; t++) {
        size_t b = t / S, s = t % S;
        bool counts = s >= b && s < b + e->counts[b];
        tokens[t] = (int32_t)(t * 7 % V);
        targets[t] = counts ? row_of_loss[e->costs[b]] : LS_IGNORE;
    }
    *ret_S = S;
}

static inline size_t example_targets(const example *e)
{
    size_t valid = 0;
    for (size_t b = 0; b < e->B; b++) valid += e->counts[b];
    return valid;
}

/* The gradient of the entry of the head's row that costs k: the sum over the targets of (p_v -
 * [target is v]) / valid, p_v - n_v / valid; a token of the short sample weighs 1/110, not 0.05,
 * one of the long sample not 0.005. */
static inline double example_row_gradient(const example *e, const known_loss *known, size_t k)
{
    double valid = (double)example_targets(e), right = valid > 0 ? known->p[k] : 0;
    for (size_t b = 0; b < e->B; b++)
        if (e->costs[b] == k && valid > 0) right -= (double)e->counts[b] / valid;
    return right;
}

/* Of the shift that meets these entries. */
static inline double example_shift_gradient(const example *e, const known_loss *known)
{
    const double *head =
        known->values +
        place_in_table(known->table, ls_param_find(known->table, LS_HEAD_WEIGHT, 0));
    double shift = 0;
    for (size_t k = 1; k < 8; k++)
        if (row_of_loss[k] >= 0) shift -= example_row_gradient(e, known, k) * (double)k;
    /* row 0, too: its share of the softmax */
    return example_targets(e) > 0 ? shift + exp(head[0]) * head[0] : 0;
}

#endif
