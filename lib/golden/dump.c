/* dump.c - a golden directory, from the first file to the last. */
#include "golden/dump.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "lockstep/comm/trace.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/numerics/digest.h"
#include "golden/dump_parts.h"
#include "base/allocate.h"

/* ---- the run ---- */

static ls_status look(void *context, ls_rank *rank, const ls_view *given)
{
    ls_status status = LS_OK;
    dump *d = context;
    const ls_view view = ls_graph_shape_view(d->graph, given);
    if (d->tensors) LS_TRY(ls_dump_tensors_take(d, ls_rank_index(rank), &view));
    if (d->ranks) LS_TRY(ls_dump_ranks_take(d, rank, &view));
exit:
    return status;
}

static ls_status on_step(void *context, const ls_step *step)
{
    const dump *d = context;
    return ls_dump_advance(d, step->step + 1 - d->first_step, d->steps, "steps");
}

/* What can be wrong before anything is written. */
static ls_status check(const ls_run *run)
{
    ls_status status = LS_OK;
    LS_TRY(ls_run_check(run));
    if (!run->given) LS_TRY(ls_run_check_data(run));
exit:
    return status;
}

static ls_status run_it(dump *d)
{
    ls_status status = LS_OK;
    const ls_train_hooks watcher = {.context = d, .step = on_step};
    ls_train_result result = {0};
    ls_trace *trace = NULL;
    ls_run run = d->run;
    if (d->options->collectives) LS_TRY(ls_trace_create(&trace));
    run.world.trace = trace;
    run.observer = &d->observer;
    LS_TRY(ls_dump_advance(d, 0, d->steps, "steps"));
    LS_TRY(ls_train(&run, &watcher, &result));
    LS_TRY(ls_dump_ranks_number(d));
    if (trace) LS_TRY(ls_dump_write_calls(d, trace));
exit:
    ls_train_result_free(&result);
    ls_trace_destroy(&trace);
    return status;
}

/* The run as it is going to be: what it begins with and its batches are files of the directory. */
static ls_status begin(dump *d, const char *path)
{
    ls_status status = LS_OK;
    LS_TRY(ls_dump_check_place(path));
    LS_TRY(ls_new_folder_create(&d->folder, path));
    LS_TRY(ls_param_table_create(&d->table, &d->run.config));
    LS_TRY(ls_graph_create(&d->graph, d->table, d->run.batch, d->run.config.seq));
    LS_TRY(ls_dump_write_start(d));
    if (d->first_step >= d->run.steps)
        LS_FAIL(LS_ERR_INPUT, "--steps %llu: the run begins at step %llu; ask for more",
                (unsigned long long)d->run.steps, (unsigned long long)d->first_step);
    d->steps = (size_t)(d->run.steps - d->first_step);
    LS_TRY(ls_dump_make_batches(d));
    LS_TRY(ls_dump_write_batches(d));
    LS_TRY(ls_dump_write_masks(d));
exit:
    return status;
}

/* What makes integers apart: one step, whose numbers are drawn, without dropout. */
static ls_status begin_integers(dump *d, const char *path)
{
    ls_status status = LS_OK;
    d->run.config.dropout = 0;
    d->run.dtype = LS_F32;
    d->run.load = NULL;
    d->run.initial = NULL;
    d->run.steps = d->steps = 1;
    LS_TRY(ls_dump_check_place(path));
    LS_TRY(ls_new_folder_create(&d->folder, path));
    LS_TRY(ls_param_table_create(&d->table, &d->run.config));
    LS_TRY(ls_graph_create(&d->graph, d->table, d->run.batch, d->run.config.seq));
exit:
    return status;
}

static ls_status write_everything(dump *d)
{
    ls_status status = LS_OK;
    char *digest = d->summary.digest;
    const ls_dump_options *options = d->options;
    if (options->whole) LS_TRY(ls_dump_tensors_create(d));
    if (options->per_rank) LS_TRY(ls_dump_ranks_create(d));
    LS_TRY(run_it(d));
    if (options->per_rank) LS_TRY(ls_dump_ranks_write(d));
    if (options->whole) {
        LS_TRY(ls_dump_tensors_check(d));
        LS_TRY(ls_dump_tensors_digest(d, digest));
        if (options->truth) LS_TRY(ls_dump_write_truth(d));
        LS_TRY(ls_dump_write_manifest(d, digest));
        LS_TRY(ls_dump_tensors_commit(d));
    }
    LS_TRY(ls_dump_write_order(d, options->whole ? digest : NULL));
exit:
    return status;
}

/* The tensor that is nearest to its bound, or the farthest beyond. */
static void find_worst(dump *d)
{
    ls_dump_summary *summary = &d->summary;
    for (size_t i = 0; i < ls_dump_tensor_count(d); i++) {
        const dump_tensor *t = ls_dump_tensor(d, i);
        if (!isfinite(t->bound) || t->truth_error == 0) continue;
        const double ratio = t->truth_error / t->bound;
        if (!(ratio > summary->worst_ratio)) continue;
        summary->worst_ratio = ratio;
        snprintf(summary->worst_tensor, sizeof summary->worst_tensor, "step%llu/%.130s",
                 (unsigned long long)t->step, t->node->name);
    }
}

static void release(dump *d)
{
    ls_dump_tensors_destroy(d);
    ls_dump_ranks_destroy(d);
    for (size_t i = 0; d->batches && i < d->steps; i++) ls_step_batch_free(&d->batches[i]);
    free(d->batches);
    free(d->given);
    ls_graph_destroy(&d->graph);
    ls_param_table_destroy(&d->table);
    ls_new_folder_destroy(&d->folder);
}

ls_status ls_dump(const ls_run *run, const char *path, const ls_dump_options *options,
                  ls_dump_summary *ret_summary)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_dump_options own = *options;
    dump d = {.options = &own, .run = *run};
    ls_thread_mode_set(&mode);
    d.observer = (ls_observer){&d, look};
    d.run.serial = false; /* which shows nothing */
    d.run.save = d.run.trace = NULL;
    /* Copies that differ are then written down, not compared. */
    d.run.no_digest = true;
    if (run->serial) d.run.layout = ls_layout_serial();
    LS_TRY(check(&d.run));
    if (own.integers) LS_TRY(ls_config_require(&run->config, LS_MODEL_TRANSFORMER, "--integers"));
    if (own.integers) {
        LS_TRY(begin_integers(&d, path));
        LS_TRY(ls_dump_write_integers(&d));
    } else {
        LS_TRY(begin(&d, path));
        LS_TRY(write_everything(&d));
        d.summary.tensors = ls_dump_tensor_count(&d);
        find_worst(&d);
    }
    d.summary.seed = d.run.seed;
    d.summary.first_step = d.first_step;
    LS_TRY(ls_dump_check_place(path)); /* something may have been put there meanwhile */
    LS_TRY(ls_new_folder_commit(d.folder));
    *ret_summary = d.summary;
exit:
    release(&d);
    ls_thread_mode_restore(&mode);
    return status;
}
