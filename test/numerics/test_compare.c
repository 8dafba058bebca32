/* test_compare.c - equality and distance of arrays. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "lockstep/numerics/compare.h"
#include "run_tests.h"

/* A C file sees one precision of a typed function; this one wants both. */
LS_API uint64_t ls_ulps_f64(double left, double right);

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

START_TEST(ulps_count_the_numbers_between)
{
    ck_assert_uint_eq(ls_ulps(1.0f, 1.0f), 0);
    ck_assert_uint_eq(ls_ulps(1.0f, nextafterf(1.0f, 2.0f)), 1);
    ck_assert_uint_eq(ls_ulps(nextafterf(1.0f, 0.0f), nextafterf(1.0f, 2.0f)), 2);
    ck_assert_uint_eq(ls_ulps(0.0f, -0.0f), 1);
    ck_assert_uint_eq(ls_ulps(float_of(1), float_of(0x80000001u)), 3);
    ck_assert_uint_eq(ls_ulps(1.0f, 2.0f), 1u << 23);
    ck_assert_uint_eq(ls_ulps(FLT_MAX, INFINITY), 1);
    ck_assert_uint_eq(ls_ulps(-INFINITY, INFINITY), 2u * 0x7f800000u + 1);
    ck_assert_uint_eq(ls_ulps(NAN, -NAN), 0);
    ck_assert_uint_eq(ls_ulps(NAN, 1.0f), UINT64_MAX);
    ck_assert_uint_eq(ls_ulps(1.0f, NAN), UINT64_MAX);

    ck_assert_uint_eq(ls_ulps_f64(1.0, nextafter(1.0, 2.0)), 1);
    ck_assert_uint_eq(ls_ulps_f64(0.0, -0.0), 1);
    ck_assert_uint_eq(ls_ulps_f64(1.0, 2.0), (uint64_t)1 << 52);
    ck_assert_uint_eq(ls_ulps_f64((double)NAN, (double)INFINITY), UINT64_MAX);
}
END_TEST

START_TEST(bits_decide)
{
    float x[5] = {1.0f, 0.0f, NAN, -3.0f, INFINITY};
    float y[5] = {1.0f, 0.0f, -NAN, -3.0f, INFINITY};
    ls_difference d;
    memset(&d, 0xff, sizeof d);
    ck_assert_int_eq(ls_compare_bits(LS_F32, x, y, 5, &d), 1);
    ck_assert_uint_eq(d.count, 0);
    ck_assert_uint_eq(d.max_ulps, 0);
    ck_assert_int_eq(ls_compare_bits(LS_F32, x, y, 0, NULL), 1);

    y[1] = -0.0f;
    y[3] = nextafterf(nextafterf(-3.0f, 0.0f), 0.0f);
    ck_assert_int_eq(ls_compare_bits(LS_F32, x, y, 5, &d), 0);
    ck_assert_uint_eq(d.count, 2);
    ck_assert_uint_eq(d.first, 1);
    ck_assert_uint_eq(d.ulps, 1);
    ck_assert_uint_eq(d.max_ulps, 2);
    ck_assert(!signbit(d.left) && signbit(d.right));

    y[2] = 2.0f;
    ck_assert_int_eq(ls_compare_bits(LS_F32, x, y, 5, &d), 0);
    ck_assert_uint_eq(d.count, 3);
    ck_assert_uint_eq(d.max_ulps, UINT64_MAX);

    double a[2] = {1.0, 5.0}, b[2] = {1.0, nextafter(5.0, 6.0)};
    ck_assert_int_eq(ls_compare_bits(LS_F64, a, b, 2, &d), 0);
    ck_assert_uint_eq(d.first, 1);
    ck_assert_uint_eq(d.ulps, 1);
    ck_assert_double_eq(d.left, 5.0);
    ck_assert(d.right > 5.0);
}
END_TEST

START_TEST(distance_from_the_truth)
{
    const double t[4] = {1.0, -4.0, 0.0, 2.0};
    float x[4] = {1.0f, -4.0f, 0.0f, 2.0f};
    ls_truth_error e;
    ls_compare_truth(LS_F32, x, t, 4, &e);
    ck_assert_double_eq(e.max_absolute, 0.0);
    ck_assert_double_eq(e.relative, 0.0);
    x[2] = 0.5f;
    x[3] = 2.25f;
    ls_compare_truth(LS_F32, x, t, 4, &e);
    ck_assert_double_eq(e.max_absolute, 0.5);
    ck_assert_double_eq(e.relative, 0.125);
    x[0] = NAN;
    ls_compare_truth(LS_F32, x, t, 4, &e);
    ck_assert(isinf(e.max_absolute) && isinf(e.relative));

    const double inf[3] = {(double)INFINITY, (double)NAN, 8.0};
    const double same[3] = {(double)INFINITY, (double)NAN, 9.0};
    ls_compare_truth(LS_F64, same, inf, 3, &e);
    ck_assert_double_eq(e.max_absolute, 1.0);
    ck_assert_double_eq(e.relative, 0.125);
    const double minus[3] = {(double)-INFINITY, (double)NAN, 8.0};
    ls_compare_truth(LS_F64, minus, inf, 3, &e);
    ck_assert(isinf(e.max_absolute));
    const double finite[3] = {(double)INFINITY, 1.0, 8.0};
    ls_compare_truth(LS_F64, finite, inf, 3, &e);
    ck_assert(isinf(e.max_absolute));

    const double zero = 0.0, tiny = 1e-300;
    ls_compare_truth(LS_F64, &tiny, &zero, 1, &e);
    ck_assert_double_eq(e.max_absolute, 1e-300);
    ck_assert(isinf(e.relative));
    ls_compare_truth(LS_F64, &zero, &zero, 1, &e);
    ck_assert_double_eq(e.relative, 0.0);
    ls_compare_truth(LS_F64, NULL, NULL, 0, &e);
    ck_assert_double_eq(e.max_absolute, 0.0);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 0);
    tcase_add_test(tc, ulps_count_the_numbers_between);
    tcase_add_test(tc, bits_decide);
    tcase_add_test(tc, distance_from_the_truth);
    return run_tests();
}
