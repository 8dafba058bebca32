/* workspace.c - scratch memory of the calling thread, kept from call to call.
 *
 * A thread-specific key instead of _Thread_local, because the key's destructor frees the buffer
 * when the thread ends. */
#include "numerics/workspace.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

enum { ALIGNMENT = 64, KEEP_BYTES = 32 << 20 };

typedef struct workspace {
    void *buffer;
    size_t bytes;
} workspace;

static pthread_key_t workspace_key;
static pthread_once_t workspace_once = PTHREAD_ONCE_INIT;
static int workspace_key_error;

static void free_workspace(void *pointer)
{
    workspace *w = pointer;
    free(w->buffer);
    free(w);
}

static void create_key(void)
{
    workspace_key_error = pthread_key_create(&workspace_key, free_workspace);
}

ls_status ls_workspace(size_t bytes, void *ret_buffer)
{
    ls_status status = LS_OK;
    workspace *w;

    pthread_once(&workspace_once, create_key);
    if (workspace_key_error) LS_FAIL(LS_ERR_MEMORY, "no thread-specific key for gemm's workspace");
    w = pthread_getspecific(workspace_key);
    if (!w) {
        LS_NEW(w, 1);
        if (pthread_setspecific(workspace_key, w) != 0) {
            free(w);
            LS_NO_MEMORY("the record of gemm's workspace");
        }
    }
    if (w->bytes < bytes) {
        free(w->buffer);
        *w = (workspace){NULL, 0};
        if (bytes > SIZE_MAX - ALIGNMENT || posix_memalign(&w->buffer, ALIGNMENT, bytes) != 0) {
            w->buffer = NULL;
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for %zu bytes of gemm's workspace",
                    bytes);
        }
        w->bytes = bytes;
    }
    memcpy(ret_buffer, &w->buffer, sizeof w->buffer);

exit:
    return status;
}

void ls_workspace_trim(void)
{
    workspace *w = workspace_key_error ? NULL : pthread_getspecific(workspace_key);
    if (w && w->bytes > KEEP_BYTES) {
        free(w->buffer);
        *w = (workspace){NULL, 0};
    }
}
