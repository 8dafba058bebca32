/* gemm_kernel.h - the inner loops of the portable product, one set of them per instruction set.
 *
 * A panel of A holds `rows` rows, a panel of B `cols` columns, both k-major and padded with zeros:
 *
 *     a panel: a[k * rows + i]      b panel: b[k * cols + j]
 *
 * so that one step of k is one row of b in registers times `rows` spread elements of a. */
#ifndef LS_NUMERICS_GEMM_KERNEL_H
#define LS_NUMERICS_GEMM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/real.h"
#include "lockstep/numerics/gemm.h"
#include "numerics/gemm_plan.h"

/* What one call of a kernel works on: a tile of C and a run of leaves of its k axis. */
#define ls_gemm_tile LS_TYPED(ls_gemm_tile)
typedef struct ls_gemm_tile {
    const ls_real *a, *b; /* panels, at the first k of the run                            */
    size_t b_step;        /* elements from one k to the next in the panel of b            */
    const ls_leaf_step *steps;
    size_t n_steps;
    /* Entries of the stack are rows x cols elements, `level` elements apart; `stack` is where the
     * next one goes. */
    ls_real *stack;
    size_t level;
    /* rows x cols, when the run ends the tree; NULL: what is left stays on the stack. */
    ls_real *c;
    size_t ldc;
    bool accumulate; /* c = c + sum instead of c = sum */
} ls_gemm_tile;

/* Rows of A that are stored as such are packed line by line with this step: constant, so that a
 * kernel addresses all rows from one pointer; not a power of two, so that they do not compete for
 * one set of the cache. */
enum { LS_LINE_STEP = LS_LEAF + 64 / sizeof(ls_real) };

#define ls_gemm_kernel LS_TYPED(ls_gemm_kernel)
typedef struct ls_gemm_kernel {
    size_t rows, cols; /* of the tile */

    /* Each comes twice: [0] for an operand as it is, [1] for one stored transposed. pack: a block
     * of `lines` rows of op(A) or columns of op(B) and `length` k; ld elements from one stored line
     * to the next; the last panel is filled up with zeros. */
    void (*tile[2])(const ls_gemm_tile *tile); /* by the transposition of A */
    void (*pack_a[2])(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length);
    void (*pack_b[2])(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length);
} ls_gemm_kernel;

/* The kernel of an instruction set. */
#define ls_gemm_kernel_of LS_TYPED(ls_gemm_kernel_of)
typedef const ls_gemm_kernel *ls_gemm_kernel_getter(void);

#endif
