/* relu.c - the rectified linear unit, forward and backward. */
#include "lockstep/kernels/activation.h"

void ls_relu_forward(ls_real *y, const ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] <= (ls_real)0 ? (ls_real)0 : x[i];
}

/* Differentiates y = max(x, 0): the slope is 1 where y is above 0. */
void ls_relu_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const ls_real g = dy[i]; /* read in any case: then nothing jumps */
        dx[i] = y[i] <= (ls_real)0 ? (ls_real)0 : g;
    }
}
