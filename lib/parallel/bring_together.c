#include "parallel/bring_together.h"

ls_status ls_bring_together(ls_group *group, void *out, const void *in, size_t count,
                            ls_dtype dtype, ls_arena *temporary)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(temporary), members = (size_t)ls_group_size(group);
    ls_forest one_each = {members, NULL};
    size_t *bounds;

    LS_TRY(ls_arena_alloc(temporary, members + 1, sizeof *bounds, (void *)&bounds));
    for (size_t r = 0; r <= members; r++) bounds[r] = r;
    one_each.bounds = bounds;
    LS_TRY(ls_all_reduce_forest(group, out, in, count, dtype, &one_each));
exit:
    ls_arena_release(temporary, mark);
    return status;
}
