/* judge_compare.c - a case that has run: results, guard bands, inputs, values, in this order. */
#include "conformance/judge_compare.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/numerics/compare.h"
#include "base/append.h"

bool ls_judge_is_right(const judge_tensor *tensor, size_t i, double got)
{
    const double right = tensor->value[i];
    return fabs(got - right) <= tensor->bound[i] || (isinf(got) && isinf(right) && got == right);
}

/* "y[2][5]": place i of rank's own array, dimensions of 1 left out. */
static void name_place(const judge_tensor *tensor, int rank, size_t i, char *text, size_t size)
{
    const size_t own = tensor->outer * tensor->inner > 0
                           ? tensor->count[rank] / (tensor->outer * tensor->inner)
                           : 0;
    const size_t dims[3] = {tensor->outer, own, tensor->inner};
    size_t index[3] = {0, 0, i % tensor->inner};
    index[1] = i / tensor->inner % own;
    index[0] = i / tensor->inner / own;
    size_t at = ls_append(text, size, 0, "%s", tensor->name);
    bool any = false;
    for (int d = 0; d < 3; d++) any = any || dims[d] != 1;
    for (int d = 0; d < 3; d++)
        if (dims[d] != 1 || (!any && d == 1)) at = ls_append(text, size, at, "[%zu]", index[d]);
}

/* Results of all ranks: whether they agree and are well. Of several that failed the first in time:
 * the others mostly say that they gave up after it. */
static judge_outcome look_at_results(const judge_trial *trial, judge_fault *fault)
{
    int unsupported = 0;
    const int total = JUDGE_CALLS * trial->ranks, first = atomic_load(&trial->failed_first);
    if (first >= 0) {
        *fault = (judge_fault){.kind = JUDGE_FAULT_RESULT, .rank = first};
        snprintf(fault->text, sizeof fault->text, "rank %d failed: %s", first,
                 trial->error[first][0] ? ls_show(trial->error[first]) : "it does not say why");
        return JUDGE_FAULTY;
    }
    for (int c = 0; c < JUDGE_CALLS; c++)
        for (int r = 0; r < trial->ranks; r++)
            unsupported += trial->result[c][r] == LS_BACKEND_UNSUPPORTED;
    if (unsupported == total) return JUDGE_NOT_SUPPORTED;
    if (unsupported == 0) return JUDGE_PASSED;
    *fault = (judge_fault){.kind = JUDGE_FAULT_RESULT};
    snprintf(fault->text, sizeof fault->text,
             "%d of %d calls say that the case is not supported, the others do it", unsupported,
             total);
    return JUDGE_FAULTY;
}

static bool find_beside(const judge_trial *trial, judge_fault *fault)
{
    for (int c = 0; c < JUDGE_CALLS; c++)
        for (int r = 0; r < trial->ranks; r++)
            for (size_t k = 0; k < trial->n_tensors; k++)
                if (!ls_trial_guard_whole(trial, c, r, k)) {
                    *fault = (judge_fault){
                        .kind = JUDGE_FAULT_BESIDE, .call = c, .rank = r, .tensor = k};
                    snprintf(fault->text, sizeof fault->text,
                             "rank %d: bytes beside its %s of %zu elements were overwritten", r,
                             trial->tensors[k].name, trial->tensors[k].count[r]);
                    return true;
                }
    return false;
}

static bool find_overwritten(const judge_trial *trial, judge_fault *fault)
{
    for (int r = 0; r < trial->ranks; r++)
        for (size_t k = 0; k < trial->n_tensors; k++) {
            size_t place = 0;
            char name[80];
            if (trial->tensors[k].role != JUDGE_GIVEN || ls_trial_unchanged(trial, r, k, &place))
                continue;
            *fault =
                (judge_fault){.kind = JUDGE_FAULT_INPUT, .rank = r, .tensor = k, .place = place};
            name_place(&trial->tensors[k], r, place, name, sizeof name);
            snprintf(fault->text, sizeof fault->text, "rank %d: the input %s was overwritten", r,
                     name);
            return true;
        }
    return false;
}

static void tell_value(const judge_trial *trial, judge_fault *fault, double expected, double got)
{
    char name[80], call[24] = "", bound[48] = "";
    const judge_tensor *tensor = &trial->tensors[fault->tensor];
    const int digits = trial->dtype == LS_F32 ? 9 : 17;
    const double allowed = tensor->bound[tensor->where[fault->rank][fault->place]];
    name_place(tensor, fault->rank, fault->place, name, sizeof name);
    if (fault->call > 0) snprintf(call, sizeof call, ", call %d", fault->call + 1);
    if (allowed > 0) snprintf(bound, sizeof bound, " (within %.2g)", allowed);
    snprintf(fault->text, sizeof fault->text, "rank %d%s, %s: expected %.*g%s, got %.*g",
             fault->rank, call, name, digits, expected, bound, digits, got);
}

static bool find_wrong(const judge_trial *trial, judge_fault *fault)
{
    for (int c = 0; c < JUDGE_CALLS; c++)
        for (size_t k = 0; k < trial->n_tensors; k++)
            for (int r = 0; r < trial->ranks; r++) {
                const judge_tensor *tensor = &trial->tensors[k];
                for (size_t i = 0; tensor->role != JUDGE_GIVEN && i < tensor->count[r]; i++) {
                    const size_t w = tensor->where[r][i];
                    const double got = ls_trial_read(trial, trial->buffers[c][r][k], i);
                    if (ls_judge_is_right(tensor, w, got)) continue;
                    *fault = (judge_fault){
                        .kind = JUDGE_FAULT_VALUE, .call = c, .rank = r, .tensor = k, .place = i};
                    tell_value(trial, fault, tensor->value[w], got);
                    return true;
                }
            }
    return false;
}

judge_outcome ls_judge_compare(const judge_trial *trial, judge_fault *ret_fault)
{
    const judge_outcome results = look_at_results(trial, ret_fault);
    if (results != JUDGE_PASSED) return results;
    if (find_beside(trial, ret_fault) || find_overwritten(trial, ret_fault) ||
        find_wrong(trial, ret_fault))
        return JUDGE_FAULTY;
    return JUDGE_PASSED;
}

judge_outcome ls_judge_compare_ordered(const judge_trial *trial, judge_fault *ret_fault)
{
    bool said = false;
    const size_t bytes = ls_dtype_bytes(trial->dtype);
    for (int c = 0; c < JUDGE_CALLS; c++)
        for (size_t k = 0; k < trial->n_tensors; k++)
            for (int r = 0; r < trial->ranks; r++) {
                const judge_tensor *tensor = &trial->tensors[k];
                for (size_t i = 0; tensor->ordered != NULL && i < tensor->count[r]; i++) {
                    const char *right = (const char *)tensor->ordered + tensor->where[r][i] * bytes;
                    const char *own = (const char *)trial->buffers[c][r][k] + i * bytes;
                    said = true;
                    if (ls_compare_bits(trial->dtype, right, own, 1, NULL)) continue;
                    *ret_fault = (judge_fault){
                        .kind = JUDGE_FAULT_VALUE, .call = c, .rank = r, .tensor = k, .place = i};
                    char name[80];
                    name_place(tensor, r, i, name, sizeof name);
                    snprintf(ret_fault->text, sizeof ret_fault->text,
                             "rank %d, %s: tree/v1 gives %a, got %a", r, name,
                             ls_trial_read(trial, right, 0), ls_trial_read(trial, own, 0));
                    return JUDGE_FAULTY;
                }
            }
    return said ? JUDGE_PASSED : JUDGE_NOT_SUPPORTED;
}
