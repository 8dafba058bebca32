/* test_elementwise.c - sums, bias, scaling, dropout. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/elementwise.h"
#include "run_tests.h"

static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 15, 16, 17, 33, 100, 255, 256, 257, 515};

START_TEST(add_and_scale)
{
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const size_t n = sizes[k];
        ls_real *a = noise(n, 1), *b = noise(n, 2), *y = fresh(n), *s = fresh(n);
        for (int twice = 0; twice < 2; twice++) {
            ls_add(y, a, b, n);
            ls_scale(s, a, (ls_real)0.3, n);
            for (size_t i = 0; i < n; i++) {
                ck_assert(same_value(y[i], a[i] + b[i]));
                ck_assert(same_value(s[i], a[i] * (ls_real)0.3));
            }
        }
        ls_real *left = copy_of(a, n), *right = copy_of(b, n), *in = copy_of(a, n);
        ls_add(left, left, b, n);
        ls_add(right, a, right, n);
        ls_scale(in, in, (ls_real)0.3, n);
        ck_assert(same(left, y, n) && same(right, y, n) && same(in, s, n));
        /* nothing to add is -0: both zeros come through */
        for (size_t i = 0; i < n; i++) a[i] = NEG_ZERO, b[i] = i % 2 ? POS_ZERO : NEG_ZERO;
        ls_add(y, a, b, n);
        ck_assert(same(y, b, n));
    }
    /* 300 * 300 is beyond the range of 16 bits, not of ours */
    const ls_real x[1] = {300};
    ls_real y[1];
    ls_scale(y, x, 300, 1);
    ck_assert(y[0] == 90000);
}
END_TEST

START_TEST(bias_of_integers)
{
    for (size_t rows = 0; rows < 4; rows++)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            const size_t cols = sizes[k], ld = cols + 2;
            ls_real *y = integers(rows * ld, 3, 99), *before = copy_of(y, rows * ld);
            ls_real *bias = integers(cols, 4, 99);
            ls_add_bias(y, bias, rows, cols, ld);
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < ld; c++)
                    ck_assert(y[r * ld + c] == before[r * ld + c] + (c < cols ? bias[c] : 0));
        }
}
END_TEST

static const ls_stream stream = {1234, LS_RANDOM_TEST, 3, 9};

START_TEST(dropout_keeps_what_the_stream_keeps)
{
    static const double ps[] = {0.1, 0.5, 0.9, 0.999999, 1 - 0x1p-33, 1 - 0x1p-53};
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (size_t m = 0; m < COUNT(ps); m++) {
            const size_t n = sizes[k];
            ls_real *x = noise(n, 5), *y = fresh(n), *in = copy_of(x, n);
            const ls_real factor = (ls_real)(1.0 / (1.0 - ps[m]));
            const uint64_t first = UINT64_C(1) << 35; /* the index is one of 64 bits */
            for (int twice = 0; twice < 2; twice++) ls_dropout(y, x, n, ps[m], stream, first);
            for (size_t i = 0; i < n; i++) {
                const int keep = ls_random_keep(stream, first + i, ps[m]);
                ck_assert(same_value(y[i], keep ? x[i] * factor : POS_ZERO));
                ck_assert(isfinite(y[i]));
            }
            ls_dropout(in, in, n, ps[m], stream, first); /* y is x */
            ck_assert(same(in, y, n));
        }
}
END_TEST

START_TEST(dropout_of_nothing_is_a_copy)
{
    ls_real *x = noise(33, 6), *y = fresh(33), *in = copy_of(x, 33);
    x[3] = NEG_ZERO, x[4] = INF, in[3] = NEG_ZERO, in[4] = INF;
    ls_dropout(y, x, 33, 0.0, stream, 7);
    ck_assert(same(y, x, 33));
    ls_dropout(in, in, 33, 0.0, stream, 7);
    ck_assert(same(in, x, 33));
    ls_dropout(y, x, 0, 0.0, stream, 7);
}
END_TEST

/* What is dropped is +0 whatever it was. */
START_TEST(dropped_infinities)
{
    ls_real x[64], y[64];
    size_t dropped = 0;
    for (size_t i = 0; i < 64; i++) x[i] = i % 3 == 0 ? INF : i % 3 == 1 ? (ls_real)NAN : -1;
    ls_dropout(y, x, 64, 0.5, stream, 0);
    for (size_t i = 0; i < 64; i++) {
        if (ls_random_keep(stream, i, 0.5)) continue;
        dropped++;
        ck_assert(same_value(y[i], POS_ZERO));
    }
    ck_assert(dropped > 10 && dropped < 54);
}
END_TEST

/* Dropout on sequence shards: the masks of the shards put together are the mask of the whole, and
 * two shards do not draw the same mask. Micro-batches likewise; recomputation draws it again. */
START_TEST(mask_of_shards_is_the_slice_of_the_whole)
{
    const size_t S = 4, hidden = 64, n = S * hidden;
    ls_real *ones = fresh(n), *whole = fresh(n), *assembled = fresh(n), *again = fresh(n);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    ls_dropout(whole, ones, n, 0.5, stream, 0);
    for (size_t shards = 1; shards <= 4; shards++) {
        for (size_t r = 0; r < shards; r++) {
            const size_t lo = S * r / shards * hidden, hi = S * (r + 1) / shards * hidden;
            ls_dropout(assembled + lo, ones + lo, hi - lo, 0.5, stream, lo);
        }
        ck_assert(same(assembled, whole, n));
    }
    ck_assert(!same(whole, whole + n / 2, n / 2));
    ls_dropout(again, ones, n, 0.5, stream, 0);
    ck_assert(same(again, whole, n));
    const ls_stream others[4] = {{1235, LS_RANDOM_TEST, 3, 9},
                                 {1234, LS_RANDOM_DROPOUT_MLP, 3, 9},
                                 {1234, LS_RANDOM_TEST, 4, 9},
                                 {1234, LS_RANDOM_TEST, 3, 10}};
    for (size_t o = 0; o < 4; o++) { /* another seed, purpose, layer or step: another mask */
        ls_dropout(again, ones, n, 0.5, others[o], 0);
        ck_assert(!same(again, whole, n));
    }
}
END_TEST

/* About n p are dropped, and the mean stays. 5 standard deviations. */
START_TEST(dropout_rate)
{
    static const double ps[] = {0.1, 0.5, 0.9};
    const size_t n = 40000;
    ls_real *ones = fresh(n), *y = fresh(n);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    for (size_t m = 0; m < COUNT(ps); m++) {
        double sum = 0, kept = 0;
        ls_dropout(y, ones, n, ps[m], stream, 0);
        for (size_t i = 0; i < n; i++) sum += (double)y[i], kept += y[i] != 0;
        const double deviation = sqrt((double)n * ps[m] * (1 - ps[m]));
        ck_assert(fabs(kept - (double)n * (1 - ps[m])) <= 5 * deviation);
        ck_assert(fabs(sum - (double)n) <= 5 * deviation / (1 - ps[m]));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {add_and_scale,
                                  bias_of_integers,
                                  dropout_keeps_what_the_stream_keeps,
                                  dropout_of_nothing_is_a_copy,
                                  dropped_infinities,
                                  mask_of_shards_is_the_slice_of_the_whole,
                                  dropout_rate};
    return run_kernel_tests("elementwise", tests, COUNT(tests));
}
