/* cause_sum.h - a node as a sum of addends, those that are sums over ranks in parts by granule. */
#ifndef LS_CAUSES_CAUSE_SUM_H
#define LS_CAUSES_CAUSE_SUM_H

#include "causes/families.h"
#include "step_graph/tensor_name.h"

enum { LS_ADDENDS = 8 };

/* An addend of the node: several parts when it is a sum over granules, else one. */
typedef struct ls_addend {
    char name[LS_TENSOR_NAME];
    size_t first, count; /* of the parts */
    size_t granules;     /* of the axis; parts that are padding only are none */
    bool is_bias;
} ls_addend;

typedef struct ls_sum {
    ls_parts parts;
    int groups;
    ls_addend group[LS_ADDENDS];
} ls_sum;

/* The addends of the search's node; none of a node that is no such sum. */
void ls_sum_take(ls_sum *sum, const ls_search *search);

#endif
