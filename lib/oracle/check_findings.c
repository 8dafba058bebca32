/* check_findings.c - the mistakes behind the tensors that are different.
 *
 * A root is a different tensor whose own operation is wrong, whose replicas differ, or that nothing
 * different came into. For each the cause is looked for; which roots are one mistake is
 * check_group.c's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/check_parts.h"

static bool is_root(const ls_check_place *place)
{
    const ls_judged *judged = place->judged;
    if (!judged || judged->verdict != LS_DIFFERENT_TENSOR || place->split_before) return false;
    return judged->candidate->replicas_differ || judged->local == LS_LOCAL_OUTSIDE ||
           !place->wrong_before;
}

/* ---- a root's cause ---- */

/* Where inputs are not the candidate's own, the result moves by as much as a run's does. */
static void widen_bound(const struct ls_check *check, const ls_check_place *place, double *bound)
{
    const double *truth = NULL;
    const double run = ls_check_bound(check, place, &truth);
    for (size_t i = 0; isfinite(run) && i < place->golden->count; i++) bound[i] += run;
}

/* What was found so far at tensors whose inputs are not all there: one mistake is likely to be
 * behind many, and the search before a tensor takes long. */
typedef struct upstream {
    size_t searched, fruitless;
    ls_cause cause;
} upstream;

/* So many searches for everything, so many that find nothing. */
enum { WHOLE_SEARCHES = 12, FRUITLESS_SEARCHES = 4 };

static ls_status find_cause(const struct ls_check *check, const ls_check_place *place,
                            upstream *before, ls_suspicion *ret_suspicion)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *mine = place->candidate;
    const size_t count = place->golden->count;
    ls_check_operands loaded = {0};
    double *candidate = NULL, *right = NULL, *bound = NULL;
    if (!ls_check_has_operation(check, place)) goto exit;
    LS_TRY(ls_check_load(&loaded, check, place, true, true));
    LS_TRY(ls_check_widen(&candidate, mine->dtype, mine->values, count));
    right = malloc(count * sizeof *right);
    bound = malloc(count * sizeof *bound);
    if (!right || !bound)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to compute %s again", place->golden->name);
    LS_TRY(ls_operation_evaluate(&loaded.operands, place->golden->node, loaded.precision, right,
                                 bound));
    if (!loaded.own) widen_bound(check, place, bound);
    const ls_case of = {.golden = check->golden,
                        .step = place->golden->step,
                        .node = place->golden->node,
                        .operands = loaded.operands,
                        .own_inputs = loaded.own,
                        .precision = loaded.precision,
                        .candidate = candidate,
                        .right = right,
                        .bound = bound,
                        .as_given = mine,
                        .whole = check->candidate,
                        .hint = before->cause,
                        .brief = before->searched >= WHOLE_SEARCHES ||
                                 before->fruitless >= FRUITLESS_SEARCHES};
    LS_TRY(ls_cause_find(&of, ret_suspicion));
    if (loaded.own) goto exit;
    before->searched++;
    if (ret_suspicion->cause == LS_CAUSE_NONE)
        before->fruitless++;
    else
        before->cause = ret_suspicion->cause;
exit:
    ls_check_unload(&loaded);
    free(candidate), free(right), free(bound);
    return status;
}

/* ---- what is missing before a root ---- */

typedef struct walk {
    const struct ls_check *check;
    ls_finding *finding;
    bool *seen; /* per place */
} walk;

static void step_back(walk *w, ls_check_place *to)
{
    const size_t place = (size_t)(to - w->check->places);
    size_t count;
    if (w->seen[place] || !to->golden || to->golden->given) return;
    w->seen[place] = true;
    if (to->candidate) {
        if (to->judged) w->finding->before[w->finding->n_before++] = to->judged;
        return;
    }
    w->finding->missing[w->finding->n_missing++] = to->golden;
    const uint64_t step = to->golden->step;
    const int *inputs = ls_check_inputs(w->check, to->golden->node, &count);
    for (size_t i = 0; i < count; i++) step_back(w, ls_check_at(w->check, step, inputs[i]));
}

static int by_order(const void *a, const void *b)
{
    const ls_golden_tensor *x = *(const ls_golden_tensor *const *)a;
    const ls_golden_tensor *y = *(const ls_golden_tensor *const *)b;
    return (x > y) - (x < y); /* they stand in one array, in order of execution */
}

