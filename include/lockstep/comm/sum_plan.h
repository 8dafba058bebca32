/* sum_plan.h - a reduction along any binary tree.
 *
 * ls_forest (collectives.h) says which runs of T's leaves the members own. Where what a member owns
 * is no run - a rectangle of an image's granules, for several images - a plan says it: which member
 * holds which node of the tree, and the order of addition that follows. Pure bookkeeping: every
 * member makes the same plan from the same numbers, once, and uses it as often as it likes.
 *
 *     member 0: nodes 0-2, 4     member 1: nodes 2-4, 5         (P(3, 2) of pixel_tree.h,
 *                                                                a column of granules each)
 *     parts in order of leaves     0-2 of 0    2-4 of 1    4 of 0    5 of 1
 *     additions after each            0           1           0         2
 *
 * Read from left to right with a stack: push the part; that many times, replace the two on top by
 * their sum. */
#ifndef LS_COMM_SUM_PLAN_H
#define LS_COMM_SUM_PLAN_H

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"
#include "lockstep/numerics/pixel_tree.h"

LS_BEGIN_DECLS

/* One member's value of one node. */
typedef struct ls_sum_part {
    size_t member;
    size_t place;     /* which of the member's values: the place-th in its buffer */
    size_t additions; /* to do when it has been pushed */
} ls_sum_part;

typedef struct ls_sum_plan {
    size_t members;
    size_t n_parts;
    ls_sum_part *parts;   /* in order of leaves */
    size_t *member_parts; /* [members]: how many values each sends */
    size_t stack;         /* the most values ever on the stack */
} ls_sum_plan;

/* nodes[m]: the n_nodes[m] nodes that member m has, in the order of its buffer, which need not be
 * ascending (NULL where there are none). Together they cover the leaves once. Errors: LS_ERR_INPUT:
 * a node is none of this tree, a leaf is held by no member or by two; LS_ERR_MEMORY. Cost: parts
 * times the depth of the tree, and sorting. */
LS_API ls_status ls_sum_plan_create(ls_sum_plan **ret_plan, const ls_binary_tree *tree,
                                    size_t members, const ls_node *const *nodes,
                                    const size_t *n_nodes) LS_MUST_USE;

/* The plan of a batch: member m has areas[m] of the images' granules (runs of images by sample
 * parallelism, rectangles by spatial parallelism), and holds the nodes of ls_pixel_forest in that
 * order. T over images, P inside each (rule 9). */
LS_API ls_status ls_sum_plan_create_pixels(ls_sum_plan **ret_plan, const ls_pixel_tree *tree,
                                           size_t members, const ls_pixel_area *areas) LS_MUST_USE;
LS_API void ls_sum_plan_destroy(ls_sum_plan **plan);

/* The collectives. As their counterparts over a forest in collectives.h, whose rules hold: dtype
 * LS_F32 or LS_F64; a member's values one after another, value j at in + j * count; no parts at all
 * give +0. plan: of this group's size, equal on all members (compared at entry: LS_ERR_RANK, with
 * the first part that differs). Bytes: own parts * count * e. Barriers, additions and bytes read:
 * as over a forest of as many parts. */

/* in == out allowed: out takes the first count elements, also where the member has no part. */
LS_API ls_status ls_all_reduce_plan(ls_group *group, void *out, const void *in, size_t count,
                                    ls_dtype dtype, const ls_sum_plan *plan) LS_MUST_USE;

/* Member r gets the elements starts[r] .. starts[r + 1]. in and out apart. */
LS_API ls_status ls_reduce_scatter_plan(ls_group *group, void *out, const void *in,
                                        const size_t *starts, ls_dtype dtype,
                                        const ls_sum_plan *plan) LS_MUST_USE;

/* Member r gets the columns starts[r] .. starts[r + 1] of every one of `rows` rows; in and out
 * apart. Bytes: own parts * rows * starts[P] * e. */
LS_API ls_status ls_reduce_scatter_columns_plan(ls_group *group, void *out, const void *in,
                                                size_t rows, const size_t *starts, ls_dtype dtype,
                                                const ls_sum_plan *plan) LS_MUST_USE;

LS_END_DECLS

#endif
