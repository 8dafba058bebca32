/* observe.c - builds the view of a tensor (layer, sequences, tokens, columns) for the observer. */
#include "lockstep/parallel/hooks/observer.h"

#include "lockstep/parallel/layout/own_tokens.h"
#include "parallel/hooks/observe.h"

ls_status ls_observe_show(const ls_tensor_parallel *tp, ls_view view, int n,
                          const ls_view_run *dims, const void *values, size_t stride)
{
    const ls_observation *observation = tp->observation;
    if (observation->again && view.comm == LS_COMM_NONE) return LS_OK;
    if (view.kind == LS_VIEW_POINT) view.param = -1;
    view.use = -1;
    view.layer = observation->layer;
    view.step = observation->batch->step;
    view.dtype = observation->dtype;
    view.values = values;
    view.n_dims = n + 1;
    if (view.dims[0].whole == 0)
        view.dims[0] =
            (ls_view_run){observation->sequences, observation->batch->first, observation->batch->B};
    for (int i = 0; i < n; i++) view.dims[1 + i] = dims[i];
    view.stride = stride ? stride : view.dims[n].count;
    return observation->observer->look(observation->observer->context, ls_group_owner(tp->group),
                                       &view);
}

ls_status ls_observe_at_cut(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                            const ls_cut *cut, const void *values)
{
    int member = ls_group_rank(tp->group);
    ls_view_run run = {ls_axis_extent(cut->whole), cut->bounds[member] * cut->whole.granule,
                       ls_axis_extent(ls_cut_held(cut, member))};
    return ls_observe_run(tp, point, gradient, run, values);
}

ls_status ls_observe_at_own(const ls_tensor_parallel *tp, ls_point point, bool gradient,
                            size_t width, const void *values)
{
    size_t S = tp->observation->batch->S;
    ls_share own = ls_own_share(tp, S);
    const ls_view_run dims[] = {{S, own.first, own.count}, ls_whole_run(width)};
    return ls_observe_dims(tp, point, gradient, 2, dims, values);
}

ls_status ls_observe_at_head(const ls_tensor_parallel *tp, ls_point point, bool gradient, size_t b,
                             size_t heads, size_t head, const void *values)
{
    const ls_observation *observation = tp->observation;
    size_t S = observation->batch->S;
    const ls_view_run dims[] = {{heads, head, 1}, ls_whole_run(S), ls_whole_run(S)};
    ls_view view = {.point = point, .gradient = gradient};
    view.dims[0] = (ls_view_run){observation->sequences, observation->batch->first + b, 1};
    return ls_observe_show(tp, view, 3, dims, values, 0);
}

ls_status ls_observe_per_token(const ls_tensor_parallel *tp, ls_view view, const void *values)
{
    if (!tp->observation) return LS_OK;
    const ls_view_run tokens = ls_whole_run(tp->observation->batch->S);
    return ls_observe_show(tp, view, 1, &tokens, values, 0);
}

/* ---- what was named ---- */

static ls_view next_view(const ls_observation *observation, ls_comm_kind comm)
{
    return (ls_view){
        .point = observation->next, .gradient = observation->next_gradient, .comm = comm};
}

static ls_status show_next(const ls_tensor_parallel *tp, ls_comm_kind comm, ls_view_run tokens,
                           size_t width, const void *values)
{
    ls_observation *observation = tp->observation;
    const ls_view_run dims[] = {tokens, ls_whole_run(width)};
    const ls_view view = next_view(observation, comm);
    if (observation->next == LS_POINTS) return LS_OK;
    /* What comes out is the end of it. */
    if (comm != LS_COMM_SHARE) observation->next = LS_POINTS;
    return ls_observe_show(tp, view, 2, dims, values, 0);
}

ls_status ls_observe_at_own_crossing(const ls_tensor_parallel *tp, ls_comm_kind comm, size_t width,
                                     const void *values)
{
    const size_t S = tp->observation->batch->S;
    const ls_share own = ls_own_share(tp, S);
    return show_next(tp, comm, (ls_view_run){S, own.first, own.count}, width, values);
}

ls_status ls_observe_at_all_crossing(const ls_tensor_parallel *tp, ls_comm_kind comm, size_t width,
                                     const void *values)
{
    return show_next(tp, comm, ls_whole_run(tp->observation->batch->S), width, values);
}

ls_status ls_observe_at_partials(const ls_tensor_parallel *tp, size_t leaves, const ls_node *nodes,
                                 size_t n_nodes, size_t width, const void *partials)
{
    ls_status status = LS_OK;
    const ls_observation *observation = tp->observation;
    const ls_batch *batch = observation->batch;
    const ls_view_run dims[] = {ls_whole_run(batch->S), ls_whole_run(width)};
    ls_view view = next_view(observation, LS_COMM_PARTIAL);
    size_t bytes = batch->B * batch->S * width * ls_dtype_bytes(observation->dtype);

    if (observation->next == LS_POINTS) return LS_OK;
    view.leaves = leaves;
    for (size_t j = 0; j < n_nodes; j++) {
        view.lo = nodes[j].lo;
        view.hi = nodes[j].hi;
        LS_TRY(ls_observe_show(tp, view, 2, dims, (const char *)partials + j * bytes, 0));
    }
exit:
    return status;
}
