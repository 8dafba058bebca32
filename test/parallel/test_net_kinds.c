/* test_net_kinds.c - every kind of layer of a convolutional network in blocks: small networks that
 * are hard to cut - windows over several ranks, strides beyond the kernel, ranks without a pixel,
 * an image or a channel of their own - in many layouts, with the bits of the serial model. */
#include "net_runs.h"
#include "run_tests.h"

#define NETWORK(name, channels, height, width, rows, columns, granules, classes)                   \
    "{\"name\": \"" name "\", \"batch\": 2, \"network\": {\"channels\": " #channels                \
    ", \"height\": " #height ", \"width\": " #width ", \"classes\": " #classes                     \
    ", \"row_granules\": " #rows ", \"column_granules\": " #columns                                \
    ", \"channel_granules\": " #granules ", \"layers\": ["
#define CONV(channels, kernel)                                                                     \
    "{\"kind\": \"conv\", \"channels\": " #channels ", \"kernel\": " #kernel "}, "
#define DENSE(channels) "{\"kind\": \"dense\", \"channels\": " #channels "}]}}"

/* Overlapping windows, padding on one side, a stride beyond the kernel, a kernel that reaches over
 * several ranks; maxima and both divisors. */
#define POOLS                                                                                      \
    NETWORK("pools", 2, 13, 11, 8, 7, 2, 3)                                                        \
    CONV(4, 3)                                                                                     \
    "{\"kind\": \"max_pool\", \"kernel\": [5, 3], \"stride\": [1, 2], \"padding\": [2, 1, 0, "     \
    "2]}, " CONV(                                                                                  \
        6,                                                                                         \
        1) "{\"kind\": \"avg_pool\", \"kernel\": [2, 4], \"stride\": 1, \"padding\": [1, 0, 1, "   \
           "3], "                                                                                  \
           "\"count_padding\": true}, " CONV(                                                      \
               4,                                                                                  \
               1) "{\"kind\": \"avg_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": [1, 1, 2, " \
                  "0], "                                                                           \
                  "\"count_padding\": false}, " CONV(                                              \
                      4,                                                                           \
                      1) "{\"kind\": \"max_pool\", \"kernel\": 1, \"stride\": [3, 2]}, " DENSE(3)

/* Windows of channels that are wider than a rank's share, and than the layer. */
#define RESPONSES                                                                                  \
    NETWORK("responses", 6, 5, 4, 4, 2, 6, 2)                                                      \
    CONV(12, 1)                                                                                    \
    "{\"kind\": \"response_norm\", \"span\": 5, \"alpha\": 0.3, \"beta\": 0.6, \"k\": "            \
    "1.2}, " CONV(6, 3) "{\"kind\": \"response_norm\", \"span\": 9, \"alpha\": 0.2, \"beta\": "    \
                        "0.75, \"k\": 2}, "                                                        \
                        "{\"kind\": \"response_norm\", \"span\": 1, \"alpha\": 0.5, \"beta\": 1, " \
                        "\"k\": 0.5}, " DENSE(2)

/* Statistics of images that do not divide, of single pixels, and of a layer with fewer pixels than
 * ranks; shortcuts; masks of blocks that are narrower than the image. */
#define NORMS                                                                                      \
    NETWORK("norms", 3, 7, 9, 5, 8, 4, 3)                                                          \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 4, \"kernel\": 3, \"padding\": 1}, "      \
    "{\"kind\": \"batch_norm\", \"name\": \"b\", \"momentum\": 0.3}, "                             \
    "{\"kind\": \"dropout\", \"name\": \"c\", \"p\": 0.4}, "                                       \
    "{\"kind\": \"add\", \"name\": \"d\", \"from\": \"c\", \"beside\": \"a\"}, "                   \
    "{\"kind\": \"conv\", \"name\": \"e\", \"channels\": 8, \"kernel\": 3, \"stride\": 4}, "       \
    "{\"kind\": \"batch_norm\", \"name\": \"f\"}, "                                                \
    "{\"kind\": \"relu\", \"name\": \"g\"}, "                                                      \
    "{\"kind\": \"add\", \"name\": \"h\", \"from\": \"g\", \"beside\": \"e\"}, "                   \
    "{\"kind\": \"global_pool\", \"name\": \"i\"}, "                                               \
    "{\"kind\": \"batch_norm\", \"name\": \"j\"}, " DENSE(3)

/* An image of one column: cut by columns, one rank has all there is. */
#define COLUMN                                                                                     \
    NETWORK("column", 2, 6, 1, 6, 6, 2, 3)                                                         \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 4, \"kernel\": 1}, "                      \
    "{\"kind\": \"relu\", \"name\": \"b\"}, "                                                      \
    "{\"kind\": \"batch_norm\", \"name\": \"c\"}, "                                                \
    "{\"kind\": \"dropout\", \"name\": \"d\", \"p\": 0.3}, "                                       \
    "{\"kind\": \"add\", \"name\": \"e\", \"from\": \"d\", \"beside\": \"a\"}, "                   \
    "{\"kind\": \"response_norm\", \"span\": 3, \"alpha\": 0.3, \"beta\": 0.6, \"k\": 1.2}, "      \
    "{\"kind\": \"max_pool\", \"kernel\": [3, 1], \"stride\": 1}, "                                \
    "{\"kind\": \"global_pool\"}, " DENSE(3)

