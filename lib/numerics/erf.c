#include "lockstep/numerics/functions.h"

#include "numerics/function_loop.h"
#include "numerics/erf_core.h"

ls_real ls_erf(ls_real x)
{
    return LS_TYPED(ls_erf_core)(x);
}

LS_ISA_TABLE(ls_function_loop, ls_erf_n)

void ls_erf_n(ls_real *y, const ls_real *x, size_t n)
{
    LS_ISA_PICK(ls_erf_n)(y, x, n);
}
