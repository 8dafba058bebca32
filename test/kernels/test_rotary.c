/* test_rotary.c - rotary position embedding. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/rotary.h"
#include "run_tests.h"

static const size_t head_widths[] = {2, 4, 6, 10, 16, 34};

/* The table against position * theta^(-2 i / head_width) in extended precision. */
START_TEST(table)
{
    static const double thetas[] = {10000, 500000, 1};
    const size_t positions = 211;
    for (size_t k = 0; k < COUNT(head_widths); k++)
        for (size_t m = 0; m < COUNT(thetas); m++) {
            const size_t half = head_widths[k] / 2;
            ls_real *c = fresh(positions * half), *s = fresh(positions * half);
            ls_rotary_table(c, s, positions, head_widths[k], thetas[m]);
            for (size_t p = 0; p < positions; p++)
                for (size_t i = 0; i < half; i++) {
                    const long double angle =
                        (long double)p * powl((long double)thetas[m],
                                              -2.0L * (long double)i / (long double)(2 * half));
                    const long double right[2] = {cosl(angle), sinl(angle)};
                    /* an angle of up to 211 is known to 211 * 4 ulp of binary64 */
                    const double bound = 0.6 * EPSILON + 1000 * DBL_EPSILON;
                    ck_assert(within(c + p * half + i, right, 1, bound));
                    ck_assert(within(s + p * half + i, right + 1, 1, bound));
                }
            for (size_t i = 0; i < half; i++) ck_assert(c[i] == 1 && s[i] == 0); /* position 0 */
        }
}
END_TEST

/* Positions of a sequence shard are global: a shorter table is the front of a longer one. */
START_TEST(table_does_not_depend_on_its_length)
{
    ls_real *c = fresh(40 * 8), *s = fresh(40 * 8), *short_c = fresh(7 * 8),
            *short_s = fresh(7 * 8);
    ls_rotary_table(c, s, 40, 16, 10000);
    ls_rotary_table(short_c, short_s, 7, 16, 10000);
    ck_assert(same(c, short_c, 7 * 8) && same(s, short_s, 7 * 8));
}
END_TEST

/* EXACT: with integers for cos and sin. Feature i pairs with i + head_width / 2 of its head. */
START_TEST(turns_of_integers)
{
    for (size_t k = 0; k < COUNT(head_widths); k++) {
        const size_t S = 5, heads = 3, width = head_widths[k], half = width / 2;
        const size_t ld = heads * width + 3;
        ls_real *x = integers(S * ld, 1, 9), *c = integers(S * half, 2, 5);
        ls_real *s = integers(S * half, 3, 5);
        ls_real *forward = copy_of(x, S * ld), *backward = copy_of(x, S * ld);
        ls_rotary_forward(forward, c, s, S, heads, width, ld);
        ls_rotary_backward(backward, c, s, S, heads, width, ld);
        for (size_t t = 0; t < S; t++) {
            for (size_t h = 0; h < heads; h++)
                for (size_t i = 0; i < half; i++) {
                    const size_t a = t * ld + h * width + i, b = a + half;
                    const ls_real ci = c[t * half + i], si = s[t * half + i];
                    ck_assert(forward[a] == x[a] * ci - x[b] * si);
                    ck_assert(forward[b] == x[b] * ci + x[a] * si);
                    ck_assert(backward[a] == x[a] * ci + x[b] * si);
                    ck_assert(backward[b] == x[b] * ci - x[a] * si);
                }
            for (size_t i = heads * width; i < ld; i++) /* between the rows nothing is touched */
                ck_assert(forward[t * ld + i] == x[t * ld + i]);
        }
    }
}
END_TEST

/* ORDERED: a run of heads and a run of tokens give the slice of the whole; each product is rounded
 * before the addition. */
