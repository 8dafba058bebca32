/* function_loops.c - exp, tanh and erf over arrays, compiled for each instruction set.
 *
 * A block of fixed size is computed into a buffer and copied out: the compiler then knows that no
 * two elements depend on each other, although y may be x, and turns the loop over the block into
 * vector code. The last, shorter block goes the same way with zeros behind it. Vector code does the
 * operations of the scalar function on each lane, so the bits are the same. */
#include "numerics/function_loop.h"

#include <string.h>

#include "numerics/erf_core.h"
#include "numerics/exp_core.h"
#include "numerics/tanh_core.h"

enum { BLOCK = 32 };

#define LOOP(name, core)                                                                           \
    ls_function_loop LS_ISA_NAME(name);                                                            \
    void LS_ISA_NAME(name)(ls_real * y, const ls_real *x, size_t n)                                \
    {                                                                                              \
        ls_real out[BLOCK];                                                                        \
        for (; n >= BLOCK; n -= BLOCK, x += BLOCK, y += BLOCK) {                                   \
            for (int i = 0; i < BLOCK; i++) out[i] = core(x[i]);                                   \
            memcpy(y, out, sizeof out);                                                            \
        }                                                                                          \
        if (n == 0) return;                                                                        \
        ls_real in[BLOCK] = {0};                                                                   \
        memcpy(in, x, n * sizeof *x);                                                              \
        for (int i = 0; i < BLOCK; i++) out[i] = core(in[i]);                                      \
        memcpy(y, out, n * sizeof *y);                                                             \
    }

LOOP(ls_exp_n, LS_TYPED(ls_exp_core))
LOOP(ls_tanh_n, LS_TYPED(ls_tanh_core))
LOOP(ls_erf_n, LS_TYPED(ls_erf_core))
