/* The mode that numbers are computed in: set, given back, nested; whatever the caller's was. */
#include <check.h>
#include <float.h>
#include <stdlib.h>

#include "base/float_modes.h"
#include "base/thread_mode.h"
#include "lockstep/base/status.h"
#include "run_tests.h"

/* What only the mode of the contract gives; volatile, so that it is computed here and now. */
static bool computes_as_agreed(void)
{
    static volatile float third = 3, one = 1, smallest = FLT_MIN, half = 0.5f, zero = 0;
    static const float nearest = 0x1.555556p-2f;
    volatile float up = one / third, down = -one / third, subnormal = smallest * half;
    volatile float not_a_number = zero / zero, infinite = one / zero;
    return up == nearest && down == -nearest && subnormal != 0 && not_a_number != not_a_number &&
           infinite > FLT_MAX;
}

START_TEST(mode_is_set_and_given_back)
{
    for (size_t i = 0; i < FLOAT_MODES; i++) {
        ls_thread_mode outer, inner;
        set_float_mode(&float_modes[i]);
        ls_thread_mode_set(&outer);
        bool agreed = computes_as_agreed();
        ls_thread_mode_set(&inner);
        ls_thread_mode_restore(&inner);
        bool still = computes_as_agreed();
        ls_thread_mode_restore(&outer);
        bool back = in_float_mode(&float_modes[i]);
        fesetenv(FE_DFL_ENV);
        ck_assert_msg(agreed && still && back, "mode \"%s\": %d %d %d", float_modes[i].name, agreed,
                      still, back);
    }
}
END_TEST

/* A failure recorded by a caller that traps. */
START_TEST(text_of_a_failure)
{
    set_float_mode(&float_modes[FLOAT_MODES - 1]);
    ls_error_record(LS_ERR_INPUT, "a.c", 1, "%.3g and %g", 0.12345, 1e-310);
    bool kept = in_float_mode(&float_modes[FLOAT_MODES - 1]);
    fesetenv(FE_DFL_ENV);
    ck_assert(kept);
    ck_assert_str_eq(ls_error_text(), "0.123 and 1e-310");
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("thread_mode", 0);
    tcase_add_test(tcase, mode_is_set_and_given_back);
    tcase_add_test(tcase, text_of_a_failure);
    return run_tests();
}
