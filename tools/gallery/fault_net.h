/* fault_net.h - what a fault point of a convolutional network needs more than a line for (fault.h).
 * Compiled with LS_FAULTS alone; elsewhere nobody calls it. */
#ifndef LS_GALLERY_FAULT_NET_H
#define LS_GALLERY_FAULT_NET_H

#include "lockstep/comm/group.h"
#include "lockstep/partition/image_box.h"
#include "fault_parts.h"

/* What a block that was read, `box`, has beyond the pixels of `own`: one place nearer to them, 0,
 * or 0 across a corner, as the fault chosen says. x: the block, contiguous. Nothing of a rank that
 * has no pixels. */
#define ls_fault_halo LS_TYPED(ls_fault_halo)
ls_status ls_fault_halo(ls_real *x, const ls_image_box *box, ls_rectangle own) LS_MUST_USE;

/* The same of a block of gradients, for the fault that is theirs. */
#define ls_fault_dy_halo LS_TYPED(ls_fault_dy_halo)
ls_status ls_fault_dy_halo(ls_real *dy, const ls_image_box *box, ls_rectangle own) LS_MUST_USE;

/* sum / total becomes the mean of the members' means. sum: count values; nodes: as those of
 * ls_fault_own_sum; own: values behind this member's. */
#define ls_fault_mean_of_parts LS_TYPED(ls_fault_mean_of_parts)
ls_status ls_fault_mean_of_parts(ls_group *group, ls_real *sum, const ls_real *nodes,
                                 size_t n_nodes, size_t count, size_t own,
                                 size_t total) LS_MUST_USE;

#endif
