/* test_nano_nets.c - alexnet-nano and resnet-nano in layouts of every form, with the bits of the
 * serial model: loss, every gradient, running statistics, and every layer's output and its
 * gradient. alexnet-nano has convolutions in groups, response norms and dropout, resnet-nano batch
 * norms, shortcuts and global pooling. */
#include "net_runs.h"
#include "run_tests.h"

static net_run run;

static void begin(const char *name, size_t B, ls_engine engine)
{
    ls_config config;
    ck_assert_int_eq(ls_config_named(name, &config), LS_OK);
    net_run_begin_config(&run, &config, B, engine, true, 1);
}

static int layer_named(const char *name)
{
    for (size_t l = 0; l < run.config.net.count; l++)
        if (strcmp(run.config.net.layers[l].name, name) == 0) return (int)l;
    ck_abort_msg("no layer %s", name);
    return -1;
}

typedef struct grid {
    int dp, down, across, channels;
} grid;

static void try_grids(const grid *grids, size_t n)
{
    for (size_t g = 0; g < n; g++) {
        ls_layout layout =
            net_layout(grids[g].dp, grids[g].down, grids[g].across, grids[g].channels);
        layout.overlap = g % 2 == 0;
        net_run_layout(&run, &layout);
    }
}

#define TRY(grids) try_grids(grids, sizeof(grids) / sizeof(grids)[0])

static const char *const names[] = {"alexnet-nano", "resnet-nano"};

/* An image over 2 to 64 ranks: the last images of resnet-nano are 8 x 8, those of alexnet-nano 3 x
 * 3, so that most ranks have no pixel of them. */
START_TEST(space)
{
    static const grid grids[] = {{1, 2, 1, 1}, {1, 1, 2, 1}, {1, 2, 2, 1}, {1, 3, 2, 1},
                                 {1, 4, 4, 1}, {1, 1, 7, 1}, {1, 8, 1, 1}};
    begin(names[_i], 2, LS_ENGINE_PORTABLE);
    TRY(grids);
    net_run_end(&run);
}
END_TEST

START_TEST(a_pixel_granule_each)
{
    static const grid grids[] = {{1, 8, 8, 1}};
    begin(names[_i], 2, LS_ENGINE_PORTABLE);
    TRY(grids);
    net_run_end(&run);
}
END_TEST

/* Batches that divide and that do not. */
START_TEST(samples)
{
    static const grid five[] = {{2, 1, 1, 1}, {3, 1, 1, 1}, {4, 1, 1, 1}, {5, 1, 1, 1}};
    static const grid eight[] = {{3, 1, 1, 1}, {4, 1, 1, 1}, {5, 1, 1, 1}};
    begin(names[_i], 5, LS_ENGINE_PORTABLE);
    TRY(five);
    net_run_end(&run);
    begin(names[_i], 8, LS_ENGINE_PORTABLE);
    TRY(eight);
    net_run_end(&run);
}
END_TEST

START_TEST(channels)
{
    static const grid grids[] = {{1, 1, 1, 2}, {1, 1, 1, 4}};
    begin(names[_i], 3, LS_ENGINE_PORTABLE);
    TRY(grids);
    net_run_end(&run);
}
END_TEST

START_TEST(combinations)
{
    static const grid grids[] = {{2, 2, 1, 1}, {3, 1, 2, 1}, {1, 2, 1, 2},
                                 {2, 1, 1, 4}, {2, 2, 1, 2}, {1, 2, 2, 4}};
    begin(names[_i], 5, LS_ENGINE_PORTABLE);
    TRY(grids);
    net_run_end(&run);
}
END_TEST

/* The usual choice: space where images are large, channels or samples where they are small. */
START_TEST(strategies)
{
    begin(names[_i], 5, LS_ENGINE_PORTABLE);
    ls_layout layout = net_layout(1, 2, 2, 1);
    if (_i == 0) {
        net_strategy(&layout, layer_named("pool1"), 2, 1, 2, 1);
        net_strategy(&layout, layer_named("conv3"), 1, 1, 1, 4);
        net_strategy(&layout, layer_named("relu4"), 4, 1, 1, 1);
        net_strategy(&layout, layer_named("dense7"), 1, 1, 1, 4);
    } else {
        net_strategy(&layout, layer_named("block1.norm2"), 4, 1, 1, 1);
        net_strategy(&layout, layer_named("block2.conv1"), 1, 1, 1, 4);
        net_strategy(&layout, layer_named("block2.projection"), 2, 2, 1, 1);
        net_strategy(&layout, layer_named("block3.norm1"), 1, 1, 4, 1);
    }
    net_run_layout(&run, &layout);
    layout.overlap = true;
    net_run_layout(&run, &layout);
    net_run_end(&run);
}
END_TEST

/* OpenBLAS makes the same calls in every layout. */
START_TEST(openblas)
{
    static const grid grids[] = {
        {1, 2, 2, 1}, {3, 1, 1, 1}, {1, 1, 1, 4}, {2, 1, 3, 1}, {1, 3, 1, 2}};
    if (!ls_engine_available(LS_ENGINE_OPENBLAS)) SKIP_TEST("built without OpenBLAS");
    begin(names[_i], 3, LS_ENGINE_OPENBLAS);
    TRY(grids);
    net_run_end(&run);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {space,        a_pixel_granule_each, samples, channels,
                                  combinations, strategies,           openblas};
    TCase *tcase = test_case("nano_nets", 120);
    for (size_t t = 0; t < sizeof tests / sizeof tests[0]; t++)
        tcase_add_loop_test(tcase, tests[t], 0, 2);
    return run_tests();
}