/* Three channels are one granule: where the next layer's channels are cut, one rank has all three
 * and the others none. */
#define NARROW                                                                                     \
    NETWORK("narrow", 2, 5, 6, 3, 4, 4, 2)                                                         \
    CONV(3, 2)                                                                                     \
    "{\"kind\": \"batch_norm\"}, " CONV(8, 3) "{\"kind\": \"batch_norm\"}, " CONV(3, 1) DENSE(2)

/* The logits are means over images: the last layer sums over granules, the loss over images. */
#define MEANS                                                                                      \
    NETWORK("means", 2, 6, 5, 4, 3, 4, 4)                                                          \
    CONV(4, 3) "{\"kind\": \"global_pool\"}]}}"

static const char *const networks[] = {POOLS,          RESPONSES,  NORMS,  COLUMN,
                                       NET_EVERYTHING, NET_GLOBAL, NARROW, MEANS};
enum { NETWORKS = sizeof networks / sizeof networks[0] };
static net_run run;

static void begin(const char *json, size_t B, bool training, int passes)
{
    ls_config config;
    ck_assert_msg(ls_config_from_json("net", json, &config) == LS_OK, "%s", ls_error_text());
    net_run_begin_config(&run, &config, B, LS_ENGINE_PORTABLE, training, passes);
}

static bool legal(const ls_layout *layout)
{
    const bool good = ls_net_layout_check(layout, &run.config) == LS_OK;
    ls_error_clear();
    return good;
}

/* Sample x spatial x channel. */
START_TEST(layouts)
{
    static const int grids[][3] = {{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {1, 3, 2},
                                   {1, 1, 5}, {1, 7, 1}, {2, 1, 1}, {3, 1, 1},
                                   {5, 1, 1}, {2, 2, 1}, {3, 1, 2}, {2, 2, 3}};
    begin(networks[_i], 5, true, 2);
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++)
        for (int channels = 1; channels <= 3; channels++) {
            ls_layout layout = net_layout(grids[g][0], grids[g][1], grids[g][2], channels);
            layout.overlap = g % 2 == 1;
            if (legal(&layout)) net_run_layout(&run, &layout);
        }
    net_run_end(&run);
}
END_TEST

/* Running statistics as constants; nothing is dropped. */
START_TEST(evaluation)
{
    static const int grids[][3] = {{1, 2, 1}, {2, 1, 2}, {4, 1, 1}};
    begin(networks[_i], 4, false, 1);
    for (size_t g = 0; g < 3; g++) {
        const ls_layout layout = net_layout(grids[g][0], grids[g][1], grids[g][2], 1);
        net_run_layout(&run, &layout);
    }
    net_run_end(&run);
}
END_TEST

/* Each layer in turn in another grid than those around it, so that every kind is met at both sides
 * of a redistribution. */
START_TEST(strategies)
{
    static const int grids[][4] = {{4, 1, 1, 1}, {1, 4, 1, 1}, {1, 1, 4, 1}, {1, 1, 1, 4},
                                   {2, 1, 2, 1}, {1, 2, 1, 2}, {2, 1, 1, 2}};
    begin(networks[_i], 5, true, 1);
    /* An image of one column is cut by rows. */
    const int across = run.config.net.width == 1 ? 1 : 2, down = 4 / across;
    int tried = 0;
    for (size_t l = 0; l + 1 < run.config.net.count; l++)
        for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
            ls_layout layout = net_layout(1, down, across, 1);
            net_strategy(&layout, (int)l, grids[g][0], grids[g][1], grids[g][2], grids[g][3]);
            if (run.config.net.layers[l + 1].kind != LS_NET_DENSE && l + 2 < run.config.net.count)
                net_strategy(&layout, (int)l + 1, 1, down, across, 1);
            if (!legal(&layout)) continue;
            net_run_layout(&run, &layout);
            tried++;
        }
    ck_assert_int_gt(tried, 3 * (int)run.config.net.count);
    net_run_end(&run);
}
END_TEST

/* Ranks that come late, to exchanges with no buffers. */
START_TEST(random_delays)
{
    begin(networks[_i], 5, true, 2);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const ls_world_options options = {.delay_seed = seed, .delay_max_ns = 200000};
        ls_layout layout = net_layout(2, 2, 1, 1);
        layout.overlap = seed != 2;
        net_run_layout_with(&run, &layout, &options);
    }
    net_run_end(&run);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_kinds", 120);
    tcase_add_loop_test(tcase, layouts, 0, NETWORKS);
    tcase_add_loop_test(tcase, evaluation, 0, NETWORKS);
    tcase_add_loop_test(tcase, strategies, 0, NETWORKS);
    tcase_add_loop_test(tcase, random_delays, 0, NETWORKS);
    return run_tests();
}
