/* Layers of a network done otherwise, each made here in plain loops, and named: kernels turned or
 * transposed, weights read in another order, pooling's divisor and ties, halos of a pooling, biases
 * counted, gradients of some channels alone, running statistics, dropout masks. */
#include "causes/net_cause_fixture.h"
#include "run_tests.h"

/* A layer of AlexNet's kind, 3x3 windows of the image and dense layers; what comes out is written
 * with `change` done to the right values' operands. */
typedef struct plane {
    size_t N, C, H, W;
} plane;

static plane plane_of(const char *name)
{
    const ls_graph_node *node = node_of(name);
    return (plane){node->dims[0], node->dims[1], node->dims[2], node->dims[3]};
}

/* ---- convolutions ---- */

typedef enum kernel { AS_IT_IS, FLIPPED, EXCHANGED, TAPS_FIRST, BIAS_TWICE, NO_BIAS } kernel;

/* conv1 of alexnet-nano (5x5, padding 2, from the image). */
static void conv1(kernel how, float *y)
{
    const plane p = plane_of("conv1");
    const float *k = param_of("conv1.weight"), *b = param_of("conv1.bias");
    const float *x = ls_golden_batch(golden, 0)->images;
    const size_t h = 32;
    for (size_t i = 0; i < p.N * p.C * p.H * p.W; i++) {
        const size_t n = i / (p.C * p.H * p.W), m = i / (p.H * p.W) % p.C;
        const size_t r = i / p.W % p.H, c = i % p.W;
        double sum = (how == BIAS_TWICE ? 2 : how == NO_BIAS ? 0 : 1) * (double)b[m];
        for (size_t t = 0; t < 75; t++) {
            const size_t ci = t / 25, ki = t % 25 / 5, kj = t % 5;
            const size_t R = r + ki - 2, C = c + kj - 2;
            const size_t at = how == FLIPPED      ? ci * 25 + 24 - t % 25
                              : how == EXCHANGED  ? ci * 25 + kj * 5 + ki
                              : how == TAPS_FIRST ? (ki * 5 + kj) * 3 + ci
                                                  : t;
            if (R < h && C < h)
                sum += (double)k[m * 75 + at] * (double)x[((n * 3 + ci) * h + R) * h + C];
        }
        y[i] = (float)sum;
    }
}

START_TEST(kernels)
{
    static const struct {
        kernel how;
        ls_cause cause;
        const char *text;
    } rows[] = {{AS_IT_IS, LS_CAUSE_NONE, ""},
                {FLIPPED, LS_CAUSE_KERNEL_FLIPPED, "half a turn"},
                {EXCHANGED, LS_CAUSE_TRANSPOSED, "rows and columns exchanged"},
                {TAPS_FIRST, LS_CAUSE_TRANSPOSED, "kernel_w, read]"},
                {BIAS_TWICE, LS_CAUSE_BIAS_PER_RANK, "added 2 times"},
                {NO_BIAS, LS_CAUSE_BIAS_MISSING, "-1 x bias"}};
    float *y = room_of("conv1");
    conv1(rows[_i].how, y);
    const tensor tensors[] = {{"conv1", y, -1}};
    judge(tensors, 1, _i ? "conv1" : NULL, rows[_i].cause, rows[_i].text);
    free(y);
}
END_TEST

/* d.relu2 through conv3, from half of the channels that conv3 makes. */
START_TEST(channels_that_are_not_reduced)
{
    const plane x = plane_of("pool2"), y = plane_of("conv3");
    const float *k = param_of("conv3.weight"), *dy = values_of("d.conv3");
    const size_t from = _i == 1 ? y.C / 2 : 0, to = _i == 2 ? y.C / 2 : y.C;
    float *dx = room_of("d.pool2");
    for (size_t i = 0; i < x.N * x.C * x.H * x.W; i++) {
        const size_t n = i / (x.C * x.H * x.W), ci = i / (x.H * x.W) % x.C;
        const size_t r = i / x.W % x.H, c = i % x.W;
        double sum = 0;
        for (size_t m = from; m < to; m++)
            for (size_t t = 0; t < 9; t++) {
                const size_t R = r + 1 - t / 3, C = c + 1 - t % 3;
                if (R < y.H && C < y.W)
                    sum += (double)k[(m * x.C + ci) * 9 + t] *
                           (double)dy[((n * y.C + m) * y.H + R) * y.W + C];
            }
        dx[i] = (float)sum;
    }
    const tensor tensors[] = {{"d.conv3", NULL, -1}, {"d.pool2", dx, -1}};
    judge(tensors, 2, _i ? "d.pool2" : NULL, _i ? LS_CAUSE_NOT_REDUCED : LS_CAUSE_NONE,
          _i == 0   ? ""
          : _i == 1 ? "channels 24 to 47"
                    : "channels 0 to 23");
    free(dx);
}
END_TEST

