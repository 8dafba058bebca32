/* findings.c - the mistakes behind the tensors that are different.
 *
 * A root is a different tensor whose own operation is wrong, whose replicas differ, or that nothing
 * different came into. For each the cause is looked for; which roots are one mistake is
 * decided in findings_group.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/thread_mode.h"
#include "causes/findings_parts.h"

static bool is_root(const struct ls_check *check, const ls_judged *judged)
{
    const ls_check_place *place = ls_check_at(check, judged->golden->step, judged->golden->node);
    if (judged->verdict != LS_DIFFERENT_TENSOR || place->split_before) return false;
    if (place->wrong_before && ls_findings_follow_nan(check->judgement, judged)) return false;
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

/* What all searches share. Of tensors whose inputs are not all there: what was found so far, since
 * one mistake is likely to be behind many, and the search before a tensor takes long. */
typedef struct searches {
    size_t searched, fruitless, confirmed;
    ls_cause cause;
    char evidence[LS_EVIDENCE];
    double local, before; /* work that is left at tensors themselves, and for what is before them */
    ls_squares *squares;
} searches;

/* So many searches for everything, so many that find nothing, so many tensors that have the same
 * cause before them, after which the others are taken to have it too; and work, in multiplications,
 * of all together: some seconds each. A search has three quarters of what is left: what the first
 * does not find, those after it seldom do. */
enum { WHOLE_SEARCHES = 12, FRUITLESS_SEARCHES = 4, ENOUGH = 8 };
#define LOCAL_WORK 1.2e10
#define BEFORE_WORK 5e9

static ls_status find_cause(const struct ls_check *check, const ls_check_place *place,
                            searches *all, ls_suspicion *ret_suspicion)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *mine = place->candidate;
    const size_t count = place->golden->count;
    ls_check_operands loaded = {0};
    double *candidate = NULL, *right = NULL, *bound = NULL;
    if (!ls_check_has_operation(check, place)) goto exit;
    if (place->judged->local == LS_LOCAL_UNKNOWN && all->confirmed >= ENOUGH && count > 1) {
        ret_suspicion->cut_short = true;
        goto exit;
    }
    LS_TRY(ls_check_load(&loaded, check, place, true, true));
    LS_TRY(ls_check_widen(&candidate, mine->dtype, mine->values, count));
    LS_ROOM(right, count);
    LS_ROOM(bound, count);
    LS_TRY(ls_operation_evaluate(&loaded.operands, place->golden->node, loaded.precision, right,
                                 bound));
    if (!loaded.own) widen_bound(check, place, bound);
    double *left = loaded.own ? &all->local : &all->before, budget = 0.75 * *left;
    const double begun = budget;
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
                        .hint = all->cause,
                        .hint_evidence = all->evidence[0] ? all->evidence : NULL,
                        .brief = all->searched >= WHOLE_SEARCHES ||
                                 all->fruitless >= FRUITLESS_SEARCHES ||
                                 ls_findings_is_one_number(place->judged),
                        .budget = &budget,
                        .squares = &all->squares};
    LS_TRY(ls_cause_find(&of, ret_suspicion));
    *left -= begun - budget;
    if (of.brief && ret_suspicion->cause == LS_CAUSE_NONE &&
        ls_findings_is_one_number(place->judged))
        snprintf(ret_suspicion->evidence, sizeof ret_suspicion->evidence,
                 "one number whose inputs are not given chooses among no mistakes");
    if (loaded.own) goto exit;
    all->searched++;
    if (ret_suspicion->cause == LS_CAUSE_NONE)
        all->fruitless++;
    else {
        all->confirmed = ret_suspicion->cause == all->cause ? all->confirmed + 1 : 1;
        all->cause = ret_suspicion->cause;
        memcpy(all->evidence, ret_suspicion->evidence, sizeof all->evidence);
    }
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
    return (x > y) - (x < y); /* they are in one array, in order of execution */
}

static ls_status find_missing(const struct ls_check *check, ls_finding *finding)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *of = finding->tensor->golden;
    const size_t places = check->steps * check->nodes;
    walk w = {check, finding, NULL};
    size_t count;
    LS_NEW(w.seen, places);
    LS_NEW(finding->missing, places);
    LS_NEW(finding->before, places);
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

static ls_status add_root(ls_findings *findings, const ls_judged *root,
                          const ls_suspicion *suspicion, bool examined)
{
    ls_status status = LS_OK;
    ls_finding fresh = {.tensor = root, .suspicion = *suspicion};
    ls_finding *finding = ls_findings_group(findings, root, suspicion, examined);
    if (finding && finding->suspicion.cause != LS_CAUSE_NONE &&
        ls_mistake_of(suspicion->cause)->includes == finding->suspicion.cause)
        finding->suspicion = *suspicion; /* the more specific one */
    if (!finding && !examined) {
        findings->unexamined++;
        goto exit;
    }
    if (!finding && ls_findings_come_before(findings, root, suspicion)) {
        findings->later++;
        goto exit;
    }
    if (!finding && root->local == LS_LOCAL_UNKNOWN && !root->golden->given) {
        LS_TRY(find_missing(findings->of->inside, &fresh));
        if (suspicion->cause == LS_CAUSE_NONE)
            finding = ls_findings_share_missing(findings, &fresh);
    }
    if (!finding) {
        LS_RESIZE(findings->list, findings->count + 1);
        finding = &findings->list[findings->count++];
        *finding = fresh;
        memset(&fresh, 0, sizeof fresh);
    }
    LS_RESIZE(finding->tensors, finding->count + 1);
    finding->tensors[finding->count++] = root;
exit:
    free_finding(&fresh);
    return status;
}

