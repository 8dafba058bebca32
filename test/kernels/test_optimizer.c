/* test_optimizer.c - AdamW, SGD with momentum, the learning rate and the clipping factor. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/row_sum.h"
#include "run_tests.h"

static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 15, 16, 17, 33, 100};

static ls_real root(ls_real x)
{
    return (ls_real)sqrt((double)x); /* a binary64 root rounded to binary32 is the binary32 root */
}

static ls_update adamw_step(uint64_t t)
{
    const ls_update u = {LS_ADAMW, 0.01, 0.9, 0.95, 1e-8, 0.1, t};
    return u;
}

/* Every operation in the order of the header, factors rounded once. */
START_TEST(adamw_in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (int decay = 0; decay < 2; decay++) {
            const size_t n = sizes[k];
            ls_real *w = noise(n, 1), *m = noise(n, 2), *v = fresh(n), *g = noise(n, 4);
            ls_real *w2 = copy_of(w, n), *m2 = copy_of(m, n), *v2 = fresh(n);
            const ls_real *gradient = copy_of(g, n);
            for (size_t i = 0; i < n; i++) v[i] = v2[i] = (ls_real)0.01 * (ls_real)i;
            for (uint64_t t = 1; t <= 5; t++) {
                const ls_update u = adamw_step(t);
                ls_update_apply(&u, decay, w, m, v, g, n);
                const ls_real c1 = (ls_real)(1 / (1 - ls_power(0.9, t)));
                const ls_real c2 = (ls_real)(1 / (1 - ls_power(0.95, t)));
                const ls_real shrink = (ls_real)(0.01 * 0.1), lr = (ls_real)0.01;
                for (size_t i = 0; i < n; i++) {
                    m2[i] = (ls_real)0.9 * m2[i] + (ls_real)(1 - 0.9) * g[i];
                    v2[i] = (ls_real)0.95 * v2[i] + (ls_real)(1 - 0.95) * (g[i] * g[i]);
                    if (decay) w2[i] = w2[i] - shrink * w2[i];
                    const ls_real step = (m2[i] * c1) / (root(v2[i] * c2) + (ls_real)1e-8);
                    w2[i] = w2[i] - lr * step;
                }
                ck_assert(same(m, m2, n) && same(v, v2, n) && same(w, w2, n));
            }
            ck_assert(same(g, gradient, n));
        }
}
END_TEST

/* EXACT: halves and quarters. */
START_TEST(sgd_of_integers)
{
    const ls_update u = {LS_SGD, 0.5, 0.5, 0, 0, 0.25, 1};
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (int decay = 0; decay < 2; decay++) {
            const size_t n = sizes[k];
            ls_real *w = integers(n, 5, 9), *m = integers(n, 6, 9), *g = integers(n, 7, 9);
            ls_real *w0 = copy_of(w, n), *m0 = copy_of(m, n);
            ls_update_apply(&u, decay, w, m, NULL, g, n);
            for (size_t i = 0; i < n; i++) {
                const double d = (double)g[i] + (decay ? 0.25 * (double)w0[i] : 0);
                const double momentum = 0.5 * (double)m0[i] + d;
                ck_assert((double)m[i] == momentum &&
                          (double)w[i] == (double)w0[i] - 0.5 * momentum);
            }
        }
}
END_TEST

/* ORDERED: a shard of the parameters is updated as the slice of the whole. */
START_TEST(shards_are_slices)
{
    const size_t n = 37;
    for (int which = 0; which < 2; which++) {
        ls_update u = adamw_step(3);
        u.optimizer = which ? LS_SGD : LS_ADAMW;
        ls_real *w0 = noise(n, 8), *m0 = noise(n, 9), *v0 = integers(n, 10, 5), *g = noise(n, 11);
        for (size_t i = 0; i < n; i++) v0[i] = v0[i] * v0[i];
        ls_real *w = copy_of(w0, n), *m = copy_of(m0, n), *v = copy_of(v0, n);
        ls_update_apply(&u, 1, w, m, v, g, n);
        for (size_t lo = 0; lo <= n; lo += 4)
            for (size_t hi = lo; hi <= n; hi += 3) {
                const size_t held = hi - lo;
                ls_real *ws = copy_of(w0 + lo, held), *ms = copy_of(m0 + lo, held);
                ls_real *vs = copy_of(v0 + lo, held);
                ls_update_apply(&u, 1, ws, ms, vs, g + lo, held);
                ck_assert(same(ws, w + lo, held) && same(ms, m + lo, held) &&
                          same(vs, v + lo, held));
            }
    }
}
END_TEST

static ls_real one_adam_step(ls_real g, ls_real w)
{
    const ls_update u = {LS_ADAMW, 0.1, 0.9, 0.999, 1e-8, 0, 1};
    ls_real m = 0, v = 0;
    ls_update_apply(&u, 1, &w, &m, &v, &g, 1);
    return w;
}

/* One Adam step of a tied weight on the sum of its two gradients: +1 and -1 move nothing; 3 and -1
 * move it by the learning rate, not by two steps that nearly cancel. */
