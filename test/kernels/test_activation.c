/* test_activation.c - GELU in both forms, SwiGLU, tanh. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/activation.h"
#include "lockstep/numerics/functions.h"
#include "run_tests.h"

static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 15, 16, 17, 33, 255, 256, 257, 513};

enum { GRID = 4001 };

/* -20 .. 20 in steps of 0.01 */
static ls_real *grid(void)
{
    ls_real *x = fresh(GRID);
    for (int i = 0; i < GRID; i++) x[i] = (ls_real)((i - GRID / 2) * 0.01);
    return x;
}

/* Every operation in the order the header and the source state, with the functions of numerics. */
static ls_real gelu_tanh_inner(ls_real x)
{
    return ls_tanh((ls_real)0.79788456080286535588 * (x + (ls_real)0.044715 * ((x * x) * x)));
}

START_TEST(operations_in_the_stated_order)
{
    const ls_real c = (ls_real)0.79788456080286535588, h = (ls_real)0.5;
    ls_real *x = grid(), *dy = noise(GRID, 1), *up = noise(GRID, 2);
    ls_real *y = fresh(GRID), *dx = fresh(GRID), *dup = fresh(GRID);

    ls_gelu_tanh_forward(y, x, GRID);
    ls_gelu_tanh_backward(dx, dy, x, GRID);
    for (size_t i = 0; i < GRID; i++) {
        const ls_real v = x[i], t = gelu_tanh_inner(v);
        const ls_real slope = c * (1 + (ls_real)0.134145 * (v * v));
        ls_real by_t = (1 - t * t) * ((h * v) * slope);
        ck_assert(same_value(y[i], (h * v) * (1 + t)));
        if (by_t == 0) by_t = NEG_ZERO;
        ck_assert(same_value(dx[i], dy[i] * (h * (1 + t) + by_t)));
    }

    ls_gelu_erf_forward(y, x, GRID);
    ls_gelu_erf_backward(dx, dy, x, GRID);
    for (size_t i = 0; i < GRID; i++) {
        const ls_real v = x[i], e = ls_erf(v * (ls_real)0.70710678118654752440);
        ls_real by_e = (ls_exp(-(h * (v * v))) * (ls_real)0.39894228040143267794) * v;
        ck_assert(same_value(y[i], (h * v) * (1 + e)));
        if (by_e == 0) by_e = NEG_ZERO;
        ck_assert(same_value(dx[i], dy[i] * (h * (1 + e) + by_e)));
    }

    ls_swiglu_forward(y, x, up, GRID);
    ls_swiglu_backward(dx, dup, dy, x, up, GRID);
    for (size_t i = 0; i < GRID; i++) {
        const ls_real v = x[i], e = ls_exp(v < 0 ? v : -v), r = 1 / (1 + e);
        const ls_real sigmoid = v < 0 ? e * r : r, silu = v * sigmoid;
        ls_real through = v * ((e * r) * r);
        if ((e * r) * r == 0) through = NEG_ZERO;
        ck_assert(same_value(y[i], (sigmoid == 0 ? NEG_ZERO : silu) * up[i]));
        ck_assert(same_value(dup[i], dy[i] * (sigmoid == 0 ? NEG_ZERO : silu)));
        ck_assert(same_value(dx[i], (dy[i] * up[i]) * (sigmoid + through)));
    }

    ls_tanh_forward(y, x, GRID);
    ls_tanh_backward(dx, dy, y, GRID);
    for (size_t i = 0; i < GRID; i++) {
        ck_assert(same_value(y[i], ls_tanh(x[i])));
        ck_assert(same_value(dx[i], dy[i] * (1 - y[i] * y[i])));
    }
}
END_TEST

/* An element does not depend on where in an array it stands, nor on how many there are; outputs may
 * be the inputs that the header names. */
