/* batch_norm.c - batch normalisation in pieces, forward and backward. */
#include "lockstep/kernels/batch_norm.h"

#include "kernels/pixel_tree_leaf.h"
#include "lockstep/numerics/functions.h"

/* Where row r of a rectangle begins in channel ch of image n. */
static size_t row_start(ls_image_layout layout, ls_rectangle pixels, size_t n, size_t ch, size_t r)
{
    return n * layout.stride + ch * ls_rectangle_count(layout.held) +
           ls_image_offset(layout, pixels) + r * layout.held.width;
}

/* ---- statistics ---- */

void ls_batch_norm_mean(ls_real *mean, const ls_real *sum, size_t count, size_t channels)
{
    for (size_t ch = 0; ch < channels; ch++) mean[ch] = sum[ch] / (ls_real)count;
}

static inline ls_real square(ls_real x, ls_real unused, ls_real mean, ls_real rstd)
{
    (void)unused;
    (void)rstd;
    return (x - mean) * (x - mean);
}

static void fill_squares(ls_real *terms, const pixel_line *line, size_t first, size_t n)
{
    pixel_fill_with(terms, line, first, n, square);
}

void ls_batch_norm_squares(ls_real *sum, const ls_real *x, ls_image_layout layout,
                           ls_rectangle pixels, const ls_real *mean, size_t channels)
{
    const pixel_block a = pixel_block_of(x, layout, pixels);
    const pixel_terms t = {.a = a, .b = a, .mean = mean};
    pixel_sums(sum, &t, pixels, channels, square, fill_squares);
}

void ls_batch_norm_rstd(ls_real *rstd, const ls_real *squares, size_t count, double eps,
                        size_t channels)
{
    const ls_real epsilon = (ls_real)eps;
    for (size_t ch = 0; ch < channels; ch++)
        rstd[ch] = ls_rsqrt(squares[ch] / (ls_real)count + epsilon);
}

void ls_batch_norm_running(ls_real *running_mean, ls_real *running_variance, const ls_real *mean,
                           const ls_real *squares, size_t count, double momentum, size_t channels)
{
    const ls_real keep = (ls_real)(1.0 - momentum), take = (ls_real)momentum;
    for (size_t ch = 0; ch < channels; ch++) {
        const ls_real variance = squares[ch] / (ls_real)(count - 1);
        running_mean[ch] = keep * running_mean[ch] + take * mean[ch];
        running_variance[ch] = keep * running_variance[ch] + take * variance;
    }
}

/* ---- forward ---- */

void ls_batch_norm_forward(ls_real *y, ls_image_layout y_layout, const ls_real *x,
                           ls_image_layout x_layout, ls_rectangle pixels, size_t images,
                           size_t channels, const ls_real *mean, const ls_real *rstd,
                           const ls_real *scale, const ls_real *shift)
{
    if (ls_rectangle_is_empty(pixels)) return;
    for (size_t n = 0; n < images; n++)
        for (size_t ch = 0; ch < channels; ch++)
            for (size_t r = 0; r < pixels.height; r++) {
                const ls_real m = mean[ch], s = rstd[ch], a = scale[ch], b = shift[ch];
                const ls_real *from = x + row_start(x_layout, pixels, n, ch, r);
                ls_real *to = y + row_start(y_layout, pixels, n, ch, r);
                for (size_t c = 0; c < pixels.width; c++) to[c] = ((from[c] - m) * s) * a + b;
            }
}

/* ---- backward ---- */

/* Differentiates y = xhat * scale + shift by scale: dy * xhat. */
static inline ls_real scale_term(ls_real dy, ls_real x, ls_real mean, ls_real rstd)
{
    return dy * ((x - mean) * rstd);
}

static void fill_scale_terms(ls_real *terms, const pixel_line *line, size_t first, size_t n)
{
    pixel_fill_with(terms, line, first, n, scale_term);
}

void ls_batch_norm_scale_leaf(ls_real *sum, const ls_real *dy, ls_image_layout dy_layout,
                              const ls_real *x, ls_image_layout x_layout, ls_rectangle pixels,
                              const ls_real *mean, const ls_real *rstd, size_t channels)
{
    const pixel_terms t = {pixel_block_of(dy, dy_layout, pixels),
                           pixel_block_of(x, x_layout, pixels), mean, rstd};
    pixel_sums(sum, &t, pixels, channels, scale_term, fill_scale_terms);
}

/* Differentiates
 *     xhat = (x - mean) * rstd
 *     y    = xhat * scale + shift                           hence dxhat = dy * scale
 * mean and rstd being functions of all x of the channel. As in a layer norm
 *     dx = rstd * (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat))
 * and here scale is the same for all of them, so that both means are those of the parameters'
 * gradients: mean(dy) = dshift / count, mean(dy * xhat) = dscale / count. */
void ls_batch_norm_backward(ls_real *dx, ls_image_layout dx_layout, const ls_real *dy,
                            ls_image_layout dy_layout, const ls_real *x, ls_image_layout x_layout,
                            ls_rectangle pixels, size_t images, size_t channels,
                            const ls_real *mean, const ls_real *rstd, const ls_real *scale,
                            const ls_real *dscale, const ls_real *dshift, size_t count)
{
    if (ls_rectangle_is_empty(pixels)) return;
    for (size_t n = 0; n < images; n++)
        for (size_t ch = 0; ch < channels; ch++) {
            const ls_real m = mean[ch], s = rstd[ch], factor = scale[ch] * rstd[ch];
            const ls_real mean_dy = dshift[ch] / (ls_real)count;
            const ls_real mean_dy_xhat = dscale[ch] / (ls_real)count;
            for (size_t r = 0; r < pixels.height; r++) {
                const ls_real *d = dy + row_start(dy_layout, pixels, n, ch, r);
                const ls_real *v = x + row_start(x_layout, pixels, n, ch, r);
                ls_real *to = dx + row_start(dx_layout, pixels, n, ch, r);
                for (size_t c = 0; c < pixels.width; c++)
                    to[c] = factor * ((d[c] - mean_dy) - ((v[c] - m) * s) * mean_dy_xhat);
            }
        }
}
