/* isa.h - which instruction set the inner loops use.
 *
 * Every inner loop exists once as source and is compiled for several instruction sets; the best
 * that the CPU has is chosen at the first call. All give the same bits (contract rule 2 and 5). The
 * environment variable LOCKSTEP_ISA (scalar, avx2, avx512, neon) forces one, for tests. */
#ifndef LS_NUMERICS_ISA_H
#define LS_NUMERICS_ISA_H

#include "lockstep/base/api.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef enum ls_isa {
    LS_ISA_SCALAR = 0,
    LS_ISA_AVX2,
    LS_ISA_AVX512,
    LS_ISA_NEON,
    LS_ISA_COUNT
} ls_isa;

/* The one in use. */
LS_API ls_isa ls_isa_current(void);

/* Whether this build and this CPU have it. */
LS_API int ls_isa_available(ls_isa isa);

LS_API const char *ls_isa_name(ls_isa isa);

/* Says, in one line, what is wrong with LOCKSTEP_ISA (an unknown name, or a set that the CPU lacks)
 * and what is allowed: LS_ERR_INPUT. A program calls it once at its start; the library alone falls
 * back to the best set. */
LS_API ls_status ls_isa_check(void) LS_MUST_USE;

/* Switches, for tests; the set must be available. Not while another thread computes. */
LS_API void ls_isa_force(ls_isa isa);

LS_END_DECLS

#endif
