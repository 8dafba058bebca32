/* swiglu.c - SwiGLU, forward and backward.
 *
 * The sigmoid is made from e = exp(-|x|) <= 1, which cannot overflow, and r = 1 / (1 + e):
 *
 *     sigmoid(x)  = r              where x >= 0
 *                   e * r          where x <  0
 *     sigmoid'(x) = (e * r) * r    = sigmoid(x) (1 - sigmoid(x)), without the cancellation
 *
 * Infinities give the limits: x * sigmoid(x) is -0 at -infinity, x * sigmoid'(x) is 0 at both. */
#include "lockstep/kernels/activation.h"

#include <math.h>

#include "kernels/row_lanes.h"
#include "lockstep/numerics/functions.h"

static const ls_real one = (ls_real)1;

static ls_real magnitude(ls_real x)
{
#ifdef LS_REAL_IS_F64
    return fabs(x);
#else
    return fabsf(x);
#endif
}

/* e = exp(-|x|) */
static void exp_of_minus_magnitude(ls_real *e, const ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) e[i] = -magnitude(x[i]);
    ls_exp_n(e, e, n);
}

/* x * factor, and -0 where factor is 0, also for an infinite x. */
static ls_real vanishing(ls_real factor, ls_real x)
{
    return factor == (ls_real)0 ? (ls_real)-0.0 : x * factor;
}

void ls_swiglu_forward(ls_real *y, const ls_real *gate, const ls_real *up, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real e[BLOCK];
        const size_t width = block_length(b, n);
        exp_of_minus_magnitude(e, gate + b, width);
        for (size_t i = 0; i < width; i++) {
            const ls_real x = gate[b + i], r = one / (one + e[i]);
            const ls_real sigmoid = x < (ls_real)0 ? e[i] * r : r;
            y[b + i] = vanishing(sigmoid, x) * up[b + i];
        }
    }
}

/* Differentiates y = silu * up with silu = gate * sigmoid(gate):
 *     dup   = dy * silu
 *     dgate = (dy * up) * (sigmoid + gate * sigmoid'). */
void ls_swiglu_backward(ls_real *dgate, ls_real *dup, const ls_real *dy, const ls_real *gate,
                        const ls_real *up, size_t n)
{
    for (size_t b = 0; b < n; b += BLOCK) {
        ls_real e[BLOCK];
        const size_t width = block_length(b, n);
        exp_of_minus_magnitude(e, gate + b, width);
        for (size_t i = 0; i < width; i++) {
            const ls_real x = gate[b + i], r = one / (one + e[i]), d = dy[b + i];
            const ls_real sigmoid = x < (ls_real)0 ? e[i] * r : r;
            const ls_real slope = sigmoid + vanishing((e[i] * r) * r, x);
            dup[b + i] = d * vanishing(sigmoid, x);
            dgate[b + i] = (d * up[b + i]) * slope;
        }
    }
}
