/* gemm_simd.h - the five vector operations that a micro-kernel needs, for each instruction set.
 *
 *   vec                     VEC_WIDTH numbers
 *   vec_zero()              +0 in all
 *   vec_load(p), vec_store(p, v)   any alignment
 *   vec_spread(p)           *p in all
 *   vec_add(a, b)           a + b, rounded
 *   vec_fma(a, b, c)        a * b + c, rounded once
 *
 * All act element by element under IEEE-754, so the set changes the speed and never the bits. The
 * tile of a kernel is TILE_ROWS x (TILE_VECS * VEC_WIDTH): as many accumulators as the registers
 * hold beside one row of b and one spread element of a. */
#ifndef LS_NUMERICS_GEMM_SIMD_H
#define LS_NUMERICS_GEMM_SIMD_H

#include "lockstep/base/real.h"

#if defined(LS_BUILD_AVX512)

/* 32 registers: 24 accumulators, 2 of b. */
enum { TILE_ROWS = 12, TILE_VECS = 2 };
#ifdef LS_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#else
#include <immintrin.h>
#endif
#ifdef LS_REAL_IS_F64
typedef __m512d vec;
enum { VEC_WIDTH = 8 };
#define vec_zero() _mm512_setzero_pd()
#define vec_load(p) _mm512_loadu_pd(p)
#define vec_store(p, v) _mm512_storeu_pd(p, v)
#define vec_spread(p) _mm512_set1_pd(*(p))
#define vec_add(a, b) _mm512_add_pd(a, b)
#define vec_fma(a, b, c) _mm512_fmadd_pd(a, b, c)
#else
typedef __m512 vec;
enum { VEC_WIDTH = 16 };
#define vec_zero() _mm512_setzero_ps()
#define vec_load(p) _mm512_loadu_ps(p)
#define vec_store(p, v) _mm512_storeu_ps(p, v)
#define vec_spread(p) _mm512_set1_ps(*(p))
#define vec_add(a, b) _mm512_add_ps(a, b)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#endif

#elif defined(LS_BUILD_AVX2)

/* 16 registers: 12 accumulators, 2 of b. */
#include <immintrin.h>
enum { TILE_ROWS = 6, TILE_VECS = 2 };
#ifdef LS_REAL_IS_F64
typedef __m256d vec;
enum { VEC_WIDTH = 4 };
#define vec_zero() _mm256_setzero_pd()
#define vec_load(p) _mm256_loadu_pd(p)
#define vec_store(p, v) _mm256_storeu_pd(p, v)
#define vec_spread(p) _mm256_broadcast_sd(p)
#define vec_add(a, b) _mm256_add_pd(a, b)
#define vec_fma(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
typedef __m256 vec;
enum { VEC_WIDTH = 8 };
#define vec_zero() _mm256_setzero_ps()
#define vec_load(p) _mm256_loadu_ps(p)
#define vec_store(p, v) _mm256_storeu_ps(p, v)
#define vec_spread(p) _mm256_broadcast_ss(p)
#define vec_add(a, b) _mm256_add_ps(a, b)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#endif

#elif defined(LS_BUILD_NEON)

/* 32 registers: 20 accumulators, 4 of b, 5 of a, which is loaded ahead. */
#include <arm_neon.h>
enum { TILE_ROWS = 5, TILE_VECS = 4 };
#ifdef LS_REAL_IS_F64
typedef float64x2_t vec;
enum { VEC_WIDTH = 2 };
#define vec_zero() vdupq_n_f64(0.0)
#define vec_load(p) vld1q_f64(p)
#define vec_store(p, v) vst1q_f64(p, v)
#define vec_spread(p) vld1q_dup_f64(p)
#define vec_add(a, b) vaddq_f64(a, b)
#define vec_fma(a, b, c) vfmaq_f64(c, a, b)
#else
typedef float32x4_t vec;
enum { VEC_WIDTH = 4 };
#define vec_zero() vdupq_n_f32(0.0f)
#define vec_load(p) vld1q_f32(p)
#define vec_store(p, v) vst1q_f32(p, v)
#define vec_spread(p) vld1q_dup_f32(p)
#define vec_add(a, b) vaddq_f32(a, b)
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)
#endif

#else

/* Plain C: fma() of the C library, exact wherever it is written by the standard. */
#include <math.h>
enum { TILE_ROWS = 4, TILE_VECS = 4 };
typedef ls_real vec;
enum { VEC_WIDTH = 1 };
#define vec_zero() ((ls_real)0)
#define vec_load(p) (*(p))
#define vec_store(p, v) ((void)(*(p) = (v)))
#define vec_spread(p) (*(p))
#define vec_add(a, b) ((a) + (b))
#ifdef LS_REAL_IS_F64
#define vec_fma(a, b, c) fma(a, b, c)
#else
#define vec_fma(a, b, c) fmaf(a, b, c)
#endif

#endif

enum { TILE_COLS = TILE_VECS * VEC_WIDTH };

#endif
