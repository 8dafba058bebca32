#include "golden/dump_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "golden/golden_files.h"

/* ---- boxes ---- */

static size_t volume(const dump_tensor *t, const dump_box *b)
{
    size_t n = 1;
    for (int i = 0; i < t->node->n_dims; i++) n *= b->hi[i] - b->lo[i];
    return n;
}

/* False when they do not meet. */
static bool intersect(const dump_tensor *t, const dump_box *a, const dump_box *b,
                      dump_box *ret_both)
{
    for (int i = 0; i < t->node->n_dims; i++) {
        ret_both->lo[i] = a->lo[i] > b->lo[i] ? a->lo[i] : b->lo[i];
        ret_both->hi[i] = a->hi[i] < b->hi[i] ? a->hi[i] : b->hi[i];
        if (ret_both->lo[i] >= ret_both->hi[i]) return false;
    }
    return true;
}

/* Rows of a box: runs of the last dimension. */
static size_t rows_of(const dump_tensor *t, const dump_box *b, size_t *ret_length)
{
    const int n = t->node->n_dims;
    size_t rows = 1;
    for (int i = 0; i + 1 < n; i++) rows *= b->hi[i] - b->lo[i];
    *ret_length = n > 0 ? b->hi[n - 1] - b->lo[n - 1] : 1;
    return rows;
}

/* Where row `row` of a box begins: in the tensor, and in the view whose box is `outer`, as numbers
 * of elements. */
static void row_places(const dump_tensor *t, const dump_box *b, size_t row, const dump_box *outer,
                       size_t stride, size_t *ret_whole, size_t *ret_view)
{
    const int n = t->node->n_dims;
    size_t whole = 0, view = 0, whole_step = 1, view_step = 1;
    if (n > 0) {
        whole = b->lo[n - 1];
        view = b->lo[n - 1] - (outer ? outer->lo[n - 1] : 0);
        whole_step = t->node->dims[n - 1];
        view_step = stride;
    }
    for (int i = n - 1; i-- > 0;) {
        const size_t extent = b->hi[i] - b->lo[i], at = b->lo[i] + row % extent;
        row /= extent;
        whole += at * whole_step;
        whole_step *= t->node->dims[i];
        if (!outer) continue;
        view += (at - outer->lo[i]) * view_step;
        view_step *= outer->hi[i] - outer->lo[i];
    }
    *ret_whole = whole;
    *ret_view = view;
}

/* ---- what ranks show ---- */

static double number_at(ls_dtype dtype, const char *values, size_t i)
{
    return dtype == LS_F64 ? ((const double *)(const void *)values)[i]
                           : (double)((const float *)(const void *)values)[i];
}

/* Elements that another rank showed before must be the same; any NaN is any other's equal. */
static ls_status compare_row(const dump_blocks *blocks, size_t whole, const char *own,
                             size_t length, int rank, int other)
{
    ls_status status = LS_OK;
    const dump_tensor *t = blocks->of;
    const size_t bytes = ls_dtype_bytes(t->dtype);
    const char *there = blocks->place + whole * bytes;
    char name[LS_TENSOR_NAME], index[LS_GOLDEN_PLACE];
    if (memcmp(there, own, length * bytes) == 0) goto exit;
    for (size_t i = 0; i < length; i++) {
        if (memcmp(there + i * bytes, own + i * bytes, bytes) == 0) continue;
        const double a = number_at(t->dtype, there, i), b = number_at(t->dtype, own, i);
        if (isnan(a) && isnan(b)) continue;
        ls_tensor_name_write(name, t->step, -1, t->node->name);
        LS_FAIL(LS_DIFFERENT, "%s%s: %a on rank %d, %a on rank %d, which should hold the same",
                name, ls_golden_place(t->node, whole + i, index), a, other, b, rank);
    }
exit:
    return status;
}

static ls_status compare_box(const dump_blocks *blocks, const dump_box *both, const dump_box *outer,
                             const ls_view *view, int rank, int other)
{
    ls_status status = LS_OK;
    size_t length, whole, own;
    const dump_tensor *t = blocks->of;
    const size_t rows = rows_of(t, both, &length), bytes = ls_dtype_bytes(t->dtype);
    for (size_t r = 0; r < rows; r++) {
        row_places(t, both, r, outer, view->stride, &whole, &own);
        LS_TRY(compare_row(blocks, whole, (const char *)view->values + own * bytes, length, rank,
                           other));
    }
exit:
    return status;
}

