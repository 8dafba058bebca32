/* rms_norm.c - RMSNorm, forward and backward. */
#include "lockstep/kernels/norm.h"

#include "kernels/row_lanes.h"
#include "kernels/token_tree.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/row_sum.h"

void ls_rms_norm_forward(ls_real *y, ls_real *ret_rstd, const ls_real *x, const ls_real *scale,
                         size_t rows, size_t D, double eps)
{
    const ls_real width = (ls_real)D, epsilon = (ls_real)eps;
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        const ls_real mean_square = ls_row_dot(x, x, D) / width;
        const ls_real rstd = ls_rsqrt(mean_square + epsilon);
        for (size_t c = 0; c < D; c++) y[c] = (x[c] * rstd) * scale[c];
        ret_rstd[r] = rstd;
    }
}

/* Differentiates
 *     xhat = x * rstd
 *     y    = xhat * scale                                           hence g = dxhat = dy * scale
 * with drstd/dx_i = -rstd^3 x_i / D, so dx = rstd * (g - xhat * (sum(g * xhat) / D)). */
void ls_rms_norm_backward(ls_real *dx, const ls_real *dy, const ls_real *x, const ls_real *scale,
                          const ls_real *rstd, size_t rows, size_t D)
{
    const ls_real width = (ls_real)D;
    for (size_t r = 0; r < rows; r++, dx += D, dy += D, x += D) {
        const ls_real s = rstd[r];

        row_lanes sum = row_lanes_none();
        for (size_t b = 0; b < D; b += BLOCK) {
            ls_real product[BLOCK];
            const size_t n = block_length(b, D);
            for (size_t i = 0; i < n; i++) {
                dx[b + i] = dy[b + i] * scale[b + i]; /* g */
                product[i] = dx[b + i] * (x[b + i] * s);
            }
            row_lanes_add(&sum, product, n);
        }
        const ls_real mean_gx = row_lanes_end(sum) / width;

        for (size_t c = 0; c < D; c++) dx[c] = s * (dx[c] - (x[c] * s) * mean_gx);
    }
}

typedef struct norm_terms {
    const ls_real *dy, *x, *rstd;
    size_t D;
} norm_terms;

/* Differentiates y = xhat * scale by scale, for one token: dy * xhat. */
static void scale_term(ls_real *y, const void *context, size_t token, size_t first, size_t width)
{
    const norm_terms *t = context;
    const ls_real *dy = t->dy + token * t->D + first, *x = t->x + token * t->D + first;
    const ls_real rstd = t->rstd[token];
    for (size_t c = 0; c < width; c++) y[c] = dy[c] * (x[c] * rstd);
}

void ls_rms_norm_backward_parameters(ls_real *dscale, const ls_real *dy, const ls_real *x,
                                     const ls_real *rstd, ls_axis tokens, size_t D)
{
    const norm_terms terms = {dy, x, rstd, D};
    ls_token_tree(dscale, scale_term, &terms, tokens, D);
}
