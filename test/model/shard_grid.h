/* shard_grid.h - models and layouts for tests of shards, and who holds what, written down anew from
 * the contract (rules 7 and 12) and not from the library's own code. */
#ifndef TEST_MODEL_SHARD_GRID_H
#define TEST_MODEL_SHARD_GRID_H

#include <check.h>
#include <string.h>

#include "lockstep/model/param_table.h"

enum { GRID_MODELS = 6 };

/* Models whose tables have every kind of cut: tied and not, shared kv heads, padding of the
 * vocabulary from none to almost all, granules of odd width, both cuts of the MLP. */
static inline ls_config grid_model(int i)
{
    static const char *const names[GRID_MODELS] = {"gpt2-nano",  "llama-nano", "gpt2-nano",
                                                   "llama-nano", "gpt2-nano",  "llama-nano"};
    ls_config c;
    ck_assert_int_eq(ls_config_named(names[i], &c), LS_OK);
    c.layers = 2;
    if (i == 2) { /* row-first, more query than kv heads, an odd feed-forward width */
        c.mlp_cut = LS_MLP_ROW_FIRST;
        c.heads = 6;
        c.kv_heads = 3;
        c.d_model = 30;
        c.d_ff = 21;
        c.vocab = 385;
    }
    if (i == 3) { /* one kv head for all; all but five rows of the vocabulary are padding */
        c.kv_heads = 1;
        c.vocab = 5;
        c.d_ff = 36;
    }
    if (i == 4) { /* nothing padded; widths of one element; not tied */
        c.heads = c.kv_heads = c.d_model = 8;
        c.d_ff = 16;
        c.vocab = 128;
        c.seq = 3;
        c.tied = false;
    }
    if (i == 5) { /* legal tp does not divide the kv heads */
        c.kv_heads = 6;
        c.bias = true;
        c.activation = LS_GELU_ERF;
        c.d_ff = 60;
        c.vocab = 299;
        c.tied = true;
    }
    return c;
}

/* Whether tp ranks can share the model: tp divides the granules of every axis. */
static inline int grid_legal(const ls_config *c, size_t tp)
{
    return c->heads % tp == 0 && ls_config_ff_axis(c).granules % tp == 0;
}

/* The run of granules that rank r of tp holds of a parameter. */
static inline ls_shard grid_shard(const ls_config *c, const ls_param *param, size_t tp, size_t r)
{
    if (param->kind == LS_GRANULE_NONE) return (ls_shard){0, 1};
    if (param->kind == LS_GRANULE_KV_HEADS) {
        /* Those that its query heads use, also when others use them too. */
        size_t group = c->heads / c->kv_heads, share = c->heads / tp;
        size_t first = r * share / group, last = ((r + 1) * share - 1) / group;
        return (ls_shard){first, last - first + 1};
    }
    size_t share = param->axis.granules / tp;
    return (ls_shard){r * share, share};
}

/* Where element (row, col) of a shard, row x col as it lies in memory, stands in the logical
 * tensor; -1 for padding. */
static inline long grid_place(const ls_param *param, ls_shard shard, size_t row, size_t col)
{
    size_t skipped = param->cut < 0 ? 0 : shard.first * param->axis.granule;
    if (param->n_dims == 1) { /* lies along a row */
        if (row != 0) ck_abort_msg("%s: a vector is one row", param->name);
        return col + skipped < param->dims[0] ? (long)(col + skipped) : -1;
    }
    if (param->cut == 0) row += skipped;
    if (param->cut == 1) col += skipped;
    if (row >= param->dims[0] || col >= param->dims[1]) return -1;
    return (long)(row * param->dims[1] + col);
}

#endif
