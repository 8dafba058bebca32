/* widen.h - numbers of a narrower format in a wider one, exactly. */
#ifndef LS_BASE_WIDEN_H
#define LS_BASE_WIDEN_H

#include <stdbool.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* Whether every number of `from` is one of `to`: F16, BF16 and F32 in F32 and F64, F64 in F64. */
LS_API bool ls_widens(ls_dtype from, ls_dtype to);

/* Writes `count` numbers of dtype `from` as dtype `to` (LS_F32 or LS_F64), where ls_widens says so.
 * `values` needs no more alignment than a byte; the arrays may not overlap. Infinities, zeros and
 * subnormals keep their value and sign; a NaN stays one, with its leading bits. */
LS_API void ls_widen(ls_dtype to, void *ret_values, ls_dtype from, const void *values,
                     size_t count);

LS_END_DECLS

#endif
