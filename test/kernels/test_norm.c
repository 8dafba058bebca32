/* test_norm.c - LayerNorm and RMSNorm. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/norm.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/tree.h"
#include "run_tests.h"

static const size_t widths[] = {1, 2, 3, 5, 7, 15, 16, 17, 33, 48, 255, 256, 257, 600};
static const double eps = 1e-5;

/* EXACT: rows of m +- s with as many of each have mean m and variance s^2; eps = 3 s^2 makes the
 * root exact, so xhat is +-1/2. */
START_TEST(layer_norm_of_integers)
{
    static const size_t even[] = {2, 6, 16, 34, 258};
    for (size_t k = 0; k < COUNT(even); k++) {
        const size_t rows = 5, D = even[k];
        ls_real *x = fresh(rows * D), *y = fresh(rows * D), *right = fresh(rows * D);
        ls_real *mean = fresh(rows), *rstd = fresh(rows);
        ls_real *scale = integers(D, 1, 9), *shift = integers(D, 2, 9);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < D; c++) {
                const int up = (c + r) % 2 == 0;
                x[r * D + c] = (ls_real)(3 * (int)r - 4) + (up ? 2 : -2);
                right[r * D + c] = (up ? (ls_real)0.5 : (ls_real)-0.5) * scale[c] + shift[c];
            }
        for (int twice = 0; twice < 2; twice++) {
            ls_layer_norm_forward(y, mean, rstd, x, scale, shift, rows, D, 12.0);
            ck_assert(same(y, right, rows * D));
            for (size_t r = 0; r < rows; r++) {
                ck_assert(mean[r] == (ls_real)(3 * (int)r - 4));
                ck_assert(rstd[r] == (ls_real)0.25);
            }
        }
    }
}
END_TEST

START_TEST(rms_norm_of_integers)
{
    for (size_t k = 0; k < COUNT(widths); k++) {
        const size_t rows = 3, D = widths[k];
        ls_real *x = fresh(rows * D), *y = fresh(rows * D), *right = fresh(rows * D);
        ls_real *rstd = fresh(rows), *scale = integers(D, 1, 9);
        for (size_t i = 0; i < rows * D; i++) {
            x[i] = i % 3 == 0 ? (ls_real)-2 : (ls_real)2;
            right[i] = (i % 3 == 0 ? (ls_real)-0.5 : (ls_real)0.5) * scale[i % D];
        }
        ls_rms_norm_forward(y, rstd, x, scale, rows, D, 12.0);
        ck_assert(same(y, right, rows * D));
        ck_assert(rstd[rows - 1] == (ls_real)0.25);
    }
}
END_TEST

/* EXACT: with mean 0 and rstd 1 the parameter gradients are plain sums of integers. */
START_TEST(parameter_gradients_of_integers)
{
    for (size_t k = 0; k < COUNT(widths); k++)
        for (size_t granules = 0; granules <= 7; granules++) {
            const size_t D = widths[k], granule = 5, rows = granules * granule;
            ls_real *x = integers(rows * D, 3, 5), *dy = integers(rows * D, 4, 5);
            ls_real *mean = fresh(rows), *rstd = fresh(rows);
            ls_real *dscale = fresh(D), *dshift = fresh(D), *dscale_rms = fresh(D);
            for (size_t r = 0; r < rows; r++) mean[r] = (ls_real)(r % 3), rstd[r] = 2;
            const ls_axis tokens = ls_axis_of(granules, granule);
            ls_layer_norm_backward_parameters(dscale, dshift, dy, x, mean, rstd, tokens, D);
            ls_rms_norm_backward_parameters(dscale_rms, dy, x, rstd, tokens, D);
            for (size_t c = 0; c < D; c++) {
                long a = 0, b = 0, e = 0;
                for (size_t r = 0; r < rows; r++) {
                    const long d = (long)dy[r * D + c], v = (long)x[r * D + c];
                    a += d * 2 * (v - (long)(r % 3));
                    b += d;
                    e += d * 2 * v;
                }
                ck_assert(dscale[c] == (ls_real)a && dshift[c] == (ls_real)b);
                ck_assert(dscale_rms[c] == (ls_real)e);
            }
        }
}
END_TEST

