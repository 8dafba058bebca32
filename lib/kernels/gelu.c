/* gelu.c - GELU in both forms, forward and backward.
 *
 * Arrays are taken in blocks of a size that stays in the first cache: the arguments of tanh, erf or
 * exp first, then the function on all of them at the speed of the instruction set, then the rest.
 * Elements never meet, so the blocks change nothing in the result.
 *
 * Far from zero one factor becomes 0 while the other grows without bound. Their product is 0 there,
 * also where the other factor is infinite: x so large that x * x overflows must not give NaN. */
#include "lockstep/kernels/activation.h"

#include "kernels/row_lanes.h"
#include "lockstep/numerics/functions.h"

/* factor * other, and 0 with the sign it would have for a finite negative `other` where factor is
 * 0. */
static ls_real vanishing(ls_real factor, ls_real other)
{
    return factor == (ls_real)0 ? (ls_real)-0.0 : factor * other;
}

static const ls_real half = (ls_real)0.5, one = (ls_real)1;

/* ---- the tanh form ------------------------------------------------------------------------------
 */

static const ls_real root_2_over_pi = (ls_real)0.79788456080286535588;
static const ls_real cubic = (ls_real)0.044715, cubic_3 = (ls_real)0.134145; /* 3 * 0.044715 */

/* t = tanh(c (x + 0.044715 ((x x) x))) */
static void tanh_of_inner(ls_real *t, const ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) t[i] = root_2_over_pi * (x[i] + cubic * ((x[i] * x[i]) * x[i]));
    ls_tanh_n(t, t, n);
}

void ls_gelu_tanh_forward(ls_real *y, const ls_real *x, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real t[BLOCK];
        const size_t width = block_length(b, n);
        tanh_of_inner(t, x + b, width);
        for (size_t i = 0; i < width; i++) y[b + i] = vanishing(one + t[i], half * x[b + i]);
    }
}

/* Differentiates y = (0.5 x) (1 + t), t = tanh(u), u = c (x + 0.044715 x^3):
 *     dy/dx = 0.5 (1 + t) + (1 - t t) ((0.5 x) du/dx),  du/dx = c (1 + 3 * 0.044715 (x x)). */
void ls_gelu_tanh_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real t[BLOCK];
        const size_t width = block_length(b, n);
        tanh_of_inner(t, x + b, width);
        for (size_t i = 0; i < width; i++) {
            const ls_real v = x[b + i];
            const ls_real slope = root_2_over_pi * (one + cubic_3 * (v * v));
            const ls_real through_t = vanishing(one - t[i] * t[i], (half * v) * slope);
            dx[b + i] = dy[b + i] * (half * (one + t[i]) + through_t);
        }
    }
}

/* ---- the exact form -----------------------------------------------------------------------------
 */

static const ls_real root_half = (ls_real)0.70710678118654752440;         /* 1 / sqrt(2)      */
static const ls_real inverse_root_2_pi = (ls_real)0.39894228040143267794; /* 1 / sqrt(2 pi)   */

/* e = erf(x / sqrt 2) */
static void erf_of_inner(ls_real *e, const ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) e[i] = x[i] * root_half;
    ls_erf_n(e, e, n);
}

void ls_gelu_erf_forward(ls_real *y, const ls_real *x, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real e[BLOCK];
        const size_t width = block_length(b, n);
        erf_of_inner(e, x + b, width);
        for (size_t i = 0; i < width; i++) y[b + i] = vanishing(one + e[i], half * x[b + i]);
    }
}

/* Differentiates y = (0.5 x) (1 + erf(x / sqrt 2)):
 *     dy/dx = 0.5 (1 + erf(x / sqrt 2)) + (exp(-(0.5 (x x))) / sqrt(2 pi)) x. */
void ls_gelu_erf_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real e[BLOCK], density[BLOCK];
        const size_t width = block_length(b, n);
        erf_of_inner(e, x + b, width);
        for (size_t i = 0; i < width; i++) density[i] = -(half * (x[b + i] * x[b + i]));
        ls_exp_n(density, density, width);
        for (size_t i = 0; i < width; i++) {
            const ls_real through_erf = vanishing(density[i] * inverse_root_2_pi, x[b + i]);
            dx[b + i] = dy[b + i] * (half * (one + e[i]) + through_erf);
        }
    }
}
