/* test_halo_numbers.c - convolutions over ranks in numbers that anybody can check: filters of ones
 * over a column of pixels, each case one that some system has had wrong. */
#include "parallel/sharded_net_fixture.h"
#include "run_tests.h"

enum { MOST = 80, NEAR = 2 };

/* A column of `rows` pixels, a filter of ones, the right y, and dx / c where every dy is c. The
 * images of a batch are x, then x backwards. */
typedef struct column_case {
    const char *name, *layout;
    size_t rows, granules, kernel, stride, dilation, before, after, batch;
    size_t n_y;
    int y[NEAR][16];  /* of both images */
    int dx[NEAR][16]; /* 0: not compared */
    int blocks[16];   /* rows of x that each rank has; -1: not compared */
} column_case;

static const column_case cases[] = {
    {"a partition of one rank is no neighbour of itself", "one rank", 6, 6, 3, 1, 1, 1, 1, 1, 6,
     .y = {{3, 6, 9, 12, 15, 11}}, .dx = {{2, 3, 3, 3, 3, 2}}, .blocks = {6}},
    {"two ranks", "spatial 2x1", 6, 6, 3, 1, 1, 1, 1, 1, 6, .y = {{3, 6, 9, 12, 15, 11}},
     .dx = {{2, 3, 3, 3, 3, 2}}, .blocks = {3, 3}},
    {"the last ranks are empty", "spatial 8x1", 12, 6, 3, 1, 1, 1, 1, 1, 12,
     .y = {{3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 23}},
     .dx = {{2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2}}, .blocks = {2, 2, 2, 2, 2, 2, 0, 0}},
    {"a halo crosses an empty rank", "spatial 6x1", 4, 6, 3, 1, 1, 1, 1, 1, 4, .y = {{3, 6, 9, 7}},
     .dx = {{2, 3, 3, 2}}, .blocks = {0, 1, 1, 0, 1, 1}},
    {"a halo reaches beyond the neighbour", "spatial 4x1", 8, 8, 7, 1, 1, 3, 3, 1, 8,
     .y = {{10, 15, 21, 28, 35, 33, 30, 26}}, .dx = {{4, 5, 6, 7, 7, 6, 5, 4}},
     .blocks = {2, 2, 2, 2}},
    {"a dilated filter spans (R - 1) d + 1", "spatial 2x1", 8, 8, 3, 1, 2, 0, 0, 1, 4,
     .y = {{9, 12, 15, 18}}, .dx = {{1, 1, 2, 2, 2, 2, 1, 1}}, .blocks = {4, 4}},
    {"samples alone, stride 1", "dp 2", 6, 6, 3, 1, 1, 1, 1, 2, 6,
     .y = {{3, 6, 9, 12, 15, 11}, {11, 15, 12, 9, 6, 3}},
     .dx = {{2, 3, 3, 3, 3, 2}, {2, 3, 3, 3, 3, 2}}, .blocks = {6, 6}},
    {"samples alone, stride 2", "dp 2", 6, 6, 3, 2, 1, 1, 1, 2, 3, .y = {{3, 9, 15}, {11, 12, 6}},
     .dx = {{1, 2, 1, 2, 1, 1}, {1, 2, 1, 2, 1, 1}}, .blocks = {6, 6}},
    {"a pad on one side, stride 2", "spatial 2x1", 6, 6, 3, 2, 1, 0, 1, 1, 3, .y = {{6, 12, 11}},
     .dx = {{1, 1, 2, 1, 2, 1}}, .blocks = {3, 3}},
    {"samples alone take every window", "dp 2", 8, 8, 7, 2, 1, 3, 3, 2, 4,
     .y = {{10, 21, 35, 30}, {26, 33, 28, 15}},
     .dx = {{2, 3, 3, 4, 3, 3, 2, 2}, {2, 3, 3, 4, 3, 3, 2, 2}}, .blocks = {8, 8}},
    {"halos among ranks that are not the first", "dp 2 x spatial 2x1", 6, 6, 3, 1, 1, 1, 1, 2, 6,
     .y = {{3, 6, 9, 12, 15, 11}, {11, 15, 12, 9, 6, 3}},
     .dx = {{2, 3, 3, 3, 3, 2}, {2, 3, 3, 3, 3, 2}}, .blocks = {3, 3, 3, 3}},
    {"and with stride 2", "dp 2 x spatial 2x1", 6, 6, 3, 2, 1, 1, 1, 2, 3,
     .y = {{3, 9, 15}, {11, 12, 6}}, .dx = {{1, 2, 1, 2, 1, 1}, {1, 2, 1, 2, 1, 1}},
     .blocks = {3, 3, 3, 3}},
};

