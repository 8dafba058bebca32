/* machine.h - what the machine has, so that a job too large for it is refused and not begun. */
#ifndef LOCKSTEP_MACHINE_H
#define LOCKSTEP_MACHINE_H

#include "settings.h"

/* LS_ERR_INPUT when the parameters with gradients and optimizer state are more than the machine's
 * memory. */
ls_status machine_holds_model(const ls_run *run) LS_MUST_USE;

/* LS_ERR_INPUT when the record of a verification, every gradient and parameter of every step, is.
 * truth: a second record, in binary64, is kept beside it. */
ls_status machine_holds_record(const ls_run *run, bool truth) LS_MUST_USE;

#endif
