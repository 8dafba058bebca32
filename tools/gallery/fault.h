/* fault.h - the mistake that is made now. What each is: faults.inc; who makes it: wrap_*.c. */
#ifndef LS_GALLERY_FAULT_H
#define LS_GALLERY_FAULT_H

#include <stdbool.h>

#define LS_SEEDED(name, ...) LS_FAULT_##name,
typedef enum ls_fault {
    LS_FAULT_NONE = 0,
#include "faults.inc"
    LS_FAULTS_COUNT
} ls_fault;
#undef LS_SEEDED

extern ls_fault ls_fault_chosen; /* set between runs, never during one */

static inline bool ls_faulty(ls_fault fault)
{
    return ls_fault_chosen == fault;
}

#endif
