/* judge.c - goes through the table: each operation, on each number of ranks, case by case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "lockstep/conformance/judge.h"
#include "conformance/judge_flight.h"
#include "conformance/judge_compare.h"
#include "conformance/judge_operations.h"
#include "base/allocate.h"

static const uint64_t DEFAULT_TIMEOUT_NS = 20u * (uint64_t)1000000000u;
enum { DEFAULT_RANKS = 8, MAX_CASES = 64, MAX_SEEN = MAX_CASES * JUDGE_MAX_RANKS };

static const judge_chapter *const CHAPTERS[] = {
    &ls_judge_collectives, &ls_judge_messages,  &ls_judge_linear, &ls_judge_mlp,
    &ls_judge_attention,   &ls_judge_embedding, &ls_judge_loss,   &ls_judge_tokens,
    &ls_judge_norm,        &ls_judge_pointwise, &ls_judge_update};
enum { N_CHAPTERS = sizeof CHAPTERS / sizeof CHAPTERS[0] };

/* What is known of one operation and kind so far. */
typedef struct tally {
    ls_judge_line line;
    judge_ballot ballot;
    judge_seen seen[MAX_SEEN];
    size_t n_seen;
} tally;

typedef struct judging {
    const ls_backend *backend;
    ls_judge_options options;
    ls_judge_report *report;
    const judge_operation *operation;
    tally tallies[LS_JUDGE_KINDS];
    judge_trial *trials[MAX_CASES];
    size_t n_trials;
} judging;

/* ---- one case ---- */

static void take_down(tally *t, const judge_trial *trial, const judge_trial *before,
                      judge_outcome outcome, const judge_fault *fault)
{
    if (outcome == JUDGE_NOT_SUPPORTED) {
        t->line.unsupported++;
        return;
    }
    t->line.cases++;
    if (t->n_seen < MAX_SEEN)
        t->seen[t->n_seen++] = (judge_seen){trial->traits, outcome == JUDGE_FAULTY};
    if (outcome == JUDGE_PASSED) {
        t->line.passed++;
        return;
    }
    if (t->line.first[0] == 0)
        snprintf(t->line.first, sizeof t->line.first, "%d rank%s, %s: %s", trial->ranks,
                 trial->ranks == 1 ? "" : "s", trial->label, fault->text);
    ls_judge_suspect(trial, before, fault, &t->ballot);
}

/* Whether the options ask for a kind. */
static bool asked_for(const judging *j, ls_judge_kind kind)
{
    return j->options.kinds == 0 || (j->options.kinds >> kind & 1u) != 0;
}

static void look_at(judging *j, size_t k)
{
    const judge_trial *trial = j->trials[k], *before = k > 0 ? j->trials[k - 1] : NULL;
    judge_fault fault = {0};
    const judge_outcome outcome = ls_judge_compare(trial, &fault);
    if (asked_for(j, trial->kind))
        take_down(&j->tallies[trial->kind], trial, before, outcome, &fault);
    if (trial->kind != LS_JUDGE_BOUNDED || !asked_for(j, LS_JUDGE_ORDERED)) return;
    /* Of the order something can be said where the values are right. */
    const judge_outcome ordered =
        outcome == JUDGE_PASSED ? ls_judge_compare_ordered(trial, &fault) : JUDGE_NOT_SUPPORTED;
    if (ordered != JUDGE_NOT_SUPPORTED)
        take_down(&j->tallies[LS_JUDGE_ORDERED], trial, NULL, ordered, &fault);
}

/* ---- one operation on one number of ranks ---- */

static void drop_trials(judging *j)
{
    for (size_t k = 0; k < j->n_trials; k++) ls_trial_destroy(&j->trials[k]);
    j->n_trials = 0;
}

