/* judge_suspect.c - which mistakes explain every wrong element of a case.
 *
 * Each mistake says what it would have given, from what the ranks hand in and what the operation's
 * own file says of its mistakes (variants). It gets the case's vote when every wrong element is
 * within the bound of that. One case with few elements may fit several; over all failed cases of an
 * operation the mistake with the most votes is named, among equals the one tried first. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/judge_compare.h"
#include "base/append.h"

static const double NOT_A_NUMBER = (double)NAN;

typedef enum mistake {
    BIAS_PER_RANK = 0,
    BIAS_MISSING,
    NOT_REDUCED,
    NOT_REDUCED_BARE, /* without what is added once */
    AVERAGED,
    AVERAGED_ALL, /* ... what is added once too */
    TWICE,
    TWICE_ALL,
    OWN_TWICE,
    OWN_MISSING,
    LAST_MISSING,
    FIRST_MISSING,
    ONE_MISSING,
    SHARD_NEXT,
    SHARD_BEFORE,
    SHARDS_REVERSED,
    TRANSPOSED,
    SIGN,
    NOTHING,
    STALE,
    MISTAKES
} mistake;

/* In the table's words where text is NULL. */
static const struct {
    ls_cause cause;
    const char *text;
} NAMES[MISTAKES] = {
    [BIAS_PER_RANK] = {LS_CAUSE_BIAS_PER_RANK, NULL},
    [BIAS_MISSING] = {LS_CAUSE_BIAS_MISSING, NULL},
    [NOT_REDUCED] = {LS_CAUSE_NOT_REDUCED, NULL},
    [NOT_REDUCED_BARE] = {LS_CAUSE_NOT_REDUCED, NULL},
    [AVERAGED] = {LS_CAUSE_AVERAGED, "averaged over the ranks instead of summed"},
    [AVERAGED_ALL] = {LS_CAUSE_AVERAGED, "averaged over the ranks instead of summed"},
    [TWICE] = {LS_CAUSE_REDUCED_TWICE, NULL},
    [TWICE_ALL] = {LS_CAUSE_REDUCED_TWICE, NULL},
    [OWN_TWICE] = {LS_CAUSE_NONE, "a rank's own part added twice"},
    [OWN_MISSING] = {LS_CAUSE_NONE, "a rank's own part missing"},
    [LAST_MISSING] = {LS_CAUSE_NONE, "the last rank's part missing"},
    [FIRST_MISSING] = {LS_CAUSE_NONE, "the first rank's part missing"},
    [ONE_MISSING] = {LS_CAUSE_NONE, "one rank's part missing"},
    [SHARD_NEXT] = {LS_CAUSE_SHARD_ORDER, NULL},
    [SHARD_BEFORE] = {LS_CAUSE_SHARD_ORDER, NULL},
    [SHARDS_REVERSED] = {LS_CAUSE_SHARD_ORDER, NULL},
    [TRANSPOSED] = {LS_CAUSE_TRANSPOSED, NULL},
    [SIGN] = {LS_CAUSE_NONE, "the sign turned round"},
    [NOTHING] = {LS_CAUSE_NONE, "zeros in place of a result"},
    [STALE] = {LS_CAUSE_NONE, "the result of the call before: a buffer taken again too early"}};

static double of_other_rank(const judge_tensor *tensor, int owner, size_t i)
{
    return i < tensor->count[owner] ? tensor->value[tensor->where[owner][i]] : NOT_A_NUMBER;
}

/* A rank's rows and columns read the other way round. */
static double transposed(const judge_tensor *tensor, int rank, size_t i)
{
    const size_t count = tensor->count[rank];
    size_t rows = tensor->outer;
    if (tensor->outer == 1) rows = tensor->inner > 0 ? count / tensor->inner : 0;
    const size_t cols = rows > 0 ? count / rows : 0;
    if (rows < 2 || cols < 2) return NOT_A_NUMBER;
    return tensor->value[tensor->where[rank][i % rows * cols + i / rows]];
}

/* The same output of the case before, which may have another number of inputs. */
static double of_last_case(const judge_trial *trial, const judge_trial *before, size_t k, int r,
                           size_t i)
{
    size_t number = 0;
    for (size_t t = 0; t < k; t++) number += trial->tensors[t].value != NULL;
    for (size_t t = 0; t < before->n_tensors; t++)
        if (before->tensors[t].value != NULL && number-- == 0)
            return of_other_rank(&before->tensors[t], r, i);
    return NOT_A_NUMBER;
}

