#include "lockstep/numerics/block.h"

#include <string.h>

#include "lockstep/numerics/compare.h"

/* In bytes, where row r of the block begins in the whole matrix. */
static size_t row_start(ls_dtype dtype, ls_block block, size_t r)
{
    return ((block.row + r) * block.cols + block.col) * ls_dtype_bytes(dtype);
}

void ls_block_take(ls_dtype dtype, void *own, const void *whole, ls_block block)
{
    size_t row_bytes = block.width * ls_dtype_bytes(dtype);
    if (row_bytes == 0) return;
    for (size_t r = 0; r < block.rows; r++)
        memcpy((char *)own + r * row_bytes, (const char *)whole + row_start(dtype, block, r),
               row_bytes);
}

void ls_block_put(ls_dtype dtype, void *whole, const void *own, ls_block block)
{
    size_t row_bytes = block.width * ls_dtype_bytes(dtype);
    if (row_bytes == 0) return;
    for (size_t r = 0; r < block.rows; r++)
        memcpy((char *)whole + row_start(dtype, block, r), (const char *)own + r * row_bytes,
               row_bytes);
}

size_t ls_block_differ(ls_dtype dtype, const void *own, const void *whole, ls_block block)
{
    size_t row_bytes = block.width * ls_dtype_bytes(dtype), count = 0;
    for (size_t r = 0; r < block.rows; r++) {
        ls_difference difference;
        if (!ls_compare_bits(dtype, (const char *)own + r * row_bytes,
                             (const char *)whole + row_start(dtype, block, r), block.width,
                             &difference))
            count += difference.count;
    }
    return count;
}
