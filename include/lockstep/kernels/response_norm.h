/* response_norm.h - local response normalisation across channels (Krizhevsky et al., 2012, 3.3).
 *
 *     d[ch] = k + alpha * (sum of x[c]^2 over c = ch - n / 2 .. ch - n / 2 + n - 1)
 *     y[ch] = x[ch] * d[ch]^-beta
 *
 * at every pixel by itself; channels that do not exist are left out. (Where alpha is meant per
 * channel of the window, alpha / n is passed.) Under channel parallelism a rank holds some of its
 * neighbours' channels next to its own: runs below are in channels of the whole layer. */
#ifndef LS_KERNELS_RESPONSE_NORM_H
#define LS_KERNELS_RESPONSE_NORM_H

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef struct ls_response_norm {
    size_t channels; /* of the whole layer */
    size_t n;
    double alpha, beta, k;
} ls_response_norm;

/* Channels first .. first + count. */
typedef struct ls_channels {
    size_t first, count;
} ls_channels;

/* Errors: LS_ERR_INPUT: no channels, n 0, k not above 0, alpha or beta negative or not a number. */
LS_API ls_status ls_response_norm_check(const char *name, const ls_response_norm *norm) LS_MUST_USE;

/* The channels whose x `made` channels of y read, and those whose dy, x and d `made` channels of dx
 * read. */
LS_API ls_channels ls_response_norm_reads(const ls_response_norm *norm, ls_channels made);
LS_API ls_channels ls_response_norm_read_by(const ls_response_norm *norm, ls_channels made);

/* The squares are rounded and added in ascending order of channels, beginning with the first; then
 * * alpha, + k; d^-beta = exp(-beta log d) in binary64, rounded once; y is one product. x: [images]
 * [held.count][pixels], held covering what is read; y, d: [images][made.count][pixels], contiguous,
 * overlapping nothing. */
#define ls_response_norm_forward LS_TYPED(ls_response_norm_forward)
LS_API void ls_response_norm_forward(const ls_response_norm *norm, size_t images, size_t pixels,
                                     ls_real *y, ls_real *d, ls_channels made, const ls_real *x,
                                     ls_channels held);

/* dx[ch] = dy[ch] d[ch]^-beta - (c x[ch]) * sum over the windows that read ch, ascending, of
 * (((dy x) d^-beta) / d), c = 2 alpha beta in binary64, rounded once. dy, x, d:
 * [images][held.count] [pixels]; dx: [images][made.count][pixels]; overlapping nothing. */
#define ls_response_norm_backward LS_TYPED(ls_response_norm_backward)
LS_API void ls_response_norm_backward(const ls_response_norm *norm, size_t images, size_t pixels,
                                      ls_real *dx, ls_channels made, const ls_real *dy,
                                      const ls_real *x, const ls_real *d, ls_channels held);

LS_END_DECLS

#endif
