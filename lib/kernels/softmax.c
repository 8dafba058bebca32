/* softmax.c - the softmax of a row, forward and backward. */
#include "lockstep/kernels/softmax.h"

#include <math.h>

#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/row_sum.h"

void ls_softmax_forward(ls_real *y, const ls_real *x, const unsigned char *seen, size_t n)
{
    if (n == 0) return;

    /* Masked entries count as -infinity while the maximum is looked for: they lose against all. */
    for (size_t i = 0; i < n; i++) y[i] = !seen || seen[i] ? x[i] : (ls_real)-INFINITY;
    const ls_real max = ls_row_max(y, n, NULL);
    if (max == (ls_real)-INFINITY) { /* nothing to see: zeros, where -inf - -inf would be NaN */
        for (size_t i = 0; i < n; i++) y[i] = (ls_real)0;
        return;
    }

    for (size_t i = 0; i < n; i++) y[i] = y[i] - max;
    ls_exp_n(y, y, n); /* +0 at masked places, unless max is NaN: then so is the sum */
    const ls_real inverse = (ls_real)1 / ls_row_sum(y, n);
    for (size_t i = 0; i < n; i++) y[i] = y[i] * inverse;
    if (seen) /* infinities and NaN stay with what is seen */
        for (size_t i = 0; i < n; i++) y[i] = seen[i] ? y[i] : (ls_real)0;
}

/* Differentiates y_i = exp(x_i) / sum_j exp(x_j): dy_i/dx_j = y_i ([i == j] - y_j), so
 * dx = y * (dy - sum(dy * y)). */
void ls_softmax_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n)
{
    const ls_real sum = ls_row_dot(dy, y, n);
    for (size_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}
