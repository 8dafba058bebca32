/* compare.h - equality and distance of floating-point arrays. */
#ifndef LS_NUMERICS_COMPARE_H
#define LS_NUMERICS_COMPARE_H

#include <stddef.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* What a comparison of two arrays found. Bits decide: +0 and -0 differ; any NaN equals any NaN
 * (rule 1). */
typedef struct ls_difference {
    size_t count;       /* elements that differ          */
    size_t first;       /* index of the first, if any    */
    double left, right; /* its two values              */
    uint64_t ulps;      /* its distance in units in the last place; UINT64_MAX where one is NaN */
    uint64_t max_ulps;
} ls_difference;

/* Compares count elements of LS_F32 or LS_F64; returns 1 when equal. ret_difference may be NULL. */
LS_API int ls_compare_bits(ls_dtype dtype, const void *left, const void *right, size_t count,
                           ls_difference *ret_difference);

/* Distance in ULPs of one pair, 0 for equal bits or two NaNs; +0 and -0 are 1 apart. */
#define ls_ulps LS_TYPED(ls_ulps)
LS_API uint64_t ls_ulps(ls_real left, ls_real right);

/* Distance from the truth: max |x - t| and max |x - t| / max |t|, in binary64; NaN or infinity in x
 * alone gives infinity. */
typedef struct ls_truth_error {
    double max_absolute, relative;
} ls_truth_error;

LS_API void ls_compare_truth(ls_dtype dtype, const void *x, const double *truth, size_t count,
                             ls_truth_error *ret_error);

LS_END_DECLS

#endif
