/* row_lanes.h - a row sum (contract rule 10) whose terms are made block by block.
 *
 * ls_row_sum wants its terms in memory. Where a term is an expression of several arrays (the
 * products of a norm's backward pass, the exponentials of a vocabulary granule), a kernel makes
 * BLOCK of them in a small array and adds them to the 16 lanes: the sum is that of ls_row_sum over
 * the whole row, bit for bit, because a block is a multiple of the lanes. */
#ifndef LS_KERNELS_ROW_LANES_H
#define LS_KERNELS_ROW_LANES_H

#include "lockstep/base/real.h"

enum { LANES = 16, BLOCK = 256 };

typedef struct row_lanes {
    ls_real lane[LANES];
} row_lanes;

/* No term yet: -0 in every lane, because (-0) + x = x for every x. */
static inline row_lanes row_lanes_none(void)
{
    row_lanes sum;
    for (size_t l = 0; l < LANES; l++) sum.lane[l] = (ls_real)-0.0;
    return sum;
}

/* Adds the next n terms of the row; n is a multiple of LANES except in the last call. */
static inline void row_lanes_add(row_lanes *sum, const ls_real *term, size_t n)
{
    row_lanes s = *sum;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++) s.lane[l] += term[i + l];
    for (size_t l = 0; i + l < n; l++) s.lane[l] += term[i + l];
    *sum = s;
}

/* T(16) over the lanes: neighbours first. -0 when there was no term. */
static inline ls_real row_lanes_end(row_lanes sum)
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++) sum.lane[l] = sum.lane[2 * l] + sum.lane[2 * l + 1];
    return sum.lane[0];
}

/* Length of the block that starts at `from` in a row of n. */
static inline size_t block_length(size_t from, size_t n)
{
    return n - from < BLOCK ? n - from : BLOCK;
}

#endif
