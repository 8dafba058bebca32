/* check.c - the judgement: bits first, then what is not equal is measured, then verdicts in order
 * of execution. */
#include "check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "lockstep/numerics/digest.h"
#include "check/check_parts.h"

const char *ls_verdict_name(ls_verdict verdict)
{
    static const char *const names[] = {"equal", "explained", "different"};
    return names[verdict];
}

const char *ls_local_name(ls_local local)
{
    static const char *const names[] = {"unknown", "within", "outside"};
    return names[local];
}

bool ls_name_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *behind = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            behind = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) { /* the last * takes one character more */
            pattern = star;
            name = ++behind;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

/* Behind "stepN/". */
static const char *bare_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool asked_for(const ls_check_options *options, const char *name)
{
    return !options->only || ls_name_fits(options->only, name) ||
           ls_name_fits(options->only, bare_name(name));
}

const ls_judged *ls_judgement_find(const ls_judgement *judgement, const char *name)
{
    for (size_t i = 0; i < judgement->count; i++) {
        const char *whole = judgement->tensors[i].golden->name;
        if (strcmp(whole, name) == 0 || strcmp(bare_name(whole), name) == 0)
            return &judgement->tensors[i];
    }
    return NULL;
}

/* ---- who is judged ---- */

static ls_status find_missing(const struct ls_check *check)
{
    ls_status status = LS_OK;
    const char *first = NULL;
    size_t missing = 0, wanted = 0;
    for (size_t i = 0; i < check->golden->count; i++) {
        const ls_golden_tensor *golden = &check->golden->tensors[i];
        if (!asked_for(&check->options, golden->name)) continue;
        wanted++;
        if (ls_check_at(check, golden->step, golden->node)->candidate) continue;
        if (!first) first = golden->name;
        missing++;
    }
    if (check->options.only && wanted == 0)
        LS_FAIL(LS_ERR_INPUT, "--only %s: the golden directory has no such tensor",
                ls_show(check->options.only));
    if (check->options.complete && missing > 0)
        LS_FAIL(LS_ERR_INPUT, "%s: %s is missing%s; --complete wants all %zu, %zu are there",
                ls_show(check->candidate->path), first, missing > 1 ? ", the first of several" : "",
                wanted, wanted - missing);
    if (missing == wanted)
        LS_FAIL(LS_ERR_INPUT, "%s%s: the candidate has no such tensor",
                check->options.only ? "--only " : "",
                check->options.only ? ls_show(check->options.only)
                                    : ls_show(check->candidate->path));
exit:
    return status;
}

/* In the golden directory's order. */
static ls_status list_judged(struct ls_check *check)
{
    ls_status status = LS_OK;
    ls_judgement *judgement = check->judgement;
    LS_TRY(find_missing(check));
    LS_NEW(judgement->tensors, check->golden->count);
    for (size_t i = 0; i < check->golden->count; i++) {
        const ls_golden_tensor *golden = &check->golden->tensors[i];
        ls_check_place *place = ls_check_at(check, golden->step, golden->node);
        if (!asked_for(&check->options, golden->name)) continue;
        judgement->wanted++;
        if (!place->candidate) continue;
        ls_judged *judged = &judgement->tensors[judgement->count++];
        judged->candidate = place->candidate;
        judged->golden = golden;
        judged->bound = HUGE_VAL;
        place->judged = judged;
    }
exit:
    return status;
}

/* ---- bits, and what is not equal ---- */

static ls_check_place *place_of(const struct ls_check *check, size_t i)
{
    const ls_golden_tensor *golden = check->judgement->tensors[i].golden;
    return ls_check_at(check, golden->step, golden->node);
}

static ls_status compare(void *context, size_t i)
{
    const struct ls_check *check = context;
    const ls_check_place *place = place_of(check, i);
    const ls_golden_tensor *golden = place->golden;
    const ls_candidate_tensor *mine = place->candidate;
    place->judged->format = place->format;
    place->judged->verdict =
        ls_check_equal(golden->dtype, golden->values, mine->dtype, place->format, mine->values,
                       golden->count, check->golden->kind == LS_GOLDEN_INTEGERS)
            ? LS_EQUAL
            : LS_DIFFERENT_TENSOR;
    return LS_OK;
}

static ls_status measure(void *context, size_t i)
{
    const struct ls_check *check = context;
    ls_check_place *place = place_of(check, i);
    if (place->judged->verdict == LS_EQUAL) return LS_OK;
    return ls_check_measure(check, place);
}

/* ---- verdicts ---- */

/* What a place depends on: nodes of its step, and the parameters as the step before left them. */
typedef struct dependence {
    bool sound, different, wrong, split;
} dependence;

static void look_at(dependence *of, const ls_check_place *place)
{
    const ls_judged *judged = place->judged;
    if (!judged || !judged->sound) of->sound = false;
    if (judged && judged->verdict == LS_DIFFERENT_TENSOR) of->different = of->wrong = true;
    if (place->wrong_before) of->wrong = true;
    if (place->candidate && place->candidate->replicas_differ) of->split = true;
}

static dependence depends_on(const struct ls_check *check, const ls_golden_tensor *golden)
{
    dependence of = {true, false, false, false};
    size_t count;
    const int *list = ls_check_inputs(check, golden->node, &count);
    for (size_t i = 0; i < count; i++) look_at(&of, ls_check_at(check, golden->step, list[i]));
    list = ls_check_reads(check, golden->node, &count);
    for (size_t i = 0; golden->step > check->golden->first_step && i < count; i++)
        look_at(&of, ls_check_at(check, golden->step - 1, check->updated[list[i]]));
    return of;
}

static ls_verdict verdict_of(const struct ls_check *check, ls_judged *judged,
                             const dependence *before)
{
    if (judged->candidate->replicas_differ) return LS_DIFFERENT_TENSOR;
    if (judged->verdict == LS_EQUAL) {
        judged->sound = true;
        return LS_EQUAL;
    }
    if (judged->misplaced || check->golden->kind == LS_GOLDEN_INTEGERS) return LS_DIFFERENT_TENSOR;
    if (judged->local == LS_LOCAL_WITHIN && before->sound) {
        judged->sound = true;
        return LS_EXPLAINED;
    }
    if (judged->local == LS_LOCAL_OUTSIDE && (!before->different || judged->useless))
        return LS_DIFFERENT_TENSOR;
    if (judged->within) return LS_EXPLAINED;
    /* Inside a bound that says nothing. */
    if (!judged->useless || judged->outside > 0) return LS_DIFFERENT_TENSOR;
    judged->unjudged = judged->local == LS_LOCAL_UNKNOWN;
    return LS_EXPLAINED;
}

/* What explains it leaves nothing outside: the first element is the first that differs. */
static void forget_outside(const struct ls_check *check, const ls_check_place *place)
{
    ls_judged *judged = place->judged;
    const ls_golden_tensor *golden = place->golden;
    const double *truth = NULL;
    const size_t i = judged->first = place->differs;
    if (judged->outside == 0) return;
    judged->outside = 0;
    ls_widen(LS_F64, &judged->candidate_value, judged->candidate->dtype,
             (const unsigned char *)judged->candidate->values +
                 i * ls_dtype_bytes(judged->candidate->dtype),
             1);
    ls_widen(LS_F64, &judged->golden_value, golden->dtype,
             (const unsigned char *)golden->values + i * ls_dtype_bytes(golden->dtype), 1);
    if (ls_check_is_coarser(judged->format, golden->dtype))
        ls_check_round(judged->format, &judged->golden_value, 1);
    (void)ls_check_bound(check, place, &truth);
    judged->right_value = truth ? truth[i] : judged->golden_value;
}

static void find_first(const struct ls_check *check, ls_judgement *judgement)
{
    enum { SOME = 8 };
    size_t outside = 0, forward = 0;
    for (size_t i = judgement->count; i-- > 0;) {
        const ls_judged *judged = &judgement->tensors[i];
        if (judged->verdict == LS_DIFFERENT_TENSOR) judgement->first = judged;
        if (judged->golden->step != check->golden->first_step ||
            check->graph->nodes[judged->golden->node].phase != LS_GRAPH_FORWARD)
            continue;
        forward++;
        if (judged->local == LS_LOCAL_OUTSIDE) outside++;
    }
    judgement->unrelated = outside >= SOME && 2 * outside > forward;
}

static void decide(struct ls_check *check)
{
    ls_judgement *judgement = check->judgement;
    const size_t places = check->steps * check->nodes;
    for (size_t i = 0; i < places; i++) {
        ls_check_place *place = &check->places[i];
        if (!place->golden) continue;
        const dependence before = depends_on(check, place->golden);
        place->wrong_before = before.wrong;
        place->split_before = before.split;
        if (!place->judged) continue;
        place->judged->verdict = verdict_of(check, place->judged, &before);
        if (place->judged->verdict == LS_EXPLAINED) forget_outside(check, place);
        size_t *count = place->judged->verdict == LS_EQUAL       ? &judgement->equal
                        : place->judged->verdict == LS_EXPLAINED ? &judgement->explained
                                                                 : &judgement->different;
        ++*count;
        judgement->unjudged += place->judged->unjudged;
    }
    ls_check_find_finer(check);
    find_first(check, judgement);
}

/* ---- tensors that are off only as they were written ---- */

/* Whether a right tensor is not what its operation gives from its inputs as written. */
static ls_status made_otherwise(const struct ls_check *check, const ls_check_place *reader,
                                bool *ret_otherwise)
{
    ls_status status = LS_OK;
    const ls_judged *judged = reader->judged;
    double *right = NULL, *bound = NULL, *values = NULL;
    *ret_otherwise = judged->local == LS_LOCAL_OUTSIDE;
    if (judged->verdict != LS_EQUAL) goto exit;
    LS_TRY(ls_check_again(check, reader, &right, &bound));
    if (!right) goto exit;
    LS_TRY(ls_check_widen(&values, judged->candidate->dtype, judged->candidate->values,
                          reader->golden->count));
    for (size_t i = 0; i < reader->golden->count && !*ret_otherwise; i++)
        *ret_otherwise = !ls_check_allowed(values[i], right[i], bound[i]);
exit:
    free(right), free(bound), free(values);
    return status;
}

static bool reads(const struct ls_check *check, int reader, int node)
{
    size_t count;
    const int *inputs = ls_check_inputs(check, reader, &count);
    for (size_t k = 0; k < count; k++)
        if (inputs[k] == node) return true;
    return false;
}

/* No reader is different, and one of them would be if it had read what was written. */
static ls_status find_aside(void *context, size_t i)
{
    ls_status status = LS_OK;
    const struct ls_check *check = context;
    ls_judged *judged = &check->judgement->tensors[i];
    bool otherwise = false;
    if (judged->verdict != LS_DIFFERENT_TENSOR) return LS_OK;
    for (int pass = 0; pass < 2; pass++)
        for (size_t n = 0; n < check->nodes && !otherwise; n++) {
            const ls_check_place *reader = ls_check_at(check, judged->golden->step, (int)n);
            if (!reader->judged || !reads(check, (int)n, judged->golden->node)) continue;
            if (reader->judged->verdict == LS_DIFFERENT_TENSOR) goto exit;
            if (pass == 1) LS_TRY(made_otherwise(check, reader, &otherwise));
        }
    judged->aside = otherwise;
exit:
    return status;
}

/* A damaged golden file is no mistake of the candidate. */
static ls_status verify_golden(const ls_golden_tensor *golden)
{
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    char found[65];
    if (golden->sha256[0] == '\0') goto exit;
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(ls_digest_add(digest, golden->dtype, golden->values, golden->count));
    LS_TRY(ls_digest_finish(digest, found));
    if (strcmp(found, golden->sha256) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: the golden values are not those of the manifest: sha256 is %.16s..., the "
                "manifest says %.16s...; dump them again",
                golden->name, found, golden->sha256);
exit:
    ls_digest_destroy(&digest);
    return status;
}

/* The truth is outside the digests; but how far from it the golden values are is in the manifest.
 */
static ls_status verify_truth(const ls_golden_tensor *golden)
{
    ls_status status = LS_OK;
    double *values = NULL;
    if (!golden->truth || !isfinite(golden->truth_error)) goto exit;
    LS_TRY(ls_check_widen(&values, golden->dtype, golden->values, golden->count));
    for (size_t i = 0; i < golden->count; i++) {
        const double error = fabs(values[i] - golden->truth[i]);
        if (isfinite(values[i]) && !(error <= golden->truth_error * (1 + 1e-12)))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: in truth.safetensors it is %.3g from the golden values, the manifest says "
                    "at most %.3g: it was changed, or is of another golden directory",
                    golden->name, error, golden->truth_error);
    }
exit:
    free(values);
    return status;
}

