/* bounds.h - the truth of a run in binary64, and how far from it a right computation in a coarser
 * precision may lie.
 *
 * The truth is the run on one rank in binary64 with plain products. The distance is found by doing
 * it again, several times, with every weight moved by a unit in the precision's last place, up or
 * down at random (every run another): the farthest that a tensor then moves, times a margin, and a
 * few roundings of its largest value are its bound. Of a parameter the steps are compared, what the
 * run added to the weights that it began with. It follows the conditioning of the computation,
 * and is measured, not derived; what a single operation may do is operation.h.
 *
 * The largest distance of any element is a bound that one heavy tail makes useless: in a narrow
 * format AdamW turns some steps round, and every element of the parameter is allowed that much. So
 * the root mean squares of the distances are kept besides, over the tensor and over runs of its
 * rows. They are sums of many, hardly change from run to run, and need a smaller margin. A right
 * tensor lies within all three. Where even they allow a tensor to be 1.1 times itself, the bound
 * says nothing, and check says so.
 *
 * In binary32 and binary64 the moved runs are in that precision, so that they have its rounding
 * errors too: what is zero on paper is nothing else. Runs for F16 and BF16, in which the library
 * does not compute, are moved in binary64, and get that noise from one more run in binary32. The
 * unit roundoffs are 2^-24, 2^-53, 2^-11 (F16) and 2^-8 (BF16); a unit in the last place is two. */
#ifndef LS_GOLDEN_BOUNDS_H
#define LS_GOLDEN_BOUNDS_H

#include "golden/golden.h"

typedef struct ls_truth ls_truth;

/* dtype: the precision of who is judged; when it is F16 or BF16 the weights are rounded to it
 * before anything else, in the truth too. take: who gets the truth, tensor by tensor in order of
 * steps and nodes, when all runs are done (may be NULL). place: where a tensor's truth is to stand,
 * room that lives as long as the truth does (a mapped file); NULL: memory of the truth's own. */
typedef struct ls_truth_options {
    ls_dtype dtype;
    int probes; /* moved runs; 0: the default, 4 */
    bool keep;  /* keep the truth's values: ls_truth_values */
    void *context;
    ls_status (*take)(void *context, uint64_t step, int node, const double *values, size_t count);
    void (*advance)(void *context, uint64_t done, uint64_t of, const char *what);
    double *(*place)(void *context, uint64_t step, int node);
} ls_truth_options;

/* Runs once with plain products (without OpenBLAS with the contract's, in binary64) and `probes`
 * times moved (F16 and BF16: once more). run: what was run; layout, engine, dtype, observer, save
 * and trace are not read. Memory: without `place` the truth's tensors of all steps in binary64
 * while it runs, afterwards when `keep` is set. advance is told of steps, over all runs. Errors:
 * the runs'.
 */
ls_status ls_truth_find(ls_truth **ret_truth, const ls_run *run, const ls_graph *graph,
                        const ls_truth_options *options) LS_MUST_USE;
void ls_truth_destroy(ls_truth **truth);

/* Parameters that a program keeps in binary32 while it computes in F16 or BF16, for the functions
 * below: the weights as they were given plus the steps of the truth, and what steps may differ by,
 * without the narrow format's rounding of the parameter itself. NULL: the precision is not narrow.
 */
const ls_truth *ls_truth_wide_params(const ls_truth *truth);

/* Largest absolute distance from the truth that is expected of any element, to two digits;
 * infinity: unknown (a moved run diverged, or the run has no such step). */
double ls_truth_bound(const ls_truth *truth, uint64_t step, int node);
/* Largest root mean square of a right tensor's distances; infinity: unknown, or zero on paper. */
double ls_truth_spread(const ls_truth *truth, uint64_t step, int node);
/* The same of each run of its rows (bounds_moved.h: ls_bounds_run); NULL: unknown. */
const double *ls_truth_rows(const ls_truth *truth, uint64_t step, int node);
/* The truth; NULL when it was not kept. */
const double *ls_truth_values(const ls_truth *truth, uint64_t step, int node);

#endif
