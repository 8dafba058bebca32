/* traced_run.c - a training run that is taken down: beforehand whether its file can be written,
 * afterwards what the serial baseline takes for a step, and the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/new_file.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/show.h"
#include "train/trace_file.h"
#include "train/training.h"
#include "base/allocate.h"

/* Steps of the baseline that are measured. */
enum { MEASURED_STEPS = 3 };

/* However their names are written. A file that is not there yet is known by its folder. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    if (a == NULL || b == NULL) return false;
    if (strcmp(a, b) == 0) return true;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0)
        return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    char folder_a[4096] = ".", folder_b[4096] = ".";
    if (name_a) snprintf(folder_a, sizeof folder_a, "%.*s/", (int)(name_a - a), a);
    if (name_b) snprintf(folder_b, sizeof folder_b, "%.*s/", (int)(name_b - b), b);
    return strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) == 0 &&
           stat(folder_a, &of_a) == 0 && stat(folder_b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

ls_status ls_trace_check(const ls_run *run)
{
    ls_status status = LS_OK;
    ls_new_file *trial = NULL;
    if (run->serial)
        LS_FAIL(LS_ERR_INPUT,
                "--trace %s: --serial knows no ranks that could be traced; give one of the two",
                ls_show(run->trace));
    if (is_same_file(run->save, run->trace))
        LS_FAIL(LS_ERR_INPUT, "--trace %s: --save names the same file; give another",
                ls_show(run->trace));
    if (is_same_file(run->load, run->trace))
        LS_FAIL(LS_ERR_INPUT, "--trace %s: --load names the same file; give another",
                ls_show(run->trace));
    LS_TRY(ls_new_file_create(&trial, run->trace));
exit:
    ls_new_file_destroy(&trial);
    return status;
}

typedef struct stop_watch {
    uint64_t begin_ns, end_ns; /* CPU time of the thread */
} stop_watch;

static ls_status on_begin(void *context, const ls_run *run, const ls_param_table *table,
                          uint64_t first_step)
{
    stop_watch *watch = context;
    (void)run;
    (void)table;
    (void)first_step;
    watch->begin_ns = watch->end_ns = ls_clock_thread_cpu_ns();
    return LS_OK;
}

static ls_status on_step(void *context, const ls_step *step)
{
    stop_watch *watch = context;
    (void)step;
    watch->end_ns = ls_clock_thread_cpu_ns();
    return LS_OK;
}

/* The mean CPU time of a few steps of this training on one thread, of at most as many as were
 * traced. They begin with initial values: what a step takes does not depend on them, and the
 * checkpoint that the run came from may have been saved over since. */
static ls_status measure_serial_step(const ls_run *traced, const ls_param_table *table,
                                     uint64_t traced_steps, uint64_t *ret_ns)
{
    ls_status status = LS_OK;
    ls_train_result result = {0};
    stop_watch watch = {0, 0};
    ls_train_hooks watcher = {&watch, on_begin, NULL, on_step};
    ls_run *run = NULL; /* large for a stack */
    LS_ROOM(run, 1);
    *run = *traced;
    run->serial = true;
    run->load = run->save = run->trace = NULL;
    run->world = (ls_world_options){.stop = traced->world.stop};
    run->steps = traced_steps < MEASURED_STEPS ? traced_steps : MEASURED_STEPS;
    LS_TRY(ls_train_either(run, table, &watcher, &result));
    uint64_t steps = result.last_step - result.first_step;
    *ret_ns = steps > 0 ? (watch.end_ns - watch.begin_ns) / steps : 0;
exit:
    free(run);
    ls_train_result_free(&result);
    return status;
}

ls_status ls_trace_save(const ls_run *run, const ls_param_table *table,
                        const ls_train_result *result, const ls_trace *trace)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &run->layout;
    ls_trace_facts facts = {.pp = layout->pp,
                            .micro_batches = layout->micro_batches,
                            .virtual_stages = layout->virtual_stages,
                            .net = run->config.kind == LS_MODEL_NET,
                            .steps = result->last_step - result->first_step,
                            .wall_ns = result->ns};
    if (facts.net) {
        facts.dp = layout->dp;
        facts.down = layout->down;
        facts.across = layout->across;
        facts.channels = layout->channels;
    }
    snprintf(facts.model, sizeof facts.model, "%s", run->config.name);
    ls_layout_describe(layout, facts.layout, sizeof facts.layout);
    snprintf(facts.schedule, sizeof facts.schedule, "%s", ls_schedule_kind_name(layout->schedule));
    LS_TRY(measure_serial_step(run, table, facts.steps, &facts.serial_step_ns));
    LS_TRY(ls_trace_file_write(run->trace, &facts, layout, ls_trace_log(trace)));
exit:
    return status;
}
