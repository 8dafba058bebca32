/* test_isa.c - the choice of the instruction set. Each test is a process of its own (Check's fork
 * mode), so that each sees a first use. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/isa.h"
#include "run_tests.h"

START_TEST(names)
{
    ck_assert_str_eq(ls_isa_name(LS_ISA_SCALAR), "scalar");
    ck_assert_str_eq(ls_isa_name(LS_ISA_AVX2), "avx2");
    ck_assert_str_eq(ls_isa_name(LS_ISA_AVX512), "avx512");
    ck_assert_str_eq(ls_isa_name(LS_ISA_NEON), "neon");
    ck_assert_str_eq(ls_isa_name(LS_ISA_COUNT), "?");
    ck_assert_int_eq(ls_isa_available(LS_ISA_SCALAR), 1);
    ck_assert_int_eq(ls_isa_available(LS_ISA_COUNT), 0);
#ifdef __x86_64__
    ck_assert_int_eq(ls_isa_available(LS_ISA_NEON), 0);
#endif
#ifdef __aarch64__
    ck_assert_int_eq(ls_isa_available(LS_ISA_NEON), 1);
    ck_assert_int_eq(ls_isa_available(LS_ISA_AVX2), 0);
#endif
}
END_TEST

START_TEST(the_environment_forces_one)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (isa != _i || !ls_isa_available((ls_isa)isa)) continue;
        setenv("LOCKSTEP_ISA", ls_isa_name((ls_isa)isa), 1);
        ck_assert_int_eq(ls_isa_check(), LS_OK);
        ck_assert_int_eq(ls_isa_current(), (ls_isa)isa);
    }
}
END_TEST

START_TEST(force_switches)
{
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--) {
        if (!ls_isa_available((ls_isa)isa)) continue;
        ls_isa_force((ls_isa)isa);
        ck_assert_int_eq(ls_isa_current(), (ls_isa)isa);
    }
}
END_TEST

/* The library falls back to what it would have chosen; ls_isa_check says what is wrong. */
START_TEST(an_unknown_name)
{
    unsetenv("LOCKSTEP_ISA");
    ck_assert_int_eq(ls_isa_check(), LS_OK);
    setenv("LOCKSTEP_ISA", "", 1);
    ck_assert_int_eq(ls_isa_check(), LS_OK);
    setenv("LOCKSTEP_ISA", "sse9", 1);
    ck_assert_int_eq(ls_isa_check(), LS_ERR_INPUT);
    const char *start = "LOCKSTEP_ISA=sse9: no such instruction set; this machine has scalar";
    ck_assert_msg(strncmp(ls_error_text(), start, strlen(start)) == 0, "%s", ls_error_text());
    ck_assert(ls_isa_available(ls_isa_current()));
}
END_TEST

START_TEST(a_set_that_is_not_here)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_available((ls_isa)isa)) continue;
        setenv("LOCKSTEP_ISA", ls_isa_name((ls_isa)isa), 1);
        ls_error_clear();
        ck_assert_int_eq(ls_isa_check(), LS_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(ls_error_text(), ": not available here; this machine has "));
        ck_assert(ls_isa_available(ls_isa_current()));
    }
}
END_TEST

static void *ask(void *slot)
{
    *(ls_isa *)slot = ls_isa_current();
    return NULL;
}

START_TEST(threads_agree_at_first_use)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    ls_isa seen[THREADS];
    setenv("LOCKSTEP_ISA", "scalar", 1);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &seen[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(seen[i], LS_ISA_SCALAR);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 0);
    tcase_add_test(tc, names);
    tcase_add_loop_test(tc, the_environment_forces_one, 0, LS_ISA_COUNT);
    tcase_add_test(tc, force_switches);
    tcase_add_test(tc, an_unknown_name);
    tcase_add_test(tc, a_set_that_is_not_here);
    tcase_add_test(tc, threads_agree_at_first_use);
    return run_tests();
}