START_TEST(elements_do_not_know_each_other)
{
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const size_t n = sizes[k];
        ls_real *x = noise(n, 3), *dy = noise(n, 4), *up = noise(n, 5);
        ls_real *y[4] = {fresh(n), fresh(n), fresh(n), fresh(n)};
        ls_real *dx[4] = {fresh(n), fresh(n), fresh(n), fresh(n)};
        ls_real *dup = fresh(n), one[1], two[1];
        for (int twice = 0; twice < 2; twice++) {
            ls_gelu_tanh_forward(y[0], x, n);
            ls_gelu_tanh_backward(dx[0], dy, x, n);
            ls_gelu_erf_forward(y[1], x, n);
            ls_gelu_erf_backward(dx[1], dy, x, n);
            ls_swiglu_forward(y[2], x, up, n);
            ls_swiglu_backward(dx[2], dup, dy, x, up, n);
            ls_tanh_forward(y[3], x, n);
            ls_tanh_backward(dx[3], dy, y[3], n);
            for (size_t i = 0; i < n; i++) {
                ls_gelu_tanh_forward(one, x + i, 1);
                ck_assert(same_value(one[0], y[0][i]));
                ls_gelu_tanh_backward(one, dy + i, x + i, 1);
                ck_assert(same_value(one[0], dx[0][i]));
                ls_gelu_erf_forward(one, x + i, 1);
                ck_assert(same_value(one[0], y[1][i]));
                ls_gelu_erf_backward(one, dy + i, x + i, 1);
                ck_assert(same_value(one[0], dx[1][i]));
                ls_swiglu_forward(one, x + i, up + i, 1);
                ck_assert(same_value(one[0], y[2][i]));
                ls_swiglu_backward(one, two, dy + i, x + i, up + i, 1);
                ck_assert(same_value(one[0], dx[2][i]) && same_value(two[0], dup[i]));
                ls_tanh_forward(one, x + i, 1);
                ck_assert(same_value(one[0], y[3][i]));
                ls_tanh_backward(two, dy + i, one, 1);
                ck_assert(same_value(two[0], dx[3][i]));
            }
        }
        ls_real *in = copy_of(x, n);
        ls_gelu_tanh_forward(in, in, n);
        ck_assert(same(in, y[0], n));
        in = copy_of(x, n);
        ls_gelu_erf_forward(in, in, n);
        ck_assert(same(in, y[1], n));
        in = copy_of(dy, n);
        ls_gelu_tanh_backward(in, in, x, n);
        ck_assert(same(in, dx[0], n));
        in = copy_of(dy, n);
        ls_gelu_erf_backward(in, in, x, n);
        ck_assert(same(in, dx[1], n));
        in = copy_of(dy, n);
        ls_swiglu_backward(in, dup, in, x, up, n);
        ck_assert(same(in, dx[2], n));
        in = copy_of(x, n);
        ls_swiglu_forward(in, in, up, n);
        ck_assert(same(in, y[2], n));
        in = copy_of(x, n);
        ls_tanh_forward(in, in, n);
        ck_assert(same(in, y[3], n));
        in = copy_of(dy, n);
        ls_tanh_backward(in, in, y[3], n);
        ck_assert(same(in, dx[3], n));
    }
}
END_TEST

static long double phi(long double x)
{
    return expl(-x * x / 2) / sqrtl(2 * acosl(-1.0L));
}

/* TRUTH, absolute: 1 + tanh and 1 + erf lose what 1 is large against; so does 1 - t * t, times x.
 */
