/* job_actions.c - what a job can do, and what each action leaves to be asked for. */
#include <stdio.h>
#include <stdlib.h>

#include "causes/findings.h"
#include "golden/dump.h"
#include "job/job_check.h"
#include "job/job_layouts.h"
#include "job/job_state.h"
#include "job/machine.h"
#include "verify/verify.h"
#include "base/allocate.h"

static ls_status on_step(void *context, const ls_step *step)
{
    const ls_job *job = context;
    return job->step ? job->step(job->context, step->step + 1, step->loss, step->norm) : LS_OK;
}

ls_status ls_job_train(ls_job *job)
{
    ls_status status = LS_OK;
    ls_job_prepared *p = NULL;
    ls_train_result result = {.rank = NULL};
    const ls_train_hooks watcher = {.context = job, .step = on_step};
    ls_job_facts *facts = &job->facts;
    LS_TRY(ls_job_prepare(job, LS_ACTION_TRAIN, &p));
    LS_TRY(ls_machine_holds_layout(&p->settings.run));
    LS_TRY(ls_train(&p->settings.run, &watcher, &result));
    ls_job_facts_set(facts, "first_step", (double)result.first_step);
    ls_job_facts_set(facts, "last_step", (double)result.last_step);
    ls_job_facts_set(facts, "first_loss", result.first_loss);
    ls_job_facts_set(facts, "last_loss", result.last_loss);
    ls_job_facts_set(facts, "tokens", (double)result.tokens);
    ls_job_facts_set(facts, "ranks", (double)result.ranks);
    ls_job_facts_set(facts, "seconds", (double)result.ns * 1e-9);
    ls_job_facts_say(facts, "digest", result.digest);
exit:
    ls_train_result_free(&result);
    ls_job_release(&p);
    return status;
}

/* What was found so far. */
typedef struct comparison {
    size_t equal, different;
    char first[LS_JOB_WORD];
} comparison;

static ls_status verify_layout(const ls_job *job, const ls_record *serial, const ls_run *run,
                               comparison *found)
{
    ls_status status = LS_OK;
    const ls_train_hooks watcher = {.context = (void *)(uintptr_t)job, .step = on_step};
    ls_departure departure;
    char layout[256], line[LS_JOB_WORD];
    status = ls_verify_run(serial, run, &watcher, &departure, NULL);
    if (status == LS_OK) found->equal++;
    if (status != LS_DIFFERENT) goto exit;
    status = LS_OK;
    if (found->different++ > 0) goto exit;
    ls_layout_describe(&run->layout, layout, sizeof layout);
    ls_departure_describe(&departure, run->dtype, line, sizeof line);
    snprintf(found->first, sizeof found->first, "%.200s: %.300s", layout, line);
exit:
    return status;
}

static ls_status verify_engine(const ls_job *job, const ls_job_settings *s, ls_engine engine,
                               const ls_sweep *sweep, comparison *found)
{
    ls_status status = LS_OK;
    const ls_train_hooks watcher = {.context = (void *)(uintptr_t)job, .step = on_step};
    ls_record *serial = NULL;
    ls_undefined undefined;
    ls_run run = s->run;
    run.engine = engine;
    run.serial = true;
    LS_TRY(ls_record_run(&serial, &run, &watcher, NULL));
    ls_record_undefined(serial, &undefined);
    run.serial = false;
    for (size_t i = 0; i < sweep->count; i++) {
        run.layout = sweep->layouts[i];
        LS_TRY(verify_layout(job, serial, &run, found));
    }
    if (undefined.found) { /* a NaN equals any NaN: equal shows nothing */
        found->equal -= found->equal < sweep->count ? found->equal : sweep->count;
        if (found->first[0] == '\0')
            ls_undefined_describe(&undefined, found->first, sizeof found->first);
    }
exit:
    ls_record_destroy(&serial);
    return status;
}

ls_status ls_job_verify(ls_job *job)
{
    ls_status status = LS_OK;
    ls_job_prepared *p = NULL;
    ls_sweep sweep = {NULL, 0, 0};
    comparison found = {0, 0, ""};
    LS_TRY(ls_job_prepare(job, LS_ACTION_VERIFY, &p));
    const ls_job_settings *s = &p->settings;
    LS_TRY(ls_machine_holds_record(&s->run, false));
    LS_TRY(ls_job_layouts(s, &sweep));
    if (s->both_engines) LS_TRY(verify_engine(job, s, LS_ENGINE_PORTABLE, &sweep, &found));
    LS_TRY(verify_engine(job, s, s->both_engines ? LS_ENGINE_OPENBLAS : s->run.engine, &sweep,
                         &found));
    const size_t layouts = (s->both_engines ? 2 : 1) * sweep.count;
    ls_job_facts_set(&job->facts, "layouts", (double)layouts);
    ls_job_facts_set(&job->facts, "bit_exact", (double)found.equal);
    ls_job_facts_set(&job->facts, "different", (double)found.different);
    ls_job_facts_say(&job->facts, "difference", found.first);
    if (found.equal < layouts) status = LS_DIFFERENT;
exit:
    ls_sweep_free(&sweep);
    ls_job_release(&p);
    return status;
}

