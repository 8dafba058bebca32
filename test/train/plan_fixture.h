/* plan_fixture.h - a plan held against a real run: what is exact to the byte and the call, and
 * bounds for the two that are not. */
#ifndef TEST_TRAIN_PLAN_FIXTURE_H
#define TEST_TRAIN_PLAN_FIXTURE_H

#include "lockstep/pipeline/plan.h"
#include "run_fixture.h"

static inline ls_plan *plan_of(const ls_run *run)
{
    ls_plan *plan;
    ls_plan_setup setup = {&run->config, &run->layout, run->batch, run->dtype, run->gathered_loss};
    ls_status status = ls_plan_create(&plan, &setup);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return plan;
}

static inline const char *name_of(const ls_run *run, int rank)
{
    static char name[256];
    char layout[128];
    ls_layout_describe(&run->layout, layout, sizeof layout);
    snprintf(name, sizeof name,
             "%s, S %zu, batch %zu, layers %zu: %s, V %d, M %d, recompute %s, rank %d",
             run->config.name, run->config.seq, run->batch, run->config.layers, layout,
             run->layout.virtual_stages, run->layout.micro_batches,
             ls_recompute_name(run->layout.recompute), rank);
    return name;
}

/* Runs and compares. Two steps: a step must leave nothing behind that the next one adds to. */
static inline void check_run(ls_run *run)
{
    ls_train_result result;
    run->config.batch = run->batch;
    ls_plan *plan = plan_of(run);
    ls_status status = ls_train(run, NULL, &result);
    ck_assert_msg(status == LS_OK, "%s: %s", name_of(run, 0), ls_error_text());
    ck_assert_int_eq(plan->ranks, result.ranks);
    for (int r = 0; r < plan->ranks; r++) {
        const ls_rank_plan *p = &plan->rank[r];
        const ls_rank_report *m = &result.rank[r];
        for (int c = 0; c < LS_MEM_CATEGORIES; c++) {
            bool fits = p->bytes[c] == m->peak_bytes[c];
            if (c == LS_MEM_TEMPORARY) fits = p->bytes[c] <= m->peak_bytes[c];
            if (c == LS_MEM_COMMUNICATION) fits = p->bytes[c] >= m->peak_bytes[c];
            ck_assert_msg(fits, "%s: %s: planned %llu, measured %zu", name_of(run, r),
                          ls_memory_category_name((ls_memory_category)c),
                          (unsigned long long)p->bytes[c], m->peak_bytes[c]);
        }
        for (int op = 0; op < LS_OP_COUNT; op++)
            ck_assert_msg(p->comm[op].calls * run->steps == m->comm[op].calls &&
                              p->comm[op].bytes * run->steps == m->comm[op].bytes,
                          "%s: %s: planned %llu calls, %llu bytes; measured %llu, %llu",
                          name_of(run, r), ls_operation_name((ls_operation)op),
                          (unsigned long long)(p->comm[op].calls * run->steps),
                          (unsigned long long)(p->comm[op].bytes * run->steps),
                          (unsigned long long)m->comm[op].calls,
                          (unsigned long long)m->comm[op].bytes);
        ck_assert_msg(p->at_once <= m->total_peak_bytes, "%s: at least %llu planned, %zu measured",
                      name_of(run, r), (unsigned long long)p->at_once, m->total_peak_bytes);
    }
    ls_train_result_free(&result);
    ls_plan_destroy(&plan);
}

#endif
