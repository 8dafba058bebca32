/* rotary.h - rotary position embedding, as Llama pairs the features: i with i + head_width / 2. */
#ifndef LS_KERNELS_ROTARY_H
#define LS_KERNELS_ROTARY_H

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* cos and sin of position * theta^(-2 i / head_width), i < head_width / 2, in binary64, rounded
 * once: ret_cos, ret_sin are positions x head_width / 2. theta^(-a) is exp(-a log(theta)). */
#define ls_rotary_table LS_TYPED(ls_rotary_table)
LS_API void ls_rotary_table(ls_real *ret_cos, ls_real *ret_sin, size_t positions, size_t head_width,
                            double theta);

/* Turns S tokens of `heads` heads side by side, in place: x is S rows of heads * head_width, stride
 * ld; token s takes row s of the tables. (x1, x2) -> (x1 c - x2 s, x2 c + x1 s). */
#define ls_rotary_forward LS_TYPED(ls_rotary_forward)
LS_API void ls_rotary_forward(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S,
                              size_t heads, size_t head_width, size_t ld);

/* The same turn backwards: (d1, d2) -> (d1 c + d2 s, d2 c - d1 s). */
#define ls_rotary_backward LS_TYPED(ls_rotary_backward)
LS_API void ls_rotary_backward(ls_real *dx, const ls_real *cos, const ls_real *sin, size_t S,
                               size_t heads, size_t head_width, size_t ld);

LS_END_DECLS

#endif
