/* graph_build.h - what the files that build a graph share. */
#ifndef LS_ORACLE_GRAPH_BUILD_H
#define LS_ORACLE_GRAPH_BUILD_H

#include "oracle/graph.h"

/* Appends a node without inputs, parameters and dimensions; its place. The room was counted. */
int ls_graph_append(ls_graph *graph, ls_graph_phase phase, ls_operation_kind make,
                    const char *name);

/* graph_index.c: tables for the look-ups of graph.h. Adding makes a complete node found by name and
 * by what shows it. */
ls_status ls_graph_index_create(ls_graph *graph) LS_MUST_USE;
void ls_graph_index_add(ls_graph *graph, int node);
void ls_graph_index_destroy(ls_graph_index *index);

/* graph_forward.c: appends the forward pass. */
void ls_graph_forward(ls_graph *graph);

#endif
