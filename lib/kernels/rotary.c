/* rotary.c - rotary position embedding, forward and backward. */
#include "lockstep/kernels/rotary.h"

#include "lockstep/numerics/functions.h"

void ls_rotary_table(ls_real *ret_cos, ls_real *ret_sin, size_t positions, size_t head_width,
                     double theta)
{
    const size_t half = head_width / 2;
    const double log_theta = ls_log_f64(theta);
    for (size_t i = 0; i < half; i++) {
        const double exponent = (double)(2 * i) / (double)head_width;
        const double frequency = ls_exp_f64(-(exponent * log_theta));
        for (size_t position = 0; position < positions; position++) {
            const double angle = (double)position * frequency;
            ret_cos[position * half + i] = (ls_real)ls_cos_f64(angle);
            ret_sin[position * half + i] = (ls_real)ls_sin_f64(angle);
        }
    }
}

void ls_rotary_forward(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                       size_t head_width, size_t ld)
{
    const size_t half = head_width / 2;
    for (size_t s = 0; s < S; s++, x += ld, cos += half, sin += half)
        for (size_t h = 0; h < heads; h++) {
            ls_real *first = x + h * head_width, *second = first + half;
            for (size_t i = 0; i < half; i++) {
                const ls_real x1 = first[i], x2 = second[i];
                first[i] = x1 * cos[i] - x2 * sin[i];
                second[i] = x2 * cos[i] + x1 * sin[i];
            }
        }
}

/* Differentiates
 *     y1 = x1 * cos - x2 * sin
 *     y2 = x2 * cos + x1 * sin
 * the transpose of a turn is the turn backwards. */
void ls_rotary_backward(ls_real *dx, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                        size_t head_width, size_t ld)
{
    const size_t half = head_width / 2;
    for (size_t s = 0; s < S; s++, dx += ld, cos += half, sin += half)
        for (size_t h = 0; h < heads; h++) {
            ls_real *first = dx + h * head_width, *second = first + half;
            for (size_t i = 0; i < half; i++) {
                const ls_real d1 = first[i], d2 = second[i];
                first[i] = d1 * cos[i] + d2 * sin[i];
                second[i] = d2 * cos[i] - d1 * sin[i];
            }
        }
}
