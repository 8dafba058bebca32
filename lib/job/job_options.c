/* job_options.c - every option of train, verify, plan and dump, a line each. */
#include <assert.h>
#include <stdio.h>

#include "job/job_settings.h"
#include "lockstep/base/show.h"

static const char *const engines[] = {"portable", "openblas", NULL};
static const char *const verified_engines[] = {"portable", "openblas", "both", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};
static const char *const optimizers[] = {"adamw", "sgd", NULL};
static const char *const norm_places[] = {"pre", "post", NULL};
static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", NULL};
static const char *const recomputes[] = {"none", "selective", "layer", "stage", NULL};
static const char *const starts[] = {"telling", "training", NULL};
static const char *const mlp_cuts[] = {"column_first", "row_first", NULL};

/* What --sweep and --layouts say in the help of either kind of model. */
static const char sweep_of_transformers[] =
    "instead of one layout: every legal dp x pp x tp of at most so many ranks, without and with "
    "sp, each with every schedule and micro-batch counts of 1, below, at and above pp and uneven; "
    "recomputation and uneven partitions are dealt out so that every pair of values of any two "
    "axes occurs; 3 steps unless --steps is given";
static const char sweep_of_nets[] =
    "instead of one layout: every legal dp, rows x columns and channels of at most so many ranks, "
    "without and with overlap, and grids of single layers in turn; 3 steps unless --steps is given";
static const char layouts_of_transformers[] =
    "instead of one layout: several, as they are printed, with semicolons between: \"tp 4; dp 2 x "
    "pp 2, 1f1b, 4 micro-batches\"";
static const char layouts_of_nets[] =
    "instead of one layout: several, as they are printed, with semicolons between: \"channel 2; dp "
    "2 x spatial 2x1, overlap, layer 8 4x1x1x1\"";

static const char load_of_transformers[] =
    "safetensors to begin from: saved in any layout, or weights under the names of Hugging Face's "
    "GPT-2, Llama or BERT, of Meta's Llama or of Megatron-LM; one file, its index or its folder";
static const char load_of_nets[] = "safetensors to begin from, saved in any layout";

void ls_job_option_add(ls_job_option_table *table, ls_option option)
{
    assert(table->count < LS_JOB_OPTIONS);
    table->marks[table->count] = 0;
    table->options[table->count++] = option;
}

static void add(ls_job_option_table *table, int action, int only, int marks, ls_option option)
{
    const int kinds = marks & (LS_OF_TRANSFORMERS | LS_OF_NETS);
    if ((action & marks) == 0) return;
    if (only != 0 && kinds != 0 && (kinds & only) == 0) return;
    if (only != 0 && action == LS_JOB_PLAN && (marks & LS_OF_A_RUN) != 0) return;
    ls_job_option_add(table, option);
    table->marks[table->count - 1] = marks;
}