START_TEST(distance_to_truth)
{
    static long double fwd[4][GRID], back[4][GRID];
    const long double c = sqrtl(2 / acosl(-1.0L));
    ls_real *x = grid(), *y = fresh(GRID), *dx = fresh(GRID), *one = fresh(GRID),
            *dup = fresh(GRID);
    for (size_t i = 0; i < GRID; i++) {
        const long double v = (long double)x[i];
        const long double t = tanhl(c * (v + 0.044715L * v * v * v)), e = erfl(v / sqrtl(2.0L));
        const long double s = 1 / (1 + expl(-v));
        fwd[0][i] = 0.5L * v * (1 + t);
        back[0][i] = 0.5L * (1 + t) + 0.5L * v * (1 - t * t) * c * (1 + 3 * 0.044715L * v * v);
        fwd[1][i] = 0.5L * v * (1 + e);
        back[1][i] = 0.5L * (1 + e) + v * phi(v);
        fwd[2][i] = v * s;
        back[2][i] = s * (1 + v * (1 - s));
        fwd[3][i] = tanhl(v);
        back[3][i] = 1 - fwd[3][i] * fwd[3][i];
        one[i] = 1;
    }
    for (size_t i = 0; i < GRID; i++) {
        const double size = 1 + fabs((double)x[i]);
        const long double *f = fwd[0] + i, *b = back[0] + i;
        ls_gelu_tanh_forward(y + i, x + i, 1);
        ls_gelu_tanh_backward(dx + i, one + i, x + i, 1);
        ck_assert(within(y + i, f, 1, 1.5 * EPSILON * size));
        const double half_x_slope = 0.4 * fabs((double)x[i]) * (1 + 0.14 * size * size);
        ck_assert(within(dx + i, b, 1, EPSILON * (3 + 2 * half_x_slope)));
        f = fwd[1] + i, b = back[1] + i;
        ls_gelu_erf_forward(y + i, x + i, 1);
        ls_gelu_erf_backward(dx + i, one + i, x + i, 1);
        ck_assert(within(y + i, f, 1, 1.5 * EPSILON * size));
        ck_assert(within(dx + i, b, 1, 3 * EPSILON));
        /* the sigmoid is relative on both sides: nothing is subtracted */
        f = fwd[2] + i, b = back[2] + i;
        ls_swiglu_forward(y + i, x + i, one + i, 1);
        ls_swiglu_backward(dx + i, dup + i, one + i, x + i, one + i, 1);
        ck_assert(within(y + i, f, 1, 4 * EPSILON * (double)fabsl(*f)));
        ck_assert(within(dup + i, f, 1, 4 * EPSILON * (double)fabsl(*f)));
        ck_assert(within(dx + i, b, 1,
                         3 * EPSILON * (size * exp(-fabs((double)x[i])) + fabs((double)*b))));
        f = fwd[3] + i, b = back[3] + i;
        ls_tanh_forward(y + i, x + i, 1);
        ls_tanh_backward(dx + i, one + i, y + i, 1);
        ck_assert(within(y + i, f, 1, EPSILON * (double)fabsl(*f)));
        ck_assert(within(dx + i, b, 1, 3 * EPSILON)); /* what 1 is large against is lost */
    }
}
END_TEST

/* The two forms of GELU differ: at 1 they are 0.841192 and 0.841345. */
START_TEST(known_values)
{
    const ls_real x[4] = {0, 1, -1, NEG_ZERO}, dy[4] = {3, 3, 3, 3}, up[4] = {2, 2, 2, 2};
    ls_real y[4], dx[4], dup[4];
    ls_gelu_tanh_forward(y, x, 4);
    ck_assert(y[0] == 0 && y[3] == 0);
    ck_assert(near(y[1], 0.84119199060827670, 2e-7) && near(y[2], -0.15880800939172324, 2e-7));
    ls_gelu_erf_forward(y, x, 4);
    ck_assert(y[0] == 0 && y[3] == 0);
    ck_assert(near(y[1], 0.84134474606854293, 2e-7) && near(y[2], -0.15865525393145707, 2e-7));
    ls_gelu_tanh_backward(dx, dy, x, 4);
    ck_assert(dx[0] == (ls_real)1.5 && dx[3] == (ls_real)1.5);
    ls_gelu_erf_backward(dx, dy, x, 4);
    ck_assert(dx[0] == (ls_real)1.5 && dx[3] == (ls_real)1.5);
    ls_swiglu_forward(y, x, up, 4);
    ck_assert(y[0] == 0 && near(y[1], 2 * 0.7310585786300049, 4e-7));
    ls_swiglu_backward(dx, dup, dy, x, up, 4);
    ck_assert(dx[0] == 3 && dup[0] == 0);
    ls_tanh_forward(y, x, 4);
    ck_assert(same_value(y[0], POS_ZERO) && same_value(y[3], NEG_ZERO) && y[2] == -y[1]);
    ck_assert(near(y[1], 0.76159415595576489, 1e-7));
    ls_tanh_backward(dx, dy, y, 4);
    ck_assert(dx[0] == 3 && near(dx[1], 3 * 0.41997434161402607, 1e-6) && dx[2] == dx[1]);
}
END_TEST

