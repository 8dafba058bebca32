#include "comm/all_reduce_owned.h"

ls_status ls_one_leaf_each(ls_group *group, ls_arena *arena, ls_forest *ret_forest)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(group);
    size_t *bounds;

    LS_TRY(ls_arena_alloc(arena, members + 1, sizeof *bounds, (void *)&bounds));
    for (size_t r = 0; r <= members; r++) bounds[r] = r;
    *ret_forest = (ls_forest){members, bounds};
exit:
    return status;
}

ls_status ls_all_reduce_owned(ls_group *group, void *out, const void *in, size_t count,
                              ls_dtype dtype, ls_arena *temporary)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(temporary);
    ls_forest one_each;

    LS_TRY(ls_one_leaf_each(group, temporary, &one_each));
    LS_TRY(ls_all_reduce_forest(group, out, in, count, dtype, &one_each));
exit:
    ls_arena_release(temporary, mark);
    return status;
}
