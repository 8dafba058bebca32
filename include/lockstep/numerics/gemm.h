/* gemm.h - the matrix product under the contract (rules 5, 6, 7), with its engines.
 *
 *     C[i][j] = T over the granules of k, in each T over its leaves, of
 *               fma chain over at most 256 consecutive k of op(A)[i][k] * op(B)[k][j]
 *
 * A leaf is cut at multiples of 256 inside its granule: acc = +0, then acc = fma(a_k, b_k, acc), k
 * ascending. The result at (i, j) depends on row i, column j and the k axis alone: a slice of the
 * operands gives the slice of the result, bit for bit. */
#ifndef LS_NUMERICS_GEMM_H
#define LS_NUMERICS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

enum { LS_LEAF = 256 };

typedef enum ls_engine {
    LS_ENGINE_PORTABLE = 0, /* own leaves: the same bits on every machine and compiler */
    LS_ENGINE_OPENBLAS, /* leaves by cblas_?gemm on canonical blocks: one call per (granule of m,
                           granule of n, leaf): the same bits for every layout on one machine   */
    LS_ENGINE_PLAIN     /* one unsliced cblas_?gemm and no contract: the truth, in binary64      */
} ls_engine;

typedef enum ls_trans { LS_NO_TRANS = 0, LS_TRANS = 1 } ls_trans;

/* C = op(A) op(B), or C = C + op(A) op(B) when accumulate is set (one more rounded addition).
 * m, n, k: the axes; every granule count and size may be 0 (an empty k gives +0).
 * a: op(A) is extent(m) x extent(k), row-major; stored transposed (k x m) when ta is LS_TRANS; lda
 * elements from row to row. b: op(B) is extent(k) x extent(n); likewise. c: extent(m) x extent(n),
 * ldc; may overlap neither a nor b. The granules of m and n matter to LS_ENGINE_OPENBLAS only,
 * whose calls must have one shape in every layout. Cost: 2 m n k flops. Errors: LS_ERR_MEMORY
 * (workspace, OpenBLAS's own memory); LS_ERR_INPUT as ls_engine_check. */
#define ls_gemm LS_TYPED(ls_gemm)
LS_API ls_status ls_gemm(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n,
                         ls_axis k, const ls_real *a, size_t lda, const ls_real *b, size_t ldb,
                         ls_real *c, size_t ldc, bool accumulate) LS_MUST_USE;

/* "portable", "openblas", "plain"; and back: LS_ERR_INPUT for any other name. */
LS_API const char *ls_engine_name(ls_engine engine);
LS_API ls_status ls_engine_parse(const char *name, ls_engine *ret_engine) LS_MUST_USE;

/* Whether this build has it: portable always, the others with OpenBLAS. */
LS_API bool ls_engine_available(ls_engine engine);

/* LS_ERR_INPUT when an engine cannot run: this build does not have it, or OpenBLAS was told by
 * OPENBLAS_CORETYPE to use instructions that the CPU has not. Every product asks it too. */
LS_API ls_status ls_engine_check(ls_engine engine) LS_MUST_USE;

/* What will compute: "portable avx2", "openblas 0.3.21 SkylakeX". buffer: size bytes, always
 * terminated. */
LS_API void ls_engine_describe(ls_engine engine, char *buffer, size_t size);

/* A one-line warning when OpenBLAS runs a kernel set below what this CPU offers, or was told to run
 * one above, with the remedy; "" when all is well. */
LS_API const char *ls_engine_warning(ls_engine engine);

LS_END_DECLS

#endif
