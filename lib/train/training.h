/* training.h - the two training loops and what they share; for training_run.c, which picks one. */
#ifndef LS_TRAIN_TRAINING_H
#define LS_TRAIN_TRAINING_H

#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "train/train.h"

/* The loops: the serial baseline, and the ranks of a layout. */
#define ls_train_serial LS_TYPED(ls_train_serial)
ls_status ls_train_serial(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result) LS_MUST_USE;
#define ls_train_layout LS_TYPED(ls_train_layout)
ls_status ls_train_layout(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result) LS_MUST_USE;

/* The one that the run's precision and `serial` ask for. */
ls_status ls_train_either(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result) LS_MUST_USE;

/* Whether the text or the images can feed the model; for a run without given batches. */
ls_status ls_run_check_data(const ls_run *run) LS_MUST_USE;

/* Before a run with `trace`: LS_ERR_INPUT, LS_ERR_IO when the file could not be written. After it:
 * measures the serial baseline and writes the file. */
ls_status ls_trace_check(const ls_run *run) LS_MUST_USE;
ls_status ls_trace_save(const ls_run *run, const ls_param_table *table,
                        const ls_train_result *result, const ls_trace *trace) LS_MUST_USE;

/* The sequences or images first .. first + count of the global batch of one step, with room of
 * their own. */
typedef struct ls_step_batch {
    ls_batch batch;
    int32_t *tokens, *targets;
    int32_t *segments, *lengths, *order; /* masked-token models only */
    float *images;                       /* networks only, as the next */
    int32_t *labels;
} ls_step_batch;

ls_status ls_step_batch_create(ls_step_batch *ret_batch, const ls_run *run, size_t first,
                               size_t count) LS_MUST_USE;
void ls_step_batch_fill(ls_step_batch *batch, const ls_run *run, uint64_t step);
/* Whether run->given, if any, has the batches of all steps from first_step on. */
ls_status ls_run_check_given(const ls_run *run, uint64_t first_step) LS_MUST_USE;
void ls_step_batch_free(ls_step_batch *batch);
/* What a step of the run counts: the tokens of its batch, or the images. */
uint64_t ls_run_tokens(const ls_run *run);

/* What the optimizer does in step `step` (from 0). */
ls_update ls_step_update(const ls_run *run, uint64_t step);

/* Begins a result: everything zero, one report per rank. */
ls_status ls_train_result_begin(ls_train_result *result, int ranks) LS_MUST_USE;
/* Takes in what a step gave. */
void ls_train_result_step(ls_train_result *result, const ls_step *step);
/* Reads a rank's account. */
void ls_rank_report_memory(ls_rank_report *report, const ls_memory *memory);

#endif
