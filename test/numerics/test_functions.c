/* test_functions.c - exp, log, tanh, erf, sin, cos, rsqrt: values (contract rule 2).
 *
 * TRUTH at stored hard places; tools/mpfr looks everywhere. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "lockstep/numerics/compare.h"
#include "lockstep/numerics/functions.h"
#include "numerics/function_cases.h"
#include "run_tests.h"

#ifdef LS_REAL_IS_F64
#define REAL_MIN DBL_MIN
#define REAL_MAX DBL_MAX
#define next_after nextafter
#else
#define REAL_MIN FLT_MIN
#define REAL_MAX FLT_MAX
#define next_after nextafterf
#endif

typedef ls_real function(ls_real x);

static const ls_real inf = (ls_real)INFINITY;

static int same(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_case(const char *name, function *f, ls_real x, ls_real expected)
{
    ls_real y = f(x);
    ck_assert_msg(ls_ulps(y, expected) <= 1, "%s(%a) = %a, correctly rounded %a", name, (double)x,
                  (double)y, (double)expected);
}

static void check_cases(const char *name, function *f, const struct function_case *cases,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
#ifdef LS_REAL_IS_F64
        check_case(name, f, cases[i].x, cases[i].f64);
#else
        check_case(name, f, (float)cases[i].x, cases[i].f32);
#endif
    }
}


START_TEST(stored_cases)
{
    check_cases("exp", ls_exp, exp_cases, COUNT(exp_cases));
    check_cases("log", ls_log, log_cases, COUNT(log_cases));
    check_cases("tanh", ls_tanh, tanh_cases, COUNT(tanh_cases));
    check_cases("erf", ls_erf, erf_cases, COUNT(erf_cases));
    check_cases("sin", ls_sin, sin_cases, COUNT(sin_cases));
    check_cases("cos", ls_cos, cos_cases, COUNT(cos_cases));
#ifdef LS_REAL_IS_F64
    for (size_t i = 0; i < COUNT(exp_cases_f64); i++) {
        check_case("exp", ls_exp, exp_cases_f64[i][0], exp_cases_f64[i][1]);
    }
    for (size_t i = 0; i < COUNT(log_cases_f64); i++) {
        check_case("log", ls_log, log_cases_f64[i][0], log_cases_f64[i][1]);
    }
    for (size_t i = 0; i < COUNT(tanh_cases_f64); i++) {
        check_case("tanh", ls_tanh, tanh_cases_f64[i][0], tanh_cases_f64[i][1]);
    }
    for (size_t i = 0; i < COUNT(erf_cases_f64); i++) {
        check_case("erf", ls_erf, erf_cases_f64[i][0], erf_cases_f64[i][1]);
    }
    for (size_t i = 0; i < COUNT(sin_cases_f64); i++) {
        check_case("sin", ls_sin, sin_cases_f64[i][0], sin_cases_f64[i][1]);
    }
    for (size_t i = 0; i < COUNT(cos_cases_f64); i++) {
        check_case("cos", ls_cos, cos_cases_f64[i][0], cos_cases_f64[i][1]);
    }
#endif
}
END_TEST

START_TEST(special_values)
{
    const ls_real zero = 0, minus_zero = (ls_real)-0.0, one = 1, nan = (ls_real)NAN;
    ck_assert(same(ls_exp(-inf), zero));
    ck_assert(same(ls_exp(inf), inf));
    ck_assert(same(ls_exp(zero), one));
    ck_assert(same(ls_exp(minus_zero), one));
    ck_assert(same(ls_exp(REAL_MAX), inf));
    ck_assert(same(ls_exp(-REAL_MAX), zero));

    ck_assert(same(ls_log(zero), -inf));
    ck_assert(same(ls_log(minus_zero), -inf));
    ck_assert(same(ls_log(inf), inf));
    ck_assert(same(ls_log(one), zero));
    ck_assert(isnan(ls_log(-one)));
    ck_assert(isnan(ls_log(-inf)));
    ck_assert(isnan(ls_log(-next_after(zero, one))));

    ck_assert(same(ls_tanh(inf), one));
    ck_assert(same(ls_tanh(-inf), -one));
    ck_assert(same(ls_tanh(zero), zero));
    ck_assert(same(ls_tanh(minus_zero), minus_zero));
    ck_assert(same(ls_erf(inf), one));
    ck_assert(same(ls_erf(-inf), -one));
    ck_assert(same(ls_erf(zero), zero));
    ck_assert(same(ls_erf(minus_zero), minus_zero));

    ck_assert(same(ls_sin(zero), zero));
    ck_assert(same(ls_sin(minus_zero), minus_zero));
    ck_assert(same(ls_cos(zero), one));
    ck_assert(same(ls_cos(minus_zero), one));
    ck_assert(isnan(ls_sin(inf)) && isnan(ls_sin(-inf)));
    ck_assert(isnan(ls_cos(inf)) && isnan(ls_cos(-inf)));

    ck_assert(same(ls_rsqrt(zero), inf));
    ck_assert(same(ls_rsqrt(minus_zero), -inf));
    ck_assert(same(ls_rsqrt(inf), zero));
    ck_assert(same(ls_rsqrt(4), (ls_real)0.5));
    ck_assert(isnan(ls_rsqrt(-one)));

    function *all[] = {ls_exp, ls_log, ls_tanh, ls_erf, ls_sin, ls_cos, ls_rsqrt};
    for (size_t i = 0; i < COUNT(all); i++) {
        ck_assert(isnan(all[i](nan)));
        ck_assert(isnan(all[i](-nan)));
    }
}
END_TEST

/* The first argument that overflows, the last that does not, and the smallest results. */
START_TEST(ends_of_exp)
{
#ifdef LS_REAL_IS_F64
    const ls_real highest = 0x1.62e42fefa39efp+9, lowest = -0x1.74910d52d3051p+9;
#else
    const ls_real highest = 0x1.62e42ep+6f, lowest = -0x1.9fe368p+6f;
#endif
    ck_assert(isfinite(ls_exp(highest)));
    ck_assert(same(ls_exp(next_after(highest, inf)), inf));
    ck_assert(same(ls_exp(lowest), next_after(0, 1)));
    ck_assert(same(ls_exp(next_after(lowest, -inf)), 0));
}
END_TEST

