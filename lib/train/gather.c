#include "train/gather.h"

#include <string.h>

#include "lockstep/comm/channel.h"
#include "lockstep/numerics/compare.h"
#include "lockstep/parallel/layout/placement.h"
#include "model/param_shard.h"

enum { NOBODY = -1 };

/* What comes together on rank 0. */
typedef struct gathering {
    const ls_param *param;
    const char *what;
    ls_dtype dtype;
    size_t bytes; /* of an element */
    char *whole;
    char *again; /* room for the largest shard: what is in `whole` at its place */
    int *holder; /* by granule: the last rank that it came from, or NOBODY */
} gathering;

static size_t shard_elements(const ls_param *param, ls_shard shard)
{
    size_t rows, cols;
    ls_param_shard_shape(param, shard, &rows, &cols);
    return rows * cols;
}

/* The granule, counted inside the shard, that an element of its memory belongs to. */
static size_t granule_of(const ls_param *param, size_t cols, size_t element)
{
    if (param->cut < 0) return 0;
    size_t place = param->n_dims == 1 || param->cut == 1 ? element % cols : element / cols;
    return place / param->axis.granule;
}

/* Bits decide, and NaN equals NaN (rule 1): which NaN a training that diverges ends in depends on
 * the order of an instruction's operands. */
static bool are_equal(const gathering *g, const void *a, const void *b)
{
    return memcmp(a, b, g->bytes) == 0 || ls_compare_bits(g->dtype, a, b, 1, NULL);
}

/* Puts a rank's shard into the whole tensor; what was there already must be the same. Padding is no
 * part of it, and need not stay zero once a training has diverged (0 x NaN). */
static ls_status put(gathering *g, int rank, ls_shard shard, const char *values)
{
    ls_status status = LS_OK;
    size_t rows, cols;
    const ls_shard_window w = ls_param_window(g->param, shard);
    ls_param_shard_shape(g->param, shard, &rows, &cols);
    ls_param_shard_in(g->param, shard, g->bytes, g->again, g->whole);
    for (size_t e = 0; e < rows * cols; e++) {
        if (e / w.cols >= w.real_rows || e % w.cols >= w.real_cols) continue;
        int before = g->holder[shard.first + granule_of(g->param, cols, e)];
        if (before != NOBODY && !are_equal(g, g->again + e * g->bytes, values + e * g->bytes))
            LS_FAIL(LS_ERR_RANK,
                    "the %s of %s is not the same on ranks %d and %d, which both hold it", g->what,
                    g->param->name, before, rank);
    }
    ls_param_shard_out(g->param, shard, g->bytes, g->whole, values);
    for (size_t i = 0; i < shard.count; i++) g->holder[shard.first + i] = rank;
exit:
    return status;
}

/* Rank 0: every rank's shard in turn. */
static ls_status collect(ls_group *world, const ls_layout *layout, const ls_param_table *table,
                         size_t param, ls_dtype dtype, const char *what, const void *own,
                         void *whole, ls_arena *temporary)
{
    ls_status status = LS_OK;
    const ls_param *p = &table->params[param];
    gathering g = {p, what, dtype, ls_dtype_bytes(dtype), whole, NULL, NULL};
    int ranks = ls_group_size(world);
    size_t largest = 0;
    char *room;

    for (int r = 0; r < ranks; r++) {
        ls_holding holding = ls_holding_of(table, layout, r, param);
        size_t elements = holding.held ? shard_elements(p, holding.shard) : 0;
        if (elements > largest) largest = elements;
    }
    LS_TRY(ls_arena_alloc(temporary, largest, g.bytes, (void *)&room));
    LS_TRY(ls_arena_alloc(temporary, largest, g.bytes, (void *)&g.again));
    LS_TRY(ls_arena_alloc(temporary, p->axis.granules, sizeof *g.holder, (void *)&g.holder));
    for (size_t i = 0; i < p->axis.granules; i++) g.holder[i] = NOBODY;
    for (int r = 0; r < ranks; r++) {
        ls_holding holding = ls_holding_of(table, layout, r, param);
        if (!holding.held) continue;
        if (r > 0)
            LS_TRY(ls_receive(world, r, (int)param, room, shard_elements(p, holding.shard), dtype));
        LS_TRY(put(&g, r, holding.shard, r > 0 ? room : own));
    }
exit:
    return status;
}

ls_status ls_gather_param(ls_group *world, const ls_layout *layout, const ls_param_table *table,
                          size_t param, ls_dtype dtype, const char *what, const void *own,
                          void *whole, ls_arena *temporary)
{
    ls_status status = LS_OK;
    const ls_param *p = &table->params[param];
    size_t mark = ls_arena_mark(temporary);

    if (!world) {
        ls_shard all = {0, p->axis.granules};
        ls_param_shard_out(p, all, ls_dtype_bytes(dtype), whole, own);
    } else if (ls_group_rank(world) == 0) {
        LS_TRY(collect(world, layout, table, param, dtype, what, own, whole, temporary));
    } else {
        ls_holding holding = ls_holding_of(table, layout, ls_group_rank(world), param);
        if (holding.held)
            LS_TRY(ls_send(world, 0, (int)param, own, shard_elements(p, holding.shard), dtype));
    }
exit:
    ls_arena_release(temporary, mark);
    return status;
}

size_t ls_gather_elements(const ls_param_table *table)
{
    size_t largest = 0;
    for (size_t i = 0; i < table->count; i++)
        if (ls_param_elements(&table->params[i]) > largest)
            largest = ls_param_elements(&table->params[i]);
    return largest;
}
