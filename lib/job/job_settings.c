/* job_settings.c - what a job is asked to do, from words to a run that is checked. */
#include "job/job_settings.h"

#include <stdlib.h>
#include <string.h>

#include "job/machine.h"
#include "lockstep/base/show.h"
#include "lockstep/comm/world.h"

enum { SWEEP_STEPS = 3 }; /* many layouts, few steps: each value of the optimizer's state is used */

static const char *const names_of_actions[] = {
    [LS_JOB_TRAIN] = "train",
    [LS_JOB_VERIFY] = "verify",
    [LS_JOB_PLAN] = "plan",
    [LS_JOB_DUMP] = "dump",
};

static bool given(const ls_job_option_table *table, const char *name)
{
    return ls_options_given(table->options, table->count, name);
}

int ls_job_kind_of(const ls_config *config)
{
    return config->kind == LS_MODEL_NET ? LS_OF_NETS : LS_OF_TRANSFORMERS;
}

/* Before a word is read: the model's sizes, and the defaults of everything else. */
static void set_defaults(ls_job_settings *s)
{
    const ls_config *config = &s->config;
    const volatile int *stop = s->run.world.stop;
    ls_run_defaults(&s->run, config);
    s->run.world.stop = stop;
    if (s->action == LS_JOB_DUMP) s->run.steps = 1;
    s->engine = (int)s->run.engine;
    s->optimizer = (int)s->run.optimizer;
    s->mlp_cut = (int)config->mlp_cut;
    s->schedule = (int)s->run.layout.schedule;
    s->recompute = (int)s->run.layout.recompute;
    s->norm_place = (int)config->norm_place;
    s->dtype = s->run.dtype == LS_F64 ? 1 : 0;
    s->timeout_s = 600;
    s->image_count = LS_DRAWN_IMAGES;
}

ls_status ls_job_settings_begin(ls_job_settings *s, int action)
{
    ls_status status = LS_OK;
    memset(s, 0, sizeof *s);
    s->action = action;
    s->model = "gpt2-nano";
    LS_TRY(ls_config_named(s->model, &s->config));
    set_defaults(s);
exit:
    return status;
}

ls_status ls_job_settings_load(ls_job_settings *s, const ls_job_option_table *table)
{
    ls_status status = LS_OK;
    if (s->run.load != NULL && !given(table, "model")) {
        LS_TRY(ls_config_beside(s->run.load, &s->model_beside));
        if (s->model_beside != NULL) s->model = s->model_beside;
    }
    LS_TRY(ls_config_load(s->model, &s->config));
    set_defaults(s);
exit:
    return status;
}

/* What was read as words and numbers becomes what the run is made of. */
static void settle(ls_job_settings *s, const ls_job_option_table *table)
{
    const ls_config *config = &s->config;
    ls_run *run = &s->run;
    /* A model whose heads are not grouped stays so. */
    if (config->kv_heads == config->heads && given(table, "heads") && !given(table, "kv-heads"))
        run->config.kv_heads = run->config.heads;
    run->config.mlp_cut = (ls_mlp_cut)s->mlp_cut;
    if (given(table, "norm")) ls_config_place_norms(&run->config, (ls_norm_place)s->norm_place);
    run->config.batch = run->batch;
    run->layout.schedule = (ls_schedule_kind)s->schedule;
    run->layout.recompute = (ls_recompute)s->recompute;
    s->both_engines = s->engine == 2;
    run->engine = s->engine == 1 ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    run->optimizer = (ls_optimizer)s->optimizer;
    run->dtype = s->dtype == 1 ? LS_F64 : LS_F32;
    run->serial = s->serial;
    run->seed_given = given(table, "seed");
    run->world.timeout_ns = (uint64_t)s->timeout_s * 1000000000u;
}

ls_status ls_job_check_ranks(const ls_layout *layout)
{
    ls_status status = LS_OK;
    const long long pixels = (long long)layout->down * layout->across * layout->channels;
    const long long ranks = pixels * layout->dp * layout->pp * layout->tp;
    if (ranks <= LS_MAX_RANKS) return LS_OK;
    if (pixels > 1)
        LS_FAIL(LS_ERR_INPUT,
                "--dp %d, --spatial %dx%d, --channel %d: %lld ranks; at most %d can run",
                layout->dp, layout->down, layout->across, layout->channels, ranks, LS_MAX_RANKS);
    LS_FAIL(LS_ERR_INPUT, "--dp %d, --pp %d, --tp %d: %lld ranks; at most %d can run", layout->dp,
            layout->pp, layout->tp, ranks, LS_MAX_RANKS);
exit:
    return status;
}

/* Options of the other kind of model. */
static ls_status refuse_other_kind(const ls_job_settings *s, const ls_job_option_table *table)
{
    ls_status status = LS_OK;
    const ls_config *config = &s->config;
    const int kinds = LS_OF_NETS | LS_OF_TRANSFORMERS, own = ls_job_kind_of(&s->config);
    for (size_t i = 0; i < table->count; i++)
        if (table->options[i].given && (table->marks[i] & kinds) == (kinds & ~own))
            LS_FAIL(LS_ERR_INPUT,
                    "--%s: is for %s; --model %s is a %s: lockstep %s --model %s --help lists what "
                    "it has",
                    table->options[i].name,
                    own == LS_OF_NETS ? "transformers" : "convolutional networks",
                    ls_show(config->name),
                    own == LS_OF_NETS ? "convolutional network" : "transformer",
                    names_of_actions[s->action], ls_show(config->name));
    if (given(table, "images") && given(table, "image-count"))
        LS_FAIL(LS_ERR_INPUT,
                "--image-count: counts images that are drawn; --images %s has its "
                "own; give one of the two",
                ls_show(s->images_folder));
exit:
    return status;
}

