/* train_result.c - what a run leaves: digests, losses, and what every rank held and sent. */
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "train/training.h"

ls_status ls_train_result_begin(ls_train_result *result, int ranks)
{
    ls_status status = LS_OK;
    memset(result, 0, sizeof *result);
    LS_NEW(result->rank, (size_t)ranks);
    result->ranks = ranks;
exit:
    return status;
}

void ls_train_result_free(ls_train_result *result)
{
    free(result->rank);
    memset(result, 0, sizeof *result);
}

void ls_train_result_step(ls_train_result *result, const ls_step *step)
{
    if (step->step == result->first_step) result->first_loss = step->loss;
    result->last_loss = step->loss;
    result->last_step = step->step + 1;
    result->ns += step->ns;
    result->tokens += step->tokens;
}

void ls_rank_report_memory(ls_rank_report *report, const ls_memory *memory)
{
    for (int c = 0; c < LS_MEM_CATEGORIES; c++)
        report->peak_bytes[c] = ls_memory_peak_bytes(memory, (ls_memory_category)c);
    report->total_peak_bytes = ls_memory_total_peak_bytes(memory);
}

ls_update ls_step_update(const ls_run *run, uint64_t step)
{
    ls_update update;
    update.optimizer = run->optimizer;
    update.lr = ls_learning_rate(run->lr, run->lr_floor, run->warmup, run->lr_total, step);
    update.beta1 = run->beta1;
    update.beta2 = run->beta2;
    update.eps = run->adam_eps;
    update.weight_decay = run->weight_decay;
    update.t = step + 1;
    return update;
}
