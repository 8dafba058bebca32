/* Which layouts a convolutional network allows and which are refused, in which words; and that the
 * blocks of every layer in every legal one cover its output once. */
#include <stdio.h>

#include "lockstep/parallel/layout/net_grids.h"
#include "model/store_grid.h"
#include "net_layouts.h"
#include "run_tests.h"

/* An image of height x width, a convolution of `channels` in `groups`, a 3x3 one to 12 channels in
 * 1, global pooling, dense. */
static ls_config small_net(size_t channels, size_t groups, size_t granules)
{
    ls_config config = net_config("resnet-nano");
    ls_net *net = &config.net;
    const ls_net_layer conv = net->layers[0], pool = net->layers[net->count - 2];
    const ls_net_layer dense = net->layers[net->count - 1];
    net->channels = channels;
    net->height = 6;
    net->width = 5;
    net->channel_granules = granules;
    net->count = 4;
    net->layers[0] = net->layers[1] = conv;
    net->layers[2] = pool;
    net->layers[3] = dense;
    for (int l = 0; l < 4; l++) net->layers[l].from = l - 1;
    net->layers[0].channels = channels;
    net->layers[0].groups = groups;
    net->layers[1].channels = 12;
    snprintf(net->layers[1].name, sizeof net->layers[1].name, "second");
    snprintf(config.name, sizeof config.name, "small");
    ck_assert_msg(ls_config_check(&config) == LS_OK, "%s", ls_error_text());
    return config;
}

static void ck_legal(const ls_config *config, const int *right, size_t n)
{
    int legal[8];
    size_t found = ls_legal_channels(&config->net, legal, 8);
    ck_assert_uint_eq(found, n);
    for (size_t i = 0; i < n; i++) ck_assert_int_eq(legal[i], right[i]);
    /* Room for fewer: the count is the same, and nothing more is written. */
    legal[0] = legal[1] = -5;
    ck_assert_uint_eq(ls_legal_channels(&config->net, legal, 1), n);
    ck_assert(legal[0] == 1 && legal[1] == -5);
    for (int channels = 1; channels <= 13; channels++) {
        ls_layout layout = ls_layout_serial();
        layout.channels = channels;
        bool fits = false;
        for (size_t i = 0; i < n; i++) fits |= right[i] == channels;
        ls_status status = ls_layout_check(&layout, config);
        ck_assert_msg(status == (fits ? LS_OK : LS_ERR_INPUT), "%s, channel %d: %s", config->name,
                      channels, ls_error_text());
        ls_error_clear();
    }
}

START_TEST(legal_channels)
{
    ls_config config = net_config("alexnet-nano");
    ck_legal(&config, (const int[]){1, 2, 4}, 3);
    config = net_config("resnet-nano");
    ck_legal(&config, (const int[]){1, 2, 4}, 3);
    /* 12 channels in 3 groups and 4 granules wanted are 12 granules, the second layer's 4. */
    config = small_net(12, 3, 4);
    ck_legal(&config, (const int[]){1}, 1);
    /* Both have 12 granules; 2 and 4 ranks would have one and a half groups and three quarters. */
    config = small_net(12, 3, 12);
    ck_legal(&config, (const int[]){1, 3, 6, 12}, 4);
    config = small_net(12, 1, 12);
    ck_legal(&config, (const int[]){1, 2, 3, 4, 6, 12}, 6);
    config = small_net(7, 1, 12); /* 7 channels are one granule */
    ck_legal(&config, (const int[]){1}, 1);
}
END_TEST

typedef struct refusal {
    const char *layout, *says;
} refusal;

static void ck_refused(const ls_config *config, const refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ls_layout layout = net_layout(cases[i].layout);
        ls_error_clear();
        ck_assert_msg(ls_layout_check(&layout, config) == LS_ERR_INPUT, "%s", cases[i].layout);
        ck_assert_msg(strstr(ls_error_text(), cases[i].says) == ls_error_text(), "%s: %s",
                      cases[i].layout, ls_error_text());
        ck_assert_ptr_eq(strchr(ls_error_text(), '\n'), NULL);
    }
    ls_error_clear();
}