static void copy_box(const dump_blocks *blocks, const dump_box *outer, const ls_view *view)
{
    size_t length, whole, own;
    const dump_tensor *t = blocks->of;
    const size_t rows = rows_of(t, outer, &length), bytes = ls_dtype_bytes(t->dtype);
    for (size_t r = 0; r < rows; r++) {
        row_places(t, outer, r, outer, view->stride, &whole, &own);
        memcpy(blocks->place + whole * bytes, (const char *)view->values + own * bytes,
               length * bytes);
    }
}

static ls_status remember(dump_blocks *blocks, int rank, const dump_box *at)
{
    ls_status status = LS_OK;
    LS_GROW(blocks->list, blocks->count, blocks->room);
    blocks->list[blocks->count++] = (dump_block){rank, *at};
exit:
    return status;
}

/* The view must be a block of the tensor. */
static ls_status box_of(const dump_tensor *t, const ls_view *view, dump_box *ret_box)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    ls_tensor_name_write(name, t->step, -1, t->node->name);
    if (view->n_dims != t->node->n_dims || view->dtype != t->dtype)
        LS_FAIL(LS_ERR_INTERNAL, "%s: shown with %d dimensions of %s; it has %d of %s", name,
                view->n_dims, ls_dtype_name(view->dtype), t->node->n_dims, ls_dtype_name(t->dtype));
    for (int i = 0; i < view->n_dims; i++) {
        const ls_view_run *run = &view->dims[i];
        if (run->whole != t->node->dims[i] || run->first > run->whole ||
            run->count > run->whole - run->first)
            LS_FAIL(LS_ERR_INTERNAL, "%s: %zu from %zu on of dimension %d, which is %zu (here %zu)",
                    name, run->count, run->first, i, t->node->dims[i], run->whole);
        ret_box->lo[i] = run->first;
        ret_box->hi[i] = run->first + run->count;
    }
exit:
    return status;
}

ls_status ls_dump_blocks_put(dump_blocks *blocks, int rank, const ls_view *view)
{
    ls_status status = LS_OK;
    const dump_tensor *t = blocks->of;
    dump_box at = {{0}, {0}};
    char name[LS_TENSOR_NAME];
    size_t met = 0; /* elements of this block in earlier ones, several times if in several */
    bool all_there = false;
    LS_TRY(box_of(t, view, &at));
    if (volume(t, &at) == 0) goto exit;
    for (size_t i = 0; i < blocks->count; i++) {
        const dump_block *before = &blocks->list[i];
        dump_box both;
        if (!intersect(t, &before->at, &at, &both)) continue;
        if (before->rank == rank) {
            ls_tensor_name_write(name, t->step, -1, t->node->name);
            LS_FAIL(LS_ERR_INTERNAL, "%s: rank %d shows an element a second time", name, rank);
        }
        LS_TRY(compare_box(blocks, &both, &at, view, rank, before->rank));
        met += volume(t, &both);
        all_there |= volume(t, &both) == volume(t, &at);
    }
    if (!all_there) {
        copy_box(blocks, &at, view);
        blocks->ragged |= met > 0;
        blocks->covered += volume(t, &at);
    }
    LS_TRY(remember(blocks, rank, &at));
exit:
    return status;
}

/* ---- the whole ---- */

/* Where blocks overlap in part: element by element. */
static ls_status count_covered(dump_blocks *blocks)
{
    ls_status status = LS_OK;
    const dump_tensor *t = blocks->of;
    unsigned char *seen = NULL;
    LS_NEW(seen, t->count);
    for (size_t i = 0; i < blocks->count; i++) {
        size_t length, whole, own;
        const dump_box *at = &blocks->list[i].at;
        const size_t rows = rows_of(t, at, &length);
        for (size_t r = 0; r < rows; r++) {
            row_places(t, at, r, NULL, 0, &whole, &own);
            memset(seen + whole, 1, length);
        }
    }
    blocks->covered = 0;
    for (size_t i = 0; i < t->count; i++) blocks->covered += seen[i];
    blocks->ragged = false;
exit:
    free(seen);
    return status;
}

ls_status ls_dump_blocks_covered(dump_blocks *blocks, size_t *ret_elements)
{
    ls_status status = LS_OK;
    if (blocks->ragged) LS_TRY(count_covered(blocks));
    *ret_elements = blocks->covered;
exit:
    return status;
}

void ls_dump_blocks_free(dump_blocks *blocks)
{
    free(blocks->list);
    blocks->list = NULL;
    blocks->count = blocks->room = 0;
}