static ls_status verify_unequal(void *context, size_t i)
{
    const struct ls_check *check = context;
    const ls_judged *judged = &check->judgement->tensors[i];
    ls_status status = LS_OK;
    if (judged->differing == 0) goto exit;
    LS_TRY(verify_golden(judged->golden));
    LS_TRY(verify_truth(judged->golden));
exit:
    return status;
}

/* ---- the whole ---- */

ls_status ls_check(ls_judgement **ret_judgement, const ls_golden *golden,
                   const ls_candidate *candidate, const ls_check_options *options)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_judgement *judgement = NULL;
    struct ls_check *check = NULL;
    ls_thread_mode_set(&mode);
    LS_NEW(judgement, 1);
    LS_TRY(ls_check_state_create(&check, golden, candidate, options));
    judgement->inside = check;
    check->judgement = judgement;
    LS_TRY(list_judged(check));
    LS_TRY(ls_check_find_formats(check));
    LS_TRY(ls_check_work(check, compare, judgement->count, "comparing bits"));
    ls_check_spread_precision(check);
    LS_TRY(ls_check_find_truths(check));
    LS_TRY(ls_check_work(check, measure, judgement->count, "computing operations again"));
    decide(check);
    LS_TRY(ls_check_work(check, find_aside, judgement->count, "looking at who reads what"));
    LS_TRY(ls_check_work(check, verify_unequal, judgement->count, "reading golden digests"));
    *ret_judgement = judgement;
    judgement = NULL;
exit:
    ls_judgement_destroy(&judgement);
    ls_thread_mode_restore(&mode);
    return status;
}

void ls_judgement_destroy(ls_judgement **judgement)
{
    ls_judgement *j = *judgement;
    if (!j) return;
    free(j->tensors);
    ls_check_state_destroy(&j->inside);
    free(j);
    *judgement = NULL;
}
