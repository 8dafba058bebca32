/* elementwise.c - sums of two arrays, bias, scaling, dropout. */
#include "lockstep/kernels/elementwise.h"

#include <string.h>

#include "kernels/row_lanes.h"

void ls_add(ls_real *y, const ls_real *a, const ls_real *b, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void ls_add_bias(ls_real *y, const ls_real *bias, size_t rows, size_t cols, size_t ld)
{
    for (size_t r = 0; r < rows; r++, y += ld)
        for (size_t c = 0; c < cols; c++) y[c] = y[c] + bias[c];
}

void ls_scale(ls_real *y, const ls_real *x, ls_real factor, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

void ls_dropout(ls_real *y, const ls_real *x, size_t n, double p, ls_stream stream,
                uint64_t first_index)
{
    if (p == 0.0) {
        if (y != x && n > 0) memmove(y, x, n * sizeof *y);
        return;
    }
    const ls_real factor = (ls_real)(1.0 / (1.0 - p));
    for (size_t b = 0; b < n; b += BLOCK) {
        unsigned char keep[BLOCK];
        const size_t width = block_length(b, n);
        ls_random_keep_n(keep, stream, first_index + b, width, p);
        /* a choice, not a product: what is dropped may be infinite */
        for (size_t i = 0; i < width; i++) y[b + i] = keep[i] ? x[b + i] * factor : (ls_real)0;
    }
}
