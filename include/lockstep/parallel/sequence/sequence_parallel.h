/* sequence_parallel.h - outside the blocks every rank has a share of each sequence's tokens
 * (arXiv 2205.05198, section 4.2.2).
 *
 * Norms, dropout and residuals look at one token at a time, so with only tensor parallelism every
 * rank does the same work on all S tokens and keeps them all. Sequence parallelism cuts them: a
 * rank has S_r tokens of each sequence between the blocks. Inside a block the tokens are whole, as
 * before, and an all-reduce is a reduce-scatter and an all-gather, so what f and g move becomes:
 *
 *                   without                         with
 *     f    identity     | all-reduce       all-gather     | reduce-scatter     before the block
 *     g    all-reduce   | identity         reduce-scatter | all-gather         after the block
 *          forward      | backward         forward        | backward
 *
 * The gathered array is temporary; only own rows are saved for the backward pass, which gathers
 * them again. Letters: f and g follow Megatron-LM. In arXiv 2205.05198 f and f-bar are the pair
 * without sequence parallelism, g and g-bar the pair with it.
 *
 * An array "of own tokens" has, for the token axis `tokens` (B granules of S), the rows B x S_r
 * where S_r = ls_share_of(S, group size, rank).count: as even as can be, 0 for some when S is less
 * than the group. Without tp->sequence_parallel own tokens are all tokens, and nothing here sends
 * anything but ls_sum_to_own_tokens. `tokens` is always the whole axis. */
#ifndef LS_PARALLEL_SEQUENCE_SEQUENCE_PARALLEL_H
#define LS_PARALLEL_SEQUENCE_SEQUENCE_PARALLEL_H

#include "lockstep/numerics/random.h"
#include "lockstep/parallel/layout/own_tokens.h"

LS_BEGIN_DECLS

/* *ret_whole = all tokens of an array of which each member has its own: extent(tokens) x width, in
 * tp->temporary (release to a mark of the caller's). Without sequence parallelism it is `own`
 * itself. own: own tokens x width. Cost: 1 all-gather of B S_r width. */
#define ls_gather_tokens LS_TYPED(ls_gather_tokens)
LS_API ls_status ls_gather_tokens(const ls_tensor_parallel *tp, const ls_real *own, ls_axis tokens,
                                  size_t width, const ls_real **ret_whole) LS_MUST_USE;

/* own = own tokens of T(leaves) over the members' partials, each extent(tokens) x width, one per
 * node of the forest (ls_forest). own: own tokens x width, apart from partials. Cost: 1
 * reduce-scatter (without sequence parallelism: all-reduce) of nodes * extent(tokens) * width. */
#define ls_sum_to_own_tokens LS_TYPED(ls_sum_to_own_tokens)
LS_API ls_status ls_sum_to_own_tokens(const ls_tensor_parallel *tp, ls_real *own,
                                      const ls_real *partials, ls_axis tokens, size_t width,
                                      const ls_forest *forest) LS_MUST_USE;

/* Dropout of own tokens: y[b][s] = ls_dropout of x[b][s] at the place that the token has in the
 * logical tensor, (first + b) * S + its place in the sequence. first: global number of the first
 * sequence. x, y: own tokens x width; y may be x. No communication. */
#define ls_own_dropout LS_TYPED(ls_own_dropout)
LS_API void ls_own_dropout(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                           ls_axis tokens, size_t width, double p, ls_stream stream, size_t first);

LS_END_DECLS

#endif
