/* test_widen.c - every binary16 and every bfloat16 number, by the formula of its definition. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "run_tests.h"

/* (-1)^sign x 2^(exponent - bias) x 1.fraction, or x 0.fraction when the exponent is 0. */
static double by_definition(unsigned bits, int exponent_bits, int fraction_bits)
{
    unsigned fraction = bits & ((1u << fraction_bits) - 1);
    unsigned exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
    if (exponent == (1u << exponent_bits) - 1) return fraction ? (double)NAN : sign * HUGE_VAL;
    double f = (double)fraction / (double)(1u << fraction_bits);
    return exponent == 0 ? sign * ldexp(f, 1 - bias) : sign * ldexp(1 + f, (int)exponent - bias);
}

static bool same(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return memcmp(&a, &b, sizeof a) == 0; /* the sign of zero too */
}

START_TEST(every_half)
{
    static const struct {
        ls_dtype dtype;
        int exponent_bits, fraction_bits;
    } formats[] = {{LS_F16, 5, 10}, {LS_BF16, 8, 7}};
    static uint16_t halves[65536];
    static unsigned char shifted[1 + sizeof halves];
    static float narrow[65536 + 1];
    static double wide[65536 + 1];
    for (unsigned i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    memcpy(shifted + 1, halves, sizeof halves);
    for (int f = 0; f < 2; f++) {
        narrow[65536] = 7;
        wide[65536] = 7;
        ls_widen(LS_F32, narrow, formats[f].dtype, shifted + 1, 65536);
        ls_widen(LS_F64, wide, formats[f].dtype, halves, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            double truth = by_definition(i, formats[f].exponent_bits, formats[f].fraction_bits);
            if (!same((double)narrow[i], truth) || !same(wide[i], truth))
                ck_abort_msg("%04x of %s is %g and %g, not %g", i, ls_dtype_name(formats[f].dtype),
                             (double)narrow[i], wide[i], truth);
        }
        ck_assert(narrow[65536] == 7 && wide[65536] == 7);
    }
}
END_TEST

START_TEST(wider_or_the_same)
{
    static const float values[] = {0x1p-149f, -0x1.fffffep127f, -0.0f, 1.5f};
    static const double doubles[] = {0x1p-1074, -0.1};
    double wide[4], copy[2];
    ls_widen(LS_F64, wide, LS_F32, values, 4);
    for (int i = 0; i < 4; i++) ck_assert(same(wide[i], (double)values[i]));
    ls_widen(LS_F64, copy, LS_F64, doubles, 2);
    ck_assert(memcmp(copy, doubles, sizeof copy) == 0);
    float again[4];
    ls_widen(LS_F32, again, LS_F32, values, 4);
    ck_assert(memcmp(again, values, sizeof again) == 0);
    ls_widen(LS_F32, again, LS_F16, values, 0);

    for (int from = LS_F32; from <= LS_BF16; from++)
        for (int to = LS_F32; to <= LS_BF16; to++) {
            bool real = from == LS_F32 || from == LS_F16 || from == LS_BF16;
            bool yes = (to == LS_F32 && real) || (to == LS_F64 && (real || from == LS_F64));
            ck_assert_int_eq(ls_widens((ls_dtype)from, (ls_dtype)to), yes);
        }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("widen", 0);
    tcase_add_test(tests, every_half);
    tcase_add_test(tests, wider_or_the_same);
    return run_tests();
}
