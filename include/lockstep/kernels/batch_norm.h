/* batch_norm.h - batch normalisation in pieces (Ioffe & Szegedy, 2015, algorithm 1).
 *
 *     mean = sum(x) / N          variance = sum((x - mean)^2) / N
 *     rstd = 1 / sqrt(variance + eps)
 *     xhat = (x - mean) rstd     y = xhat scale + shift
 *
 * for each channel over all N pixels of all images of the global batch. The sums cross images and
 * pixels, so the caller does the trees of rule 9 over the values of the granule
 * rectangles made here; with them the statistics are the same in every layout, however unequal the
 * shares (a mean of the ranks' means is another number). Order of calls:
 *
 *     forward    ls_pixel_sum per rectangle, tree, ls_batch_norm_mean
 *                ls_batch_norm_squares per rectangle, tree, ls_batch_norm_rstd   (two passes)
 *                ls_batch_norm_forward; ls_batch_norm_running once a step
 *     backward   ls_batch_norm_scale_leaf, ls_pixel_sum of dy per rectangle, trees
 *                ls_batch_norm_backward
 *
 * Vectors have `channels` elements. Rectangles and layouts as in conv2d.h. */
#ifndef LS_KERNELS_BATCH_NORM_H
#define LS_KERNELS_BATCH_NORM_H

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/kernels/image_layout.h"

LS_BEGIN_DECLS

/* name: of the layer; count: N. Errors: LS_ERR_INPUT: fewer than two values for each channel have
 * no variance. One value on each of two ranks is two. */
LS_API ls_status ls_batch_norm_check(const char *name, size_t count) LS_MUST_USE;

/* mean = sum / count: one division. mean may be sum. */
#define ls_batch_norm_mean LS_TYPED(ls_batch_norm_mean)
LS_API void ls_batch_norm_mean(ls_real *mean, const ls_real *sum, size_t count, size_t channels);

/* sum[ch] = T over the rectangle's pixels of the rounded squares (x - mean)^2; one image. */
#define ls_batch_norm_squares LS_TYPED(ls_batch_norm_squares)
LS_API void ls_batch_norm_squares(ls_real *sum, const ls_real *x, ls_image_layout layout,
                                  ls_rectangle pixels, const ls_real *mean, size_t channels);

/* rstd = 1 / sqrt(squares / count + eps), from the finished sum of squares. To evaluate with
 * running statistics: squares is the running variance, count 1. rstd may be squares. */
#define ls_batch_norm_rstd LS_TYPED(ls_batch_norm_rstd)
LS_API void ls_batch_norm_rstd(ls_real *rstd, const ls_real *squares, size_t count, double eps,
                               size_t channels);

/* running_mean     = (1 - momentum) running_mean     + momentum mean
 * running_variance = (1 - momentum) running_variance + momentum (squares / (count - 1))
 *
 * The variance is the unbiased one; the two factors are rounded once from binary64. Both vectors
 * are in and out. count >= 2. */
#define ls_batch_norm_running LS_TYPED(ls_batch_norm_running)
LS_API void ls_batch_norm_running(ls_real *running_mean, ls_real *running_variance,
                                  const ls_real *mean, const ls_real *squares, size_t count,
                                  double momentum, size_t channels);

/* y = ((x - mean) rstd) scale + shift in a rectangle of all images. y may be x. */
#define ls_batch_norm_forward LS_TYPED(ls_batch_norm_forward)
LS_API void ls_batch_norm_forward(ls_real *y, ls_image_layout y_layout, const ls_real *x,
                                  ls_image_layout x_layout, ls_rectangle pixels, size_t images,
                                  size_t channels, const ls_real *mean, const ls_real *rstd,
                                  const ls_real *scale, const ls_real *shift);

/* sum[ch] = T over the rectangle's pixels of dy * xhat: the leaf of dscale; one image. (That of
 * dshift, the sum of dy, is ls_pixel_sum.) */
#define ls_batch_norm_scale_leaf LS_TYPED(ls_batch_norm_scale_leaf)
LS_API void ls_batch_norm_scale_leaf(ls_real *sum, const ls_real *dy, ls_image_layout dy_layout,
                                     const ls_real *x, ls_image_layout x_layout,
                                     ls_rectangle pixels, const ls_real *mean, const ls_real *rstd,
                                     size_t channels);

/* dx = (scale rstd) ((dy - dshift / count) - xhat (dscale / count)) in a rectangle of all images,
 * with the finished dscale and dshift of the global batch. dx may be dy. */
#define ls_batch_norm_backward LS_TYPED(ls_batch_norm_backward)
LS_API void ls_batch_norm_backward(ls_real *dx, ls_image_layout dx_layout, const ls_real *dy,
                                   ls_image_layout dy_layout, const ls_real *x,
                                   ls_image_layout x_layout, ls_rectangle pixels, size_t images,
                                   size_t channels, const ls_real *mean, const ls_real *rstd,
                                   const ls_real *scale, const ls_real *dscale,
                                   const ls_real *dshift, size_t count);

LS_END_DECLS

#endif
