/* observe.h - how an operation shows what it made to an observer (observer.h): one line each,
 * in the code that it is in.
 *
 * Without an observer tp->observation is NULL and a call is one comparison. What a recomputed
 * forward pass makes has been seen before; of it only what crosses ranks is shown. */
#ifndef LS_PARALLEL_HOOKS_OBSERVE_H
#define LS_PARALLEL_HOOKS_OBSERVE_H

#include "lockstep/model/batch.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/hooks/observer.h"
#include "lockstep/parallel/layout/tensor_parallel.h"

/* A look under way: what views need that operations do not know. */
typedef struct ls_observation {
    const ls_observer *observer;
    ls_dtype dtype;
    const ls_batch *batch; /* the micro-batch                                              */
    size_t sequences;      /* of the global batch                                          */
    int layer;             /* number in the whole model; -1: none                          */
    ls_point next;         /* what crosses ranks next; LS_POINTS: nothing that is shown    */
    bool next_gradient;
    bool again; /* a forward pass is computed again */
} ls_observation;

static inline ls_view_run ls_whole_run(size_t count)
{
    return (ls_view_run){count, 0, count};
}

/* What is shown from here on belongs to this layer. */
static inline void ls_observe_in_layer(const ls_tensor_parallel *tp, int layer)
{
    if (tp->observation) tp->observation->layer = layer;
}

/* Names what crosses ranks next: the sum that the next ls_reduced_product makes, or the tensor that
 * the next ls_gather_tokens gathers. */
static inline void ls_observe_next(const ls_tensor_parallel *tp, ls_point point, bool gradient)
{
    if (!tp->observation) return;
    tp->observation->next = point;
    tp->observation->next_gradient = gradient;
}

/* What the calls below end in. dims: n, after the sequences of the micro-batch; stride: from row
 * to row, 0: as long as the row. */
ls_status ls_observe_show(const ls_tensor_parallel *tp, ls_view view, int n,
                          const ls_view_run *dims, const void *values, size_t stride) LS_MUST_USE;

/* values: [sequences of the micro-batch] x dims. */
static inline ls_status ls_observe_dims(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                        int n, const ls_view_run *dims, const void *values)
{
    if (!tp->observation) return LS_OK;
    return ls_observe_show(tp, (ls_view){.point = point, .gradient = gradient}, n, dims, values, 0);
}

/* values: all tokens x `run` of the last dimension, `stride` elements from token to token. */
static inline ls_status ls_observe_rows(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                        ls_view_run run, const void *values, size_t stride)
{
    if (!tp->observation) return LS_OK;
    const ls_view_run dims[] = {ls_whole_run(tp->observation->batch->S), run};
    return ls_observe_show(tp, (ls_view){.point = point, .gradient = gradient}, 2, dims, values,
                           stride);
}

static inline ls_status ls_observe_run(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                       ls_view_run run, const void *values)
{
    return ls_observe_rows(tp, point, gradient, run, values, 0);
}

/* values: all tokens x the part of `cut` that this member has. */
ls_status ls_observe_at_cut(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                            const ls_cut *cut, const void *values) LS_MUST_USE;

static inline ls_status ls_observe_cut(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                       const ls_cut *cut, const void *values)
{
    return tp->observation ? ls_observe_at_cut(tp, point, gradient, cut, values) : LS_OK;
}

/* values: own tokens x width, all columns: the form of tensors outside the blocks. */
ls_status ls_observe_at_own(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                            size_t width, const void *values) LS_MUST_USE;

static inline ls_status ls_observe_own(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                       size_t width, const void *values)
{
    return tp->observation ? ls_observe_at_own(tp, point, gradient, width, values) : LS_OK;
}

/* values: S x S of one head of the micro-batch's sequence b. */
ls_status ls_observe_at_head(const ls_tensor_parallel *tp, ls_point point, bool gradient, size_t b,
                             size_t heads, size_t head, const void *values) LS_MUST_USE;

static inline ls_status ls_observe_head(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                                        size_t b, size_t heads, size_t head, const void *values)
{
    return tp->observation ? ls_observe_at_head(tp, point, gradient, b, heads, head, values)
                           : LS_OK;
}

/* values cross ranks: `view` says what and how. Dimensions as for ls_observe_dims, values with
 * `stride` from row to row (0: as long as the row). */
static inline ls_status ls_observe_crossing(const ls_tensor_parallel *tp, ls_view view, int n,
                                            const ls_view_run *dims, const void *values,
                                            size_t stride)
{
    return tp->observation ? ls_observe_show(tp, view, n, dims, values, stride) : LS_OK;
}

/* The same for a value per token, all tokens. */
ls_status ls_observe_per_token(const ls_tensor_parallel *tp, ls_view view,
                               const void *values) LS_MUST_USE;

/* What ls_observe_next named, own tokens or all x width; the second of two is the last that is
 * shown under the name. Nothing when none was named. */
ls_status ls_observe_at_own_crossing(const ls_tensor_parallel *tp, ls_comm_kind comm, size_t width,
                                     const void *values) LS_MUST_USE;
ls_status ls_observe_at_all_crossing(const ls_tensor_parallel *tp, ls_comm_kind comm, size_t width,
                                     const void *values) LS_MUST_USE;

/* partials: for each node of a tree of `leaves` granules all tokens x width: what goes into the sum
 * that was named last; nothing when none was. What comes out is ls_observe_total's. */
ls_status ls_observe_at_partials(const ls_tensor_parallel *tp, size_t leaves, const ls_node *nodes,
                                 size_t n_nodes, size_t width, const void *partials) LS_MUST_USE;

static inline ls_status ls_observe_partials(const ls_tensor_parallel *tp, size_t leaves,
                                            const ls_node *nodes, size_t n_nodes, size_t width,
                                            const void *partials)
{
    return tp->observation ? ls_observe_at_partials(tp, leaves, nodes, n_nodes, width, partials)
                           : LS_OK;
}

/* Own tokens x width. */
static inline ls_status ls_observe_total(const ls_tensor_parallel *tp, size_t width,
                                         const void *total)
{
    return tp->observation ? ls_observe_at_own_crossing(tp, LS_COMM_TOTAL, width, total) : LS_OK;
}

#endif
