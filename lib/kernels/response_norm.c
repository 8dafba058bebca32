/* response_norm.c - local response normalisation, forward and backward. */
#include "lockstep/kernels/response_norm.h"

#include "lockstep/numerics/functions.h"

/* f = d^-beta = exp(-(beta log d)) in binary64, rounded once; f may be d. */
static void powers(const ls_response_norm *norm, ls_real *f, const ls_real *d, size_t n)
{
    enum { BLOCK = 128 };
    double exponent[BLOCK];
    for (size_t done = 0, width; done < n; done += width) {
        width = n - done < BLOCK ? n - done : BLOCK;
        for (size_t i = 0; i < width; i++)
            exponent[i] = -norm->beta * ls_log_f64((double)d[done + i]);
        ls_exp_n_f64(exponent, exponent, width);
        for (size_t i = 0; i < width; i++) f[done + i] = (ls_real)exponent[i];
    }
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
            powers(norm, y, d, pixels);
            for (size_t p = 0; p < pixels; p++) y[p] = v[p] * y[p];
        }
}

/* ---- backward ---- */

/* What channel c adds to the sums of those in its window, and its f, over a block of pixels. Each
 * is needed by up to n channels, one after another: the last LAST channels are kept. */
enum { PIXELS = 128, LAST = 16 };

typedef struct recent {
    size_t from, end; /* channels that are here */
    ls_real f[LAST][PIXELS], term[LAST][PIXELS];
} recent;

static size_t make_recent(recent *r, const ls_response_norm *norm, size_t c, const ls_real *dy,
                          const ls_real *x, const ls_real *d, size_t n)
{
    const size_t slot = c % LAST;
    if (c >= r->from && c < r->end) return slot;
    powers(norm, r->f[slot], d, n);
    for (size_t i = 0; i < n; i++) r->term[slot][i] = ((dy[i] * x[i]) * r->f[slot][i]) / d[i];
    if (c != r->end) r->from = c; /* not the next one */
    r->end = c + 1;
    if (r->end - r->from > LAST) r->from = r->end - LAST;
    return slot;
}

/* Differentiates
 *     y[c] = x[c] f[c],  f = d^-beta,  d[c] = k + alpha (sum of x^2 over the window of c)
 * By its own x, y[c] has the slope f[c]; by x[ch] inside its window also
 *     x[c] (-beta d[c]^(-beta - 1)) (2 alpha x[ch]) = -(2 alpha beta x[ch]) (x[c] f[c] / d[c]). */
static void backward_block(const ls_response_norm *norm, size_t pixels, ls_real *dx,
                           ls_channels made, const ls_real *dy, const ls_real *x, const ls_real *d,
                           ls_channels held, size_t n)
{
    const ls_real factor = (ls_real)(2.0 * norm->alpha * norm->beta);
    recent r;
    r.from = r.end = 0;
    for (size_t ch = made.first; ch < made.first + made.count; ch++, dx += pixels) {
        const ls_channels over = ls_response_norm_read_by(norm, (ls_channels){ch, 1});
        const ls_real *own = x + (ch - held.first) * pixels;
        ls_real sum[PIXELS];
        for (size_t i = 0; i < n; i++) sum[i] = (ls_real)-0.0;
        for (size_t c = over.first; c < over.first + over.count; c++) {
            const size_t at = (c - held.first) * pixels;
            const size_t slot = make_recent(&r, norm, c, dy + at, x + at, d + at, n);
            for (size_t i = 0; i < n; i++) sum[i] = sum[i] + r.term[slot][i];
            for (size_t i = 0; c == ch && i < n; i++) dx[i] = dy[at + i] * r.f[slot][i];
        }
        for (size_t i = 0; i < n; i++) dx[i] = dx[i] - (factor * own[i]) * sum[i];
    }
}

void ls_response_norm_backward(const ls_response_norm *norm, size_t images, size_t pixels,
                               ls_real *dx, ls_channels made, const ls_real *dy, const ls_real *x,
                               const ls_real *d, ls_channels held)
{
    const size_t image = held.count * pixels;
    for (size_t n = 0; n < images; n++, dy += image, x += image, d += image)
        for (size_t b = 0; b < pixels; b += PIXELS) {
            const size_t width = pixels - b < PIXELS ? pixels - b : PIXELS;
            backward_block(norm, pixels, dx + n * made.count * pixels + b, made, dy + b, x + b,
                           d + b, held, width);
        }
}