static ls_status make_trials(judging *j, int ranks)
{
    ls_status status = LS_OK;
    const judge_operation *operation = j->operation;
    for (int kind = LS_JUDGE_EXACT; kind <= LS_JUDGE_BOUNDED; kind++)
        for (size_t s = 0; s < operation->shapes; s++) {
            if (kind == LS_JUDGE_EXACT ? !operation->exact : !operation->bounded) continue;
            if (!asked_for(j, (ls_judge_kind)kind) &&
                (kind == LS_JUDGE_EXACT || !asked_for(j, LS_JUDGE_ORDERED)))
                continue;
            judge_trial *trial = NULL;
            if (j->n_trials == MAX_CASES)
                LS_FAIL(LS_ERR_INTERNAL, "%s has too many cases", operation->name);
            LS_TRY(ls_trial_create(&trial, LS_REAL_DTYPE, ranks, (ls_judge_kind)kind, s,
                                   j->options.seed));
            j->trials[j->n_trials++] = trial;
            trial->form = operation->form;
            LS_TRY(operation->prepare(trial));
            for (size_t k = 0; kind == LS_JUDGE_EXACT && k < trial->n_tensors; k++)
                for (size_t i = 0; trial->tensors[k].bound && i < trial->tensors[k].n; i++)
                    trial->tensors[k].bound[i] = 0;
            LS_TRY(ls_trial_lay_out(trial));
        }
exit:
    return status;
}

static void stop(judging *j, const char *why)
{
    j->report->verdict = LS_JUDGE_STOPPED;
    snprintf(j->report->stopped, sizeof j->report->stopped, "%s", why);
}

static ls_status judge_ranks(judging *j, int ranks)
{
    ls_status status = LS_OK;
    const ls_backend *backend = j->backend;
    judge_landing landing = {0};
    LS_TRY(make_trials(j, ranks));
    if (j->n_trials == 0) goto exit;
    const int begun = backend->begin ? backend->begin(backend->context, ranks) : LS_BACKEND_DONE;
    if (begun == LS_BACKEND_UNSUPPORTED) {
        for (size_t k = 0; k < j->n_trials; k++)
            if (asked_for(j, j->trials[k]->kind)) j->tallies[j->trials[k]->kind].line.unsupported++;
        goto exit;
    }
    if (begun != LS_BACKEND_DONE) {
        char why[LS_JUDGE_TEXT];
        snprintf(why, sizeof why, "%s, %d ranks: the table's begin failed", j->operation->name,
                 ranks);
        stop(j, why);
        goto exit;
    }
    const judge_flight flight = {.backend = backend,
                                 .context = backend->context,
                                 .run = backend->run,
                                 .operation = j->operation,
                                 .trials = j->trials,
                                 .n_trials = j->n_trials,
                                 .ranks = ranks,
                                 .seed = j->options.seed,
                                 .timeout_ns = j->options.timeout_ns};
    LS_TRY(ls_judge_fly(&flight, &landing));
    for (size_t k = 0; k < landing.complete; k++) look_at(j, k);
    if (landing.why[0] != 0) {
        stop(j, landing.why);
        if (landing.hung) j->n_trials = 0; /* left behind: a rank may still write there */
    } else if (landing.complete < j->n_trials) {
        look_at(j, landing.complete); /* the case that a rank has failed in */
    }
    if (!landing.hung && backend->end) backend->end(backend->context, ranks);
exit:
    drop_trials(j);
    return status;
}

/* ---- one operation ---- */

static void end_line(judging *j, tally *t)
{
    const size_t failed = t->line.cases - t->line.passed;
    size_t best = 0;
    for (size_t e = 1; e < t->ballot.n; e++)
        if (t->ballot.entries[e].votes > t->ballot.entries[best].votes) best = e;
    if (t->ballot.n > 0 && t->line.kind != LS_JUDGE_ORDERED) {
        const ls_cause cause = t->ballot.entries[best].cause;
        memcpy(t->line.suspected, t->ballot.entries[best].text, JUDGE_SUSPICION);
        if (cause != LS_CAUSE_NONE) {
            t->line.mistake = ls_mistake_of(cause)->key;
            t->line.remedy = ls_mistake_of(cause)->remedy;
        }
        t->line.explained = t->ballot.entries[best].votes;
    }
    if (t->ballot.n == 0 && failed > 0 && j->operation->otherwise != NULL)
        snprintf(t->line.suspected, sizeof t->line.suspected, "%s", j->operation->otherwise);
    ls_judge_common(t->seen, t->n_seen, t->line.only, sizeof t->line.only);
    if (failed > 0 && j->report->verdict == LS_JUDGE_RIGHT &&
        (t->line.kind != LS_JUDGE_ORDERED || j->options.order_required))
        j->report->verdict = LS_JUDGE_WRONG;
}

