/* gallery_scenes.c - the small models and layouts in which mistakes are made. */
#include <stdio.h>

#include "gallery.h"

const ls_gallery_scene ls_gallery_scenes[LS_SCENES] = {
    [LS_SCENE_GPT_TP2] =
        {.name = "gpt2, tp 2", .model = "gpt2-nano", .tp = 2, .dp = 1, .pp = 1, .micro_batches = 1},
    [LS_SCENE_GPT_TP4_SP] = {.name = "gpt2, tp 4 x sp",
                             .model = "gpt2-nano",
                             .tp = 4,
                             .dp = 1,
                             .pp = 1,
                             .sp = true,
                             .micro_batches = 1},
    [LS_SCENE_GPT_PP2_DP2] = {.name = "gpt2, dp 2 x pp 2, 2 micro-batches",
                              .model = "gpt2-nano",
                              .tp = 1,
                              .dp = 2,
                              .pp = 2,
                              .micro_batches = 2,
                              .schedule = LS_1F1B},
    [LS_SCENE_GPT_RECOMPUTED] = {.name = "gpt2, tp 2, dropout, recomputed",
                                 .model = "gpt2-nano",
                                 .tp = 2,
                                 .dp = 1,
                                 .pp = 1,
                                 .micro_batches = 2,
                                 .recompute = LS_RECOMPUTE_LAYER,
                                 .dropout = 0.2},
    [LS_SCENE_GPT_3D] = {.name = "gpt2, dp 2 x pp 2 x tp 2 x sp, 2 micro-batches",
                         .model = "gpt2-nano",
                         .tp = 2,
                         .dp = 2,
                         .pp = 2,
                         .sp = true,
                         .micro_batches = 2,
                         .schedule = LS_1F1B},
    [LS_SCENE_LLAMA_TP2] = {.name = "llama, tp 2",
                            .model = "llama-nano",
                            .tp = 2,
                            .dp = 1,
                            .pp = 1,
                            .micro_batches = 1},
    [LS_SCENE_LLAMA_TP4_SP] = {.name = "llama, tp 4 x sp",
                               .model = "llama-nano",
                               .tp = 4,
                               .dp = 1,
                               .pp = 1,
                               .sp = true,
                               .micro_batches = 1},
    [LS_SCENE_BERT_TP2] =
        {.name = "bert, tp 2", .model = "bert-nano", .tp = 2, .dp = 1, .pp = 1, .micro_batches = 1},
    [LS_SCENE_BERT_TP2_SP] = {.name = "bert, tp 2 x sp",
                              .model = "bert-nano",
                              .tp = 2,
                              .dp = 1,
                              .pp = 1,
                              .sp = true,
                              .micro_batches = 1},
    [LS_SCENE_NET_SPATIAL] = {.name = "network, spatial 2x2", .grid = "spatial 2x2"},
    /* Three images on one rank, two on the other. */
    [LS_SCENE_NET_SAMPLES] = {.name = "network, dp 2 x spatial 2x1",
                              .grid = "dp 2 x spatial 2x1",
                              .batch = 5},
    [LS_SCENE_NET_CHANNELS] = {.name = "network, spatial 1x2 x channel 2",
                               .grid = "spatial 1x2 x channel 2"},
};

/* Words that repeat, with a letter out of place now and then; bytes twice as large, so that every
 * share of the vocabulary has some. */
static const ls_text *some_text(void)
{
    static unsigned char bytes[6000];
    static ls_text text = {bytes, sizeof bytes};
    static const char words[] = "what one rank holds the other has to ask for and both must agree ";
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] =
            (unsigned char)(2 * (state >> 28 == 0 ? 32 + (state >> 16) % 95
                                                  : (unsigned)words[i % (sizeof words - 1)]));
    }
    return &text;
}

/* ---- a convolutional network ---- */

static ls_net_layer *add_layer(ls_net *net, ls_net_kind kind, const char *name)
{
    ls_net_layer *layer = &net->layers[net->count];
    *layer = (ls_net_layer){.kind = kind, .from = (int)net->count - 1};
    snprintf(layer->name, sizeof layer->name, "%s", name);
    net->count++;
    return layer;
}

