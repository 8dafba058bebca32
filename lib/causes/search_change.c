/* search_change.c - operands of which some arrays are changed, the rest being the case's. */
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/search.h"

ls_status ls_change_begin(ls_change *change, const ls_operands *from)
{
    ls_status status = LS_OK;
    const size_t nodes = from->graph->count, params = from->graph->table->count;
    memset(change, 0, sizeof *change);
    change->operands = *from;
    if (from->variant) change->variant = *from->variant;
    if (from->batch) change->batch = *from->batch;
    change->operands.variant = &change->variant;
    if (from->batch) change->operands.batch = &change->batch;
    LS_ROOM(change->values, nodes);
    LS_ROOM(change->params, params);
    memcpy(change->values, from->values, nodes * sizeof *change->values);
    memcpy(change->params, from->params, params * sizeof *change->params);
    change->operands.values = change->values;
    change->operands.params = change->params;
exit:
    if (status != LS_OK) ls_change_end(change);
    return status;
}

void ls_change_end(ls_change *change)
{
    for (size_t i = 0; i < change->n_owned; i++) free(change->owned[i]);
    free(change->owned);
    free(change->values);
    free(change->params);
    memset(change, 0, sizeof *change);
}

static ls_status own(ls_change *change, const double **place, size_t n, double **ret_values)
{
    ls_status status = LS_OK;
    double *copy = NULL;
    for (size_t i = 0; i < change->n_owned; i++)
        if (change->owned[i] == *place) copy = change->owned[i];
    if (!copy) {
        LS_GROW(change->owned, change->n_owned, change->room);
        LS_ROOM(copy, n);
        memcpy(copy, *place, n * sizeof *copy);
        change->owned[change->n_owned++] = copy;
        *place = copy;
    }
    *ret_values = copy;
exit:
    return status;
}

ls_status ls_change_value(ls_change *change, int node, double **ret_values)
{
    return own(change, &change->values[node], ls_graph_elements(change->operands.graph, node),
               ret_values);
}

ls_status ls_change_param(ls_change *change, int param, double **ret_values)
{
    return own(change, &change->params[param],
               ls_param_elements(&change->operands.graph->table->params[param]), ret_values);
}
