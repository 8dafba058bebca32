/* blas.h - OpenBLAS as a guest: one thread per call, no more calls at once than cores. */
#ifndef LS_NUMERICS_BLAS_H
#define LS_NUMERICS_BLAS_H

#include <stddef.h>

#include "lockstep/base/status.h"

/* Before a call of cblas_?gemm: sets OpenBLAS to one thread (the first time) and waits until fewer
 * calls are running than there are cores. */
void ls_blas_enter(void);
void ls_blas_leave(void);

/* "0.3.21 Haswell" */
const char *ls_blas_version(void);

/* One line when the running kernel set is below what this CPU offers, else "". */
const char *ls_blas_warning(void);

/* The warning for a kernel set and a CPU that has the wanted sets named: a pure function, for the
 * test. Level 0 is SSE, 1 AVX, 2 AVX2 with fused multiply-add, 3 AVX-512. ret_text: size bytes. */
void ls_blas_judge(const char *running, int cpu_level, char *ret_text, size_t size);

#endif
