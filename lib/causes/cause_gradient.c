/* cause_gradient.c - an update that is done twice: with the same gradient, or once for each use of
 * a tied parameter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/families.h"

typedef struct moments {
    const double **arrays[2];
    double *values[2];
} moments;

/* One update of the node's parameter with a gradient: weights (in and out) and moments. *ret_done:
 * false when the search has no more work to spend; then they stay as they are. */
static ls_status update_once(ls_search *search, const double *gradient, uint64_t t, double *weights,
                             moments *m, double *bound, bool *ret_done)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    ls_update update = *search->of->operands.update;
    double *g, *w, *next = NULL;
    const int param = search->node->params[0];
    const size_t n = search->n;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, search->node->inputs[0], &g));
    LS_TRY(ls_change_param(&change, param, &w));
    LS_ROOM(next, 3 * n);
    memcpy(g, gradient, n * sizeof *g);
    memcpy(w, weights, n * sizeof *w);
    update.t = t;
    change.operands.update = &update;
    change.operands.moment1 = m->arrays[0], change.operands.moment2 = m->arrays[1];
    LS_TRY(ls_search_compute(search, search->of->node, &change.operands, next, bound, ret_done));
    if (!*ret_done) goto exit;
    LS_TRY(ls_operation_moments(&change.operands, search->of->node, next + n, next + 2 * n));
    memcpy(weights, next, n * sizeof *weights);
    for (int i = 0; i < 2; i++) {
        memcpy(m->values[i], next + n + (size_t)i * n, n * sizeof *next);
        m->arrays[i][param] = m->values[i];
    }
exit:
    free(next);
    ls_change_end(&change);
    return status;
}

/* Two updates, one after the other, with one gradient each. again: number of the second; fresh: it
 * has moments of its own. */
static ls_status try_two(ls_search *search, const double *first, const double *second,
                         uint64_t again, bool fresh, const char *text)
{
    ls_status status = LS_OK;
    const ls_operands *o = &search->of->operands;
    const int param = search->node->params[0];
    const size_t n = search->n, count = search->graph->table->count;
    moments m = {0};
    bool done = false;
    double *weights = NULL;
    LS_ROOM(weights, 5 * n);
    double *const bound = weights + n;
    m.values[0] = weights + 3 * n, m.values[1] = weights + 4 * n;
    for (int i = 0; i < 2; i++) {
        const double *const *given = i ? o->moment2 : o->moment1;
        LS_NEW(m.arrays[i], count);
        for (size_t p = 0; given && p < count; p++) m.arrays[i][p] = given[p];
    }
    const double *before[2] = {m.arrays[0][param], m.arrays[1][param]};
    memcpy(weights, o->params[param], n * sizeof *weights);
    memset(m.values[0], 0, 2 * n * sizeof **m.values);
    LS_TRY(update_once(search, first, o->update->t, weights, &m, bound, &done));
    if (!done) goto exit;
    for (int i = 0; i < 2 && fresh; i++) m.arrays[i][param] = before[i];
    LS_TRY(update_once(search, second, again, weights, &m, bound + n, &done));
    if (!done) goto exit;
    for (size_t i = 0; i < n; i++) bound[i] += 2 * bound[n + i];
    ls_search_propose(search, LS_CAUSE_UPDATE_TWICE, weights, bound, text);
exit:
    free(m.arrays[0]);
    free(m.arrays[1]);
    free(weights);
    return status;
}

static ls_status try_updates(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_operands *o = &search->of->operands;
    const uint64_t t = o->update ? o->update->t : 0;
    const double *g = o->values[search->node->inputs[0]];
    const ls_param *param = &search->graph->table->params[search->node->params[0]];
    char text[LS_EVIDENCE], name[sizeof param->name + 32];
    double *uses = NULL;
    if (!o->update || !g || !o->params[search->node->params[0]]) goto exit;
    for (uint64_t next = 0; next < 2; next++) {
        snprintf(text, sizeof text,
                 "candidate is the parameter after two updates with the same gradient, numbered "
                 "%llu and %llu",
                 (unsigned long long)t, (unsigned long long)(t + next));
        LS_TRY(try_two(search, g, g, t + next, false, text));
    }
    if (param->uses < 2) goto exit;
    const int whole = ls_graph_param_gradient(search->graph, search->node->params[0]);
    snprintf(name, sizeof name, "grad.%s.as_head", param->name);
    const int head = ls_graph_find(search->graph, name);
    bool there = head >= 0, both = false;
    if (there) LS_TRY(ls_search_need(search, head, &there));
    if (there) LS_TRY(ls_search_need(search, whole, &both));
    if (!there || !both) goto exit;
    LS_ROOM(uses, 2 * search->n);
    for (size_t i = 0; i < search->n; i++) {
        const double all = o->values[whole][i], factor = all != 0 ? g[i] / all : 0;
        uses[i] = factor * o->values[head][i];
        uses[search->n + i] = g[i] - uses[i];
    }
    for (int how = 0; how < 3; how++) {
        snprintf(text, sizeof text, "candidate had one update for each use of the tied embedding%s",
                 how == 2 ? ", each with moments of its own" : "");
        LS_TRY(try_two(search, uses + search->n, uses, t + (how == 1), how == 2, text));
    }
exit:
    free(uses);
    return status;
}

ls_status ls_cause_two_updates(ls_search *search)
{
    return search->node->make == LS_MAKE_UPDATED ? try_updates(search) : LS_OK;
}
