/* test_sharded_net.c - networks in layouts of every form, with the bits of the serial one. The same
 * for random networks and layouts: test_random_nets.c; for the built-in ones: test_nano_nets.c. */
#include "parallel/sharded_net_fixture.h"
#include "run_tests.h"

/* ---- networks */

/* What the engine has to do with itself alone: windows of all forms, channels in one group and in
 * several, a row of images as input of dense layers. */
#define PLAIN                                                                                      \
    "{\"name\": \"plain\", \"batch\": 5, \"network\": {\"channels\": 3, \"height\": 9, "           \
    "\"width\": 7, \"classes\": 5, \"row_granules\": 3, \"column_granules\": 4, "                  \
    "\"channel_granules\": 4, \"layers\": ["                                                       \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 8, \"kernel\": [2, 3], "                  \
    "\"padding\": [1, 0, 0, 2], \"dilation\": [1, 2]},"                                            \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"conv\", \"name\": \"b\", \"channels\": 12, \"kernel\": 3, \"padding\": 1, "      \
    "\"groups\": 2, \"bias\": false},"                                                             \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"conv\", \"name\": \"c\", \"channels\": 8, \"kernel\": 5, \"stride\": 2, "        \
    "\"padding\": 2},"                                                                             \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"dense\", \"channels\": 12},"                                                     \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"dense\", \"channels\": 5, \"bias\": false}]}}"

/* Channels in 1, 2 and 4 groups, three readers of one output, granules of pixels that are mostly
 * empty in the end. */
#define GROUPS                                                                                     \
    "{\"name\": \"groups\", \"batch\": 3, \"label_smoothing\": 0.1, \"network\": {\"channels\": "  \
    "2, \"height\": 8, \"width\": 11, \"classes\": 3, \"row_granules\": 8, "                       \
    "\"column_granules\": 5, \"channel_granules\": 8, \"layers\": ["                               \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 16, \"kernel\": 3, \"padding\": 1},"      \
    "{\"kind\": \"conv\", \"name\": \"b\", \"channels\": 16, \"kernel\": [1, 4], \"groups\": 4, "  \
    "\"padding\": [0, 0, 1, 2]},"                                                                  \
    "{\"kind\": \"conv\", \"name\": \"c\", \"from\": \"a\", \"channels\": 16, \"kernel\": 1, "     \
    "\"groups\": 2, \"bias\": false},"                                                             \
    "{\"kind\": \"add\", \"name\": \"d\", \"from\": \"c\", \"beside\": \"b\"},"                    \
    "{\"kind\": \"add\", \"name\": \"e\", \"from\": \"a\", \"beside\": \"d\"},"                    \
    "{\"kind\": \"add\", \"name\": \"f\", \"from\": \"e\", \"beside\": \"e\"},"                    \
    "{\"kind\": \"batch_norm\", \"eps\": 0.01},"                                                   \
    "{\"kind\": \"conv\", \"name\": \"g\", \"channels\": 8, \"kernel\": [5, 3], \"stride\": 3, "   \
    "\"groups\": 4, \"padding\": [2, 1, 0, 1]},"                                                   \
    "{\"kind\": \"max_pool\", \"kernel\": 2, \"stride\": 1, \"padding\": [1, 0, 0, 1]},"           \
    "{\"kind\": \"dropout\", \"p\": 0.2},"                                                         \
    "{\"kind\": \"global_pool\"},"                                                                 \
    "{\"kind\": \"dense\", \"channels\": 3}]}}"

