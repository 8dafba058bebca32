/* test_batch_norm.c - batch normalisation in pieces. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/batch_norm.h"
#include "lockstep/kernels/pixel_sum.h"
#include "lockstep/numerics/functions.h"
#include "run_tests.h"

static const double eps = 1e-5;

static ls_image_layout whole(size_t channels, size_t h, size_t w)
{
    return (ls_image_layout){{0, 0, h, w}, channels * h * w};
}

/* One row of values in a channel by itself. */
typedef struct row_statistics {
    ls_real mean, squares;
} row_statistics;

/* The statistics of rows held by different ranks: each a leaf, T over them. */
static row_statistics of_rows(const ls_real *const *rows, const size_t *n, size_t ranks)
{
    ls_real part[8];
    size_t count = 0;
    row_statistics s;
    for (size_t r = 0; r < ranks; count += n[r++])
        ls_pixel_sum(&part[r], rows[r], whole(1, 1, n[r]), (ls_rectangle){0, 0, 1, n[r]}, 1);
    s.mean = reference_tree(part, ranks);
    ls_batch_norm_mean(&s.mean, &s.mean, count, 1);
    for (size_t r = 0; r < ranks; r++)
        ls_batch_norm_squares(&part[r], rows[r], whole(1, 1, n[r]), (ls_rectangle){0, 0, 1, n[r]},
                              &s.mean, 1);
    s.squares = reference_tree(part, ranks);
    return s;
}

/* Unequal counts: {0, 2} and {4, 4, 4, 4} have the mean 3, not the mean of the means 2.5. */
START_TEST(unequal_counts)
{
    const ls_real a[] = {0, 2}, b[] = {4, 4, 4, 4};
    const ls_real *const rows[] = {a, b};
    const size_t n[] = {2, 4};
    const row_statistics s = of_rows(rows, n, 2);
    ck_assert(s.mean == 3 && s.squares == 14);
    ck_assert(near(s.squares / 6, 7.0 / 3, 3e-7));
}
END_TEST

/* Two passes: 10000 .. 10003 have the variance 1.25 in binary32; E[x^2] - E[x]^2 gives 0. */
START_TEST(no_cancellation)
{
    const ls_real x[] = {10000, 10001, 10002, 10003};
    const ls_real *const rows[] = {x};
    const size_t n[] = {4};
    const row_statistics s = of_rows(rows, n, 1);
    ck_assert(s.mean == (ls_real)10001.5 && s.squares / 4 == (ls_real)1.25);
}
END_TEST

/* One value per channel on each of two ranks is not an error: 1 and 5 have the mean 3, variance 4,
 * unbiased 8. One value alone is one. */
START_TEST(one_value_on_each_rank)
{
    const ls_real a[] = {1}, b[] = {5};
    const ls_real *const rows[] = {a, b};
    const size_t n[] = {1, 1};
    const row_statistics s = of_rows(rows, n, 2);
    ls_real running_mean = 0, running_variance = 0;
    ck_assert(ls_batch_norm_check("bn1", 2) == LS_OK);
    ck_assert(s.mean == 3 && s.squares / 2 == 4);
    ls_batch_norm_running(&running_mean, &running_variance, &s.mean, &s.squares, 2, 1.0, 1);
    ck_assert(running_mean == 3 && running_variance == 8);
    ck_assert(ls_batch_norm_check("bn1", 1) == LS_ERR_INPUT);
    ck_assert(strstr(ls_error_text(), "bn1: 1 values for each channel") != NULL);
    ls_error_clear();
}
END_TEST

/* Statistics of the batch, not of a micro-batch: {1, 3, 5, 11} in any micro-batches bring running
 * (0, 1) with momentum 0.1 to (0.5, 2.7666...); a chain over two micro-batches would give 0.98. */
START_TEST(running_statistics)
{
    const ls_real x[] = {1, 3, 5, 11};
    for (size_t parts = 1; parts <= 4; parts *= 2) {
        const ls_real *rows[4];
        size_t n[4];
        ls_real running_mean = 0, running_variance = 1;
        for (size_t p = 0; p < parts; p++) rows[p] = x + p * (4 / parts), n[p] = 4 / parts;
        const row_statistics s = of_rows(rows, n, parts);
        ls_batch_norm_running(&running_mean, &running_variance, &s.mean, &s.squares, 4, 0.1, 1);
        ck_assert(near(running_mean, 0.5, 1e-6));
        ck_assert(near(running_variance, 2.766666666666667, 1e-6));
    }
}
END_TEST

