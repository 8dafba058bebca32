/* vocab_cross_entropy.h - the loss over a vocabulary cut over ranks.
 *
 * Fused (arXiv 1909.08053, section 3): only per-token numbers cross ranks - the maximum, then the
 * sum of exponentials, the target's logit and, for label smoothing, the sum of logits - instead of
 * B S V logits. Gathered: all logits cross, and every rank computes the loss of the whole
 * vocabulary; the same bits. */
#ifndef LS_PARALLEL_TENSOR_VOCAB_CROSS_ENTROPY_H
#define LS_PARALLEL_TENSOR_VOCAB_CROSS_ENTROPY_H

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/parallel/layout/tensor_parallel.h"

LS_BEGIN_DECLS

/* ret_loss[t], ret_max[t], ret_sum_exp[t] on every member, the last two kept for the backward pass.
 * z: n x own columns, contiguous. targets: n, all of them on every member, words 0 to V - 1 or
 * LS_IGNORE. vocab: the padded vocabulary and who owns it; V: logical. 2 all-reduces: n (max),
 * nodes * 2 n (3 n with smoothing). Errors, before anything is sent: LS_ERR_INPUT, a target that is
 * no word, named by its place and value. */
#define ls_vocab_cross_entropy_forward LS_TYPED(ls_vocab_cross_entropy_forward)
LS_API ls_status ls_vocab_cross_entropy_forward(const ls_tensor_parallel *tp, ls_real *ret_loss,
                                                ls_real *ret_max, ls_real *ret_sum_exp,
                                                const ls_real *z, const int32_t *targets, size_t n,
                                                const ls_cut *vocab, size_t V,
                                                double smoothing) LS_MUST_USE;

/* dz for own columns; may be z. No communication. factor: 1 / number of valid targets. */
#define ls_vocab_cross_entropy_backward LS_TYPED(ls_vocab_cross_entropy_backward)
LS_API void ls_vocab_cross_entropy_backward(const ls_tensor_parallel *tp, ls_real *dz,
                                            const ls_real *z, const ls_real *max,
                                            const ls_real *sum_exp, const int32_t *targets,
                                            size_t n, const ls_cut *vocab, size_t V,
                                            double smoothing, ls_real factor);

/* The gathered form: the same outputs and errors, from all logits on every member. 1 all-gather of
 * n V / T. */
#define ls_gathered_cross_entropy_forward LS_TYPED(ls_gathered_cross_entropy_forward)
LS_API ls_status ls_gathered_cross_entropy_forward(const ls_tensor_parallel *tp, ls_real *ret_loss,
                                                   ls_real *ret_max, ls_real *ret_sum_exp,
                                                   const ls_real *z, const int32_t *targets,
                                                   size_t n, const ls_cut *vocab, size_t V,
                                                   double smoothing) LS_MUST_USE;

LS_END_DECLS

#endif
