/* bench_comm - what a barrier, an all-reduce and a message cost, idle and between pieces of work.
 *
 *     bench_comm [ranks ...]        default 2 4 12 64
 *
 * Times are per call, the mean over a run of all ranks. "efficiency" is what remains of the cores
 * when every rank works for the given time (by half more or less, at random) between two barriers:
 * the sum of all work divided by (cores x time passed). On fewer cores than ranks a wait that keeps
 * a core busy shows here, not in the latency. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "lockstep/base/clock.h"
#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"

typedef enum task { BARRIER, ALL_REDUCE, GATHER, PING, WORK } task;

typedef struct job {
    task task;
    int repeats;
    size_t count;        /* elements of F32 */
    uint64_t work_units; /* of a mean piece of work */
    _Atomic uint64_t cpu_ns;
    _Atomic uint64_t begin_ns, end_ns;
} job;

static volatile double sink;

static void work(uint64_t units)
{
    double x = 1;
    for (uint64_t i = 0; i < units; i++) x = x * 1.0000001 + 1e-9;
    sink = x;
}

static ls_status do_task(job *j, ls_group *world, float *in, float *out, uint64_t *state)
{
    size_t starts[4097], bounds[4097];
    int size = ls_group_size(world), r = ls_group_rank(world);
    for (int m = 0; m <= size; m++) {
        starts[m] = j->count * (size_t)m / (size_t)size;
        bounds[m] = (size_t)m;
    }
    ls_forest forest = {(size_t)size, bounds};
    switch (j->task) {
    case BARRIER:
        return ls_barrier(world);
    case ALL_REDUCE:
        return ls_all_reduce_forest(world, out, in, j->count, LS_F32, &forest);
    case GATHER:
        return ls_all_gather(world, out, in, starts, LS_F32);
    case PING: {
        if (r == (size > 1 ? size : 2) - 1) {
            ls_status status = ls_receive(world, 0, 0, in, j->count, LS_F32);
            return status != LS_OK ? status : ls_send(world, 0, 1, in, j->count, LS_F32);
        }
        if (r != 0) return LS_OK;
        ls_status status = ls_send(world, size - 1, 0, in, j->count, LS_F32);
        return status != LS_OK ? status : ls_receive(world, size - 1, 1, in, j->count, LS_F32);
    }
    case WORK: {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        uint64_t before = ls_clock_thread_cpu_ns();
        work(j->work_units / 2 + (*state >> 33) % (j->work_units + 1));
        j->cpu_ns += ls_clock_thread_cpu_ns() - before;
        return ls_barrier(world);
    }
    }
    return LS_OK;
}

static ls_status run(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    ls_group *world = ls_rank_world_group(rank);
    uint64_t state = (uint64_t)ls_rank_index(rank) + 1;
    float *in = calloc(j->count + 1, sizeof *in), *out = calloc(j->count + 1, sizeof *out);
    for (int i = 0; i < 10; i++) LS_TRY(ls_barrier(world));
    if (ls_rank_index(rank) == 0) j->begin_ns = ls_clock_ns();
    for (int i = 0; i < j->repeats; i++) LS_TRY(do_task(j, world, in, out, &state));
    LS_TRY(ls_barrier(world));
    if (ls_rank_index(rank) == 0) j->end_ns = ls_clock_ns();
exit:
    free(in);
    free(out);
    return status;
}

/* Nanoseconds of one call: the best of three runs, since other programs can only add. */
static double measure(int ranks, job j)
{
    double best = 1e300;
    for (int run_number = 0; run_number < 3; run_number++) {
        if (ls_world_run(ranks, NULL, run, &j) != LS_OK) {
            fprintf(stderr, "bench_comm: %s\n", ls_error_text());
            exit(ls_exit_code(LS_ERR_RANK));
        }
        double ns = (double)(j.end_ns - j.begin_ns) / j.repeats;
        if (ns < best) best = ns;
    }
    return best;
}

static double efficiency(int ranks, uint64_t units)
{
    int cores = ls_thread_cores() < ranks ? ls_thread_cores() : ranks;
    double best = 0;
    for (int run_number = 0; run_number < 3; run_number++) {
        job j = {.task = WORK,
                 .repeats = (int)(200000000 / (units * (uint64_t)ranks)) + 1,
                 .work_units = units};
        if (ls_world_run(ranks, NULL, run, &j) != LS_OK) exit(3);
        double part = (double)j.cpu_ns / ((double)(j.end_ns - j.begin_ns) * cores);
        if (part > best) best = part;
    }
    return best;
}

static void table_row(int ranks)
{
    int repeats = 20000 / ranks;
    printf("%5d %9.2f", ranks, measure(ranks, (job){.task = BARRIER, .repeats = repeats}) * 1e-3);
    static const size_t counts[] = {16, 4096, 262144};
    for (int i = 0; i < 3; i++) {
        int n = counts[i] > 100000 ? repeats / 100 + 1 : repeats / 2;
        job j = {.task = ALL_REDUCE, .repeats = n, .count = counts[i]};
        printf(" %9.2f", measure(ranks, j) * 1e-3);
    }
    printf(" %9.2f",
           measure(ranks, (job){.task = GATHER, .repeats = repeats / 2, .count = 4096}) * 1e-3);
    if (ranks > 1)
        printf(" %9.2f",
               measure(ranks, (job){.task = PING, .repeats = repeats, .count = 16}) * 0.5e-3);
    else
        printf(" %9s", "-");
    printf(" %8.2f %8.2f %8.2f\n", efficiency(ranks, 10000), efficiency(ranks, 100000),
           efficiency(ranks, 1000000));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int usual[] = {2, 4, 12, 64};
    printf("%d cores; microseconds per call\n", ls_thread_cores());
    printf("ranks   barrier  reduce16  reduce4k reduce256k gather4k message16   eff10k  eff100k   "
           "eff1M\n");
    if (argc < 2)
        for (int i = 0; i < 4; i++) table_row(usual[i]);
    for (int i = 1; i < argc; i++) {
        int ranks = atoi(argv[i]);
        if (ranks < 1 || ranks > 4096) {
            fprintf(stderr, "bench_comm: %s: a number of ranks is 1 to 4096\n", argv[i]);
            return 2;
        }
        table_row(ranks);
    }
    return 0;
}
