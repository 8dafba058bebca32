/* operation_parts.h - what the files that evaluate operations share.
 *
 * Forward functions give the node's elements as terms of sums, one term each unless the operation
 * is itself a sum; backward functions add what one reader sends back. The caller ends the sums.
 */
#ifndef LS_STEP_GRAPH_OPERATION_PARTS_H
#define LS_STEP_GRAPH_OPERATION_PARTS_H

#include "step_graph/approx.h"

typedef struct evaluation {
    const ls_operands *o;
    const ls_graph *graph;
    const ls_config *config;
    const ls_batch *batch;
    const ls_precision *p;
    ls_variant variant;
    size_t B, S;
    const double *images; /* of a network: the batch's */
} evaluation;

static inline const double *value_of(const evaluation *e, int node)
{
    return node < 0 ? NULL : e->o->values[node];
}

/* What a layer of a network reads: its `from`, or with `beside` the other one of a sum. */
static inline const double *read_of(const evaluation *e, const ls_graph_node *node, bool beside)
{
    const ls_net_layer *layer = &e->config->net.layers[node->layer];
    if ((beside ? layer->beside : layer->from) < 0) return e->images;
    return value_of(e, node->inputs[beside && layer->from >= 0 ? 1 : 0]);
}

/* Of any model's node: what is first, and what is next to it. */
static inline const double *operand_of(const evaluation *e, const ls_graph_node *node, int i)
{
    if (e->config->kind == LS_MODEL_NET && node->layer >= 0)
        return i > 0 && node->make != LS_MAKE_RESIDUAL ? NULL : read_of(e, node, i > 0);
    return value_of(e, node->inputs[i]);
}

static inline const double *param_of(const evaluation *e, int param)
{
    return param < 0 ? NULL : e->o->params[param];
}

/* The gradient of what a reader made. */
static inline const double *gradient_of(const evaluation *e, const ls_graph_node *reader)
{
    return value_of(e, ls_graph_gradient(e->graph, (int)(reader - e->graph->nodes)));
}

static inline size_t elements_of(const evaluation *e, const ls_graph_node *node)
{
    return ls_graph_elements(e->graph, (int)(node - e->graph->nodes));
}

/* Where token s of a sequence is: its row of the position table, its angle. */
static inline size_t position_of(const evaluation *e, size_t s)
{
    const size_t restart = e->variant.position_restart, shares = e->variant.position_shares;
    if (shares) { /* the first S mod shares have one more */
        const size_t each = e->S / shares, longer = e->S % shares * (each + 1);
        s = s < longer ? s % (each + 1) : (s - longer) % each;
    }
    return (restart ? s % restart : s) + e->variant.position_offset;
}

/* The factor of element `index` under the node's dropout: 0, or 1 / (1 - p) with an error. */
approx ls_evaluate_mask(const evaluation *e, const ls_graph_node *node, size_t index);

/* Forward: into out[elements]. Backward: adds into out[elements of input `slot`] what `reader`
 * sends back. Parameters: adds into out[elements of the parameter] of slot `slot`. */
typedef ls_status ls_evaluate_forward(const evaluation *e, const ls_graph_node *node,
                                      approx_sum *out);
typedef ls_status ls_evaluate_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                       approx_sum *out);

ls_evaluate_forward ls_evaluate_linear, ls_evaluate_norm, ls_evaluate_attention,
    ls_evaluate_pointwise, ls_evaluate_embedding, ls_evaluate_loss, ls_evaluate_mean;
ls_evaluate_backward ls_evaluate_linear_backward, ls_evaluate_linear_params,
    ls_evaluate_norm_backward, ls_evaluate_norm_params, ls_evaluate_attention_backward,
    ls_evaluate_pointwise_backward, ls_evaluate_embedding_params, ls_evaluate_loss_backward;
/* operation_net*.c: layers of a convolutional network. */
ls_evaluate_forward ls_evaluate_conv, ls_evaluate_pool, ls_evaluate_global_pool,
    ls_evaluate_batch_norm, ls_evaluate_response_norm, ls_evaluate_relu;
ls_evaluate_backward ls_evaluate_conv_backward, ls_evaluate_conv_params, ls_evaluate_pool_backward,
    ls_evaluate_global_pool_backward, ls_evaluate_batch_norm_backward,
    ls_evaluate_batch_norm_params, ls_evaluate_response_norm_backward, ls_evaluate_relu_backward;
/* A running statistic after the step; the node's elements. */
ls_status ls_evaluate_running(const evaluation *e, const ls_graph_node *node,
                              approx_sum *out) LS_MUST_USE;

/* operation_update.c: element i of a node of the update. */
approx ls_evaluate_update(const evaluation *e, const ls_graph_node *node, size_t i);

#endif