START_TEST(slices)
{
    const size_t S = 9, heads = 6, width = 10, half = 5, ld = heads * width;
    ls_real *x = noise(S * ld, 4), *c = fresh(S * half), *s = fresh(S * half);
    ls_rotary_table(c, s, S, width, 10000);
    ls_real *whole = copy_of(x, S * ld), *back = copy_of(x, S * ld);
    ls_rotary_forward(whole, c, s, S, heads, width, ld);
    ls_rotary_backward(back, c, s, S, heads, width, ld);
    for (size_t h = 0; h < heads; h += 2) {
        ls_real *part = copy_of(x, S * ld), *part_back = copy_of(x, S * ld);
        ls_rotary_forward(part + h * width, c, s, S, 2, width, ld);
        ls_rotary_backward(part_back + h * width, c, s, S, 2, width, ld);
        for (size_t t = 0; t < S; t++) {
            ck_assert(same(part + t * ld + h * width, whole + t * ld + h * width, 2 * width));
            ck_assert(same(part_back + t * ld + h * width, back + t * ld + h * width, 2 * width));
            ck_assert(same(part + t * ld, x + t * ld, h * width)); /* the other heads untouched */
        }
    }
    for (size_t lo = 0; lo <= S; lo++) {
        ls_real *part = copy_of(x + lo * ld, (S - lo) * ld);
        ls_rotary_forward(part, c + lo * half, s + lo * half, S - lo, heads, width, ld);
        ck_assert(same(part, whole + lo * ld, (S - lo) * ld));
    }
    for (size_t t = 0; t < S; t++)
        for (size_t i = 0; i < half; i++) {
            const ls_real x1 = x[t * ld + i], x2 = x[t * ld + half + i];
            const ls_real ci = c[t * half + i], si = s[t * half + i];
            const ls_real a = x1 * ci, b = x2 * si, d = x2 * ci, e = x1 * si;
            ck_assert(same_value(whole[t * ld + i], a - b));
            ck_assert(same_value(whole[t * ld + half + i], d + e));
        }
}
END_TEST

/* A turn keeps lengths, and the score of a query and a key depends on their distance only. */
START_TEST(scores_depend_on_distance)
{
    const size_t S = 30, width = 16, half = 8;
    ls_real *q = fresh(S * width), *k = fresh(S * width), *c = fresh(S * half),
            *s = fresh(S * half);
    const ls_real *q0 = noise(width, 5), *k0 = noise(width, 6);
    for (size_t t = 0; t < S; t++) {
        memcpy(q + t * width, q0, width * sizeof *q);
        memcpy(k + t * width, k0, width * sizeof *k);
    }
    ls_rotary_table(c, s, S, width, 10000);
    ls_rotary_forward(q, c, s, S, 1, width, width);
    ls_rotary_forward(k, c, s, S, 1, width, width);
    for (size_t distance = 0; distance < 9; distance++)
        for (size_t t = 1; t + distance < S; t++) {
            double first = 0, here = 0, length = 0, length0 = 0;
            for (size_t i = 0; i < width; i++) {
                first += (double)q[distance * width + i] * (double)k[i];
                here += (double)q[(t + distance) * width + i] * (double)k[t * width + i];
                length += (double)q[t * width + i] * (double)q[t * width + i];
                length0 += (double)q0[i] * (double)q0[i];
            }
            ck_assert(fabs(first - here) <= 200 * EPSILON);
            ck_assert(fabs(length - length0) <= 200 * EPSILON);
        }
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct rotary_case {
    double *x, *dy, *y, *c, *s;
    size_t S, heads, width;
} rotary_case;

static double rotary_objective(void *context)
{
    rotary_case *r = context;
    const size_t ld = r->heads * r->width;
    memcpy(r->y, r->x, r->S * ld * sizeof *r->y);
    ls_rotary_forward(r->y, r->c, r->s, r->S, r->heads, r->width, ld);
    return weighted_sum(r->dy, r->y, r->S * ld);
}

START_TEST(gradients)
{
    const size_t S = 3, heads = 2, width = 6, n = S * heads * width;
    rotary_case r = {noise(n, 7),  noise(n, 8), fresh(n), fresh(S * 3),
                     fresh(S * 3), S,           heads,    width};
    ls_rotary_table(r.c, r.s, S, width, 100);
    double *dx = copy_of(r.dy, n);
    ls_rotary_backward(dx, r.c, r.s, S, heads, width, heads * width);
    check_gradient(rotary_objective, &r, r.x, dx, n, "dx");
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {table,    table_does_not_depend_on_its_length, turns_of_integers,
                                  slices,   scores_depend_on_distance,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("rotary", tests, COUNT(tests));
}
