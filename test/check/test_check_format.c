/* Rounding to the formats of files, distances in them, and equality across them. EXACT. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "check/check_parts.h"
#include "run_tests.h"

static double rounded(ls_dtype format, double value)
{
    ls_check_round(format, &value, 1);
    return value;
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

START_TEST(values_are_rounded_to_nearest_even)
{
    static const struct {
        ls_dtype format;
        double value, right;
    } rows[] = {
        {LS_BF16, 1 + 0x1p-8, 1}, /* a tie, to the even one */
        {LS_BF16, 1 + 3 * 0x1p-8, 1 + 0x1p-6},
        {LS_BF16, 1 + 0x1p-8 + 0x1p-30, 1 + 0x1p-7}, /* just above it: no number of binary32 */
        {LS_BF16, -(1 + 0x1p-8), -1},
        {LS_BF16, 0x1.fffp127, HUGE_VAL},
        {LS_BF16, 0x1.fep127, 0x1.fep127},
        {LS_BF16, 0x1p-133, 0x1p-133}, /* the smallest */
        {LS_BF16, 0x1p-134, 0},        /* a tie with 0 */
        {LS_BF16, 0x1.8p-134, 0x1p-133},
        {LS_F16, 1 + 0x1p-11, 1},
        {LS_F16, 1 + 3 * 0x1p-11, 1 + 0x1p-9},
        {LS_F16, 65519.99, 65504},
        {LS_F16, 65520, HUGE_VAL}, /* a tie between the largest and what would be the next */
        {LS_F16, -65520, -HUGE_VAL},
        {LS_F16, 0x1p-24, 0x1p-24},
        {LS_F16, 0x1p-25, 0},
        {LS_F16, 0x1.8p-25, 0x1p-24},
        {LS_F16, 0x1.002p-14, 0x1p-14},
        {LS_F32, 1 + 0x1p-24, 1},
        {LS_F32, 1 + 0x1p-24 + 0x1p-50, 1 + 0x1p-23},
        {LS_F32, 0x1p-150, 0},
        {LS_F64, 0.1, 0.1},
        {LS_F16, -0.0, -0.0},
        {LS_BF16, HUGE_VAL, HUGE_VAL},
        {LS_F16, (double)NAN, (double)NAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(same(rounded(rows[i].format, rows[i].value), rows[i].right),
                      "row %zu: %a gives %a", i, rows[i].value,
                      rounded(rows[i].format, rows[i].value));
}
END_TEST

/* Every number of the 16-bit formats stays itself, and neighbours are one apart. */
START_TEST(numbers_of_a_format_stay)
{
    const ls_dtype format = _i ? LS_F16 : LS_BF16;
    double before = 0;
    for (uint32_t bits = 0; bits < 0x8000; bits++) {
        const uint16_t half = (uint16_t)bits;
        double value;
        ls_widen(LS_F64, &value, format, &half, 1);
        ck_assert(same(rounded(format, value), value));
        ck_assert(same(rounded(format, -value), -value));
        if (isnan(value)) continue;
        if (bits > 0) {
            ck_assert_uint_eq(ls_check_ulps(format, value, before), 1);
            ck_assert_uint_eq(ls_check_ulps(format, -before, -value), 1);
            if (isfinite(value)) {
                const double middle = (value + before) / 2;
                ck_assert(rounded(format, middle) == (bits & 1 ? before : value));
                ck_assert(rounded(format, nextafter(middle, HUGE_VAL)) == value);
                ck_assert(rounded(format, nextafter(middle, 0)) == before);
            }
        }
        ck_assert_uint_eq(ls_check_ulps(format, value, 0.0), bits);
        before = value;
    }
}
END_TEST

START_TEST(distances)
{
    ck_assert_uint_eq(ls_check_ulps(LS_F32, 1, 1), 0);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, 1, 1 + 0x1p-23), 1);
    ck_assert_uint_eq(ls_check_ulps(LS_F64, 1, 1 + 0x1p-52), 1);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, 0.0, -0.0), 1);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, 0x1p-149, -0x1p-149), 3);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, (double)NAN, (double)NAN), 0);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, (double)NAN, 1), UINT64_MAX);
    ck_assert_uint_eq(ls_check_ulps(LS_F32, 0x1.fffffep127, HUGE_VAL), 1);
}
END_TEST

START_TEST(coarser)
{
    static const ls_dtype order[] = {LS_F64, LS_F32, LS_F16, LS_BF16};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            ck_assert_int_eq(ls_check_is_coarser(order[i], order[k]), i > k);
            ck_assert_int_eq(ls_check_coarser(order[i], order[k]), order[i > k ? i : k]);
        }
}
END_TEST

/* ---- equality: arrays longer than what is compared at a time, unaligned ---- */

enum { COUNT = 2500 };

