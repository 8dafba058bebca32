/* net_runs.h - a network trained serially, on one rank and on many, and everything compared: the
 * loss, every gradient, the running statistics, and block by block each layer's output, the
 * gradient of that, and the statistics of each batch norm.
 *
 * The serial model says what the loss, the gradients, the statistics and the outputs are. What it
 * does not keep, the gradients between layers, is taken from the run on one rank, whose gradients
 * of parameters are the serial ones. Ranks compare while they run and count faults; the main thread
 * asserts. */
#ifndef LS_TEST_NET_RUNS_H
#define LS_TEST_NET_RUNS_H

#include "comm/comm_test.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/spatial/sharded_net.h"
#include "serial/net_fixture.h"
#include "serial/serial_net.h"

enum { NET_PASSES = 2, NET_POINTS = 4 }; /* points: output, its gradient, mean, rstd */

typedef struct net_run {
    ls_config config;
    ls_engine engine;
    bool training;
    size_t B;
    fixture f;
    net_batch b;
    int passes;
    ls_real **start; /* [params]: the values at the beginning */
    ls_real loss[NET_PASSES];
    ls_real **gradient[NET_PASSES], **state[NET_PASSES]; /* [params] after each pass */
    ls_real *seen[NET_PASSES][NET_POINTS][LS_NET_LAYERS];
    _Atomic size_t shown[NET_PASSES][NET_POINTS][LS_NET_LAYERS]; /* elements compared */
    bool recording;
    ls_layout layout; /* under test */
    char text[LS_LAYOUT_TEXT];
} net_run;

static inline ls_batch net_run_batch(const net_run *run, int pass)
{
    ls_batch batch = run->b.batch;
    batch.step = (uint32_t)pass;
    batch.training = run->training;
    return batch;
}

