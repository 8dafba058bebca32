#include "check_blocks.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "block_truth.h"
#include "lockstep/base/clock.h"

enum { BLOCKS = 1 << 20, MAX_THREADS = 256 };

typedef struct block_task {
    const tested_function *f;
    uint64_t stride, count; /* blocks 0, stride, ...: count of them */
    atomic_ullong next;     /* the next to take */
    atomic_ullong done;
} block_task;

typedef struct worker {
    pthread_t thread;
    block_task *task;
    block_report report;
} worker;

static int same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void note_error(block_report *report, float x, double error)
{
    if (error > 0.5) {
        if (report->not_rounded < LISTED) report->listed[report->not_rounded] = x;
        report->not_rounded++;
    }
    if (!(error <= report->worst)) {
        report->worst = error;
        report->worst_at = x;
    }
}

static void check_one(const tested_function *f, const block_truth *truth, float x, float y,
                      block_report *report)
{
    if (truth->kind == BLOCK_SAME) {
        note_error(report, x, same_bits(y, truth->same) ? 0.0 : (double)INFINITY);
        return;
    }
    double uncertainty = 0.0, error = 0.5;
    if (truth->kind != BLOCK_DIRECT) error = fabs(block_error(truth, x, y, &uncertainty));
    if (truth->kind == BLOCK_DIRECT || !(fabs(error - 0.5) > uncertainty)) {
        error = exact_error(f, (double)x, (double)y, 24);
        report->by_mpfr++;
    }
    note_error(report, x, error);
}

/* 1 when the series says what MPFR says at x, up to its uncertainty. */
static int series_is_right(const tested_function *f, const block_truth *truth, float x, float y)
{
    if (truth->kind == BLOCK_SAME) return exact_error(f, (double)x, (double)truth->same, 24) < 0.5;
    if (truth->kind == BLOCK_DIRECT) return 1;
    double uncertainty;
    double error = fabs(block_error(truth, x, y, &uncertainty));
    return fabs(error - exact_error(f, (double)x, (double)y, 24)) <= uncertainty;
}

static void check_block(const tested_function *f, uint32_t first, block_report *report)
{
    float x[BLOCK], y[BLOCK], array[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t bits = first + i;
        memcpy(&x[i], &bits, sizeof bits);
        y[i] = f->one_f32(x[i]);
    }
    block_truth truth;
    block_truth_begin(&truth, f, first);
    for (int i = 0; i < BLOCK; i++) check_one(f, &truth, x[i], y[i], report);
    if (!series_is_right(f, &truth, x[0], y[0]) ||
        !series_is_right(f, &truth, x[BLOCK - 1], y[BLOCK - 1])) {
        report->bad_series++;
    }
    if (f->array_f32 != NULL) {
        f->array_f32(array, x, BLOCK);
        for (int i = 0; i < BLOCK; i++) report->array_differs += !same_bits(array[i], y[i]);
    }
    if (f->rising) {
        /* from one argument to the next, away from zero; and from this block to the next one */
        const int negative = first >> 31 != 0;
        float before = y[0];
        for (int i = 1; i <= BLOCK; i++) {
            float next_x =
                i < BLOCK ? x[i] : nextafterf(x[BLOCK - 1], negative ? -INFINITY : INFINITY);
            if (isnan(next_x)) break;
            float now = i < BLOCK ? y[i] : f->one_f32(next_x);
            report->falls += negative ? now > before : now < before;
            before = now;
        }
    }
    report->inputs += BLOCK;
}

static void *work(void *argument)
{
    worker *me = argument;
    block_task *task = me->task;
    for (;;) {
        uint64_t i = atomic_fetch_add(&task->next, 1);
        if (i >= task->count) break;
        check_block(task->f, (uint32_t)(i * task->stride * BLOCK), &me->report);
        atomic_fetch_add(&task->done, 1);
    }
    mpfr_free_cache();
    return NULL;
}

/* Prints how far it is until all is done: in place on a terminal, a line each tenth otherwise. */
static void show_progress(const block_task *task)
{
    const int terminal = isatty(STDERR_FILENO);
    const uint64_t start = ls_clock_ns();
    unsigned tenths = 0;
    for (;;) {
        uint64_t done = atomic_load(&task->done);
        double share = (double)done / (double)task->count;
        double seconds = (double)(ls_clock_ns() - start) * 1e-9;
        double left = share > 0.0 ? seconds / share - seconds : 0.0;
        if (terminal) {
            fprintf(stderr, "\r%-5s %5.1f %%, %4.0f s left  ", task->f->name, 100.0 * share, left);
        } else if ((unsigned)(share * 10.0) > tenths && seconds > 10.0) {
            tenths = (unsigned)(share * 10.0);
            fprintf(stderr, "%s: %u %%, %.0f s left\n", task->f->name, 10 * tenths, left);
        }
        if (done == task->count) break;
        ls_clock_sleep_ns(seconds < 1.0 ? 20000000 : 200000000);
    }
    if (terminal) fprintf(stderr, "\r%40s\r", "");
}

static void merge(block_report *all, const block_report *one)
{
    for (uint64_t i = 0; i < one->not_rounded && i < LISTED; i++) {
        if (all->not_rounded + i < LISTED) all->listed[all->not_rounded + i] = one->listed[i];
    }
    all->inputs += one->inputs;
    all->by_mpfr += one->by_mpfr;
    all->not_rounded += one->not_rounded;
    all->falls += one->falls;
    all->array_differs += one->array_differs;
    all->bad_series += one->bad_series;
    if (!(one->worst <= all->worst)) {
        all->worst = one->worst;
        all->worst_at = one->worst_at;
    }
}

void check_blocks(const tested_function *f, uint64_t stride, int threads, block_report *ret_report)
{
    static worker workers[MAX_THREADS];
    block_task task = {.f = f, .stride = stride, .count = (BLOCKS + stride - 1) / stride};
    int started = 0;
    for (int i = 0; i < threads && i < MAX_THREADS; i++) {
        workers[i] = (worker){.task = &task};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) break;
        started++;
    }
    if (started == 0) { /* no room for a thread: this one works, without progress */
        workers[0] = (worker){.task = &task};
        work(&workers[0]);
    } else {
        show_progress(&task);
    }
    block_report all = {0};
    for (int i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < (started > 0 ? started : 1); i++) merge(&all, &workers[i].report);
    /* The worst one was measured by the series; say it exactly. */
    all.worst = exact_error(f, (double)all.worst_at, (double)f->one_f32(all.worst_at), 24);
    *ret_report = all;
}
