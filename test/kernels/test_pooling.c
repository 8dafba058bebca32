/* test_pooling.c - maximum, average and global pooling on rectangles; sums over pixels. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/pixel_sum.h"
#include "lockstep/kernels/pooling.h"
#include "run_tests.h"

static const ls_window windows[] = {
    {6, 8, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0}, {7, 9, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0},
    {5, 6, 3, 2, 1, 1, 1, 1, 1, 0, 0, 1}, {8, 7, 2, 3, 1, 2, 2, 2, 1, 1, 1, 1},
    {9, 5, 2, 1, 3, 2, 1, 1, 0, 0, 0, 0}, {4, 3, 4, 3, 1, 1, 1, 1, 0, 0, 0, 0},
};
enum { IMAGES = 2, CHANNELS = 3, PLANES = IMAGES * CHANNELS };

static ls_image_layout layout_of(ls_rectangle held)
{
    return (ls_image_layout){held, CHANNELS * ls_rectangle_count(held)};
}

static int32_t *fresh_places(size_t n)
{
    int32_t *p = (int32_t *)fresh(n); /* at least as large as needed */
    memset(p, -1, n * sizeof *p);
    return p;
}

/* From the words: the window's pixels of the image, in order, with their places. */
static size_t window_pixels(const ls_window *w, size_t row, size_t column, long *places)
{
    size_t n = 0;
    for (long i = 0; i < (long)w->kernel_h; i++)
        for (long j = 0; j < (long)w->kernel_w; j++) {
            const long r = (long)(row * w->stride_h) - (long)w->pad_top + i * (long)w->dilation_h;
            const long c =
                (long)(column * w->stride_w) - (long)w->pad_left + j * (long)w->dilation_w;
            if (r >= 0 && r < (long)w->in_h && c >= 0 && c < (long)w->in_w)
                places[n++] = r * (long)w->in_w + c;
        }
    return n;
}

/* EXACT: forward and backward element by element from the words; ties are frequent. */
START_TEST(in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(windows); k++)
        for (int count_padding = 0; count_padding < 2; count_padding++) {
            const ls_window *w = &windows[k];
            ck_assert(ls_window_check_pool("pool", w) == LS_OK);
            const ls_rectangle in = ls_window_inputs(w), out = ls_window_outputs(w);
            const size_t area = ls_rectangle_count(in), n_out = ls_rectangle_count(out);
            ls_real *x = integers(PLANES * area, k, 2), *dy = noise(PLANES * n_out, k + 9);
            ls_real *xa = noise(PLANES * area, k + 20);
            ls_real *y = fresh(PLANES * n_out), *ya = fresh(PLANES * n_out);
            ls_real *dx = fresh(PLANES * area), *dxa = fresh(PLANES * area);
            int32_t *place = fresh_places(PLANES * n_out);
            for (int twice = 0; twice < 2; twice++) {
                ls_max_pool_forward(w, IMAGES, CHANNELS, y, place, layout_of(out), out, x,
                                    layout_of(in));
                ls_max_pool_backward(w, IMAGES, CHANNELS, dx, layout_of(in), in, dy, place,
                                     layout_of(out));
                ls_average_pool_forward(w, count_padding, IMAGES, CHANNELS, ya, layout_of(out), out,
                                        xa, layout_of(in));
                ls_average_pool_backward(w, count_padding, IMAGES, CHANNELS, dxa, layout_of(in), in,
                                         dy, layout_of(out));
            }
            ls_real *right = fresh(area), *right_a = fresh(area);
            for (size_t p = 0; p < PLANES; p++) {
                unsigned char any[128] = {0}, any_a[128] = {0};
                for (size_t q = 0; q < area; q++) right[q] = right_a[q] = POS_ZERO;
                for (size_t o = 0; o < n_out; o++) {
                    long places[64];
                    const size_t n = window_pixels(w, o / out.width, o % out.width, places);
                    size_t best = 0;
                    const ls_real *v = x + p * area, *va = xa + p * area;
                    ls_real sum = va[places[0]];
                    for (size_t i = 1; i < n; i++) {
                        if (v[places[i]] > v[places[best]]) best = i;
                        sum = sum + va[places[i]];
                    }
                    const ls_real count = (ls_real)(count_padding ? w->kernel_h * w->kernel_w : n);
                    ck_assert(y[p * n_out + o] == v[places[best]]);
                    ck_assert(place[p * n_out + o] == places[best]);
                    ck_assert(same_value(ya[p * n_out + o], sum / count));
                    const ls_real d = dy[p * n_out + o];
                    const long b = places[best];
                    right[b] = any[b] ? right[b] + d : d;
                    any[b] = 1;
                    for (size_t i = 0; i < n; i++) {
                        const long q = places[i];
                        right_a[q] = any_a[q] ? right_a[q] + d / count : d / count;
                        any_a[q] = 1;
                    }
                }
                ck_assert(same(dx + p * area, right, area));
                ck_assert(same(dxa + p * area, right_a, area));
            }
        }
}
END_TEST