static bool is_blamed(const ls_judged *judged)
{
    return judged->local == LS_LOCAL_OUTSIDE || judged->candidate->replicas_differ;
}

/* ---- the whole ---- */

typedef struct root {
    const ls_judged *judged;
    ls_suspicion suspicion;
    bool examined;
} root;

static ls_status examine(const ls_findings *findings, root *of, searches *all)
{
    ls_status status = LS_OK;
    const struct ls_check *check = findings->of->inside;
    const ls_golden_tensor *golden = of->judged->golden;
    const volatile int *stop = check->options.stop;
    if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0)
        LS_FAIL(LS_ERR_INTERRUPTED, "interrupted");
    of->examined = true;
    if (!ls_findings_say_nothing(findings->of, of->judged, &of->suspicion))
        LS_TRY(
            find_cause(check, ls_check_at(check, golden->step, golden->node), all, &of->suspicion));
    if (check->options.advance)
        check->options.advance(check->options.context,
                               (uint64_t)(of->judged - findings->of->tensors) + 1,
                               findings->of->count, "looking for causes");
exit:
    return status;
}

static int by_execution(const void *a, const void *b)
{
    const ls_judged *x = ((const ls_finding *)a)->tensor, *y = ((const ls_finding *)b)->tensor;
    return (x > y) - (x < y);
}

static int by_tensor(const void *a, const void *b)
{
    const ls_judged *x = *(const ls_judged *const *)a, *y = *(const ls_judged *const *)b;
    return (x > y) - (x < y);
}

/* A tensor for which no cause was found may be explained by one found after it, as what reads a
 * weight is by how its gradient is arranged. */
static ls_status join_unnamed(ls_findings *findings)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < findings->count;) {
        ls_finding *unnamed = &findings->list[i];
        ls_finding *into = unnamed->suspicion.cause == LS_CAUSE_NONE
                               ? ls_findings_explaining(findings, unnamed)
                               : NULL;
        if (!into) {
            i++;
            continue;
        }
        LS_RESIZE(into->tensors, into->count + unnamed->count);
        memcpy(into->tensors + into->count, unnamed->tensors,
               unnamed->count * sizeof *into->tensors);
        into->count += unnamed->count;
        free_finding(unnamed);
        findings->count--;
        memmove(unnamed, unnamed + 1, (findings->count - i) * sizeof *unnamed);
    }
exit:
    return status;
}

/* In order of execution; the first tensor of each speaks for it. */
static void sort_findings(ls_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        ls_finding *finding = &findings->list[i];
        qsort(finding->tensors, finding->count, sizeof *finding->tensors, by_tensor);
        finding->tensor = finding->tensors[0];
    }
    qsort(findings->list, findings->count, sizeof *findings->list, by_execution);
}

/* One number whose inputs are missing comes last: what others are found to be is asked of it. */
static ls_status find_all(ls_findings *findings, root *roots, size_t count)
{
    ls_status status = LS_OK;
    searches all = {.local = LOCAL_WORK, .before = BEFORE_WORK};
    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < count; i++)
            if (ls_findings_is_one_number(roots[i].judged) == (last != 0) &&
                i < LS_FINDINGS_EXAMINED)
                LS_TRY(examine(findings, &roots[i], &all));
        for (size_t i = 0; i < count; i++)
            if (ls_findings_is_one_number(roots[i].judged) == (last != 0))
                LS_TRY(add_root(findings, roots[i].judged, &roots[i].suspicion, roots[i].examined));
    }
    LS_TRY(join_unnamed(findings));
    sort_findings(findings);
    if (findings->count > 0) findings->suspicion = findings->list[0].suspicion;
    for (size_t i = 0; i < count && !findings->blame; i++)
        if (is_blamed(roots[i].judged)) {
            findings->blame = roots[i].judged;
            findings->suspicion = roots[i].suspicion;
        }
exit:
    ls_squares_destroy(&all.squares);
    return status;
}

ls_status ls_findings_create(ls_findings **ret_findings, const ls_judgement *judgement)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_findings *findings = NULL;
    root *roots = NULL;
    size_t count = 0;
    ls_thread_mode_set(&mode);
    LS_NEW(findings, 1);
    LS_NEW(roots, judgement->count + 1);
    findings->of = judgement;
    for (size_t i = 0; i < judgement->count; i++)
        if (is_root(judgement->inside, &judgement->tensors[i]))
            roots[count++].judged = &judgement->tensors[i];
    LS_TRY(find_all(findings, roots, count));
    *ret_findings = findings;
    findings = NULL;
exit:
    ls_findings_destroy(&findings);
    ls_thread_mode_restore(&mode);
    free(roots);
    return status;
}

void ls_findings_destroy(ls_findings **findings)
{
    for (size_t i = 0; *findings && i < (*findings)->count; i++)
        free_finding(&(*findings)->list[i]);
    if (*findings) free((*findings)->list);
    free(*findings);
    *findings = NULL;
}

bool ls_finding_is_finer(const ls_finding *finding)
{
    for (size_t i = 0; i < finding->count; i++)
        if (finding->tensors[i]->finer) return true;
    return false;
}
