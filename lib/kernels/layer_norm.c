/* layer_norm.c - LayerNorm, forward and backward. */
#include "lockstep/kernels/norm.h"

#include "kernels/row_lanes.h"
#include "kernels/token_tree.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/row_sum.h"
#include "lockstep/numerics/tree.h"

void ls_layer_norm_forward(ls_real *y, ls_real *ret_mean, ls_real *ret_rstd, const ls_real *x,
                           const ls_real *scale, const ls_real *shift, size_t rows, size_t D,
                           double eps)
{
    const ls_real width = (ls_real)D, epsilon = (ls_real)eps;
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        const ls_real mean = ls_row_sum(x, D) / width;
        const ls_real variance = ls_row_squares(x, mean, D) / width;
        const ls_real rstd = ls_rsqrt(variance + epsilon);
        for (size_t c = 0; c < D; c++) y[c] = ((x[c] - mean) * rstd) * scale[c];
        if (shift != NULL)
            for (size_t c = 0; c < D; c++) y[c] += shift[c];
        ret_mean[r] = mean;
        ret_rstd[r] = rstd;
    }
}

/* Differentiates
 *     xhat = (x - mean) * rstd
 *     y    = xhat * scale + shift                                   hence g = dxhat = dy * scale
 * mean and rstd being functions of x themselves:
 *     dmean = -rstd sum(g) (what reaches it through rstd is sum(x - mean) = 0)
 *     drstd = sum(g (x - mean)),  drstd/dx_i = -rstd^3 (x_i - mean) / D
 * so  dx = rstd * ((g - sum(g) / D) - xhat * (sum(g * xhat) / D)). */
void ls_layer_norm_backward(ls_real *dx, const ls_real *dy, const ls_real *x, const ls_real *scale,
                            const ls_real *mean, const ls_real *rstd, size_t rows, size_t D)
{
    const ls_real width = (ls_real)D;
    for (size_t r = 0; r < rows; r++, dx += D, dy += D, x += D) {
        const ls_real m = mean[r], s = rstd[r];

        for (size_t c = 0; c < D; c++) dx[c] = dy[c] * scale[c]; /* g */
        const ls_real mean_g = ls_row_sum(dx, D) / width;

        row_lanes sum = row_lanes_none();
        for (size_t b = 0; b < D; b += BLOCK) {
            ls_real product[BLOCK];
            const size_t n = block_length(b, D);
            for (size_t i = 0; i < n; i++) product[i] = dx[b + i] * ((x[b + i] - m) * s);
            row_lanes_add(&sum, product, n);
        }
        const ls_real mean_gx = row_lanes_end(sum) / width;

        for (size_t c = 0; c < D; c++) dx[c] = s * ((dx[c] - mean_g) - ((x[c] - m) * s) * mean_gx);
    }
}

typedef struct norm_terms {
    const ls_real *dy, *x, *mean, *rstd;
    size_t D;
} norm_terms;

/* Differentiates y = xhat * scale + shift by scale, for one token: dy * xhat. */
static void scale_term(ls_real *y, const void *context, size_t token, size_t first, size_t width)
{
    const norm_terms *t = context;
    const ls_real *dy = t->dy + token * t->D + first, *x = t->x + token * t->D + first;
    const ls_real mean = t->mean[token], rstd = t->rstd[token];
    for (size_t c = 0; c < width; c++) y[c] = dy[c] * ((x[c] - mean) * rstd);
}

void ls_layer_norm_backward_parameters(ls_real *dscale, ls_real *dshift, const ls_real *dy,
                                       const ls_real *x, const ls_real *mean, const ls_real *rstd,
                                       ls_axis tokens, size_t D)
{
    const norm_terms terms = {dy, x, mean, rstd, D};
    ls_token_tree(dscale, scale_term, &terms, tokens, D);
    if (dshift != NULL) ls_tree_sum_rows(dshift, dy, tokens, D, D);
}