static ls_status find_missing(const struct ls_check *check, ls_finding *finding)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *of = finding->tensor->golden;
    const size_t places = check->steps * check->nodes;
    walk w = {check, finding, calloc(places + 1, sizeof *w.seen)};
    size_t count;
    finding->missing = calloc(places + 1, sizeof *finding->missing);
    finding->before = calloc(places + 1, sizeof *finding->before);
    if (!w.seen || !finding->missing || !finding->before)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for what %s depends on", of->name);
    const int *list = ls_check_inputs(check, of->node, &count);
    for (size_t i = 0; i < count; i++) step_back(&w, ls_check_at(check, of->step, list[i]));
    list = ls_check_reads(check, of->node, &count);
    for (size_t i = 0; of->step > check->golden->first_step && i < count; i++)
        step_back(&w, ls_check_at(check, of->step - 1, check->updated[list[i]]));
    qsort(finding->missing, finding->n_missing, sizeof *finding->missing, by_order);
exit:
    free(w.seen);
    return status;
}

/* ---- findings ---- */

static void free_finding(ls_finding *finding)
{
    free(finding->tensors), free(finding->missing), free(finding->before);
    memset(finding, 0, sizeof *finding);
}

static ls_status add_root(const struct ls_check *check, const ls_judged *root,
                          const ls_suspicion *suspicion, bool examined)
{
    ls_status status = LS_OK;
    ls_judgement *judgement = check->judgement;
    ls_finding fresh = {.tensor = root, .suspicion = *suspicion};
    ls_finding *finding = ls_check_group(check, root, suspicion, examined);
    if (!finding && !examined) {
        judgement->unexamined++;
        goto exit;
    }
    if (!finding && ls_check_comes_later(check, root, suspicion)) {
        judgement->later++;
        goto exit;
    }
    if (!finding && root->local == LS_LOCAL_UNKNOWN && !root->golden->given) {
        LS_TRY(find_missing(check, &fresh));
        if (suspicion->cause == LS_CAUSE_NONE) finding = ls_check_share_missing(judgement, &fresh);
    }
    if (!finding) {
        ls_finding *more =
            realloc(judgement->findings, (judgement->n_findings + 1) * sizeof *judgement->findings);
        if (!more) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for what was found");
        judgement->findings = more;
        finding = &more[judgement->n_findings++];
        *finding = fresh;
        memset(&fresh, 0, sizeof fresh);
    }
    const ls_judged **tensors =
        realloc(finding->tensors, (finding->count + 1) * sizeof *finding->tensors);
    if (!tensors) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for what was found");
    finding->tensors = tensors;
    tensors[finding->count++] = root;
exit:
    free_finding(&fresh);
    return status;
}

static bool is_blamed(const ls_judged *judged)
{
    return judged->local == LS_LOCAL_OUTSIDE || judged->candidate->replicas_differ;
}

ls_status ls_check_find(struct ls_check *check)
{
    ls_status status = LS_OK;
    ls_judgement *judgement = check->judgement;
    size_t examined = 0;
    upstream before = {0};
    for (size_t i = 0; i < judgement->count; i++) {
        const ls_judged *root = &judgement->tensors[i];
        const ls_check_place *place = ls_check_at(check, root->golden->step, root->golden->node);
        const bool examine = examined < LS_CHECK_EXAMINED;
        ls_suspicion suspicion = {0};
        if (!is_root(place)) continue;
        if (check->options.stop && *check->options.stop != 0)
            LS_FAIL(LS_ERR_INTERRUPTED, "interrupted");
        if (examine) LS_TRY(find_cause(check, place, &before, &suspicion));
        LS_TRY(add_root(check, root, &suspicion, examine));
        if (judgement->n_findings == 1 && !judgement->blame) judgement->suspicion = suspicion;
        if (!judgement->blame && is_blamed(root)) {
            judgement->blame = root;
            judgement->suspicion = suspicion;
        }
        examined++;
        if (check->options.advance)
            check->options.advance(check->options.context, i + 1, judgement->count,
                                   "looking for causes");
    }
exit:
    return status;
}