/* Odd and even functions are so in every bit, over the whole range. */
START_TEST(symmetry)
{
    ls_real x = next_after(0, 1);
    for (int i = 0; i < 20000 && x < inf; i++) {
        int symmetric = same(ls_tanh(-x), -ls_tanh(x)) && same(ls_erf(-x), -ls_erf(x)) &&
                        same(ls_sin(-x), -ls_sin(x)) && same(ls_cos(-x), ls_cos(x));
        ck_assert_msg(symmetric, "at %a", (double)x);
        x = x * (ls_real)1.01 > x ? x * (ls_real)1.01 : next_after(x, inf);
    }
}
END_TEST

/* Tiny arguments: tanh x and sin x round to x; erf x to (2 / sqrt pi) x, one rounding. */
START_TEST(tiny_arguments)
{
    for (ls_real x = next_after(0, 1); x < (ls_real)1e-20; x *= (ls_real)1.7) {
        ck_assert(same(ls_tanh(x), x));
        ck_assert(same(ls_sin(x), x));
        if (x >= 16 * REAL_MIN) {
            ls_real expected = (ls_real)(1.1283791670955126 * (double)x);
            ck_assert(ls_ulps(ls_erf(x), expected) <= 1);
        }
        if (x * (ls_real)1.7 == x)
            x = 2 * x; /* the smallest subnormals do not grow by themselves */
    }
}
END_TEST

/* Where the function grows, the computed one does not fall, over runs of neighbouring arguments. */
START_TEST(monotonic)
{
    const ls_real starts[] = {(ls_real)1e-30, (ls_real)1e-4,  (ls_real)0.1733, (ls_real)0.3465,
                              (ls_real)0.999, (ls_real)1.732, (ls_real)3.9};
    function *all[] = {ls_exp, ls_log, ls_tanh, ls_erf};
    for (size_t k = 0; k < COUNT(all); k++) {
        for (size_t s = 0; s < COUNT(starts); s++) {
            ls_real x = starts[s], before = all[k](x);
            int falls = 0;
            for (int i = 0; i < 10000; i++) {
                x = next_after(x, inf);
                ls_real now = all[k](x);
                falls += !(now >= before);
                before = now;
            }
            ck_assert_int_eq(falls, 0);
        }
    }
}
END_TEST

/* log(1 + e^(b - a)) merges two softmax parts; with a above b it must not overflow, and far apart
 * parts give the larger one. */
START_TEST(merging_log_sums_does_not_overflow)
{
    const ls_real parts[][2] = {{0, 1000}, {1000, 0}, {-inf, 5}, {7, 7}};
    const ls_real expected[] = {1000, 1000, 5, 7 + (ls_real)0.69314718055994531};
    for (size_t i = 0; i < COUNT(parts); i++) {
        ls_real m = parts[i][0] > parts[i][1] ? parts[i][0] : parts[i][1];
        ls_real sum = ls_exp(parts[i][0] - m) + ls_exp(parts[i][1] - m);
        ck_assert(same(m + ls_log(sum), expected[i]));
    }
}
END_TEST

START_TEST(powers)
{
    ck_assert_double_eq(ls_power(2.0, 10), 1024.0);
    ck_assert_double_eq(ls_power(0.0, 0), 1.0);
    ck_assert_double_eq(ls_power(-3.0, 3), -27.0);
    ck_assert_double_eq(ls_power(0.5, 1074), 0x1p-1074);
    ck_assert_double_eq(ls_power(0.5, UINT64_MAX), 0.0);
    /* the order of the products is part of the contract: 1, 2 and 8 make 11 */
    double x = 1.152, x2 = x * x, x4 = x2 * x2, x8 = x4 * x4;
    ck_assert_double_eq(ls_power(x, 11), (x * x2) * x8);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 0);
    tcase_add_test(tc, stored_cases);
    tcase_add_test(tc, special_values);
    tcase_add_test(tc, ends_of_exp);
    tcase_add_test(tc, symmetry);
    tcase_add_test(tc, tiny_arguments);
    tcase_add_test(tc, monotonic);
    tcase_add_test(tc, merging_log_sums_does_not_overflow);
    tcase_add_test(tc, powers);
    return run_tests();
}
