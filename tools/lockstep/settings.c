#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "machine.h"
#include "overwrite.h"
#include "shell_quote.h"

enum { SWEEP_STEPS = 3 }; /* many layouts, few steps: each value of the optimizer's state is used */

/* The settings before a word is read: the model's, and everybody's defaults. */
static void set_defaults(settings *s, const command_spec *command, const ls_config *config)
{
    ls_run_defaults(&s->run, config);
    if (command->mark == FOR_DUMP) s->run.steps = 1;
    s->run.world.stop = &stop_wanted;
    s->engine = (int)s->run.engine;
    s->optimizer = (int)s->run.optimizer;
    s->mlp_cut = (int)config->mlp_cut;
    s->schedule = (int)s->run.layout.schedule;
    s->recompute = (int)s->run.layout.recompute;
    s->norm_place = (int)config->norm_place;
    s->dtype = s->run.dtype == LS_F64 ? 1 : 0;
    s->timeout_s = 600;
    s->image_count = DRAWN_IMAGES;
}

static bool given(const settings *s, const char *name)
{
    return ls_options_given(s->options, s->n_options, name);
}

/* What was read as words and numbers becomes what the run is made of. */
static void settle(settings *s, const ls_config *config)
{
    ls_run *run = &s->run;
    /* A model whose heads are not grouped stays so. */
    if (config->kv_heads == config->heads && given(s, "heads") && !given(s, "kv-heads"))
        run->config.kv_heads = run->config.heads;
    run->config.mlp_cut = (ls_mlp_cut)s->mlp_cut;
    if (given(s, "norm")) ls_config_place_norms(&run->config, (ls_norm_place)s->norm_place);
    run->config.batch = run->batch;
    run->layout.schedule = (ls_schedule_kind)s->schedule;
    run->layout.recompute = (ls_recompute)s->recompute;
    s->both_engines = s->engine == 2;
    run->engine = s->engine == 1 ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    run->optimizer = (ls_optimizer)s->optimizer;
    run->dtype = s->dtype == 1 ? LS_F64 : LS_F32;
    run->serial = s->serial;
    run->seed_given = given(s, "seed");
    run->world.timeout_ns = (uint64_t)s->timeout_s * 1000000000u;
}

ls_status settings_check_ranks(const ls_layout *layout)
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

static int kind_of(const ls_config *config)
{
    return config->kind == LS_MODEL_NET ? OF_NETS : OF_TRANSFORMERS;
}

/* Options of the other kind of model. */
static ls_status refuse_other_kind(const settings *s, const command_spec *command,
                                   const ls_config *config)
{
    ls_status status = LS_OK;
    const int kinds = OF_NETS | OF_TRANSFORMERS, own = kind_of(config);
    for (size_t i = 0; i < s->n_options; i++)
        if (s->options[i].given && (s->option_marks[i] & kinds) == (kinds & ~own))
            LS_FAIL(LS_ERR_INPUT,
                    "--%s: is for %s; --model %s is a %s: lockstep %s --model %s --help lists what "
                    "it has",
                    s->options[i].name, own == OF_NETS ? "transformers" : "convolutional networks",
                    ls_show(config->name), own == OF_NETS ? "convolutional network" : "transformer",
                    command->name, ls_show(config->name));
    if (given(s, "images") && given(s, "image-count"))
        LS_FAIL(LS_ERR_INPUT,
                "--image-count: counts images that are drawn; --images %s has its "
                "own; give one of the two",
                ls_show(s->images_folder));
exit:
    return status;
}

/* Integers are no run: nothing trains, nobody talks, nothing is rounded. */
static ls_status refuse_what_integers_lack(const settings *s)
{
    static const char *const options[] = {"steps", "start",    "load",    "dtype",   "gemm",
                                          "trace", "per-rank", "dropout", "no-truth"};
    ls_status status = LS_OK;
    for (size_t i = 0; s->integers && i < sizeof options / sizeof options[0]; i++)
        if (given(s, options[i]))
            LS_FAIL(LS_ERR_INPUT,
                    "--%s: --integers computes linear operations by themselves, once and exactly; "
                    "give one of the two",
                    options[i]);
exit:
    return status;
}

/* A layout is said in one way only. */
static ls_status refuse_two_layouts(const settings *s)
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
        if (given(s, options[i]))
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

static ls_status check_files_to_write(const settings *s)
{
    ls_status status = LS_OK;
    char page[4096];
    LS_TRY(refuse_to_overwrite("save", s->run.save, WRITES_TENSORS));
    LS_TRY(refuse_to_overwrite("trace", s->run.trace, WRITES_TRACE));
    LS_TRY(refuse_to_overwrite("draw", s->draw, WRITES_DRAWING));
    if (s->report != NULL &&
        (size_t)snprintf(page, sizeof page, "%s/index.html", s->report) < sizeof page)
        LS_TRY(refuse_to_overwrite("report", page, WRITES_PAGE));
exit:
    return status;
}

