/* test_net_traffic.c - what a network over ranks sends, by formula; what it leaves in memory; what
 * it refuses. */
#include "parallel/sharded_net_fixture.h"

#include "lockstep/numerics/pixel_tree.h"
#include "run_tests.h"

/* Convolutions with halos, in groups, strided; dense layers; one shortcut. */
#define NET                                                                                        \
    "{\"name\": \"traffic\", \"batch\": 3, \"network\": {\"channels\": 2, \"height\": 9, "         \
    "\"width\": 8, \"classes\": 4, \"row_granules\": 4, \"column_granules\": 3, "                  \
    "\"channel_granules\": 4, \"layers\": ["                                                       \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 8, \"kernel\": 3, \"padding\": 1},"       \
    "{\"kind\": \"relu\", \"name\": \"b\"},"                                                       \
    "{\"kind\": \"conv\", \"name\": \"c\", \"channels\": 8, \"kernel\": [5, 3], \"padding\": "     \
    "[2, 2, 1, 1], \"groups\": 2, \"bias\": false},"                                               \
    "{\"kind\": \"add\", \"name\": \"d\", \"from\": \"c\", \"beside\": \"b\"},"                    \
    "{\"kind\": \"conv\", \"name\": \"e\", \"channels\": 4, \"kernel\": 2, \"stride\": 2},"        \
    "{\"kind\": \"dense\", \"name\": \"f\", \"channels\": 12},"                                    \
    "{\"kind\": \"dense\", \"name\": \"g\", \"channels\": 4, \"bias\": false}]}}"

typedef struct traffic {
    uint64_t sent, reduced, scattered; /* bytes */
} traffic;

enum { MOST_RANKS = 16 };

typedef struct boxes {
    ls_image_box owned[MOST_RANKS], wanted[MOST_RANKS];
} boxes;

static uint64_t sent(const boxes *b, int ranks, int rank)
{
    ls_transfer *transfers = NULL;
    size_t n = 0;
    ck_assert(ls_transfers_create(&transfers, &n, b->owned, b->wanted, (size_t)ranks) == LS_OK);
    const size_t elements = ls_transfers_sent(transfers, n, (size_t)rank);
    free(transfers);
    return elements * sizeof(ls_real);
}

/* Nodes that a rank has of a layer's sum over images and pixels. */
static size_t nodes_of(const net_truth *t, const ls_layer_grid *grid, ls_grid_place at, bool pixel)
{
    const ls_net *net = &t->config.net;
    const ls_pixel_tree tree = {t->config.batch, pixel ? 1 : net->row_granules,
                                pixel ? 1 : net->column_granules};
    const ls_share images = ls_share_of(tree.images, (size_t)grid->samples, (size_t)at.sample);
    const ls_share rows = ls_share_of(tree.rows, (size_t)grid->down, (size_t)at.row);
    const ls_share columns = ls_share_of(tree.columns, (size_t)grid->across, (size_t)at.column);
    const ls_pixel_area area = {
        images.first, images.count, {rows.first, columns.first, rows.count, columns.count}};
    return ls_pixel_forest(&tree, area, NULL);
}

/* Nodes of the granules that a rank has among those that share what they read, and elements of a
 * part of dx; 0 when it shares with nobody. */
static uint64_t scattered(const net_truth *t, const ls_net_shapes *shapes, size_t l,
                          const ls_layer_grid *grid, int rank)
{
    const ls_net_layer *layer = &t->config.net.layers[l];
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    const size_t groups = layer->kind == LS_NET_CONV ? layer->groups : 1;
    const size_t each = shapes->layer[l].axis.granules / groups;
    const ls_share own = ls_net_channel_granules(&shapes->layer[l], grid, at.channel);
    if (own.count >= each || layer->from == LS_NET_IMAGE) return 0;
    ls_image_box dx = ls_net_takes(&t->config.net, shapes, l, grid, t->config.batch, rank);
    dx.channels.count = ls_net_shape_at(shapes, layer->from)->channels / groups;
    return ls_tree_forest(each, own.first % each, own.first % each + own.count, NULL) *
           ls_image_box_count(&dx) * sizeof(ls_real);
}

