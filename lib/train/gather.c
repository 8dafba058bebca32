#include "train/gather.h"

#include <string.h>

#include "lockstep/comm/channel.h"
#include "lockstep/parallel/sharding.h"

typedef struct part {
    ls_shard shard;
    size_t elements;
} part;

static part part_of(const ls_config *config, const ls_param *param, ls_group *tp, int member)
{
    part of = {{0, param->axis.granules}, 0};
    size_t rows, cols;
    if (tp) of.shard = ls_shard_of(config, param->kind, ls_group_size(tp), member);
    ls_param_shard_shape(param, of.shard, &rows, &cols);
    of.elements = rows * cols;
    return of;
}

ls_status ls_gather_param(ls_group *tp, const ls_config *config, const ls_param *param,
                          ls_dtype dtype, const char *what, const void *own, void *whole,
                          ls_arena *temporary)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(temporary), bytes = ls_dtype_bytes(dtype), room_elements = 0;
    int members = tp ? ls_group_size(tp) : 1, member = tp ? ls_group_rank(tp) : 0;
    const void *before = own; /* what the member before handed in */
    void *rooms[2], *again;
    enum { TAG = 0 };

    if (member > 0) {
        LS_TRY(ls_send(tp, 0, TAG, own, part_of(config, param, tp, member).elements, dtype));
        goto exit;
    }
    ls_param_shard_out(param, part_of(config, param, tp, 0).shard, bytes, whole, own);
    for (int r = 0; r < members; r++)
        if (part_of(config, param, tp, r).elements > room_elements)
            room_elements = part_of(config, param, tp, r).elements;
    for (int i = 0; i < 2; i++)
        LS_TRY(ls_arena_alloc(temporary, room_elements, bytes, (void *)&rooms[i]));
    LS_TRY(ls_arena_alloc(temporary, room_elements, bytes, (void *)&again));
    for (int r = 1; r < members; r++) {
        part now = part_of(config, param, tp, r), last = part_of(config, param, tp, r - 1);
        void *room = rooms[r % 2];
        LS_TRY(ls_receive(tp, r, TAG, room, now.elements, dtype));
        ls_param_shard_out(param, now.shard, bytes, whole, room);
        /* Where the two overlap, the member before's granules are overwritten by this one's: they
         * must read back unchanged. */
        ls_param_shard_in(param, last.shard, bytes, again, whole);
        if (memcmp(again, before, last.elements * bytes) != 0)
            LS_FAIL(LS_ERR_RANK,
                    "the %s of %s is not the same on ranks %d and %d of group %s, which "
                    "both hold it",
                    what, param->name, r - 1, r, ls_group_name(tp));
        before = room;
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
