/* view_rows.h - where the rows of a view (observer.h) lie in the logical tensor. */
#ifndef LS_MODEL_VIEW_ROWS_H
#define LS_MODEL_VIEW_ROWS_H

#include "lockstep/model/step_tensors.h"

/* The run of the last dimension that every row has; a number: one element. */
static inline ls_view_run ls_view_row_run(const ls_view *view)
{
    return view->n_dims > 0 ? view->dims[view->n_dims - 1] : (ls_view_run){1, 0, 1};
}

static inline size_t ls_view_rows(const ls_view *view)
{
    size_t rows = 1;
    for (int d = 0; d < view->n_dims - 1; d++) rows *= view->dims[d].count;
    return rows;
}

/* The place in the logical tensor of the first element of row r of the block. */
static inline size_t ls_view_row_place(const ls_view *view, size_t r)
{
    const ls_view_run last = ls_view_row_run(view);
    size_t row = 0, step = 1;
    for (int d = view->n_dims - 1; d-- > 0;) {
        row += (view->dims[d].first + r % view->dims[d].count) * step;
        r /= view->dims[d].count;
        step *= view->dims[d].whole;
    }
    return row * last.whole + last.first;
}

/* Where row r of the block lies. */
static inline const void *ls_view_row(const ls_view *view, size_t r)
{
    return (const char *)view->values + r * view->stride * ls_dtype_bytes(view->dtype);
}

#endif
