#include "base/thread.h"

#include <string.h>
#include <unistd.h>
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