/* Far out the functions are x or nothing, their slopes 1 or 0; never inf * 0. */
START_TEST(far_from_zero)
{
    const ls_real far[] = {
        (ls_real)30, (ls_real)1000, (ls_real)1e13, (ls_real)2e19, (ls_real)1e30, LARGEST, INF};
    for (size_t k = 0; k < COUNT(far); k++) {
        const ls_real up[1] = {1}, d[1] = {3}, pos[1] = {far[k]}, neg[1] = {-far[k]};
        ls_real y[1], dx[1], dup[1];
        ls_gelu_tanh_forward(y, pos, 1);
        ck_assert(y[0] == far[k]);
        ls_gelu_erf_forward(y, pos, 1);
        ck_assert(y[0] == far[k]);
        ls_gelu_tanh_backward(dx, d, pos, 1);
        ck_assert(dx[0] == 3);
        ls_gelu_erf_backward(dx, d, pos, 1);
        ck_assert(dx[0] == 3);
        ls_gelu_tanh_forward(y, neg, 1);
        ck_assert(same_value(y[0], NEG_ZERO));
        ls_gelu_erf_forward(y, neg, 1);
        ck_assert(same_value(y[0], NEG_ZERO));
        ls_gelu_tanh_backward(dx, d, neg, 1);
        ck_assert(dx[0] == 0);
        ls_gelu_erf_backward(dx, d, neg, 1);
        ck_assert(dx[0] == 0 || fabs((double)dx[0]) < 1e-190); /* exp(-450) in binary64 */
        ls_tanh_forward(y, neg, 1);
        ls_tanh_backward(dx, d, y, 1);
        ck_assert(y[0] == -1 && same_value(dx[0], POS_ZERO));
        if (k == 0) continue; /* exp(-30) is not yet nothing */
        ls_swiglu_forward(y, pos, up, 1);
        ck_assert(y[0] == far[k]);
        ls_swiglu_backward(dx, dup, d, pos, up, 1);
        ck_assert(dx[0] == 3 && dup[0] == (far[k] > LARGEST / 4 ? INF : 3 * far[k]));
        ls_swiglu_forward(y, neg, up, 1);
        ck_assert(same_value(y[0], NEG_ZERO));
        ls_swiglu_backward(dx, dup, d, neg, up, 1);
        ck_assert(dx[0] == 0 && dup[0] == 0);
    }
}
END_TEST

/* Where exp(-x) overflows, x = -89 in binary32, the function is not zero yet. */
START_TEST(sigmoid_below_the_range_of_exp)
{
#ifdef LS_REAL_IS_F64
    const ls_real x[1] = {-709.9}, up[1] = {1}, d[1] = {1};
#else
    const ls_real x[1] = {-89.0f}, up[1] = {1}, d[1] = {1};
#endif
    const long double right = (long double)x[0] * expl((long double)x[0]);
    ls_real y[1], dx[1], dup[1];
    ls_swiglu_forward(y, x, up, 1);
    ls_swiglu_backward(dx, dup, d, x, up, 1);
    ck_assert(y[0] != 0 && fabsl((long double)y[0] / right - 1) < 1e-5L); /* exp(x) is subnormal */
    ck_assert(dup[0] == y[0] && fabsl((long double)dx[0] / right - 1) < 0.02L);
}
END_TEST