static traffic expected(const net_truth *t, const ls_layout *layout, int rank)
{
    const ls_net *net = &t->config.net;
    const size_t batch = t->config.batch;
    const int ranks = ls_layout_ranks(layout);
    ls_net_grids grids;
    ls_net_shapes shapes;
    static boxes b;
    traffic sum = {0, 0, 0};
    ls_net_grids_of(layout, net, &grids);
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l < net->count; l++) {
        const ls_net_layer *layer = &net->layers[l];
        const ls_layer_grid *grid = &grids.layer[l];
        const ls_grid_place at = ls_layer_grid_place(grid, rank);
        const bool image = layer->from == LS_NET_IMAGE;
        const int inputs[2] = {layer->from, layer->beside};
        for (int i = 0; i < (layer->kind == LS_NET_ADD ? 2 : 1); i++) {
            const ls_layer_grid from = ls_net_grid_at(&grids, inputs[i]);
            if (inputs[i] == LS_NET_IMAGE) continue;
            for (int r = 0; r < ranks; r++) {
                b.owned[r] =
                    ls_net_block(net, ls_net_shape_at(&shapes, inputs[i]), &from, batch, r);
                b.wanted[r] = ls_net_reads(net, &shapes, l, grid, batch, r);
            }
            sum.sent += sent(&b, ranks, rank); /* x */
            for (int r = 0; r < ranks; r++) {
                b.wanted[r] = b.owned[r];
                b.owned[r] = ls_net_takes(net, &shapes, l, grid, batch, r);
            }
            sum.sent += sent(&b, ranks, rank); /* dx */
        }
        for (int r = 0; r < ranks; r++) {
            b.owned[r] = ls_net_block(net, &shapes.layer[l], grid, batch, r);
            b.wanted[r] = ls_net_read_by(net, &shapes, l, grid, batch, r);
        }
        if (!image) sum.sent += sent(&b, ranks, rank); /* dy */
        sum.scattered += layer->kind == LS_NET_CONV || layer->kind == LS_NET_DENSE
                             ? scattered(t, &shapes, l, grid, rank)
                             : 0;
        const size_t in = ls_net_shape_elements(ls_net_shape_at(&shapes, layer->from));
        const size_t granules = ls_net_channel_granules(&shapes.layer[l], grid, at.channel).count;
        const size_t made = granules * shapes.layer[l].axis.granule;
        size_t parameters = layer->bias ? made : 0;
        if (layer->kind == LS_NET_DENSE) parameters += in * made;
        if (layer->kind == LS_NET_CONV)
            parameters += ls_net_shape_at(&shapes, layer->from)->channels / layer->groups *
                          layer->kernel_h * layer->kernel_w * made;
        sum.reduced +=
            nodes_of(t, grid, at, layer->kind == LS_NET_DENSE) * parameters * sizeof(ls_real);
    }
    const ls_layer_grid *last = &grids.layer[net->count - 1];
    sum.reduced += nodes_of(t, last, ls_layer_grid_place(last, rank), true) * sizeof(ls_real);
    return sum;
}

typedef struct traffic_case {
    net_case net;
    traffic right[MOST_RANKS];
} traffic_case;

static traffic so_far(const ls_rank *rank)
{
    return (traffic){ls_rank_count(rank, LS_OP_SEND).bytes,
                     ls_rank_count(rank, LS_OP_ALL_REDUCE).bytes,
                     ls_rank_count(rank, LS_OP_REDUCE_SCATTER).bytes};
}

static ls_status measure(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const traffic_case *c = argument;
    const net_truth *t = c->net.truth;
    const int own = ls_rank_index(rank);
    const traffic *right = &c->right[own];
    ls_memory *memory = ls_rank_memory(rank);
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    ls_real loss;
    net_begin(&c->net, rank, &store, &net, &status);
    if (status != LS_OK) goto exit;
    const size_t bytes = ls_memory_total_bytes(memory);
    for (size_t s = 0; s < STEPS; s++) {
        const traffic before = so_far(rank);
        const ls_share samples = ls_sharded_net_samples(net);
        const ls_batch batch = ls_batch_part(&t->batch[s], samples.first, samples.count);
        LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
        LS_TRY(ls_sharded_net_backward(net));
        const traffic after = so_far(rank);
        EXPECT(after.sent - before.sent == right->sent, "rank %d sends %llu bytes, not %llu", own,
               (unsigned long long)(after.sent - before.sent), (unsigned long long)right->sent);
        EXPECT(after.reduced - before.reduced == right->reduced,
               "rank %d hands %llu bytes into sums, not %llu", own,
               (unsigned long long)(after.reduced - before.reduced),
               (unsigned long long)right->reduced);
        EXPECT(after.scattered - before.scattered == right->scattered,
               "rank %d hands %llu bytes into sums of dx, not %llu", own,
               (unsigned long long)(after.scattered - before.scattered),
               (unsigned long long)right->scattered);
        EXPECT(ls_memory_total_bytes(memory) == bytes, "rank %d keeps %zu bytes after a step", own,
               ls_memory_total_bytes(memory) - bytes);
    }
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    EXPECT(ls_memory_total_bytes(memory) == 0, "rank %d leaves %zu bytes behind", own,
           ls_memory_total_bytes(memory));
    return status;
}

