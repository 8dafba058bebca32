/* name_nans.h - which NaN a digest and a file have: the one that the contract names (rule 1). */
#ifndef LS_NUMERICS_NAME_NANS_H
#define LS_NUMERICS_NAME_NANS_H

#include "lockstep/base/real.h"

/* Every NaN of count elements becomes 7fc00000, in binary64 7ff8000000000000, in binary16 7e00, in
 * bfloat16 7fc0: which other one an operation returns depends on the order of its operands in the
 * machine's instruction, and so on the layout. values: any alignment. */
void ls_name_nans(ls_dtype dtype, void *values, size_t count);

/* Whether it would change anything. */
int ls_has_other_nans(ls_dtype dtype, const void *values, size_t count);

#endif