/* What some rank adds to the sum there that comes nearest to x. */
static double nearest_part(const judge_trial *trial, const judge_tensor *tensor, size_t w, double x)
{
    double nearest = tensor->part[w];
    for (size_t q = 1; q < (size_t)trial->ranks; q++) {
        const double part = tensor->part[q * tensor->n + w];
        if (fabs(part - x) < fabs(nearest - x)) nearest = part;
    }
    return nearest;
}

/* What mistake m would give at element i of rank r; NaN: it cannot be made here. */
static double given_by(const judge_trial *trial, const judge_trial *before, size_t k, mistake m,
                       int r, size_t i, double got)
{
    const judge_tensor *tensor = &trial->tensors[k];
    const size_t w = tensor->where[r][i], n = tensor->n;
    const int ranks = trial->ranks;
    const double right = tensor->value[w], P = (double)ranks;
    if (m <= ONE_MISSING && tensor->part == NULL) return NOT_A_NUMBER;
    const double once = m <= ONE_MISSING ? tensor->once[w] : 0;
    const double own = m <= ONE_MISSING ? tensor->part[(size_t)r * n + w] : 0;
    switch (m) {
    case BIAS_PER_RANK:
        return once == 0 ? NOT_A_NUMBER : right + (P - 1) * once;
    case BIAS_MISSING:
        return once == 0 ? NOT_A_NUMBER : right - once;
    case NOT_REDUCED:
        return own + once;
    case NOT_REDUCED_BARE:
        return own;
    case AVERAGED:
        return (right - once) / P + once;
    case AVERAGED_ALL:
        return right / P;
    case TWICE:
        return (right - once) * P + once;
    case TWICE_ALL:
        return right * P;
    case OWN_TWICE:
        return right + own;
    case OWN_MISSING:
        return right - own;
    case LAST_MISSING:
        return right - tensor->part[(size_t)(ranks - 1) * n + w];
    case FIRST_MISSING:
        return right - tensor->part[w];
    case ONE_MISSING:
        return right - nearest_part(trial, tensor, w, right - got);
    case SHARD_NEXT:
        return of_other_rank(tensor, (r + 1) % ranks, i);
    case SHARD_BEFORE:
        return of_other_rank(tensor, (r + ranks - 1) % ranks, i);
    case SHARDS_REVERSED:
        return of_other_rank(tensor, ranks - 1 - r, i);
    case TRANSPOSED:
        return transposed(tensor, r, i);
    case SIGN:
        return -right;
    case NOTHING:
        return 0;
    case STALE:
        return before != NULL ? of_last_case(trial, before, k, r, i) : NOT_A_NUMBER;
    case MISTAKES:
        break;
    }
    return NOT_A_NUMBER;
}

/* Whether h explains `got`: within the bound, and much nearer than the right value is. */
static bool explains(const judge_trial *trial, const judge_tensor *tensor, size_t w, double h,
                     double got)
{
    const double u = trial->dtype == LS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const double off = fabs(got - h), near = 8 * u * fabs(h);
    return off <= (trial->ranks + 2) * tensor->bound[w] + near &&
           !(off > 0.25 * fabs(got - tensor->value[w]));
}

/* Whether every wrong element of the faulty tensor and call is what mistake m, or the variant,
 * gives. */
static bool fits(const judge_trial *trial, const judge_trial *before, const judge_fault *fault,
                 int m, const judge_variant *variant)
{
    const size_t k = fault->tensor;
    const judge_tensor *tensor = &trial->tensors[k];
    bool any = false;
    for (int r = 0; r < trial->ranks; r++)
        for (size_t i = 0; i < tensor->count[r]; i++) {
            const size_t w = tensor->where[r][i];
            const double got = ls_trial_read(trial, trial->buffers[fault->call][r][k], i);
            if (ls_judge_is_right(tensor, w, got)) continue;
            const double h = variant != NULL ? variant->v[(size_t)r * variant->rank_stride + w]
                                             : given_by(trial, before, k, (mistake)m, r, i, got);
            /* NaN in a variant: not written. */
            const bool same =
                variant != NULL && isnan(h) ? isnan(got) : explains(trial, tensor, w, h, got);
            if (!same) return false;
            any = true;
        }
    return any;
}

