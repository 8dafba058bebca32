/* bounds_truth.c - truths made, asked and freed. */
#include "golden/bounds_truth.h"
#include "base/allocate.h"

#include <math.h>
#include <stdlib.h>

void ls_truth_forget_values(ls_truth *truth)
{
    for (size_t i = 0; truth->values && i < truth->steps * truth->graph->count; i++) {
        if (!truth->placed) free(truth->values[i]);
        truth->values[i] = NULL;
    }
}

ls_status ls_truth_create(ls_truth **ret_truth, const ls_graph *graph, uint64_t first, size_t steps)
{
    ls_status status = LS_OK;
    const size_t n = steps * graph->count;
    ls_truth *truth = NULL;
    LS_NEW(truth, 1);
    truth->graph = graph;
    truth->first = first;
    truth->steps = steps;
    LS_NEW(truth->values, n + 1);
    LS_NEW(truth->bounds, n + 1);
    LS_NEW(truth->spreads, n + 1);
    LS_NEW(truth->rows, n + 1);
    for (size_t i = 0; i < n; i++) truth->bounds[i] = truth->spreads[i] = (double)INFINITY;
    *ret_truth = truth;
    truth = NULL;
exit:
    ls_truth_destroy(&truth);
    return status;
}

void ls_truth_destroy(ls_truth **truth)
{
    if (!truth || !*truth) return;
    ls_truth_destroy(&(*truth)->wide_params);
    ls_truth_forget_values(*truth);
    for (size_t i = 0; (*truth)->rows && i < (*truth)->steps * (*truth)->graph->count; i++)
        free((*truth)->rows[i]);
    free((*truth)->values);
    free((*truth)->bounds), free((*truth)->spreads), free((*truth)->rows);
    free(*truth);
    *truth = NULL;
}

/* Of a step and node; false: there is none. */
static bool has_place(const ls_truth *truth, uint64_t step, int node, size_t *ret_place)
{
    *ret_place = (size_t)(step - truth->first) * truth->graph->count + (size_t)node;
    return step >= truth->first && step - truth->first < truth->steps && node >= 0;
}

const ls_truth *ls_truth_wide_params(const ls_truth *truth)
{
    return truth->wide_params;
}

double ls_truth_bound(const ls_truth *truth, uint64_t step, int node)
{
    size_t place;
    return has_place(truth, step, node, &place) ? truth->bounds[place] : (double)INFINITY;
}

double ls_truth_spread(const ls_truth *truth, uint64_t step, int node)
{
    size_t place;
    return has_place(truth, step, node, &place) ? truth->spreads[place] : (double)INFINITY;
}

const double *ls_truth_rows(const ls_truth *truth, uint64_t step, int node)
{
    size_t place;
    return has_place(truth, step, node, &place) ? truth->rows[place] : NULL;
}

const double *ls_truth_values(const ls_truth *truth, uint64_t step, int node)
{
    size_t place;
    return has_place(truth, step, node, &place) ? truth->values[place] : NULL;
}
