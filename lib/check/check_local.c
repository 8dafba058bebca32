/* check_local.c - one tensor that is not equal: how far from the golden values, from the truth, and
 * from what its operation gives from the candidate's own inputs. */
#include <math.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "check/check_parts.h"

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

/* Whether a bound tells a tensor from 1.1 times itself; else it says nothing, as it would allow
 * much that no rounding makes. bound: one for all elements or, where `each`, one per element.
 * rounded: what writing either may change, as a share. */
static bool tells(const double *right, size_t count, const double *bound, bool each, double spread,
                  double rounded)
{
    const double part = 0.1 - rounded;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!(right[i] == 0)) any = true; /* NaN too */
        if (part * fabs(right[i]) > bound[each ? i : 0]) return true;
    }
    return !any || part * ls_root_mean_square(right, count) > spread;
}

/* ---- against the golden values and the truth ---- */

/* The candidate's values, and those of the golden tensor rounded to its format. */
typedef struct tensors {
    const double *candidate, *golden;
    double *far; /* distances of the candidate's from what is right */
} tensors;

/* What whole runs may change, as a share. */
static double size_of(const double *right, size_t count, const ls_check_run_bound *of)
{
    const double size =
        fmin(of->most / ls_largest(right, count), of->spread / ls_root_mean_square(right, count));
    return isnan(size) ? 0 : size;
}

static void measure_element(ls_check_place *place, const tensors *t, size_t i, double right,
                            double bound, ls_check_outside *run)
{
    ls_judged *judged = place->judged;
    const double value = t->candidate[i], golden = t->golden[i];
    const uint64_t ulps = ls_check_ulps(judged->format, value, golden);
    if (ulps > 0) {
        if (judged->differing++ == 0) place->differs = i;
        if (ulps > judged->max_ulps) judged->max_ulps = ulps;
    }
    t->far[i] = 0;
    if (!same_kind(value, golden)) {
        judged->misplaced = true;
        judged->error = HUGE_VAL;
        ls_check_count_outside(run, i);
    } else if (isfinite(value)) {
        /* What was written was rounded once more. */
        const double error = t->far[i] = fabs(value - right);
        if (!(error <= judged->error)) judged->error = error;
        if (!(error <= bound + unit_of(judged->format) * fabs(right)))
            ls_check_count_outside(run, i);
    }
}

static ls_check_outside measure_run(const struct ls_check *check, ls_check_place *place,
                                    const tensors *t)
{
    ls_judged *judged = place->judged;
    const size_t count = judged->golden->count;
    const ls_check_run_bound of = ls_check_bounds(check, place);
    const double *right = of.truth ? of.truth : t->golden;
    ls_check_outside run = {0, 0};
    judged->bound = of.most;
    for (size_t i = 0; i < count; i++) measure_element(place, t, i, right[i], of.most, &run);
    judged->error_rms = ls_root_mean_square(t->far, count);
    judged->bound_rms = of.spread;
    judged->size = size_of(right, count, &of);
    judged->zero_on_paper = ls_graph_zero_on_paper(check->graph, judged->golden->node);
    judged->useless = !judged->zero_on_paper &&
                      !tells(right, count, &of.most, false, of.spread, 3 * unit_of(judged->format));
    if (run.count == 0 && !judged->misplaced)
        ls_check_spread(&run, t->far, count,
                        of.spread + unit_of(judged->format) * ls_root_mean_square(right, count),
                        ls_bounds_run(check->graph, judged->golden->node), of.rows);
    judged->within = !judged->misplaced && run.count == 0 && !judged->useless && isfinite(of.most);
    return run;
}

/* ---- against the operation's own result ---- */

/* What it gives from the candidate's own inputs. */
typedef struct again {
    double *right, *bound;
    double *deviation; /* of a narrow format; NULL: the bound says it all */
} again;

static void free_again(again *of)
{
    free(of->right), free(of->bound), free(of->deviation);
    *of = (again){NULL, NULL, NULL};
}

