/* real.h - one source, two precisions.
 *
 * Everything that computes is written once over `ls_real` and compiled twice: plainly, where
 * ls_real is binary32, and with LS_REAL_IS_F64 defined, where it is binary64. A function ls_foo of
 * such a source is the symbol ls_foo_f32 or ls_foo_f64; its header says
 *
 *     #define ls_foo LS_TYPED(ls_foo)
 *     LS_API void ls_foo(ls_real *y, ...);
 *
 * so that code written over ls_real reads as if there were one. A user's file gets binary32 unless
 * it defines LS_REAL_IS_F64 before it includes any header of Lockstep. What handles arrays of
 * either kind at run time (collectives, files, comparison) takes an ls_dtype next to a void
 * pointer.
 */
#ifndef LS_BASE_REAL_H
#define LS_BASE_REAL_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

/* F16 and BF16 are formats of files (IEEE-754 binary16, and binary32 without its low 16 bits):
 * nothing computes in them. */
typedef enum ls_dtype {
    LS_F32 = 0,
    LS_F64 = 1,
    LS_I32 = 2,
    LS_I64 = 3,
    LS_U8 = 4,
    LS_F16 = 5,
    LS_BF16 = 6
} ls_dtype;

#ifdef LS_REAL_IS_F64
typedef double ls_real;
#define LS_TYPED(name) name##_f64
#define LS_REAL_DTYPE LS_F64
#else
typedef float ls_real;
#define LS_TYPED(name) name##_f32
#define LS_REAL_DTYPE LS_F32
#endif

/* Bytes of one element of `dtype`. */
LS_API size_t ls_dtype_bytes(ls_dtype dtype);

/* The name as files write it: "F32", "F64", "I32", "I64", "U8", "F16", "BF16". */
LS_API const char *ls_dtype_name(ls_dtype dtype);

LS_END_DECLS

#endif
