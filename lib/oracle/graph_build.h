/* graph_build.h - what the two files that build a graph share. */
#ifndef LS_ORACLE_GRAPH_BUILD_H
#define LS_ORACLE_GRAPH_BUILD_H

#include "oracle/graph.h"

/* Appends a node without inputs, parameters and dimensions; its place. The room was counted. */
int ls_graph_append(ls_graph *graph, ls_graph_phase phase, ls_operation_kind make,
                    const char *name);

/* graph_forward.c: appends the forward pass. */
void ls_graph_forward(ls_graph *graph);

#endif