/* ---- dense ---- */

START_TEST(dense_layers)
{
    static const ls_cause causes[] = {LS_CAUSE_NONE, LS_CAUSE_TRANSPOSED, LS_CAUSE_TRANSPOSED,
                                      LS_CAUSE_BIAS_PER_RANK};
    static const char *const texts[] = {"", "height, width, channels", "[out, in]",
                                        "added 4 times"};
    const plane x = plane_of("pool5");
    const size_t in = x.C * x.H * x.W, out = plane_of("dense6").C;
    const float *w = param_of("dense6.weight"), *b = param_of("dense6.bias");
    const float *from = values_of("pool5");
    float *y = room_of("dense6");
    for (size_t i = 0; i < x.N * out; i++) {
        double sum = (_i == 3 ? 4 : 1) * (double)b[i % out];
        for (size_t k = 0; k < in; k++) {
            const size_t pixels = x.H * x.W;
            const size_t row = _i == 1 ? k % pixels * x.C + k / pixels : k;
            const float weight = _i == 2 ? w[i % out * in + k] : w[row * out + i % out];
            sum += (double)from[i / out * in + k] * (double)weight;
        }
        y[i] = (float)sum;
    }
    const tensor tensors[] = {{"pool5", NULL, -1}, {"dense6", y, -1}};
    judge(tensors, 2, _i ? "dense6" : NULL, causes[_i], texts[_i]);
    free(y);
}
END_TEST

/* ---- pooling ---- */

/* pool1: 3x3 windows every 2. upper: rows of a rank that has the first half and no halo. */
START_TEST(halo_of_a_pooling)
{
    const plane x = plane_of("norm1"), y = plane_of("pool1");
    const float *from = values_of("norm1");
    float *out = room_of("pool1");
    for (size_t i = 0; i < y.N * y.C * y.H * y.W; i++) {
        const size_t r = i / y.W % y.H, c = i % y.W;
        const bool upper = r < y.H * 4 / 8;
        float most = -HUGE_VALF;
        for (size_t t = 0; t < 9; t++) {
            const size_t R = r * 2 + t / 3, C = c * 2 + t % 3;
            const bool beyond = _i && (upper ? R >= x.H / 2 : R < x.H / 2);
            const float v = beyond ? 0 : from[(i / (y.H * y.W) * x.H + R) * x.W + C];
            if (v > most) most = v;
        }
        out[i] = most;
    }
    const tensor tensors[] = {{"norm1", NULL, -1}, {"pool1", out, -1}};
    judge(tensors, 2, _i ? "pool1" : NULL, _i ? LS_CAUSE_HALO_MISSING : LS_CAUSE_NONE,
          _i ? "2 x 1" : "");
    free(out);
}
END_TEST

/* Of equal pixels (zeros that a ReLU made) the last one gets the gradient. */
START_TEST(the_last_of_equals)
{
    const plane x = plane_of("relu5"), y = plane_of("pool5");
    const float *from = values_of("relu5"), *dy = values_of("d.pool5");
    float *dx = room_of("d.relu5");
    for (size_t i = 0; i < x.N * x.C * x.H * x.W; i++) dx[i] = 0;
    for (size_t i = 0; i < y.N * y.C * y.H * y.W; i++) {
        const size_t r = i / y.W % y.H, c = i % y.W, image = i / (y.H * y.W);
        size_t at = 0;
        float most = -HUGE_VALF;
        for (size_t t = 0; t < 9; t++) {
            const size_t here = (image * x.H + r * 2 + t / 3) * x.W + c * 2 + t % 3;
            if (_i ? from[here] >= most : from[here] > most) most = from[here], at = here;
        }
        dx[at] += dy[i];
    }
    const tensor tensors[] = {{"relu5", NULL, -1}, {"d.pool5", NULL, -1}, {"d.relu5", dx, -1}};
    judge(tensors, 3, _i ? "d.relu5" : NULL, _i ? LS_CAUSE_POOLING : LS_CAUSE_NONE,
          _i ? "the last one" : "");
    free(dx);
}
END_TEST