/* Every sum and every operation in the order the header and the source state. */
START_TEST(forward_in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(widths); k++) {
        const size_t rows = 3, D = widths[k];
        ls_real *x = noise(rows * D, 5), *y = fresh(rows * D), *square = fresh(D);
        ls_real *mean = fresh(rows), *rstd = fresh(rows);
        ls_real *scale = noise(D, 6), *shift = noise(D, 7);
        ls_layer_norm_forward(y, mean, rstd, x, scale, shift, rows, D, eps);
        for (size_t r = 0; r < rows; r++) {
            const ls_real *row = x + r * D;
            const ls_real m = reference_row_sum(row, D) / (ls_real)D;
            for (size_t c = 0; c < D; c++) square[c] = (row[c] - m) * (row[c] - m);
            const ls_real s = ls_rsqrt(reference_row_sum(square, D) / (ls_real)D + (ls_real)eps);
            ck_assert(same_value(mean[r], m) && same_value(rstd[r], s));
            for (size_t c = 0; c < D; c++)
                ck_assert(same_value(y[r * D + c], ((row[c] - m) * s) * scale[c] + shift[c]));
        }
        /* without a shift */
        ls_layer_norm_forward(y, mean, rstd, x, scale, NULL, rows, D, eps);
        for (size_t i = 0; i < rows * D; i++)
            ck_assert(same_value(y[i], ((x[i] - mean[i / D]) * rstd[i / D]) * scale[i % D]));
        ls_rms_norm_forward(y, rstd, x, scale, rows, D, eps);
        for (size_t r = 0; r < rows; r++) {
            const ls_real *row = x + r * D;
            for (size_t c = 0; c < D; c++) square[c] = row[c] * row[c];
            const ls_real s = ls_rsqrt(reference_row_sum(square, D) / (ls_real)D + (ls_real)eps);
            ck_assert(same_value(rstd[r], s));
            for (size_t c = 0; c < D; c++)
                ck_assert(same_value(y[r * D + c], (row[c] * s) * scale[c]));
        }
    }
}
END_TEST

START_TEST(backward_in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(widths); k++) {
        const size_t rows = 2, D = widths[k];
        ls_real *x = noise(rows * D, 8), *dy = noise(rows * D, 9), *scale = noise(D, 10);
        ls_real *mean = noise(rows, 11), *rstd = noise(rows, 12);
        ls_real *dx = fresh(rows * D), *g = fresh(D), *product = fresh(D);
        ls_layer_norm_backward(dx, dy, x, scale, mean, rstd, rows, D);
        for (size_t r = 0; r < rows; r++) {
            const ls_real *v = x + r * D, m = mean[r], s = rstd[r];
            for (size_t c = 0; c < D; c++) {
                g[c] = dy[r * D + c] * scale[c];
                product[c] = g[c] * ((v[c] - m) * s);
            }
            const ls_real a = reference_row_sum(g, D) / (ls_real)D;
            const ls_real b = reference_row_sum(product, D) / (ls_real)D;
            for (size_t c = 0; c < D; c++) {
                const ls_real right = s * ((g[c] - a) - ((v[c] - m) * s) * b);
                ck_assert(same_value(dx[r * D + c], right));
            }
        }
        ls_rms_norm_backward(dx, dy, x, scale, rstd, rows, D);
        for (size_t r = 0; r < rows; r++) {
            const ls_real *v = x + r * D, s = rstd[r];
            for (size_t c = 0; c < D; c++) {
                g[c] = dy[r * D + c] * scale[c];
                product[c] = g[c] * (v[c] * s);
            }
            const ls_real b = reference_row_sum(product, D) / (ls_real)D;
            for (size_t c = 0; c < D; c++)
                ck_assert(same_value(dx[r * D + c], s * (g[c] - (v[c] * s) * b)));
        }
    }
}
END_TEST

