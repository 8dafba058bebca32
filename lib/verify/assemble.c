#include "verify/assemble.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/view_rows.h"
#include "base/allocate.h"
#include "base/size.h"

struct ls_assembly {
    ls_observer observer;
    pthread_mutex_t lock;
    size_t count, room;
    ls_assembled **tensors;
};

void ls_assembled_name(const ls_assembled *tensor, char name[LS_ASSEMBLED_NAME])
{
    char layer[32] = "";
    if (tensor->kind != LS_VIEW_POINT) {
        static const char *const kinds[] = {[LS_VIEW_USE_GRADIENT] = "gradient of one use of ",
                                            [LS_VIEW_PARAM_GRADIENT] = "gradient of ",
                                            [LS_VIEW_CLIPPED] = "clipped gradient of ",
                                            [LS_VIEW_PARAM] = "new value of ",
                                            [LS_VIEW_LOSS] = "loss",
                                            [LS_VIEW_NORM] = "norm of the gradient"};
        snprintf(name, LS_ASSEMBLED_NAME, "step %u, %s%s%s", (unsigned)tensor->step,
                 kinds[tensor->kind], tensor->of,
                 tensor->use < 0    ? ""
                 : tensor->use == 0 ? " (as input)"
                                    : " (as head)");
        return;
    }
    if (tensor->layer >= 0) snprintf(layer, sizeof layer, "layer %d, ", tensor->layer);
    snprintf(name, LS_ASSEMBLED_NAME, "step %u, %s%s%s", (unsigned)tensor->step, layer,
             tensor->gradient ? "gradient of " : "", ls_point_name(tensor->point));
}

/* ---- the tensors ---- */

static void tensor_destroy(ls_assembled *tensor)
{
    if (!tensor) return;
    free(tensor->values);
    free(tensor->owner);
    free(tensor);
}

static ls_status tensor_create(ls_assembled **ret_tensor, const ls_view *view)
{
    ls_status status = LS_OK;
    ls_assembled *tensor = NULL;

    LS_NEW(tensor, 1);
    tensor->kind = view->kind;
    tensor->param = view->param;
    tensor->use = view->use;
    if (view->name) snprintf(tensor->of, sizeof tensor->of, "%s", view->name);
    tensor->point = view->point;
    tensor->gradient = view->gradient;
    tensor->layer = view->layer;
    tensor->step = view->step;
    tensor->dtype = view->dtype;
    tensor->n_dims = view->n_dims;
    tensor->count = 1;
    for (int d = 0; d < view->n_dims; d++) {
        tensor->dims[d] = view->dims[d].whole;
        tensor->count *= view->dims[d].whole;
    }
    LS_BYTES(tensor->values, ls_size_product(tensor->count, ls_dtype_bytes(view->dtype)));
    LS_ROOM(tensor->owner, tensor->count);
    for (size_t i = 0; i < tensor->count; i++) tensor->owner[i] = -1;
    *ret_tensor = tensor;
    tensor = NULL;
exit:
    tensor_destroy(tensor);
    return status;
}

static bool is_of(const ls_assembled *t, const ls_view *view)
{
    if (t->kind != view->kind || t->step != view->step) return false;
    if (t->kind != LS_VIEW_POINT) return t->param == view->param && t->use == view->use;
    return t->point == view->point && t->gradient == view->gradient && t->layer == view->layer;
}

static ls_assembled *find(const ls_assembly *assembly, const ls_view *view)
{
    for (size_t i = assembly->count; i-- > 0;) /* what came last is asked for most */
        if (is_of(assembly->tensors[i], view)) return assembly->tensors[i];
    return NULL;
}

static ls_status find_or_make(ls_assembly *assembly, const ls_view *view, ls_assembled **ret_tensor)
{
    ls_status status = LS_OK;
    ls_assembled *tensor = find(assembly, view);

    if (!tensor) {
        LS_GROW(assembly->tensors, assembly->count, assembly->room);
        LS_TRY(tensor_create(&tensor, view));
        assembly->tensors[assembly->count++] = tensor;
    }
    *ret_tensor = tensor;
exit:
    return status;
}

/* ---- blocks ---- */

/* The block must lie inside the tensor. */
static ls_status check_block(const ls_assembled *tensor, const ls_view *view)
{
    ls_status status = LS_OK;
    char name[LS_ASSEMBLED_NAME];
    ls_assembled_name(tensor, name);
    if (view->n_dims != tensor->n_dims || view->dtype != tensor->dtype)
        LS_FAIL(LS_ERR_INTERNAL, "%s: shown with %d dimensions of %s, and with %d of %s", name,
                tensor->n_dims, ls_dtype_name(tensor->dtype), view->n_dims,
                ls_dtype_name(view->dtype));
    for (int d = 0; d < view->n_dims; d++) {
        const ls_view_run *run = &view->dims[d];
        if (run->whole != tensor->dims[d] || run->first > run->whole ||
            run->count > run->whole - run->first)
            LS_FAIL(LS_ERR_INTERNAL, "%s: %zu from %zu on of dimension %d, which is %zu (here %zu)",
                    name, run->count, run->first, d, tensor->dims[d], run->whole);
    }
exit:
    return status;
}

