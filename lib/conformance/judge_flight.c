/* judge_flight.c - threads for the ranks, and a watch over them that always comes back.
 *
 *     judge's thread ---- watches: done[0], done[1], ... and the clock
 *       `- runner    ---- the backend's run(), or start and join of one thread per rank
 *            |- rank 0    for each case: twice: sleep or not; call; done[0]++
 *            `- rank 1 ...
 *
 * When no rank comes back from a call for the time-out, the runner and the ranks are left behind,
 * together with everything that they may still touch. */
#include "conformance/judge_flight.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/thread.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/show.h"
#include "base/append.h"

static const size_t STACK_BYTES = (size_t)8 << 20;
enum { DELAY_MAX_NS = 200000, LOOK_NS = 20000000 };

typedef struct watched {
    judge_flight flight;
    judge_trial **trials; /* a copy: the caller's list may be gone */
    size_t calls;         /* of each rank */
    pthread_mutex_t mutex;
    pthread_cond_t over_or_go;
    bool over;
    int go; /* 0: wait; 1: run; -1: not all threads exist, end at once */
    int run_result;
    _Atomic size_t failed_at; /* the first call that failed: no rank goes beyond it */
    _Atomic int started[JUDGE_MAX_RANKS];
    atomic_flag stranger_claimed;
    atomic_bool stranger_called; /* once stranger is written; every number can be called */
    int stranger; /* the first call of a rank that does not exist or was already started */
    _Atomic size_t done[JUDGE_MAX_RANKS]; /* calls that came back */
} watched;

/* ---- a rank ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Every third call or so, and in every second case. */
static void delay(const watched *w, int rank, size_t call)
{
    const uint64_t x =
        mixed(w->flight.seed + (uint64_t)rank * 0x9e3779b97f4a7c15u + (uint64_t)call * 0x10001u);
    if (w->flight.ranks > 1 && call / JUDGE_CALLS % 2 == 1 && x % 3 == 0)
        ls_clock_sleep_ns((x >> 8) % DELAY_MAX_NS);
}

static void run_rank(int rank, void *argument)
{
    watched *w = argument;
    const judge_flight *f = &w->flight;
    if (rank < 0 || rank >= f->ranks || atomic_exchange(&w->started[rank], 1) != 0) {
        if (!atomic_flag_test_and_set(&w->stranger_claimed)) {
            w->stranger = rank;
            atomic_store(&w->stranger_called, true);
        }
        return;
    }
    for (size_t call = 0; call < w->calls && call <= atomic_load(&w->failed_at); call++) {
        judge_trial *trial = w->trials[call / JUDGE_CALLS];
        const size_t turn = call % JUDGE_CALLS;
        ls_backend_rank me = {.context = f->context, .rank = rank, .ranks = f->ranks};
        delay(w, rank, call);
        const int result = f->operation->call(f->backend, &me, trial, trial->buffers[turn][rank]);
        trial->result[turn][rank] = result;
        if (result != LS_BACKEND_DONE && result != LS_BACKEND_UNSUPPORTED) {
            me.error[LS_BACKEND_TEXT - 1] = 0;
            memcpy(trial->error[rank], me.error, sizeof me.error);
            int nobody = -1;
            size_t at = atomic_load(&w->failed_at);
            atomic_compare_exchange_strong(&trial->failed_first, &nobody, rank);
            while (call < at && !atomic_compare_exchange_weak(&w->failed_at, &at, call)) {
            }
        }
        atomic_store(&w->done[rank], call + 1);
    }
}

/* ---- threads, where the backend brings none ---- */

typedef struct seat {
    watched *w;
    int rank;
    ls_thread thread;
} seat;

static void *run_seat(void *argument)
{
    seat *s = argument;
    pthread_mutex_lock(&s->w->mutex);
    while (s->w->go == 0) pthread_cond_wait(&s->w->over_or_go, &s->w->mutex);
    const int go = s->w->go;
    pthread_mutex_unlock(&s->w->mutex);
    if (go > 0) run_rank(s->rank, s->w);
    return NULL;
}

