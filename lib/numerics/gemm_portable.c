/* gemm_portable.c - the product by own leaves: the same bits on every machine and compiler.
 *
 * Blocks, from the outside in:
 *
 *     columns of C, BLOCK_COLS at a time
 *       rows of C, BLOCK_ROWS at a time
 *         runs of leaves, at most LS_LEAF terms each         pack this strip of B (third cache)
 *           rows, PANEL_ROWS at a time                       pack this block of A (second cache)
 *             panels of B (first cache), panels of A         one tile: the kernel
 *
 * Between one run of leaves and the next the tiles' unfinished tree nodes stand on a stack, level
 * by level, as large as a block of C each. Where one run is the whole axis, as when granules are
 * small, a single tile's stack serves all; where a run has many leaves, a tile takes what it needs
 * to a small stack of its own, and puts back what is left. Blocking is free to change: a tile's
 * result depends on its rows, its columns and the leaf order alone. */
#include <string.h>

#include "numerics/gemm_engines.h"
#include "numerics/gemm_kernel.h"
#include "numerics/gemm_plan.h"
#include "numerics/isa_build.h"
#include "numerics/workspace.h"

enum {
    BLOCK_ROWS = 768,
    BLOCK_COLS = 3072 / sizeof(ls_real),
    PANEL_ROWS = 384 / sizeof(ls_real),
    TILE_MAX = 512, /* elements of the largest tile of any instruction set */
    MANY_LEAVES = 8
};

LS_ISA_TABLE(ls_gemm_kernel_getter, ls_gemm_kernel_of)

/* Some consecutive leaves, at most LS_LEAF terms together. */
typedef struct leaf_run {
    ls_leaf_step steps[LS_LEAF];
    size_t n_steps, length;
    size_t height, low, left; /* entries on the stack before it, at the least, after it */
    bool last;                /* it ends the axis                                       */
} leaf_run;

/* What stays the same over a block of C. */
typedef struct block {
    const ls_gemm_problem *p;
    const ls_gemm_kernel *kernel;
    size_t row, rows, col, cols; /* of C */
    ls_real *a, *b, *stack;
    ls_real *small; /* a single tile's stack */
    bool one_run;
} block;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The most rows, at most `most`, that are whole tiles. */
static size_t whole_tiles(size_t most, size_t unit)
{
    return most / unit * unit;
}

/* `total` in parts as equal as multiples of `unit` allow, none above `most` (which is at least one
 * unit). */
static size_t part_of(size_t total, size_t most, size_t unit)
{
    most = whole_tiles(most, unit);
    size_t parts = (total + most - 1) / most;
    return round_up((total + parts - 1) / parts, unit);
}

static void next_run(ls_leaf_walk *walk, leaf_run *run)
{
    run->n_steps = run->length = 0;
    run->height = run->low = walk->height;
    while (ls_leaf_walk_more(walk) && run->n_steps < LS_LEAF) { /* steps may be empty */
        ls_leaf_walk ahead = *walk;
        ls_leaf_step step = ls_leaf_walk_next(&ahead);
        if (run->length + step.length > LS_LEAF) break;
        run->steps[run->n_steps++] = step;
        run->length += step.length;
        *walk = ahead;
        run->low = smaller(run->low, walk->height - 1); /* below what the step leaves */
    }
    run->left = walk->height;
    run->last = !ls_leaf_walk_more(walk);
}

/* One tile of C at (row, col) of the matrix; `rows` and `cols` of it exist. */
static void do_tile(const block *bl, ls_gemm_tile *tile, size_t row, size_t col, size_t rows,
                    size_t cols, bool last)
{
    const ls_gemm_problem *p = bl->p;
    ls_real *c = p->c + row * p->ldc + col;
    if (!last) {
        tile->c = NULL;
        bl->kernel->tile[p->ta](tile);
    } else if (rows == bl->kernel->rows && cols == bl->kernel->cols) {
        tile->c = c;
        tile->ldc = p->ldc;
        tile->accumulate = p->accumulate;
        bl->kernel->tile[p->ta](tile);
    } else {
        ls_real whole[TILE_MAX];
        tile->c = whole;
        tile->ldc = bl->kernel->cols;
        tile->accumulate = false;
        bl->kernel->tile[p->ta](tile);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++) {
                ls_real sum = whole[i * tile->ldc + j];
                c[i * p->ldc + j] = p->accumulate ? c[i * p->ldc + j] + sum : sum;
            }
    }
}

/* Entries first .. end of a stack of tiles; `from` and `to` are where entry `first` is. */
static void copy_entries(ls_real *to, size_t to_level, const ls_real *from, size_t from_level,
                         size_t tile_size, size_t first, size_t end)
{
    for (; first < end; first++, to += to_level, from += from_level)
        memcpy(to, from, tile_size * sizeof *to);
}