static double value_at(const ls_assembled *tensor, const void *values, size_t i)
{
    return tensor->dtype == LS_F64 ? ((const double *)values)[i]
                                   : (double)((const float *)values)[i];
}

/* One row of a block: elements from `place` on. */
static ls_status put_row(ls_assembled *tensor, int rank, size_t place, size_t count,
                         const void *values)
{
    ls_status status = LS_OK;
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    char *whole = (char *)tensor->values + place * bytes;
    char name[LS_ASSEMBLED_NAME];

    for (size_t i = 0; i < count; i++) {
        int32_t *owner = &tensor->owner[place + i];
        const char *value = (const char *)values + i * bytes;
        if (*owner < 0) {
            memcpy(whole + i * bytes, value, bytes);
            *owner = rank;
        } else if (*owner == rank) {
            ls_assembled_name(tensor, name);
            LS_FAIL(LS_ERR_INTERNAL, "%s, element %zu: rank %d shows it a second time", name,
                    place + i, rank);
        } else if (memcmp(whole + i * bytes, value, bytes) != 0) {
            ls_assembled_name(tensor, name);
            LS_FAIL(LS_DIFFERENT, "%s, element %zu: %a on rank %d, %a on rank %d", name, place + i,
                    value_at(tensor, tensor->values, place + i), (int)*owner,
                    value_at(tensor, values, i), rank);
        }
    }
exit:
    return status;
}

static ls_status put_block(ls_assembled *tensor, int rank, const ls_view *view)
{
    ls_status status = LS_OK;
    const size_t rows = ls_view_rows(view), count = ls_view_row_run(view).count;

    LS_TRY(check_block(tensor, view));
    for (size_t r = 0; r < rows; r++)
        LS_TRY(put_row(tensor, rank, ls_view_row_place(view, r), count, ls_view_row(view, r)));
exit:
    return status;
}

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    ls_status status = LS_OK;
    ls_assembly *assembly = context;
    ls_assembled *tensor = NULL;

    if (view->comm != LS_COMM_NONE) return LS_OK;
    pthread_mutex_lock(&assembly->lock);
    LS_TRY(find_or_make(assembly, view, &tensor));
    LS_TRY(put_block(tensor, ls_rank_index(rank), view));
exit:
    pthread_mutex_unlock(&assembly->lock);
    return status;
}

/* ---- the whole ---- */

ls_status ls_assembly_create(ls_assembly **ret_assembly)
{
    ls_status status = LS_OK;
    ls_assembly *assembly = NULL;

    LS_NEW(assembly, 1);
    if (pthread_mutex_init(&assembly->lock, NULL) != 0) {
        free(assembly);
        LS_FAIL(LS_ERR_MEMORY, "no lock to put tensors together");
    }
    assembly->observer = (ls_observer){assembly, look};
    *ret_assembly = assembly;
exit:
    return status;
}

void ls_assembly_destroy(ls_assembly **assembly)
{
    if (!assembly || !*assembly) return;
    for (size_t i = 0; i < (*assembly)->count; i++) tensor_destroy((*assembly)->tensors[i]);
    free((*assembly)->tensors);
    pthread_mutex_destroy(&(*assembly)->lock);
    free(*assembly);
    *assembly = NULL;
}

const ls_observer *ls_assembly_observer(const ls_assembly *assembly)
{
    return &assembly->observer;
}

ls_status ls_assembly_check(const ls_assembly *assembly)
{
    ls_status status = LS_OK;
    for (size_t t = 0; t < assembly->count; t++) {
        const ls_assembled *tensor = assembly->tensors[t];
        char name[LS_ASSEMBLED_NAME];
        for (size_t i = 0; i < tensor->count; i++) {
            if (tensor->owner[i] >= 0) continue;
            ls_assembled_name(tensor, name);
            LS_FAIL(LS_ERR_INTERNAL, "%s, element %zu of %zu: no rank shows it", name, i,
                    tensor->count);
        }
    }
exit:
    return status;
}

size_t ls_assembly_count(const ls_assembly *assembly)
{
    return assembly->count;
}

const ls_assembled *ls_assembly_get(const ls_assembly *assembly, size_t i)
{
    return assembly->tensors[i];
}

const ls_assembled *ls_assembly_find(const ls_assembly *assembly, ls_point point, bool gradient,
                                     int layer, uint32_t step)
{
    const ls_view view = {.point = point, .gradient = gradient, .layer = layer, .step = step};
    return find(assembly, &view);
}

const ls_assembled *ls_assembly_find_other(const ls_assembly *assembly, ls_view_kind kind,
                                           int param, int use, uint32_t step)
{
    const ls_view view = {.kind = kind, .param = param, .use = use, .step = step};
    return find(assembly, &view);
}
