/* fault_parts.h - what a fault point needs more than a line for (fault.h). Compiled with LS_FAULTS
 * alone; elsewhere nobody calls it. */
#ifndef LS_GALLERY_FAULT_PARTS_H
#define LS_GALLERY_FAULT_PARTS_H

#include "lockstep/kernels/attention.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/data/data_parallel.h"
#include "lockstep/parallel/layout/losses.h"
#include "lockstep/parallel/layout/tensor_parallel.h"
#include "fault.h"

/* out = the nodes' sum, without those of other ranks. partials: nodes x count; out may be partials.
 */
#define ls_fault_own_sum LS_TYPED(ls_fault_own_sum)
void ls_fault_own_sum(ls_real *out, const ls_real *partials, size_t nodes, size_t count);

/* The same where own tokens alone are wanted: own tokens x width. */
#define ls_fault_own_tokens LS_TYPED(ls_fault_own_tokens)
void ls_fault_own_tokens(const ls_tensor_parallel *tp, ls_real *own, ls_real *partials,
                         size_t nodes, ls_axis tokens, size_t width);

/* What becomes of a reduced product, own tokens x width: of a row-cut matrix forward, else of a
 * column-cut one backward. partials: nodes x tokens x width, changed. */
#define ls_fault_reduction LS_TYPED(ls_fault_reduction)
void ls_fault_reduction(const ls_tensor_parallel *tp, bool forward, ls_real *own, ls_real *partials,
                        size_t nodes, ls_axis tokens, size_t width);

/* Gradients without the sum over replicas; what becomes of that sum. */
#define ls_fault_own_replica LS_TYPED(ls_fault_own_replica)
ls_status ls_fault_own_replica(ls_group *dp, ls_store *store, ls_batch_cut cut) LS_MUST_USE;
#define ls_fault_replicas LS_TYPED(ls_fault_replicas)
void ls_fault_replicas(ls_group *dp, ls_store *store);

/* Every sequence begins with the second rank's share. starts: of a row of one sequence. */
#define ls_fault_rotate LS_TYPED(ls_fault_rotate)
ls_status ls_fault_rotate(const ls_tensor_parallel *tp, ls_real *x, ls_axis tokens,
                          const size_t *starts) LS_MUST_USE;

/* The members' shares one after another. starts: of a row of one sequence; changed. */
#define ls_fault_join LS_TYPED(ls_fault_join)
ls_status ls_fault_join(const ls_tensor_parallel *tp, ls_real *whole, const ls_real *own,
                        ls_axis tokens, size_t *starts) LS_MUST_USE;

/* From P over all keys, S x S, to what a wrong causal mask leaves of it, and o from that. */
#define ls_fault_mask LS_TYPED(ls_fault_mask)
void ls_fault_mask(const ls_attention_shape *shape, ls_real *o, ls_real *P, const ls_real *v);

/* ls_rotary_forward and ls_rotary_backward with neighbours for pairs. */
#define ls_fault_rotary_forward LS_TYPED(ls_fault_rotary_forward)
void ls_fault_rotary_forward(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S,
                             size_t heads, size_t head_width, size_t ld);
#define ls_fault_rotary_backward LS_TYPED(ls_fault_rotary_backward)
void ls_fault_rotary_backward(ls_real *dx, const ls_real *cos, const ls_real *sin, size_t S,
                              size_t heads, size_t head_width, size_t ld);

/* Puts wrong shards in place of those just loaded. All members call it. */
#define ls_fault_spoil_weights LS_TYPED(ls_fault_spoil_weights)
ls_status ls_fault_spoil_weights(ls_group *tp, ls_store *store, ls_arena *temporary) LS_MUST_USE;

/* Losses of n sequences, to be divided by valid later, as if they had been divided by own. */
#define ls_fault_weigh LS_TYPED(ls_fault_weigh)
void ls_fault_weigh(ls_real *losses, size_t n, ls_valid valid, ls_valid own);

/* ---- fault.c ---- */

/* Every target becomes its successor; the last of a sequence none. */
void ls_fault_shift_targets(const ls_batch *batch, int32_t *targets);

/* What a micro-batch divides by that takes a mean of its own, when `parts` of them are averaged. */
ls_valid ls_fault_own_valid(const ls_batch *micro_batch, int parts, ls_valid valid);

#endif