/* All wrong elements are still what the output held before: bytes of all ones, which stay so when
 * something is added to them. *ret_all: there is no right one. */
static bool not_written(const judge_trial *trial, const judge_fault *fault, bool *ret_all)
{
    const judge_tensor *tensor = &trial->tensors[fault->tensor];
    const size_t bytes = ls_dtype_bytes(trial->dtype);
    *ret_all = true;
    for (int r = 0; r < trial->ranks; r++)
        for (size_t i = 0; i < tensor->count[r]; i++) {
            static const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
            const char *buffer = trial->buffers[fault->call][r][fault->tensor];
            const double got = ls_trial_read(trial, buffer, i);
            const bool right = ls_judge_is_right(tensor, tensor->where[r][i], got);
            if (right) *ret_all = false;
            if (!right && memcmp(buffer + i * bytes, ones, bytes) != 0) return false;
        }
    return tensor->role == JUDGE_WANTED;
}

/* All wrong elements are infinite or no numbers. */
static bool overflowed(const judge_trial *trial, const judge_fault *fault)
{
    const judge_tensor *tensor = &trial->tensors[fault->tensor];
    for (int r = 0; r < trial->ranks; r++)
        for (size_t i = 0; i < tensor->count[r]; i++) {
            const double got =
                ls_trial_read(trial, trial->buffers[fault->call][r][fault->tensor], i);
            if (!ls_judge_is_right(tensor, tensor->where[r][i], got) && isfinite(got)) return false;
        }
    return true;
}

/* One factor for all wrong elements, of which there are some. */
static bool one_factor(const judge_trial *trial, const judge_fault *fault, double *ret_factor)
{
    const judge_tensor *tensor = &trial->tensors[fault->tensor];
    double factor = 0;
    size_t n = 0;
    for (int r = 0; r < trial->ranks; r++)
        for (size_t i = 0; i < tensor->count[r]; i++) {
            const size_t w = tensor->where[r][i];
            const double got =
                ls_trial_read(trial, trial->buffers[fault->call][r][fault->tensor], i);
            if (ls_judge_is_right(tensor, w, got)) continue;
            if (tensor->value[w] == 0) return false;
            const double ratio = got / tensor->value[w];
            if (n++ == 0) factor = ratio;
            if (!(fabs(ratio - factor) <= 1e-4 * fabs(factor))) return false;
        }
    *ret_factor = factor;
    return n >= 3 && factor != 0 && fabs(factor - 1) > 1e-3;
}

/* text NULL: the table's sentence. */
static void vote(judge_ballot *ballot, ls_cause cause, const char *text)
{
    size_t e = 0;
    if (text == NULL) text = ls_mistake_of(cause)->sentence;
    while (e < ballot->n && strcmp(ballot->entries[e].text, text) != 0) e++;
    if (e == JUDGE_BALLOT) return;
    if (e == ballot->n) {
        snprintf(ballot->entries[e].text, JUDGE_SUSPICION, "%s", text);
        ballot->entries[e].cause = cause;
        ballot->entries[e].votes = 0;
        ballot->entries[e].last_case = 0;
        ballot->n++;
    }
    /* Two forms of one mistake that both fit are one vote. */
    if (ballot->entries[e].last_case == ballot->cases) return;
    ballot->entries[e].last_case = ballot->cases;
    ballot->entries[e].votes++;
}