START_TEST(refusals)
{
    static const refusal cases[] = {
        {"tp 2", "--tp 2: alexnet-nano is a convolutional network, which is not cut so; use "
                 "--spatial, --channel, --dp, --overlap and --strategy"},
        {"pp 2", "--pp 2: alexnet-nano is a convolutional network"},
        {"sp", "--sp: alexnet-nano is a convolutional network"},
        {"cp 2", "context parallelism: cp 2: alexnet-nano is a convolutional network"},
        {"4 micro-batches", "--micro-batches 4: alexnet-nano is a"},
        {"interleaved, 2 virtual stages", "--virtual-stages 2: alexnet-nano is a"},
        {"1f1b", "--schedule 1f1b: alexnet-nano is a"},
        {"recompute layer", "--recompute layer: alexnet-nano is a"},
        {"layers 3,1", "--partition: alexnet-nano is a"},
        {"spatial 40x1", "--spatial 40x1: the image has 32 rows; use 1 to 32 for the first number"},
        {"spatial 1x33", "--spatial 1x33: the image has 32 columns; use 1 to 32 for the second"},
        {"dp 9", "--batch 8: dp 9 needs 9 images or more; with 8, use --dp 1 to 8"},
        {"channel 3", "--channel 3: layer conv1's 16 channels are 4 granules, which cannot be cut "
                      "into 3 equal parts; use 1, 2 or 4"},
        {"channel 8", "--channel 8: layer conv1's 16 channels are 4 granules"},
        {"dp 2, layer 22 2x1x1x1",
         "--strategy: layer 22: alexnet-nano has layers 0 to 21, conv1 to dense8"},
        {"dp 2 x spatial 2x1 x channel 2, layer 4 4x1x1x1",
         "--strategy conv2=4x1x1x1: a grid of 4 ranks; the run has 8 (dp 2, spatial 2x1, channel "
         "2); use one of 8"},
        {"dp 2, layer 21 1x1x1x2",
         "--strategy dense8=1x1x1x2: the last layer's rows go into the loss whole, so it is cut by "
         "samples alone; use 2x1x1x1"},
        {"dp 2, layer 15 1x2x1x1",
         "--strategy dense6=1x2x1x1: a dense layer's output is one pixel"},
        {"dp 2, layer 15 1x1x2x1",
         "--strategy dense6=1x1x2x1: a dense layer's output is one pixel"},
        {"dp 6 x spatial 6x1, layer 4 1x36x1x1",
         "--strategy conv2=1x36x1x1: the image has 32 rows; use 1 to 32 down"},
        {"dp 6 x spatial 6x1, layer 4 1x1x36x1",
         "--strategy conv2=1x1x36x1: the image has 32 columns; use 1 to 32 across"},
        /* Its own grid, and one that it has from a layer before it. */
        {"dp 3, layer 4 1x1x1x3",
         "--strategy conv2=1x1x1x3: layer conv2's 32 channels are 4 granules, which cannot be cut "
         "into 3 equal parts; use 1, 2 or 4 for channels"},
        {"dp 3, layer 0 1x1x1x3, layer 4 3x1x1x1",
         "--strategy conv1=1x1x1x3: layer conv1's 16 channels"},
    };
    ls_config config = net_config("alexnet-nano");
    ck_refused(&config, cases, sizeof cases / sizeof cases[0]);
}
END_TEST

/* Whole groups, or one; a grid is handed on until a layer has channels that it does not fit. */
START_TEST(refusals_of_channels)
{
    static const refusal three_groups[] = {
        {"channel 2", "--channel 2: of layer stem.conv's 3 groups of channels some rank of 2 would "
                      "have a part beside another's; use 1, 3, 6 or 12"},
        {"dp 4, layer 0 1x1x1x4", "--strategy stem.conv=1x1x1x4: of layer stem.conv's 3 groups of "
                                  "channels some rank of 4 would have a part beside another's; use "
                                  "1, 3, 6 or 12 for channels"},
    };
    static const refusal handed_on[] = {
        {"dp 3, layer 0 1x1x1x3", "--strategy stem.conv=1x1x1x3: layer second's 12 channels are 4 "
                                  "granules, which cannot be cut into 3 equal parts; use 1, 2 or 4 "
                                  "for channels"}};
    ls_config config = small_net(12, 3, 12);
    ck_refused(&config, three_groups, 2);
    config = small_net(12, 3, 4);
    ck_refused(&config, handed_on, 1);
    ls_layout layout = net_layout("dp 3, layer 0 1x1x1x3, layer 1 3x1x1x1");
    ASSERT_OK(ls_layout_check(&layout, &config));
    /* Numbers that no text can give, and strategies out of order. */
    layout.strategies[1].layer = 0;
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "--strategy stem.conv=3x1x1x1: comes behind one of the "
                                          "same or a later layer") == ls_error_text(),
                  "%s", ls_error_text());
    layout = net_layout("dp 3, layer 0 1x1x1x3");
    layout.strategies[0].grid.down = 0;
    ls_error_clear();
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_ERR_INPUT);
    layout = net_layout("dp 3");
    layout.strategies[0].grid = (ls_layer_grid){1, 1, 1, 1};
    layout.channels = 0;
    ls_error_clear();
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_ERR_INPUT);
    ls_error_clear();
}
END_TEST

