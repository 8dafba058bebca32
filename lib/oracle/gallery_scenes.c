/* gallery_scenes.c - the small models and layouts in which mistakes are made. */
#include "oracle/gallery.h"

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

ls_status ls_gallery_run(const ls_gallery_scene *scene, uint64_t seed, ls_run *ret_run)
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
    config.batch = 4;
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
    run.seed = seed;
    run.seed_given = true;
    run.steps = 2;
    *ret_run = run;
exit:
    return status;
}
