#include "comm/waiting.h"

#include <time.h>

#include "base/allocate.h"
#include "comm/abort.h"
#include "comm/deadlock.h"
#include "comm/wait_report.h"
#include "lockstep/base/clock.h"

/* A sleeper is woken; naps end by themselves only to look around: for an abort, Ctrl-C, the
 * time-out, and whether what it waits for can still come. Looking costs a rank time in proportion
 * to all ranks, hence the second number. */
static uint64_t longest_nap_ns(const ls_world *world)
{
    uint64_t by_ranks = (uint64_t)world->n_ranks * 250000;
    return by_ranks > 50000000 ? by_ranks : 50000000;
}

ls_status ls_parking_init(ls_parking *parking)
{
    ls_status status = LS_OK;
    pthread_condattr_t attributes;
    atomic_init(&parking->parked, 0);
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    int error = pthread_cond_init(&parking->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error != 0) LS_NO_MEMORY("a rank's condition variable");
    pthread_mutex_init(&parking->mutex, NULL);
exit:
    return status;
}

void ls_parking_destroy(ls_parking *parking)
{
    pthread_mutex_destroy(&parking->mutex);
    pthread_cond_destroy(&parking->wake);
}

static void wait_for_signal(ls_parking *parking, uint64_t ns)
{
#ifdef __APPLE__
    struct timespec nap = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    pthread_cond_timedwait_relative_np(&parking->wake, &parking->mutex, &nap);
#else
    uint64_t end = ls_clock_ns() + ns;
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_cond_timedwait(&parking->wake, &parking->mutex, &until);
#endif
}

/* Sleeps at most `ns`, unless ready, and returns how long, in ns. What a nap took beyond `ns` does
 * not count: the process was stopped or got no core, and the rank that is waited for could not come
 * either.
 *
 * No wake-up is lost: the sleeper sets `parked`, then looks; the waker makes it ready, then looks
 * at `parked`. All four are sequentially consistent, so at least one of the two sees the other; and
 * the signal cannot come between look and sleep, because the waker needs the mutex. */
static uint64_t park(ls_rank *rank, ls_ready ready, const void *what, uint64_t ns)
{
    uint64_t start = ls_clock_ns();
    ls_parking *parking = &rank->parking;
    pthread_mutex_lock(&parking->mutex);
    atomic_store(&parking->parked, 1);
    if (!ready(what) && !atomic_load(&rank->world->aborted)) wait_for_signal(parking, ns);
    atomic_store(&parking->parked, 0);
    pthread_mutex_unlock(&parking->mutex);
    uint64_t slept = ls_clock_ns() - start;
    return slept < ns ? slept : ns;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` does nothing on most cores */
#endif
}

ls_status ls_wait_until(ls_group *group, ls_call_kind kind, ls_ready ready, const void *what)
{
    ls_status status = LS_OK;
    ls_rank *rank = group->rank;
    for (int i = 0; i < rank->world->spins; i++) {
        if (ready(what)) return LS_OK;
        relax();
    }
    uint64_t longest = longest_nap_ns(rank->world), nap = longest / 32, waited = 0;
    ls_wait_begin(group, kind);
    for (;;) {
        waited += park(rank, ready, what, nap);
        /* In this order: what was made ready before the abort counts as come. */
        int aborted = atomic_load(&rank->world->aborted);
        if (ready(what)) break;
        if (aborted || ls_stop_wanted(rank->world)) LS_TRY(ls_abort_check(rank));
        if (waited >= longest / 2) LS_TRY(ls_deadlock_check(rank));
        if (waited >= rank->world->timeout_ns) LS_TRY(ls_deadlock_timeout(rank, waited));
        if (nap < longest) nap = 2 * nap;
        if (nap > rank->world->timeout_ns - waited) nap = rank->world->timeout_ns - waited;
    }
exit:
    ls_wait_end(group);
    return status == LS_OK ? LS_OK : ls_abort(rank, status);
}