static int run_threads(watched *w)
{
    seat seats[JUDGE_MAX_RANKS];
    int started = 0;
    for (; started < w->flight.ranks; started++) {
        seats[started] = (seat){.w = w, .rank = started};
        if (ls_thread_start(&seats[started].thread, STACK_BYTES, run_seat, &seats[started]) !=
            LS_OK)
            break;
    }
    pthread_mutex_lock(&w->mutex);
    w->go = started == w->flight.ranks ? 1 : -1;
    pthread_cond_broadcast(&w->over_or_go);
    pthread_mutex_unlock(&w->mutex);
    for (int r = 0; r < started; r++) ls_thread_join(&seats[r].thread);
    return started == w->flight.ranks ? LS_BACKEND_DONE : LS_BACKEND_FAILED;
}

static void *runner(void *argument)
{
    watched *w = argument;
    const judge_flight *f = &w->flight;
    const int result = f->run != NULL ? f->run(f->context, f->ranks, run_rank, w) : run_threads(w);
    pthread_mutex_lock(&w->mutex);
    w->run_result = result;
    w->over = true;
    pthread_cond_broadcast(&w->over_or_go);
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* ---- the watch ---- */

static size_t calls_done(watched *w)
{
    size_t sum = 0;
    for (int r = 0; r < w->flight.ranks; r++) sum += atomic_load(&w->done[r]);
    return sum;
}

/* Whether the runner ended before no rank came back from a call for the time-out. After a failure
 * the others get a quarter of it. */
static bool wait_for_end(watched *w)
{
    size_t seen = 0;
    uint64_t since = ls_clock_ns();
    pthread_mutex_lock(&w->mutex);
    while (!w->over) {
        ls_condition_wait_ns(&w->over_or_go, &w->mutex, LOOK_NS);
        const size_t now_done = calls_done(w);
        const bool failed = atomic_load(&w->failed_at) != SIZE_MAX;
        if (now_done != seen) seen = now_done, since = ls_clock_ns();
        if (!w->over && ls_clock_ns() - since > w->flight.timeout_ns / (failed ? 4 : 1)) break;
    }
    const bool over = w->over;
    pthread_mutex_unlock(&w->mutex);
    return over;
}

/* "rank 1" or "ranks 0, 2". */
static void list_ranks(const watched *w, const bool *listed, char *text, size_t size)
{
    int n = 0;
    size_t at = 0;
    for (int r = 0; r < w->flight.ranks; r++) n += listed[r];
    at = ls_append(text, size, 0, n == 1 ? "rank" : "ranks");
    for (int r = 0, k = 0; r < w->flight.ranks; r++)
        if (listed[r]) at = ls_append(text, size, at, k++ ? ", %d" : " %d", r);
}

static void describe_hang(watched *w, judge_landing *landing)
{
    const int ranks = w->flight.ranks;
    size_t done[JUDGE_MAX_RANKS], least = SIZE_MAX;
    bool inside[JUDGE_MAX_RANKS] = {false}, beyond[JUDGE_MAX_RANKS] = {false};
    int n_beyond = 0, failing = -1;
    for (int r = 0; r < ranks; r++) {
        done[r] = atomic_load(&w->done[r]);
        if (done[r] < least) least = done[r];
    }
    for (int r = 0; r < ranks; r++) {
        inside[r] = done[r] == least;
        beyond[r] = !inside[r];
        n_beyond += beyond[r];
        if (inside[r] && atomic_load(&w->started[r]) == 0) {
            snprintf(landing->why, sizeof landing->why,
                     "%s, %d ranks: the table's run did not start rank %d beside the others",
                     w->flight.operation->name, ranks, r);
            return;
        }
    }
    if (least >= w->calls) {
        snprintf(landing->why, sizeof landing->why, "%s, %d ranks: run does not end",
                 w->flight.operation->name, ranks);
        return;
    }
    const judge_trial *trial = w->trials[least / JUDGE_CALLS];
    const size_t turn = least % JUDGE_CALLS;
    char in[160], out[160] = "", failure[240] = "";
    list_ranks(w, inside, in, sizeof in);
    if (n_beyond > 0) {
        list_ranks(w, beyond, out, sizeof out);
        for (int r = 0; r < ranks; r++)
            if (beyond[r] && trial->result[turn][r] != LS_BACKEND_DONE) failing = r;
    }
    if (failing >= 0 && trial->result[turn][failing] == LS_BACKEND_UNSUPPORTED)
        snprintf(failure, sizeof failure, "; rank %d says that it is not supported", failing);
    else if (failing >= 0)
        snprintf(failure, sizeof failure, "; rank %d failed: %.200s", failing,
                 ls_show(trial->error[failing]));
    else if (n_beyond > 0)
        snprintf(failure, sizeof failure, "; %s went on", out);
    snprintf(landing->why, sizeof landing->why,
             "%s, %d rank%s, %s, call %zu: %s did not come back%s", w->flight.operation->name,
             ranks, ranks == 1 ? "" : "s", trial->label, turn + 1, in, failure);
}

static const char *plural(const watched *w)
{
    return w->flight.ranks == 1 ? "" : "s";
}

/* What went wrong with the ranks themselves. */
static void describe_run(watched *w, judge_landing *landing)
{
    if (w->run_result != LS_BACKEND_DONE)
        snprintf(landing->why, sizeof landing->why, "%s, %d rank%s: %s", w->flight.operation->name,
                 w->flight.ranks, plural(w),
                 w->flight.run ? "the table's run failed" : "no room for so many threads");
    else if (atomic_load(&w->stranger_called))
        snprintf(landing->why, sizeof landing->why,
                 "%d rank%s: the table's run called rank %d, which does not exist or was already "
                 "started",
                 w->flight.ranks, plural(w), w->stranger);
    for (int r = 0; r < w->flight.ranks && landing->why[0] == 0; r++)
        if (atomic_load(&w->started[r]) == 0)
            snprintf(landing->why, sizeof landing->why,
                     "%d rank%s: the table's run did not call rank %d", w->flight.ranks, plural(w),
                     r);
}

static void watched_free(watched *w)
{
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->over_or_go);
    free(w->trials);
    free(w);
}