/* Global pooling of resnet-nano without its division, forward and backward. */
START_TEST(sums_in_the_place_of_means)
{
    const plane x = plane_of("block3.relu2");
    const float *from = values_of("block3.relu2"), *dy = values_of("d.pool");
    float *y = room_of("pool"), *dx = room_of("d.block3.relu2");
    const size_t pixels = x.H * x.W;
    for (size_t i = 0; i < x.N * x.C; i++) {
        double sum = 0;
        for (size_t p = 0; p < pixels; p++) sum += (double)from[i * pixels + p];
        y[i] = (float)(_i ? sum : sum / (double)pixels);
        for (size_t p = 0; p < pixels; p++)
            dx[i * pixels + p] = (float)((double)dy[i] / (_i ? 1 : (double)pixels));
    }
    const tensor forward[] = {{"block3.relu2", NULL, -1}, {"pool", y, -1}};
    const tensor backward[] = {{"d.pool", NULL, -1}, {"d.block3.relu2", dx, -1}};
    judge(forward, 2, _i ? "pool" : NULL, _i ? LS_CAUSE_POOLING : LS_CAUSE_NONE,
          _i ? "not divided by their number" : "");
    judge(backward, 2, _i ? "d.block3.relu2" : NULL, _i ? LS_CAUSE_POOLING : LS_CAUSE_NONE,
          _i ? "not divided by their number" : "");
    free(y), free(dx);
}
END_TEST

/* ---- dropout ---- */

START_TEST(dropout)
{
    const plane p = plane_of("dropout6");
    const float *x = values_of("relu6"), *right = values_of("dropout6");
    float *y = room_of("dropout6");
    for (size_t i = 0; i < p.N * p.C; i++)
        y[i] = _i == 0 ? right[i] : _i == 1 || right[i] > 0 ? x[i] : 0;
    const tensor tensors[] = {{"relu6", NULL, -1}, {"dropout6", y, -1}};
    judge(tensors, 2, _i ? "dropout6" : NULL, _i ? LS_CAUSE_DROPOUT_MASK : LS_CAUSE_NONE,
          _i == 0   ? ""
          : _i == 1 ? "no dropout"
                    : "not divided");
    free(y);
}
END_TEST

/* ---- running statistics, of resnet-nano ---- */

START_TEST(running_statistics)
{
    static const ls_cause causes[] = {LS_CAUSE_NONE,    LS_CAUSE_RUNNING,
                                      LS_CAUSE_RUNNING, LS_CAUSE_RUNNING,
                                      LS_CAUSE_RUNNING, LS_CAUSE_LOCAL_STATISTICS};
    static const char *const texts[] = {
        "", "changed places", "not N - 1", "moved twice", "before the step", "part 0 of 2"};
    const plane p = plane_of("stem.conv");
    const float *x = values_of("stem.conv"), *before = param_of("stem.norm.running_var");
    float out[64];
    const size_t images = _i == 5 ? 3 : p.N; /* of 5, the first of two ranks' */
    for (size_t c = 0; c < p.C; c++) {
        double sum = 0, squares = 0;
        const double N = (double)(images * p.H * p.W);
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < images * p.H * p.W; i++) {
                const double v =
                    (double)x[(i / (p.H * p.W) * p.C + c) * p.H * p.W + i % (p.H * p.W)];
                if (pass == 0) sum += v;
                if (pass == 1) squares += (v - sum / N) * (v - sum / N);
            }
        const double now = squares / (_i == 2 ? N : N - 1), m = _i == 1 ? 0.9 : 0.1;
        double running = (1 - m) * (double)before[c] + m * now;
        if (_i == 3) running = (1 - m) * running + m * now;
        out[c] = _i == 4 ? before[c] : (float)running;
    }
    const tensor tensors[] = {{"stem.conv", NULL, -1}, {"param.stem.norm.running_var", out, -1}};
    judge(tensors, 2, _i ? "running_var" : NULL, causes[_i], texts[_i]);
}
END_TEST

static void open_alexnet(void)
{
    open_net(2, 3);
}

static void open_resnet(void)
{
    open_net(3, 5);
}

int main(void)
{
    TCase *tc = test_case("alexnet", 240);
    tcase_add_unchecked_fixture(tc, open_alexnet, close_net);
    tcase_add_loop_test(tc, kernels, 0, 6);
    tcase_add_loop_test(tc, channels_that_are_not_reduced, 0, 3);
    tcase_add_loop_test(tc, dense_layers, 0, 4);
    tcase_add_loop_test(tc, halo_of_a_pooling, 0, 2);
    tcase_add_loop_test(tc, the_last_of_equals, 0, 2);
    tcase_add_loop_test(tc, dropout, 0, 3);
    tc = test_case("resnet", 240);
    tcase_add_unchecked_fixture(tc, open_resnet, close_net);
    tcase_add_loop_test(tc, running_statistics, 0, 6);
    tcase_add_loop_test(tc, sums_in_the_place_of_means, 0, 2);
    return run_tests();
}
