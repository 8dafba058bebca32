/* Halos of convolutions gone wrong, made here in plain loops over what each rank would have: the
 * judgement finds them and calls them by their names. Each is one that somebody made: halos of a
 * width that a formula for the middle gave, dy not exchanged, corners forgotten. */
#include "causes/net_cause_fixture.h"
#include "run_tests.h"

typedef enum halo { WHOLE, ABSENT, NO_CORNERS, ROW_SHORT, SHIFTED } halo;

/* The plane as block (d, a) sees it. wide: pixels of the halo on each side. */
static void see(const float *plane, size_t H, size_t W, size_t down, size_t across, size_t d,
                size_t a, halo how, size_t wide, float *seen)
{
    const size_t top = cut_at(H, 8, down, d), bottom = cut_at(H, 8, down, d + 1);
    const size_t left = cut_at(W, 8, across, a), right = cut_at(W, 8, across, a + 1);
    for (size_t r = 0; r < H; r++)
        for (size_t c = 0; c < W; c++) {
            const bool above = r < top, below = r >= bottom;
            const bool before = c < left, behind = c >= right;
            const bool rows = above || below, columns = before || behind;
            size_t R = r, C = c;
            float value = plane[r * W + c];
            if (how == ABSENT && (rows || columns)) value = 0;
            if (how == NO_CORNERS && rows && columns) value = 0;
            if (how == ROW_SHORT &&
                ((above && r + wide == top) || (below && r + 1 == bottom + wide) ||
                 (before && c + wide == left) || (behind && c + 1 == right + wide)))
                value = 0;
            if (how == SHIFTED && (rows || columns)) {
                if (rows) R = above ? r - 1 : r + 1;
                if (columns) C = before ? c - 1 : c + 1;
                value = R < H && C < W ? plane[R * W + C] : 0; /* size_t: below 0 is large */
            }
            seen[r * W + c] = value;
        }
}

/* A 3x3 convolution with padding 1 by ranks. */
static float *conv_by_ranks(const char *name, const char *x_name, size_t stride, size_t down,
                            size_t across, halo how)
{
    char weight[128];
    snprintf(weight, sizeof weight, "%s.weight", name);
    const ls_graph_node *y = node_of(name), *x = node_of(x_name);
    const size_t N = y->dims[0], M = y->dims[1], H = y->dims[2], W = y->dims[3];
    const size_t I = x->dims[1], h = x->dims[2], w = x->dims[3];
    const float *from = values_of(x_name), *k = param_of(weight);
    float *out = room_of(name), *seen = malloc(I * h * w * sizeof *seen);
    ck_assert_ptr_nonnull(seen);
    for (size_t n = 0; n < N; n++)
        for (size_t block = 0; block < down * across; block++) {
            const size_t d = block / across, a = block % across;
            for (size_t i = 0; i < I; i++)
                see(from + (n * I + i) * h * w, h, w, down, across, d, a, how, 1, seen + i * h * w);
            for (size_t m = 0; m < M; m++)
                for (size_t r = cut_at(H, 8, down, d); r < cut_at(H, 8, down, d + 1); r++)
                    for (size_t c = cut_at(W, 8, across, a); c < cut_at(W, 8, across, a + 1); c++) {
                        double sum = 0;
                        for (size_t t = 0; t < I * 9; t++) {
                            const size_t R = r * stride + t % 9 / 3 - 1, C = c * stride + t % 3 - 1;
                            if (R < h && C < w)
                                sum += (double)seen[(t / 9 * h + R) * w + C] *
                                       (double)k[m * I * 9 + t];
                        }
                        out[((n * M + m) * H + r) * W + c] = (float)sum;
                    }
        }
    free(seen);
    return out;
}

/* dx of a 3x3 convolution of stride 1 by ranks. */
static float *back_by_ranks(const char *x_name, const char *name, size_t down, size_t across,
                            halo how)
{
    char weight[128], dx_name[128], dy_name[128];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(dx_name, sizeof dx_name, "d.%s", x_name);
    snprintf(dy_name, sizeof dy_name, "d.%s", name);
    const ls_graph_node *y = node_of(name), *x = node_of(x_name);
    const size_t N = y->dims[0], M = y->dims[1], H = y->dims[2], W = y->dims[3], I = x->dims[1];
    const float *from = values_of(dy_name), *k = param_of(weight);
    float *out = room_of(dx_name), *seen = malloc(M * H * W * sizeof *seen);
    ck_assert_ptr_nonnull(seen);
    for (size_t n = 0; n < N; n++)
        for (size_t block = 0; block < down * across; block++) {
            const size_t d = block / across, a = block % across;
            for (size_t m = 0; m < M; m++)
                see(from + (n * M + m) * H * W, H, W, down, across, d, a, how, 1, seen + m * H * W);
            for (size_t i = 0; i < I; i++)
                for (size_t r = cut_at(H, 8, down, d); r < cut_at(H, 8, down, d + 1); r++)
                    for (size_t c = cut_at(W, 8, across, a); c < cut_at(W, 8, across, a + 1); c++) {
                        double sum = 0;
                        for (size_t t = 0; t < M * 9; t++) {
                            const size_t R = r + 1 - t % 9 / 3, C = c + 1 - t % 3;
                            if (R < H && C < W)
                                sum += (double)seen[(t / 9 * H + R) * W + C] *
                                       (double)k[(t / 9 * I + i) * 9 + t % 9];
                        }
                        out[((n * I + i) * H + r) * W + c] = (float)sum;
                    }
        }
    free(seen);
    return out;
}

