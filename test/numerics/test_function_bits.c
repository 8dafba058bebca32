/* test_function_bits.c - the functions give the same bits from every instruction set, for arrays as
 * for single values, and on every machine and compiler (contract rule 2).
 *
 * The golden digests below must come out wherever this test is built: by gcc and clang, at -O0 and
 * -O3, on x86-64 and AArch64. They change only with the contract's version. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"
#include "run_tests.h"

typedef ls_real function(ls_real x);
typedef void array_function(ls_real *y, const ls_real *x, size_t n);

enum { N = 1 << 15 };

/* Half of the arguments are random bit patterns - every exponent, subnormals, infinities and NaNs
 * among them -, half lie between -12 and 12, where most of the functions do their work. */
static void arguments(ls_real *x, uint32_t which)
{
    ls_stream stream = {42, LS_RANDOM_TEST, which, 0};
    for (uint64_t i = 0; i < N; i++) {
        uint32_t w[4];
        ls_random_words(stream, i, w);
        uint64_t bits64 = (uint64_t)w[0] << 32 | w[1];
        uint32_t bits32 = w[0];
        if (i % 2 == 0) {
            memcpy(&x[i], sizeof x[i] == 8 ? (void *)&bits64 : (void *)&bits32, sizeof x[i]);
        } else {
            x[i] = (ls_real)(24.0 * ls_random_uniform(stream, i) - 12.0);
        }
    }
    const ls_real special[] = {
        0,  (ls_real)-0.0,     (ls_real)INFINITY, (ls_real)-INFINITY, (ls_real)NAN,
        -1, (ls_real)0x1p-149, (ls_real)88.72283};
    memcpy(x, special, sizeof special);
}

static const struct named_function {
    const char *name;
    function *one;
    array_function *array;
    const char *golden_f32, *golden_f64;
} functions[] = {
    {"exp", ls_exp, ls_exp_n, "f6e97f06c0bd345c9b128ebabe37e52c716ccfb9268db1c5791fd0cd4e990d4e",
     "7cefcdc5121693285b1aa04bcb7cb3a290806fbd072ab1c633552ace9badc2cc"},
    {"tanh", ls_tanh, ls_tanh_n, "22143d99a224acf2b70b562b017528255f1bc8fbe7264bef6456c650c7b0b5dc",
     "67939d2a73d13ba1a4f1664c5710c158887cc4423ecdb0c43fd0e700940c215b"},
    {"erf", ls_erf, ls_erf_n, "722648dbfeaf485eb59c98197fbdab416845a8ec6fc65c0911f602882c0baeb9",
     "b037db2b05930a7102abe094d734f19d1671960b2b9a91350eef65e022ec43dd"},
    {"log", ls_log, NULL, "97270659fea5f434b28c1ada0b71b4f6f85f91ccdbd59ed2a995acae61befa52",
     "ef9500b9d3107426d4a014404c4d91a2b4e940e28307acb41c0ec18182132c46"},
    {"sin", ls_sin, NULL, "db39508cb95f6fa1e4db8801f159c13683a106ef29637a69c2c1ddbebba877d1",
     "d76ec27584e6993ec0fd9554e5285167feef82a8ea9ecc3f15dbb7981ad80dcb"},
    {"cos", ls_cos, NULL, "6925ad1604cc50358e29da593914575682d113528281d0ff0a25700eba5e45ba",
     "60cbd79c65b1aac223c3bc784c52b24d48595acf0e0115d6652883757406ab76"},
    {"rsqrt", ls_rsqrt, NULL, "8b69141cdd4d41717a789df1672483b017be108d7129defc3d60eab4456b65e6",
     "c112896f34a0bab7e524640e111eec598e4fa90ea470bd47c90f93e8de82cf1b"},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0], ARRAY_FUNCTIONS = 3 };

