/* wrong_halos.h - blocks of images whose halos are wrong, and means of ranks' means. */
#ifndef LS_GALLERY_WRONG_HALOS_H
#define LS_GALLERY_WRONG_HALOS_H

#include "lockstep/comm/group.h"
#include "lockstep/partition/image_box.h"
#include "wrong_values.h"

/* What a block that was read, `box`, has beyond the pixels of `own`: one place nearer to them, 0,
 * or 0 across a corner, as the fault chosen says. x: the block, contiguous. Nothing of a rank that
 * has no pixels. */
ls_status ls_wrong_halo(ls_real *x, const ls_image_box *box, ls_rectangle own) LS_MUST_USE;

/* The same of a block of gradients, for the fault that is theirs. */
ls_status ls_wrong_dy_halo(ls_real *dy, const ls_image_box *box, ls_rectangle own) LS_MUST_USE;

/* sum / total becomes the mean of the members' means. sum: count values; nodes: as those of
 * ls_wrong_own_sum; own: values of this member. */
ls_status ls_wrong_mean_of_parts(ls_group *group, ls_real *sum, const ls_real *nodes,
                                 size_t n_nodes, size_t count, size_t own,
                                 size_t total) LS_MUST_USE;

#endif
