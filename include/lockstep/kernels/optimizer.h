/* optimizer.h - the update of n parameters, elementwise; and the learning rate of a step.
 *
 * Every factor is computed once per step in binary64 and rounded once to ls_real. */
#ifndef LS_KERNELS_OPTIMIZER_H
#define LS_KERNELS_OPTIMIZER_H

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

typedef enum ls_optimizer { LS_ADAMW = 0, LS_SGD } ls_optimizer;

typedef struct ls_update {
    ls_optimizer optimizer;
    double lr;           /* of this step */
    double beta1, beta2; /* SGD: beta1 is the momentum */
    double eps, weight_decay;
    uint64_t t; /* number of this update, from 1 */
} ls_update;

/* AdamW (Loshchilov and Hutter, decoupled decay), in this order, each operation rounded:
 *     m = beta1 m + (1 - beta1) g         v = beta2 v + (1 - beta2) (g g)
 *     w = w - (lr weight_decay) w          only where decay is set
 *     w = w - lr ((m c1) / (sqrt(v c2) + eps))     c1 = 1 / (1 - beta1^t), c2 = 1 / (1 - beta2^t)
 * SGD with momentum: g = g + weight_decay w (where decay is set); m = beta1 m + g; w = w - lr m. v
 * is not touched and may be NULL. w, m, v: n, in and out; g: n, in. */
#define ls_update_apply LS_TYPED(ls_update_apply)
LS_API void ls_update_apply(const ls_update *update, int decay, ls_real *w, ls_real *m, ls_real *v,
                            const ls_real *g, size_t n);

/* Linear warm-up over `warmup` steps, then a cosine from peak to floor at step `total`, constant
 * after: for step t counted from 0, t < warmup: peak (t + 1) / warmup; else floor + 0.5 (peak -
 * floor) (1 + cos(pi (t - warmup) / (total - warmup))). total == 0: constant peak after warm-up.
 * Binary64. */
LS_API double ls_learning_rate(double peak, double floor, uint64_t warmup, uint64_t total,
                               uint64_t t);

/* The factor that clips a gradient of norm sqrt(squares) to max_norm: max_norm / norm when norm >
 * max_norm, else 1; max_norm 0: no clipping, always 1. Else a norm that is not finite gives NaN. */
LS_API double ls_clip_factor(double squares, double max_norm);

LS_END_DECLS

#endif