/* All tiles of a block of C, one run of leaves that starts at k. */
static void do_run(const block *bl, const leaf_run *run, size_t k)
{
    const ls_gemm_problem *p = bl->p;
    const ls_gemm_kernel *kernel = bl->kernel;
    const size_t tile_size = kernel->rows * kernel->cols;
    const size_t row_panels = (bl->rows + kernel->rows - 1) / kernel->rows;
    const size_t col_panels = (bl->cols + kernel->cols - 1) / kernel->cols;
    const size_t level = bl->one_run ? tile_size : row_panels * col_panels * tile_size;
    const size_t a_row = p->ta ? 1 : p->lda, a_k = p->ta ? p->lda : 1;
    const size_t b_col = p->tb ? p->ldb : 1, b_k = p->tb ? 1 : p->ldb;
    const size_t panel_rows = whole_tiles(PANEL_ROWS, kernel->rows);
    const bool small = run->n_steps >= MANY_LEAVES && !bl->one_run;

    kernel->pack_b[p->tb](bl->b, p->b + bl->col * b_col + k * b_k, p->ldb, bl->cols, run->length);
    for (size_t i0 = 0; i0 < bl->rows; i0 += panel_rows) {
        size_t rows = smaller(panel_rows, bl->rows - i0);
        kernel->pack_a[p->ta](bl->a, p->a + (bl->row + i0) * a_row + k * a_k, p->lda, rows,
                              run->length);
        for (size_t j = 0; j < bl->cols; j += kernel->cols)
            for (size_t i = 0; i < rows; i += kernel->rows) {
                size_t place = j / kernel->cols * row_panels + (i0 + i) / kernel->rows;
                ls_real *low = bl->stack + run->low * level + (bl->one_run ? 0 : place * tile_size);
                ls_gemm_tile tile = {.a = bl->a + i * (p->ta ? run->length : LS_LINE_STEP),
                                     .b = bl->b + j * run->length,
                                     .b_step = kernel->cols,
                                     .steps = run->steps,
                                     .n_steps = run->n_steps,
                                     .level = small ? tile_size : level};
                tile.stack = (small ? bl->small : low) + (run->height - run->low) * tile.level;
                if (small)
                    copy_entries(bl->small, tile_size, low, level, tile_size, run->low,
                                 run->height);
                do_tile(bl, &tile, bl->row + i0 + i, bl->col + j, smaller(kernel->rows, rows - i),
                        smaller(kernel->cols, bl->cols - j), run->last);
                if (small && !run->last)
                    copy_entries(low, level, bl->small, tile_size, tile_size, run->low, run->left);
            }
    }
}

ls_status ls_gemm_portable(const ls_gemm_problem *p)
{
    ls_status status = LS_OK;
    const ls_gemm_kernel *kernel = LS_ISA_PICK(ls_gemm_kernel_of)();
    const size_t m = ls_axis_extent(p->m), n = ls_axis_extent(p->n), k = ls_axis_extent(p->k);
    const size_t rows = part_of(m, BLOCK_ROWS, kernel->rows);
    const size_t cols = part_of(n, BLOCK_COLS, kernel->cols);
    const size_t a_size = smaller(PANEL_ROWS, rows) * (p->ta ? smaller(k, LS_LEAF) : LS_LINE_STEP);
    const size_t b_size = cols * smaller(k, LS_LEAF);
    const bool one_run = k <= LS_LEAF && p->n_leaves <= LS_LEAF;
    const size_t tile_size = kernel->rows * kernel->cols;
    const size_t level = one_run ? tile_size : rows * cols;
    const size_t waiting = ls_gemm_depth(p->k, p->leaves, p->n_leaves) -
                           1; /* the last entry never leaves the registers */
    ls_real *space;

    LS_TRY(ls_workspace((round_up(a_size, 16) + round_up(b_size, 16) + (waiting + 1) * tile_size +
                         waiting * level) *
                            sizeof(ls_real),
                        &space));
    block bl = {.p = p, .kernel = kernel, .one_run = one_run};
    bl.a = space;
    bl.b = bl.a + round_up(a_size, 16);
    bl.small = bl.b + round_up(b_size, 16);
    bl.stack = bl.small + (waiting + 1) * tile_size;
    for (bl.col = 0; bl.col < n; bl.col += cols) {
        bl.cols = smaller(cols, n - bl.col);
        for (bl.row = 0; bl.row < m; bl.row += rows) {
            ls_leaf_walk walk = ls_gemm_walk(p->k, p->leaves, p->n_leaves);
            leaf_run run;
            bl.rows = smaller(rows, m - bl.row);
            for (size_t at = 0; ls_leaf_walk_more(&walk); at += run.length) {
                next_run(&walk, &run);
                do_run(&bl, &run, at);
            }
        }
    }
    ls_workspace_trim();

exit:
    return status;
}
