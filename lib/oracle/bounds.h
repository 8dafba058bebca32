/* bounds.h - the truth of a run in binary64, and how far from it a right computation in a coarser
 * precision may lie.
 *
 * The truth is the run on one rank in binary64 with plain products. The distance is found by doing
 * it again, several times, with every weight rounded to the precision and moved by a random
 * relative amount of its unit roundoff (every run another): what a tensor then moves by, times a
 * margin, is its bound. It follows the conditioning of the computation, and is measured, not
 * derived; what a single operation may do is operation.h. */
#ifndef LS_ORACLE_BOUNDS_H
#define LS_ORACLE_BOUNDS_H

#include "oracle/golden.h"

typedef struct ls_truth ls_truth;

/* Runs once plainly and `probes` times moved. run: what was run, `load` and `given` set; layout,
 * engine and dtype are not read. dtype: the precision of who is judged; its weights are rounded to
 * it before anything else, in the truth too, when it is F16 or BF16. store: who takes the truth
 * values, tensor by tensor (may be NULL: only bounds are kept). Memory: two numbers per element of
 * a step's tensors while it runs; the truths when keep is set. Errors: the runs'. */
typedef struct ls_truth_options {
    ls_dtype dtype;
    int probes; /* 0: the default */
    bool keep;  /* keep the truth's values: ls_truth_values */
    void *context;
    ls_status (*take)(void *context, uint64_t step, int node, const double *values, size_t count);
    void (*advance)(void *context, uint64_t done, uint64_t of, const char *what);
} ls_truth_options;
ls_status ls_truth_find(ls_truth **ret_truth, const ls_run *run, const ls_graph *graph,
                        const ls_truth_options *options) LS_MUST_USE;
void ls_truth_destroy(ls_truth **truth);

/* Largest absolute distance from the truth that is expected of any element; infinity: unknown. */
double ls_truth_bound(const ls_truth *truth, uint64_t step, int node);
/* The truth; NULL when it was not kept. */
const double *ls_truth_values(const ls_truth *truth, uint64_t step, int node);

#endif
