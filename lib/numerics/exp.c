#include "lockstep/numerics/functions.h"

#include "numerics/function_loop.h"
#include "numerics/exp_core.h"

ls_real ls_exp(ls_real x)
{
    return LS_TYPED(ls_exp_core)(x);
}

LS_ISA_TABLE(ls_function_loop, ls_exp_n)

void ls_exp_n(ls_real *y, const ls_real *x, size_t n)
{
    LS_ISA_PICK(ls_exp_n)(y, x, n);
}
