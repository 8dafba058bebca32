/* gemm_kernel.c - the inner loops of the portable product (contract rules 5 and 6), compiled for
 * each instruction set.
 *
 * A tile of C lives in registers. For each leaf: start from +0, one fused multiply-add per k in
 * ascending order; then the nodes of the tree that end with this leaf, each one addition with a
 * tile that waits on the stack. Every element of the tile does exactly this and sees no other
 * element, so neither the tile's shape nor the blocking above it can be seen in the result. */
#include "numerics/gemm_kernel.h"

#include "numerics/gemm_simd.h"
#include "numerics/isa_build.h"

/* Loops over a tile have constant bounds and must be unrolled, or the tile is no longer in
 * registers. */
#define FOR_TILE_ROWS _Pragma("GCC unroll 16") for (size_t i = 0; i < TILE_ROWS; i++)
#define FOR_TILE_VECS _Pragma("GCC unroll 4") for (size_t v = 0; v < TILE_VECS; v++)

static void tile(const ls_gemm_tile *t)
{
    const ls_real *a = t->a, *b = t->b;
    const size_t b_step = t->b_step, level = t->level;
    ls_real *stack = t->stack;

    for (size_t s = 0; s < t->n_steps; s++) {
        vec acc[TILE_ROWS][TILE_VECS];
        FOR_TILE_ROWS FOR_TILE_VECS acc[i][v] = vec_zero();

        for (size_t k = t->steps[s].length; k > 0; k--) {
            vec row[TILE_VECS];
            FOR_TILE_VECS row[v] = vec_load(b + v * VEC_WIDTH);
            FOR_TILE_ROWS
            {
                vec x = vec_spread(a + i);
                FOR_TILE_VECS acc[i][v] = vec_fma(x, row[v], acc[i][v]);
            }
            a += TILE_ROWS;
            b += b_step;
        }

        for (size_t merges = t->steps[s].merges; merges > 0; merges--) {
            stack -= level;
            FOR_TILE_ROWS FOR_TILE_VECS acc[i][v] =
                vec_add(vec_load(stack + i * TILE_COLS + v * VEC_WIDTH), acc[i][v]);
        }

        if (s + 1 < t->n_steps || !t->c) {
            FOR_TILE_ROWS FOR_TILE_VECS vec_store(stack + i * TILE_COLS + v * VEC_WIDTH, acc[i][v]);
            stack += level;
        } else if (t->accumulate) {
            FOR_TILE_ROWS FOR_TILE_VECS
            {
                ls_real *c = t->c + i * t->ldc + v * VEC_WIDTH;
                vec_store(c, vec_add(vec_load(c), acc[i][v]));
            }
        } else {
            FOR_TILE_ROWS FOR_TILE_VECS vec_store(t->c + i * t->ldc + v * VEC_WIDTH, acc[i][v]);
        }
    }
}

/* `width` is a constant where this is called, and the loops over it are unrolled. */
static inline void pack(ls_real *restrict to, const ls_real *restrict x, size_t line_step,
                        size_t k_step, size_t lines, size_t length, size_t width)
{
    for (size_t line = 0; line < lines; line += width, x += width * line_step) {
        size_t here = lines - line < width ? lines - line : width;
        if (here < width) {
            for (size_t k = 0; k < length; k++) {
                for (size_t i = 0; i < here; i++) to[k * width + i] = x[i * line_step + k * k_step];
                for (size_t i = here; i < width; i++) to[k * width + i] = (ls_real)0;
            }
        } else if (line_step == 1) {
            for (size_t k = 0; k < length; k++)
                for (size_t i = 0; i < width; i++) to[k * width + i] = x[i + k * k_step];
        } else {
            for (size_t k = 0; k < length; k++)
                for (size_t i = 0; i < width; i++)
                    to[k * width + i] = x[i * line_step + k * k_step];
        }
        to += length * width;
    }
}

static void pack_a(ls_real *to, const ls_real *x, size_t line_step, size_t k_step, size_t lines,
                   size_t length)
{
    pack(to, x, line_step, k_step, lines, length, TILE_ROWS);
}

static void pack_b(ls_real *to, const ls_real *x, size_t line_step, size_t k_step, size_t lines,
                   size_t length)
{
    pack(to, x, line_step, k_step, lines, length, TILE_COLS);
}

ls_gemm_kernel_getter LS_ISA_NAME(ls_gemm_kernel_of);
const ls_gemm_kernel *LS_ISA_NAME(ls_gemm_kernel_of)(void)
{
    static const ls_gemm_kernel kernel = {TILE_ROWS, TILE_COLS, tile, pack_a, pack_b};
    return &kernel;
}
