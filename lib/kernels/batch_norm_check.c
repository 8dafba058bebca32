/* batch_norm_check.c - what batch normalisation cannot be asked for. */
#include "lockstep/kernels/batch_norm.h"

ls_status ls_batch_norm_check(const char *name, size_t count)
{
    if (count >= 2) return LS_OK;
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "%s: %zu values for each channel in the global batch have no variance: "
                           "batch normalisation takes at least 2",
                           name, count);
}
