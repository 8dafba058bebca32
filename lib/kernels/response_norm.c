/* response_norm.c - local response normalisation, forward beside backward. */
#include "lockstep/kernels/response_norm.h"

#include "lockstep/numerics/functions.h"

enum { PIXELS = 256 };

static ls_real power(const ls_response_norm *norm, ls_real d)
{
    return (ls_real)ls_exp_f64(-norm->beta * ls_log_f64((double)d));
}

/* d over a block of pixels of channel ch. x: channel 0 of what is held, `stride` from one to the
 * next. */
static void base_of(const ls_response_norm *norm, ls_real *d, size_t ch, const ls_real *x,
                    ls_channels held, size_t stride, size_t n)
{
    const ls_channels window = ls_response_norm_reads(norm, (ls_channels){ch, 1});
    const ls_real alpha = (ls_real)norm->alpha, k = (ls_real)norm->k;
    for (size_t i = 0; i < n; i++) d[i] = (ls_real)-0.0; /* nothing yet */
    for (size_t c = window.first; c < window.first + window.count; c++) {
        const ls_real *v = x + (c - held.first) * stride;
        for (size_t i = 0; i < n; i++) d[i] = d[i] + v[i] * v[i];
    }
    for (size_t i = 0; i < n; i++) d[i] = k + alpha * d[i];
}

void ls_response_norm_forward(const ls_response_norm *norm, size_t images, size_t pixels,
                              ls_real *y, ls_real *d, ls_channels made, const ls_real *x,
                              ls_channels held)
{
    for (size_t n = 0; n < images; n++, x += held.count * pixels)
        for (size_t ch = made.first; ch < made.first + made.count; ch++, y += pixels, d += pixels) {
            const ls_real *v = x + (ch - held.first) * pixels;
            base_of(norm, d, ch, x, held, pixels, pixels);
            for (size_t p = 0; p < pixels; p++) y[p] = v[p] * power(norm, d[p]);
        }
}

/* Differentiates
 *     y[c] = x[c] f[c],  f = d^-beta,  d[c] = k + alpha (sum of x^2 over the window of c)
 * By its own x, y[c] has the slope f[c]; by x[ch] inside its window also
 *     x[c] (-beta d[c]^(-beta - 1)) (2 alpha x[ch]) = -(2 alpha beta x[ch]) (x[c] f[c] / d[c]). */
void ls_response_norm_backward(const ls_response_norm *norm, size_t images, size_t pixels,
                               ls_real *dx, ls_channels made, const ls_real *dy, const ls_real *x,
                               const ls_real *d, ls_channels held)
{
    const ls_real factor = (ls_real)(2.0 * norm->alpha * norm->beta);
    const size_t image = held.count * pixels;
    for (size_t n = 0; n < images; n++, dy += image, x += image, d += image)
        for (size_t ch = made.first; ch < made.first + made.count; ch++, dx += pixels) {
            const ls_channels over = ls_response_norm_read_by(norm, (ls_channels){ch, 1});
            const size_t own = (ch - held.first) * pixels;
            for (size_t b = 0; b < pixels; b += PIXELS) {
                const size_t width = pixels - b < PIXELS ? pixels - b : PIXELS;
                ls_real sum[PIXELS];
                for (size_t i = 0; i < width; i++) sum[i] = (ls_real)-0.0;
                for (size_t c = over.first; c < over.first + over.count; c++)
                    for (size_t i = 0; i < width; i++) {
                        const size_t at = (c - held.first) * pixels + b + i;
                        sum[i] = sum[i] + ((dy[at] * x[at]) * power(norm, d[at])) / d[at];
                    }
                for (size_t i = 0; i < width; i++) {
                    const size_t at = own + b + i;
                    dx[b + i] = dy[at] * power(norm, d[at]) - (factor * x[at]) * sum[i];
                }
            }
        }
}