START_TEST(parameter_gradients_in_the_stated_order)
{
    static const size_t granule_sizes[] = {1, 2, 3, 7, 16, 24};
    for (size_t k = 0; k < COUNT(granule_sizes); k++)
        for (size_t granules = 1; granules <= 12; granules += 1 + granules / 6) {
            const size_t D = 300, granule = granule_sizes[k], rows = granules * granule;
            ls_real *x = noise(rows * D, 13), *dy = noise(rows * D, 14);
            ls_real *mean = noise(rows, 15), *rstd = noise(rows, 16);
            ls_real *dscale = fresh(D), *dshift = fresh(D), *dscale_rms = fresh(D);
            ls_real *a = fresh(rows), *b = fresh(rows), *e = fresh(rows);
            const ls_axis tokens = ls_axis_of(granules, granule);
            ls_layer_norm_backward_parameters(dscale, dshift, dy, x, mean, rstd, tokens, D);
            ls_rms_norm_backward_parameters(dscale_rms, dy, x, rstd, tokens, D);
            for (size_t c = 0; c < D; c += 13) {
                for (size_t r = 0; r < rows; r++) {
                    const ls_real d = dy[r * D + c], v = x[r * D + c];
                    a[r] = d * ((v - mean[r]) * rstd[r]);
                    b[r] = d;
                    e[r] = d * (v * rstd[r]);
                }
                ck_assert(same_value(dscale[c], reference_token_sum(a, granules, granule)));
                ck_assert(same_value(dshift[c], reference_token_sum(b, granules, granule)));
                ck_assert(same_value(dscale_rms[c], reference_token_sum(e, granules, granule)));
            }
            ls_real *no_shift = fresh(D);
            ls_layer_norm_backward_parameters(no_shift, NULL, dy, x, mean, rstd, tokens, D);
            ck_assert(same(no_shift, dscale, D));
            /* ORDERED: whoever owns sequences lo .. hi posts T over each; T over them is the whole
             */
            ls_real *parts = fresh(granules * D), *spare = fresh(D), *whole = fresh(D);
            for (size_t g = 0; g < granules; g++)
                ls_layer_norm_backward_parameters(parts + g * D, spare, dy + g * granule * D,
                                                  x + g * granule * D, mean + g * granule,
                                                  rstd + g * granule, ls_axis_of(1, granule), D);
            ls_tree_sum_rows(whole, parts, ls_axis_whole(granules), D, D);
            ck_assert(same(whole, dscale, D));
        }
}
END_TEST

/* ORDERED: a run of rows gives the slice of the whole, whatever the number of rows. In place too.
 */
START_TEST(rows_do_not_know_each_other)
{
    const size_t rows = 9, D = 37;
    ls_real *x = noise(rows * D, 17), *dy = noise(rows * D, 18);
    ls_real *scale = noise(D, 19), *shift = noise(D, 20);
    ls_real *y = fresh(rows * D), *mean = fresh(rows), *rstd = fresh(rows), *dx = fresh(rows * D);
    ls_real *y_rms = fresh(rows * D), *rstd_rms = fresh(rows), *dx_rms = fresh(rows * D);
    ls_layer_norm_forward(y, mean, rstd, x, scale, shift, rows, D, eps);
    ls_layer_norm_backward(dx, dy, x, scale, mean, rstd, rows, D);
    ls_rms_norm_forward(y_rms, rstd_rms, x, scale, rows, D, eps);
    ls_rms_norm_backward(dx_rms, dy, x, scale, rstd_rms, rows, D);
    for (size_t lo = 0; lo <= rows; lo++)
        for (size_t hi = lo; hi <= rows; hi++) {
            const size_t n = (hi - lo) * D, at = lo * D;
            ls_real *s = copy_of(x + at, n), *m = fresh(hi - lo), *r = fresh(hi - lo);
            ls_layer_norm_forward(s, m, r, s, scale, shift, hi - lo, D, eps); /* y is x */
            ck_assert(same(s, y + at, n) && same(m, mean + lo, hi - lo));
            ck_assert(same(r, rstd + lo, hi - lo));
            ls_real *d = copy_of(dy + at, n);
            ls_layer_norm_backward(d, d, x + at, scale, m, r, hi - lo, D); /* dx is dy */
            ck_assert(same(d, dx + at, n));

            s = copy_of(x + at, n);
            ls_rms_norm_forward(s, r, s, scale, hi - lo, D, eps);
            ck_assert(same(s, y_rms + at, n) && same(r, rstd_rms + lo, hi - lo));
            d = copy_of(dy + at, n);
            ls_rms_norm_backward(d, d, x + at, scale, r, hi - lo, D);
            ck_assert(same(d, dx_rms + at, n));
        }
}
END_TEST

