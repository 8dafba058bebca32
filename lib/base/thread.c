#include "base/thread.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/base/clock.h"

#ifdef __linux__
#include <sched.h>
#endif

ls_status ls_thread_start(ls_thread *ret_thread, size_t stack_bytes, void *(*function)(void *),
                          void *argument)
{
    ls_status status = LS_OK;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) LS_FAIL(LS_ERR_MEMORY, "cannot prepare a thread: %s", strerror(error));
    error = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (error == 0) error = pthread_create(&ret_thread->handle, &attributes, function, argument);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        LS_FAIL(LS_ERR_MEMORY, "cannot start a thread with a stack of %zu bytes: %s", stack_bytes,
                strerror(error));
exit:
    return status;
}

void ls_thread_join(ls_thread *thread)
{
    pthread_join(thread->handle, NULL);
}

ls_status ls_condition_init(pthread_cond_t *condition)
{
    ls_status status = LS_OK;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__ /* has no such attribute, and waits relative to now */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    const int error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error != 0)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for a condition variable: %s",
                strerror(error));
exit:
    return status;
}

void ls_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns)
{
#ifdef __APPLE__
    const struct timespec nap = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    pthread_cond_timedwait_relative_np(condition, mutex, &nap);
#else
    const uint64_t end = ls_clock_ns() + ns;
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_cond_timedwait(condition, mutex, &until);
#endif
}

int ls_thread_cores(void)
{
#ifdef __linux__
    /* The cores this process may use, which in a container are fewer than the machine has. */
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (int)cores : 1;
}