/* ---- halos ---- */

static const struct {
    halo how;
    ls_cause cause, backward;
    const char *text;
} halos[] = {
    {WHOLE, LS_CAUSE_NONE, LS_CAUSE_NONE, ""},
    {ABSENT, LS_CAUSE_HALO_MISSING, LS_CAUSE_DY_HALO, "own count as 0"},
    {NO_CORNERS, LS_CAUSE_HALO_CORNER, LS_CAUSE_HALO_CORNER, "corners"},
    {SHIFTED, LS_CAUSE_HALO, LS_CAUSE_HALO, "farther away"},
};
static const struct {
    size_t down, across;
    const char *text;
} grids[] = {{2, 2, "2 x 2"}, {4, 1, "4 x 1"}, {1, 2, "1 x 2"}, {3, 2, "3 x 2"}};

START_TEST(halos_of_x)
{
    const int h = _i % 4, g = _i / 4;
    for (int strided = 0; strided < 2; strided++) {
        const char *name = strided ? "block2.conv1" : "block1.conv2";
        const char *x = strided ? "block1.relu2" : "block1.relu1";
        if (halos[h].how == NO_CORNERS && (grids[g].down < 2 || grids[g].across < 2)) continue;
        float *y =
            conv_by_ranks(name, x, strided ? 2 : 1, grids[g].down, grids[g].across, halos[h].how);
        const tensor tensors[] = {{x, NULL, -1}, {name, y, -1}};
        judge(tensors, 2, halos[h].how == WHOLE ? NULL : name, halos[h].cause, halos[h].text);
        free(y);
    }
}
END_TEST

START_TEST(halos_of_dy)
{
    const int h = _i % 4, g = _i / 4;
    if (halos[h].how == NO_CORNERS && (grids[g].down < 2 || grids[g].across < 2)) return;
    float *dx =
        back_by_ranks("block1.relu1", "block1.conv2", grids[g].down, grids[g].across, halos[h].how);
    const tensor tensors[] = {{"d.block1.conv2", NULL, -1}, {"d.block1.relu1", dx, -1}};
    judge(tensors, 2, halos[h].how == WHOLE ? NULL : "d.block1.relu1", halos[h].backward,
          halos[h].text);
    free(dx);
}
END_TEST

/* A halo that is one pixel wide where two are needed: 5x5 of AlexNet. */
START_TEST(halo_a_row_too_narrow)
{
    const ls_graph_node *y = node_of("conv1");
    const size_t N = y->dims[0], M = 16, I = 3, h = 32;
    const float *k = param_of("conv1.weight"), *b = param_of("conv1.bias");
    const float *images = ls_golden_batch(golden, 0)->images;
    float *out = room_of("conv1"), *seen = malloc(I * h * h * sizeof *seen);
    ck_assert_ptr_nonnull(seen);
    for (size_t n = 0; n < N; n++)
        for (size_t d = 0; d < 2; d++) {
            for (size_t i = 0; i < I; i++)
                see(images + (n * I + i) * h * h, h, h, 2, 1, d, 0, ROW_SHORT, 2, seen + i * h * h);
            for (size_t m = 0; m < M; m++)
                for (size_t p = d * 16 * h; p < (d + 1) * 16 * h; p++) {
                    double sum = (double)b[m];
                    for (size_t t = 0; t < I * 25; t++) {
                        const size_t R = p / h + t % 25 / 5 - 2, C = p % h + t % 5 - 2;
                        if (R < h && C < h)
                            sum +=
                                (double)seen[(t / 25 * h + R) * h + C] * (double)k[m * I * 25 + t];
                    }
                    out[(n * M + m) * h * h + p] = (float)sum;
                }
        }
    const tensor tensors[] = {{"conv1", out, -1}};
    judge(tensors, 1, "conv1", LS_CAUSE_HALO, "too narrow");
    free(out), free(seen);
}
END_TEST

static void open_resnet(void)
{
    open_net(3, 5);
}

static void open_alexnet(void)
{
    open_net(2, 3);
}

int main(void)
{
    TCase *tc = test_case("resnet", 240);
    tcase_add_unchecked_fixture(tc, open_resnet, close_net);
    tcase_add_loop_test(tc, halos_of_x, 0, 16);
    tcase_add_loop_test(tc, halos_of_dy, 0, 16);
    tc = test_case("alexnet", 240);
    tcase_add_unchecked_fixture(tc, open_alexnet, close_net);
    tcase_add_test(tc, halo_a_row_too_narrow);
    return run_tests();
}
