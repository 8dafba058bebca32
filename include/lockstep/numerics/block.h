/* block.h - a block of a matrix: some of its rows and columns, as a rank holds them.
 *
 * A rank's shard of a tensor is contiguous memory of its own; the block says where in the whole
 * tensor it belongs. */
#ifndef LS_NUMERICS_BLOCK_H
#define LS_NUMERICS_BLOCK_H

#include <stddef.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* Rows row .. row + rows and columns col .. col + width of a row-major matrix with `cols` columns.
 * A vector is one row. */
typedef struct ls_block {
    size_t cols;
    size_t row, rows;
    size_t col, width;
} ls_block;

static inline size_t ls_block_count(ls_block block)
{
    return block.rows * block.width;
}

/* own = the block of whole. own: rows x width, contiguous. The two do not overlap. */
LS_API void ls_block_take(ls_dtype dtype, void *own, const void *whole, ls_block block);

/* The block of whole = own; the rest of whole is not touched. */
LS_API void ls_block_put(ls_dtype dtype, void *whole, const void *own, ls_block block);

/* How many elements of own differ in bits from their place in whole, as ls_compare_bits has it.
 * LS_F32 or LS_F64. */
LS_API size_t ls_block_differ(ls_dtype dtype, const void *own, const void *whole, ls_block block);

LS_END_DECLS

#endif