static ls_status measure_local(const struct ls_check *check, ls_judged *judged, const tensors *t,
                               const again *of, ls_check_outside *ret_outside)
{
    ls_status status = LS_OK;
    ls_check_outside local = {0, 0};
    const size_t count = judged->golden->count;
    double worst = -1, spread = HUGE_VAL;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs(t->candidate[i] - of->right[i]);
        const bool allowed = ls_check_allowed(t->candidate[i], of->right[i], of->bound[i]);
        double share = error == 0 ? 0 : error / of->bound[i];
        t->far[i] = isfinite(error) ? error : 0;
        if (!allowed) ls_check_count_outside(&local, i);
        if (isnan(share)) share = allowed ? 0 : HUGE_VAL;
        if (!(share > worst)) continue;
        worst = share;
        judged->worst = i;
        judged->local_error = error;
        judged->local_bound = of->bound[i];
    }
    if (of->deviation && local.count == 0)
        LS_TRY(ls_check_deviations(&local, t->far, of->deviation, count,
                                   ls_bounds_run(check->graph, judged->golden->node), &spread));
    if (local.count > 0)
        judged->local = LS_LOCAL_OUTSIDE;
    else if (judged->zero_on_paper || tells(of->right, count, of->bound, true, spread, 0))
        judged->local = LS_LOCAL_WITHIN;
    *ret_outside = local;
exit:
    return status;
}

static ls_status compute_again(const struct ls_check *check, const ls_check_place *place,
                               again *ret_again)
{
    ls_status status = LS_OK;
    ls_check_operands loaded = {0};
    const size_t count = place->golden->count;
    again of = {NULL, NULL, NULL};
    if (!ls_check_has_operation(check, place)) goto exit;
    LS_TRY(ls_check_load(&loaded, check, place, false, false));
    if (!loaded.own) goto exit;
    LS_ROOM(of.right, count);
    LS_ROOM(of.bound, count);
    LS_ROOM(of.deviation, count);
    LS_TRY(ls_operation_judge(&loaded.operands, place->golden->node, loaded.precision, of.right,
                              of.bound, of.deviation));
    if (!(loaded.precision.partials > 0)) free(of.deviation), of.deviation = NULL;
    *ret_again = of;
    of = (again){NULL, NULL, NULL};
exit:
    ls_check_unload(&loaded);
    free_again(&of);
    return status;
}

ls_status ls_check_again(const struct ls_check *check, const ls_check_place *place,
                         double **ret_right, double **ret_bound)
{
    ls_status status = LS_OK;
    again of = {NULL, NULL, NULL};
    LS_TRY(compute_again(check, place, &of));
    if (!of.right) goto exit;
    *ret_right = of.right;
    *ret_bound = of.bound;
    of.right = of.bound = NULL;
exit:
    free_again(&of);
    return status;
}

ls_status ls_check_measure(const struct ls_check *check, ls_check_place *place)
{
    ls_status status = LS_OK;
    ls_judged *judged = place->judged;
    const ls_golden_tensor *golden = place->golden;
    double *candidate = NULL, *mine = NULL, *far = NULL;
    again of = {NULL, NULL, NULL};
    const double *truth = NULL;
    LS_ROOM(far, golden->count);
    LS_TRY(ls_check_widen(&candidate, judged->candidate->dtype, judged->candidate->values,
                          golden->count));
    if (check->golden->kind == LS_GOLDEN_INTEGERS) ls_check_one_zero(candidate, golden->count);
    LS_TRY(ls_check_widen(&mine, golden->dtype, golden->values, golden->count));
    if (ls_check_is_coarser(judged->format, golden->dtype))
        ls_check_round(judged->format, mine, golden->count);
    const tensors t = {candidate, mine, far};
    const ls_check_outside run = measure_run(check, place, &t);
    if (!check->options.quick || !judged->within) LS_TRY(compute_again(check, place, &of));
    ls_check_outside local = {0, 0};
    if (of.right) LS_TRY(measure_local(check, judged, &t, &of, &local));

    const bool by_local = local.count > 0 && !judged->misplaced;
    const ls_check_outside *by = by_local ? &local : &run;
    judged->outside = by->count;
    judged->first = by->count > 0 ? by->first : place->differs;
    judged->candidate_value = candidate[judged->first];
    judged->golden_value = mine[judged->first];
    (void)ls_check_bound(check, place, &truth);
    judged->right_value = of.right ? of.right[judged->first]
                          : truth  ? truth[judged->first]
                                   : mine[judged->first];
exit:
    free(candidate), free(mine), free(far);
    free_again(&of);
    return status;
}
