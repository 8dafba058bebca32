/* pixel_run.h - runs of pixels copied and zeroed: a rectangle is often a few pixels wide, for which
 * a call of memcpy costs more than the copy. */
#ifndef LS_KERNELS_PIXEL_RUN_H
#define LS_KERNELS_PIXEL_RUN_H

#include <string.h>

#include "lockstep/base/real.h"

static inline void ls_copy_pixel_run(ls_real *restrict to, const ls_real *restrict from, size_t n)
{
    if (n >= 16) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    if (n & 8)
        memcpy(to, from, 8 * sizeof *to), to += 8, from += 8; /* sizes known to the compiler */
    if (n & 4) memcpy(to, from, 4 * sizeof *to), to += 4, from += 4;
    if (n & 2) memcpy(to, from, 2 * sizeof *to), to += 2, from += 2;
    if (n & 1) *to = *from;
}

static inline void ls_zero_pixel_run(ls_real *to, size_t n)
{
    for (; n >= 16; n -= 16, to += 16) memset(to, 0, 16 * sizeof *to);
    if (n & 8) memset(to, 0, 8 * sizeof *to), to += 8;
    if (n & 4) memset(to, 0, 4 * sizeof *to), to += 4;
    if (n & 2) memset(to, 0, 2 * sizeof *to), to += 2;
    if (n & 1) *to = (ls_real)0;
}

#endif