void ls_judge_suspect(const judge_trial *trial, const judge_trial *before, const judge_fault *fault,
                      judge_ballot *ballot)
{
    const judge_tensor *tensor = &trial->tensors[fault->tensor];
    bool all = false;
    double factor = 0;
    char text[JUDGE_SUSPICION];
    ballot->cases++;
    if (fault->kind == JUDGE_FAULT_BESIDE) vote(ballot, LS_CAUSE_NONE, "writes beyond its buffer");
    if (fault->kind == JUDGE_FAULT_INPUT) {
        snprintf(text, sizeof text, "the input %s used as a work buffer", tensor->name);
        vote(ballot, LS_CAUSE_NONE, text);
    }
    if (fault->kind != JUDGE_FAULT_VALUE) return;
    if (not_written(trial, fault, &all)) {
        vote(ballot, LS_CAUSE_NONE,
             all ? "the output is not written, or added to what it held before"
                 : "a part of the output is not written");
        return;
    }
    if (overflowed(trial, fault)) vote(ballot, LS_CAUSE_NONE, "overflow, or a division by zero");
    for (size_t v = 0; v < tensor->n_variants; v++)
        if (fits(trial, before, fault, 0, &tensor->variants[v]))
            vote(ballot, tensor->variants[v].cause, tensor->variants[v].text);
    for (int m = 0; m < MISTAKES; m++)
        if (fits(trial, before, fault, m, NULL)) vote(ballot, NAMES[m].cause, NAMES[m].text);
    if (fault->call > 0)
        vote(ballot, LS_CAUSE_NONE,
             "the second of two equal calls is wrong: something is left over, or calls run "
             "into each other");
    if (one_factor(trial, fault, &factor)) {
        snprintf(text, sizeof text, "everything times %.4g", factor);
        vote(ballot, LS_CAUSE_FACTOR, text);
    }
}

/* ---- what failed cases have in common ---- */

static const struct {
    unsigned trait;
    const char *with, *without;
} TRAIT_TEXTS[] = {
    {JUDGE_ONE_RANK, "on one rank", "on several ranks"},
    {JUDGE_RANKS_NO_POWER, "where the number of ranks is no power of two",
     "where the number of ranks is a power of two"},
    {JUDGE_IN_PLACE, "in place", "out of place"},
    {JUDGE_NOT_ROOT_0, "with a root other than 0", "with root 0"},
    {JUDGE_EMPTY_SHARE, "with an empty share", "without empty shares"},
    {JUDGE_UNEVEN, "with shares that are not equal", "with equal shares"},
    {JUDGE_NO_BIAS, "without a bias", "with a bias"},
    {JUDGE_PADDED, "with a padded vocabulary", "without padding"},
    {JUDGE_IGNORED, "with ignored targets", "without ignored targets"},
    {JUDGE_SMOOTHED, "with label smoothing", "without label smoothing"},
    {JUDGE_SEVERAL_SEQUENCES, "with several sequences", "with one sequence"},
    {JUDGE_LARGE, "with large arrays", "with small arrays"},
};

enum { N_TRAITS = sizeof TRAIT_TEXTS / sizeof TRAIT_TEXTS[0] };

/* Condition c: trait c / 2 is there (even c), or is not. */
static bool holds(unsigned traits, int c)
{
    return ((traits & TRAIT_TEXTS[c / 2].trait) != 0) == (c % 2 == 0);
}

/* Whether every passed case breaks at least one of the conditions. */
static bool separates(const judge_seen *seen, size_t n, const bool *conditions)
{
    for (size_t k = 0; k < n; k++) {
        bool all = true;
        for (int c = 0; c < 2 * N_TRAITS && all; c++)
            if (conditions[c]) all = holds(seen[k].traits, c);
        if (all && !seen[k].failed) return false;
    }
    return true;
}

void ls_judge_common(const judge_seen *seen, size_t n, char *text, size_t size)
{
    bool conditions[2 * N_TRAITS];
    size_t at = 0, failed = 0;
    text[0] = 0;
    for (size_t k = 0; k < n; k++) failed += seen[k].failed;
    if (failed == 0 || failed == n) return;
    for (int c = 0; c < 2 * N_TRAITS; c++) {
        conditions[c] = true;
        for (size_t k = 0; k < n && conditions[c]; k++)
            if (seen[k].failed) conditions[c] = holds(seen[k].traits, c);
    }
    if (!separates(seen, n, conditions)) return;
    /* As few as will do: the last ones first, and what is not there before what is. */
    for (int c = 2 * N_TRAITS - 1; c >= 0; c--) {
        const bool was = conditions[c];
        conditions[c] = false;
        conditions[c] = was && !separates(seen, n, conditions);
    }
    for (int c = 0; c < 2 * N_TRAITS && at < size; c++)
        if (conditions[c])
            at = ls_append(text, size, at, "%s%s", at > 0 ? ", " : "",
                           c % 2 ? TRAIT_TEXTS[c / 2].without : TRAIT_TEXTS[c / 2].with);
}
