/* test_response_norm.c - local response normalisation across channels. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/response_norm.h"
#include "lockstep/numerics/functions.h"
#include "run_tests.h"

static const ls_response_norm norms[] = {{7, 5, 0.3, 0.75, 2.0},   {6, 4, 1e-1, 0.5, 1.0},
                                         {5, 1, 0.7, 1.5, 0.5},    {3, 9, 0.2, 0.75, 2.0},
                                         {20, 17, 0.1, 0.75, 1.5}, {23, 40, 0.1, 0.6, 1.5}};
enum { IMAGES = 2, PIXELS = 300 };

/* Window of channel ch, from the words: ch - n / 2 .. ch - n / 2 + n - 1, those that exist. */
static int in_window(const ls_response_norm *norm, size_t ch, size_t c)
{
    const long first = (long)ch - (long)(norm->n / 2);
    return (long)c >= first && (long)c < first + (long)norm->n;
}

START_TEST(in_the_stated_order)
{
    for (size_t k = 0; k < COUNT(norms); k++) {
        const ls_response_norm *norm = &norms[k];
        const size_t C = norm->channels, image = C * PIXELS, size = IMAGES * image;
        const ls_channels all = {0, C};
        const ls_real *x = noise(size, k), *dy = noise(size, k + 10);
        ls_real *y = fresh(size), *d = fresh(size), *dx = fresh(size);
        for (int twice = 0; twice < 2; twice++) {
            ls_response_norm_forward(norm, IMAGES, PIXELS, y, d, all, x, all);
            ls_response_norm_backward(norm, IMAGES, PIXELS, dx, all, dy, x, d, all);
        }
        for (size_t i = 0; i < size; i++) {
            const size_t ch = i % image / PIXELS, pixel = i / image * image + i % PIXELS;
            ls_real sum = NEG_ZERO, back = NEG_ZERO;
            for (size_t c = 0; c < C; c++) {
                const size_t j = pixel + c * PIXELS;
                if (in_window(norm, ch, c)) sum = sum + x[j] * x[j];
                if (in_window(norm, c, ch)) {
                    const ls_real f = (ls_real)ls_exp_f64(-norm->beta * ls_log_f64((double)d[j]));
                    back = back + ((dy[j] * x[j]) * f) / d[j];
                }
            }
            const ls_real f = (ls_real)ls_exp_f64(-norm->beta * ls_log_f64((double)d[i]));
            ck_assert(same_value(d[i], (ls_real)norm->k + (ls_real)norm->alpha * sum));
            ck_assert(same_value(y[i], x[i] * f));
            const ls_real factor = (ls_real)(2 * norm->alpha * norm->beta);
            ck_assert(same_value(dx[i], dy[i] * f - (factor * x[i]) * back));
            /* TRUTH */
            const double exact = (double)x[i] * pow((double)d[i], -norm->beta);
            const double exponent = norm->beta * log((double)d[i]);
            ck_assert(near(y[i], exact, (2 + 2 * fabs(exponent)) * EPSILON * fabs(exact)));
        }
    }
}
END_TEST

static ls_real *run_of(const ls_real *x, size_t C, ls_channels run)
{
    ls_real *part = fresh(IMAGES * run.count * PIXELS);
    for (size_t n = 0; n < IMAGES; n++)
        memcpy(part + n * run.count * PIXELS, x + (n * C + run.first) * PIXELS,
               run.count * PIXELS * sizeof *x);
    return part;
}

/* ORDERED: any run of channels, from exactly the channels that it reads. */
START_TEST(channels_are_slices)
{
    for (size_t k = 0; k < COUNT(norms); k++) {
        const ls_response_norm *norm = &norms[k];
        const size_t C = norm->channels, size = IMAGES * C * PIXELS;
        const ls_channels all = {0, C};
        const ls_real *x = noise(size, k + 20), *dy = noise(size, k + 30);
        ls_real *y = fresh(size), *d = fresh(size), *dx = fresh(size);
        ls_response_norm_forward(norm, IMAGES, PIXELS, y, d, all, x, all);
        ls_response_norm_backward(norm, IMAGES, PIXELS, dx, all, dy, x, d, all);
        for (ls_channels run = {0, 1}; run.first < C; run.first++)
            for (run.count = 1; run.first + run.count <= C; run.count++) {
                const size_t own = IMAGES * run.count * PIXELS;
                ls_real *part = fresh(own), *part_d = fresh(own), *part_dx = fresh(own);
                const ls_channels reads = ls_response_norm_reads(norm, run);
                const ls_channels over = ls_response_norm_read_by(norm, run);
                ls_response_norm_forward(norm, IMAGES, PIXELS, part, part_d, run,
                                         run_of(x, C, reads), reads);
                ls_response_norm_backward(norm, IMAGES, PIXELS, part_dx, run, run_of(dy, C, over),
                                          run_of(x, C, over), run_of(d, C, over), over);
                ck_assert(same(part, run_of(y, C, run), own));
                ck_assert(same(part_d, run_of(d, C, run), own));
                ck_assert(same(part_dx, run_of(dx, C, run), own));
            }
    }
}
END_TEST

START_TEST(refusals)
{
    ls_response_norm norm = norms[0];
    ck_assert(ls_response_norm_check("lrn1", &norm) == LS_OK);
    norm.n = 0;
    ck_assert(ls_response_norm_check("lrn1", &norm) == LS_ERR_INPUT);
    ck_assert(strstr(ls_error_text(), "lrn1: a window of 0 in 7 channels") != NULL);
    ls_error_clear();
    norm = norms[0], norm.k = 0;
    ck_assert(ls_response_norm_check("lrn1", &norm) == LS_ERR_INPUT);
    norm = norms[0], norm.beta = (double)NAN;
    ck_assert(ls_response_norm_check("lrn1", &norm) == LS_ERR_INPUT);
    ls_error_clear();
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct response_case {
    const ls_response_norm *norm;
    double *x, *y, *d, *dy;
} response_case;

static double response_objective(void *context)
{
    response_case *r = context;
    const ls_channels all = {0, r->norm->channels};
    ls_response_norm_forward(r->norm, 1, 3, r->y, r->d, all, r->x, all);
    return weighted_sum(r->dy, r->y, all.count * 3);
}

START_TEST(gradients)
{
    for (size_t k = 0; k < COUNT(norms); k++) {
        const size_t size = norms[k].channels * 3;
        const ls_channels all = {0, norms[k].channels};
        response_case r = {&norms[k], noise(size, k + 40), fresh(size), fresh(size),
                           noise(size, k + 50)};
        double *dx = fresh(size);
        response_objective(&r);
        ls_response_norm_backward(&norms[k], 1, 3, dx, all, r.dy, r.x, r.d, all);
        check_gradient(response_objective, &r, r.x, dx, size, "dx");
    }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {in_the_stated_order, channels_are_slices, refusals,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("response_norm", tests, COUNT(tests));
}
