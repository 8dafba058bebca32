/* test_digest.c - SHA-256 of numbers, and the contract's own digest. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "run_tests.h"

static void digest_of(ls_dtype dtype, const void *values, size_t count, char hex[65])
{
    ls_digest *digest = NULL;
    ck_assert_int_eq(ls_digest_create(&digest), LS_OK);
    ck_assert_int_eq(ls_digest_add(digest, dtype, values, count), LS_OK);
    ck_assert_int_eq(ls_digest_finish(digest, hex), LS_OK);
    ls_digest_destroy(&digest);
    ck_assert_ptr_null(digest);
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* FIPS 180-2, appendix B.1, and the empty message. */
START_TEST(sha256_of_published_messages)
{
    char hex[65];
    digest_of(LS_U8, "abc", 3, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_of(LS_F32, NULL, 0, hex);
    ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

/* The expected values were computed by another program (Python's hashlib over packed little-endian
 * bytes). */
START_TEST(numbers_are_little_endian_and_nans_are_one)
{
    char hex[65];
    const float f32[6] = {
        1.0f, -0.0f, INFINITY, float_of(1), float_of(0xffc12345u), float_of(0x7f800001u)};
    digest_of(LS_F32, f32, 6, hex);
    ck_assert_str_eq(hex, "94dfd7445d7f0c9931bc8a5c80b3f619915eac0fadef4addf0764e314518fdff");
    const double f64[6] = {1.0,
                           -0.0,
                           (double)-INFINITY,
                           double_of(1),
                           double_of(0xfff8000000000001u),
                           double_of(0x7ff0000000000001u)};
    digest_of(LS_F64, f64, 6, hex);
    ck_assert_str_eq(hex, "2d391f54a1ed59f5621457b994ea1555e306ac7dea3e3c886d3f9f4fba0c8175");
    const int32_t i32[3] = {1, -2, 0x7fffffff};
    digest_of(LS_I32, i32, 3, hex);
    ck_assert_str_eq(hex, "a8a66fb9a15f9690b7eeb36f9608973196c7996ca5d46648c6ed119babb9bf77");
    const int64_t i64[2] = {1, -2};
    digest_of(LS_I64, i64, 2, hex);
    ck_assert_str_eq(hex, "ad47ab1aede0a7b8af007a36d82ccbbee709bec1066af6f44fed82bd2cb490ed");
}
END_TEST

/* More than one chunk, and however the elements are handed over. */
START_TEST(pieces_make_the_whole)
{
    enum { N = 5000 };
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    const char *expected = "8a3ce969e8a58dd8f04cfd9cd2c1aaa8800e4d20bcbf50e743a59044a5e58fdf";
    char hex[65];
    digest_of(LS_F32, x, N, hex);
    ck_assert_str_eq(hex, expected);
    const size_t cuts[] = {0, 1, 1023, 1024, 1025, 4096, N};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        ls_digest *digest = NULL;
        ck_assert_int_eq(ls_digest_create(&digest), LS_OK);
        ck_assert_int_eq(ls_digest_add(digest, LS_F32, x, cuts[i]), LS_OK);
        ck_assert_int_eq(ls_digest_add(digest, LS_F32, x + cuts[i], N - cuts[i]), LS_OK);
        ck_assert_int_eq(ls_digest_finish(digest, hex), LS_OK);
        ck_assert_str_eq(hex, expected);
        ls_digest_destroy(&digest);
    }
    x[4999] = -x[4999];
    digest_of(LS_F32, x, N, hex);
    ck_assert_str_ne(hex, expected);
}
END_TEST

START_TEST(a_finished_digest_says_so)
{
    char hex[65], again[65] = "untouched";
    ls_digest *digest = NULL;
    ck_assert_int_eq(ls_digest_create(&digest), LS_OK);
    ck_assert_int_eq(ls_digest_finish(digest, hex), LS_OK);
    ls_error_clear();
    ck_assert_int_eq(ls_digest_finish(digest, again), LS_ERR_INTERNAL);
    ck_assert_str_eq(ls_error_text(), "digest: finished already");
    ck_assert_str_eq(again, "untouched");
    ls_error_clear();
    ck_assert_int_eq(ls_digest_add(digest, LS_U8, "x", 1), LS_ERR_INTERNAL);
    ls_digest_destroy(&digest);
    ls_digest_destroy(&digest);
}
END_TEST

static void *ask(void *slot)
{
    *(const char **)slot = ls_contract_digest();
    return NULL;
}

/* A change of a constant must be a decision: it changes this value, the golden files and the
 * version. */
START_TEST(the_contract_has_one_digest)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const char *seen[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &seen[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    const char *expected = "98f7c608f8633ee1d25e4ba2c51f5d2eb9f5433b8292ba07cc898ef0ee63e475";
    ck_assert_str_eq(ls_contract_name(), "tree/v1");
    for (int i = 0; i < THREADS; i++) {
        ck_assert_str_eq(seen[i], expected);
    }
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 0);
    tcase_add_test(tc, sha256_of_published_messages);
    tcase_add_test(tc, numbers_are_little_endian_and_nans_are_one);
    tcase_add_test(tc, pieces_make_the_whole);
    tcase_add_test(tc, a_finished_digest_says_so);
    tcase_add_test(tc, the_contract_has_one_digest);
    return run_tests();
}