/* The whole table, a line per option. */
void ls_job_options(ls_job_settings *s, int only, ls_job_option_table *table)
{
    ls_run *run = &s->run;
    ls_config *c = &run->config;
    table->count = 0;
#define ADD(marks, option) add(table, s->action, only, marks, option)
    snprintf(s->heading, sizeof s->heading, "Model (the sizes are those of %s)", ls_show(c->name));
    ADD(LS_JOB_ANY, ls_option_heading(s->heading));
    ADD(LS_JOB_ANY, ls_option_string(
                        "model", &s->model, "NAME|FILE.json",
                        "gpt2-nano, gpt2-124m, llama-nano, bert-nano, alexnet-nano, resnet-nano, a "
                        "file of sizes or layers, or Hugging Face's config.json; when not given, "
                        "the one beside what is loaded"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("layers", &c->layers, 1, 4000, "N", "transformer layers"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("d-model", &c->d_model, 1, (size_t)1 << 20, "N", "model width"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("heads", &c->heads, 1, (size_t)1 << 12, "N", "attention heads"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("kv-heads", &c->kv_heads, 1, (size_t)1 << 12, "N",
                       "key and value heads, shared by groups of heads"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("d-ff", &c->d_ff, 1, (size_t)1 << 22, "N", "feed-forward width"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("seq", &c->seq, 1, (size_t)1 << 20, "N", "tokens of a sequence"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_size("vocab", &c->vocab, 1, (size_t)1 << 24, "N", "vocabulary"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_real("dropout", &c->dropout, 0.0, false, 0.99, "X", "dropped share"));
    ADD(LS_JOB_ANY, ls_option_real("label-smoothing", &c->label_smoothing, 0.0, false, 0.99, "X",
                                   "share of the target given to all words or classes"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_choice("norm", &s->norm_place, norm_places,
                         "where norms stand: before attention and MLP, or after the "
                         "residual sums as BERT was published"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_choice("mlp-cut", &s->mlp_cut, mlp_cuts,
                         "which way the MLP's first matrix is cut; row_first is the way "
                         "that Megatron-LM rejects"));

    ADD(LS_JOB_ANY, ls_option_heading("Layout"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_int("tp", &run->layout.tp, 1, 4096, "N", "tensor-parallel ranks"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_flag("sp", &run->layout.sp,
                       "sequence parallelism: norms, dropout and residuals on each rank's "
                       "share of the tokens"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_int("pp", &run->layout.pp, 1, 4096, "N", "pipeline ranks"));
    ADD(LS_JOB_ANY, ls_option_int("dp", &run->layout.dp, 1, 4096, "N", "data-parallel replicas"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_int("micro-batches", &run->layout.micro_batches, 1, 1 << 20, "M",
                      "parts that each replica's sequences are cut into; with 1 a "
                      "pipeline is the naive one, in which one stage works at a time"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_choice("schedule", &s->schedule, schedules,
                         "in which order the pipeline takes up the micro-batches: all "
                         "forward then all backward, one forward one backward, or the "
                         "latter over several virtual stages"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_int("virtual-stages", &run->layout.virtual_stages, 1, LS_MAX_STAGES, "V",
                      "runs of layers per pipeline rank, with --schedule interleaved"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_choice("recompute", &s->recompute, recomputes,
                         "what is computed again backward instead of kept: the attention "
                         "probabilities, all but each layer's input, all but the stage's "
                         "input"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_string("partition", &s->words.partition, "A,B,C",
                         "layers of each of the pp x V stages, in order; as even as can "
                         "be when not given"));
    ADD(LS_JOB_TRAIN, ls_option_flag("serial", &s->serial,
                                     "the baseline instead: one thread that knows no rank"));
    const bool net = only == LS_OF_NETS; /* in a network's --help */
    ADD(LS_JOB_VERIFY, ls_option_int("sweep", &s->sweep, 1, 4096, "RANKS",
                                     net ? sweep_of_nets : sweep_of_transformers));
    ADD(LS_JOB_VERIFY, ls_option_string("layouts", &s->layouts, "LIST",
                                        net ? layouts_of_nets : layouts_of_transformers));

    ADD(LS_JOB_ANY | LS_OF_NETS,
        ls_option_heading("Layout of a convolutional network, beside --dp"));
    ADD(LS_JOB_ANY | LS_OF_NETS, ls_option_string("spatial", &s->words.spatial, "HxW",
                                                  "rows x columns of ranks over an image"));
    ADD(LS_JOB_ANY | LS_OF_NETS,
        ls_option_int("channel", &run->layout.channels, 1, 4096, "N", "channel-parallel ranks"));
    ADD(LS_JOB_ANY | LS_OF_NETS,
        ls_option_flag("overlap", &run->layout.overlap,
                       "computes what needs no neighbour's pixels while these are under "
                       "way"));
    ADD(LS_JOB_ANY | LS_OF_NETS,
        ls_option_string("strategy", &s->words.strategy, "LAYER=SxDxAxC[,LAYER=...]",
                         "another grid of the ranks for a layer and those that read it: "
                         "samples x down x across x channels"));

    ADD(LS_JOB_ANY, ls_option_heading("Run"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_string("text", &s->text_file, "FILE",
                         "text to train on, any bytes; a short one is built in"));
    ADD(LS_JOB_ANY | LS_OF_NETS,
        ls_option_string("images", &s->images_folder, "DIR",
                         "images to train on, DIR/LABEL/FILE in PNG, PGM or PPM; digits and shapes "
                         "are drawn when not given"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN | LS_OF_NETS,
        ls_option_size("image-count", &s->image_count, 1, (size_t)1 << 20, "N",
                       "how many to draw"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN,
        ls_option_u64("steps", &run->steps, 1, UINT32_MAX, "N", "the step to reach"));
    ADD(LS_JOB_ANY, ls_option_size("batch", &run->batch, 1, (size_t)1 << 20, "B",
                                   "sequences or images of a step"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN,
        ls_option_choice("optimizer", &s->optimizer, optimizers, "how to update"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN,
        ls_option_real("lr", &run->lr, 0.0, true, 1000.0, "X", "learning rate"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_real("lr-floor", &run->lr_floor, 0.0, false, 1000.0,
                                                 "X", "where the cosine ends"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_u64("lr-total", &run->lr_total, 0, UINT32_MAX, "N",
                                                "the step where the cosine ends; 0: no cosine"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN,
        ls_option_u64("warmup", &run->warmup, 0, UINT32_MAX, "N", "steps in which the rate rises"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_real("beta1", &run->beta1, 0.0, false, 0.999999, "X",
                                                 "adamw: decay of the mean; sgd: momentum"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_real("beta2", &run->beta2, 0.0, false, 0.999999, "X",
                                                 "adamw: decay of the mean square"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_real("weight-decay", &run->weight_decay, 0.0, false,
                                                 1000.0, "X", "of matrices, not of vectors"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_real("clip", &run->clip, 0.0, false, 1e9, "X",
                                                 "largest norm of a gradient; 0: not clipped"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN,
        ls_option_u64("seed", &run->seed, 0, UINT64_MAX, "N",
                      "of initial values, dropout and the choice of data"));
    ADD(LS_JOB_TRAIN | LS_JOB_DUMP,
        ls_option_choice("gemm", &s->engine, engines, "engine of the matrix products"));
    ADD(LS_JOB_VERIFY,
        ls_option_choice("gemm", &s->engine, verified_engines, "engine of the matrix products"));
    ADD(LS_JOB_ANY, ls_option_choice("dtype", &s->dtype, dtypes, "precision"));
    ADD(LS_JOB_ANY | LS_OF_TRANSFORMERS,
        ls_option_flag("gathered-loss", &run->gathered_loss,
                       "gathers the logits instead of the vocabulary-parallel loss"));
    ADD(LS_JOB_ANY,
        ls_option_string("load", &run->load, "FILE", net ? load_of_nets : load_of_transformers));
    ADD(LS_JOB_TRAIN,
        ls_option_string("save", &run->save, "FILE", "safetensors to write at the end"));
    ADD(LS_JOB_TRAIN | LS_OF_TRANSFORMERS,
        ls_option_string("names", &s->names, "WHOSE",
                         "of the tensors of --save: own, or bare weights as hf-gpt2, "
                         "hf-llama, hf-bert, hf for the one that fits, meta-llama, "
                         "megatron, megatron-core"));
    ADD(LS_JOB_TRAIN,
        ls_option_string("trace", &run->trace, "FILE.json",
                         "what every rank did, for Perfetto or Chrome and for lockstep "
                         "replay; runs a few steps of the baseline too"));
    ADD(LS_JOB_ANY | LS_OF_A_RUN, ls_option_int("timeout", &s->timeout_s, 1, 86400, "SECONDS",
                                                "how long a rank may wait for another"));
    ADD(LS_JOB_DUMP,
        ls_option_choice("start", &s->start, starts,
                         "what the run begins with: weights drawn so that no term vanishes, unless "
                         "they are loaded, and batches changed so that mistakes show; or both as "
                         "train has them"));
    ADD(LS_JOB_DUMP,
        ls_option_flag("integers", &s->integers,
                       "no run: linear operations on small integers, whose results are the same "
                       "in any order of their sums and in f32, f16 and bf16"));
    ADD(LS_JOB_VERIFY | LS_JOB_DUMP,
        ls_option_flag("no-truth", &s->no_truth,
                       "without the binary64 run that says how far the result is from "
                       "the exact one"));

    ADD(LS_JOB_DUMP, ls_option_flag("per-rank", &s->per_rank,
                                    "also what every rank held, and what it handed in and got at "
                                    "every call that crosses ranks, a file each"));
    ADD(LS_JOB_DUMP,
        ls_option_flag("trace", &s->calls,
                       "also every call of a collective and every message, a line each"));
#undef ADD
}
