/* Sums over the ranks of a network gone wrong, made here in plain loops: batch norm by statistics
 * of a rank's own, a mean of means over ranks with unequal counts, a weight's gradient that is not
 * reduced. The judgement finds them and calls them by their names. */
#include "causes/net_cause_fixture.h"
#include "run_tests.h"

/* ---- batch norm ---- */

/* block1.norm1 by the statistics that each of `parts` runs of images (or of rows) has, or by their
 * means. */
typedef enum how { LOCAL, MEANS, ABOUT } how;

static void normalise(bool images, size_t parts, how form, float *y, float *mean_out,
                      float *rstd_out)
{
    const ls_graph_node *node = node_of("block1.norm1");
    const size_t N = node->dims[0], C = node->dims[1], H = node->dims[2], W = node->dims[3];
    const float *x = values_of("block1.conv1");
    const float *scale = param_of("block1.norm1.weight"), *shift = param_of("block1.norm1.bias");
    for (size_t c = 0; c < C; c++) {
        double sum[8] = {0}, squares[8] = {0}, count[8] = {0}, mean[8], variance[8];
        double mean_all = 0, variance_all = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t n = 0; n < N; n++)
                for (size_t p = 0; p < H * W; p++) {
                    const double v = (double)x[(n * C + c) * H * W + p];
                    size_t g = 0;
                    while (images ? n >= ls_share_of(N, parts, g).first +
                                             ls_share_of(N, parts, g).count
                                  : p / W >= cut_at(H, 8, parts, g + 1))
                        g++;
                    if (pass == 0) sum[g] += v, count[g]++;
                    if (pass == 1) squares[g] += (v - mean[g]) * (v - mean[g]);
                }
            for (size_t g = 0; g < parts; g++) {
                if (pass == 0) mean[g] = sum[g] / count[g], mean_all += mean[g] / (double)parts;
                if (pass == 1) variance[g] = squares[g] / count[g];
                if (pass == 1) variance_all += variance[g] / (double)parts;
            }
            for (size_t g = 0; g < parts && pass == 0 && form == ABOUT; g++) mean[g] = mean_all;
        }
        for (size_t g = 0; g < parts && form != LOCAL; g++)
            mean[g] = mean_all, variance[g] = variance_all;
        for (size_t n = 0; n < N; n++)
            for (size_t p = 0; p < H * W; p++) {
                const size_t at = (n * C + c) * H * W + p;
                size_t g = 0;
                while (images ? n >= ls_share_of(N, parts, g).first + ls_share_of(N, parts, g).count
                              : p / W >= cut_at(H, 8, parts, g + 1))
                    g++;
                y[at] = (float)(((double)x[at] - mean[g]) / sqrt(variance[g] + 1e-5) *
                                    (double)scale[c] +
                                (double)shift[c]);
            }
        for (size_t g = 0; g < parts; g++) {
            mean_out[g * C + c] = (float)mean[g];
            rstd_out[g * C + c] = (float)(1 / sqrt(variance[g] + 1e-5));
        }
    }
}

START_TEST(statistics)
{
    static const struct {
        bool images;
        size_t parts;
        how form;
        ls_cause cause;
        const char *text;
    } rows[] = {
        {true, 2, LOCAL, LS_CAUSE_LOCAL_STATISTICS, "2 runs of images"},
        {false, 2, LOCAL, LS_CAUSE_LOCAL_STATISTICS, "2 x 1 blocks"},
        {false, 4, LOCAL, LS_CAUSE_LOCAL_STATISTICS, "4 x 1 blocks"},
        {true, 5, LOCAL, LS_CAUSE_LOCAL_STATISTICS, "5 runs of images"},
        {true, 2, MEANS, LS_CAUSE_AVERAGED_STATISTICS, "2 runs of images"},
        {true, 2, ABOUT, LS_CAUSE_AVERAGED_STATISTICS, "2 runs of images"},
        {true, 3, ABOUT, LS_CAUSE_AVERAGED_STATISTICS, "3 runs of images"},
        {false, 3, ABOUT, LS_CAUSE_AVERAGED_STATISTICS, "3 x 1 blocks"},
        {false, 4, ABOUT, LS_CAUSE_NONE, ""}, /* equal counts: a mean of means is the mean */
        {false, 1, LOCAL, LS_CAUSE_NONE, ""},
    };
    const size_t C = 8, parts = rows[_i].parts;
    const bool right = rows[_i].cause == LS_CAUSE_NONE;
    float *y = room_of("block1.norm1"), mean[64], rstd[64];
    normalise(rows[_i].images, parts, rows[_i].form, y, mean, rstd);
    const tensor whole[] = {{"block1.conv1", NULL, -1}, {"block1.norm1", y, -1}};
    judge(whole, 2, right ? NULL : "block1.norm1", rows[_i].cause, rows[_i].text);
    const tensor alone[] = {{"block1.conv1", NULL, -1},
                            {"block1.norm1.batch_mean", mean + (parts - 1) * C, -1}};
    /* One part's numbers may be those of a part of another cut as well. */
    judge(alone, 2, right ? NULL : "batch_mean", rows[_i].cause, "");
    /* Every rank its own. */
    if (rows[_i].form == LOCAL && parts > 1) {
        char path[64];
        tensor own[3] = {{"block1.conv1", NULL, -1}};
        begin_candidate();
        for (size_t g = 0; g < parts; g++) {
            own[1] = (tensor){"block1.norm1.batch_rstd", rstd + g * C, -1};
            snprintf(path, sizeof path, "mine/rank-%03zu.safetensors", g);
            write_file(scratch_path(path), own, 2, (int)g, (int)parts);
        }
        judged(scratch_path("mine"), "batch_rstd", rows[_i].cause, rows[_i].text);
    }
    free(y);
}
END_TEST

