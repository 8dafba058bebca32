/* train.h - a training run: what it is, what one says while it goes on, what is left at the end.
 *
 * One description serves the serial baseline and every layout, in both precisions and with every
 * engine: that is what makes them comparable. */
#ifndef LS_TRAIN_TRAIN_H
#define LS_TRAIN_TRAIN_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/comm/world.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/config.h"
#include "lockstep/model/foreign.h"
#include "lockstep/model/images.h"
#include "lockstep/model/param_table.h"
#include "lockstep/model/text.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/parallel/layout/sharding.h"
#include "lockstep/parallel/hooks/observer.h"
#include "lockstep/partition/layout.h"

/* What a run begins with, handed over in memory: logical tensors in binary64, one per parameter of
 * the table, rounded to the run's precision. */
typedef struct ls_initial {
    uint64_t step; /* done */
    const double *const *values;
    const double *const *moment1, *const *moment2; /* of the optimizer; NULL: all zero */
} ls_initial;

typedef struct ls_run {
    ls_config config;
    ls_layout layout;
    bool serial; /* the baseline: one thread that knows no rank; layout is not read */
    ls_engine engine;
    ls_dtype dtype;          /* LS_F32 or LS_F64 */
    const ls_text *text;     /* of a transformer          */
    const ls_images *images; /* of a convolutional network */
    /* The global batches of steps given[0].step, + 1, ... (first is 0, S the configuration's), in
     * place of what the text or the images give: they may then be NULL. NULL: from these. */
    const ls_batch *given;
    size_t n_given;
    uint64_t seed;   /* of initial values, dropout and data                             */
    bool seed_given; /* else a loaded checkpoint's own seed goes before it              */
    uint64_t steps;  /* the step to reach: a checkpoint goes on from its own */
    size_t batch;    /* sequences or images of the global batch */
    ls_optimizer optimizer;
    double lr, lr_floor;
    uint64_t warmup, lr_total; /* see ls_learning_rate */
    double beta1, beta2, adam_eps, weight_decay;
    double clip;               /* 0: none */
    const char *load;          /* checkpoint to begin from, ours or weights under others' names, see
                                  ls_tensor_set_open; NULL: initial values from the seed */
    const ls_initial *initial; /* to begin from, in place of `load` and of what the seed gives;
                                  NULL: none */
    const char *save;          /* safetensors to write at the end; NULL: none */
    ls_names names;            /* whose names it has: others' hold bare weights */
    const char *trace;  /* file for what every rank did (trace_file.h); NULL: none. The serial
                           baseline then runs a few steps too, to be compared with */
    bool no_digest;     /* leave the result's digest empty: then nothing is gathered at the end, and
                           a run whose replicas differ gets there */
    bool gathered_loss; /* gather the logits instead of the fused vocabulary-parallel loss */
    const ls_observer *observer; /* of every operation of every rank (lockstep/parallel/observer.h);
                          NULL: none. The serial baseline shows nothing */
    ls_world_options world;
} ls_run;

/* The defaults of the command line: adamw, lr 1e-3 (of a network 3e-3), betas 0.9 0.95, eps 1e-8,
 * decay 0.1, clip 1, seed 1234, batch of the configuration, f32, portable. config: not a part of
 * *ret_run. */
void ls_run_defaults(ls_run *ret_run, const ls_config *config);

/* Whether everything but the text (ls_text_check_model) or the images (ls_images_check) fits
 * together: configuration, layout against it,
 * batch, steps. LS_ERR_INPUT: one line with the option, the value and what is allowed. */
ls_status ls_run_check(const ls_run *run) LS_MUST_USE;

typedef enum ls_phase { LS_PHASE_GRADIENT = 0, LS_PHASE_UPDATE } ls_phase;

/* What a step gave. */
typedef struct ls_step {
    uint64_t step; /* 0, 1, ... */
    double loss;
    double norm; /* of the gradient, before clipping */
    double lr;
    uint64_t tokens; /* or images, of a network */
    uint64_t ns;     /* wall time of the step */
} ls_step;

/* Hooks of a training run. Called by one thread at a time (rank 0's, or the serial one), in this
 * order in every step: for each parameter in table order its gradient (after the uses of a tied
 * parameter were added, before clipping), then `step`, then each parameter's new value. Tensors are
 * whole and logical: dims of the table, no padding. Any member may be NULL. A status other than
 * LS_OK ends the run. */
typedef struct ls_train_hooks {
    void *context;
    ls_status (*begin)(void *context, const ls_run *run, const ls_param_table *table,
                       uint64_t first_step);
    ls_status (*tensor)(void *context, uint64_t step, ls_phase phase, const ls_param *param,
                        ls_dtype dtype, const void *values);
    ls_status (*step)(void *context, const ls_step *step);
} ls_train_hooks;

/* What one rank held and sent. */
typedef struct ls_rank_report {
    size_t peak_bytes[LS_MEM_CATEGORIES];
    size_t total_peak_bytes;
    ls_comm_count comm[LS_OP_COUNT];
} ls_rank_report;

typedef struct ls_train_result {
    char digest[65]; /* of all losses of this run, then all parameters in table order (logical
                        rows); empty with run->no_digest */
    uint64_t first_step, last_step; /* steps done before and after */
    double first_loss, last_loss;
    uint64_t ns;     /* of all steps together */
    uint64_t tokens; /* or images */
    int ranks;
    ls_rank_report *rank; /* one per rank */
} ls_train_result;

/* Runs. watcher may be NULL. Errors: what ls_run_check and the check of the text or the images
 * refuse, before anything runs; those of everything below. On failure *ret_result is untouched and
 * no file is left. */
ls_status ls_train(const ls_run *run, const ls_train_hooks *watcher,
                   ls_train_result *ret_result) LS_MUST_USE;
void ls_train_result_free(ls_train_result *result);

/* What is worth a warning about a checkpoint that can be loaded: numbers that are not finite, how
 * many and the first one. *ret_text: "" when all are. Errors: those of ls_tensor_set_open. */
ls_status ls_checkpoint_not_finite(const char *path, char *ret_text, size_t room) LS_MUST_USE;

/* For a signal handler that ends the process at once: removes every file that is not complete. */
void ls_train_abandon_files(void);

#endif
