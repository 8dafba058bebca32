/* operation.h - one operation of a step computed again in binary64, with a bound for what another
 * computation of the same may differ by.
 *
 * Everything is plain loops and the C library's functions: nothing here is shared with the kernels
 * that are judged, but the random numbers, whose values are part of the contract. */
#ifndef LS_STEP_GRAPH_OPERATION_H
#define LS_STEP_GRAPH_OPERATION_H

#include "lockstep/kernels/optimizer.h"
#include "lockstep/model/batch.h"
#include "step_graph/graph.h"
#include "step_graph/variant.h"

/* How the candidate computes. */
typedef struct ls_precision {
    double u;    /* unit roundoff of what an operation gives */
    double sum;  /* ... of the sums inside it, not above u   */
    double tiny; /* lost where a result is too small         */
    double
        partials; /* where sum < u: roundings to u of a sum's operands and while its parts meet */
    bool many;    /* sums have so many terms that their roundings cancel in part: see approx.h */
} ls_precision;

/* The part of `partials` that the operands' rounding takes. */
enum { LS_OPERAND_ROUNDINGS = 4 };

/* F32: 2^-24; F64: 2^-52, for both sides; BF16: 2^-8; F16: 2^-11. In the last two sums are taken to
 * run in binary32, as matrix units do, and to meet from up to `parts` ranks in the precision
 * itself; operands may be a rounding away from what was computed with. */
ls_precision ls_precision_of(ls_dtype dtype, size_t parts);

/* What an operation may read. Entries that it does not read may be NULL. */
typedef struct ls_operands {
    const ls_graph *graph;
    const ls_batch *batch;        /* the whole one: first is 0 */
    const double *const *values;  /* per node: its logical elements, row-major     */
    const double *const *params;  /* per parameter of the table, before the update */
    const double *const *moment1; /* per parameter, before the update; NULL: all 0 */
    const double *const *moment2; /* the same; not read by SGD                     */
    const ls_update *update;      /* of the step; update phase only               */
    double max_norm;              /* 0: no clipping                                */
    const double *roundoff;    /* per node: unit roundoff of its values as they were written, read
                                  for what the norm adds; NULL: the precision's */
    const ls_variant *variant; /* NULL: as it is right                          */
} ls_operands;

/* The values of `node`, ls_graph_elements of them, in binary64, and unless ret_bound is NULL how
 * far each computed in `precision` from the same operands may lie from them; infinity where nothing
 * can be said. In a narrow format that is the worst case or LS_DEVIATIONS standard deviations,
 * whichever is less. Errors: LS_ERR_INTERNAL (an operand that is read is NULL), LS_ERR_MEMORY. */
enum { LS_DEVIATIONS = 8 };
ls_status ls_operation_evaluate(const ls_operands *operands, int node, ls_precision precision,
                                double *ret_values, double *ret_bound) LS_MUST_USE;

/* The same with the standard deviation of each as approx.h estimates it, from above: over many
 * elements the root mean square of a right computation's distances is at most that of these. */
ls_status ls_operation_judge(const ls_operands *operands, int node, ls_precision precision,
                             double *ret_values, double *ret_bound,
                             double *ret_deviation) LS_MUST_USE;

/* What the optimizer keeps after node (LS_MAKE_UPDATED): ret_moment1, ret_moment2 (NULL with SGD),
 * from the same operands, in binary64. */
ls_status ls_operation_moments(const ls_operands *operands, int node, double *ret_moment1,
                               double *ret_moment2) LS_MUST_USE;

#endif