/* TRUTH. The error of x - mean is that of mean, about epsilon times the largest |x|; a one-pass
 * variance would lose epsilon times its square, which at offset 1000 is beyond the bound. */
START_TEST(distance_to_truth)
{
    static const double offsets[] = {0, 1000};
    for (size_t k = 1; k < COUNT(widths); k++)
        for (size_t o = 0; o < COUNT(offsets); o++) {
            const size_t D = widths[k];
            ls_real *x = noise(D, 21), *scale = noise(D, 22), *shift = noise(D, 23);
            ls_real *dy = noise(D, 24), *y = fresh(D), *dx = fresh(D), *m = fresh(1), *r = fresh(1);
            for (size_t c = 0; c < D; c++) x[c] += (ls_real)offsets[o];
            long double mean = 0, variance = 0, a = 0, b = 0, truth[600], back[600];
            for (size_t c = 0; c < D; c++) mean += (long double)x[c];
            mean /= (long double)D;
            for (size_t c = 0; c < D; c++)
                variance += ((long double)x[c] - mean) * ((long double)x[c] - mean);
            variance /= (long double)D;
            const long double rstd = 1 / sqrtl(variance + (long double)eps);
            for (size_t c = 0; c < D; c++) {
                const long double xhat = ((long double)x[c] - mean) * rstd;
                truth[c] = xhat * (long double)scale[c] + (long double)shift[c];
                a += (long double)dy[c] * (long double)scale[c];
                b += (long double)dy[c] * (long double)scale[c] * xhat;
            }
            for (size_t c = 0; c < D; c++)
                back[c] = rstd * ((long double)dy[c] * (long double)scale[c] - a / (long double)D -
                                  ((long double)x[c] - mean) * rstd * b / (long double)D);
            const double spread = (double)rstd * (4 + offsets[o]);
            ls_layer_norm_forward(y, m, r, x, scale, shift, 1, D, eps);
            ck_assert(within(y, truth, D, 16 * EPSILON * (4 + 4 * spread)));
            ls_layer_norm_backward(dx, dy, x, scale, m, r, 1, D);
            ck_assert(within(dx, back, D, 64 * EPSILON * (double)rstd * (4 + 4 * spread)));

            long double square = 0;
            b = 0;
            for (size_t c = 0; c < D; c++) square += (long double)x[c] * (long double)x[c];
            const long double rms = 1 / sqrtl(square / (long double)D + (long double)eps);
            for (size_t c = 0; c < D; c++) {
                truth[c] = (long double)x[c] * rms * (long double)scale[c];
                b += (long double)dy[c] * truth[c];
            }
            for (size_t c = 0; c < D; c++)
                back[c] = rms * ((long double)dy[c] * (long double)scale[c] -
                                 (long double)x[c] * rms * b / (long double)D);
            ls_rms_norm_forward(y, r, x, scale, 1, D, eps);
            ck_assert(within(y, truth, D, 16 * EPSILON * 8));
            ls_rms_norm_backward(dx, dy, x, scale, r, 1, D);
            ck_assert(within(dx, back, D, 64 * EPSILON * 8 * (double)rms));
        }
}
END_TEST

