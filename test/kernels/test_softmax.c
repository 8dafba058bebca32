/* test_softmax.c - the softmax of a row, with and without a mask. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/softmax.h"
#include "lockstep/numerics/functions.h"
#include "run_tests.h"

enum { MAX = 300 };

static const size_t sizes[] = {1, 2, 3, 5, 7, 15, 16, 17, 33, 128, 255, 256, 257, MAX};

/* EXACT: n equal logits, n a power of two. */
START_TEST(equal_logits)
{
    for (size_t n = 1; n <= 256; n *= 2) {
        ls_real *x = fresh(n), *y = fresh(n);
        for (size_t i = 0; i < n; i++) x[i] = (ls_real)-3.7;
        ls_softmax_forward(y, x, NULL, n);
        for (size_t i = 0; i < n; i++) ck_assert(y[i] == (ls_real)1 / (ls_real)n);
    }
    ls_softmax_forward(NULL, NULL, NULL, 0);
}
END_TEST

START_TEST(in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (int masked = 0; masked < 2; masked++) {
            const size_t n = sizes[k];
            unsigned char seen[MAX];
            ls_real *x = noise(n, 1), *dy = noise(n, 2), *e = fresh(n), *right = fresh(n);
            ls_real max = -INF;
            for (size_t i = 0; i < n; i++) {
                seen[i] = !masked || i % 5 == 1 || (i * i) % 7 == 2 || i + 1 == n;
                if (!seen[i]) x[i] = (ls_real)NAN; /* what is masked is never looked at */
                if (seen[i] && x[i] > max) max = x[i];
            }
            for (size_t i = 0; i < n; i++) e[i] = seen[i] ? ls_exp(x[i] - max) : POS_ZERO;
            const ls_real inverse = 1 / reference_row_sum(e, n);
            for (size_t i = 0; i < n; i++) right[i] = seen[i] ? e[i] * inverse : POS_ZERO;
            ls_real *y = fresh(n), *in = copy_of(x, n), *dx = fresh(n), *d = copy_of(dy, n);
            for (int twice = 0; twice < 2; twice++) {
                ls_softmax_forward(y, x, masked ? seen : NULL, n);
                ck_assert(same(y, right, n));
            }
            ls_softmax_forward(in, in, masked ? seen : NULL, n); /* y is x */
            ck_assert(same(in, right, n));

            for (size_t i = 0; i < n; i++) e[i] = dy[i] * y[i];
            const ls_real sum = reference_row_sum(e, n);
            for (size_t i = 0; i < n; i++) right[i] = y[i] * (dy[i] - sum);
            ls_softmax_backward(dx, dy, y, n);
            ck_assert(same(dx, right, n));
            ls_softmax_backward(d, d, y, n); /* dx is dy */
            ck_assert(same(d, right, n));
        }
}
END_TEST

/* A mask that leaves the first m entries is the softmax of those m, bit for bit: attention relies
 * on it. */
START_TEST(masked_row_is_the_row_of_what_is_seen_in_front)
{
    const size_t n = 77;
    ls_real *x = noise(n, 3);
    for (size_t m = 1; m <= n; m++) {
        unsigned char seen[77];
        ls_real *y = fresh(n), *front = fresh(m);
        for (size_t i = 0; i < n; i++) seen[i] = i < m;
        ls_softmax_forward(y, x, seen, n);
        ls_softmax_forward(front, x, NULL, m);
        ck_assert(same(y, front, m));
        for (size_t i = m; i < n; i++) ck_assert(same_value(y[i], POS_ZERO));
    }
}
END_TEST

/* Finite minus infinity; a row that is masked completely: zeros forward and backward, where
 * -inf - -inf is NaN and a finite mask constant leaves the softmax of the raw scores. */
START_TEST(fully_masked_row)
{
    const unsigned char none[4] = {0, 0, 0, 0}, all[4] = {1, 1, 1, 1};
    const ls_real scores[4] = {1, 2, (ls_real)NAN, INF}, low[4] = {-60000, -60000, -60000, -60000};
    const ls_real closed[4] = {-INF, -INF, -INF, -INF}, dy[4] = {3, -4, 5, -6};
    ls_real y[4], dx[4];
    ls_softmax_forward(y, scores, none, 4);
    for (size_t i = 0; i < 4; i++) ck_assert(same_value(y[i], POS_ZERO));
    ls_softmax_backward(dx, dy, y, 4);
    for (size_t i = 0; i < 4; i++) ck_assert(dx[i] == 0);
    ls_softmax_forward(y, closed, NULL, 4);
    for (size_t i = 0; i < 4; i++) ck_assert(same_value(y[i], POS_ZERO));
    /* logits below every sentinel are logits all the same */
    ls_softmax_forward(y, low, all, 4);
    for (size_t i = 0; i < 4; i++) ck_assert(y[i] == (ls_real)0.25);
    ls_softmax_forward(y, low, NULL, 4);
    for (size_t i = 0; i < 4; i++) ck_assert(y[i] == (ls_real)0.25);
}
END_TEST