/* Every operation in the order of the header. */
START_TEST(in_the_stated_order)
{
    const size_t images = 2, C = 3, h = 5, w = 7, area = h * w, size = images * C * area;
    const ls_image_layout l = whole(C, h, w);
    const ls_real *x = noise(size, 1), *dy = noise(size, 2), *mean = noise(C, 3);
    const ls_real *rstd = noise(C, 4), *scale = noise(C, 5), *shift = noise(C, 6);
    const ls_real *dscale = noise(C, 7), *dshift = noise(C, 8);
    ls_real *y = fresh(size), *dx = fresh(size), *leaf = fresh(C), *squares = fresh(C);
    const ls_rectangle r = {1, 2, 3, 4};
    const size_t count = 70;
    for (int twice = 0; twice < 2; twice++) {
        ls_batch_norm_forward(y, l, x, l, r, images, C, mean, rstd, scale, shift);
        ls_batch_norm_backward(dx, l, dy, l, x, l, r, images, C, mean, rstd, scale, dscale, dshift,
                               count);
    }
    for (size_t i = 0; i < size; i++) {
        const size_t c = i / area % C, row = i % area / w, column = i % w;
        if (row < 1 || row >= 4 || column < 2 || column >= 6) {
            ck_assert(isnan(y[i]) && isnan(dx[i]));
            continue;
        }
        const ls_real xhat = (x[i] - mean[c]) * rstd[c];
        ck_assert(same_value(y[i], xhat * scale[c] + shift[c]));
        const ls_real a = dshift[c] / (ls_real)count, b = dscale[c] / (ls_real)count;
        ck_assert(same_value(dx[i], (scale[c] * rstd[c]) * ((dy[i] - a) - xhat * b)));
    }
    ls_batch_norm_scale_leaf(leaf, dy + l.stride, l, x + l.stride, l, r, mean, rstd, C);
    ls_batch_norm_squares(squares, x + l.stride, l, r, mean, C);
    for (size_t c = 0; c < C; c++) {
        ls_real term[12], square[12];
        for (size_t k = 0; k < 12; k++) {
            const size_t i = l.stride + c * area + (1 + k / 4) * w + 2 + k % 4;
            term[k] = dy[i] * ((x[i] - mean[c]) * rstd[c]);
            square[k] = (x[i] - mean[c]) * (x[i] - mean[c]);
        }
        ck_assert(same_value(leaf[c], reference_tree(term, 12)));
        ck_assert(same_value(squares[c], reference_tree(square, 12)));
    }
    ls_batch_norm_rstd(leaf, squares, count, eps, C);
    for (size_t c = 0; c < C; c++)
        ck_assert(same_value(leaf[c], ls_rsqrt(squares[c] / (ls_real)count + (ls_real)eps)));
    /* in place */
    ls_real *own = copy_of(x, size), *back = copy_of(dy, size);
    ls_batch_norm_forward(own, l, own, l, r, images, C, mean, rstd, scale, shift);
    ls_batch_norm_backward(back, l, back, l, x, l, r, images, C, mean, rstd, scale, dscale, dshift,
                           count);
    for (size_t i = 0; i < size; i++) {
        ck_assert(same_value(own[i], isnan(y[i]) ? x[i] : y[i]));
        ck_assert(same_value(back[i], isnan(dx[i]) ? dy[i] : dx[i]));
    }
}
END_TEST

/* The three sums over a rectangle of r.height x r.width inside larger images. */
static void check_sums(ls_rectangle r)
{
    enum { C = 3, MOST = 700 };
    static ls_real x_term[MOST], dy_term[MOST], square[MOST], scaled[MOST];
    const size_t h = r.top + r.height + 1, w = r.left + r.width + 2, n = r.height * r.width;
    const ls_image_layout x_layout = whole(C, h, w);
    /* dy covers more */
    const ls_image_layout dy_layout = {{0, 0, h + 1, w + 1}, C * (h + 1) * (w + 1)};
    const ls_real *x = noise(x_layout.stride, 1), *dy = noise(dy_layout.stride, 2);
    const ls_real *mean = noise(C, 3), *rstd = noise(C, 4);
    ls_real *sum = fresh(C), *squares = fresh(C), *scale = fresh(C);
    ls_pixel_sum(sum, x, x_layout, r, C);
    ls_batch_norm_squares(squares, x, x_layout, r, mean, C);
    ls_batch_norm_scale_leaf(scale, dy, dy_layout, x, x_layout, r, mean, rstd, C);
    for (size_t c = 0; c < C; c++) {
        for (size_t k = 0; k < n; k++) {
            const size_t row = r.top + k / r.width, column = r.left + k % r.width;
            x_term[k] = x[(c * h + row) * w + column];
            dy_term[k] = dy[(c * (h + 1) + row) * (w + 1) + column];
            square[k] = (x_term[k] - mean[c]) * (x_term[k] - mean[c]);
            scaled[k] = dy_term[k] * ((x_term[k] - mean[c]) * rstd[c]);
        }
        const ls_real nothing = NEG_ZERO;
        ck_assert_msg(same_value(sum[c], n ? reference_tree(x_term, n) : nothing) &&
                          same_value(squares[c], n ? reference_tree(square, n) : nothing) &&
                          same_value(scale[c], n ? reference_tree(scaled, n) : nothing),
                      "sums over %zu x %zu pixels, channel %zu", r.height, r.width, c);
    }
    arrays_end();
}