ls_status ls_job_plan(ls_job *job)
{
    ls_status status = LS_OK;
    ls_job_prepared *p = NULL;
    ls_plan *plan = NULL;
    uint64_t largest = 0, sent = 0;
    LS_TRY(ls_job_prepare(job, LS_ACTION_PLAN, &p));
    LS_TRY(ls_machine_plan(&plan, &p->settings.run));
    for (int r = 0; r < plan->ranks; r++) {
        if (plan->rank[r].at_once > largest) largest = plan->rank[r].at_once;
        for (int o = 0; o < LS_OP_COUNT; o++) sent += plan->rank[r].comm[o].bytes;
    }
    ls_job_facts_set(&job->facts, "parameters", (double)plan->parameters);
    ls_job_facts_set(&job->facts, "ranks", (double)plan->ranks);
    ls_job_facts_set(&job->facts, "rank_bytes", (double)largest);
    ls_job_facts_set(&job->facts, "bytes", ls_plan_bytes(plan));
    ls_job_facts_set(&job->facts, "sent_bytes", (double)sent);
    ls_job_facts_set(&job->facts, "bubble", (double)plan->bubble.over / (double)plan->bubble.under);
exit:
    ls_plan_destroy(&plan);
    ls_job_release(&p);
    return status;
}

ls_status ls_job_dump(ls_job *job, const char *directory)
{
    ls_status status = LS_OK;
    ls_job_prepared *p = NULL;
    ls_dump_summary *summary = NULL;
    LS_NEW(summary, 1);
    LS_TRY(ls_job_prepare(job, LS_ACTION_DUMP, &p));
    const ls_job_settings *s = &p->settings;
    LS_TRY(ls_machine_holds_layout(&s->run));
    const ls_dump_options options = {.start = (ls_dump_start)s->start,
                                     .integers = s->integers,
                                     .whole = true,
                                     .truth = !s->no_truth,
                                     .per_rank = s->per_rank,
                                     .collectives = s->calls,
                                     .program = "lockstep " LS_VERSION,
                                     .text_name = s->data_name};
    LS_TRY(ls_dump(&s->run, directory, &options, summary));
    ls_job_facts_set(&job->facts, "tensors", (double)summary->tensors);
    ls_job_facts_set(&job->facts, "bytes", (double)summary->bytes);
    ls_job_facts_say(&job->facts, "digest", summary->digest);
exit:
    free(summary);
    ls_job_release(&p);
    return status;
}

/* The first mistake, in words. */
static void say_mistake(ls_job_facts *facts, const ls_findings *findings)
{
    const ls_judged *first = findings->of->first;
    if (first) ls_job_facts_say(facts, "first", first->golden->name);
    if (findings->count == 0) return;
    const ls_suspicion *s = &findings->list[0].suspicion;
    const ls_mistake *mistake = ls_mistake_of(s->cause);
    ls_job_facts_say(facts, "cause", mistake->key);
    ls_job_facts_say(facts, "mistake", mistake->sentence);
    ls_job_facts_say(facts, "evidence", s->evidence);
    ls_job_facts_say(facts, "remedy", mistake->remedy ? mistake->remedy : "");
}

ls_status ls_job_check(ls_job *job, const char *golden, const char *candidate)
{
    ls_status status = LS_OK;
    ls_job_check_settings settings;
    ls_job_option_table table = {.count = 0};
    ls_job_words words = {0, NULL};
    ls_golden *opened = NULL;
    ls_candidate *tensors = NULL;
    ls_judgement *judgement = NULL;
    ls_findings *findings = NULL;
    const ls_check_options more = {.stop = &job->stop};
    ls_job_facts *facts = &job->facts;
    *facts = (ls_job_facts){0};
    ls_job_check_options(&settings, &table);
    LS_TRY(ls_job_parse(job, LS_ACTION_CHECK, &table, &words));
    LS_TRY(ls_job_check_run(&settings, golden, candidate, &more, &opened, &tensors, &judgement));
    LS_TRY(ls_findings_create(&findings, judgement));
    ls_job_facts_set(facts, "tensors", (double)judgement->count);
    ls_job_facts_set(facts, "equal", (double)judgement->equal);
    ls_job_facts_set(facts, "explained", (double)judgement->explained);
    ls_job_facts_set(facts, "different", (double)judgement->different);
    ls_job_facts_set(facts, "not_judged", (double)judgement->unjudged);
    ls_job_facts_set(facts, "mistakes", (double)findings->count);
    say_mistake(facts, findings);
    if (judgement->different > 0 || ls_job_nothing_judged(judgement)) status = LS_DIFFERENT;
exit:
    ls_findings_destroy(&findings);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&tensors);
    ls_golden_close(&opened);
    ls_job_words_free(&words);
    return status;
}
