/* function_loop.h - the type of a loop y[i] = f(x[i]), i < n, where y may be x. */
#ifndef LS_NUMERICS_FUNCTION_LOOP_H
#define LS_NUMERICS_FUNCTION_LOOP_H

#include <stddef.h>

#include "numerics/isa_build.h"

typedef void ls_function_loop(ls_real *y, const ls_real *x, size_t n);

#endif
