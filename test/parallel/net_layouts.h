/* net_layouts.h - layouts of the built-in networks, for tests. */
#ifndef TEST_PARALLEL_NET_LAYOUTS_H
#define TEST_PARALLEL_NET_LAYOUTS_H

#include <check.h>

#include "lockstep/parallel/layout/sharding.h"

static const char *const net_models[] = {"alexnet-nano", "resnet-nano"};

static inline ls_config net_config(const char *name)
{
    ls_config config;
    ck_assert_msg(ls_config_named(name, &config) == LS_OK, "%s", ls_error_text());
    return config;
}

/* Every axis alone and with the others; 1, 2, 3, 4, 5, 6, 7, 8 and 12 ranks; more ranks than
 * granules of rows, so that some have no pixel; layers that are cut in their own way (layer 4 of
 * both is a convolution: conv2, and block1.norm1 before block1.relu1). */
static const char *const net_layouts[] = {
    "one rank",
    "dp 2",
    "spatial 2x1",
    "spatial 1x2, overlap",
    "channel 2",
    "channel 4",
    "dp 3",
    "spatial 1x3",
    "spatial 5x1",
    "dp 2 x spatial 3x1, overlap",
    "dp 7",
    "spatial 2x2 x channel 2, overlap",
    "dp 2 x spatial 2x1 x channel 2",
    "dp 8",
    "spatial 12x1",
    "dp 3 x channel 4",
    "spatial 3x4, overlap",
    "dp 2, layer 4 1x2x1x1",
    "spatial 2x1 x channel 2, overlap, layer 4 4x1x1x1",
    "dp 4, layer 4 1x1x1x4, layer 5 2x1x2x1",
    "dp 2 x spatial 1x3, layer 3 3x1x1x2, layer 4 1x6x1x1",
};
enum { NET_LAYOUTS = sizeof net_layouts / sizeof net_layouts[0] };

static inline ls_layout net_layout(const char *text)
{
    ls_layout layout;
    ck_assert_msg(ls_layout_parse("test", text, &layout) == LS_OK, "%s", ls_error_text());
    return layout;
}

#endif
