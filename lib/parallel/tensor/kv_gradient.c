/* dK_j = sum over the query heads h of the group of kv head j: dK through h (contract rule 12), and
 * dV_j likewise. Where several ranks hold the head, each adds the complete subtrees of its own
 * query heads, and an all-reduce among them adds these in the order of the tree. */
#include <string.h>

#include "base/size.h"
#include "lockstep/numerics/tree.h"
#include "parallel/tensor/attention_core.h"

/* Copies head j's columns of a tokens x kv_width array to or from a contiguous one. */
static void take_head(ls_real *packed, const ls_real *wide, size_t rows, size_t wide_width,
                      size_t j, size_t width)
{
    for (size_t t = 0; t < rows; t++)
        memcpy(packed + t * width, wide + t * wide_width + j * width, width * sizeof *packed);
}

static void put_head(ls_real *wide, const ls_real *packed, size_t rows, size_t wide_width, size_t j,
                     size_t width)
{
    for (size_t t = 0; t < rows; t++)
        memcpy(wide + t * wide_width + j * width, packed + t * width, width * sizeof *packed);
}

/* Shows what goes into the sum of shared head j, or its total: all tokens x width of the head. */
static ls_status look_shared(const ls_tensor_parallel *tp, const ls_attention_block *block,
                             const ls_attention_shard *own, ls_view view, size_t j,
                             const ls_real *values)
{
    if (!tp->observation) return LS_OK;
    const ls_view_run dims[] = {
        ls_whole_run(tp->observation->batch->S),
        {block->kv_heads * own->width, (own->kv_first + j) * own->width, own->width}};
    view.gradient = true;
    return ls_observe_show(tp, view, 2, dims, values, 0);
}

/* The sum for head j, whose columns of d it writes. */
static ls_status sum_head(const ls_tensor_parallel *tp, const ls_attention_block *block,
                          const ls_attention_shard *own, ls_point point, size_t j, size_t rows,
                          ls_real *const *parts, ls_real *d)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_group *sharers = block->kv->sharers[j];
    size_t count = rows * own->width, first = 0, end = own->group, n_nodes;
    ls_forest forest = {own->group, NULL};
    ls_node nodes[LS_FOREST_MAX];
    ls_real *partials, *leaves;

    if (sharers) {
        forest.bounds = block->kv->bounds[j];
        first = forest.bounds[ls_group_rank(sharers)];
        end = forest.bounds[ls_group_rank(sharers) + 1];
    }
    n_nodes = ls_tree_forest(own->group, first, end, nodes);
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(n_nodes, count), sizeof *partials,
                          (void *)&partials));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(own->group, count), sizeof *leaves,
                          (void *)&leaves));
    for (size_t i = 0; i < n_nodes; i++) {
        size_t under = nodes[i].hi - nodes[i].lo;
        for (size_t t = 0; t < under; t++)
            take_head(leaves + t * count, parts[nodes[i].lo + t], rows, own->kv_width, j,
                      own->width);
        ls_tree_sum_rows(partials + i * count, leaves, ls_axis_whole(under), count, count);
        const ls_view part = {.point = point,
                              .comm = LS_COMM_PARTIAL,
                              .lo = nodes[i].lo,
                              .hi = nodes[i].hi,
                              .leaves = own->group};
        if (sharers) LS_TRY(look_shared(tp, block, own, part, j, partials + i * count));
    }
    if (sharers) {
        const ls_view total = {.point = point, .comm = LS_COMM_TOTAL};
        LS_TRY(ls_all_reduce_forest(sharers, partials, partials, count, LS_REAL_DTYPE, &forest));
        LS_TRY(look_shared(tp, block, own, total, j, partials));
    }
    put_head(d, partials, rows, own->kv_width, j, own->width);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_kv_gradient(const ls_tensor_parallel *tp, const ls_attention_block *block,
                         ls_point point, size_t rows, ls_real *const *parts, ls_real *d)
{
    ls_status status = LS_OK;
    const ls_attention_shard own = ls_attention_shard_of(tp, block);
    if (own.group == 1) /* nothing to add */
        memcpy(d, parts[0], rows * own.kv_width * sizeof *d);
    else
        for (size_t j = 0; j < own.kvs; j++)
            LS_TRY(sum_head(tp, block, &own, point, j, rows, parts, d));
exit:
    return status;
}
