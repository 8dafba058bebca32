/* dump_block.h - the blocks of one tensor that ranks have shown, and what each does to it.
 *
 * A block goes to its place at once. Where it meets an earlier one, of another rank, both must
 * agree to the bit. What was put where is kept as a list, so that in the end one can tell whether
 * the blocks cover the tensor. */
#ifndef LS_GOLDEN_DUMP_BLOCK_H
#define LS_GOLDEN_DUMP_BLOCK_H

#include "golden/dump_parts.h"

/* A run of every dimension: first and after the last. */
typedef struct dump_box {
    size_t lo[LS_VIEW_DIMS], hi[LS_VIEW_DIMS];
} dump_box;

typedef struct dump_block {
    int rank;
    dump_box at;
} dump_block;

typedef struct dump_blocks {
    const dump_tensor *of;
    char *place; /* its values */
    dump_block *list;
    size_t count, room;
    size_t covered; /* elements in blocks that are the first at their place ... */
    bool ragged;    /* ... unless one is there in part */
} dump_blocks;

/* Puts a block into its place. One thread at a time per tensor. Errors: LS_DIFFERENT, naming
 * tensor, index, ranks and both values; LS_ERR_INTERNAL, no block of this tensor, or a rank's
 * second look at an element; LS_ERR_MEMORY. */
ls_status ls_dump_blocks_put(dump_blocks *blocks, int rank, const ls_view *view) LS_MUST_USE;

/* How many elements were shown by any rank. */
ls_status ls_dump_blocks_covered(dump_blocks *blocks, size_t *ret_elements) LS_MUST_USE;

void ls_dump_blocks_free(dump_blocks *blocks);

#endif
