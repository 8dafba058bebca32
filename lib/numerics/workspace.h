/* workspace.h - scratch memory of the calling thread, kept from call to call. */
#ifndef LS_NUMERICS_WORKSPACE_H
#define LS_NUMERICS_WORKSPACE_H

#include <stddef.h>

#include "lockstep/base/status.h"

/* At least `bytes` bytes aligned to 64, contents unspecified, valid until this thread's next call.
 * One buffer per thread: only leaf functions may use it. Small buffers stay with the thread and are
 * freed when it ends; one above 32 MiB is freed by ls_workspace_trim. Errors: LS_ERR_MEMORY.
 * ret_buffer: address of any object pointer. */
ls_status ls_workspace(size_t bytes, void *ret_buffer) LS_MUST_USE;

/* Gives an unusually large buffer back. */
void ls_workspace_trim(void);

#endif