/* ---- what an observer sees: layer 1's output and the gradient of layer 0's */

typedef struct seen {
    const column_case *c;
    ls_real y[NEAR][MOST], dx[NEAR][MOST], dy[NEAR][MOST];
    size_t rows[16];
} seen;

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    seen *s = context;
    if (view->kind != LS_VIEW_POINT || view->point != LS_POINT_OUTPUT || view->comm != LS_COMM_NONE)
        return LS_OK;
    if (view->layer == 0 && !view->gradient) s->rows[ls_rank_index(rank)] = view->dims[2].count;
    ls_real(*to)[MOST] = view->layer == 1 ? (view->gradient ? s->dy : s->y)
                         : view->gradient ? s->dx
                                          : NULL;
    if (view->layer > 1 || to == NULL) return LS_OK;
    for (size_t n = 0; n < view->dims[0].count; n++)
        for (size_t r = 0; r < view->dims[2].count; r++)
            to[view->dims[0].first + n][view->dims[2].first + r] =
                ((const ls_real *)view->values)[n * view->dims[2].count + r];
    return LS_OK;
}

/* ReLU (whose gradient is that of x), the convolution, a dense layer of two classes whose weights
 * are alike for all pixels: so dy is the same everywhere. */
static void network_of(const column_case *c, ls_config *config)
{
    *config = (ls_config){.kind = LS_MODEL_NET, .batch = c->batch, .name = "column"};
    config->net = (ls_net){.channels = 1,
                           .height = c->rows,
                           .width = 1,
                           .classes = 2,
                           .row_granules = c->granules,
                           .column_granules = 1,
                           .channel_granules = 1,
                           .count = 3};
    ls_net_layer *layers = config->net.layers;
    layers[0] = (ls_net_layer){.kind = LS_NET_RELU, .name = "x", .from = LS_NET_IMAGE};
    layers[1] = (ls_net_layer){.kind = LS_NET_CONV,
                               .name = "y",
                               .from = 0,
                               .channels = 1,
                               .groups = 1,
                               .kernel_h = c->kernel,
                               .kernel_w = 1,
                               .stride_h = c->stride,
                               .stride_w = 1,
                               .dilation_h = c->dilation,
                               .dilation_w = 1,
                               .pad_top = c->before,
                               .pad_bottom = c->after};
    layers[2] = (ls_net_layer){.kind = LS_NET_DENSE, .name = "z", .from = 1, .channels = 2};
    ls_error_clear();
    ck_assert_msg(ls_config_check(config) == LS_OK, "%s: %s", c->name, ls_error_text());
}

static void fill(net_truth *t, const ls_config *config)
{
    const size_t rows = config->net.height, B = config->batch;
    *t = (net_truth){.config = *config, .engine = LS_ENGINE_PORTABLE};
    ck_assert(ls_param_table_create(&t->table, &t->config) == LS_OK);
    ck_assert(ls_store_create(&t->store, t->table, NULL, NULL) == LS_OK);
    for (size_t p = 0; p < t->table->count; p++) {
        const size_t n = count_of(&t->store->slots[p]);
        const bool dense = t->table->params[p].role == LS_DENSE_WEIGHT;
        t->values[p] = malloc((n + 1) * sizeof(ls_real));
        for (size_t i = 0; i < n; i++)
            t->values[p][i] = dense ? (ls_real)(i % 2 ? -1 : 1) / 1024 : 1;
    }
    draw_batches(t);
    for (size_t s = 0; s < STEPS; s++)
        for (size_t i = 0; i < B * rows; i++)
            t->images[s * B * rows + i] = (float)(i / rows ? rows - i % rows : i % rows + 1);
}