START_TEST(refusals_of_transformers)
{
    static const refusal cases[] = {
        {"spatial 2x1", "--spatial 2x1: gpt2-nano is a transformer, which has no images; use --tp, "
                        "--sp, --pp and --dp, or a convolutional network such as --model "
                        "resnet-nano"},
        {"dp 2 x channel 2", "--channel 2: gpt2-nano is a transformer"},
        {"tp 2, overlap", "--overlap: gpt2-nano is a transformer"},
        {"tp 2, layer 1 2x1x1x1", "--strategy: gpt2-nano is a transformer"},
    };
    ls_config config = net_config("gpt2-nano");
    ck_refused(&config, cases, sizeof cases / sizeof cases[0]);
}
END_TEST

/* No two blocks of an output overlap, and together they have as many elements as it has. Grids
 * found for one layer and for all agree. */
static void ck_owned_once(const ls_config *config, const ls_layout *layout, const char *name)
{
    const ls_net *net = &config->net;
    const int ranks = ls_layout_ranks(layout);
    ls_net_shapes shapes;
    ls_net_grids grids;
    ls_image_box blocks[12];
    ls_net_shapes_of(net, &shapes);
    ls_net_grids_of(layout, net, &grids);
    for (int l = LS_NET_IMAGE; l < (int)net->count; l++) {
        const ls_net_shape *shape = ls_net_shape_at(&shapes, l);
        const ls_layer_grid grid = ls_net_grid_at(&grids, l);
        size_t elements = 0;
        ck_assert(ls_layer_grid_equal(grid, ls_net_grid_of(layout, net, l)));
        ck_assert_int_eq(ls_layer_grid_ranks(&grid), ranks);
        for (int r = 0; r < ranks; r++) {
            blocks[r] = ls_net_block(net, shape, &grid, config->batch, r);
            elements += ls_image_box_count(&blocks[r]);
            for (int other = 0; other < r; other++) {
                const ls_image_box both = ls_image_box_common(&blocks[other], &blocks[r]);
                ck_assert_msg(ls_image_box_is_empty(&both), "%s, %s, output %d: ranks %d and %d",
                              config->name, name, l, other, r);
            }
        }
        ck_assert_uint_eq(elements, config->batch * ls_net_shape_elements(shape));
    }
}

START_TEST(every_element_has_one_owner)
{
    ls_config config = net_config(net_models[_i]);
    for (int i = 0; i < NET_LAYOUTS; i++) {
        ls_layout layout = net_layout(net_layouts[i]);
        ASSERT_OK(ls_layout_check(&layout, &config));
        ck_owned_once(&config, &layout, net_layouts[i]);
    }
}
END_TEST

/* Handed on from layer to layer, but for dense layers, the last one and those with a strategy. */
START_TEST(known_grids)
{
    ls_config config = net_config("alexnet-nano");
    ls_layout layout = net_layout("dp 2 x spatial 2x3 x channel 2, layer 8 1x4x1x6");
    static const struct {
        int layer;
        ls_layer_grid grid;
    } right[] = {
        {LS_NET_IMAGE, {2, 2, 3, 2}}, {0, {2, 2, 3, 2}},   {7, {2, 2, 3, 2}},   {8, {1, 4, 1, 6}},
        {14, {1, 4, 1, 6}},           {15, {12, 1, 1, 2}}, {17, {12, 1, 1, 2}}, {20, {12, 1, 1, 2}},
        {21, {24, 1, 1, 1}}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        ck_assert_msg(ls_layer_grid_equal(ls_net_grid_of(&layout, &config.net, right[i].layer),
                                          right[i].grid),
                      "layer %d", right[i].layer);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_layouts", 60);
    tcase_add_test(tcase, legal_channels);
    tcase_add_test(tcase, refusals);
    tcase_add_test(tcase, refusals_of_channels);
    tcase_add_test(tcase, refusals_of_transformers);
    tcase_add_test(tcase, known_grids);
    tcase_add_loop_test(tcase, every_element_has_one_owner, 0, 2);
    return run_tests();
}
