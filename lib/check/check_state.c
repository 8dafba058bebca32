/* check_state.c - what a judgement knows before it judges: who has which tensor, who reads what, in
 * which precision it was computed, and the bounds of that precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "check/check_parts.h"

ls_check_place *ls_check_at(const struct ls_check *check, uint64_t step, int node)
{
    return &check->places[(size_t)(step - check->golden->first_step) * check->nodes + (size_t)node];
}

const int *ls_check_inputs(const struct ls_check *check, int node, size_t *ret_count)
{
    const ls_graph_node *of = &check->graph->nodes[node];
    size_t count = 0;
    if (of->make == LS_MAKE_GRADIENT_NORM) {
        *ret_count = check->n_gradients;
        return check->gradients;
    }
    while (count < LS_NODE_INPUTS && of->inputs[count] >= 0) count++;
    *ret_count = count;
    return of->inputs;
}

const int *ls_check_reads(const struct ls_check *check, int node, size_t *ret_count)
{
    const size_t begin = node > 0 ? check->reads_end[node - 1] : 0;
    *ret_count = check->reads_end[node] - begin;
    return check->reads + begin;
}

int ls_check_embedding_of(const ls_graph *graph, const ls_graph_node *gradient)
{
    if (gradient->make != LS_MAKE_PARAM_GRADIENT) return -1;
    for (int r = 0; r < (int)graph->count && graph->nodes[r].phase == LS_GRAPH_FORWARD; r++)
        if (graph->nodes[r].make == LS_MAKE_EMBEDDING && (gradient->of < 0 || gradient->of == r) &&
            ls_graph_param_slot(&graph->nodes[r], gradient->params[0]) >= 0)
            return r;
    return -1;
}

bool ls_check_has_operation(const struct ls_check *check, const ls_check_place *place)
{
    (void)check;
    return !place->golden->given;
}

/* ---- who reads which parameter ---- */

/* A gradient needs the parameters of what it goes back through. */
static bool goes_through(const ls_graph_node *node, const ls_graph_node *reader, int place)
{
    if (node->make == LS_MAKE_GRADIENT) return ls_graph_back_slot(reader, node->of) >= 0;
    if (node->make != LS_MAKE_PARAM_GRADIENT) return false;
    return ls_graph_param_slot(reader, node->params[0]) >= 0 && (node->of < 0 || node->of == place);
}

static size_t add_params(int *list, size_t count, const ls_graph_node *node)
{
    for (int i = 0; i < LS_NODE_PARAMS; i++) {
        bool there = node->params[i] < 0;
        for (size_t k = 0; k < count && !there; k++) there = list[k] == node->params[i];
        if (!there) list[count++] = node->params[i];
    }
    return count;
}

/* The parameters that one node reads, into a list with room for all. */
static size_t list_reads(const ls_graph *graph, const ls_graph_node *node, int *list)
{
    size_t count = 0;
    if (node->phase == LS_GRAPH_FORWARD || node->make == LS_MAKE_UPDATED ||
        node->make == LS_MAKE_RUNNING)
        return add_params(list, 0, node);
    for (size_t r = 0; node->phase == LS_GRAPH_BACKWARD && r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (goes_through(node, reader, (int)r)) count = add_params(list, count, reader);
    }
    return count;
}

static ls_status list_all_reads(struct ls_check *check)
{
    ls_status status = LS_OK;
    const size_t params = check->graph->table->count;
    size_t used = 0, room = 4 * check->nodes + params;
    int *reads = NULL;
    LS_ROOM(reads, room);
    for (size_t n = 0; n < check->nodes; n++) {
        if (room - used < params) {
            room = 2 * room + params;
            LS_RESIZE(reads, room);
        }
        used += list_reads(check->graph, &check->graph->nodes[n], reads + used);
        check->reads_end[n] = used;
    }
    check->reads = reads;
    reads = NULL;
exit:
    free(reads);
    return status;
}

/* ---- begin and end ---- */

static void find_param_nodes(struct ls_check *check)
{
    for (size_t n = 0; n < check->nodes; n++) {
        const ls_graph_node *node = &check->graph->nodes[n];
        if (node->make == LS_MAKE_UPDATED || node->make == LS_MAKE_RUNNING)
            check->updated[node->params[0]] = (int)n;
    }
    for (int p = 0; p < (int)check->graph->table->count; p++) {
        const int gradient = ls_graph_param_gradient(check->graph, p);
        if (gradient >= 0) check->gradients[check->n_gradients++] = gradient;
    }
}