/* Filters as large as the image, a halo from every other rank. */
#define WIDE                                                                                       \
    "{\"name\": \"wide\", \"batch\": 2, \"network\": {\"channels\": 1, \"height\": 8, "            \
    "\"width\": 6, \"classes\": 4, \"row_granules\": 8, \"column_granules\": 6, "                  \
    "\"channel_granules\": 2, \"layers\": ["                                                       \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 4, \"kernel\": [7, 5], "                  \
    "\"padding\": [3, 3, 2, 2]},"                                                                  \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"conv\", \"name\": \"b\", \"channels\": 6, \"kernel\": [3, 2], "                  \
    "\"dilation\": [3, 4], \"padding\": [3, 3, 2, 2]},"                                            \
    "{\"kind\": \"avg_pool\", \"kernel\": [5, 6], \"stride\": [1, 2], "                            \
    "\"padding\": [2, 2, 3, 2]},"                                                                  \
    "{\"kind\": \"response_norm\", \"span\": 3, \"alpha\": 0.1, \"beta\": 0.75, \"k\": 1.5},"      \
    "{\"kind\": \"dense\", \"channels\": 4}]}}"

/* Shares of granules of channels that are no nodes of their tree. */
#define THIRDS                                                                                     \
    "{\"name\": \"thirds\", \"batch\": 4, \"network\": {\"channels\": 2, \"height\": 5, "          \
    "\"width\": 4, \"classes\": 6, \"row_granules\": 5, \"column_granules\": 2, "                  \
    "\"channel_granules\": 6, \"layers\": ["                                                       \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 12, \"kernel\": 3, \"padding\": 1},"      \
    "{\"kind\": \"conv\", \"name\": \"b\", \"channels\": 18, \"kernel\": [3, 2], "                 \
    "\"padding\": [1, 1, 0, 0]},"                                                                  \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"dense\", \"channels\": 24},"                                                     \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"dense\", \"channels\": 12, \"bias\": false},"                                    \
    "{\"kind\": \"dense\", \"channels\": 6}]}}"

static const char *const nets[] = {PLAIN, GROUPS, WIDE};
enum { NETS = sizeof nets / sizeof nets[0] };

static net_truth truth;

static void begin(const char *json, ls_engine engine)
{
    static ls_config config;
    ls_error_clear();
    ck_assert_msg(ls_config_from_json("net", json, &config) == LS_OK, "%s", ls_error_text());
    truth_of(&truth, &config, engine);
}

/* With and without overlap. */
static void try_layouts(const char *const *layouts, size_t n, const ls_world_options *options)
{
    for (size_t i = 0; i < n; i++) {
        ls_layout layout = layout_of(layouts[i]);
        run_in(&truth, &layout, options);
        layout.overlap = true;
        run_in(&truth, &layout, options);
    }
}

#define TRY(layouts, options) try_layouts(layouts, sizeof(layouts) / sizeof(layouts)[0], options)

/* ---- layouts */

/* Blocks without pixels of later, smaller layers; blocks smaller than the halo. */
static const char *const space[] = {"one rank",    "spatial 2x1", "spatial 1x2", "spatial 2x2",
                                    "spatial 3x1", "spatial 1x5", "spatial 4x4", "spatial 8x1"};

START_TEST(pixels)
{
    begin(nets[_i], LS_ENGINE_PORTABLE);
    TRY(space, NULL);
    truth_free(&truth);
}
END_TEST

/* Batches that do not divide, ranks without an image. */
START_TEST(samples)
{
    static const char *const layouts[] = {
        "dp 2", "dp 3", "dp 5", "dp 7", "dp 2 x spatial 2x1", "dp 3 x spatial 1x2"};
    begin(nets[_i], LS_ENGINE_PORTABLE);
    TRY(layouts, NULL);
    truth_free(&truth);
}
END_TEST

/* Ranks that share a convolution's group, have one, have several. */
START_TEST(channels)
{
    static const char *const layouts[] = {"channel 2", "dp 2 x channel 2",
                                          "spatial 2x1 x channel 2",
                                          "dp 2 x spatial 1x2 x channel 2"};
    static const char *const four[] = {"channel 4", "spatial 2x1 x channel 4"};
    begin(nets[_i], LS_ENGINE_PORTABLE);
    TRY(layouts, NULL);
    if (_i < 2) TRY(four, NULL);
    truth_free(&truth);
}
END_TEST

