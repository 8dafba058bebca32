/* search_try.c - a hypothesis tried where it is, and where it may be: among the operations
 * before the node whose tensors the candidate does not have.
 *
 * Upstream, every operation that the hypothesis concerns is done otherwise, and what is made of it
 * is computed again in order, from the nearest tensors that the candidate has. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "causes/search.h"

static const ls_candidate_tensor *candidate_tensor(const ls_search *search, int node)
{
    const ls_candidate *whole = search->of->whole;
    for (size_t i = 0; whole && i < whole->count; i++)
        if (whole->tensors[i].golden && whole->tensors[i].golden->node == node &&
            whole->tensors[i].golden->step == search->of->step)
            return &whole->tensors[i];
    return NULL;
}

ls_status ls_search_need(ls_search *search, int node, bool *ret_there)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *mine = candidate_tensor(search, node);
    const ls_golden_tensor *golden =
        search->of->golden ? ls_golden_find(search->of->golden, search->of->step, node) : NULL;
    const size_t n = ls_graph_elements(search->graph, node);
    *ret_there = search->values[node] != NULL;
    if (*ret_there || (!mine && !golden)) goto exit;
    LS_ROOM(search->loaded[node], n);
    ls_widen(LS_F64, search->loaded[node], mine ? mine->dtype : golden->dtype,
             mine ? mine->values : golden->values, n);
    search->values[node] = search->loaded[node];
    *ret_there = true;
exit:
    return status;
}

static ls_status need_for(ls_search *search, int node, ls_change *change, bool *ret_there)
{
    ls_status status = LS_OK;
    if (change && change->values[node]) {
        *ret_there = true;
        return LS_OK;
    }
    LS_TRY(ls_search_need(search, node, ret_there));
    if (change) change->values[node] = search->values[node];
exit:
    return status;
}

ls_status ls_search_need_inputs(ls_search *search, int place, ls_change *change, bool *ret_there)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = &search->graph->nodes[place];
    *ret_there = true;
    for (int i = 0; i < LS_NODE_INPUTS && node->inputs[i] >= 0 && *ret_there; i++)
        LS_TRY(need_for(search, node->inputs[i], change, ret_there));
    for (int p = 0;
         node->make == LS_MAKE_GRADIENT_NORM && *ret_there && p < (int)search->graph->table->count;
         p++)
        if (ls_graph_param_gradient(search->graph, p) >= 0)
            LS_TRY(need_for(search, ls_graph_param_gradient(search->graph, p), change, ret_there));
exit:
    return status;
}

static bool candidate_has(const ls_search *search, int node)
{
    return candidate_tensor(search, node) != NULL;
}

/* Whether an operation of a node is done otherwise: its own, or one whose gradient it is. */
static bool concerned(const ls_search *search, const ls_graph_node *node, ls_kind_set kinds,
                      const ls_change *change)
{
    ls_search at = *search;
    at.node = node;
    if (ls_search_concerns(&at, kinds)) return true;
    if (change->params == NULL) return false;
    if (node->make == LS_MAKE_GRADIENT) { /* through a reader's weight */
        for (size_t r = 0; r < search->graph->count; r++) {
            const ls_graph_node *reader = &search->graph->nodes[r];
            if (reader->phase != LS_GRAPH_FORWARD) break;
            if (ls_graph_back_slot(reader, node->of) < 0) continue;
            for (int i = 0; i < LS_NODE_PARAMS && reader->params[i] >= 0; i++)
                if (change->params[reader->params[i]] !=
                    search->of->operands.params[reader->params[i]])
                    return true;
        }
        return false;
    }
    for (int i = 0; i < LS_NODE_PARAMS && node->params[i] >= 0; i++)
        if (node->make != LS_MAKE_PARAM_GRADIENT &&
            change->params[node->params[i]] != search->of->operands.params[node->params[i]])
            return true;
    return false;
}

/* Everything that the node is made of, up to what the candidate has. */
static void mark_needed(const ls_search *search, bool *needed)
{
    const ls_graph *graph = search->graph;
    needed[search->of->node] = true;
    for (size_t i = (size_t)search->of->node + 1; i-- > 0;) {
        const ls_graph_node *node = &graph->nodes[i];
        if (!needed[i] || ((int)i != search->of->node && candidate_has(search, (int)i))) continue;
        for (int k = 0; k < LS_NODE_INPUTS && node->inputs[k] >= 0; k++)
            needed[node->inputs[k]] = true;
        for (size_t p = 0; node->make == LS_MAKE_GRADIENT_NORM && p < graph->table->count; p++)
            if (ls_graph_param_gradient(graph, (int)p) >= 0)
                needed[ls_graph_param_gradient(graph, (int)p)] = true;
    }
}

