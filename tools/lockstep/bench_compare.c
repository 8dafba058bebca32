/* bench_compare.c - two pieces of work timed in turns. */
#include <stdlib.h>

#include "bench.h"

enum { MOST_ROUNDS = 100 };

static const double shortest_ns = 2e7; /* of a timing */

static uint64_t now(bench_clock clock)
{
    return clock == BENCH_CPU_TIME ? ls_clock_thread_cpu_ns() : ls_clock_ns();
}

static ls_status time_calls(bench_clock clock, bench_call *call, void *context, size_t times,
                            double *ret_ns)
{
    ls_status status = LS_OK;
    const uint64_t start = now(clock);
    for (size_t i = 0; i < times; i++) LS_TRY(call(context));
    *ret_ns = (double)(now(clock) - start) / (double)times;
    if (*ret_ns < 1) *ret_ns = 1;
exit:
    return status;
}

/* So many calls that a timing is long enough; the first of them are not counted. */
static ls_status times_of(bench_clock clock, bench_call *call, void *context, size_t *ret_times)
{
    ls_status status = LS_OK;
    double ns = 0;
    size_t times = 1;
    for (; times < 1 << 20; times *= 4) {
        LS_TRY(time_calls(clock, call, context, times, &ns));
        if (ns * (double)times > shortest_ns / 4) break;
    }
    *ret_times = (size_t)(shortest_ns / ns) + 1;
exit:
    return status;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_status bench_compare(const bench *b, bench_clock clock, bench_call *what, bench_call *beside,
                        void *context, bench_times *ret_times)
{
    ls_status status = LS_OK;
    bench_times t = {0, 0, 0};
    double ratio[MOST_ROUNDS], ns = 0, beside_ns = 0;
    size_t times = 1, beside_times = 1;
    const int rounds = b->rounds < MOST_ROUNDS ? b->rounds : MOST_ROUNDS;
    LS_TRY(times_of(clock, what, context, &times));
    if (beside != NULL) LS_TRY(times_of(clock, beside, context, &beside_times));
    for (int r = 0; r < rounds; r++) {
        LS_TRY(time_calls(clock, what, context, times, &ns));
        if (r == 0 || ns < t.ns) t.ns = ns;
        if (beside == NULL) continue;
        LS_TRY(time_calls(clock, beside, context, beside_times, &beside_ns));
        if (r == 0 || beside_ns < t.beside_ns) t.beside_ns = beside_ns;
        ratio[r] = beside_ns / ns;
    }
    if (beside != NULL) {
        qsort(ratio, (size_t)rounds, sizeof *ratio, ascending);
        t.ratio = ratio[rounds / 2];
    }
    *ret_times = t;
exit:
    return status;
}
