/* bounds_truth.h - what is kept of the runs behind a bound: the truth's values and, per tensor, how
 * far from them a right tensor may lie. bounds.c fills it. */
#ifndef LS_GOLDEN_BOUNDS_TRUTH_H
#define LS_GOLDEN_BOUNDS_TRUTH_H

#include "golden/bounds.h"

struct ls_truth {
    const ls_graph *graph;
    uint64_t first; /* step */
    size_t steps;
    double **values;              /* [step * nodes + node] */
    bool placed;                  /* values are in memory of the caller */
    double *bounds;               /* the same */
    double *spreads;              /* the same: root mean square */
    double **rows;                /* the same: of each run of rows */
    struct ls_truth *wide_params; /* of a narrow precision: parameters that are kept in binary32 */
};

/* One without values, whose bounds are unknown. Errors: LS_ERR_MEMORY. */
ls_status ls_truth_create(ls_truth **ret_truth, const ls_graph *graph, uint64_t first,
                          size_t steps) LS_MUST_USE;
void ls_truth_forget_values(ls_truth *truth);

#endif
