/* bench_ranks.c - what ranks do together: collectives, and whole training steps. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "job/builtin_text.h"
#include "train/train.h"
#include "base/allocate.h"

/* ---- collectives */

enum { CALLS = 50, MOST_RANKS = 4 };

typedef enum task { BARRIER, ALL_REDUCE, ALL_GATHER, TASKS } task;

typedef struct collective_job {
    task task;
    int ranks;
    size_t count; /* of LS_F32 */
    uint64_t ns;  /* rank 0's, from barrier to barrier */
    float *from, *to;
} collective_job;

static ls_status call(const collective_job *j, ls_group *world, const float *in, float *out)
{
    size_t starts[MOST_RANKS + 1], bounds[MOST_RANKS + 1];
    const size_t ranks = (size_t)j->ranks;
    for (size_t m = 0; m <= ranks; m++) starts[m] = j->count * m / ranks, bounds[m] = m;
    const ls_forest forest = {ranks, bounds};
    switch (j->task) {
    case ALL_REDUCE:
        return ls_all_reduce_forest(world, out, in, j->count, LS_F32, &forest);
    case ALL_GATHER:
        return ls_all_gather(world, out, in, starts, LS_F32);
    default:
        return ls_barrier(world);
    }
}

static ls_status calls(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    collective_job *j = argument;
    ls_group *world = ls_rank_world_group(rank);
    float *in = NULL, *out = NULL;
    LS_NEW(in, j->count + 1);
    LS_NEW(out, j->count + 1);
    LS_TRY(call(j, world, in, out));
    LS_TRY(ls_barrier(world));
    const uint64_t start = ls_clock_ns();
    for (int i = 0; i < CALLS; i++) LS_TRY(call(j, world, in, out));
    LS_TRY(ls_barrier(world));
    if (ls_rank_index(rank) == 0) j->ns = ls_clock_ns() - start;
exit:
    free(in);
    free(out);
    return status;
}

static ls_status copy(void *context)
{
    const collective_job *j = context;
    memcpy(j->to, j->from, j->count * sizeof *j->to);
    return LS_OK;
}

/* The best of the rounds; beside: one thread that copies as many bytes. */
ls_status bench_collectives(bench *b)
{
    static const char *const names[TASKS] = {"barrier", "all-reduce", "all-gather"};
    ls_status status = LS_OK;
    collective_job j = {.count = 1 << 18};
    LS_NEW(j.from, j.count);
    LS_NEW(j.to, j.count);
    bench_times copied;
    LS_TRY(bench_compare(b, BENCH_CPU_TIME, copy, NULL, &j, &copied));
    for (j.ranks = 2; j.ranks <= MOST_RANKS; j.ranks *= 2)
        for (j.task = BARRIER; j.task < TASKS; j.task++) {
            uint64_t best = 0;
            char what[96];
            for (int r = 0; r < b->rounds; r++) {
                LS_TRY(ls_world_run(j.ranks, NULL, calls, &j));
                if (r == 0 || j.ns < best) best = j.ns;
            }
            const double ns = (double)best / CALLS;
            snprintf(what, sizeof what, "%s%s, %d ranks", names[j.task],
                     j.task == BARRIER ? "" : " of 1 MiB", j.ranks);
            LS_TRY(bench_row(b, what, ns * 1e-3, "us", j.task == BARRIER ? 0 : copied.ns / ns,
                             "one thread that copies as much"));
        }
exit:
    free(j.from);
    free(j.to);
    return status;
}

/* ---- steps */

enum { STEPS = 5 };

/* The mean of some steps; not of the whole run, which sets up and digests. */
static ls_status train(ls_run *run, double *ret_per_second)
{
    ls_status status = LS_OK;
    ls_train_result result = {0};
    run->steps = STEPS;
    run->no_digest = true;
    LS_TRY(ls_train(run, NULL, &result));
    const double rate = (double)result.tokens * 1e9 / (double)(result.ns > 0 ? result.ns : 1);
    if (rate > *ret_per_second) *ret_per_second = rate;
exit:
    ls_train_result_free(&result);
    return status;
}

static ls_status model_steps(bench *b, ls_run *run, const char *model, const char *const *layouts,
                             size_t n_layouts, const char *unit)
{
    ls_status status = LS_OK;
    double serial = 0;
    char what[96];
    run->dtype = b->dtype;
    run->serial = true;
    for (int r = 0; r < b->rounds; r++) LS_TRY(train(run, &serial));
    snprintf(what, sizeof what, "%s, serial", model);
    LS_TRY(bench_row(b, what, serial, unit, 0, ""));
    run->serial = false;
    for (size_t i = 0; i < n_layouts; i++) {
        double rate = 0;
        LS_TRY(ls_layout_parse("bench", layouts[i], &run->layout));
        for (int r = 0; r < b->rounds; r++) LS_TRY(train(run, &rate));
        snprintf(what, sizeof what, "%s, %s", model, layouts[i]);
        LS_TRY(bench_row(b, what, rate, unit, rate / serial, "the serial baseline"));
    }
exit:
    return status;
}

ls_status bench_step(bench *b)
{
    static const char *const of_gpt[] = {"tp 2", "dp 2", "pp 2, 2 micro-batches"};
    static const char *const of_net[] = {"dp 2", "spatial 2x1"};
    ls_status status = LS_OK;
    ls_config config;
    ls_run run;
    ls_images images = {0};
    ls_text text = {.count = ls_builtin_text_bytes};
    LS_ROOM(text.bytes, ls_builtin_text_bytes);
    memcpy(text.bytes, ls_builtin_text, ls_builtin_text_bytes);
    LS_TRY(ls_config_named("gpt2-nano", &config));
    ls_run_defaults(&run, &config);
    run.text = &text;
    LS_TRY(model_steps(b, &run, "gpt2-nano", of_gpt, 3, "tokens/s"));
    LS_TRY(ls_config_named("resnet-nano", &config));
    ls_run_defaults(&run, &config);
    const ls_net *net = &config.net;
    LS_TRY(ls_images_draw("bench", 1, 64, net->channels, net->height, net->width,
                          net->classes < LS_DRAWN_CLASSES ? net->classes : LS_DRAWN_CLASSES,
                          &images));
    run.images = &images;
    LS_TRY(model_steps(b, &run, "resnet-nano", of_net, 2, "images/s"));
exit:
    ls_images_free(&images);
    free(text.bytes);
    return status;
}