static ls_real *part_of(const ls_real *from, ls_rectangle held, ls_rectangle part)
{
    ls_real *to = fresh(PLANES * ls_rectangle_count(part));
    size_t at = 0;
    for (size_t p = 0; p < PLANES; p++)
        for (size_t r = 0; r < part.height; r++)
            for (size_t c = 0; c < part.width; c++)
                to[at++] = from[(p * held.height + part.top + r) * held.width + part.left + c];
    return to;
}

static int32_t *part_of_places(const int32_t *from, ls_rectangle held, ls_rectangle part)
{
    int32_t *to = fresh_places(PLANES * ls_rectangle_count(part));
    size_t at = 0;
    for (size_t p = 0; p < PLANES; p++)
        for (size_t r = 0; r < part.height; r++)
            for (size_t c = 0; c < part.width; c++)
                to[at++] = from[(p * held.height + part.top + r) * held.width + part.left + c];
    return to;
}

/* ORDERED: every rectangle, from exactly what it reads, has the bits of the whole. */
START_TEST(rectangles_are_slices)
{
    for (size_t k = 0; k < COUNT(windows); k++) {
        const ls_window *w = &windows[k];
        const ls_rectangle in = ls_window_inputs(w), out = ls_window_outputs(w);
        const size_t area = ls_rectangle_count(in), n_out = ls_rectangle_count(out);
        ls_real *x = noise(PLANES * area, k + 30), *dy = noise(PLANES * n_out, k + 40);
        ls_real *y = fresh(PLANES * n_out), *ya = fresh(PLANES * n_out);
        ls_real *dx = fresh(PLANES * area), *dxa = fresh(PLANES * area);
        int32_t *place = fresh_places(PLANES * n_out);
        ls_max_pool_forward(w, IMAGES, CHANNELS, y, place, layout_of(out), out, x, layout_of(in));
        ls_max_pool_backward(w, IMAGES, CHANNELS, dx, layout_of(in), in, dy, place, layout_of(out));
        ls_average_pool_forward(w, false, IMAGES, CHANNELS, ya, layout_of(out), out, x,
                                layout_of(in));
        ls_average_pool_backward(w, false, IMAGES, CHANNELS, dxa, layout_of(in), in, dy,
                                 layout_of(out));
        for (ls_rectangle r = {0, 0, 1, 1}; r.top < in.height; r.top++)
            for (r.left = 0; r.left < in.width; r.left++)
                for (r.height = 1; r.height <= in.height - r.top; r.height += 2)
                    for (r.width = 1; r.width <= in.width - r.left; r.width += 2) {
                        const size_t own = PLANES * ls_rectangle_count(r);
                        if (ls_rectangle_inside(r, out)) {
                            const ls_rectangle halo = ls_window_reads(w, r);
                            const ls_real *part = part_of(x, in, halo);
                            ls_real *got = fresh(own), *got_a = fresh(own);
                            int32_t *got_place = fresh_places(own);
                            ls_max_pool_forward(w, IMAGES, CHANNELS, got, got_place, layout_of(r),
                                                r, part, layout_of(halo));
                            ls_average_pool_forward(w, false, IMAGES, CHANNELS, got_a, layout_of(r),
                                                    r, part, layout_of(halo));
                            ck_assert(same(got, part_of(y, out, r), own));
                            ck_assert(same(got_a, part_of(ya, out, r), own));
                            ck_assert(memcmp(got_place, part_of_places(place, out, r),
                                             own * sizeof *place) == 0);
                        }
                        const ls_rectangle halo = ls_window_read_by(w, r);
                        const ls_real *part = part_of(dy, out, halo);
                        ls_real *got = fresh(own), *got_a = fresh(own);
                        ls_max_pool_backward(w, IMAGES, CHANNELS, got, layout_of(r), r, part,
                                             part_of_places(place, out, halo), layout_of(halo));
                        ls_average_pool_backward(w, false, IMAGES, CHANNELS, got_a, layout_of(r), r,
                                                 part, layout_of(halo));
                        ck_assert(same(got, part_of(dx, in, r), own));
                        ck_assert(same(got_a, part_of(dxa, in, r), own));
                    }
    }
}
END_TEST

