#include "report/report.h"
#include "base/allocate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_losses_add(ls_losses *losses, const ls_step *step)
{
    ls_status status = LS_OK;
    LS_GROW(losses->value, losses->count, losses->room);
    if (losses->count == 0) losses->first_step = step->step;
    losses->value[losses->count++] = step->loss;
exit:
    return status;
}

ls_status ls_report_create(ls_report **ret_report, const ls_run *common, size_t n_baselines,
                           size_t n_runs)
{
    ls_status status = LS_OK;
    ls_report *report = NULL;
    LS_NEW(report, 1);
    report->common = *common;
    LS_NEW(report->baselines, n_baselines + 1);
    LS_NEW(report->runs, n_runs + 1);
    LS_TRY(ls_param_table_create(&report->table, &common->config));
    *ret_report = report;
    report = NULL;
exit:
    ls_report_destroy(&report);
    return status;
}

void ls_report_destroy(ls_report **report)
{
    ls_report *r = *report;
    if (r == NULL) return;
    for (size_t i = 0; r->baselines != NULL && i < r->n_baselines; i++) {
        free(r->baselines[i].losses.value);
        ls_train_result_free(&r->baselines[i].result);
    }
    for (size_t i = 0; r->runs != NULL && i < r->n_runs; i++) {
        free(r->runs[i].losses.value);
        ls_train_result_free(&r->runs[i].result);
    }
    free(r->baselines);
    free(r->runs);
    ls_param_table_destroy(&r->table);
    free(r);
    *report = NULL;
}

static int axes_of(const ls_layout *layout)
{
    return (layout->dp > 1) + (layout->pp > 1) + (layout->tp > 1) + (layout->down > 1) +
           (layout->across > 1) + (layout->channels > 1);
}

const ls_report_run *ls_report_featured(const ls_report *report)
{
    const ls_report_run *best = NULL;
    for (size_t i = 0; i < report->n_runs; i++) {
        const ls_report_run *run = &report->runs[i];
        if (run->result.rank == NULL) continue;
        int more = best == NULL ? 1 : axes_of(&run->layout) - axes_of(&best->layout);
        if (more > 0 || (more == 0 && run->result.ranks > best->result.ranks)) best = run;
    }
    return best;
}

void ls_report_layout_name(ls_model_kind kind, const ls_layout *layout, char *buffer, size_t size)
{
    char text[LS_LAYOUT_TEXT];
    ls_layout_describe(layout, text, sizeof text);
    if (ls_layout_ranks(layout) > 1 || kind == LS_MODEL_NET)
        ls_layout_describe(layout, buffer, size);
    else if (strcmp(text, "one rank") == 0)
        snprintf(buffer, size, "tp 1");
    else
        snprintf(buffer, size, "tp 1, %s", text);
}

void ls_report_grid_name(ls_model_kind kind, const ls_layout *layout, char *buffer, size_t size)
{
    ls_layout grid = ls_layout_serial();
    grid.dp = layout->dp;
    grid.pp = layout->pp;
    grid.cp = layout->cp;
    grid.tp = layout->tp;
    grid.sp = layout->sp;
    grid.down = layout->down;
    grid.across = layout->across;
    grid.channels = layout->channels;
    ls_report_layout_name(kind, &grid, buffer, size);
}

void ls_report_count(const ls_report *report, size_t *ret_equal, size_t *ret_different)
{
    size_t equal = 0, different = 0;
    for (size_t i = 0; i < report->n_runs; i++) {
        if (!report->runs[i].compared || report->runs[i].undefined) continue;
        if (report->runs[i].equal)
            equal++;
        else
            different++;
    }
    *ret_equal = equal;
    *ret_different = different;
}
