/* box_exchange.c - the boxes that pass between ranks, as pieces of memory for one exchange. */
#include "lockstep/parallel/spatial/box_exchange.h"
#include "base/allocate.h"

#include <stdint.h>
#include <stdlib.h>

static ls_piece piece_of(const ls_image_box *block, char *memory, const ls_image_box *box,
                         size_t peer, size_t e)
{
    ls_piece piece = {(int)peer, NULL, {0}, {0}};
    piece.start = memory + ls_image_box_place(block, box, piece.counts, piece.strides) * e;
    return piece;
}

ls_status ls_image_boxes_begin(ls_group *group, int tag, const ls_transfer *transfers,
                               size_t n_transfers, const ls_image_box *owned, const void *from,
                               const ls_image_box *wanted, void *to, ls_dtype dtype,
                               ls_exchange **ret_exchange)
{
    ls_status status = LS_OK;
    size_t own = (size_t)ls_group_rank(group), e = ls_dtype_bytes(dtype);
    size_t n_sends = 0, n_receives = 0;
    char *source = (char *)(uintptr_t)from; /* only read */
    ls_piece *sends = NULL;
    ls_piece *receives = NULL;
    LS_ROOM(sends, n_transfers + 1);
    LS_ROOM(receives, n_transfers + 1);
    for (size_t i = 0; i < n_transfers; i++) {
        const ls_transfer *t = &transfers[i];
        if (t->from == own) sends[n_sends++] = piece_of(owned, source, &t->box, t->to, e);
        if (t->to == own) receives[n_receives++] = piece_of(wanted, to, &t->box, t->from, e);
    }
    LS_TRY(
        ls_exchange_begin(group, tag, sends, n_sends, receives, n_receives, dtype, ret_exchange));
exit:
    free(sends);
    free(receives);
    return status;
}
