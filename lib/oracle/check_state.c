/* check_state.c - what a judgement knows before it judges: who has which tensor, who reads what, in
 * which precision it was computed, and the bounds of that precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "oracle/check_parts.h"

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
    int *reads = malloc(room * sizeof *reads);
    if (!reads) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for the list of operands");
    for (size_t n = 0; n < check->nodes; n++) {
        if (room - used < params) {
            int *larger = realloc(reads, (2 * room + params) * sizeof *reads);
            if (!larger) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for the list of operands");
            reads = larger;
            room = 2 * room + params;
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
    struct ls_check *check = calloc(1, sizeof *check);
    if (!check) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for a judgement");
    check->golden = golden;
    check->candidate = candidate;
    if (options) check->options = *options;
    check->graph = golden->graph;
    check->nodes = golden->graph->count;
    check->steps = golden->steps;
    check->places = calloc(check->nodes * check->steps + 1, sizeof *check->places);
    check->reads_end = calloc(check->nodes + 1, sizeof *check->reads_end);
    check->gradients = calloc(params + 1, sizeof *check->gradients);
    check->updated = calloc(params + 1, sizeof *check->updated);
    if (!check->places || !check->reads_end || !check->gradients || !check->updated)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for a judgement");
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
    for (int i = 0; i < LS_CHECK_PRECISIONS; i++) ls_truth_destroy(&c->truths[i]);
    free(c->places), free(c->reads_end), free(c->reads), free(c->gradients), free(c->updated);
    free(c);
    *check = NULL;
}

/* ---- formats ---- */

/* So many numbers that all fit a coarser format are no accident. Of fewer it is believed when
 * another tensor has shown that the candidate has that format. Of binary32 written as binary64 most
 * tensors must show it: what is copied from weights given in binary32 has their numbers in every
 * precision. */
enum { TELLING = 32 };

/* Of candidate tensor i: also one that is not asked for is an operand. */
static ls_status look_at(void *context, size_t i)
{
    const struct ls_check *check = context;
    const ls_candidate_tensor *mine = &check->candidate->tensors[i];
    ls_check_place *place = ls_check_at(check, mine->golden->step, mine->golden->node);
    place->formats = ls_check_look_at(mine->dtype, mine->values, mine->golden->count);
    return LS_OK;
}

ls_status ls_check_find_formats(struct ls_check *check)
{
    ls_status status = LS_OK;
    const size_t places = check->steps * check->nodes;
    bool bf16 = false, f16 = false;
    size_t f32 = 0, f64 = 0; /* tensors of binary64 that are numbers of binary32, and others */
    for (size_t i = 0; i < places; i++)
        if (check->places[i].candidate) check->places[i].format = check->places[i].candidate->dtype;
    if (check->golden->kind == LS_GOLDEN_INTEGERS) goto exit; /* which are numbers of all formats */
    LS_TRY(ls_check_work(check, look_at, check->candidate->count, "looking at formats"));
    for (size_t i = 0; i < places; i++) {
        const ls_check_formats *of = &check->places[i].formats;
        if (check->places[i].format == LS_F64 && !of->f32) f64++;
        if (of->telling < TELLING) continue;
        if (of->f32) f32++;
        if (of->bf16) bf16 = true;
        if (of->f16 && !of->bf16) f16 = true; /* 8 bits are numbers of both */
    }
    for (size_t i = 0; i < places; i++) {
        ls_check_place *place = &check->places[i];
        if (bf16 && place->formats.bf16)
            place->format = LS_BF16;
        else if (f16 && place->formats.f16)
            place->format = LS_F16;
        else if (f32 > f64 && place->formats.f32)
            place->format = LS_F32;
    }
exit:
    return status;
}

/* ---- precision ---- */

static void take_precision(ls_check_place *place, const ls_check_place *from)
{
    if (!from->known) return;
    place->precision =
        place->known ? ls_check_coarser(place->precision, from->precision) : from->precision;
    place->known = true;
}

/* In order of execution: a tensor is no finer than what it is made of, wherever that was written.
 */
void ls_check_spread_precision(struct ls_check *check)
{
    for (size_t i = 0; i < check->steps * check->nodes; i++) {
        ls_check_place *place = &check->places[i];
        const int node = (int)(i % check->nodes);
        size_t count;
        place->known = place->candidate != NULL;
        place->precision = place->format;
        if (place->candidate && check->options.has_computed)
            place->precision = ls_check_coarser(place->format, check->options.computed);
        const int *list = ls_check_inputs(check, node, &count);
        const size_t first = i - (size_t)node;
        for (size_t k = 0; k < count; k++)
            take_precision(place, &check->places[first + (size_t)list[k]]);
        list = ls_check_reads(check, node, &count);
        for (size_t k = 0; first > 0 && k < count; k++)
            take_precision(place,
                           &check->places[first - check->nodes + (size_t)check->updated[list[k]]]);
        if (place->judged) place->judged->precision = place->precision;
    }
}

/* ---- bounds ---- */

/* Whether the directory's own bound is that of the place. */
static bool has_golden_bound(const struct ls_check *check, const ls_check_place *place)
{
    return place->precision == check->golden->run.dtype && isfinite(place->golden->bound);
}

/* The norm is one sum over all parameters. The runs that moved added it as the library does, in a
 * tree; another order rounds it once per element, at random. */
static double order_of_sum(const struct ls_check *check, const ls_check_place *place)
{
    enum { MARGIN = 8 };
    const ls_graph_node *node = &check->graph->nodes[place->golden->node];
    const double elements = (double)ls_param_table_elements(check->graph->table);
    double norm = 0;
    if (node->make != LS_MAKE_GRADIENT_NORM) return 0;
    ls_widen(LS_F64, &norm, place->golden->dtype, place->golden->values, 1);
    if (!isfinite(norm)) return 0;
    return MARGIN * sqrt(elements) * ls_precision_of(place->precision, 1).u * norm;
}

double ls_check_bound(const struct ls_check *check, const ls_check_place *place,
                      const double **ret_truth)
{
    const ls_golden_tensor *golden = place->golden;
    const ls_truth *truth = check->truths[place->precision];
    double bound = HUGE_VAL;
    if (has_golden_bound(check, place)) {
        *ret_truth = golden->truth;
        bound = golden->truth ? golden->bound : golden->bound + golden->truth_error;
    } else if (truth) {
        *ret_truth = ls_truth_values(truth, golden->step, golden->node);
        bound = ls_truth_bound(truth, golden->step, golden->node);
    }
    return bound + order_of_sum(check, place);
}

/* One run of several for each precision that somebody who is not equal computed in. */
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
