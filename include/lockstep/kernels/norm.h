/* norm.h - LayerNorm and RMSNorm, forward and backward.
 *
 * Row by row over the model width D, which no layout cuts; the sums along a row follow contract
 * rule 10, the sums down the tokens rule 9. */
#ifndef LS_KERNELS_NORM_H
#define LS_KERNELS_NORM_H

#include "lockstep/base/real.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

/* y = ((x - mean) * rstd) * scale + shift with mean = sum(x) / D, rstd = 1 / sqrt(sum((x - mean)^2)
 * / D + eps). x, y: rows x D, contiguous; y may be x. ret_mean, ret_rstd: rows, kept for the
 * backward pass. scale, shift: D; shift may be NULL: none is added. */
#define ls_layer_norm_forward LS_TYPED(ls_layer_norm_forward)
LS_API void ls_layer_norm_forward(ls_real *y, ls_real *ret_mean, ls_real *ret_rstd,
                                  const ls_real *x, const ls_real *scale, const ls_real *shift,
                                  size_t rows, size_t D, double eps);

/* dx = rstd * ((g - sum(g) / D) - xhat * (sum(g * xhat) / D)) with g = dy * scale, xhat = (x -
 * mean) * rstd. dx, dy, x: rows x D; dx may be dy. */
#define ls_layer_norm_backward LS_TYPED(ls_layer_norm_backward)
LS_API void ls_layer_norm_backward(ls_real *dx, const ls_real *dy, const ls_real *x,
                                   const ls_real *scale, const ls_real *mean, const ls_real *rstd,
                                   size_t rows, size_t D);

/* dscale[c] = sum over tokens of dy * xhat, dshift[c] = sum of dy: T inside each granule (sequence)
 * of `tokens`, then T over them; overwritten. dshift may be NULL. */
#define ls_layer_norm_backward_parameters LS_TYPED(ls_layer_norm_backward_parameters)
LS_API void ls_layer_norm_backward_parameters(ls_real *dscale, ls_real *dshift, const ls_real *dy,
                                              const ls_real *x, const ls_real *mean,
                                              const ls_real *rstd, ls_axis tokens, size_t D);

/* y = (x * rstd) * scale with rstd = 1 / sqrt(sum(x^2) / D + eps). Shapes as above. */
#define ls_rms_norm_forward LS_TYPED(ls_rms_norm_forward)
LS_API void ls_rms_norm_forward(ls_real *y, ls_real *ret_rstd, const ls_real *x,
                                const ls_real *scale, size_t rows, size_t D, double eps);

/* dx = rstd * (g - xhat * (sum(g * xhat) / D)) with g = dy * scale, xhat = x * rstd. */
#define ls_rms_norm_backward LS_TYPED(ls_rms_norm_backward)
LS_API void ls_rms_norm_backward(ls_real *dx, const ls_real *dy, const ls_real *x,
                                 const ls_real *scale, const ls_real *rstd, size_t rows, size_t D);

/* dscale[c] = sum over tokens of dy * xhat, as above. */
#define ls_rms_norm_backward_parameters LS_TYPED(ls_rms_norm_backward_parameters)
LS_API void ls_rms_norm_backward_parameters(ls_real *dscale, const ls_real *dy, const ls_real *x,
                                            const ls_real *rstd, ls_axis tokens, size_t D);

LS_END_DECLS

#endif
