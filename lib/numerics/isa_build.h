/* isa_build.h - inner loops: one source, compiled once per instruction set and precision.
 *
 * Three places know an inner loop ls_foo_n:
 *
 *   an internal header gives its type,
 *       typedef void ls_foo_loop(ls_real *y, const ls_real *x, size_t n);
 *
 *   a source listed in `isa_sources` (meson.build of this folder) is the loop,
 *       ls_foo_loop LS_ISA_NAME(ls_foo_n);
 *       void LS_ISA_NAME(ls_foo_n)(ls_real *y, const ls_real *x, size_t n) {...}
 *
 *   a typed source calls it,
 *       LS_ISA_TABLE(ls_foo_loop, ls_foo_n)
 *       void ls_foo_n(ls_real *y, const ls_real *x, size_t n)
 *       {
 *           LS_ISA_PICK(ls_foo_n)(y, x, n);
 *       }
 *
 * LS_ISA_NAME(ls_foo_n) is ls_foo_n_avx2_f32 in the copy for AVX2 and binary32. The build says
 * which set a copy is for by LS_BUILD_SCALAR, LS_BUILD_AVX2, LS_BUILD_AVX512 or LS_BUILD_NEON, and
 * which copies the library holds by LS_HAVE_AVX2 and so on (the scalar one is always there).
 * LS_ISA_TABLE declares the copies and makes a constant table of them; LS_ISA_PICK reads the entry
 * of ls_isa_current(): one atomic load and no lock, and ls_isa_force reaches every loop.
 *
 * A source compiled with LS_BUILD_AVX512 and LS_SIMDE includes SIMDe's headers instead of
 * immintrin.h, so that a CPU without AVX-512 can test it (meson option `simde`). */
#ifndef LS_NUMERICS_ISA_BUILD_H
#define LS_NUMERICS_ISA_BUILD_H

#include "lockstep/base/real.h"
#include "lockstep/numerics/isa.h"

/* The name is pasted before it can be expanded: ls_foo may itself be the macro LS_TYPED(ls_foo). */
#if defined(LS_BUILD_SCALAR)
#define LS_ISA_NAME(name) LS_TYPED(name##_scalar)
#elif defined(LS_BUILD_AVX2)
#define LS_ISA_NAME(name) LS_TYPED(name##_avx2)
#elif defined(LS_BUILD_AVX512)
#define LS_ISA_NAME(name) LS_TYPED(name##_avx512)
#elif defined(LS_BUILD_NEON)
#define LS_ISA_NAME(name) LS_TYPED(name##_neon)
#endif

#ifdef LS_HAVE_AVX2
#define LS_ISA_IF_AVX2(...) __VA_ARGS__
#else
#define LS_ISA_IF_AVX2(...)
#endif
#ifdef LS_HAVE_AVX512
#define LS_ISA_IF_AVX512(...) __VA_ARGS__
#else
#define LS_ISA_IF_AVX512(...)
#endif
#ifdef LS_HAVE_NEON
#define LS_ISA_IF_NEON(...) __VA_ARGS__
#else
#define LS_ISA_IF_NEON(...)
#endif

/* type: a function type. No semicolon after it. */
#define LS_ISA_TABLE(type, name)                                                                   \
    type LS_TYPED(name##_scalar);                                                                  \
    LS_ISA_IF_AVX2(type LS_TYPED(name##_avx2);)                                                    \
    LS_ISA_IF_AVX512(type LS_TYPED(name##_avx512);)                                                \
    LS_ISA_IF_NEON(type LS_TYPED(name##_neon);)                                                    \
    static type *const name##_table[LS_ISA_COUNT] = {                                              \
        [LS_ISA_SCALAR] = LS_TYPED(name##_scalar),                                                 \
        LS_ISA_IF_AVX2([LS_ISA_AVX2] = LS_TYPED(name##_avx2), )                                    \
            LS_ISA_IF_AVX512([LS_ISA_AVX512] = LS_TYPED(name##_avx512), )                          \
                LS_ISA_IF_NEON([LS_ISA_NEON] = LS_TYPED(name##_neon), )};

#define LS_ISA_PICK(name) name##_table[ls_isa_current()]

#endif
