/* operation.c - which function evaluates which kind of node; gradients as sums over readers. */
#include "step_graph/operation.h"

#include <stdlib.h>
#include <string.h>

#include "step_graph/operation_parts.h"
#include "base/allocate.h"

typedef struct evaluator {
    ls_evaluate_forward *forward;
    ls_evaluate_backward *backward, *params; /* NULL: sends nothing back / reads no parameter */
} evaluator;

#define LS_OPERATION(name, properties, unseen, forward, backward, params, words)                   \
    [LS_MAKE_##name] = {forward, backward, params},
static const evaluator evaluators[LS_OPERATION_KINDS] = {
#include "step_graph/operations.inc"
};
#undef LS_OPERATION

ls_precision ls_precision_of(ls_dtype dtype, size_t parts)
{
    /* tiny: the smallest normal number, since devices flush what is below it; of binary16, whose
     * subnormal numbers they keep, the smallest of all */
    const double f32 = 0x1p-24;
    ls_precision p = {.u = f32, .sum = f32, .tiny = 0x1p-126};
    if (dtype == LS_F64) p.u = p.sum = 0x1p-52, p.tiny = 0x1p-1022;
    if (dtype == LS_BF16) p.u = 0x1p-8, p.partials = (double)parts + LS_OPERAND_ROUNDINGS;
    if (dtype == LS_F16)
        p.u = 0x1p-11, p.tiny = 0x1p-24, p.partials = (double)parts + LS_OPERAND_ROUNDINGS;
    return p;
}

/* The parameter in slot `slot` of a node that reads it. */
static ls_status check_param(const ls_operands *o, const ls_graph_node *node,
                             const ls_graph_node *reader, int slot)
{
    ls_status status = LS_OK;
    const int param = reader->params[slot];
    if (param >= 0 && !o->params[param])
        LS_FAIL(LS_ERR_INTERNAL, "%s is to be computed again without %s", node->name,
                o->graph->table->params[param].name);
exit:
    return status;
}

/* Forward all of the node's own; what goes back through a reader meets its first, the matrix or the
 * scale. */
static ls_status check_params(const ls_operands *o, const ls_graph_node *node)
{
    ls_status status = LS_OK;
    for (int i = 0; node->phase == LS_GRAPH_FORWARD && i < LS_NODE_PARAMS; i++)
        LS_TRY(check_param(o, node, node, i));
    for (size_t r = 0; node->make == LS_MAKE_GRADIENT && r < o->graph->count; r++) {
        const ls_graph_node *reader = &o->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (ls_graph_back_slot(reader, node->of) >= 0) LS_TRY(check_param(o, node, reader, 0));
    }
exit:
    return status;
}

static ls_status check_operands(const ls_operands *o, const ls_graph_node *node)
{
    ls_status status = LS_OK;
    for (int i = 0; i < LS_NODE_INPUTS && node->inputs[i] >= 0; i++)
        if (!o->values[node->inputs[i]])
            LS_FAIL(LS_ERR_INTERNAL, "%s is to be computed again without %s", node->name,
                    o->graph->nodes[node->inputs[i]].name);
    for (int param = 0; node->make == LS_MAKE_GRADIENT_NORM && param < (int)o->graph->table->count;
         param++)
        if (!o->graph->table->params[param].state &&
            !o->values[ls_graph_param_gradient(o->graph, param)])
            LS_FAIL(LS_ERR_INTERNAL, "%s is to be computed again without grad.%s", node->name,
                    o->graph->table->params[param].name);
    if ((node->make == LS_MAKE_UPDATED && !o->update) ||
        ((node->make == LS_MAKE_UPDATED || node->make == LS_MAKE_RUNNING) &&
         !o->params[node->params[0]]))
        LS_FAIL(LS_ERR_INTERNAL, "%s is to be computed again without what it was", node->name);
    LS_TRY(check_params(o, node));
exit:
    return status;
}

/* Everything that reads node `of` sends a part of its gradient back. */
static ls_status add_gradient(const evaluation *e, int of, approx_sum *out)
{
    ls_status status = LS_OK;
    for (size_t r = 0; r < e->graph->count; r++) {
        const ls_graph_node *reader = &e->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        const int slot = ls_graph_back_slot(reader, of);
        if (slot >= 0 && evaluators[reader->make].backward)
            LS_TRY(evaluators[reader->make].backward(e, reader, slot, out));
    }
exit:
    return status;
}

static ls_status add_param_gradient(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    for (size_t r = 0; r < e->graph->count; r++) {
        const ls_graph_node *reader = &e->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        const int slot = ls_graph_param_slot(reader, node->params[0]);
        if (slot >= 0 && (node->of < 0 || node->of == (int)r))
            LS_TRY(evaluators[reader->make].params(e, reader, slot, out));
    }
exit:
    return status;
}

/* One term is no sum: it has been rounded already. */
static approx end_of(const ls_precision *p, const approx_sum *sum)
{
    const approx a = {sum->value, sum->error, sum->variance};
    if (sum->count < 2) return approx_rounded(p, a, a.value != 0 ? 2 : 0);
    return approx_sum_end(p, sum);
}

/* A network's images in binary64; NULL for other models. */
static ls_status widen_images(const ls_operands *operands, double **ret_images)
{
    ls_status status = LS_OK;
    const ls_batch *batch = operands->batch;
    double *images = NULL;
    if (operands->graph->table->config.kind != LS_MODEL_NET || !batch || !batch->images) goto exit;
    LS_ROOM(images, batch->B * batch->pixels);
    for (size_t i = 0; i < batch->B * batch->pixels; i++) images[i] = (double)batch->images[i];
    *ret_images = images;
exit:
    return status;
}

/* Where the worst case is larger than any value, it says nothing: roundings of either sign do not
 * add up to more than some standard deviations. */
static double bound_of(const ls_precision *p, approx a)
{
    const double worst = approx_bound(a);
    return p->partials > 0 ? fmin(worst, LS_DEVIATIONS * sqrt(a.variance)) : worst;
}

ls_status ls_operation_evaluate(const ls_operands *operands, int place, ls_precision precision,
                                double *ret_values, double *ret_bound)
{
    return ls_operation_judge(operands, place, precision, ret_values, ret_bound, NULL);
}

ls_status ls_operation_judge(const ls_operands *operands, int place, ls_precision precision,
                             double *ret_values, double *ret_bound, double *ret_deviation)
{
    ls_status status = LS_OK;
    const ls_graph *graph = operands->graph;
    const ls_graph_node *node = &graph->nodes[place];
    const size_t n = ls_graph_elements(graph, place);
    const ls_variant none = {0};
    evaluation e = {.o = operands,
                    .graph = graph,
                    .config = &graph->table->config,
                    .batch = operands->batch,
                    .p = &precision,
                    .variant = operands->variant ? *operands->variant : none,
                    .B = graph->B,
                    .S = graph->S};
    approx_sum *sums = NULL;
    double *images = NULL;
    LS_TRY(check_operands(operands, node));
    precision.many = e.config->kind == LS_MODEL_NET;
    LS_TRY(widen_images(operands, &images));
    e.images = images;
    const bool update = node->phase == LS_GRAPH_UPDATE && node->make != LS_MAKE_RUNNING;
    if (!update) LS_NEW(sums, n);
    if (node->make == LS_MAKE_GRADIENT)
        LS_TRY(add_gradient(&e, node->of, sums));
    else if (node->make == LS_MAKE_PARAM_GRADIENT)
        LS_TRY(add_param_gradient(&e, node, sums));
    else if (!update)
        LS_TRY(evaluators[node->make].forward(&e, node, sums));
    for (size_t i = 0; i < n; i++) {
        const bool zero = sums && sums[i].count == 0; /* nothing was added: exactly that */
        const approx a = zero   ? approx_exact(0)
                         : sums ? end_of(&precision, &sums[i])
                                : ls_evaluate_update(&e, node, i);
        ret_values[i] = a.value;
        if (ret_bound) ret_bound[i] = bound_of(&precision, a);
        if (ret_deviation) ret_deviation[i] = sqrt(a.variance);
    }
exit:
    free(sums);
    free(images);
    return status;
}
