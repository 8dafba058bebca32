/* check_local.c - one tensor that is not equal: how far from the golden values, from the truth, and
 * from what its operation gives from the candidate's own inputs. */
#include <math.h>
#include <stdlib.h>

#include "oracle/check_parts.h"

bool ls_check_allowed(double value, double right, double bound)
{
    if (isnan(value) || isnan(right)) return isnan(value) && isnan(right);
    if (isinf(value) || isinf(right)) return value == right;
    return fabs(value - right) <= bound;
}

static bool same_kind(double a, double b)
{
    if (isfinite(a) && isfinite(b)) return true;
    return (isnan(a) && isnan(b)) || a == b;
}

static double unit_of(ls_dtype format)
{
    return ls_precision_of(format, 1).u;
}

/* Elements that are not allowed: how many, and the first. */
typedef struct outside {
    size_t count, first;
} outside;

static void count_outside(outside *of, size_t i)
{
    if (of->count++ == 0) of->first = i;
}

/* Against the golden values and the truth; candidate, golden: the latter rounded to the former's
 * format. */
static outside measure_run(const struct ls_check *check, ls_check_place *place,
                           const double *candidate, const double *golden)
{
    ls_judged *judged = place->judged;
    const double *truth = NULL;
    const double bound = ls_check_bound(check, place, &truth), u = unit_of(judged->format);
    outside run = {0, 0};
    judged->bound = bound;
    for (size_t i = 0; i < judged->golden->count; i++) {
        const double value = candidate[i], right = truth ? truth[i] : golden[i];
        const uint64_t ulps = ls_check_ulps(judged->format, value, golden[i]);
        if (ulps > 0) {
            if (judged->differing++ == 0) place->differs = i;
            if (ulps > judged->max_ulps) judged->max_ulps = ulps;
        }
        if (!same_kind(value, golden[i])) {
            judged->misplaced = true;
            judged->error = HUGE_VAL;
            count_outside(&run, i);
        } else if (isfinite(value)) {
            /* What was written was rounded once more. */
            const double error = fabs(value - right);
            if (!(error <= judged->error)) judged->error = error;
            if (!(error <= bound + u * fabs(right))) count_outside(&run, i);
        }
    }
    judged->within = !judged->misplaced && run.count == 0 && isfinite(bound);
    return run;
}

/* Against the operation's own result. */
static outside measure_local(ls_judged *judged, const double *candidate, const double *right,
                             const double *bound)
{
    outside local = {0, 0};
    double worst = -1;
    for (size_t i = 0; i < judged->golden->count; i++) {
        const double error = fabs(candidate[i] - right[i]);
        const bool allowed = ls_check_allowed(candidate[i], right[i], bound[i]);
        double share = error == 0 ? 0 : error / bound[i];
        if (!allowed) count_outside(&local, i);
        if (isnan(share)) share = allowed ? 0 : HUGE_VAL;
        if (!(share > worst)) continue;
        worst = share;
        judged->worst = i;
        judged->local_error = error;
        judged->local_bound = bound[i];
    }
    judged->local = local.count > 0 ? LS_LOCAL_OUTSIDE : LS_LOCAL_WITHIN;
    return local;
}

ls_status ls_check_again(const struct ls_check *check, const ls_check_place *place,
                         double **ret_right, double **ret_bound)
{
    ls_status status = LS_OK;
    ls_check_operands loaded = {0};
    const size_t count = place->golden->count;
    double *right = NULL, *bound = NULL;
    if (!ls_check_has_operation(check, place)) goto exit;
    LS_TRY(ls_check_load(&loaded, check, place, false, false));
    if (!loaded.own) goto exit;
    right = malloc(count * sizeof *right);
    bound = malloc(count * sizeof *bound);
    if (!right || !bound)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to compute %s again", place->golden->name);
    LS_TRY(ls_operation_evaluate(&loaded.operands, place->golden->node, loaded.precision, right,
                                 bound));
    *ret_right = right;
    *ret_bound = bound;
    right = bound = NULL;
exit:
    ls_check_unload(&loaded);
    free(right), free(bound);
    return status;
}

ls_status ls_check_measure(const struct ls_check *check, ls_check_place *place)
{
    ls_status status = LS_OK;
    ls_judged *judged = place->judged;
    const ls_golden_tensor *golden = place->golden;
    double *candidate = NULL, *mine = NULL, *right = NULL, *bound = NULL;
    const double *truth = NULL;
    LS_TRY(ls_check_widen(&candidate, judged->candidate->dtype, judged->candidate->values,
                          golden->count));
    if (check->golden->kind == LS_GOLDEN_INTEGERS) ls_check_one_zero(candidate, golden->count);
    LS_TRY(ls_check_widen(&mine, golden->dtype, golden->values, golden->count));
    if (ls_check_is_coarser(judged->format, golden->dtype))
        ls_check_round(judged->format, mine, golden->count);
    const outside run = measure_run(check, place, candidate, mine);
    if (!check->options.quick || !judged->within)
        LS_TRY(ls_check_again(check, place, &right, &bound));
    outside local = {0, 0};
    if (right) local = measure_local(judged, candidate, right, bound);

    const bool by_local = local.count > 0 && !judged->misplaced;
    const outside *by = by_local ? &local : &run;
    judged->outside = by->count;
    judged->first = by->count > 0 ? by->first : place->differs;
    judged->candidate_value = candidate[judged->first];
    judged->golden_value = mine[judged->first];
    (void)ls_check_bound(check, place, &truth);
    judged->right_value = right   ? right[judged->first]
                          : truth ? truth[judged->first]
                                  : mine[judged->first];
exit:
    free(candidate), free(mine), free(right), free(bound);
    return status;
}
