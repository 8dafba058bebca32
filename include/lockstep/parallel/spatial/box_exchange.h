/* box_exchange.h - transfers of boxes done by an exchange: halos and redistributions.
 *
 *     ls_image_box owned[P], wanted[P]; ...               (spatial.h, net_grids.h say which)
 *     ls_transfers_create(&transfers, &n, owned, wanted, P)                             once
 *     ls_image_boxes_begin(group, tag, transfers, n, &owned[m], x, &wanted[m],
 *                          x_with_halo, LS_F32, &e)
 *     ...outputs that need no halo...
 *     ls_exchange_end(&e)
 *
 * What the member has itself is copied too, so afterwards the wanted block is complete. */
#ifndef LS_PARALLEL_SPATIAL_BOX_EXCHANGE_H
#define LS_PARALLEL_SPATIAL_BOX_EXCHANGE_H

#include "lockstep/comm/exchange.h"
#include "lockstep/partition/image_box.h"

LS_BEGIN_DECLS

/* Begins what `transfers` says of the calling member of group, whose member numbers they use. from:
 * the block `owned` of this member, contiguous [images][channels][height][width], the caller's
 * again when it returns; to: the block `wanted`, written by ls_exchange_end. All members call it
 * with the same transfers. Bytes: ls_transfers_sent * e. Errors: those of ls_exchange_begin;
 * LS_ERR_MEMORY. */
LS_API ls_status ls_image_boxes_begin(ls_group *group, int tag, const ls_transfer *transfers,
                                      size_t n_transfers, const ls_image_box *owned,
                                      const void *from, const ls_image_box *wanted, void *to,
                                      ls_dtype dtype, ls_exchange **ret_exchange) LS_MUST_USE;

LS_END_DECLS

#endif