START_TEST(tied_weight)
{
    ck_assert(one_adam_step((ls_real)1 + (ls_real)-1, 1) == 1);
    ck_assert(near(one_adam_step((ls_real)3 + (ls_real)-1, 1), 0.9000000005, 1e-6));
    if (sizeof(ls_real) == 8)
        ck_assert(near(one_adam_step((ls_real)3 + (ls_real)-1, 1), 0.9000000005, 1e-15));
}
END_TEST

/* TRUTH: 200 steps against extended precision. */
START_TEST(adamw_over_many_steps)
{
    ls_real w = (ls_real)0.7, m = 0, v = 0;
    long double tw = (long double)w, tm = 0, tv = 0, p1 = 1, p2 = 1;
    for (uint64_t t = 1; t <= 200; t++) {
        const ls_real g = (ls_real)sin(0.3 * (double)t) + (ls_real)0.2;
        const ls_update u = adamw_step(t);
        ls_update_apply(&u, 1, &w, &m, &v, &g, 1);
        tm = 0.9L * tm + 0.1L * (long double)g;
        tv = 0.95L * tv + 0.05L * (long double)g * (long double)g;
        p1 *= 0.9L, p2 *= 0.95L;
        tw -= 0.01L * 0.1L * tw;
        tw -= 0.01L * (tm / (1 - p1)) / (sqrtl(tv / (1 - p2)) + 1e-8L);
        ck_assert(within(&m, &tm, 1, 16 * EPSILON) && within(&v, &tv, 1, 16 * EPSILON));
        ck_assert(within(&w, &tw, 1, (double)t * 2 * EPSILON));
    }
}
END_TEST

/* Gradient (3, 4) clipped to norm 1: 0.6 and 0.8, neither left alone nor divided by norm + 1e-6. */
START_TEST(clipping)
{
    const ls_real g[2] = {3, 4};
    ls_real y[2];
    const double factor = ls_clip_factor(ls_block_squares(g, 1, 2, 2), 1);
    ls_scale(y, g, (ls_real)factor, 2);
    if (sizeof(ls_real) == 4)
        ck_assert(y[0] == (ls_real)0.6 && y[1] == (ls_real)0.8);
    else
        ck_assert(near(y[0], 0.6, 2e-16) && near(y[1], 0.8, 2e-16));

    ck_assert(ls_clip_factor(25, 5) == 1 && ls_clip_factor(25, 6) == 1);
    ck_assert(ls_clip_factor(25, 2.5) == 0.5 && ls_clip_factor(25, 0) == 1);
    ck_assert(ls_clip_factor(0, 1) == 1);
    ck_assert(isnan(ls_clip_factor((double)INFINITY, 1)) && isnan(ls_clip_factor((double)NAN, 1)));
    ck_assert(ls_clip_factor((double)INFINITY, 0) == 1);
}
END_TEST

START_TEST(learning_rate)
{
    /* warm-up: the first step is not zero, the last reaches the peak */
    for (uint64_t t = 0; t < 10; t++)
        ck_assert(ls_learning_rate(3, 1, 10, 110, t) == 3.0 * (double)(t + 1) / 10);
    ck_assert(ls_learning_rate(3, 1, 10, 110, 9) == 3);
    ck_assert(ls_learning_rate(3, 1, 10, 110, 10) == 3); /* the cosine begins at the peak */
    ck_assert(fabs(ls_learning_rate(3, 1, 10, 110, 60) - 2) < 1e-15);
    for (uint64_t t = 10; t < 110; t++) {
        const double right = 1 + 0.5 * 2 * (1 + cos(acos(-1.0) * (double)(t - 10) / 100));
        ck_assert(fabs(ls_learning_rate(3, 1, 10, 110, t) - right) < 1e-14);
        ck_assert(ls_learning_rate(3, 1, 10, 110, t + 1) < ls_learning_rate(3, 1, 10, 110, t));
    }
    for (uint64_t t = 110; t < 1000; t += 89) ck_assert(ls_learning_rate(3, 1, 10, 110, t) == 1);
    ck_assert(ls_learning_rate(3, 1, 0, 0, 5) == 3 && ls_learning_rate(3, 1, 2, 0, 5) == 3);
    ck_assert(ls_learning_rate(3, 1, 2, 0, 0) == 1.5);
    ck_assert(ls_learning_rate(3, 1, 0, 10, 0) == 3);
    ck_assert(ls_learning_rate(3, 1, 20, 10, 15) == 3.0 * 16 / 20); /* warm-up beyond the end */
    ck_assert(ls_learning_rate(3, 1, 20, 10, 20) == 1 && ls_learning_rate(3, 1, 10, 10, 10) == 1);
    ck_assert(ls_learning_rate(3, 1, 0, UINT64_MAX, UINT64_MAX) == 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        adamw_in_the_stated_order, sgd_of_integers, shards_are_slices, tied_weight,
        adamw_over_many_steps,     clipping,        learning_rate};
    return run_kernel_tests("optimizer", tests, COUNT(tests));
}
