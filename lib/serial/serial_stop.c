/* serial_stop.c - between two parts of a step: whether the run is to end. */
#include "serial/serial_parts.h"

ls_status ls_serial_check_stop(const ls_serial *serial)
{
    ls_status status = LS_OK;
    /* A plain int, because a signal handler sets it; read whole and unordered. */
    if (serial->stop && __atomic_load_n(serial->stop, __ATOMIC_RELAXED) != 0)
        LS_FAIL(LS_ERR_INTERRUPTED, "interrupted");
exit:
    return status;
}
