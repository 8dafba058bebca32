#include "parallel/sharded_net_fixture.h"

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

static const char *const layouts[] = {
    "one rank",
    "spatial 2x1",
    "spatial 1x2",
    "spatial 2x2",
    "spatial 3x1",
    "dp 2",
    "dp 3",
    "dp 5",
    "channel 2",
    "channel 4",
    "dp 2 x spatial 2x2",
    "dp 2 x spatial 2x1 x channel 2",
    "spatial 4x4",
};

START_TEST(plain)
{
    static net_truth t;
    static ls_config config;
    ck_assert_msg(ls_config_from_json("net", PLAIN, &config) == LS_OK, "%s", ls_error_text());
    truth_of(&t, &config, LS_ENGINE_PORTABLE);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        run_layout(&t, layouts[i]);
        char text[128];
        snprintf(text, sizeof text, "%s%soverlap", i ? layouts[i] : "", i ? ", " : "");
        run_layout(&t, text);
    }
    truth_free(&t);
}
END_TEST

START_TEST(named)
{
    static net_truth t;
    static ls_config config;
    const char *names[] = {"alexnet-nano", "resnet-nano"};
    for (int n = 0; n < 2; n++) {
        ck_assert(ls_config_named(names[n], &config) == LS_OK);
        config.batch = 3;
        truth_of(&t, &config, LS_ENGINE_PORTABLE);
        run_layout(&t, "one rank");
        run_layout(&t, "spatial 2x1");
        run_layout(&t, "channel 2");
        run_layout(&t, "dp 2 x spatial 2x2 x channel 2, overlap");
        truth_free(&t);
    }
}
END_TEST

TEST_MAIN("sharded_net", plain, named)
