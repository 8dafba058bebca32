/* net_fixture.h - small convolutional networks, all dimensions different, and batches for them. */
#ifndef LS_TEST_NET_FIXTURE_H
#define LS_TEST_NET_FIXTURE_H

#include "serial/serial_fixture.h"

/* Every kind of layer; even kernels, one-sided padding, dilation, groups; granules that cut
 * unevenly and some without pixels; one output read by three layers, one added to itself. */
#define NET_EVERYTHING                                                                             \
    "{\"name\": \"everything\", \"batch\": 3, \"network\": {\"channels\": 3, \"height\": 9, "      \
    "\"width\": 7, \"classes\": 5, \"row_granules\": 3, \"column_granules\": 4, "                  \
    "\"channel_granules\": 2, \"layers\": ["                                                       \
    "{\"kind\": \"conv\", \"name\": \"a\", \"channels\": 6, \"kernel\": [2, 3], "                  \
    "\"padding\": [1, 0, 0, 2], \"dilation\": [1, 2]},"                                            \
    "{\"kind\": \"response_norm\", \"span\": 3, \"alpha\": 0.1, \"beta\": 0.75, \"k\": 1.5},"      \
    "{\"kind\": \"max_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": [1, 1, 0, 1]},"           \
    "{\"kind\": \"conv\", \"name\": \"b\", \"channels\": 8, \"kernel\": [4, 1], \"groups\": 2, "   \
    "\"padding\": [1, 2, 0, 0], \"bias\": false},"                                                 \
    "{\"kind\": \"batch_norm\", \"eps\": 0.01, \"momentum\": 0.3},"                                \
    "{\"kind\": \"relu\", \"name\": \"r\"},"                                                       \
    "{\"kind\": \"conv\", \"name\": \"c\", \"channels\": 8, \"kernel\": 1},"                       \
    "{\"kind\": \"add\", \"name\": \"d\", \"from\": \"c\", \"beside\": \"r\"},"                    \
    "{\"kind\": \"add\", \"name\": \"e\", \"from\": \"d\", \"beside\": \"b\"},"                    \
    "{\"kind\": \"add\", \"name\": \"f\", \"from\": \"e\", \"beside\": \"r\"},"                    \
    "{\"kind\": \"add\", \"name\": \"g\", \"from\": \"f\", \"beside\": \"f\"},"                    \
    "{\"kind\": \"avg_pool\", \"name\": \"h\", \"kernel\": [3, 2], \"padding\": [0, 1, 1, 0], "    \
    "\"count_padding\": false},"                                                                   \
    "{\"kind\": \"avg_pool\", \"name\": \"i\", \"kernel\": 2, \"stride\": [2, 1], "                \
    "\"padding\": [1, 0, 0, 1]},"                                                                  \
    "{\"kind\": \"dropout\", \"p\": 0.25},"                                                        \
    "{\"kind\": \"dense\", \"channels\": 10},"                                                     \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"dense\", \"channels\": 5, \"bias\": false}]}}"

/* Global pooling; batch norm right at the image and of single pixels; more granules than pixels. */
#define NET_GLOBAL                                                                                 \
    "{\"name\": \"global\", \"batch\": 4, \"label_smoothing\": 0.1, \"network\": {\"channels\": "  \
    "2, \"height\": 5, \"width\": 6, \"classes\": 3, \"row_granules\": 7, "                        \
    "\"column_granules\": 2, \"channel_granules\": 3, \"layers\": ["                               \
    "{\"kind\": \"batch_norm\", \"name\": \"first\"},"                                             \
    "{\"kind\": \"conv\", \"channels\": 9, \"kernel\": [3, 2], \"stride\": [2, 1], "               \
    "\"padding\": [2, 0, 1, 1]},"                                                                  \
    "{\"kind\": \"dropout\", \"p\": 0.5},"                                                         \
    "{\"kind\": \"global_pool\"},"                                                                 \
    "{\"kind\": \"batch_norm\", \"name\": \"last\"},"                                              \
    "{\"kind\": \"dense\", \"channels\": 3}]}}"

enum { NETS = 4, NETS_TINY = 2 };

/* Network number i: the two above, then alexnet-nano and resnet-nano. */
static inline ls_config net_config(size_t i)
{
    static const char *const tiny[] = {NET_EVERYTHING, NET_GLOBAL};
    static const char *const built_in[] = {"alexnet-nano", "resnet-nano"};
    ls_config config;
    if (i < NETS_TINY)
        ck_assert_msg(ls_config_from_json("net", tiny[i], &config) == LS_OK, "%s", ls_error_text());
    else
        ck_assert_int_eq(ls_config_named(built_in[i - NETS_TINY], &config), LS_OK);
    return config;
}

typedef struct net_batch {
    ls_batch batch;
    float *images;
    int32_t *labels;
} net_batch;

static inline net_batch net_batch_of(const ls_config *config, size_t B)
{
    const size_t pixels = config->net.channels * config->net.height * config->net.width;
    net_batch b = {.images = malloc(B * pixels * sizeof *b.images),
                   .labels = malloc(B * sizeof *b.labels)};
    uint64_t state = 31;
    ck_assert(b.images && b.labels);
    for (size_t i = 0; i < B * pixels; i++) b.images[i] = (float)reference_noise(&state);
    for (size_t i = 0; i < B; i++) b.labels[i] = (int32_t)((7 * i + 2) % config->net.classes);
    b.batch = (ls_batch){.B = B,
                         .pixels = pixels,
                         .images = b.images,
                         .labels = b.labels,
                         .seed = 99,
                         .step = 5,
                         .training = true};
    return b;
}

static inline void net_batch_free(net_batch *b)
{
    free(b->images);
    free(b->labels);
}

#endif
