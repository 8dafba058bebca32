/* learning_rate.c - the two numbers of a step that are made once, in binary64: the learning rate
 * and the factor that clips the gradient. */
#include "lockstep/kernels/optimizer.h"

#include <math.h>

#include "lockstep/numerics/functions.h"

double ls_learning_rate(double peak, double floor, uint64_t warmup, uint64_t total, uint64_t t)
{
    const double pi = 3.14159265358979323846;
    if (t < warmup) return peak * (double)(t + 1) / (double)warmup;
    if (total == 0) return peak;
    if (t >= total) return floor;
    const double angle = pi * (double)(t - warmup) / (double)(total - warmup);
    return floor + (0.5 * (peak - floor)) * (1.0 + ls_cos_f64(angle));
}

double ls_clip_factor(double squares, double max_norm)
{
    if (max_norm == 0.0) return 1.0;
    const double norm = sqrt(squares);
    if (!isfinite(norm)) return (double)NAN;
    return norm > max_norm ? max_norm / norm : 1.0;
}
