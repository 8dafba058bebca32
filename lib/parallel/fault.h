/* fault.h - places in the parallel path where a mistake can be switched on, for the gallery.
 *
 * A library that is delivered has none of them: without LS_FAULTS every point is the constant
 * false and the compiler removes what stands behind it. With it, one fault at a time is chosen at
 * run time, by name; LS_FAULT_NONE runs right. */
#ifndef LS_PARALLEL_FAULT_H
#define LS_PARALLEL_FAULT_H

#include <stdbool.h>

typedef enum ls_fault {
    LS_FAULT_NONE = 0,
    LS_FAULT_BIAS_PER_RANK, /* row-cut linear: the bias goes into every rank's part of the sum */
    LS_FAULTS_COUNT
} ls_fault;

#ifdef LS_FAULTS
extern ls_fault ls_fault_chosen; /* set between runs, never during one */
#define ls_faulty(fault) (ls_fault_chosen == (fault))
const char *ls_fault_name(ls_fault fault);
#else
#define ls_faulty(fault) false
#endif

#endif
