#include "comm/forest_call.h"

#include "base/size.h"
#include "comm/collective.h"
#include "comm/forest_finish.h"

ls_status ls_forest_prepare(ls_group *group, const ls_forest *forest, size_t count, ls_dtype dtype,
                            size_t *ret_bytes, void **ret_scratch)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, n_parts = 0, bytes = 0;
    if (dtype != LS_F32 && dtype != LS_F64)
        LS_FAIL(LS_ERR_INPUT, "a forest of %s: only F32 and F64 are added in a tree",
                ls_dtype_name(dtype));
    LS_TRY(ls_check_starts("forest bounds", forest->bounds, size));
    if (forest->bounds[size] != forest->leaves)
        LS_FAIL(LS_ERR_INPUT, "forest bounds[%zu] is %zu, must be the number of leaves, %zu", size,
                forest->bounds[size], forest->leaves);
    for (size_t m = 0; m < size; m++) {
        size_t lo = forest->bounds[m], hi = forest->bounds[m + 1];
        bool own = m == (size_t)group->member;
        size_t n = ls_tree_forest(forest->leaves, lo, hi, own ? group->forest : NULL);
        if (own) group->team->posts[m].n_nodes = n;
        n_parts += n;
    }
    ls_post *post = &group->team->posts[group->member];
    post->nodes = group->forest;
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    bytes = ls_size_product(bytes, post->n_nodes);
    if (bytes > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT, "%zu partials of %zu elements are more than can be addressed",
                post->n_nodes, count);
    LS_TRY(ls_group_scratch(group, n_parts * (sizeof(ls_node) + sizeof(void *)), ret_scratch));
    *ret_bytes = bytes;
exit:
    return status;
}

/* Arrays of `stride` elements. */
static void work(const ls_group *group, void *scratch, void *out, size_t stride, size_t lo,
                 size_t hi)
{
    const ls_team *team = group->team;
    if (lo == hi) return;
    if (team->posts[group->member].call.dtype == LS_F32)
        ls_forest_finish_f32(team, scratch, out, stride, lo, hi);
    else
        ls_forest_finish_f64(team, scratch, out, stride, lo, hi);
}

void ls_forest_work(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi)
{
    work(group, scratch, out, group->team->posts[group->member].call.count, lo, hi);
}

void ls_forest_work_columns(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi)
{
    const ls_call *call = &group->team->posts[group->member].call;
    size_t columns = call->count, own_bytes = (hi - lo) * ls_dtype_bytes(call->dtype);
    for (size_t row = 0; row < call->rows; row++)
        work(group, scratch, (char *)out + row * own_bytes, call->rows * columns,
             row * columns + lo, row * columns + hi);
}