/* ReLU chooses: -0 and what is below become +0, NaN comes through, and so does its gradient. */
START_TEST(relu_chooses)
{
    const ls_real nan = (ls_real)NAN;
    const ls_real x[] = {3, -2, POS_ZERO, NEG_ZERO, INF, -INF, (ls_real)1e-30},
                  dy[] = {5, INF, INF, nan, -7, 2, 4};
    const ls_real y[] = {3, 0, 0, 0, INF, 0, (ls_real)1e-30}, dx[] = {5, 0, 0, 0, -7, 0, 4};
    ls_real *own = copy_of(x, COUNT(x)), *back = copy_of(dy, COUNT(dy));
    ls_relu_forward(own, own, COUNT(x));
    ls_relu_backward(back, back, own, COUNT(x));
    ck_assert(same(own, y, COUNT(x)) && same(back, dx, COUNT(x)));
    ls_real bad = nan, slope = 2;
    ls_relu_forward(&bad, &bad, 1);
    ls_relu_backward(&slope, &slope, &bad, 1);
    ck_assert(bad != bad && slope == 2);
}
END_TEST

START_TEST(nan_stays)
{
    const ls_real x[1] = {(ls_real)NAN}, d[1] = {1};
    ls_real y[1], dup[1];
    ls_gelu_tanh_forward(y, x, 1);
    ck_assert(isnan(y[0]));
    ls_gelu_erf_forward(y, x, 1);
    ck_assert(isnan(y[0]));
    ls_swiglu_forward(y, x, d, 1);
    ck_assert(isnan(y[0]));
    ls_tanh_forward(y, x, 1);
    ck_assert(isnan(y[0]));
    ls_tanh_backward(y, d, y, 1);
    ck_assert(isnan(y[0]));
    ls_gelu_tanh_backward(y, d, x, 1);
    ck_assert(isnan(y[0]));
    ls_gelu_erf_backward(y, d, x, 1);
    ck_assert(isnan(y[0]));
    ls_swiglu_backward(y, dup, d, x, d, 1);
    ck_assert(isnan(y[0]) && isnan(dup[0]));
}
END_TEST

#ifdef LS_REAL_IS_F64
enum { FEW = 61 };

typedef struct activation_case {
    double *x, *up, *dy, *y;
    int which;
} activation_case;

static double activation_objective(void *context)
{
    activation_case *a = context;
    if (a->which == 0) ls_gelu_tanh_forward(a->y, a->x, FEW);
    if (a->which == 1) ls_gelu_erf_forward(a->y, a->x, FEW);
    if (a->which == 2) ls_swiglu_forward(a->y, a->x, a->up, FEW);
    if (a->which == 3) ls_tanh_forward(a->y, a->x, FEW);
    return weighted_sum(a->dy, a->y, FEW);
}

START_TEST(gradients)
{
    activation_case a = {fresh(FEW), noise(FEW, 6), noise(FEW, 7), fresh(FEW), 0};
    double *dx = fresh(FEW), *dup = fresh(FEW);
    for (int i = 0; i < FEW; i++) a.x[i] = (i - FEW / 2) * 0.21;
    ls_gelu_tanh_backward(dx, a.dy, a.x, FEW);
    check_gradient(activation_objective, &a, a.x, dx, FEW, "GELU, tanh form");
    a.which = 1;
    ls_gelu_erf_backward(dx, a.dy, a.x, FEW);
    check_gradient(activation_objective, &a, a.x, dx, FEW, "GELU, exact form");
    a.which = 2;
    ls_swiglu_backward(dx, dup, a.dy, a.x, a.up, FEW);
    check_gradient(activation_objective, &a, a.x, dx, FEW, "dgate");
    check_gradient(activation_objective, &a, a.up, dup, FEW, "dup");
    a.which = 3;
    ls_tanh_forward(a.y, a.x, FEW);
    ls_tanh_backward(dx, a.dy, a.y, FEW);
    check_gradient(activation_objective, &a, a.x, dx, FEW, "tanh");
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {operations_in_the_stated_order,
                                  elements_do_not_know_each_other,
                                  distance_to_truth,
                                  known_values,
                                  far_from_zero,
                                  sigmoid_below_the_range_of_exp,
                                  relu_chooses,
                                  nan_stays,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("activation", tests, COUNT(tests));
}