START_TEST(equality_across_formats)
{
    static const ls_dtype formats[] = {LS_F32, LS_F64, LS_F16, LS_BF16};
    const ls_dtype format = formats[_i % 4], golden_dtype = formats[_i / 4];
    double *golden = malloc(COUNT * sizeof *golden), *mine = malloc(COUNT * sizeof *mine);
    unsigned char *golden_bytes = malloc(COUNT * 8), *bytes = malloc(COUNT * 8 + 1);
    ck_assert(golden && mine && golden_bytes && bytes);
    const size_t places[] = {0, 1023, 1024, COUNT - 1};
    for (size_t i = 0; i < COUNT; i++) {
        golden[i] = sin((double)i + 1) * 3;
        ls_check_round(golden_dtype, &golden[i], 1);
        mine[i] = golden[i];
        if (golden_dtype == LS_F32)
            ((float *)(void *)golden_bytes)[i] = (float)golden[i];
        else
            ((double *)(void *)golden_bytes)[i] = golden[i];
    }
    ls_check_round(format, mine, COUNT);
    for (size_t p = 0; p < 5; p++) {
        if (p > 0) mine[places[p - 1]] = rounded(format, mine[places[p - 1]] * 1.5);
        for (size_t i = 0; i < COUNT; i++) {
            const float narrow = (float)mine[i];
            if (format == LS_F32) memcpy(bytes + 1 + 4 * i, &narrow, 4);
            if (format == LS_F64) memcpy(bytes + 1 + 8 * i, &mine[i], 8);
            if (format == LS_BF16) memcpy(bytes + 1 + 2 * i, (const char *)&narrow + 2, 2);
            if (format == LS_F16) {
                uint16_t half = (uint16_t)ls_check_ulps(LS_F16, fabs(mine[i]), 0.0);
                if (signbit(mine[i])) half |= 0x8000;
                memcpy(bytes + 1 + 2 * i, &half, 2);
            }
        }
        ck_assert_msg(ls_check_equal(golden_dtype, golden_bytes, format, format, bytes + 1, COUNT,
                                     false) == (p == 0),
                      "changed at %zu", p > 0 ? places[p - 1] : 0);
        if (p > 0) mine[places[p - 1]] = rounded(format, golden[places[p - 1]]);
    }
    free(golden), free(mine), free(golden_bytes), free(bytes);
}
END_TEST

/* Every golden value of binary32 near a tie of a 16-bit format, and the extremes: what is rounded
 * on integers is what is rounded by the definition. */
START_TEST(rounding_on_bits_is_rounding)
{
    const ls_dtype format = _i ? LS_F16 : LS_BF16;
    size_t looked = 0, wrong = 0;
    for (uint32_t bits = 0; bits < 0x7fff; bits++) {
        static const double offsets[] = {0, 0.5, 0.25, 0.75};
        const uint16_t pair[2] = {(uint16_t)bits, (uint16_t)(bits + 1)};
        double ends[2];
        ls_widen(LS_F64, ends, format, pair, 2);
        if (!isfinite(ends[0])) ends[1] = ends[0];
        if (!isfinite(ends[1])) ends[1] = ends[0] * 2;
        for (int k = 0; k < 12; k++) {
            const double at = ends[0] + offsets[k % 4] * (ends[1] - ends[0]);
            float golden = (float)at;
            if (k / 4 == 1) golden = nextafterf(golden, INFINITY);
            if (k / 4 == 2) golden = -golden;
            double right = (double)golden;
            ls_check_round(format, &right, 1);
            uint16_t half =
                isnan(right) ? 0x7fff : (uint16_t)ls_check_ulps(format, fabs(right), 0.0);
            if (signbit(right)) half |= 0x8000;
            wrong += !ls_check_equal(LS_F32, &golden, format, format, &half, 1, false);
            half ^= 1;
            wrong +=
                !isnan(right) && ls_check_equal(LS_F32, &golden, format, format, &half, 1, false);
            looked++;
        }
    }
    ck_assert_uint_eq(looked, 12 * 0x7fff);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(no_numbers_are_equal_whatever_their_bits)
{
    const uint32_t golden[] = {0x7fc00000, 0x3f800000}, mine[] = {0xffc12345, 0x3f800000};
    const uint32_t zero[] = {0x7fc00000, 0}, minus[] = {0x7fc00000, 0x80000000};
    ck_assert(ls_check_equal(LS_F32, golden, LS_F32, LS_F32, mine, 2, false));
    ck_assert(!ls_check_equal(LS_F32, zero, LS_F32, LS_F32, minus, 2, false));
    ck_assert(ls_check_equal(LS_F32, zero, LS_F32, LS_F32, minus, 2, true));
    ck_assert(ls_check_equal(LS_F32, golden, LS_F32, LS_F32, mine, 0, false));
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_format", 0);
    tcase_add_test(tests, values_are_rounded_to_nearest_even);
    tcase_add_loop_test(tests, numbers_of_a_format_stay, 0, 2);
    tcase_add_test(tests, distances);
    tcase_add_test(tests, coarser);
    tcase_add_loop_test(tests, equality_across_formats, 0, 8);
    tcase_add_loop_test(tests, rounding_on_bits_is_rounding, 0, 2);
    tcase_add_test(tests, no_numbers_are_equal_whatever_their_bits);
    return run_tests();
}
