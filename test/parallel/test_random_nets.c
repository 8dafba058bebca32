/* test_random_nets.c - networks and layouts that nobody thought of: each drawn from a number, run
 * in the layout, and compared with the serial one bit by bit. */
#include "parallel/sharded_net_fixture.h"

#include "lockstep/parallel/layout/sharding.h"
#include "run_tests.h"

/* ---- drawing */

typedef struct drawing {
    uint64_t state;
} drawing;

/* lo .. hi */
static size_t draw(drawing *d, size_t lo, size_t hi)
{
    d->state = mix(d->state + 0x9e3779b97f4a7c15u);
    return lo + (size_t)(d->state >> 20) % (hi - lo + 1);
}

static void draw_window(drawing *d, ls_net_layer *layer)
{
    layer->kernel_h = draw(d, 1, 5);
    layer->kernel_w = draw(d, 1, 4);
    layer->stride_h = draw(d, 1, 3) == 3 ? 2 : 1;
    layer->stride_w = draw(d, 1, 4) == 4 ? 3 : 1;
    layer->dilation_h = layer->kind == LS_NET_CONV ? draw(d, 1, 2) : 1;
    layer->dilation_w = layer->kind == LS_NET_CONV && draw(d, 1, 3) == 3 ? 3 : 1;
    layer->pad_top = draw(d, 0, layer->kernel_h - 1);
    layer->pad_bottom = draw(d, 0, layer->kernel_h - 1);
    layer->pad_left = draw(d, 0, layer->kernel_w - 1);
    layer->pad_right = draw(d, 0, layer->kernel_w - 1);
}

static void draw_layer(drawing *d, ls_net_layer *layer, int from)
{
    static const ls_net_kind kinds[] = {LS_NET_CONV,       LS_NET_CONV,          LS_NET_CONV,
                                        LS_NET_MAX_POOL,   LS_NET_AVG_POOL,      LS_NET_RELU,
                                        LS_NET_ADD,        LS_NET_RESPONSE_NORM, LS_NET_DROPOUT,
                                        LS_NET_BATCH_NORM, LS_NET_DENSE};
    *layer = (ls_net_layer){.kind = kinds[draw(d, 0, 10)], .from = from};
    switch (layer->kind) {
    case LS_NET_CONV:
        draw_window(d, layer);
        layer->groups = (size_t)1 << draw(d, 0, 2);
        layer->channels = 4 * draw(d, 1, 4);
        layer->bias = draw(d, 0, 1);
        break;
    case LS_NET_MAX_POOL:
    case LS_NET_AVG_POOL:
        draw_window(d, layer);
        layer->count_pad = layer->kind == LS_NET_AVG_POOL && draw(d, 0, 1);
        break;
    case LS_NET_ADD:
        layer->beside = (int)draw(d, 0, (size_t)from + 1) - 1;
        break;
    case LS_NET_RESPONSE_NORM:
        layer->span = 2 * draw(d, 0, 2) + 1;
        layer->alpha = 0.1;
        layer->beta = 0.75;
        layer->k = 1.5;
        break;
    case LS_NET_DROPOUT:
        layer->p = 0.25;
        break;
    case LS_NET_BATCH_NORM:
        layer->eps = 0.01;
        layer->momentum = 0.2;
        break;
    case LS_NET_DENSE:
        layer->channels = 4 * draw(d, 1, 3);
        layer->bias = true;
        break;
    default:
        break;
    }
}