static inline ls_real *net_copy(const ls_real *x, size_t n)
{
    ls_real *copy = malloc((n + 1) * sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

/* Elements that a point has, of all images. */
static inline size_t net_point_elements(const net_run *run, int point, size_t l)
{
    const ls_net_shape *shape = &run->f.serial->net->shapes.layer[l];
    return point < 2 ? run->B * ls_net_shape_elements(shape) : shape->channels;
}

/* ---- the observer ---- */

static inline int net_point_of(const ls_view *view)
{
    if (view->kind != LS_VIEW_POINT || view->comm != LS_COMM_NONE) return -1;
    if (view->point == LS_POINT_OUTPUT) return view->gradient ? 1 : 0;
    if (view->point == LS_POINT_BATCH_MEAN) return 2;
    return view->point == LS_POINT_BATCH_RSTD ? 3 : -1;
}

static inline void net_compare_run(net_run *run, const ls_view *view, ls_real *whole,
                                   const ls_real *block, size_t n)
{
    static const char *const names[] = {"output", "gradient of the output", "mean", "rstd"};
    if (run->recording)
        memcpy(whole, block, n * sizeof *block);
    else
        EXPECT(memcmp(whole, block, n * sizeof *block) == 0,
               "%s, %s: pass %u, layer %s: %s differs", run->config.name, run->text, view->step,
               run->config.net.layers[view->layer].name, names[net_point_of(view)]);
}

static inline ls_status net_look(void *context, ls_rank *rank, const ls_view *view)
{
    net_run *run = context;
    const int point = net_point_of(view);
    const ls_real *block = view->values;
    (void)rank;
    if (point < 0) return LS_OK;
    ls_real *whole = run->seen[view->step][point][view->layer];
    size_t elements = 1;
    for (int i = 0; i < view->n_dims; i++) elements *= view->dims[i].count;
    run->shown[view->step][point][view->layer] += elements;
    if (point >= 2) {
        net_compare_run(run, view, whole + view->dims[0].first, block, elements);
        return LS_OK;
    }
    const ls_view_run *d = view->dims;
    for (size_t n = d[0].first; n < d[0].first + d[0].count; n++)
        for (size_t c = d[1].first; c < d[1].first + d[1].count; c++)
            for (size_t r = d[2].first; r < d[2].first + d[2].count; r++, block += d[3].count)
                net_compare_run(run, view,
                                whole + ((n * d[1].whole + c) * d[2].whole + r) * d[3].whole +
                                    d[3].first,
                                block, d[3].count);
    return LS_OK;
}

/* ---- a rank ---- */

/* Written down once more: a parameter of a layer is cut as the channels of its output. */
static inline void net_holdings(const net_run *run, int rank, ls_holding *ret_holdings)
{
    ls_net_grids grids;
    ls_net_grids_of(&run->layout, &run->config.net, &grids);
    for (size_t i = 0; i < run->f.table->count; i++) {
        const ls_param *param = &run->f.table->params[i];
        const ls_layer_grid *grid = &grids.layer[param->layer];
        const size_t parts = (size_t)grid->channels, part = (size_t)rank % parts;
        const ls_share share = ls_share_of(param->axis.granules, parts, part);
        ret_holdings[i] = (ls_holding){.held = true, .shard = {share.first, share.count}};
        ret_holdings[i].use_held[0] = !param->state;
    }
}

/* The rank's part of a whole tensor. */
static inline void net_shard(const net_run *run, const ls_store *store, size_t i,
                             const ls_real *whole, ls_real *ret_shard)
{
    ls_param_shard_in(&run->f.table->params[i], store->slots[i].shard, sizeof *whole, ret_shard,
                      whole);
}

static inline void net_compare_param(const net_run *run, const ls_store *store, int pass, size_t i)
{
    const ls_slot *slot = &store->slots[i];
    const bool state = run->f.table->params[i].state;
    const size_t n = slot->rows * slot->cols;
    ls_real *right = malloc((n + 1) * sizeof *right);
    net_shard(run, store, i, state ? run->state[pass][i] : run->gradient[pass][i], right);
    EXPECT(memcmp(right, state ? slot->value : slot->grad[0], n * sizeof *right) == 0,
           "%s, %s: pass %d: %s%s differs", run->config.name, run->text, pass,
           state ? "" : "gradient of ", run->f.table->params[i].name);
    free(right);
}

static inline ls_status net_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    net_run *run = argument;
    const size_t params = run->f.table->count;
    ls_holding *holdings = malloc(params * sizeof *holdings);
    const ls_observer observer = {run, net_look};
    const ls_sharded_net_setup setup = {.world = ls_rank_world_group(rank),
                                        .layout = &run->layout,
                                        .engine = run->engine,
                                        .batch = run->B,
                                        .observer = &observer};
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    net_holdings(run, ls_rank_index(rank), holdings);
    LS_TRY(ls_store_create(&store, run->f.table, holdings, ls_rank_memory(rank)));
    for (size_t i = 0; i < params; i++)
        net_shard(run, store, i, run->start[i], store->slots[i].value);
    LS_TRY(ls_sharded_net_create(&net, &setup, store));
    for (int pass = 0; pass < run->passes; pass++) {
        const ls_share samples = ls_sharded_net_samples(net);
        const ls_batch whole = net_run_batch(run, pass);
        const ls_batch batch = ls_batch_part(&whole, samples.first, samples.count);
        ls_real loss = (ls_real)NAN;
        for (size_t i = 0; i < params; i++)
            for (size_t e = 0;
                 store->slots[i].grad[0] && e < store->slots[i].rows * store->slots[i].cols; e++)
                store->slots[i].grad[0][e] = (ls_real)NAN;
        LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
        LS_TRY(ls_sharded_net_backward(net));
        EXPECT(memcmp(&loss, &run->loss[pass], sizeof loss) == 0,
               "%s, %s: pass %d: loss %a, right is %a", run->config.name, run->text, pass,
               (double)loss, (double)run->loss[pass]);
        for (size_t i = 0; i < params; i++) net_compare_param(run, store, pass, i);
    }
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    free(holdings);
    return status;
}

/* ---- runs ---- */

/* Every element of outputs and gradients was shown once, by its owner. */
static inline void net_check_shown(net_run *run)
{
    for (int pass = 0; pass < run->passes; pass++)
        for (size_t l = 0; l < run->config.net.count; l++)
            for (int point = 0; point < NET_POINTS; point++) {
                const size_t n = net_point_elements(run, point, l),
                             shown = run->shown[pass][point][l];
                const bool there = point < 2 || run->config.net.layers[l].kind == LS_NET_BATCH_NORM;
                ck_assert_msg(there ? (point < 2 ? shown == n : shown > 0 && shown % n == 0)
                                    : shown == 0,
                              "%s, %s: layer %zu, point %d: %zu elements shown of %zu",
                              run->config.name, run->text, l, point, shown, n);
                run->shown[pass][point][l] = 0;
            }
}

static inline void net_run_layout_with(net_run *run, const ls_layout *layout,
                                       const ls_world_options *options)
{
    run->layout = *layout;
    ls_layout_describe(layout, run->text, sizeof run->text);
    const int ranks = ls_layout_ranks(layout);
    ls_error_clear();
    faults = 0;
    const ls_status status = ls_world_run(ranks, options, net_rank, run);
    ck_assert_msg(status == LS_OK, "%s, %s: %s", run->config.name, run->text, ls_error_text());
    ck_assert_msg(faults == 0, "%d faults, first: %s", (int)faults, first_fault);
    net_check_shown(run);
}

static inline void net_run_layout(net_run *run, const ls_layout *layout)
{
    net_run_layout_with(run, layout, NULL);
}

static inline void net_serial_pass(net_run *run, int pass)
{
    const size_t params = run->f.table->count;
    const ls_batch batch = net_run_batch(run, pass);
    run->loss[pass] = fixture_gradients(&run->f, &batch);
    run->gradient[pass] = calloc(params, sizeof *run->gradient[pass]);
    run->state[pass] = calloc(params, sizeof *run->state[pass]);
    for (size_t i = 0; i < params; i++) {
        const ls_slot *slot = &run->f.store->slots[i];
        const size_t n = slot->rows * slot->cols;
        if (run->f.table->params[i].state)
            run->state[pass][i] = net_copy(slot->value, n);
        else
            run->gradient[pass][i] = net_copy(slot->grad[0], n);
    }
    for (size_t l = 0; l < run->config.net.count; l++)
        for (int point = 0; point < NET_POINTS; point++)
            run->seen[pass][point][l] = malloc(net_point_elements(run, point, l) * sizeof(ls_real));
}

/* Runs serially, then on one rank, which gives what the serial model does not keep; its outputs are
 * held to the serial ones. */
static inline void net_run_begin_config(net_run *run, const ls_config *config, size_t B,
                                        ls_engine engine, bool training, int passes)
{
    memset(run, 0, sizeof *run);
    run->config = *config;
    run->config.batch = B;
    run->engine = engine;
    run->training = training;
    run->B = B;
    run->passes = passes;
    run->f = fixture_create(&run->config, engine);
    run->b = net_batch_of(&run->config, B);
    run->start = calloc(run->f.table->count, sizeof *run->start);
    if (run->config.net.count > 18) ls_store_init(run->f.store, 3); /* noise would overflow */
    for (size_t i = 0; i < run->f.table->count; i++) {
        const ls_slot *slot = &run->f.store->slots[i];
        const size_t n = slot->rows * slot->cols;
        for (size_t e = 0; run->f.table->params[i].role == LS_BATCH_NORM_VARIANCE && e < n; e++)
            slot->value[e] = slot->value[e] < 0 ? -slot->value[e] : slot->value[e];
        run->start[i] = net_copy(slot->value, n);
    }
    for (int pass = 0; pass < passes; pass++) {
        net_serial_pass(run, pass);
        for (size_t l = 0; l < run->config.net.count; l++)
            memcpy(run->seen[pass][0][l], run->f.serial->net->layer[l].y,
                   net_point_elements(run, 0, l) * sizeof(ls_real));
    }
    ls_real *outputs[NET_PASSES][LS_NET_LAYERS] = {{NULL}};
    for (int pass = 0; pass < passes; pass++)
        for (size_t l = 0; l < run->config.net.count; l++)
            outputs[pass][l] = net_copy(run->seen[pass][0][l], net_point_elements(run, 0, l));
    const ls_layout one = ls_layout_serial();
    run->recording = true;
    net_run_layout(run, &one);
    run->recording = false;
    for (int pass = 0; pass < passes; pass++)
        for (size_t l = 0; l < run->config.net.count; l++) {
            ck_assert_msg(memcmp(outputs[pass][l], run->seen[pass][0][l],
                                 net_point_elements(run, 0, l) * sizeof(ls_real)) == 0,
                          "%s, one rank: output of layer %s is not the serial one",
                          run->config.name, run->config.net.layers[l].name);
            free(outputs[pass][l]);
        }
}

static inline void net_run_end(net_run *run)
{
    for (int pass = 0; pass < run->passes; pass++) {
        for (size_t i = 0; i < run->f.table->count; i++) {
            free(run->gradient[pass][i]);
            free(run->state[pass][i]);
        }
        free(run->gradient[pass]);
        free(run->state[pass]);
        for (size_t l = 0; l < run->config.net.count; l++)
            for (int point = 0; point < NET_POINTS; point++) free(run->seen[pass][point][l]);
    }
    for (size_t i = 0; i < run->f.table->count; i++) free(run->start[i]);
    free(run->start);
    net_batch_free(&run->b);
    fixture_destroy(&run->f);
}

static inline ls_layout net_layout(int dp, int down, int across, int channels)
{
    ls_layout layout = ls_layout_serial();
    layout.dp = dp;
    layout.down = down;
    layout.across = across;
    layout.channels = channels;
    return layout;
}

static inline void net_strategy(ls_layout *layout, int layer, int samples, int down, int across,
                                int channels)
{
    layout->strategies[layout->n_strategies++] =
        (ls_strategy){layer, {samples, down, across, channels}};
}

#endif
