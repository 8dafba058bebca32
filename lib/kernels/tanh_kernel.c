/* tanh_kernel.c - tanh as an activation, forward and backward. */
#include "lockstep/kernels/activation.h"
#include "lockstep/numerics/functions.h"

void ls_tanh_forward(ls_real *y, const ls_real *x, size_t n)
{
    ls_tanh_n(y, x, n);
}

/* Differentiates y = tanh(x): dy/dx = 1 - y y, from the result only. */
void ls_tanh_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n)
{
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * ((ls_real)1 - y[i] * y[i]);
}
