/* binary64.h - the functions that binary32 code calls in binary64 too.
 *
 * Rotary angles are made in binary64 whatever the precision of the run (contract rule 2). A source
 * that is compiled for binary32 sees functions.h in binary32 only; these are the other ones. */
#ifndef LS_KERNELS_BINARY64_H
#define LS_KERNELS_BINARY64_H

#include "lockstep/base/api.h"

LS_API double ls_exp_f64(double x);
LS_API double ls_log_f64(double x);
LS_API double ls_sin_f64(double x);
LS_API double ls_cos_f64(double x);

#endif