/* Integers are no run: nothing trains, no rank communicates, nothing is rounded. */
static ls_status refuse_what_integers_lack(const ls_job_settings *s,
                                           const ls_job_option_table *table)
{
    static const char *const options[] = {"steps", "start",    "load",    "dtype",   "gemm",
                                          "trace", "per-rank", "dropout", "no-truth"};
    ls_status status = LS_OK;
    for (size_t i = 0; s->integers && i < sizeof options / sizeof options[0]; i++)
        if (given(table, options[i]))
            LS_FAIL(LS_ERR_INPUT,
                    "--%s: --integers computes linear operations by themselves, once and exactly; "
                    "give one of the two",
                    options[i]);
exit:
    return status;
}

/* A layout is said in one way only. */
static ls_status refuse_two_layouts(const ls_job_settings *s, const ls_job_option_table *table)
{
    static const char *const options[] = {"tp",        "sp",        "pp",
                                          "dp",        "schedule",  "micro-batches",
                                          "recompute", "partition", "virtual-stages",
                                          "spatial",   "channel",   "overlap",
                                          "strategy"};
    ls_status status = LS_OK;
    const char *other = s->serial            ? "--serial knows no ranks"
                        : s->layouts != NULL ? "--layouts says whole layouts"
                        : s->sweep > 0       ? "--sweep goes through every layout"
                                             : NULL;
    if (s->sweep > 0 && s->layouts != NULL)
        LS_FAIL(LS_ERR_INPUT,
                "--layouts: --sweep %d goes through every layout; give one of the "
                "two",
                s->sweep);
    for (size_t i = 0; other != NULL && i < sizeof options / sizeof options[0]; i++)
        if (given(table, options[i]))
            LS_FAIL(LS_ERR_INPUT, "--%s: %s; give one of the two", options[i], other);
    /* Legal, and 1F1B under another name: not what was asked for. */
    if (s->run.config.kind == LS_MODEL_TRANSFORMER && s->run.layout.schedule == LS_INTERLEAVED &&
        s->run.layout.virtual_stages == 1) {
        size_t most = s->run.config.layers / (size_t)s->run.layout.pp;
        if (most < 2)
            LS_FAIL(LS_ERR_INPUT,
                    "--schedule interleaved: --layers %zu on --pp %d leaves 1 virtual stage per "
                    "rank at most, which is 1f1b; use --schedule 1f1b",
                    s->run.config.layers, s->run.layout.pp);
        LS_FAIL(LS_ERR_INPUT,
                "--schedule interleaved: with 1 virtual stage per rank it is 1f1b; use "
                "--virtual-stages 2%s or --schedule 1f1b",
                most > 2 ? " or more," : "");
    }
exit:
    return status;
}

/* Whether the engines that are asked for are there. */
static ls_status check_engines(ls_job_settings *s)
{
    ls_status status = LS_OK;
    if (s->engine > 0 && !ls_engine_available(LS_ENGINE_OPENBLAS))
        LS_FAIL(LS_ERR_INPUT, "--gemm %s: this build has no OpenBLAS; use portable",
                s->engine == 2 ? "both" : "openblas");
    if (!ls_engine_available(LS_ENGINE_PLAIN)) s->no_truth = true;
    if (s->engine > 0 || ((s->action & (LS_JOB_VERIFY | LS_JOB_DUMP)) != 0 && !s->no_truth))
        LS_TRY(ls_engine_check(LS_ENGINE_OPENBLAS));
exit:
    return status;
}

ls_status ls_job_settings_finish(ls_job_settings *s, const ls_job_option_table *table)
{
    ls_status status = LS_OK;
    const bool runs = s->action != LS_JOB_PLAN;
    LS_TRY(refuse_other_kind(s, table));
    settle(s, table);
    LS_TRY(ls_layout_words_read(&s->words, &s->run.config, &s->run.layout));
    if (s->names != NULL) {
        if (s->run.save == NULL)
            LS_FAIL(LS_ERR_INPUT, "--names %s: of the tensors of --save, which is not given",
                    ls_show(s->names));
        LS_TRY(ls_names_parse("--names", s->names, &s->run.config, &s->run.names));
    }
    LS_TRY(refuse_two_layouts(s, table));
    LS_TRY(refuse_what_integers_lack(s, table));
    if (s->sweep > 0 && !given(table, "steps")) s->run.steps = SWEEP_STEPS;
    LS_TRY(check_engines(s));
    LS_TRY(ls_run_check(&s->run));
    /* What is planned need not fit here, nor does it need data; what is given must be good. */
    if (runs) LS_TRY(ls_job_check_ranks(&s->run.layout));
    if (runs) LS_TRY(ls_machine_holds_model(&s->run));
    if (runs || s->text_file != NULL || s->images_folder != NULL) LS_TRY(ls_job_read_data(s));
exit:
    return status;
}

void ls_job_settings_free(ls_job_settings *s)
{
    ls_text_free(&s->text);
    ls_images_free(&s->images);
    free(s->model_beside);
    s->model_beside = NULL;
}
