/* test_random.c - Philox4x32-10 and what is made of its words. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"
#include "run_tests.h"

static const ls_stream some = {0x0123456789abcdefu, LS_RANDOM_TEST, 3, 17};

static void check_words(uint64_t seed, uint64_t index, uint32_t purpose, uint32_t layer,
                        uint32_t step, const uint32_t expected[4])
{
    uint32_t words[4];
    ls_stream stream = {seed, purpose, layer, step};
    ls_random_words(stream, index, words);
    for (int i = 0; i < 4; i++) ck_assert_uint_eq(words[i], expected[i]);
}

/* The known answers that the authors of Philox publish with Random123 (file kat_vectors, philox4x32
 * 10): counter and key all zero, all ones, and digits of pi. They also pin where index, purpose,
 * layer, step and seed go. */
START_TEST(known_answers)
{
    const uint32_t zero[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    check_words(0, 0, 0, 0, 0, zero);
    const uint32_t ones[4] = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
    check_words(UINT64_MAX, UINT64_MAX, 0xffff, 0xffff, 0xffffffffu, ones);
    const uint32_t pi[4] = {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u};
    check_words(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x1319, 0x8a2e, 0x03707344u, pi);
}
END_TEST

/* The vector loop keeps what ls_random_keep keeps: every instruction set, lengths around its block,
 * and indices on both sides of 2^32 and of 2^64. */
START_TEST(keep_n_is_keep)
{
    static const uint64_t firsts[] = {0, 5, UINT32_MAX - 20ull, UINT64_MAX - 40};
    static const double ps[] = {0.0, 0.1, 0.5, 0.999};
    ls_isa before = ls_isa_current();
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_available((ls_isa)isa)) continue;
        ls_isa_force((ls_isa)isa);
        for (size_t f = 0; f < 4; f++) {
            for (size_t n = 0; n <= 70; n++) {
                unsigned char keep[72];
                double p = ps[n % 4];
                memset(keep, 7, sizeof keep);
                ls_random_keep_n(keep, some, firsts[f], n, p);
                for (size_t i = 0; i < n; i++)
                    ck_assert_int_eq(keep[i], ls_random_keep(some, firsts[f] + i, p));
                ck_assert_int_eq(keep[n], 7);
            }
        }
    }
    ls_isa_force(before);
}
END_TEST

START_TEST(uniform_is_53_bits_of_words_0_and_1)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t w[4];
        ls_random_words(some, i, w);
        double expected = ldexp(w[0], -32) + ldexp(w[1] >> 11, -53);
        ck_assert_double_eq(ls_random_uniform(some, i), expected);
    }
}
END_TEST

/* Box-Muller by the C library's functions: near, not equal. */
START_TEST(normal_is_box_muller)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t w[4];
        ls_random_words(some, i, w);
        double u = 1.0 - ls_random_uniform(some, i);
        double v = ldexp(w[2], -32) + ldexp(w[3] >> 11, -53);
        double expected = sqrt(-2.0 * log(u)) * cos(2.0 * 3.141592653589793 * v);
        ck_assert(fabs(ls_random_normal(some, i) - expected) <= 1e-14);
    }
}
END_TEST

/* Mean, variance, skewness and kurtosis of 200,000 draws, within 5 standard deviations of each. */
START_TEST(moments)
{
    enum { N = 200000 };
    double mean = 0, m2 = 0, m3 = 0, m4 = 0, u_mean = 0, u2 = 0, largest = 0;
    for (uint64_t i = 0; i < N; i++) {
        double z = ls_random_normal(some, i);
        double u = ls_random_uniform(some, i);
        ck_assert(u >= 0.0 && u < 1.0);
        mean += z / N;
        m2 += z * z / N;
        m3 += z * z * z / N;
        m4 += z * z * z * z / N;
        u_mean += u / N;
        u2 += (u - 0.5) * (u - 0.5) / N;
        largest = fmax(largest, fabs(z));
    }
    const double s = 5.0 / sqrt(N);
    ck_assert(!(fabs(mean) > s));
    ck_assert(!(fabs(m2 - 1.0) > s * sqrt(2.0)));
    ck_assert(!(fabs(m3) > s * sqrt(15.0)));
    ck_assert(!(fabs(m4 - 3.0) > s * sqrt(96.0)));
    ck_assert(!(fabs(u_mean - 0.5) > s / sqrt(12.0)));
    ck_assert(!(fabs(u2 - 1.0 / 12.0) > s / sqrt(180.0)));
    ck_assert(largest > 4.0 && largest < 6.5);
}
END_TEST

