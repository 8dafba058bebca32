/* blas.h - OpenBLAS as a guest: one thread per call, no more calls at once than cores. */
#ifndef LS_NUMERICS_BLAS_H
#define LS_NUMERICS_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"

/* Before a call of cblas_?gemm: sets OpenBLAS to one thread (the first time) and waits until fewer
 * calls are running than there are cores. Errors: LS_ERR_INPUT as ls_blas_check; LS_ERR_MEMORY when
 * there is none for OpenBLAS's work area. Followed by ls_blas_leave only when it succeeds. */
ls_status ls_blas_enter(void) LS_MUST_USE;
void ls_blas_leave(void);

/* LS_ERR_INPUT when OpenBLAS was told to run kernels that this CPU cannot: the first call would end
 * the process. */
ls_status ls_blas_check(void) LS_MUST_USE;

/* "0.3.21 Haswell" */
const char *ls_blas_version(void);

/* One line when the running kernel set is below or above what this CPU offers, else "". */
const char *ls_blas_warning(void);

/* What an x86-64 CPU offers. Level 0 is SSE, 1 AVX, 2 AVX2 with fused multiply-add, 3 AVX-512; -1
 * where the question does not arise. The other two are AMD's alone, and went out of use. */
typedef struct ls_blas_cpu {
    int level;
    bool fma4, now3d;
} ls_blas_cpu;

/* Whether that CPU can run a kernel set, and in ret_text (size bytes) what is to be said of it,
 * with the remedy: a pure function, for the test. */
bool ls_blas_judge(const char *running, ls_blas_cpu cpu, char *ret_text, size_t size);

#endif
