/* truth.c - how far a record is from the same run in binary64 without a contract. */
#include <math.h>
#include <stdio.h>

#include "base/thread_mode.h"
#include "verify/record.h"

/* NaN is worse than any number, and stays the worst. */
static bool is_worse(double error, double worst)
{
    return error > worst || (isnan(error) && !isnan(worst));
}

/* Whether both have a NaN at one place: no distance at all, where NaN against a number is infinite.
 */
static bool both_undefined(ls_dtype dtype, const void *values, const double *truth, size_t count)
{
    const float *f32 = values;
    const double *f64 = values;
    for (size_t i = 0; i < count; i++)
        if (isnan(truth[i]) && (dtype == LS_F32 ? isnan(f32[i]) : isnan(f64[i]))) return true;
    return false;
}

/* The largest finite magnitude. */
static double largest(const double *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) most = fmax(most, fabs(values[i]));
    return most;
}

/* A tensor that is zero on paper (the gradient of a key's bias: softmax does not see it) holds
 * nothing but rounding noise, in the truth too, and no error is small next to that. So a tensor is
 * measured by its own largest value, but by no less than a thousandth of the largest of all. */
static void worst(double *ret_worst, char name[96], const ls_record *record, void *const *values,
                  void *const *truth)
{
    double floor = 0;
    *ret_worst = -1; /* so that a tensor is named where every error is 0 */
    name[0] = 0;
    for (size_t i = 0; i < record->table->count; i++) {
        if (!truth[i]) continue; /* the gradient of a state */
        floor = fmax(floor, 1e-3 * largest(truth[i], ls_param_elements(&record->table->params[i])));
    }
    for (size_t i = 0; i < record->table->count; i++) {
        if (!truth[i]) continue;
        const ls_param *param = &record->table->params[i];
        ls_truth_error error;
        ls_compare_truth(record->dtype, values[i], truth[i], ls_param_elements(param), &error);
        double unit = fmax(floor, largest(truth[i], ls_param_elements(param)));
        double relative = unit > 0 ? error.max_absolute / unit : error.relative;
        if (both_undefined(record->dtype, values[i], truth[i], ls_param_elements(param)))
            relative = (double)NAN;
        if (is_worse(relative, *ret_worst)) {
            *ret_worst = relative;
            snprintf(name, 96, "%s", param->name);
        }
    }
}

ls_status ls_record_against_truth(const ls_record *record, const ls_record *truth,
                                  ls_record_truth *ret_truth)
{
    ls_status status = LS_OK;
    ls_record_truth result = {0};
    ls_thread_mode mode;

    ls_thread_mode_set(&mode);
    if (truth->dtype != LS_F64 || truth->steps != record->steps ||
        truth->table->count != record->table->count)
        LS_FAIL(LS_ERR_INTERNAL, "a record is held against the truth of another run");
    for (uint64_t s = 0; s < record->steps; s++) {
        double error = fabs(record->step[s].loss - truth->step[s].loss);
        if (error != 0) error /= fabs(truth->step[s].loss);
        if (is_worse(error, result.loss)) result.loss = error;
    }
    if (record->steps) {
        uint64_t last = record->steps - 1;
        worst(&result.gradient, result.gradient_tensor, record, record->step[0].gradient,
              truth->step[0].gradient);
        worst(&result.parameter, result.parameter_tensor, record, record->step[last].value,
              truth->step[last].value);
    }
    *ret_truth = result;
exit:
    ls_thread_mode_restore(&mode);
    return status;
}