ls_status ls_judge_fly(const judge_flight *flight, judge_landing *ret_landing)
{
    ls_status status = LS_OK;
    ls_thread thread;
    judge_landing landing = {.complete = flight->n_trials};
    watched *w = NULL, *made = NULL;
    judge_trial **trials = NULL;
    LS_NEW(made, 1);
    LS_NEW(trials, flight->n_trials);
    for (size_t k = 0; k < flight->n_trials; k++) trials[k] = flight->trials[k];
    LS_TRY(ls_condition_init(&made->over_or_go));
    w = made, made = NULL;
    w->flight = *flight;
    w->flight.trials = NULL;
    w->trials = trials, trials = NULL;
    w->calls = flight->n_trials * JUDGE_CALLS;
    pthread_mutex_init(&w->mutex, NULL);
    atomic_init(&w->failed_at, SIZE_MAX);
    atomic_flag_clear(&w->stranger_claimed);
    atomic_init(&w->stranger_called, false);
    LS_TRY(ls_thread_start(&thread, STACK_BYTES, runner, w));

    if (wait_for_end(w)) {
        ls_thread_join(&thread);
        describe_run(w, &landing);
    } else {
        pthread_detach(thread.handle);
        landing.hung = true;
        describe_hang(w, &landing);
    }
    for (int r = 0; r < flight->ranks; r++) {
        const size_t whole = atomic_load(&w->done[r]) / JUDGE_CALLS;
        if (whole < landing.complete) landing.complete = whole;
    }
    *ret_landing = landing;
exit:
    free(made);
    free(trials);
    if (w != NULL && !(status == LS_OK && landing.hung)) watched_free(w);
    return status;
}