ls_status ls_check_state_create(struct ls_check **ret_check, const ls_golden *golden,
                                const ls_candidate *candidate, const ls_check_options *options)
{
    ls_status status = LS_OK;
    const size_t params = golden->table->count;
    struct ls_check *check = NULL;
    LS_NEW(check, 1);
    check->golden = golden;
    check->candidate = candidate;
    if (options) check->options = *options;
    check->truths = check->options.truths ? check->options.truths : check->own_truths;
    check->graph = golden->graph;
    check->nodes = golden->graph->count;
    check->steps = golden->steps;
    LS_NEW(check->places, check->nodes * check->steps + 1);
    LS_NEW(check->reads_end, check->nodes + 1);
    LS_NEW(check->gradients, params + 1);
    LS_NEW(check->updated, params + 1);
    for (size_t i = 0; i < golden->count; i++)
        ls_check_at(check, golden->tensors[i].step, golden->tensors[i].node)->golden =
            &golden->tensors[i];
    for (size_t i = 0; i < candidate->count; i++) {
        const ls_golden_tensor *of = candidate->tensors[i].golden;
        ls_check_at(check, of->step, of->node)->candidate = &candidate->tensors[i];
    }
    find_param_nodes(check);
    LS_TRY(list_all_reads(check));
    *ret_check = check;
    check = NULL;
exit:
    ls_check_state_destroy(&check);
    return status;
}

void ls_check_state_destroy(struct ls_check **check)
{
    struct ls_check *c = *check;
    if (!c) return;
    for (int i = 0; i < LS_CHECK_PRECISIONS; i++) ls_truth_destroy(&c->own_truths[i]);
    free(c->places), free(c->reads_end), free(c->reads), free(c->gradients), free(c->updated);
    free(c);
    *check = NULL;
}

/* ---- bounds ---- */

/* Whether the directory's own bound is that of the place. */
static bool has_golden_bound(const struct ls_check *check, const ls_check_place *place)
{
    return place->precision == check->golden->run.dtype && isfinite(place->golden->bound);
}

/* The norm is one sum over all parameters. The runs that moved added it as the library does, in a
 * tree; another order rounds it once per element, at random. Such sums are taken in binary32 also
 * where what they add is in a narrow format. */
static double order_of_sum(const struct ls_check *check, const ls_check_place *place)
{
    enum { MARGIN = 8 };
    const ls_graph_node *node = &check->graph->nodes[place->golden->node];
    const double elements = (double)ls_param_table_elements(check->graph->table);
    double norm = 0;
    if (node->make != LS_MAKE_GRADIENT_NORM) return 0;
    ls_widen(LS_F64, &norm, place->golden->dtype, place->golden->values, 1);
    if (!isfinite(norm)) return 0;
    return MARGIN * sqrt(elements) * ls_precision_of(place->precision, 1).sum * norm;
}

/* Whether a parameter is stored in binary32 although gradients were computed in a narrow format. */
static bool keeps_wide_params(const struct ls_check *check, const ls_check_place *place)
{
    return check->graph->nodes[place->golden->node].make == LS_MAKE_UPDATED &&
           ls_check_is_coarser(place->precision, place->format) &&
           ls_truth_wide_params(check->truths[place->precision]);
}

ls_check_run_bound ls_check_bounds(const struct ls_check *check, const ls_check_place *place)
{
    const ls_golden_tensor *golden = place->golden;
    const ls_truth *truth = check->truths[place->precision];
    ls_check_run_bound of = {.most = HUGE_VAL, .spread = HUGE_VAL};
    if (has_golden_bound(check, place)) {
        const double more = golden->truth ? 0 : golden->truth_error;
        of.truth = golden->truth;
        of.most = golden->bound + more;
        of.spread = golden->bound_rms + more;
    } else if (truth) {
        if (keeps_wide_params(check, place)) truth = ls_truth_wide_params(truth);
        of.truth = ls_truth_values(truth, golden->step, golden->node);
        of.most = ls_truth_bound(truth, golden->step, golden->node);
        of.spread = ls_truth_spread(truth, golden->step, golden->node);
        of.rows = ls_truth_rows(truth, golden->step, golden->node);
    }
    const double order = order_of_sum(check, place);
    of.most += order;
    of.spread += order;
    if (order > 0) of.rows = NULL; /* one number */
    return of;
}

double ls_check_bound(const struct ls_check *check, const ls_check_place *place,
                      const double **ret_truth)
{
    const ls_check_run_bound of = ls_check_bounds(check, place);
    if (of.truth) *ret_truth = of.truth;
    return of.most;
}

/* One run of several for each precision that an unequal tensor was computed in. */
ls_status ls_check_find_truths(struct ls_check *check)
{
    ls_status status = LS_OK;
    if (check->golden->kind == LS_GOLDEN_INTEGERS) goto exit;
    for (size_t i = 0; i < check->steps * check->nodes; i++) {
        const ls_check_place *place = &check->places[i];
        if (!place->judged || place->judged->verdict == LS_EQUAL) continue;
        if (has_golden_bound(check, place) || check->truths[place->precision]) continue;
        ls_run run = check->golden->run;
        run.world.stop = check->options.stop;
        const ls_truth_options options = {.dtype = place->precision,
                                          .keep = true,
                                          .context = check->options.context,
                                          .advance = check->options.advance};
        LS_TRY(ls_truth_find(&check->truths[place->precision], &run, check->graph, &options));
    }
exit:
    return status;
}