/* Rule 3: NaN wins, -0 is below +0, -infinity is a number, the first of equals is the place. */
START_TEST(maxima_of_special_values)
{
    const ls_window w = {1, 4, 1, 4, 1, 1, 1, 1, 0, 0, 0, 0};
    const ls_rectangle in = {0, 0, 1, 4}, out = {0, 0, 1, 1};
    const ls_real n = (ls_real)NAN;
    const ls_real rows[][4] = {{1, n, INF, n},
                               {NEG_ZERO, POS_ZERO, NEG_ZERO, POS_ZERO},
                               {-INF, -INF, -INF, -INF},
                               {2, 7, 7, 1},
                               {n, 1, 2, n}};
    const int32_t right[] = {1, 1, 0, 1, 0};
    for (size_t k = 0; k < COUNT(rows); k++) {
        ls_real y = 0;
        int32_t place = -1;
        ls_max_pool_forward(&w, 1, 1, &y, &place, (ls_image_layout){out, 1}, out, rows[k],
                            (ls_image_layout){in, 4});
        ck_assert(place == right[k]);
        ck_assert(y != y ? rows[k][place] != rows[k][place] : same_value(y, rows[k][place]));
    }
}
END_TEST

/* T over the pixels row by row; any number of them; an empty rectangle is -0. */
START_TEST(sums_over_pixels)
{
    const ls_rectangle held = {2, 3, 21, 40};
    const size_t area = ls_rectangle_count(held);
    const ls_real *x = noise(3 * area, 50);
    const ls_rectangle parts[] = {held,           {2, 3, 1, 1},    {22, 42, 1, 1}, {5, 4, 7, 9},
                                  {3, 3, 16, 16}, {2, 10, 19, 27}, {2, 3, 3, 40}};
    for (size_t k = 0; k < COUNT(parts); k++) {
        const ls_rectangle r = parts[k];
        ls_real *sum = fresh(3), *term = fresh(ls_rectangle_count(r));
        ls_pixel_sum(sum, x, (ls_image_layout){held, 0}, r, 3);
        for (size_t ch = 0; ch < 3; ch++) {
            size_t n = 0;
            for (size_t i = r.top; i < r.top + r.height; i++)
                for (size_t j = r.left; j < r.left + r.width; j++)
                    term[n++] = x[ch * area + (i - 2) * 40 + (j - 3)];
            ck_assert(same_value(sum[ch], reference_tree(term, n)));
        }
    }
    ls_real *sum = fresh(2);
    ls_pixel_sum(sum, x, (ls_image_layout){held, 0}, (ls_rectangle){0, 0, 0, 0}, 2);
    ck_assert(same_value(sum[0], NEG_ZERO) && same_value(sum[1], NEG_ZERO));
}
END_TEST

START_TEST(global_pool_spreads)
{
    const ls_rectangle held = {0, 0, 4, 3}, r = {1, 0, 3, 2};
    ls_real *dx = fresh(PLANES * 12), *dy = noise(PLANES, 60);
    ls_global_pool_backward(dx, layout_of(held), r, IMAGES, CHANNELS, dy, 12);
    for (size_t i = 0; i < PLANES * 12; i++) {
        const size_t row = i % 12 / 3, column = i % 3;
        if (row >= 1 && column < 2)
            ck_assert(same_value(dx[i], dy[i / 12] / 12));
        else
            ck_assert(isnan(dx[i]));
    }
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct pool_case {
    ls_window w;
    bool maximum;
    double *x, *y, *dy;
    int32_t *place;
} pool_case;

static double pool_objective(void *context)
{
    pool_case *p = context;
    const ls_rectangle in = ls_window_inputs(&p->w), out = ls_window_outputs(&p->w);
    if (p->maximum)
        ls_max_pool_forward(&p->w, IMAGES, CHANNELS, p->y, p->place, layout_of(out), out, p->x,
                            layout_of(in));
    else
        ls_average_pool_forward(&p->w, true, IMAGES, CHANNELS, p->y, layout_of(out), out, p->x,
                                layout_of(in));
    return weighted_sum(p->dy, p->y, PLANES * ls_rectangle_count(out));
}

START_TEST(gradients)
{
    for (size_t k = 0; k < COUNT(windows); k++)
        for (int maximum = 0; maximum < 2; maximum++) {
            const ls_rectangle in = ls_window_inputs(&windows[k]);
            const ls_rectangle out = ls_window_outputs(&windows[k]);
            const size_t n_in = PLANES * ls_rectangle_count(in);
            const size_t n_out = PLANES * ls_rectangle_count(out);
            pool_case p = {windows[k],   maximum != 0,         noise(n_in, k + 70),
                           fresh(n_out), noise(n_out, k + 80), fresh_places(n_out)};
            double *dx = fresh(n_in);
            pool_objective(&p);
            if (maximum)
                ls_max_pool_backward(&p.w, IMAGES, CHANNELS, dx, layout_of(in), in, p.dy, p.place,
                                     layout_of(out));
            else
                ls_average_pool_backward(&p.w, true, IMAGES, CHANNELS, dx, layout_of(in), in, p.dy,
                                         layout_of(out));
            check_gradient(pool_objective, &p, p.x, dx, n_in, "dx");
        }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {in_the_stated_order,
                                  rectangles_are_slices,
                                  maxima_of_special_values,
                                  sums_over_pixels,
                                  global_pool_spreads,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("pooling", tests, COUNT(tests));
}
