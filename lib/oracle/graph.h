/* graph.h - every tensor of a training step, what makes it, and what it is made of: the one list
 * that dumping, judging and naming mistakes read.
 *
 * The nodes stand in order of execution: forward, backward (gradients of what the forward pass
 * made, last first, each parameter's gradient where it is computed), update. A node is a whole
 * logical tensor over the global batch. Its operation and inputs say how to compute it again from
 * other nodes, from parameters and from the batch: that is what a local judgement does. */
#ifndef LS_ORACLE_GRAPH_H
#define LS_ORACLE_GRAPH_H

#include "lockstep/model/config.h"
#include "lockstep/model/param_table.h"
#include "lockstep/parallel/tap.h"

typedef enum ls_graph_phase {
    LS_GRAPH_FORWARD = 0,
    LS_GRAPH_BACKWARD,
    LS_GRAPH_UPDATE
} ls_graph_phase;

/* What makes a node. x is input 0, and so on; w, b parameters. */
typedef enum ls_operation_kind {
    LS_MAKE_EMBEDDING =
        0,           /* rows of w by tokens, + positions, + types, norm if the model has one */
    LS_MAKE_DROPOUT, /* mask of the node's purpose and layer, scaled                    */
    LS_MAKE_NORM,    /* LayerNorm or RMSNorm of x with scale w, shift b                 */
    LS_MAKE_LINEAR,  /* x w + b                                                         */
    LS_MAKE_LINEAR_TURNED, /* the same, then rotary                                           */
    LS_MAKE_PROBABILITIES, /* softmax(x0 x1^T scale + mask)                                   */
    LS_MAKE_HEADS,         /* dropout(softmax) x2, from q, k, v                               */
    LS_MAKE_RESIDUAL,      /* dropout(x0) + x1                                                */
    LS_MAKE_ACTIVATION,    /* GELU of x0, or silu(x0) x1                                      */
    LS_MAKE_LOGITS,        /* x w^T (+ b)                                                     */
    LS_MAKE_TOKEN_LOSS,    /* cross-entropy per token                                         */
    LS_MAKE_POOLED,
    LS_MAKE_ORDER_LOGITS,
    LS_MAKE_ORDER_LOSS,
    LS_MAKE_MEAN, /* the loss of the step                                            */
    /* backward: the gradient of an operation's input from that of its output and what it read */
    LS_MAKE_D_LOGITS,
    LS_MAKE_D_INPUT,
    LS_MAKE_D_SUM, /* D_SUM: what several readers send back, added */
    LS_MAKE_D_WEIGHT,
    LS_MAKE_D_BIAS,
    LS_MAKE_D_SCALE,
    LS_MAKE_D_SHIFT,
    LS_MAKE_D_ROWS,
    LS_MAKE_TIED_SUM,    /* both uses */
    LS_MAKE_NORM_OF_ALL, /* norm of the whole gradient */
    LS_MAKE_CLIPPED,
    LS_MAKE_UPDATED,
    LS_OPERATION_KINDS
} ls_operation_kind;

enum { LS_NODE_INPUTS = 8, LS_NODE_DIMS = 4 };

typedef struct ls_graph_node {
    char name[112]; /* "layers.0.query", "d.layers.0.query", "grad.layers.0.attention.query.weight"
                     */
    ls_graph_phase phase;
    ls_operation_kind make;
    int inputs[LS_NODE_INPUTS]; /* nodes; -1 from the last on */
    int differentiates; /* backward: the forward node whose operation is differentiated; -1 */
    int params[3];      /* places in the table: w, b, further; -1 */
    int layer;          /* -1 */
    ls_point point;     /* which tap point gives it (with gradient: backward); LS_POINTS: none */
    int n_dims;
    size_t dims[LS_NODE_DIMS];
    char dim_names[48]; /* "B S[sp] D", "D F[tp]": names with the axes of a layout that cut them */
} ls_graph_node;

typedef struct ls_graph {
    const ls_param_table *table;
    size_t B, S;
    size_t count;
    ls_graph_node *nodes;
} ls_graph;

ls_status ls_graph_create(ls_graph **ret_graph, const ls_param_table *table, size_t B,
                          size_t S) LS_MUST_USE;
void ls_graph_destroy(ls_graph **graph);

/* Place of a node by name / by what a tap shows; -1. */
int ls_graph_find(const ls_graph *graph, const char *name);
int ls_graph_find_view(const ls_graph *graph, const ls_view *view);

#endif
