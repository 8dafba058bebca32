/* approx.h - a number and how far another computation of it may be off.
 *
 * An operation is judged by computing it in binary64 from the same inputs together with a bound for
 * what another program gets that computes it in a coarser precision, in whatever order. The bound
 * is carried along: each value has an error, each step adds
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
 * That error is the worst case: no order of whatever sums gives more. In a narrow format it is
 * often larger than the value, and says nothing. So a variance is carried along too, the sum of the
 * squares of all roundings, each weighted by what it does to the result, as if they were
 * independent:
 *
 *     one rounding   (u value)^2, also of a function, which is computed in a wider format first;
 *                    what happens is a rounding of at most u, of variance u^2 / 3 and less
 *     a sum          the terms' variances; an addition rounds a partial sum, which is at most the
 *                    sum of all |term|: k (u_sum sum |term|)^2; in a narrow format u^2 term^2 for
 *                    both operands of each, and for each meeting of parts u^2 / 4 times the sum of
 *                    all term^2 and the square of the sum, which parts lie between
 *
 * Its root is about twice what a right computation is off by, on average over a tensor. operation.h
 * says how both are used.
 *
 * Binary64's own rounding here is 2^29 times smaller than binary32's and is left out; against a
 * candidate in binary64 u is taken double, once for each side. */
#ifndef LS_STEP_GRAPH_APPROX_H
#define LS_STEP_GRAPH_APPROX_H

#include <math.h>
#include <stddef.h>

#include "step_graph/operation.h"

typedef struct approx {
    double value, error, variance;
} approx;

/* exp, tanh, erf, log of a foreign library: this many units of roundoff. */
#define APPROX_FUNCTION 8.0

static inline approx approx_exact(double value)
{
    approx a = {value, 0, 0};
    return a;
}

/* `value` that is off by up to `error`. */
static inline approx approx_within(double value, double error)
{
    approx a = {value, error, error * error};
    return a;
}

static inline approx approx_add_error(approx a, double error)
{
    a.error += error;
    a.variance += error * error;
    return a;
}

/* An element of a tensor that was written down: what the operation had may be a rounding away,
 * since a product's sum may go into the next operation before it is rounded, and since files may be
 * coarser than what was computed with. In sums of products the parts' roundings cover it. */
static inline approx approx_input(const ls_precision *p, double value)
{
    const double once = p->u * fabs(value) + p->tiny;
    const approx a = {value, (p->sum < p->u ? 2 : 1) * once, once * once};
    return a;
}

/* A constant of the model, rounded once to the precision. */
static inline approx approx_constant(const ls_precision *p, double value)
{
    const double once = p->u * fabs(value);
    const approx a = {value, 2 * once, once * once};
    return a;
}

static inline approx approx_rounded(const ls_precision *p, approx a, double roundings)
{
    const double once = p->u * fabs(a.value) + p->tiny;
    a.variance += once * once;
    a.error += roundings * p->u * (fabs(a.value) + a.error) + p->tiny;
    return a;
}

static inline approx approx_negative(approx a)
{
    a.value = -a.value;
    return a;
}

static inline approx approx_add(const ls_precision *p, approx a, approx b)
{
    const approx c = {a.value + b.value, a.error + b.error, a.variance + b.variance};
    return approx_rounded(p, c, 2);
}

static inline approx approx_subtract(const ls_precision *p, approx a, approx b)
{
    return approx_add(p, a, approx_negative(b));
}

/* Without a rounding of its own. */
static inline approx approx_product(approx a, approx b)
{
    const double aa = a.value * a.value, bb = b.value * b.value;
    const approx c = {a.value * b.value,
                      fabs(a.value) * b.error + fabs(b.value) * a.error + a.error * b.error,
                      aa * b.variance + bb * a.variance + a.variance * b.variance};
    return c;
}

static inline approx approx_multiply(const ls_precision *p, approx a, approx b)
{
    return approx_rounded(p, approx_product(a, b), 2);
}

/* a / b; without a bound (infinity) where b may be 0. */
static inline approx approx_divide(const ls_precision *p, approx a, approx b)
{
    const double value = a.value / b.value, least = fabs(b.value) - b.error;
    const approx c = {value, least > 0 ? (a.error + fabs(value) * b.error) / least : HUGE_VAL,
                      (a.variance + value * value * b.variance) / (b.value * b.value)};
    return approx_rounded(p, c, 4);
}

