/* image_box.h - parts of an array of images, and what must pass from member to member so that each
 * has the part it wants.
 *
 * An array [images][channels][height][width] is owned in boxes, one per member (empty ones too),
 * that do not overlap. Whatever a member wants is a box as well: its outputs' inputs (a halo), its
 * share in another decomposition (a redistribution). What passes is the common part of every wanted
 * box with every owned one, so each element comes once, from its owner, however far away that is:
 *
 *     owned       | 0  0 | 1 |    | 2  2 |          member 1 wants   [0  1  2]
 *     wanted by 1     [ 0  1        2 ]             passes           0 -> 1, 1 -> 1, 2 -> 1
 *                                                   (the third member, between 1 and 2, has none)
 */
#ifndef LS_PARTITION_IMAGE_BOX_H
#define LS_PARTITION_IMAGE_BOX_H

#include <stdbool.h>

#include "lockstep/base/real.h"
#include "lockstep/base/rectangle.h"
#include "lockstep/partition/share.h"

LS_BEGIN_DECLS

/* Runs of images and channels, a rectangle of pixels; all in the whole array's numbers. */
typedef struct ls_image_box {
    ls_share images, channels;
    ls_rectangle area;
} ls_image_box;

LS_API bool ls_image_box_is_empty(const ls_image_box *box);
LS_API size_t ls_image_box_count(const ls_image_box *box); /* elements */
LS_API bool ls_image_box_equal(const ls_image_box *a, const ls_image_box *b);

/* What lies in both; all zero if nothing does. */
LS_API ls_image_box ls_image_box_common(const ls_image_box *a, const ls_image_box *b);

/* Where a piece lies in memory that holds `block`, contiguous, [images][channels][height][width]:
 * counts and strides in elements, outermost first (strides[3] = 1). Returns the offset of its first
 * element. piece: not empty, inside block. */
LS_API size_t ls_image_box_place(const ls_image_box *block, const ls_image_box *piece,
                                 size_t counts[4], size_t strides[4]);

/* own = the piece of block: contiguous, in the order of the array. piece: inside block, or empty:
 * nothing is copied. The two do not overlap. */
LS_API void ls_image_box_take(ls_dtype dtype, void *own, const ls_image_box *piece,
                              const void *whole, const ls_image_box *block);

/* A box that member `from` owns and member `to` wants; from == to: it has it already. */
typedef struct ls_transfer {
    size_t from, to;
    ls_image_box box;
} ls_transfer;

/* All that passes, by (from, to) ascending, so at most one for each pair. owned, wanted: [members].
 * *ret_transfers: freed with free(). Errors: LS_ERR_INPUT: two members own the same element, or
 * something is wanted that no member owns; LS_ERR_MEMORY. Cost: members^2. */
LS_API ls_status ls_transfers_create(ls_transfer **ret_transfers, size_t *ret_count,
                                     const ls_image_box *owned, const ls_image_box *wanted,
                                     size_t members) LS_MUST_USE;

/* Elements that `member` sends to others / receives from others. */
LS_API size_t ls_transfers_sent(const ls_transfer *transfers, size_t count, size_t member);
LS_API size_t ls_transfers_received(const ls_transfer *transfers, size_t count, size_t member);

LS_END_DECLS

#endif
