/* graph_build.h - what the files that build a graph share. */
#ifndef LS_STEP_GRAPH_GRAPH_BUILD_H
#define LS_STEP_GRAPH_GRAPH_BUILD_H

#include "step_graph/graph.h"

/* Appends a node without inputs, parameters and dimensions; its place. The room was counted. */
int ls_graph_append(ls_graph *graph, ls_graph_phase phase, ls_operation_kind make,
                    const char *name);

/* graph_index.c: tables for the look-ups of graph.h. Adding makes a complete node found by name and
 * by what shows it. */
ls_status ls_graph_index_create(ls_graph *graph) LS_MUST_USE;
void ls_graph_index_add(ls_graph *graph, int node);
void ls_graph_index_destroy(ls_graph_index *index);

/* A name that was added twice; NULL. */
const char *ls_graph_index_twice(const ls_graph *graph);
/* The node of this kind that a parameter has: its whole gradient, the clipped one, after the step.
 */
int ls_graph_find_param(const ls_graph *graph, int param, ls_operation_kind make);

/* graph_forward.c: appends the forward pass. */
void ls_graph_forward(ls_graph *graph);

/* graph_net.c: that of a network; the most nodes that it has; the dimensions of a parameter's
 * nodes.
 */
void ls_graph_net_forward(ls_graph *graph);
size_t ls_graph_net_most(const ls_net *net);
void ls_graph_net_param(ls_graph_node *node, const ls_param *param);

#endif