/* |sqrt(x + e) - sqrt(x)| <= e / (sqrt(x) + sqrt(x - e)), and sqrt(e) at most. */
static inline approx approx_root(const ls_precision *p, approx a)
{
    approx c = {sqrt(a.value), 0, 0};
    if (a.error > 0) {
        c.error = a.error / (c.value + sqrt(fmax(0, a.value - a.error)));
        if (!(c.error <= sqrt(a.error))) c.error = sqrt(a.error);
        c.variance = fmin(c.value > 0 ? a.variance / (4 * a.value) : HUGE_VAL, sqrt(a.variance));
    }
    return approx_rounded(p, c, 2);
}

static inline approx approx_exp(const ls_precision *p, approx a)
{
    const double value = exp(a.value);
    const double off = a.variance > 0 ? value * expm1(sqrt(a.variance)) : 0;
    const approx c = {value, a.error > 0 ? value * expm1(a.error) : 0, off * off};
    return approx_rounded(p, c, APPROX_FUNCTION);
}

static inline approx approx_log(const ls_precision *p, approx a)
{
    const double least = a.value - a.error;
    const approx c = {log(a.value), least > 0 ? a.error / least : HUGE_VAL,
                      a.variance / (a.value * a.value)};
    return approx_rounded(p, c, APPROX_FUNCTION);
}

/* A function's value whose slope between here and where the argument may be is at most `slope`. */
static inline approx approx_sloped(const ls_precision *p, double value, approx a, double slope)
{
    const approx c = {value, a.error * slope, a.variance * slope * slope};
    return approx_rounded(p, c, APPROX_FUNCTION);
}

/* The slope is largest where the argument is nearest to 0. */
static inline double approx_nearest(approx a)
{
    return fmax(0, fabs(a.value) - a.error);
}

static inline approx approx_tanh(const ls_precision *p, approx a)
{
    const double t = tanh(approx_nearest(a));
    return approx_sloped(p, tanh(a.value), a, 1 - t * t);
}

/* Vectorised libraries take the polynomial 7.1.26 of Abramowitz and Stegun, which is off by as much
 * near 0 as elsewhere, up to 1.5e-7 or 2.5 x 2^-24: the bound is never below that of 1/2. */
static inline approx approx_erf(const ls_precision *p, approx a)
{
    const double x = approx_nearest(a);
    approx c = approx_sloped(p, erf(a.value), a, 1.1283791670955126 * exp(-x * x));
    c.error += APPROX_FUNCTION * p->u * fmax(0, 0.5 - fabs(c.value));
    return c;
}

/* The error of a result: 0 times an error without limit is without limit too. */
static inline double approx_bound(approx a)
{
    return isnan(a.error) ? HUGE_VAL : a.error;
}

/* ---- sums ---- */

typedef struct approx_sum {
    double value, error, variance, magnitude, squares, count;
} approx_sum;

static inline void approx_sum_add(approx_sum *sum, approx term)
{
    sum->value += term.value;
    sum->error += term.error;
    sum->variance += term.variance;
    sum->magnitude += fabs(term.value);
    sum->squares += term.value * term.value;
    sum->count++;
}

static inline approx approx_sum_end(const ls_precision *p, const approx_sum *sum)
{
    approx a = {sum->value, sum->error, sum->variance};
    if (sum->count == 0) return a;
    double terms = sum->count + 2;
    if (p->many) terms = fmin(terms, 16 * sqrt(sum->count) + 16);
    const double all = sum->magnitude + sum->error, once = p->sum * sum->magnitude + p->tiny;
    a.error += terms * (p->sum * all + p->tiny);
    a.variance += terms * once * once;
    if (p->sum < p->u) { /* parts meet in the coarse precision */
        a.error += p->partials * p->u * all;
        const double meetings = fmax(0, p->partials - LS_OPERAND_ROUNDINGS) / 4;
        a.variance += p->u * p->u * (sum->squares + meetings * (sum->squares + a.value * a.value));
    }
    return approx_rounded(p, a, 1);
}

#endif
