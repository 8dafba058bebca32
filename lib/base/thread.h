/* thread.h - starting threads with a stack of known size, and waiting for a limited time.
 *
 * The default stack of a thread is 8 MiB under glibc, 512 KiB under macOS and 128 KiB under musl;
 * ranks get the same everywhere. */
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/status.h"

typedef struct ls_thread {
    pthread_t handle;
} ls_thread;

/* Starts function(argument) in a thread with a stack of stack_bytes (a multiple of 64 KiB).
 * Errors: LS_ERR_MEMORY, the system has no room for another thread. */
ls_status ls_thread_start(ls_thread *ret_thread, size_t stack_bytes, void *(*function)(void *),
                          void *argument) LS_MUST_USE;

/* Waits for its end and gives its resources back. */
void ls_thread_join(ls_thread *thread);

/* A condition variable whose waits do not depend on the clock of the day, which can be set.
 * Errors: LS_ERR_MEMORY. */
ls_status ls_condition_init(pthread_cond_t *condition) LS_MUST_USE;

/* Waits for a signal, but at most for ns nanoseconds; the caller holds the mutex. */
void ls_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns);

/* How many threads of this process can run at once: at least 1. */
int ls_thread_cores(void);

#endif
