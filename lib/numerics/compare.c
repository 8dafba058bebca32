/* compare.c - equality and distance of floating-point arrays. */
#include "lockstep/numerics/compare.h"

#include <assert.h>
#include <math.h>

#include "numerics/ulps.h"

/* Adds the pair at index i, `ulps` apart, to what was found so far. */
static void note(ls_difference *found, size_t i, double left, double right, uint64_t ulps)
{
    if (ulps == 0) return;
    if (found->count == 0) {
        found->first = i;
        found->left = left;
        found->right = right;
        found->ulps = ulps;
    }
    found->count++;
    if (ulps > found->max_ulps) found->max_ulps = ulps;
}

int ls_compare_bits(ls_dtype dtype, const void *left, const void *right, size_t count,
                    ls_difference *ret_difference)
{
    assert(dtype == LS_F32 || dtype == LS_F64);
    ls_difference found = {0};
    if (dtype == LS_F32) {
        const float *x = left, *y = right;
        for (size_t i = 0; i < count; i++) {
            note(&found, i, (double)x[i], (double)y[i], ls_ulps_between_f32(x[i], y[i]));
        }
    } else {
        const double *x = left, *y = right;
        for (size_t i = 0; i < count; i++) {
            note(&found, i, x[i], y[i], ls_ulps_between_f64(x[i], y[i]));
        }
    }
    if (ret_difference != NULL) *ret_difference = found;
    return found.count == 0;
}

/* |x - t|; 0 for the same infinity or two NaNs, infinity where only one of them is such a value. */
static double absolute_error(double x, double t)
{
    if (isfinite(x) && isfinite(t)) return fabs(x - t);
    return x == t || (isnan(x) && isnan(t)) ? 0.0 : (double)INFINITY;
}

void ls_compare_truth(ls_dtype dtype, const void *x, const double *truth, size_t count,
                      ls_truth_error *ret_error)
{
    assert(dtype == LS_F32 || dtype == LS_F64);
    const float *x32 = x;
    const double *x64 = x;
    double worst = 0.0, largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        double error = absolute_error(dtype == LS_F32 ? (double)x32[i] : x64[i], truth[i]);
        if (error > worst) worst = error;
        if (isfinite(truth[i]) && fabs(truth[i]) > largest) largest = fabs(truth[i]);
    }
    ret_error->max_absolute = worst;
    ret_error->relative =
        worst == 0.0 ? 0.0 : worst / largest; /* an error where all truth is 0: infinity */
}
