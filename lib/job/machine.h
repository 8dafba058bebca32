/* machine.h - what the machine has, so that a job too large for it is refused and not begun. */
#ifndef LS_JOB_MACHINE_H
#define LS_JOB_MACHINE_H

#include "lockstep/pipeline/plan.h"
#include "train/train.h"

/* Bytes of memory; 0 when the system does not say. */
double ls_machine_bytes(void);

/* The plan of a run in its layout. */
ls_status ls_machine_plan(ls_plan **ret_plan, const ls_run *run) LS_MUST_USE;

/* LS_ERR_INPUT when the parameters with gradients and optimizer state are more than the machine's
 * memory. */
ls_status ls_machine_holds_model(const ls_run *run) LS_MUST_USE;

/* LS_ERR_INPUT when what all ranks of the run's layout hold together is. Nothing is said of a
 * serial run. */
ls_status ls_machine_holds_layout(const ls_run *run) LS_MUST_USE;

/* The same for several layouts of one run. */
ls_status ls_machine_holds_layouts(const ls_run *run, const ls_layout *layouts,
                                   size_t count) LS_MUST_USE;

/* LS_ERR_INPUT when the record of a verification, every gradient and parameter of every step, is.
 * truth: a second record, in binary64, is kept next to it. */
ls_status ls_machine_holds_record(const ls_run *run, bool truth) LS_MUST_USE;

#endif