/* A chain with shortcuts, so that every output is read; layers that do not fit are drawn again. */
static ls_config draw_net(drawing *d)
{
    static const size_t granules[] = {1, 2, 4, 6, 8, 12};
    ls_config config = {.kind = LS_MODEL_NET, .batch = draw(d, 2, 5)};
    ls_net *net = &config.net;
    strcpy(config.name, "random");
    *net = (ls_net){.channels = draw(d, 1, 4),
                    .height = draw(d, 4, 12),
                    .width = draw(d, 3, 9),
                    .classes = draw(d, 2, 5),
                    .row_granules = draw(d, 1, 9),
                    .column_granules = draw(d, 1, 6),
                    .channel_granules = granules[draw(d, 0, 5)]};
    const size_t layers = draw(d, 2, 9);
    while (net->count < layers) {
        const int from = (int)net->count - 1;
        ls_net_layer *layer = &net->layers[net->count];
        draw_layer(d, layer, from);
        if (draw(d, 0, 4) == 0 &&
            layer->kind == LS_NET_CONV) { /* keeps the size: can be added to */
            layer->kernel_h = layer->kernel_w = 3;
            layer->stride_h = layer->stride_w = layer->dilation_h = layer->dilation_w = 1;
            layer->pad_top = layer->pad_bottom = layer->pad_left = layer->pad_right = 1;
        }
        snprintf(layer->name, sizeof layer->name, "l%zu", net->count);
        ls_net_layer *last = &net->layers[net->count + 1];
        *last = (ls_net_layer){.kind = LS_NET_DENSE,
                               .name = "last",
                               .from = from + 1,
                               .channels = net->classes,
                               .bias = true};
        net->count += 2;
        if (ls_config_check(&config) == LS_OK)
            net->count -= 1;
        else
            net->count -= 2;
        ls_error_clear();
    }
    net->count++;
    return config;
}

/* A grid of so many ranks. */
static ls_layer_grid draw_grid(drawing *d, int ranks, bool pixel)
{
    ls_layer_grid grid = {1, 1, 1, 1};
    for (int left = ranks, p = 2; left > 1;) {
        if (left % p) {
            p++;
            continue;
        }
        left /= p;
        switch (draw(d, 0, 3)) {
        case 0:
            grid.channels *= p;
            break;
        case 1:
            if (!pixel) {
                grid.down *= p;
                break;
            } /* fall through */
        case 2:
            if (!pixel) {
                grid.across *= p;
                break;
            } /* fall through */
        default:
            grid.samples *= p;
        }
    }
    return grid;
}

/* A layout that the network allows. */
static ls_layout draw_layout(drawing *d, const ls_config *config)
{
    static const int sizes[] = {1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 12};
    for (;;) {
        const int ranks = sizes[draw(d, 0, 11)];
        const ls_layer_grid grid = draw_grid(d, ranks, false);
        ls_layout layout = ls_layout_serial();
        layout.dp = grid.samples;
        layout.down = grid.down;
        layout.across = grid.across;
        layout.channels = grid.channels;
        layout.overlap = draw(d, 0, 1);
        for (size_t l = 0; l + 1 < config->net.count; l++) {
            if (draw(d, 0, 2) > 0) continue;
            const bool pixel = config->net.layers[l].kind == LS_NET_DENSE;
            layout.strategies[layout.n_strategies++] =
                (ls_strategy){(int)l, draw_grid(d, ranks, pixel)};
        }
        const bool legal = ls_layout_check(&layout, config) == LS_OK;
        ls_error_clear();
        if (legal) return layout;
        layout.n_strategies = 0;
        const bool legal_without = ls_layout_check(&layout, config) == LS_OK;
        ls_error_clear();
        if (legal_without) return layout;
    }
}

enum { NETS = 40, LAYOUTS = 5 };

START_TEST(random_nets)
{
    static net_truth truth;
    drawing d = {(uint64_t)_i * 1000003 + 5};
    const ls_config config = draw_net(&d);
    const bool openblas = _i % 4 == 3 && ls_engine_available(LS_ENGINE_OPENBLAS);
    truth_of(&truth, &config, openblas ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE);
    for (size_t i = 0; i < LAYOUTS; i++) {
        const ls_layout layout = draw_layout(&d, &config);
        const ls_world_options options = {.delay_seed = i % 3 == 2 ? i : 0, .delay_max_ns = 20000};
        run_in(&truth, &layout, &options);
    }
    truth_free(&truth);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 120);
    tcase_add_loop_test(all, random_nets, 0, NETS);
    return run_tests();
}