/* Chi-squared over 256 cells of each byte of the uniform's upper 32 bits: 255 degrees of freedom,
 * standard deviation 22.6; 5 of them allowed. And the same for pairs of neighbours, 16 x 16. */
START_TEST(cells_are_equally_full)
{
    enum { N = 100000 };
    static unsigned cells[5][256];
    memset(cells, 0, sizeof cells);
    uint32_t before = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint32_t w[4];
        ls_random_words(some, i, w);
        for (int b = 0; b < 4; b++) cells[b][w[0] >> (8 * b) & 255]++;
        cells[4][(before >> 28) * 16 + (w[0] >> 28)]++;
        before = w[0];
    }
    for (int b = 0; b < 5; b++) {
        double chi = 0;
        for (int c = 0; c < 256; c++) {
            double off = cells[b][c] - N / 256.0;
            chi += off * off / (N / 256.0);
        }
        ck_assert(chi > 255.0 - 5 * 22.6 && chi < 255.0 + 5 * 22.6);
    }
}
END_TEST

START_TEST(dropout_keeps_by_the_threshold)
{
    const double ps[] = {0.0, 0x1p-32, 0.1, 0.5, 0.9, 1.0 - 0x1p-32};
    for (size_t k = 0; k < sizeof ps / sizeof ps[0]; k++) {
        unsigned kept = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            uint32_t w[4];
            ls_random_words(some, i, w);
            int keep = ls_random_keep(some, i, ps[k]);
            ck_assert_int_eq(keep, w[0] >= floor(ps[k] * 4294967296.0));
            kept += (unsigned)keep;
        }
        double expected = 20000 * (1.0 - ps[k]);
        ck_assert(!(fabs(kept - expected) > 5 * sqrt(20000 * ps[k] * (1 - ps[k])) + 1e-3));
    }
    /* p = 0 keeps all, whatever the word */
    for (uint64_t i = 0; i < 20000; i++) ck_assert_int_eq(ls_random_keep(some, i, 0.0), 1);
}
END_TEST

/* Seed, purpose, layer, step and either half of the index each give another stream. */
START_TEST(every_coordinate_counts)
{
    ls_stream streams[] = {some, some, some, some, some, some};
    streams[1].seed ^= 1;
    streams[2].seed ^= (uint64_t)1 << 32;
    streams[3].purpose = LS_RANDOM_DROPOUT_MLP;
    streams[4].layer++;
    streams[5].step++;
    const uint64_t indices[] = {5, 6, 5 + ((uint64_t)1 << 32)};
    uint32_t words[18][4];
    for (int s = 0; s < 6; s++) {
        for (int i = 0; i < 3; i++) ls_random_words(streams[s], indices[i], words[3 * s + i]);
    }
    for (int a = 0; a < 18; a++) {
        for (int b = 0; b < a; b++) ck_assert(memcmp(words[a], words[b], sizeof words[a]) != 0);
    }
}
END_TEST

/* What any machine and compiler must reproduce. */
START_TEST(golden_digest)
{
    enum { N = 20000 };
    static double x[N];
    char hex[65];
    ls_digest *digest = NULL;
    ck_assert_int_eq(ls_digest_create(&digest), LS_OK);
    for (uint64_t i = 0; i < N; i++) x[i] = ls_random_normal(some, i << 20);
    ck_assert_int_eq(ls_digest_add(digest, LS_F64, x, N), LS_OK);
    for (uint64_t i = 0; i < N; i++) x[i] = ls_random_uniform(some, i << 40);
    ck_assert_int_eq(ls_digest_add(digest, LS_F64, x, N), LS_OK);
    ck_assert_int_eq(ls_digest_finish(digest, hex), LS_OK);
    ls_digest_destroy(&digest);
    ck_assert_str_eq(hex, "e44ac2ab19b4e7950b29a8d90f1c6b6f11c5fa22e089cbe007d4bb0de7ef6efd");
}
END_TEST

int main(void)
{
    TCase *tc = test_case("all", 0);
    tcase_add_test(tc, known_answers);
    tcase_add_test(tc, keep_n_is_keep);
    tcase_add_test(tc, uniform_is_53_bits_of_words_0_and_1);
    tcase_add_test(tc, normal_is_box_muller);
    tcase_add_test(tc, moments);
    tcase_add_test(tc, cells_are_equally_full);
    tcase_add_test(tc, dropout_keeps_by_the_threshold);
    tcase_add_test(tc, every_coordinate_counts);
    tcase_add_test(tc, golden_digest);
    return run_tests();
}