/* ---- gradients of weights ---- */

/* grad.block1.conv2.weight of images first .. end and rows of a block. */
static void weight_gradient(size_t first, size_t end, size_t down, size_t d, float *out)
{
    const size_t C = 8, H = 32, W = 32;
    const float *x = values_of("block1.relu1"), *dy = values_of("d.block1.conv2");
    for (size_t i = 0; i < C * C * 9; i++) {
        const size_t m = i / (C * 9), ci = i / 9 % C, ki = i % 9 / 3, kj = i % 3;
        double sum = 0;
        for (size_t n = first; n < end; n++)
            for (size_t r = cut_at(H, 8, down, d); r < cut_at(H, 8, down, d + 1); r++)
                for (size_t c = 0; c < W; c++) {
                    const size_t R = r + ki - 1, K = c + kj - 1;
                    if (R < H && K < W)
                        sum += (double)dy[((n * C + m) * H + r) * W + c] *
                               (double)x[((n * C + ci) * H + R) * W + K];
                }
        out[i] = (float)sum;
    }
}

START_TEST(weight_gradient_of_a_part)
{
    static const struct {
        size_t first, end, down, d;
        double factor;
        ls_cause cause;
        const char *text;
    } rows[] = {
        {0, 5, 1, 0, 1, LS_CAUSE_NONE, ""},
        {0, 3, 1, 0, 1, LS_CAUSE_WEIGHT_GRADIENT, "images 0 to 2"},
        {3, 5, 1, 0, 1, LS_CAUSE_WEIGHT_GRADIENT, ""},
        {0, 5, 2, 1, 1, LS_CAUSE_WEIGHT_GRADIENT, "part 1 of 2"},
        {0, 5, 4, 2, 1, LS_CAUSE_WEIGHT_GRADIENT, "part 2 of 4"},
        {3, 5, 2, 0, 1, LS_CAUSE_WEIGHT_GRADIENT, "part 2 of 4"},
        {0, 5, 1, 0, 0.25, LS_CAUSE_AVERAGED, "1/4 x right"},
        {0, 5, 1, 0, 2, LS_CAUSE_REDUCED_TWICE, "2 x right"},
    };
    float *g = room_of("grad.block1.conv2.weight");
    weight_gradient(rows[_i].first, rows[_i].end, rows[_i].down, rows[_i].d, g);
    for (size_t i = 0; i < golden_tensor("grad.block1.conv2.weight")->count; i++)
        g[i] = (float)((double)g[i] * rows[_i].factor);
    const tensor tensors[] = {{"block1.relu1", NULL, -1},
                              {"d.block1.conv2", NULL, -1},
                              {"grad.block1.conv2.weight", g, -1}};
    judge(tensors, 3, rows[_i].cause == LS_CAUSE_NONE ? NULL : "grad.block1.conv2.weight",
          rows[_i].cause, rows[_i].text);
    free(g);
}
END_TEST

/* Every rank has the gradient of its own rows: what is whole in each differs. */
START_TEST(weight_gradient_by_ranks)
{
    char path[64];
    float *g = room_of("grad.block1.conv2.weight");
    begin_candidate();
    for (size_t rank = 0; rank < 4; rank++) {
        weight_gradient(0, 5, 4, rank, g);
        const tensor tensors[] = {{"block1.relu1", NULL, -1},
                                  {"d.block1.conv2", NULL, -1},
                                  {"grad.block1.conv2.weight", g, -1}};
        snprintf(path, sizeof path, "mine/rank-%03zu.safetensors", rank);
        write_file(scratch_path(path), tensors, 3, (int)rank, 4);
    }
    judged(scratch_path("mine"), "grad.block1.conv2.weight", LS_CAUSE_WEIGHT_GRADIENT, "");
    free(g);
}
END_TEST

static void open_resnet(void)
{
    open_net(3, 5);
}

int main(void)
{
    TCase *tc = test_case("resnet", 240);
    tcase_add_unchecked_fixture(tc, open_resnet, close_net);
    tcase_add_loop_test(tc, statistics, 0, 10);
    tcase_add_loop_test(tc, weight_gradient_of_a_part, 0, 8);
    tcase_add_test(tc, weight_gradient_by_ranks);
    return run_tests();
}