/* Equal bits; any NaN equals any NaN (rule 1). */
static int same(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

START_TEST(golden_digests)
{
    static ls_real x[N], y[N];
    for (uint32_t k = 0; k < FUNCTIONS; k++) {
        arguments(x, k);
        for (int i = 0; i < N; i++) y[i] = functions[k].one(x[i]);
        char hex[65];
        ls_digest *digest = NULL;
        ck_assert_int_eq(ls_digest_create(&digest), LS_OK);
        ck_assert_int_eq(ls_digest_add(digest, LS_REAL_DTYPE, y, N), LS_OK);
        ck_assert_int_eq(ls_digest_finish(digest, hex), LS_OK);
        ls_digest_destroy(&digest);
        const char *golden =
            LS_REAL_DTYPE == LS_F32 ? functions[k].golden_f32 : functions[k].golden_f64;
        ck_assert_msg(strcmp(hex, golden) == 0, "%s: %s, golden %s", functions[k].name, hex,
                      golden);
    }
}
END_TEST

/* The first of n places where the array function did not give what the single one gives; n if none.
 */
static size_t first_difference(const struct named_function *f, const ls_real *y, const ls_real *x,
                               size_t n)
{
    size_t i = 0;
    while (i < n && same(y[i], f->one(x[i]))) i++;
    return i;
}

START_TEST(every_instruction_set_gives_the_scalar_bits)
{
    static ls_real x[N], y[N];
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_available((ls_isa)isa)) continue;
        ls_isa_force((ls_isa)isa);
        for (uint32_t k = 0; k < ARRAY_FUNCTIONS; k++) {
            arguments(x, 100 + k);
            for (int i = 0; i < N; i++) y[i] = (ls_real)NAN;
            functions[k].array(y, x, N);
            size_t i = first_difference(&functions[k], y, x, N);
            ck_assert_msg(i == N, "%s: %s of element %zu", ls_isa_name((ls_isa)isa),
                          functions[k].name, i);
        }
    }
}
END_TEST

enum { LONGEST = 70, GUARD = 8, ROOM = LONGEST + 2 * GUARD + 8 };

/* n arguments, in_shift and out_shift elements from where the arrays begin; in place if both are
 * equal. 1 when right and nothing outside was written. */
static int array_is_right(const struct named_function *f, const ls_real *source, size_t n,
                          size_t in_shift, size_t out_shift)
{
    const ls_real guard = 12345;
    ls_real in[ROOM], out[ROOM];
    for (size_t i = 0; i < ROOM; i++) out[i] = guard;
    ls_real *x = in + GUARD + in_shift;
    ls_real *y = out + GUARD + out_shift;
    memcpy(x, source, n * sizeof *x);
    if (in_shift == out_shift) {
        memcpy(y, x, n * sizeof *x);
        f->array(y, y, n);
    } else {
        f->array(y, x, n);
    }
    int right = first_difference(f, y, x, n) == n;
    for (size_t i = 0; i < ROOM; i++) {
        if (i < GUARD + out_shift || i >= GUARD + out_shift + n) right &= same(out[i], guard);
    }
    return right;
}

/* Lengths around every block and vector size, every misalignment of both pointers. */
START_TEST(any_length_and_alignment)
{
    static ls_real source[N];
    arguments(source, 200);
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_available((ls_isa)isa)) continue;
        ls_isa_force((ls_isa)isa);
        for (int k = 0; k < ARRAY_FUNCTIONS; k++) {
            for (size_t n = 0; n <= LONGEST; n++) {
                for (size_t shift = 0; shift < 64; shift++) {
                    int right = array_is_right(&functions[k], source + n * 13 + shift, n, shift % 8,
                                               shift / 8);
                    ck_assert_msg(right, "%s: %s of %zu elements, shifts %zu and %zu",
                                  ls_isa_name((ls_isa)isa), functions[k].name, n, shift % 8,
                                  shift / 8);
                }
            }
        }
    }
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 240); /* under an emulator */
    tcase_add_test(tc, golden_digests);
    tcase_add_test(tc, every_instruction_set_gives_the_scalar_bits);
    tcase_add_test(tc, any_length_and_alignment);
    return run_tests();
}
