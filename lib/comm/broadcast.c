#include <string.h>

#include "comm/collective.h"

ls_status ls_broadcast(ls_group *group, void *buffer, size_t count, ls_dtype dtype, int root)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    if (root < 0 || root >= group->team->size)
        LS_FAIL(LS_ERR_INPUT, "broadcast from member %d: group %s has members 0 to %d", root,
                group->team->name, group->team->size - 1);
    ls_call call = {.kind = LS_CALL_BROADCAST, .dtype = dtype, .count = count, .root = root};
    bool is_root = group->member == root;
    LS_TRY(ls_collective_enter(group, call, buffer, NULL, is_root ? bytes : 0));
    if (!is_root && bytes > 0) memcpy(buffer, group->team->posts[root].in, bytes);
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}
