/* graph.h - every tensor of a training step, what makes it, and what it is made of: the one list
 * that dumping, judging and naming mistakes read.
 *
 * The nodes are in order of execution: forward, backward (gradients of what the forward pass
 * made, last first, each parameter's gradient where it is computed), update. A node is a whole
 * logical tensor over the global batch. Its operation and inputs say how to compute it again from
 * other nodes, from parameters and from the batch: that is what a local judgement does. */
#ifndef LS_STEP_GRAPH_GRAPH_H
#define LS_STEP_GRAPH_GRAPH_H

#include "lockstep/model/config.h"
#include "lockstep/model/param_table.h"
#include "lockstep/model/step_tensors.h"
#include "step_graph/operation_kind.h"

typedef enum ls_graph_phase {
    LS_GRAPH_FORWARD = 0,
    LS_GRAPH_BACKWARD,
    LS_GRAPH_UPDATE
} ls_graph_phase;

/* The slot of what is no input, see `through`; heads have three inputs. */
enum { LS_SLOT_THROUGH = 3 };
enum { LS_NODE_INPUTS = 32, LS_NODE_PARAMS = 3, LS_NODE_DIMS = 4 };

typedef struct ls_graph_node {
    /* "layers.0.query", "d.layers.0.query", "grad.layers.0.attention.query.weight" */
    char name[128];
    ls_graph_phase phase;
    ls_operation_kind make;
    /* Nodes, all before this one; -1 after the last. A gradient's are the gradients of its readers
     * and what these read. LS_MAKE_GRADIENT_NORM has none here: it reads every parameter's. */
    int inputs[LS_NODE_INPUTS];
    int of; /* gradient: the forward node; gradient of one use of a parameter: its reader; else -1
             */
    int through; /* HEADS: the probabilities, which it makes again in passing and has a gradient
                    for; no input; else -1 */
    int params[LS_NODE_PARAMS]; /* places in the table: w, b, further; -1 */
    int purpose;                /* ls_purpose of the dropout; -1: none */
    int layer;                  /* -1 */
    bool crowded;               /* more inputs than there is room for: the graph is refused */
    ls_point point; /* which observer point gives it (with gradient: backward); LS_POINTS: none */
    int n_dims;     /* 0: one number */
    size_t dims[LS_NODE_DIMS]; /* logical, without padding */
    char dim_names[48]; /* "B S[sp] D", "N[dp] C[channel] H[down] W[across]": names with the axes of
                           a layout that cut them */
} ls_graph_node;

typedef struct ls_graph_index ls_graph_index;

typedef struct ls_graph {
    const ls_param_table *table;
    size_t B, S; /* of a network: images, and 1 */
    size_t count, room;
    ls_graph_node *nodes;
    ls_graph_index *index; /* for graph_index.c */
} ls_graph;

/* The graph of a step of B sequences of S tokens; of B images, S not being read. table must outlive
 * it. Errors: LS_ERR_MEMORY; LS_ERR_INPUT: a network whose layers have names that other tensors of
 * a step have, or an output that too many layers read. */
ls_status ls_graph_create(ls_graph **ret_graph, const ls_param_table *table, size_t B,
                          size_t S) LS_MUST_USE;
void ls_graph_destroy(ls_graph **graph);

/* Place of a node by name / by what an observer shows (never a partial sum); -1. No search: a
 * table. */
int ls_graph_find(const ls_graph *graph, const char *name);
int ls_graph_find_view(const ls_graph *graph, const ls_view *view);

/* What an observer shows of a parameter has the table's dimensions, rows and columns; the node
 * those of the field, as a convolution's weight [made, read / groups, kernel_h, kernel_w]: the view
 * as a block of the node. Other views as they are. */
ls_view ls_graph_shape_view(const ls_graph *graph, const ls_view *view);

/* The gradient of a forward node / of a whole parameter (none of a state); -1. */
int ls_graph_gradient(const ls_graph *graph, int node);
int ls_graph_param_gradient(const ls_graph *graph, int param);

/* Whether a node is zero on paper, so that what a program has there is rounding noise:
 * graph_paper.c. Of the optimizer's results: a step made of that. */
bool ls_graph_zero_on_paper(const ls_graph *graph, int node);

/* Logical elements of a node. */
size_t ls_graph_elements(const ls_graph *graph, int node);

/* The rate of a node's dropout. */
double ls_graph_dropout(const ls_graph *graph, const ls_graph_node *node);

/* The node of a parameter after the step; -1. */
int ls_graph_updated(const ls_graph *graph, int param);

/* Which input / parameter of `reader` a node / parameter is; -1. */
int ls_graph_slot(const ls_graph_node *reader, int node);
/* The same of what a reader sends a gradient back to: next to its inputs what it goes through. */
int ls_graph_back_slot(const ls_graph_node *reader, int node);
int ls_graph_param_slot(const ls_graph_node *reader, int param);

#endif