/* A row without variance: y is the shift and no gradient reaches x beyond what eps lets through. */
START_TEST(constant_rows)
{
    const size_t D = 16;
    ls_real *x = fresh(D), *y = fresh(D), *m = fresh(1), *r = fresh(1), *dx = fresh(D);
    ls_real *scale = noise(D, 25), *shift = noise(D, 26), *dy = fresh(D);
    for (size_t c = 0; c < D; c++) x[c] = 7, dy[c] = 1 / scale[c];
    ls_layer_norm_forward(y, m, r, x, scale, shift, 1, D, eps);
    for (size_t c = 0; c < D; c++) ck_assert(y[c] == shift[c]);
    ls_layer_norm_backward(dx, dy, x, scale, m, r, 1, D);
    for (size_t c = 0; c < D; c++) ck_assert(near(dx[c], 0, 400 * EPSILON * 4));
    for (size_t c = 0; c < D; c++) x[c] = 0;
    ls_rms_norm_forward(y, r, x, scale, 1, D, eps);
    for (size_t c = 0; c < D; c++) ck_assert(y[c] == 0);
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct norm_case {
    size_t rows, D;
    double *x, *scale, *shift, *dy, *y, *mean, *rstd;
} norm_case;

static double layer_norm_objective(void *context)
{
    norm_case *n = context;
    ls_layer_norm_forward(n->y, n->mean, n->rstd, n->x, n->scale, n->shift, n->rows, n->D, eps);
    return weighted_sum(n->dy, n->y, n->rows * n->D);
}

static double rms_norm_objective(void *context)
{
    norm_case *n = context;
    ls_rms_norm_forward(n->y, n->rstd, n->x, n->scale, n->rows, n->D, eps);
    return weighted_sum(n->dy, n->y, n->rows * n->D);
}

START_TEST(gradients)
{
    static const size_t few[] = {2, 3, 5, 7, 16, 17, 33};
    for (size_t k = 0; k < COUNT(few); k++) {
        const size_t granules = 2, granule = 3, rows = granules * granule, D = few[k];
        const size_t size = rows * D;
        norm_case n = {
            rows,        D,           noise(size, 27), noise(D, 28), noise(D, 29), noise(size, 30),
            fresh(size), fresh(rows), fresh(rows)};
        double *dx = fresh(size), *dscale = fresh(D), *dshift = fresh(D);
        const ls_axis tokens = ls_axis_of(granules, granule);
        layer_norm_objective(&n);
        ls_layer_norm_backward(dx, n.dy, n.x, n.scale, n.mean, n.rstd, rows, D);
        ls_layer_norm_backward_parameters(dscale, dshift, n.dy, n.x, n.mean, n.rstd, tokens, D);
        if (D > 2) /* at width 2 xhat is +-1 whatever x, and the third derivative is large */
            check_gradient(layer_norm_objective, &n, n.x, dx, size, "dx");
        check_gradient(layer_norm_objective, &n, n.scale, dscale, D, "dscale");
        check_gradient(layer_norm_objective, &n, n.shift, dshift, D, "dshift");
        rms_norm_objective(&n);
        ls_rms_norm_backward(dx, n.dy, n.x, n.scale, n.rstd, rows, D);
        ls_rms_norm_backward_parameters(dscale, n.dy, n.x, n.rstd, tokens, D);
        check_gradient(rms_norm_objective, &n, n.x, dx, size, "dx of RMSNorm");
        check_gradient(rms_norm_objective, &n, n.scale, dscale, D, "dscale of RMSNorm");
    }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {layer_norm_of_integers,
                                  rms_norm_of_integers,
                                  parameter_gradients_of_integers,
                                  forward_in_the_stated_order,
                                  backward_in_the_stated_order,
                                  parameter_gradients_in_the_stated_order,
                                  rows_do_not_know_each_other,
                                  distance_to_truth,
                                  constant_rows,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("norm", tests, COUNT(tests));
}
