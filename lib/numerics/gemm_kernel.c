/* gemm_kernel.c - the inner loops of the portable product (contract rules 5 and 6), compiled for
 * each instruction set.
 *
 * A tile of C lives in registers. For each leaf: start from +0, one fused multiply-add per k in
 * ascending order; then the nodes of the tree that end with this leaf, each one addition with a
 * tile that waits on the stack. Every element of the tile does exactly this and sees no other
 * element, so neither the tile's shape nor the blocking above it can be seen in the result. */
#include "numerics/gemm_kernel.h"

#include <string.h>

#include "numerics/gemm_simd.h"
#include "numerics/isa_build.h"

/* Loops over a tile have constant bounds and must be unrolled, or the tile is no longer in
 * registers. */
#define FOR_TILE_ROWS _Pragma("GCC unroll 16") for (size_t i = 0; i < TILE_ROWS; i++)
#define FOR_TILE_VECS _Pragma("GCC unroll 4") for (size_t v = 0; v < TILE_VECS; v++)

/* a_row and a_k are constants where this is called: element (i, k) of the panel of A is a[i * a_row
 * + k * a_k]. */
static inline __attribute__((always_inline)) void tile(const ls_gemm_tile *t, size_t a_row,
                                                       size_t a_k)
{
    const ls_real *a = t->a, *b = t->b;
    const size_t b_step = t->b_step, level = t->level, ldc = t->ldc;
    ls_real *stack = t->stack, *c = t->c;

    if (c) /* written at the end, so asked for now */
        for (size_t i = 0; i < TILE_ROWS; i++) __builtin_prefetch(c + i * ldc, 1);

    for (size_t s = 0; s < t->n_steps; s++) {
        vec acc[TILE_ROWS][TILE_VECS];
        FOR_TILE_ROWS FOR_TILE_VECS acc[i][v] = vec_zero();

        _Pragma("GCC unroll 4") for (size_t k = t->steps[s].length; k > 0; k--)
        {
            vec row[TILE_VECS];
            FOR_TILE_VECS row[v] = vec_load(b + v * VEC_WIDTH);
            FOR_TILE_ROWS
            {
                vec x = vec_spread(a + i * a_row);
                FOR_TILE_VECS acc[i][v] = vec_fma(x, row[v], acc[i][v]);
            }
            a += a_k;
            b += b_step;
        }

        for (size_t merges = t->steps[s].merges; merges > 0; merges--) {
            stack -= level;
            FOR_TILE_ROWS FOR_TILE_VECS acc[i][v] =
                vec_add(vec_load(stack + i * TILE_COLS + v * VEC_WIDTH), acc[i][v]);
        }

        if (s + 1 < t->n_steps || !c) {
            FOR_TILE_ROWS FOR_TILE_VECS vec_store(stack + i * TILE_COLS + v * VEC_WIDTH, acc[i][v]);
            stack += level;
        } else if (t->accumulate) {
            FOR_TILE_ROWS FOR_TILE_VECS
            {
                ls_real *to = c + i * ldc + v * VEC_WIDTH;
                vec_store(to, vec_add(vec_load(to), acc[i][v]));
            }
        } else {
            FOR_TILE_ROWS FOR_TILE_VECS vec_store(c + i * ldc + v * VEC_WIDTH, acc[i][v]);
        }
    }
}

static void tile_of_lines(const ls_gemm_tile *t)
{
    tile(t, LS_LINE_STEP, 1);
}

static void tile_of_columns(const ls_gemm_tile *t)
{
    tile(t, 1, TILE_ROWS);
}

/* Panels of `width` lines, a constant where this is called, from a source that holds one k after
 * the other: element (line, k) is x[k * ld + line]. The source is read in its own order. */
static inline __attribute__((always_inline)) void pack_straight(ls_real *restrict to,
                                                                const ls_real *restrict x,
                                                                size_t ld, size_t lines,
                                                                size_t length, size_t width)
{
    for (size_t k = 0; k < length; k++, x += ld, to += width) {
        size_t line = 0;
        for (; line + width <= lines; line += width)
            memcpy(to + line * length, x + line, width * sizeof *to);
        if (line == lines) continue;
        for (size_t i = 0; i < width; i++)
            to[line * length + i] = line + i < lines ? x[line + i] : (ls_real)0;
    }
}

/* The same from a source that holds one line after the other: element (line, k) is x[line * ld +
 * k]. */
static inline __attribute__((always_inline)) void pack_transposed(ls_real *restrict to,
                                                                  const ls_real *restrict x,
                                                                  size_t ld, size_t lines,
                                                                  size_t length, size_t width)
{
    for (; lines >= width; lines -= width, x += width * ld)
        for (size_t k = 0; k < length; k++, to += width)
            for (size_t i = 0; i < width; i++) to[i] = x[i * ld + k];
    for (size_t k = 0; lines > 0 && k < length; k++, to += width)
        for (size_t i = 0; i < width; i++) to[i] = i < lines ? x[i * ld + k] : (ls_real)0;
}

static void pack_a_lines(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length)
{
    for (size_t i = 0; i < lines; i++)
        memcpy(to + i * LS_LINE_STEP, x + i * ld, length * sizeof *to);
    for (size_t i = lines; i % TILE_ROWS != 0; i++)
        memset(to + i * LS_LINE_STEP, 0, length * sizeof *to);
}

static void pack_a_columns(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length)
{
    pack_straight(to, x, ld, lines, length, TILE_ROWS);
}

static void pack_b_rows(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length)
{
    pack_straight(to, x, ld, lines, length, TILE_COLS);
}

static void pack_b_lines(ls_real *to, const ls_real *x, size_t ld, size_t lines, size_t length)
{
    pack_transposed(to, x, ld, lines, length, TILE_COLS);
}

ls_gemm_kernel_getter LS_ISA_NAME(ls_gemm_kernel_of);
const ls_gemm_kernel *LS_ISA_NAME(ls_gemm_kernel_of)(void)
{
    static const ls_gemm_kernel kernel = {TILE_ROWS,
                                          TILE_COLS,
                                          {tile_of_lines, tile_of_columns},
                                          {pack_a_lines, pack_a_columns},
                                          {pack_b_rows, pack_b_lines}};
    return &kernel;
}