static ls_status add_lines(judging *j)
{
    ls_status status = LS_OK;
    for (int kind = 0; kind < LS_JUDGE_KINDS; kind++) {
        tally *t = &j->tallies[kind];
        if (t->line.cases + t->line.unsupported == 0) continue;
        LS_RESIZE(j->report->lines, j->report->n_lines + 1);
        end_line(j, t);
        j->report->lines[j->report->n_lines++] = t->line;
    }
exit:
    return status;
}

static ls_status judge_operation_on_all(judging *j)
{
    ls_status status = LS_OK;
    int most = j->options.max_ranks;
    if (j->backend->max_ranks > 0 && j->backend->max_ranks < most) most = j->backend->max_ranks;
    for (int kind = 0; kind < LS_JUDGE_KINDS; kind++) {
        tally *t = &j->tallies[kind];
        memset(t, 0, sizeof *t);
        t->line.operation = j->operation->name;
        t->line.kind = (ls_judge_kind)kind;
    }
    const int least = j->operation->least_ranks;
    for (int ranks = least > 0 ? least : 1; ranks <= most && j->report->verdict != LS_JUDGE_STOPPED;
         ranks++)
        LS_TRY(judge_ranks(j, ranks));
    LS_TRY(add_lines(j));
    j->report->operations++;
exit:
    return status;
}

/* Whether the table has a function there. */
static bool has_at(const ls_backend *backend, size_t place)
{
    void (*function)(void);
    memcpy(&function, (const char *)backend + place, sizeof function);
    return function != NULL;
}

static bool has(const ls_backend *backend, const judge_operation *operation)
{
    return has_at(backend, operation->function) &&
           (operation->and_function == 0 || has_at(backend, operation->and_function));
}

static bool wanted(const judging *j, const judge_operation *operation)
{
    return j->options.only == NULL || strstr(operation->name, j->options.only) != NULL;
}

static ls_status judge_all(judging *j)
{
    ls_status status = LS_OK;
    size_t total = 0, done = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t c = 0; c < N_CHAPTERS; c++)
            for (size_t o = 0; o < CHAPTERS[c]->n; o++) {
                const judge_operation *operation = &CHAPTERS[c]->operations[o];
                const bool there = has(j->backend, operation);
                if (!wanted(j, operation)) continue;
                if (pass == 0) {
                    if (!there) j->report->missing++;
                    if (there) total++;
                    continue;
                }
                if (!there || j->report->verdict == LS_JUDGE_STOPPED) continue;
                if (j->options.progress)
                    j->options.progress(j->options.progress_argument, operation->name, done, total);
                j->operation = operation;
                LS_TRY(judge_operation_on_all(j));
                done++;
            }
    if (j->report->operations == 0) j->report->verdict = LS_JUDGE_NOTHING;
exit:
    return status;
}

ls_status ls_judge(const ls_backend *backend, const ls_judge_options *options,
                   ls_judge_report **ret_report)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    judging *j = NULL;
    ls_judge_report *report = NULL;
    ls_thread_mode_set(&mode);
    LS_NEW(j, 1);
    LS_NEW(report, 1);
    if (options != NULL) j->options = *options;
    if (j->options.max_ranks == 0) j->options.max_ranks = DEFAULT_RANKS;
    if (j->options.timeout_ns == 0) j->options.timeout_ns = DEFAULT_TIMEOUT_NS;
    if (j->options.max_ranks < 1 || j->options.max_ranks > JUDGE_MAX_RANKS)
        LS_FAIL(LS_ERR_INPUT, "max_ranks %d: the judge runs 1 to %d ranks", j->options.max_ranks,
                JUDGE_MAX_RANKS);
    j->backend = backend;
    j->report = report;
    report->order_required = j->options.order_required;
    snprintf(report->backend, sizeof report->backend, "%s",
             backend->name ? ls_show(backend->name) : "backend");
    LS_TRY(judge_all(j));
    *ret_report = report;
    report = NULL;
exit:
    if (j != NULL) drop_trials(j);
    free(j);
    ls_judge_report_destroy(&report);
    ls_thread_mode_restore(&mode);
    return status;
}
