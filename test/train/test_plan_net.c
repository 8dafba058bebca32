/* The plan of a convolutional network against real runs: parameters, gradients, optimizer state and
 * activations of every rank to the byte, every operation's calls and bytes, bounds for the rest;
 * and the halo of a layer against the formula O x edge x channels. */
#include <stdlib.h>

#include "../parallel/net_layouts.h"
#include "net_run.h"
#include "plan_fixture.h"
#include "run_tests.h"

static void check_layouts(const char *name, ls_dtype dtype, size_t batch)
{
    ls_config config = fixture_config(name);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    run.dtype = dtype;
    for (int l = 0; l < NET_LAYOUTS; l++) {
        set_layout(&run, net_layouts[l]);
        run.batch = batch;
        if ((size_t)run.layout.dp <= batch && (dtype == LS_F32 || l % 3 == 1)) check_run(&run);
    }
    ls_images_free(&images);
}

START_TEST(every_layout)
{
    check_layouts(net_models[_i % 2], _i / 2 ? LS_F64 : LS_F32, _i / 2 ? 5 : 8);
}
END_TEST

/* A convolution over more ranks of channels than it reads granules: some hand a part of dx in and
 * get nothing of the sum, and with groups these are not the last ranks. */
START_TEST(more_ranks_than_channels)
{
    ls_config config = fixture_config("alexnet-nano");
    config.net = (ls_net){.channels = 1,
                          .height = 8,
                          .width = 9,
                          .classes = 3,
                          .row_granules = 4,
                          .column_granules = 2,
                          .channel_granules = 4,
                          .count = 4};
    ls_net_layer *layers = config.net.layers;
    layers[0] = (ls_net_layer){.kind = LS_NET_CONV, .name = "few", .from = LS_NET_IMAGE};
    layers[1] = (ls_net_layer){.kind = LS_NET_CONV, .name = "many", .from = 0};
    layers[2] = (ls_net_layer){.kind = LS_NET_GLOBAL_POOL, .name = "pool", .from = 1};
    layers[3] = (ls_net_layer){.kind = LS_NET_DENSE, .name = "out", .from = 2, .channels = 3};
    for (size_t l = 0; l < 2; l++) {
        layers[l].channels = l ? 8 : 2;
        layers[l].groups = l && _i ? 2 : 1;
        layers[l].kernel_h = layers[l].kernel_w = 3;
        layers[l].stride_h = layers[l].stride_w = layers[l].dilation_h = layers[l].dilation_w = 1;
        layers[l].pad_top = layers[l].pad_bottom = layers[l].pad_left = layers[l].pad_right = 1;
    }
    ck_assert_msg(ls_net_check(&config.net, "test") == LS_OK, "%s", ls_error_text());
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    set_layout(&run, "dp 4, layer 1 1x1x1x4");
    run.batch = 6;
    check_run(&run);
    ls_images_free(&images);
}
END_TEST

/* 8 channels of 32 x 32 pixels, 3 x 3 kernels, 4 images a rank in f32: a halo of one pixel. */
START_TEST(halo)
{
    static const struct {
        const char *layout;
        uint64_t pixels; /* of the rank with most neighbours: rows, columns, corners */
    } cases[] = {{"dp 2 x spatial 2x2", 16 + 16 + 1},
                 {"dp 2 x spatial 4x1", 2 * 32},
                 {"dp 2 x spatial 1x2", 32},
                 {"dp 2 x spatial 4x4", 2 * 8 + 2 * 8 + 4},
                 {"dp 2", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_config config = fixture_config("resnet-nano");
        ls_run run = net_run(&config, NULL, 1);
        const uint64_t bytes = cases[i].pixels * 8 * 4 * 4;
        size_t l = 0;
        set_layout(&run, cases[i].layout);
        run.batch = 8;
        ls_plan *plan = plan_of(&run);
        while (strcmp(config.net.layers[l].name, "block1.conv1") != 0) l++;
        ck_assert_msg(plan->net_layers[l].forward.most == bytes, "%s: %llu, by hand %llu",
                      cases[i].layout, (unsigned long long)plan->net_layers[l].forward.most,
                      (unsigned long long)bytes);
        ck_assert_uint_eq(plan->net_layers[l].halo_formula, bytes);
        /* dy is as large, and so is its halo */
        ck_assert_uint_eq(plan->net_layers[l].backward.most, bytes);
        ck_assert_uint_eq(plan->net_layers[l].returned.bytes, 0);
        ls_plan_destroy(&plan);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("plan_net", 240);
    tcase_add_loop_test(tests, every_layout, 0, 4);
    tcase_add_loop_test(tests, more_ranks_than_channels, 0, 2);
    tcase_add_test(tests, halo);
    return run_tests();
}