/* Options that are legal in this layout and change nothing: said, in a line each. */
static void note_idle_options(const settings *s, const command_spec *command)
{
    const ls_layout *layout = &s->run.layout;
    const bool whole = layout->down == 1 && layout->across == 1 && layout->n_strategies == 0;
    const struct {
        const char *option;
        bool idle;
        const char *why;
    } rows[] = {
        {"sp", layout->tp == 1, "--tp is 1, there is nothing to share the tokens with"},
        {"gathered-loss", layout->tp == 1, "--tp is 1, every rank has all logits"},
        {"schedule", layout->schedule != LS_INTERLEAVED && layout->micro_batches == 1,
         "with --micro-batches 1 there is one order"},
        {"overlap", whole, "no layer's image is cut, so no halo is under way"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (given(s, rows[i].option) && rows[i].idle)
            fprintf(stderr, "lockstep: note: --%s has no effect: %s\n", rows[i].option,
                    rows[i].why);
    for (size_t i = 0; command->mark == FOR_PLAN && i < s->n_options; i++)
        if (s->options[i].given && (s->option_marks[i] & OF_A_RUN) != 0)
            fprintf(stderr, "lockstep: note: --%s has no effect: plan runs nothing\n",
                    s->options[i].name);
}

/* Behind the help of one kind of model, where that of the other stands. */
static void print_other_kind(const settings *s, const command_spec *command)
{
    if (s->only == OF_NETS)
        printf("\nTransformers have other options, --tp, --pp and --text among them:\n"
               "lockstep %s --model gpt2-nano --help\n",
               command->name);
    else
        printf("\nConvolutional networks have other options, --spatial, --channel and --images "
               "among them:\nlockstep %s --model alexnet-nano --help\n",
               command->name);
}

ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped)
{
    ls_status status = LS_OK;
    ls_config config;
    static const char *const names[] = {"DIR (the folder to write)"};
    ls_words place = {names, 1, &s->directory, command->usage};
    ls_words *words = command->mark == FOR_DUMP ? &place : NULL;
    memset(s, 0, sizeof *s);
    s->model = "gpt2-nano";
    LS_TRY(ls_config_named(s->model, &config));

    /* Read twice: the first time to learn of --model and --help, the second time to put the other
     * options over what that model says. */
    set_defaults(s, command, &config);
    settings_make_table(s, command);
    status = ls_options_parse(s->options, s->n_options, argc, argv, words);
    if (status != LS_OK && words != NULL && asks_for_help(argc, argv)) {
        ls_error_clear(); /* what is missing is what the help is about */
        status = LS_OK;
        s->help = true;
    }
    LS_TRY(status);
    *ret_helped = s->help;
    if (s->help) {
        /* Without what else was given; but the sizes are those of the model that was named. */
        LS_TRY(ls_config_load(s->model, &config));
        memset(s, 0, sizeof *s);
        s->model = "gpt2-nano";
        s->only = kind_of(&config);
        set_defaults(s, command, &config);
        settings_make_table(s, command);
        print_help_head(command);
        ls_options_help(stdout, s->options, s->n_options);
        print_other_kind(s, command);
        print_help_end(command);
        goto exit;
    }
    if (s->run.load != NULL && !given(s, "model")) {
        LS_TRY(ls_config_beside(s->run.load, &s->model_beside));
        if (s->model_beside != NULL) s->model = s->model_beside;
    }
    LS_TRY(ls_config_load(s->model, &config));
    set_defaults(s, command, &config);
    LS_TRY(ls_options_parse(s->options, s->n_options, argc, argv, words));
    LS_TRY(refuse_other_kind(s, command, &config));
    settle(s, &config);
    LS_TRY(layout_words_read(&s->words, &s->run.config, &s->run.layout));

    if (s->names != NULL) {
        if (s->run.save == NULL)
            LS_FAIL(LS_ERR_INPUT, "--names %s: of the tensors of --save, which is not given",
                    ls_show(s->names));
        LS_TRY(ls_names_parse("--names", s->names, &s->run.config, &s->run.names));
    }
    LS_TRY(refuse_two_layouts(s));
    LS_TRY(refuse_what_integers_lack(s));
    if (s->sweep > 0 && !given(s, "steps")) s->run.steps = SWEEP_STEPS;
    if (s->engine > 0 && !ls_engine_available(LS_ENGINE_OPENBLAS))
        LS_FAIL(LS_ERR_INPUT, "--gemm %s: this build has no OpenBLAS; use portable",
                settings_engines[s->engine]);
    if (!ls_engine_available(LS_ENGINE_PLAIN)) s->no_truth = true;
    if (s->engine > 0 || ((command->mark & (FOR_VERIFY | FOR_DUMP)) != 0 && !s->no_truth))
        LS_TRY(ls_engine_check(LS_ENGINE_OPENBLAS));
    LS_TRY(ls_run_check(&s->run));
    if (command->mark != FOR_PLAN) LS_TRY(settings_check_ranks(&s->run.layout));
    /* What is planned need not fit here, nor does it need data; what is given must be good.
     */
    if (command->mark != FOR_PLAN) LS_TRY(machine_holds_model(&s->run));
    if (command->mark != FOR_PLAN || s->text_file != NULL || s->images_folder != NULL)
        LS_TRY(settings_read_data(s));
    LS_TRY(check_files_to_write(s));
    LS_TRY(shell_command_line(command->name, argc, argv, &s->command_line));
    note_idle_options(s, command);
exit:
    if (status != LS_OK) settings_free(s);
    return status;
}

void settings_free(settings *s)
{
    ls_text_free(&s->text);
    ls_images_free(&s->images);
    free(s->command_line);
    free(s->model_beside);
    s->command_line = s->model_beside = NULL;
}

void settings_warn(const settings *s)
{
    char text[1024];
    if (s->run.load != NULL) {
        if (ls_checkpoint_not_finite(s->run.load, text, sizeof text) != LS_OK)
            ls_error_clear(); /* loading it gives the error */
        else if (text[0] != '\0')
            fprintf(stderr, "lockstep: warning: %s\n", text);
    }
    if (s->run.engine != LS_ENGINE_OPENBLAS && !s->both_engines) return;
    const char *warning = ls_engine_warning(LS_ENGINE_OPENBLAS);
    if (*warning != '\0') fprintf(stderr, "lockstep: warning: %s\n", warning);
}