/* A window of 3 x 3 with a padding of 1. */
static ls_net_layer *add_window(ls_net *net, ls_net_kind kind, const char *name, size_t stride)
{
    ls_net_layer *layer = add_layer(net, kind, name);
    layer->kernel_h = layer->kernel_w = 3;
    layer->stride_h = layer->stride_w = stride;
    layer->dilation_h = layer->dilation_w = 1;
    layer->pad_top = layer->pad_bottom = layer->pad_left = layer->pad_right = 1;
    return layer;
}

static void add_conv(ls_net *net, const char *name, size_t channels, size_t stride)
{
    ls_net_layer *layer = add_window(net, LS_NET_CONV, name, stride);
    layer->channels = channels;
    layer->groups = 1;
    layer->bias = true;
}

/* The first convolution reads the image, of which every rank has what it needs: mistakes of halos
 * begin at the second. */
static void make_net(ls_net *net)
{
    *net = (ls_net){.channels = 3,
                    .height = 12,
                    .width = 12,
                    .classes = 5,
                    .row_granules = 4,
                    .column_granules = 4,
                    .channel_granules = 2};
    add_conv(net, "conv1", 4, 1);
    ls_net_layer *norm = add_layer(net, LS_NET_BATCH_NORM, "norm1");
    norm->eps = 1e-5;
    norm->momentum = 0.1;
    add_layer(net, LS_NET_RELU, "relu1");
    add_conv(net, "conv2", 6, 1);
    add_layer(net, LS_NET_RELU, "relu2");
    add_window(net, LS_NET_MAX_POOL, "pool", 2);
    add_layer(net, LS_NET_GLOBAL_POOL, "mean");
    ls_net_layer *dense = add_layer(net, LS_NET_DENSE, "dense");
    dense->channels = net->classes;
    dense->bias = true;
}

static ls_status run_of_net(const ls_gallery_scene *scene, ls_run *ret_run)
{
    static ls_images images; /* as long as the program */
    ls_status status = LS_OK;
    ls_config config;
    ls_run run;
    LS_TRY(ls_config_named("resnet-nano", &config));
    snprintf(config.name, sizeof config.name, "gallery-net");
    make_net(&config.net);
    config.batch = scene->batch ? scene->batch : 4;
    LS_TRY(ls_config_check(&config));
    if (!images.pixels)
        LS_TRY(ls_images_draw("the gallery", 7, 40, config.net.channels, config.net.height,
                              config.net.width, config.net.classes, &images));
    ls_run_defaults(&run, &config);
    LS_TRY(ls_layout_parse("the gallery", scene->grid, &run.layout));
    run.images = &images;
    *ret_run = run;
exit:
    return status;
}

/* ---- a transformer ---- */

static ls_status run_of_transformer(const ls_gallery_scene *scene, ls_run *ret_run)
{
    ls_status status = LS_OK;
    ls_config config;
    ls_run run;

    LS_TRY(ls_config_named(scene->model, &config));
    /* Sizes that differ, so that nothing fits in a place that is not its own. */
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = config.kv_heads < 12 ? 2 : 4;
    config.d_model = 24;
    config.d_ff = 40;
    config.seq = 10;
    config.vocab = 263;
    config.batch = scene->batch ? scene->batch : 4;
    config.dropout = scene->dropout;
    LS_TRY(ls_config_check(&config));

    ls_run_defaults(&run, &config);
    run.layout.tp = scene->tp;
    run.layout.dp = scene->dp;
    run.layout.pp = scene->pp;
    run.layout.sp = scene->sp;
    run.layout.micro_batches = scene->micro_batches;
    run.layout.schedule = scene->schedule;
    run.layout.recompute = scene->recompute;
    run.text = some_text();
    *ret_run = run;
exit:
    return status;
}

ls_status ls_gallery_run(const ls_gallery_scene *scene, uint64_t seed, ls_run *ret_run)
{
    ls_status status = LS_OK;
    ls_run run;
    LS_TRY(scene->grid ? run_of_net(scene, &run) : run_of_transformer(scene, &run));
    run.seed = seed;
    run.seed_given = true;
    run.steps = 2;
    *ret_run = run;
exit:
    return status;
}
