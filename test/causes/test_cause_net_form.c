/* Layers of a network by another form, made here in plain loops and named: response norm's alpha
 * divided by its span, windows padded on the other side, the gradient of overlapping windows'
 * maxima assigned, batch norm's gradient with means of means. */
#include "causes/net_cause_fixture.h"
#include "run_tests.h"

typedef struct plane {
    size_t N, C, H, W;
} plane;

static plane plane_of(const char *name)
{
    const ls_graph_node *node = node_of(name);
    return (plane){node->dims[0], node->dims[1], node->dims[2], node->dims[3]};
}

/* Span 3, alpha 0.1, beta 0.75, k 1.5. */
START_TEST(response_norm)
{
    const plane p = plane_of("a");
    const float *x = values_of("a");
    float *y = room_of("response_norm1");
    const size_t pixels = p.H * p.W;
    for (size_t i = 0; i < p.N * p.C * pixels; i++) {
        const size_t c = i / pixels % p.C;
        double sum = pow((double)x[i], 2);
        if (c > 0) sum += pow((double)x[i - pixels], 2);
        if (c + 1 < p.C) sum += pow((double)x[i + pixels], 2);
        y[i] = (float)((double)x[i] / pow(1.5 + 0.1 / (_i ? 3 : 1) * sum, 0.75));
    }
    const tensor tensors[] = {{"a", NULL, -1}, {"response_norm1", y, -1}};
    judge(tensors, 2, _i ? "response_norm1" : NULL, _i ? LS_CAUSE_RESPONSE_ALPHA : LS_CAUSE_NONE,
          "alpha is divided by the span");
    free(y);
}
END_TEST

/* 3x3 windows every 2, of which one row of padding is above and below, one column on the right. */
START_TEST(assigned)
{
    const plane x = plane_of("response_norm1"), y = plane_of("max_pool2");
    const float *from = values_of("response_norm1"), *dy = values_of("d.max_pool2");
    float *dx = room_of("d.response_norm1");
    size_t again = 0;
    for (size_t i = 0; i < x.N * x.C * x.H * x.W; i++) dx[i] = 0;
    for (size_t i = 0; i < y.N * y.C * y.H * y.W; i++) {
        const size_t r = i / y.W % y.H, c = i % y.W, image = i / (y.H * y.W);
        size_t at = 0;
        float most = -HUGE_VALF;
        for (size_t t = 0; t < 9; t++) {
            const size_t R = r * 2 + t / 3 - 1, C = c * 2 + t % 3;
            if (R >= x.H || C >= x.W || from[(image * x.H + R) * x.W + C] <= most) continue;
            at = (image * x.H + R) * x.W + C, most = from[at];
        }
        again += dx[at] != 0;
        dx[at] = (_i ? 0 : dx[at]) + dy[i];
    }
    ck_assert_uint_gt(again, 4);
    const tensor tensors[] = {
        {"response_norm1", NULL, -1}, {"d.max_pool2", NULL, -1}, {"d.response_norm1", dx, -1}};
    judge(tensors, 3, _i ? "d.response_norm1" : NULL, _i ? LS_CAUSE_ASSIGNED : LS_CAUSE_NONE,
          "the last one's gradient");
    free(dx);
}
END_TEST

/* dx of the batch norm by two runs of images, of 2 and of 1. */
START_TEST(means_of_means)
{
    const plane p = plane_of("b");
    const float *x = values_of("b"), *dy = values_of("d.batch_norm4");
    const float *scale = param_of("batch_norm4.weight");
    const float *others[] = {values_of("d.e")}; /* b is read by the norm and by a sum */
    float *dx = room_of("d.b");
    const size_t pixels = p.H * p.W;
    for (size_t c = 0; c < p.C; c++) {
        double mean = 0, variance = 0, sum[2] = {0}, along[2] = {0};
        const double N = (double)(p.N * pixels), count[2] = {2 * N / 3, N / 3};
        for (size_t i = 0; i < p.N * pixels; i++)
            mean += (double)x[(i / pixels * p.C + c) * pixels + i % pixels] / N;
        for (size_t i = 0; i < p.N * pixels; i++)
            variance += pow((double)x[(i / pixels * p.C + c) * pixels + i % pixels] - mean, 2) / N;
        const double rstd = 1 / sqrt(variance + 0.01);
        for (size_t i = 0; i < p.N * pixels; i++) {
            const size_t at = (i / pixels * p.C + c) * pixels + i % pixels, g = i / pixels == 2;
            sum[g] += (double)dy[at];
            along[g] += (double)dy[at] * ((double)x[at] - mean) * rstd;
        }
        const double of_sums =
            _i ? (sum[0] / count[0] + sum[1] / count[1]) / 2 : (sum[0] + sum[1]) / N;
        const double of_along =
            _i ? (along[0] / count[0] + along[1] / count[1]) / 2 : (along[0] + along[1]) / N;
        for (size_t i = 0; i < p.N * pixels; i++) {
            const size_t at = (i / pixels * p.C + c) * pixels + i % pixels;
            const double xhat = ((double)x[at] - mean) * rstd;
            dx[at] =
                (float)((double)scale[c] * rstd * ((double)dy[at] - of_sums - xhat * of_along) +
                        (double)others[0][at]);
        }
    }
    const tensor tensors[] = {
        {"b", NULL, -1}, {"d.batch_norm4", NULL, -1}, {"d.e", NULL, -1}, {"d.b", dx, -1}};
    judge(tensors, 4, _i ? "d.b" : NULL, _i ? LS_CAUSE_AVERAGED_STATISTICS : LS_CAUSE_NONE,
          "the gradient's means are means of the parts' own");
    free(dx);
}
END_TEST

/* 3x2 kernels, every second row, two rows of padding above and none below. */
START_TEST(padded_side)
{
    const plane x = plane_of("first"), y = plane_of("conv1");
    const float *from = values_of("first"), *w = param_of("conv1.weight");
    const float *b = param_of("conv1.bias");
    float *out = room_of("conv1");
    for (size_t i = 0; i < y.N * y.C * y.H * y.W; i++) {
        const size_t n = i / (y.C * y.H * y.W), m = i / (y.H * y.W) % y.C;
        double sum = (double)b[m];
        for (size_t t = 0; t < x.C * 6; t++) {
            const size_t R = i / y.W % y.H * 2 + t % 6 / 2 - (_i ? 0 : 2), C = i % y.W + t % 2 - 1;
            if (R < x.H && C < x.W)
                sum += (double)w[m * x.C * 6 + t] *
                       (double)from[((n * x.C + t / 6) * x.H + R) * x.W + C];
        }
        out[i] = (float)sum;
    }
    const tensor tensors[] = {{"first", NULL, -1}, {"conv1", out, -1}};
    judge(tensors, 2, _i ? "conv1" : NULL, _i ? LS_CAUSE_PADDED_SIDE : LS_CAUSE_NONE,
          "padded on the other side");
    free(out);
}
END_TEST

static void open_everything(void)
{
    open_net(0, 3);
}

static void open_global(void)
{
    open_net(1, 4);
}

int main(void)
{
    TCase *tc = test_case("everything", 0);
    tcase_add_unchecked_fixture(tc, open_everything, close_net);
    tcase_add_loop_test(tc, response_norm, 0, 2);
    tcase_add_loop_test(tc, assigned, 0, 2);
    tcase_add_loop_test(tc, means_of_means, 0, 2);
    tc = test_case("global", 0);
    tcase_add_unchecked_fixture(tc, open_global, close_net);
    tcase_add_loop_test(tc, padded_side, 0, 2);
    return run_tests();
}
