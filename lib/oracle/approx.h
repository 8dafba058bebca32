/* approx.h - a number and how far another computation of it may be off.
 *
 * An operation is judged by computing it in binary64 from the same inputs together with a bound for
 * what somebody else gets who computes it in a coarser precision, in whatever order. The bound is
 * carried along: each value stands with an error, each step adds
 *
 *     what the errors of its operands do to the result        (first order, and the product of two)
 *     one rounding:  u |value| + tiny       u: unit roundoff; tiny: half the smallest subnormal and
 *                                           what a flush to zero loses
 *
 * A sum of k terms in any order, with or without fused multiply-add: every term goes through at
 * most k - 1 additions and the rounding of its own product, so the error is at most
 *
 *     sum of the terms' errors + (k + 2) u (sum of |term| + errors) + (k + 2) tiny
 *
 * (Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4; the + 2 covers a
 * product and a factor applied before or after the sum, and the second order while k u is small.)
 *
 * Sums over images and pixels have tens of thousands of terms, of which the worst case is never
 * seen: as roundings have either sign, an error grows with the root of their number (Higham & Mary,
 * SIAM J. Sci. Comput. 41, 2019). Of a network's sums at most 16 sqrt(k) + 16 roundings are
 * counted.
 *
 * Binary64's own rounding here is 2^29 times smaller than binary32's and is left out; against a
 * candidate in binary64 u is taken double, once for each side. */
#ifndef LS_ORACLE_APPROX_H
#define LS_ORACLE_APPROX_H

#include <math.h>
#include <stddef.h>

#include "oracle/operation.h"

typedef struct approx {
    double value, error;
} approx;

/* exp, tanh, erf, log of a foreign library: this many units of roundoff. */
#define APPROX_FUNCTION 8.0

static inline approx approx_exact(double value)
{
    approx a = {value, 0};
    return a;
}

/* An element of a tensor that was written down: where files are coarser than what was computed
 * with, what the operation had was a rounding away. In sums of products the parts' roundings cover
 * it. */
static inline approx approx_input(const ls_precision *p, double value)
{
    approx a = {value, p->sum < p->u ? 2 * p->u * fabs(value) + p->tiny : 0};
    return a;
}

/* A constant of the model, rounded once to the precision. */
static inline approx approx_constant(const ls_precision *p, double value)
{
    approx a = {value, 2 * p->u * fabs(value)};
    return a;
}

static inline approx approx_rounded(const ls_precision *p, double value, double error,
                                    double roundings)
{
    approx a = {value, error + roundings * p->u * (fabs(value) + error) + p->tiny};
    return a;
}

static inline approx approx_add(const ls_precision *p, approx a, approx b)
{
    return approx_rounded(p, a.value + b.value, a.error + b.error, 2);
}

static inline approx approx_subtract(const ls_precision *p, approx a, approx b)
{
    return approx_rounded(p, a.value - b.value, a.error + b.error, 2);
}

/* Without a rounding of its own. */
static inline approx approx_product(approx a, approx b)
{
    approx c = {a.value * b.value,
                fabs(a.value) * b.error + fabs(b.value) * a.error + a.error * b.error};
    return c;
}

static inline approx approx_multiply(const ls_precision *p, approx a, approx b)
{
    const approx c = approx_product(a, b);
    return approx_rounded(p, c.value, c.error, 2);
}

/* a / b; without a bound (infinity) where b may be 0. */
static inline approx approx_divide(const ls_precision *p, approx a, approx b)
{
    const double value = a.value / b.value, least = fabs(b.value) - b.error;
    if (!(least > 0)) {
        approx c = {value, HUGE_VAL};
        return c;
    }
    return approx_rounded(p, value, (a.error + fabs(value) * b.error) / least, 4);
}

/* |sqrt(x + e) - sqrt(x)| <= e / (sqrt(x) + sqrt(x - e)), and sqrt(e) at most. */
static inline approx approx_root(const ls_precision *p, approx a)
{
    const double value = sqrt(a.value);
    const double slope = value > 0 ? a.error / value : HUGE_VAL;
    return approx_rounded(p, value, a.error > 0 ? fmin(slope, sqrt(a.error)) : 0, 2);
}

static inline approx approx_exp(const ls_precision *p, approx a)
{
    const double value = exp(a.value);
    return approx_rounded(p, value, value * expm1(a.error), APPROX_FUNCTION);
}

static inline approx approx_log(const ls_precision *p, approx a)
{
    const double least = a.value - a.error;
    return approx_rounded(p, log(a.value), least > 0 ? a.error / least : HUGE_VAL, APPROX_FUNCTION);
}

/* The slope is largest where the argument is nearest to 0. */
static inline double approx_nearest(approx a)
{
    return fmax(0, fabs(a.value) - a.error);
}

static inline approx approx_tanh(const ls_precision *p, approx a)
{
    const double t = tanh(approx_nearest(a));
    return approx_rounded(p, tanh(a.value), a.error * (1 - t * t), APPROX_FUNCTION);
}

static inline approx approx_erf(const ls_precision *p, approx a)
{
    const double x = approx_nearest(a);
    return approx_rounded(p, erf(a.value), a.error * 1.1283791670955126 * exp(-x * x),
                          APPROX_FUNCTION);
}

/* The error of a result: 0 times an error without limit is without limit too. */
static inline double approx_bound(approx a)
{
    return isnan(a.error) ? HUGE_VAL : a.error;
}

/* ---- sums ---- */

typedef struct approx_sum {
    double value, error, magnitude, count;
} approx_sum;

static inline void approx_sum_add(approx_sum *sum, approx term)
{
    sum->value += term.value;
    sum->error += term.error;
    sum->magnitude += fabs(term.value);
    sum->count++;
}

static inline approx approx_sum_end(const ls_precision *p, const approx_sum *sum)
{
    approx a = {sum->value, sum->error};
    if (sum->count == 0) return a;
    double terms = sum->count + 2;
    if (p->many) terms = fmin(terms, 16 * sqrt(sum->count) + 16);
    const double all = sum->magnitude + sum->error;
    a.error += terms * (p->sum * all + p->tiny);
    if (p->sum < p->u) a.error += p->partials * p->u * all; /* parts meet in the coarse precision */
    a.error += p->u * (fabs(a.value) + a.error);
    return a;
}

#endif
