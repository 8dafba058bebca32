/* rsqrt.c - 1 / sqrt(x), by the two operations that IEEE 754 itself rounds correctly. */
#include "lockstep/numerics/functions.h"

#include <math.h>

ls_real ls_rsqrt(ls_real x)
{
#ifdef LS_REAL_IS_F64
    return 1.0 / sqrt(x);
#else
    return 1.0f / sqrtf(x);
#endif
}