START_TEST(thirds_of_channels)
{
    static const char *const layouts[] = {"channel 3", "channel 6", "spatial 2x1 x channel 3",
                                          "dp 2 x channel 3"};
    begin(THIRDS, LS_ENGINE_PORTABLE);
    TRY(layouts, NULL);
    truth_free(&truth);
}
END_TEST

/* A layer with a grid of its own: what it reads is redistributed, and so is its gradient. */
START_TEST(strategies)
{
    static const char *const of_net[NETS][4] = {
        {"spatial 2x2, layer 2 4x1x1x1, layer 4 1x1x1x4", "dp 2 x spatial 2x1, layer 1 1x2x2x1",
         "channel 4, layer 0 2x2x1x1, layer 6 2x1x1x2", "dp 3 x channel 2, layer 3 1x3x2x1"},
        {"spatial 2x2, layer 1 1x1x1x4, layer 3 2x1x2x1", "channel 4, layer 2 1x2x2x1",
         "dp 2 x channel 2, layer 6 1x4x1x1, layer 7 2x1x1x2",
         "spatial 2x1 x channel 2, layer 5 4x1x1x1, layer 10 1x2x2x1"},
        {"spatial 8x1, layer 2 2x2x2x1, layer 3 1x1x4x2", "spatial 2x3, layer 4 3x1x1x2",
         "dp 2 x spatial 2x1, layer 0 1x1x2x2", "channel 2, layer 1 1x2x1x1, layer 2 2x1x1x1"}};
    begin(nets[_i], LS_ENGINE_PORTABLE);
    TRY(of_net[_i], NULL);
    truth_free(&truth);
}
END_TEST

START_TEST(openblas)
{
    static const char *const layouts[] = {"one rank",    "spatial 3x1",
                                          "spatial 2x2", "dp 2",
                                          "channel 2",   "dp 2 x spatial 2x1 x channel 2"};
    if (!ls_engine_available(LS_ENGINE_OPENBLAS)) SKIP_TEST("built without OpenBLAS");
    begin(nets[_i], LS_ENGINE_OPENBLAS);
    TRY(layouts, NULL);
    truth_free(&truth);
}
END_TEST

/* Ranks that come late: nobody reads what is not there yet, or writes over what is still read. */
START_TEST(delays)
{
    static const char *const layouts[] = {"spatial 2x2", "dp 2 x spatial 2x1 x channel 2",
                                          "spatial 2x2, layer 2 4x1x1x1, layer 4 1x1x1x4"};
    begin(nets[_i], LS_ENGINE_PORTABLE);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const ls_world_options options = {
            .channel_capacity = seed == 2 ? 1 : 0, .delay_seed = seed, .delay_max_ns = 50000};
        TRY(layouts, &options);
    }
    truth_free(&truth);
}
END_TEST

/* The built-in networks, once each. */
START_TEST(built_in)
{
    static const char *const names[] = {"alexnet-nano", "resnet-nano"};
    static const char *const layouts[] = {"dp 2 x spatial 2x2 x channel 2, overlap"};
    static ls_config config;
    ck_assert(ls_config_named(names[_i], &config) == LS_OK);
    config.batch = 3;
    truth_of(&truth, &config, LS_ENGINE_PORTABLE);
    const ls_layout layout = layout_of(layouts[0]);
    run_in(&truth, &layout, NULL);
    truth_free(&truth);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 120);
    tcase_add_loop_test(all, pixels, 0, NETS);
    tcase_add_loop_test(all, samples, 0, NETS);
    tcase_add_loop_test(all, channels, 0, NETS);
    tcase_add_test(all, thirds_of_channels);
    tcase_add_loop_test(all, strategies, 0, NETS);
    tcase_add_loop_test(all, openblas, 0, NETS);
    tcase_add_loop_test(all, delays, 0, NETS);
    tcase_add_loop_test(all, built_in, 0, 2);
    return run_tests();
}