static net_truth truth;

static void begin(void)
{
    static ls_config config;
    ls_error_clear();
    ck_assert_msg(ls_config_from_json("net", NET, &config) == LS_OK, "%s", ls_error_text());
    truth_of(&truth, &config, LS_ENGINE_PORTABLE);
}

static const char *const layouts[] = {"one rank",
                                      "dp 2",
                                      "dp 4",
                                      "spatial 3x1",
                                      "spatial 2x2",
                                      "channel 2",
                                      "channel 4",
                                      "dp 2 x spatial 2x1 x channel 2, overlap",
                                      "spatial 2x2, layer 2 2x1x1x2, layer 4 4x1x1x1",
                                      "spatial 2x4 x channel 2, layer 3 1x4x4x1"};

START_TEST(bytes)
{
    static traffic_case c;
    begin();
    c.net = (net_case){.truth = &truth, .layout = layout_of(layouts[_i])};
    const int ranks = ls_layout_ranks(&c.net.layout);
    traffic all = {0, 0, 0};
    for (int r = 0; r < ranks; r++) {
        c.right[r] = expected(&truth, &c.net.layout, r);
        all.sent += c.right[r].sent;
        all.scattered += c.right[r].scattered;
    }
    /* One rank talks to itself, replicas only in sums. */
    if (_i == 0 || _i == 1) ck_assert(all.sent == 0 && all.scattered == 0);
    if (_i > 2) ck_assert(all.sent > 0);
    run_well(ranks, NULL, measure, &c);
    truth_free(&truth);
}
END_TEST

/* ---- what is refused */

typedef struct refusal {
    net_case net;
    int how;
} refusal;

enum { BAD_LABEL, NO_IMAGES, TOO_FEW, TWICE, BACKWARD_FIRST, OTHER_SHARD, STRADDLING, REFUSALS };

static ls_status misuse(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const refusal *r = argument;
    const net_truth *t = r->net.truth;
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    ls_real loss = 7;
    int32_t labels[8] = {0, 1, 4, 0, 0, 0, 0, 0};
    net_case held = r->net;
    if (r->how == OTHER_SHARD) held.layout = layout_of("dp 2");
    net_begin_as(&r->net, &held, rank, &store, &net, &status);
    if (status != LS_OK) goto exit;
    const ls_share samples = ls_sharded_net_samples(net);
    ls_batch batch = ls_batch_part(&t->batch[0], samples.first, samples.count);
    if (r->how == BAD_LABEL) batch.labels = labels;
    if (r->how == NO_IMAGES) batch.images = NULL;
    if (r->how == TOO_FEW) batch.B = 0;
    if (r->how == BACKWARD_FIRST) LS_TRY(ls_sharded_net_backward(net));
    LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
    LS_TRY(ls_sharded_net_backward(net));
    if (r->how == TWICE) LS_TRY(ls_sharded_net_backward(net));
exit:
    EXPECT(r->how == TWICE || loss == 7, "a loss in spite of a failure");
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

START_TEST(refused)
{
    static const char *const words[REFUSALS] = {"label", "images",   "needs", "once",
                                                "once",  "granules", "groups"};
    begin();
    refusal r = {.net = {.truth = &truth, .layout = layout_of("channel 2")}, .how = _i};
    if (_i == STRADDLING) r.net.layout = layout_of("dp 3, layer 2 1x1x1x3");
    ck_assert_has(run_badly(ls_layout_ranks(&r.net.layout), NULL, misuse, &r, LS_ERR_INPUT),
                  words[_i]);
    truth_free(&truth);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 60);
    tcase_add_loop_test(all, bytes, 0, sizeof layouts / sizeof layouts[0]);
    tcase_add_loop_test(all, refused, 0, REFUSALS);
    return run_tests();
}