static bool reads_changed(const ls_graph *graph, const ls_graph_node *node, const bool *changed)
{
    for (int k = 0; k < LS_NODE_INPUTS && node->inputs[k] >= 0; k++)
        if (changed[node->inputs[k]]) return true;
    for (size_t p = 0; node->make == LS_MAKE_GRADIENT_NORM && p < graph->table->count; p++)
        if (ls_graph_param_gradient(graph, (int)p) >= 0 &&
            changed[ls_graph_param_gradient(graph, (int)p)])
            return true;
    return false;
}

static ls_status try_upstream(ls_search *search, ls_cause cause, ls_kind_set kinds,
                              ls_change *change, const char *text)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    const int target = search->of->node;
    bool *needed = NULL, *changed = NULL, done = true;
    double **made = NULL;
    LS_NEW(needed, graph->count);
    LS_NEW(changed, graph->count);
    LS_NEW(made, graph->count);
    mark_needed(search, needed);
    for (int i = 0; i <= target && done; i++) {
        const ls_graph_node *node = &graph->nodes[i];
        if (!needed[i] || (i != target && candidate_has(search, i))) continue;
        changed[i] = concerned(search, node, kinds, change) || reads_changed(graph, node, changed);
        if (!changed[i]) continue;
        LS_TRY(ls_search_need_inputs(search, i, change, &done));
        if (!done) break;
        if (i == target) {
            LS_TRY(ls_search_evaluate(search, cause, &change->operands, text));
            continue;
        }
        LS_ROOM(made[i], ls_graph_elements(graph, i));
        LS_TRY(ls_search_compute(search, i, &change->operands, made[i], NULL, &done));
        change->values[i] = made[i];
    }
exit:
    for (size_t i = 0; made && i < graph->count; i++) {
        if (made[i]) change->values[i] = search->values[i];
        free(made[i]);
    }
    free(made);
    free(needed);
    free(changed);
    return status;
}

static bool is_hint(const ls_search *search, ls_cause cause, const char *text)
{
    const char *words = search->of->hint_evidence;
    return cause == search->of->hint && (!words || strncmp(text, words, strlen(text)) == 0);
}

ls_status ls_search_try(ls_search *search, ls_cause cause, ls_kind_set kinds, ls_change *change,
                        const char *text)
{
    ls_status status = LS_OK;
    if (search->fits[cause]) goto exit;
    if (concerned(search, search->node, kinds, change)) {
        LS_TRY(ls_search_evaluate(search, cause, &change->operands, text));
        if (search->fits[cause]) goto exit;
    }
    /* A whole tensor that is explained needs no second opinion; a few numbers may have several. */
    if (search->best.cause != LS_CAUSE_NONE && search->n > 1 && !search->scant) goto exit;
    if (search->only_hint && !is_hint(search, cause, text)) goto exit;
    if (!search->of->own_inputs) LS_TRY(try_upstream(search, cause, kinds, change, text));
exit:
    return status;
}

ls_status ls_search_try_batch(ls_search *search, ls_cause cause, ls_kind_set kinds,
                              const ls_variant *variant, const ls_batch *batch, const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    if (search->fits[cause]) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant = *variant;
    if (batch) change.batch = *batch;
    LS_TRY(ls_search_try(search, cause, kinds, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_search_try_variant(ls_search *search, ls_cause cause, ls_kind_set kinds,
                                const ls_variant *variant, const char *text)
{
    return ls_search_try_batch(search, cause, kinds, variant, NULL, text);
}

ls_status ls_search_try_fitted(ls_search *search, ls_cause cause, ls_kind_set kinds,
                               const ls_variant *variant, size_t fitted, const char *text)
{
    search->fitted = fitted;
    const ls_status status = ls_search_try_variant(search, cause, kinds, variant, text);
    search->fitted = 0;
    return status;
}

ls_status ls_search_try_forms(ls_search *search, const ls_form *forms, size_t count)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < count; i++)
        LS_TRY(ls_search_try_variant(search, forms[i].cause, forms[i].kinds, &forms[i].variant,
                                     forms[i].text));
exit:
    return status;
}

bool ls_search_can_concern(const ls_search *search, ls_kind_set kinds)
{
    return !search->of->own_inputs || ls_search_concerns(search, kinds);
}
