#include "lockstep/numerics/functions.h"

#include "numerics/function_loop.h"
#include "numerics/tanh_core.h"

ls_real ls_tanh(ls_real x)
{
    return LS_TYPED(ls_tanh_core)(x);
}

LS_ISA_TABLE(ls_function_loop, ls_tanh_n)

void ls_tanh_n(ls_real *y, const ls_real *x, size_t n)
{
    LS_ISA_PICK(ls_tanh_n)(y, x, n);
}
