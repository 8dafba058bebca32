#include "parallel/look_at_param.h"

#include "model/param_shard.h"

ls_status ls_look_at_number(const ls_tap *tap, ls_rank *rank, ls_param_look look, const void *value)
{
    const ls_view view = {.kind = look.kind,
                          .param = -1,
                          .use = -1,
                          .point = LS_POINTS,
                          .layer = -1,
                          .step = look.step,
                          .dtype = look.dtype,
                          .values = value,
                          .stride = 1};
    return tap->look(tap->context, rank, &view);
}

ls_status ls_look_at_param(const ls_tap *tap, ls_rank *rank, ls_param_look look,
                           const ls_param_table *table, size_t param, ls_shard shard,
                           const void *values)
{
    const ls_param *p = &table->params[param];
    const ls_shard_window w = ls_param_window(p, shard);
    const ls_view view = {
        .kind = look.kind,
        .param = (int)param,
        .use = look.use,
        .name = p->name,
        .point = LS_POINTS,
        .layer = p->stage == LS_STAGE_LAYER ? (int)p->layer : -1,
        .step = look.step,
        .n_dims = p->n_dims,
        .dims = {{p->dims[0], w.first_row, w.real_rows}, {p->dims[1], w.first_col, w.real_cols}},
        .dtype = look.dtype,
        .values = values,
        /* A vector lies in one row. */
        .stride = p->n_dims == 1 ? w.rows : w.cols};
    if (w.real_rows == 0 || w.real_cols == 0) return LS_OK;
    return tap->look(tap->context, rank, &view);
}
