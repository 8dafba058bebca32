/* Mistakes of convolutional networks in parallel, made here in plain loops over what each rank
 * would have: the judgement finds them and calls them by their names. Each is one that somebody
 * made: halos of a width that a formula for the middle gave, dy not exchanged, corners forgotten, a
 * mean of means over ranks with unequal counts, the weight's gradient left unreduced. */
#include "lockstep/io/safetensors.h"
#include "lockstep/partition/share.h"
#include "oracle/net_golden_fixture.h"

static ls_golden *golden;

/* ---- candidates ---- */

typedef struct tensor {
    const char *name;
    const float *values; /* NULL: the golden ones */
    int rank;            /* -1: of all */
} tensor;

static const ls_golden_tensor *golden_tensor(const char *name)
{
    const int node = ls_graph_find(golden->graph, name);
    ck_assert_msg(node >= 0, "no node %s", name);
    return ls_golden_find(golden, 0, node);
}

static const ls_graph_node *node_of(const char *name)
{
    return &golden->graph->nodes[ls_graph_find(golden->graph, name)];
}

static const float *values_of(const char *name)
{
    return golden_tensor(name)->values;
}

static const float *param_of(const char *name)
{
    ls_dtype dtype;
    const size_t place = ls_param_find_name(golden->table, name);
    ck_assert_uint_ne(place, (size_t)-1);
    return ls_golden_param(golden, 0, (int)place, &dtype);
}

static void write_file(const char *path, const tensor *tensors, size_t n, int rank, int ranks)
{
    ls_safetensors_writer *writer = NULL;
    char text[32];
    ASSERT_OK(ls_safetensors_create(&writer, path));
    if (rank >= 0) {
        snprintf(text, sizeof text, "%d", rank);
        ASSERT_OK(ls_safetensors_add_metadata(writer, "rank", text));
        snprintf(text, sizeof text, "%d", ranks);
        ASSERT_OK(ls_safetensors_add_metadata(writer, "ranks", text));
    }
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            const ls_graph_node *node = node_of(tensors[i].name);
            uint64_t dims[4];
            if (tensors[i].rank >= 0 && tensors[i].rank != rank) continue;
            for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
            if (pass == 0)
                ASSERT_OK(
                    ls_safetensors_declare(writer, tensors[i].name, LS_F32, node->n_dims, dims));
            else
                ASSERT_OK(ls_safetensors_write(
                    writer, tensors[i].values ? tensors[i].values : values_of(tensors[i].name),
                    golden_tensor(tensors[i].name)->count * sizeof(float)));
        }
    ASSERT_OK(ls_safetensors_commit(writer));
}

static void judged(const char *path, const char *wrong, ls_cause cause, const char *evidence)
{
    ls_candidate *candidate = NULL;
    ls_judgement *judgement = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, path, NULL));
    ASSERT_OK(ls_check(&judgement, golden, candidate, NULL));
    if (cause == LS_CAUSE_NONE && !wrong) {
        ck_assert_uint_eq(judgement->different, 0);
    } else {
        ck_assert_uint_ge(judgement->n_findings, 1);
        const ls_finding *finding = &judgement->findings[0];
        ck_assert_msg(strstr(finding->tensor->golden->name, wrong) != NULL, "%s, not %s",
                      finding->tensor->golden->name, wrong);
        ck_assert_msg(finding->suspicion.cause == cause, "%s: \"%s\" (%s), not \"%s\"", wrong,
                      ls_cause_text(finding->suspicion.cause), finding->suspicion.evidence,
                      ls_cause_text(cause));
        ck_assert_msg(strstr(finding->suspicion.evidence, evidence) != NULL, "no \"%s\" in \"%s\"",
                      evidence, finding->suspicion.evidence);
        ck_assert_uint_eq(judgement->n_findings, 1);
    }
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
}

/* An empty folder. */
static void begin_candidate(void)
{
    nftw(scratch_path("mine"), scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
    ck_assert_int_eq(mkdir(scratch_path("mine"), 0777), 0);
}

/* A whole candidate. */
static void judge(const tensor *tensors, size_t n, const char *wrong, ls_cause cause,
                  const char *evidence)
{
    begin_candidate();
    write_file(scratch_path("mine/all.safetensors"), tensors, n, -1, 0);
    judged(scratch_path("mine"), wrong, cause, evidence);
}

static float *room_of(const char *name)
{
    float *values = malloc(golden_tensor(name)->count * sizeof *values);
    ck_assert_ptr_nonnull(values);
    return values;
}

/* ---- what a rank has ---- */

static size_t cut_at(size_t extent, size_t granules, size_t blocks, size_t at)
{
    size_t first = 0;
    for (size_t b = 0; b < at; b++) first += ls_share_of(granules, blocks, b).count;
    return first * extent / granules;
}

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
        {0, 3, 1, 0, 1, LS_CAUSE_WEIGHT_GRADIENT, "sequences 0 to 2"},
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

/* ---- fixtures ---- */

static net_run r;

/* Once for all tests of a case, which are forked. */
static void open_net(size_t number, size_t B)
{
    scratch_setup();
    net_run_begin(&r, number, B, 1);
    net_dump(&r, scratch_path("golden"), true, false);
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
}

static void open_resnet(void)
{
    open_net(3, 5);
}

static void open_alexnet(void)
{
    open_net(2, 3);
}

static void close_net(void)
{
    ls_golden_close(&golden);
    net_run_end(&r);
    scratch_teardown();
}

Suite *suite(void);
Suite *suite(void)
{
    Suite *s = suite_create("cause_net");
    TCase *tc = tcase_create("resnet");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, open_resnet, close_net);
    tcase_add_loop_test(tc, halos_of_x, 0, 16);
    tcase_add_loop_test(tc, halos_of_dy, 0, 16);
    tcase_add_loop_test(tc, statistics, 0, 10);
    tcase_add_loop_test(tc, weight_gradient_of_a_part, 0, 8);
    tcase_add_test(tc, weight_gradient_by_ranks);
    suite_add_tcase(s, tc);
    tc = tcase_create("alexnet");
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, open_alexnet, close_net);
    tcase_add_test(tc, halo_a_row_too_narrow);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *sr = srunner_create(suite());
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
