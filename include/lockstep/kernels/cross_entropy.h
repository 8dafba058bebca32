/* cross_entropy.h - softmax cross-entropy over a vocabulary made of granules, in pieces.
 *
 * The pieces are what a vocabulary-parallel loss exchanges: per token a maximum, a sum of
 * exponentials per granule, the target's logit and (for label smoothing) a sum of logits per
 * granule. The serial loss calls the same pieces over all granules.
 *
 *     lse  = log(sum of exp(z - max))                                 (measured from max)
 *     loss = (1 - a) (lse - (z_target - max)) + a (lse - (sum of z / V - max))
 *
 * with label smoothing a, and exactly lse - (z_target - max) when a = 0. Only the V logical columns
 * take part; padded ones stay out and may hold anything. */
#ifndef LS_KERNELS_CROSS_ENTROPY_H
#define LS_KERNELS_CROSS_ENTROPY_H

#include "lockstep/base/real.h"
#include "lockstep/numerics/axis.h"
#include "lockstep/numerics/ignore.h"

LS_BEGIN_DECLS

/* The columns of the vocabulary that are held: granules first .. first + held.granules of an axis
 * whose logical extent is V. */
typedef struct ls_vocab_shard {
    ls_axis held; /* granules held, padded size of each */
    size_t first_granule;
    size_t V; /* logical columns of the whole vocabulary */
} ls_vocab_shard;

/* ret_max[t] = max over the logical columns held (rule 3); -infinity when none is. z: n x
 * extent(held), row stride ld. */
#define ls_cross_entropy_max LS_TYPED(ls_cross_entropy_max)
LS_API void ls_cross_entropy_max(ls_real *ret_max, const ls_real *z, size_t n, size_t ld,
                                 ls_vocab_shard shard);

/* For each granule held, one value per token: ret_sum_exp[g][t] = sum of exp(z - max[t]) and,
 * unless NULL, ret_sum_z[g][t] = sum of z, by rule 10 inside the granule; -0 for a granule without
 * logical columns. ret_target[t] = z at targets[t], -0 where it is not held or ignored. */
#define ls_cross_entropy_sums LS_TYPED(ls_cross_entropy_sums)
LS_API void ls_cross_entropy_sums(ls_real *ret_sum_exp, ls_real *ret_sum_z, ls_real *ret_target,
                                  const ls_real *z, const ls_real *max, const int32_t *targets,
                                  size_t n, size_t ld, ls_vocab_shard shard);

/* ret_loss[t] from the finished numbers; -0 where targets[t] is LS_IGNORE (rule 15). sum_z may be
 * NULL when smoothing is 0. */
#define ls_cross_entropy_loss LS_TYPED(ls_cross_entropy_loss)
LS_API void ls_cross_entropy_loss(ls_real *ret_loss, const ls_real *max, const ls_real *sum_exp,
                                  const ls_real *sum_z, const ls_real *target,
                                  const int32_t *targets, size_t n, size_t V, double smoothing);

/* dz = (exp(z - max) * (1 / sum_exp) - q) * factor; q = a / V, at the target a / V + (1 - a), both
 * rounded once from binary64; factor = 1 / number of valid targets. +0 in ignored rows and padded
 * columns. dz may be z; both have row stride ld, and nothing beyond extent(held) is touched. */
#define ls_cross_entropy_backward LS_TYPED(ls_cross_entropy_backward)
LS_API void ls_cross_entropy_backward(ls_real *dz, const ls_real *z, const ls_real *max,
                                      const ls_real *sum_exp, const int32_t *targets, size_t n,
                                      size_t ld, ls_vocab_shard shard, double smoothing,
                                      ls_real factor);

LS_END_DECLS

#endif
