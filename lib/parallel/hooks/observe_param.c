/* observe_param.c - shows an observer a rank's shard of a parameter, or a number of the step. */
#include "parallel/hooks/observe_param.h"

#include "model/param_shard.h"

static ls_view view_of(ls_observed_param look, int param)
{
    return (ls_view){.kind = look.kind,
                     .param = param,
                     .use = look.use,
                     .point = LS_POINTS,
                     .layer = -1,
                     .step = look.step,
                     .comm = look.comm,
                     .lo = look.lo,
                     .hi = look.hi,
                     .leaves = look.leaves,
                     .rows = look.rows,
                     .columns = look.columns,
                     .dtype = look.dtype};
}

ls_status ls_observe_at_number(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                               const void *value)
{
    ls_view view = view_of(look, -1);
    view.values = value;
    view.stride = 1;
    return observer->look(observer->context, rank, &view);
}

ls_status ls_observe_at_numbers(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                                size_t count, const void *values)
{
    ls_view view = view_of(look, -1);
    view.n_dims = 1;
    view.dims[0] = (ls_view_run){count, 0, count};
    view.values = values;
    view.stride = count;
    return observer->look(observer->context, rank, &view);
}

ls_status ls_observe_at_step(ls_step_observer look, ls_group *group, ls_view_kind kind,
                             ls_dtype dtype, ls_node node, size_t leaves, size_t count,
                             const void *values)
{
    const ls_observed_param at = {.kind = kind,
                                  .use = -1,
                                  .step = look.step,
                                  .dtype = dtype,
                                  .comm = leaves > 0 ? LS_COMM_PARTIAL : LS_COMM_TOTAL,
                                  .lo = node.lo,
                                  .hi = node.hi,
                                  .leaves = leaves};
    if (!look.observer) return LS_OK;
    return ls_observe_at_numbers(look.observer, ls_group_owner(group), at, count, values);
}

ls_status ls_observe_at_param(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                              const ls_param_table *table, size_t param, ls_shard shard,
                              const void *values)
{
    const ls_param *p = &table->params[param];
    const ls_shard_window w = ls_param_window(p, shard);
    ls_view view = view_of(look, (int)param);
    view.name = p->name;
    view.layer = p->stage == LS_STAGE_LAYER ? (int)p->layer : -1;
    view.n_dims = p->n_dims;
    view.dims[0] = (ls_view_run){p->dims[0], w.first_row, w.real_rows};
    view.dims[1] = (ls_view_run){p->dims[1], w.first_col, w.real_cols};
    view.values = values;
    view.stride = p->n_dims == 1 ? w.rows : w.cols; /* a vector lies in one row */
    if (w.real_rows == 0 || w.real_cols == 0) return LS_OK;
    return observer->look(observer->context, rank, &view);
}