/* As run_rank, but for the comparison. */
static ls_status train(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const net_case *c = argument;
    const net_truth *t = c->truth;
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    net_begin(c, rank, &store, &net, &status);
    if (status != LS_OK) goto exit;
    const ls_share samples = ls_sharded_net_samples(net);
    const ls_batch batch = ls_batch_part(&t->batch[0], samples.first, samples.count);
    ls_real loss = 0;
    LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
    LS_TRY(ls_sharded_net_backward(net));
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

START_TEST(columns)
{
    static net_truth t;
    static ls_config config;
    const column_case *c = &cases[_i];
    network_of(c, &config);
    fill(&t, &config);
    for (int overlap = 0; overlap < 2; overlap++) {
        static seen s;
        memset(&s, 0xff, sizeof s);
        memset(s.rows, 0, sizeof s.rows);
        const ls_observer observer = {&s, look};
        net_case run = {.truth = &t, .layout = layout_of(c->layout), .observer = &observer};
        run.layout.overlap = overlap;
        run_well(ls_layout_ranks(&run.layout), NULL, train, &run);
        for (size_t n = 0; n < c->batch; n++) {
            ck_assert_msg(s.dy[n][0] != 0 && s.dy[n][0] == s.dy[n][c->n_y - 1], "%s: dy", c->name);
            for (size_t r = 0; r < c->n_y; r++)
                ck_assert_msg(s.y[n][r] == (ls_real)c->y[n][r], "%s: y[%zu][%zu] is %g, not %d",
                              c->name, n, r, (double)s.y[n][r], c->y[n][r]);
            for (size_t r = 0; r < c->rows && c->dx[n][0]; r++)
                ck_assert_msg(s.dx[n][r] == (ls_real)c->dx[n][r] * s.dy[n][0],
                              "%s: dx[%zu][%zu] is %g dy, not %d", c->name, n, r,
                              (double)(s.dx[n][r] / s.dy[n][0]), c->dx[n][r]);
        }
        for (int r = 0; r < ls_layout_ranks(&run.layout); r++)
            ck_assert_msg(s.rows[r] == (size_t)c->blocks[r], "%s: rank %d has %zu rows, not %d",
                          c->name, r, s.rows[r], c->blocks[r]);
    }
    truth_free(&t);
}
END_TEST

/* 80 rows on 4 ranks, two pads before and two after: ranks in the middle read their neighbours'
 * rows and no pad, so every y but those at the ends is 1 + 2 + ... of five true rows. */
START_TEST(pads_at_the_ends_alone)
{
    static net_truth t;
    static ls_config config;
    static seen s;
    const column_case c = {"pads", "spatial 4x1", 80, 4, 5, 1, 1, 2, 2, 1, .n_y = 80};
    const ls_observer observer = {&s, look};
    network_of(&c, &config);
    fill(&t, &config);
    net_case run = {.truth = &t, .layout = layout_of(c.layout), .observer = &observer};
    run_well(4, NULL, train, &run);
    for (size_t r = 0; r < 80; r++) {
        size_t right = 0;
        for (size_t q = r < 2 ? 0 : r - 2; q <= r + 2 && q < 80; q++) right += q + 1;
        ck_assert_msg(s.y[0][r] == (ls_real)right, "y[%zu] is %g, not %zu", r, (double)s.y[0][r],
                      right);
    }
    for (int r = 0; r < 4; r++) ck_assert(s.rows[r] == 20);
    truth_free(&t);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 60);
    tcase_add_loop_test(all, columns, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(all, pads_at_the_ends_alone);
    return run_tests();
}
