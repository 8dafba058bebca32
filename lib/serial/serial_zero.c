/* serial_zero.c - gradients that are +0 whatever the parameters: a loss without a term (rule 15).
 */
#include <string.h>

#include "serial/serial_parts.h"

void ls_serial_zero_slot(const ls_slot *slot, int uses)
{
    for (int use = 0; use < uses; use++)
        memset(slot->grad[use], 0, ls_serial_slot_elements(slot) * sizeof *slot->grad[use]);
}

void ls_serial_zero_gradient(const ls_serial *serial, ls_role role)
{
    ls_slot *slot = ls_store_slot(serial->store, role, 0);
    if (slot) ls_serial_zero_slot(slot, 1);
}
