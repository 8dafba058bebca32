#include "settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "machine.h"

static const char *const engines[] = {"portable", "openblas", NULL};
static const char *const engines_or_both[] = {"portable", "openblas", "both", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};
static const char *const optimizers[] = {"adamw", "sgd", NULL};
static const char *const norm_places[] = {"pre", "post", NULL};
static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", NULL};
static const char *const recomputes[] = {"none", "selective", "layer", "stage", NULL};
static const char *const starts[] = {"telling", "training", NULL};
enum { SWEEP_STEPS = 3 }; /* many layouts, few steps: each value of the optimizer's state is used */

static const char *const mlp_cuts[] = {"column_first", "row_first", NULL};

static void add(settings *s, const command_spec *command, int marks, ls_option option)
{
    const int kinds = marks & (OF_TRANSFORMERS | OF_NETS);
    if ((command->mark & marks) == 0) return;
    if (s->only != 0 && kinds != 0 && (kinds & s->only) == 0) return;
    assert(s->n_options < MAX_OPTIONS);
    s->option_marks[s->n_options] = marks;
    s->options[s->n_options++] = option;
}

/* The whole table, a line per option. */
static void make_table(settings *s, const command_spec *command)
{
    ls_run *run = &s->run;
    ls_config *c = &run->config;
    s->n_options = 0;
#define ADD(marks, option) add(s, command, marks, option)
    snprintf(s->heading, sizeof s->heading, "Model (the sizes are those of %s)", ls_show(c->name));
    ADD(FOR_ALL, ls_option_heading(s->heading));
    ADD(FOR_ALL, ls_option_string(
                     "model", &s->model, "NAME|FILE.json",
                     "gpt2-nano, gpt2-124m, llama-nano, bert-nano, alexnet-nano, resnet-nano, a "
                     "file of sizes or layers, or Hugging Face's config.json; when not given, "
                     "the one beside what is loaded"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("layers", &c->layers, 1, 4000, "N", "transformer layers"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("d-model", &c->d_model, 1, (size_t)1 << 20, "N", "model width"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("heads", &c->heads, 1, (size_t)1 << 12, "N", "attention heads"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("kv-heads", &c->kv_heads, 1, (size_t)1 << 12, "N",
                       "key and value heads, shared by groups of heads"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("d-ff", &c->d_ff, 1, (size_t)1 << 22, "N", "feed-forward width"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("seq", &c->seq, 1, (size_t)1 << 20, "N", "tokens of a sequence"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_size("vocab", &c->vocab, 1, (size_t)1 << 24, "N", "vocabulary"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_real("dropout", &c->dropout, 0.0, false, 0.99, "X", "dropped share"));
    ADD(FOR_ALL, ls_option_real("label-smoothing", &c->label_smoothing, 0.0, false, 0.99, "X",
                                "share of the target given to all words or classes"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_choice("norm", &s->norm_place, norm_places,
                         "where norms stand: before attention and MLP, or after the "
                         "residual sums as BERT was published"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_choice("mlp-cut", &s->mlp_cut, mlp_cuts,
                         "which way the MLP's first matrix is cut; row_first is the way "
                         "that Megatron-LM rejects"));

    ADD(FOR_ALL, ls_option_heading("Layout"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_int("tp", &run->layout.tp, 1, 4096, "N", "tensor-parallel ranks"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_flag("sp", &run->layout.sp,
                       "sequence parallelism: norms, dropout and residuals on each rank's "
                       "share of the tokens"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_int("pp", &run->layout.pp, 1, 4096, "N", "pipeline ranks"));
    ADD(FOR_ALL, ls_option_int("dp", &run->layout.dp, 1, 4096, "N", "data-parallel replicas"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_int("micro-batches", &run->layout.micro_batches, 1, 1 << 20, "M",
                      "parts that each replica's sequences are cut into; with 1 a "
                      "pipeline is the naive one, in which one stage works at a time"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_choice("schedule", &s->schedule, schedules,
                         "in which order the pipeline takes up the micro-batches: all "
                         "forward then all backward, one forward one backward, or the "
                         "latter over several virtual stages"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_int("virtual-stages", &run->layout.virtual_stages, 1, LS_MAX_STAGES, "V",
                      "runs of layers per pipeline rank, with --schedule interleaved"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_choice("recompute", &s->recompute, recomputes,
                         "what is computed again backward instead of kept: the attention "
                         "probabilities, all but each layer's input, all but the stage's "
                         "input"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_string("partition", &s->words.partition, "A,B,C",
                         "layers of each of the pp x V stages, in order; as even as can "
                         "be when not given"));
    ADD(FOR_TRAIN, ls_option_flag("serial", &s->serial,
                                  "the baseline instead: one thread that knows no rank"));
    ADD(FOR_VERIFY, ls_option_int("sweep", &s->sweep, 0, 4096, "RANKS",
                                  "instead of one layout: every legal dp x pp x tp of at most so "
                                  "many ranks, without and with sp, each with every schedule and "
                                  "micro-batch counts of 1, below, at and above pp and uneven; "
                                  "recomputation and uneven partitions are dealt out so that every "
                                  "pair of values of any two axes occurs; 3 steps unless --steps "
                                  "is given"));
    ADD(FOR_VERIFY, ls_option_string("layouts", &s->layouts, "LIST",
                                     "instead of one layout: several, as they are printed, with "
                                     "semicolons between: \"tp 4; dp 2 x pp 2, 1f1b, 4 "
                                     "micro-batches\""));

    ADD(FOR_ALL | OF_NETS, ls_option_heading("Layout of a convolutional network, beside --dp"));
    ADD(FOR_ALL | OF_NETS, ls_option_string("spatial", &s->words.spatial, "HxW",
                                            "rows x columns of ranks over an image"));
    ADD(FOR_ALL | OF_NETS,
        ls_option_int("channel", &run->layout.channels, 1, 4096, "N", "channel-parallel ranks"));
    ADD(FOR_ALL | OF_NETS,
        ls_option_flag("overlap", &run->layout.overlap,
                       "computes what needs no neighbour's pixels while these are under "
                       "way"));
    ADD(FOR_ALL | OF_NETS,
        ls_option_string("strategy", &s->words.strategy, "LAYER=SxDxAxC[,LAYER=...]",
                         "another grid of the ranks for a layer and those that read it: "
                         "samples x down x across x channels"));

    ADD(FOR_ALL, ls_option_heading("Run"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_string("text", &s->text_file, "FILE",
                         "text to train on, any bytes; a short one is built in"));
    ADD(FOR_ALL | OF_NETS,
        ls_option_string("images", &s->images_folder, "DIR",
                         "images to train on, DIR/LABEL/FILE in PNG, PGM or PPM; digits and shapes "
                         "are drawn when not given"));
    ADD(FOR_ALL | OF_NETS, ls_option_size("image-count", &s->image_count, 1, (size_t)1 << 24, "N",
                                          "how many to draw"));
    ADD(FOR_ALL, ls_option_u64("steps", &run->steps, 1, UINT32_MAX, "N", "the step to reach"));
    ADD(FOR_ALL, ls_option_size("batch", &run->batch, 1, (size_t)1 << 20, "B",
                                "sequences or images of a step"));
    ADD(FOR_ALL, ls_option_choice("optimizer", &s->optimizer, optimizers, "how to update"));
    ADD(FOR_ALL, ls_option_real("lr", &run->lr, 0.0, true, 1000.0, "X", "learning rate"));
    ADD(FOR_ALL, ls_option_real("lr-floor", &run->lr_floor, 0.0, false, 1000.0, "X",
                                "where the cosine ends"));
    ADD(FOR_ALL, ls_option_u64("lr-total", &run->lr_total, 0, UINT32_MAX, "N",
                               "the step where the cosine ends; 0: no cosine"));
    ADD(FOR_ALL,
        ls_option_u64("warmup", &run->warmup, 0, UINT32_MAX, "N", "steps in which the rate rises"));
    ADD(FOR_ALL, ls_option_real("beta1", &run->beta1, 0.0, false, 0.999999, "X",
                                "adamw: decay of the mean; sgd: momentum"));
    ADD(FOR_ALL, ls_option_real("beta2", &run->beta2, 0.0, false, 0.999999, "X",
                                "adamw: decay of the mean square"));
    ADD(FOR_ALL, ls_option_real("weight-decay", &run->weight_decay, 0.0, false, 1000.0, "X",
                                "of matrices, not of vectors"));
    ADD(FOR_ALL, ls_option_real("clip", &run->clip, 0.0, false, 1e9, "X",
                                "largest norm of a gradient; 0: not clipped"));
    ADD(FOR_ALL, ls_option_u64("seed", &run->seed, 0, UINT64_MAX, "N",
                               "of initial values, dropout and the choice of data"));
    ADD(FOR_TRAIN | FOR_DUMP,
        ls_option_choice("gemm", &s->engine, engines, "engine of the matrix products"));
    ADD(FOR_VERIFY,
        ls_option_choice("gemm", &s->engine, engines_or_both, "engine of the matrix products"));
    ADD(FOR_ALL, ls_option_choice("dtype", &s->dtype, dtypes, "precision"));
    ADD(FOR_ALL | OF_TRANSFORMERS,
        ls_option_flag("gathered-loss", &run->gathered_loss,
                       "gathers the logits instead of the vocabulary-parallel loss"));
    ADD(FOR_ALL,
        ls_option_string("load", &run->load, "FILE",
                         "safetensors to begin from: saved in any layout, or weights under "
                         "the names of Hugging Face's GPT-2, Llama or BERT, of Meta's Llama "
                         "or of Megatron-LM; one file, its index or its folder"));
    ADD(FOR_TRAIN, ls_option_string("save", &run->save, "FILE", "safetensors to write at the end"));
    ADD(FOR_TRAIN | OF_TRANSFORMERS,
        ls_option_string("names", &s->names, "WHOSE",
                         "of the tensors of --save: own, or bare weights as hf-gpt2, "
                         "hf-llama, hf-bert, hf for the one that fits, meta-llama, "
                         "megatron, megatron-core"));
    ADD(FOR_TRAIN, ls_option_string("trace", &run->trace, "FILE.json",
                                    "what every rank did, for Perfetto or Chrome and for lockstep "
                                    "replay; runs a few steps of the baseline too"));
    ADD(FOR_ALL, ls_option_int("timeout", &s->timeout_s, 1, 86400, "SECONDS",
                               "how long a rank may wait for another"));
    ADD(FOR_DUMP,
        ls_option_choice("start", &s->start, starts,
                         "what the run begins with: everything drawn so that no term vanishes and "
                         "some targets left out, or as train begins; with --load, what is loaded"));
    ADD(FOR_DUMP,
        ls_option_flag("integers", &s->integers,
                       "no run: linear operations on small integers, whose results are the same "
                       "in any order of their sums and in f32, f16 and bf16"));
    ADD(FOR_VERIFY | FOR_DUMP,
        ls_option_flag("no-truth", &s->no_truth,
                       "without the binary64 run that says how far the result is from "
                       "the exact one"));

    ADD(FOR_ALL, ls_option_heading("Output"));
    ADD(FOR_DUMP, ls_option_flag("per-rank", &s->per_rank,
                                 "also what every rank held, and what it handed in and got at "
                                 "every call that crosses ranks, a file each"));
    ADD(FOR_DUMP, ls_option_flag("trace", &s->calls,
                                 "also every call of a collective and every message, a line each"));
    ADD(FOR_PLAN, ls_option_string("draw", &s->draw, "FILE.svg", "draws the schedule"));
    ADD(FOR_RUN, ls_option_string("report", &s->report, "DIR", "writes DIR/index.html"));
    ADD(FOR_ALL, ls_option_flag("json", &s->json,
                                "one JSON object on standard output, words on standard error"));
    ADD(FOR_ALL, ls_option_flag("help", &s->help, "this text"));
#undef ADD
}

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
static ls_status refuse_other_kind(const settings *s, const ls_config *config)
{
    ls_status status = LS_OK;
    const int kinds = OF_NETS | OF_TRANSFORMERS, own = kind_of(config);
    for (size_t i = 0; i < s->n_options; i++)
        if (s->options[i].given && (s->option_marks[i] & kinds) == (kinds & ~own))
            LS_FAIL(LS_ERR_INPUT, "--%s: is for %s; --model %s is a %s", s->options[i].name,
                    own == OF_NETS ? "transformers" : "convolutional networks",
                    ls_show(config->name),
                    own == OF_NETS ? "convolutional network" : "transformer");
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

/* "lockstep verify --tp 2", with what a shell would need quoted shown in quotes. */
static ls_status write_command_line(settings *s, const command_spec *command, int argc,
                                    const char *const *argv)
{
    ls_status status = LS_OK;
    size_t size = strlen("lockstep ") + strlen(command->name) + 1;
    for (int i = 0; i < argc; i++) size += strlen(ls_show(argv[i])) + 3;
    char *line = malloc(size);
    if (line == NULL) LS_FAIL(LS_ERR_MEMORY, "no memory for the command line");
    size_t used = (size_t)snprintf(line, size, "lockstep %s", command->name);
    for (int i = 0; i < argc; i++) {
        const char *quote = strpbrk(argv[i], " \t\n\"'$&|;<>()*?#~") != NULL ? "'" : "";
        used +=
            (size_t)snprintf(line + used, size - used, " %s%s%s", quote, ls_show(argv[i]), quote);
    }
    s->command_line = line;
exit:
    return status;
}

static bool is_asked_for_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) return true;
    return false;
}

ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped)
{
    ls_status status = LS_OK;
    ls_config config;
    static const char *const names[] = {"DIR"};
    ls_words place = {names, 1, &s->directory};
    ls_words *words = command->mark == FOR_DUMP ? &place : NULL;
    memset(s, 0, sizeof *s);
    s->model = "gpt2-nano";
    LS_TRY(ls_config_named(s->model, &config));

    /* Read twice: the first time to learn of --model and --help, the second time to put the other
     * options over what that model says. */
    set_defaults(s, command, &config);
    make_table(s, command);
    status = ls_options_parse(s->options, s->n_options, argc, argv, words);
    if (status != LS_OK && words != NULL && is_asked_for_help(argc, argv)) {
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
        make_table(s, command);
        printf("lockstep %s%s - %s\n\n", command->name, words != NULL ? " DIR" : "",
               command->summary);
        ls_options_help(stdout, s->options, s->n_options);
        goto exit;
    }
    if (s->run.load != NULL && !given(s, "model")) {
        LS_TRY(ls_config_beside(s->run.load, &s->model_beside));
        if (s->model_beside != NULL) s->model = s->model_beside;
    }
    LS_TRY(ls_config_load(s->model, &config));
    set_defaults(s, command, &config);
    LS_TRY(ls_options_parse(s->options, s->n_options, argc, argv, words));
    LS_TRY(refuse_other_kind(s, &config));
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
                engines_or_both[s->engine]);
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
    LS_TRY(write_command_line(s, command, argc, argv));
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
    if (s->run.engine != LS_ENGINE_OPENBLAS && !s->both_engines) return;
    const char *warning = ls_engine_warning(LS_ENGINE_OPENBLAS);
    if (*warning != '\0') fprintf(stderr, "lockstep: warning: %s\n", warning);
}