START_TEST(rectangles_of_every_size)
{
    for (size_t h = 0; h <= 9; h++)
        for (size_t w = 0; w <= 9; w++) check_sums((ls_rectangle){h % 3, w % 2, h, w});
    check_sums((ls_rectangle){1, 2, 16, 16});
    check_sums((ls_rectangle){0, 3, 20, 33});
    check_sums((ls_rectangle){2, 0, 32, 16});
    check_sums((ls_rectangle){0, 0, 1, 257});
    check_sums((ls_rectangle){0, 1, 513, 1});
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct norm_case {
    size_t images, C, h, w;
    double *x, *scale, *shift, *dy, *y, *mean, *squares, *rstd;
} norm_case;

/* Sums over images and pixels, in the simplest order. */
static double norm_objective(void *context)
{
    norm_case *n = context;
    const ls_image_layout l = whole(n->C, n->h, n->w);
    const size_t count = n->images * n->h * n->w;
    double *leaf = n->rstd;
    for (size_t c = 0; c < n->C; c++) n->mean[c] = n->squares[c] = 0;
    for (size_t i = 0; i < n->images; i++) {
        ls_pixel_sum(leaf, n->x + i * l.stride, l, l.held, n->C);
        for (size_t c = 0; c < n->C; c++) n->mean[c] += leaf[c];
    }
    ls_batch_norm_mean(n->mean, n->mean, count, n->C);
    for (size_t i = 0; i < n->images; i++) {
        ls_batch_norm_squares(leaf, n->x + i * l.stride, l, l.held, n->mean, n->C);
        for (size_t c = 0; c < n->C; c++) n->squares[c] += leaf[c];
    }
    ls_batch_norm_rstd(n->rstd, n->squares, count, eps, n->C);
    ls_batch_norm_forward(n->y, l, n->x, l, l.held, n->images, n->C, n->mean, n->rstd, n->scale,
                          n->shift);
    return weighted_sum(n->dy, n->y, n->images * l.stride);
}

START_TEST(gradients)
{
    const size_t images = 3, C = 2, h = 3, w = 5, size = images * C * h * w;
    norm_case n = {images,
                   C,
                   h,
                   w,
                   noise(size, 10),
                   noise(C, 11),
                   noise(C, 12),
                   noise(size, 13),
                   fresh(size),
                   fresh(C),
                   fresh(C),
                   fresh(C)};
    const ls_image_layout l = whole(C, h, w);
    double *dx = fresh(size), *dscale = fresh(C), *dshift = fresh(C), *leaf = fresh(C);
    norm_objective(&n);
    for (size_t c = 0; c < C; c++) dscale[c] = dshift[c] = 0;
    for (size_t i = 0; i < images; i++) {
        ls_batch_norm_scale_leaf(leaf, n.dy + i * l.stride, l, n.x + i * l.stride, l, l.held,
                                 n.mean, n.rstd, C);
        for (size_t c = 0; c < C; c++) dscale[c] += leaf[c];
        ls_pixel_sum(leaf, n.dy + i * l.stride, l, l.held, C);
        for (size_t c = 0; c < C; c++) dshift[c] += leaf[c];
    }
    ls_batch_norm_backward(dx, l, n.dy, l, n.x, l, l.held, images, C, n.mean, n.rstd, n.scale,
                           dscale, dshift, images * h * w);
    check_gradient(norm_objective, &n, n.x, dx, size, "dx");
    check_gradient(norm_objective, &n, n.scale, dscale, C, "dscale");
    check_gradient(norm_objective, &n, n.shift, dshift, C, "dshift");
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {unequal_counts,     no_cancellation,     one_value_on_each_rank,
                                  running_statistics, in_the_stated_order, rectangles_of_every_size,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("batch_norm", tests, COUNT(tests));
}