/* Soft-cap before the mask: two logits capped to the same value, one masked pad. */
START_TEST(soft_cap_before_the_mask)
{
    const unsigned char seen[3] = {1, 1, 0};
    const ls_real cap = 1;
    ls_real x[3] = {-30, -30, -30}, y[3];
    for (size_t i = 0; i < 3; i++) x[i] = cap * ls_tanh(x[i] / cap);
    ls_softmax_forward(y, x, seen, 3);
    ck_assert(y[0] == (ls_real)0.5 && y[1] == (ls_real)0.5 && same_value(y[2], POS_ZERO));
}
END_TEST

/* Scores anywhere in the range of the type: nothing is added to them, so nothing overflows. */
START_TEST(extreme_scores)
{
    const unsigned char seen[4] = {1, 0, 1, 1};
    const ls_real x[4] = {LARGEST, LARGEST, -LARGEST, 300 * (ls_real)300};
    ls_real y[4];
    ls_softmax_forward(y, x, seen, 4);
    ck_assert(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0);
    const ls_real open[3] = {-INF, 5, -INF};
    ls_softmax_forward(y, open, NULL, 3);
    ck_assert(y[0] == 0 && y[1] == 1 && y[2] == 0);
    const ls_real merged[2] = {0, 100}; /* exp(100) alone is beyond binary32 */
    ls_softmax_forward(y, merged, NULL, 2);
    ck_assert(y[1] == 1 && near(y[0], exp(-100), 1e-45));
    const ls_real bad[4] = {1, 2, (ls_real)NAN, 3};
    ls_softmax_forward(y, bad, seen, 4);
    ck_assert(isnan(y[0]) && same_value(y[1], POS_ZERO) && isnan(y[2]) && isnan(y[3]));
}
END_TEST

/* TRUTH: exp 1 ulp of an argument rounded once (at most 8, so 8 ulp/2), the sum, two roundings. */
START_TEST(distance_to_truth)
{
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const size_t n = sizes[k];
        ls_real *x = noise(n, 4), *dy = noise(n, 5), *y = fresh(n), *dx = fresh(n);
        long double truth[MAX], back[MAX], sum = 0, dot = 0;
        for (size_t i = 0; i < n; i++) sum += expl((long double)x[i]);
        for (size_t i = 0; i < n; i++) {
            truth[i] = expl((long double)x[i]) / sum;
            dot += (long double)dy[i] * truth[i];
        }
        for (size_t i = 0; i < n; i++) back[i] = truth[i] * ((long double)dy[i] - dot);
        ls_softmax_forward(y, x, NULL, n);
        ls_softmax_backward(dx, dy, y, n);
        for (size_t i = 0; i < n; i++) {
            ck_assert(within(y + i, truth + i, 1, 12 * EPSILON * (double)truth[i]));
            ck_assert(within(dx + i, back + i, 1, 24 * EPSILON * (double)truth[i] * 8));
        }
    }
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct softmax_case {
    double *x, *dy, *y;
    unsigned char *seen;
    size_t n;
} softmax_case;

static double softmax_objective(void *context)
{
    softmax_case *s = context;
    ls_softmax_forward(s->y, s->x, s->seen, s->n);
    return weighted_sum(s->dy, s->y, s->n);
}

START_TEST(gradients)
{
    for (size_t k = 0; k < 9; k++)
        for (int masked = 0; masked < 2; masked++) {
            const size_t n = sizes[k];
            unsigned char seen[MAX];
            for (size_t i = 0; i < n; i++) seen[i] = i % 3 != 1;
            softmax_case s = {noise(n, 6), noise(n, 7), fresh(n), masked ? seen : NULL, n};
            double *dx = fresh(n);
            softmax_objective(&s);
            ls_softmax_backward(dx, s.dy, s.y, n);
            check_gradient(softmax_objective, &s, s.x, dx, n, "dx");
        }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {
        equal_logits,      in_the_stated_order,      masked_row_is_the_row_of_what_is_seen_in_front,
        fully_masked_row,  soft_cap_before_the_mask, extreme_scores,
        distance_to_truth,
#ifdef LS_REAL_IS_F64
        gradients
#endif
    };
    return run_kernel_tests("softmax", tests, COUNT(tests));
}
