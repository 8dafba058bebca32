/* wrong_values.h - what a wrapper does in place of what is right, where it takes more than a line.
 */
#ifndef LS_GALLERY_WRONG_VALUES_H
#define LS_GALLERY_WRONG_VALUES_H

#include "fault.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/layout/tensor_parallel.h"

/* out = the nodes' sum, without those of other ranks. partials: nodes x count; out may be partials.
 */
void ls_wrong_own_sum(ls_real *out, const ls_real *partials, size_t nodes, size_t count);

/* The same where only own tokens are wanted: own tokens x width. partials is changed. */
void ls_wrong_own_tokens(const ls_tensor_parallel *tp, ls_real *own, ls_real *partials,
                         size_t nodes, ls_axis tokens, size_t width);

/* What becomes of a reduced product, own tokens x width: of a row-cut matrix forward, else of a
 * column-cut one backward. partials: nodes x tokens x width, changed. */
void ls_wrong_reduction(const ls_tensor_parallel *tp, bool forward, ls_real *own, ls_real *partials,
                        size_t nodes, ls_axis tokens, size_t width);

/* All gradients times a factor. */
void ls_wrong_scale(ls_store *store, ls_real factor);

/* Gathered tokens: every sequence begins with the second rank's share, or shares are one after
 * another, not inside each sequence. */
ls_status ls_wrong_token_order(const ls_tensor_parallel *tp, ls_real *whole, const ls_real *own,
                               ls_axis tokens, size_t width) LS_MUST_USE;

/* From P over all keys, S x S, to what a wrong causal mask leaves of it, and o from that. */
void ls_wrong_mask(const ls_attention_shape *shape, ls_real *o, ls_real *P, const ls_real *v);

/* ls_rotary_forward with neighbours for pairs; sign -1: backward. */
void ls_wrong_rotary(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                     size_t head_width, size_t ld, ls_real sign);

/* Puts wrong shards in place of those just loaded. All members call it. */
ls_status ls_wrong_weights(ls_group *tp, ls_store *store, ls_arena *temporary) LS_MUST_USE;

#endif
