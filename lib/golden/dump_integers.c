/* dump_integers.c - a golden directory of linear operations on small integers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden/dump_parts.h"
#include "golden/integers.h"
#include "base/allocate.h"

/* What is written, as binary32. */
typedef struct listing {
    ls_integers integers;
    float **values;       /* per node */
    dump_tensor *tensors; /* in order of execution */
    size_t count;
} listing;

static const char *const file_names[] = {"inputs.safetensors", "forward.safetensors",
                                         "backward.safetensors"};

/* Exactly: they are small. */
static ls_status narrow(float **ret_values, const double *values, size_t n)
{
    ls_status status = LS_OK;
    float *narrowed = NULL;
    LS_ROOM(narrowed, n + 1);
    for (size_t i = 0; i < n; i++) narrowed[i] = (float)values[i];
    *ret_values = narrowed;
exit:
    return status;
}

static ls_status list(const dump *d, listing *l)
{
    ls_status status = LS_OK;
    LS_NEW(l->values, d->graph->count + 1);
    LS_NEW(l->tensors, d->graph->count + 1);
    for (size_t i = 0; i < d->graph->count; i++) {
        const size_t n = ls_graph_elements(d->graph, (int)i);
        if (l->integers.roles[i] == LS_INTEGERS_ABSENT) continue;
        LS_TRY(narrow(&l->values[i], l->integers.values[i], n));
        l->tensors[l->count++] = (dump_tensor){.node = &d->graph->nodes[i],
                                               .step = d->first_step,
                                               .count = n,
                                               .dtype = LS_F32,
                                               .given = l->integers.roles[i] == LS_INTEGERS_GIVEN,
                                               .values = l->values[i],
                                               .truth_error = (double)INFINITY,
                                               .bound = (double)INFINITY,
                                               .bound_rms = (double)INFINITY};
    }
exit:
    return status;
}

/* The tensors that are in the file of this name. */
static ls_status write_tensors(dump *d, const listing *l, const char *name)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    const char *path;
    char tensor[LS_TENSOR_NAME];
    LS_TRY(ls_dump_path(d, name, &path));
    LS_TRY(ls_safetensors_create(&writer, path));
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < l->count; i++) {
            const dump_tensor *t = &l->tensors[i];
            uint64_t dims[LS_NODE_DIMS];
            if (strcmp(ls_dump_file_of(t), name) != 0) continue;
            for (int k = 0; k < t->node->n_dims; k++) dims[k] = t->node->dims[k];
            ls_tensor_name_write(tensor, t->step, -1, t->node->name);
            if (pass == 0)
                LS_TRY(ls_safetensors_declare(writer, tensor, t->dtype, t->node->n_dims, dims));
            else
                LS_TRY(ls_safetensors_write(writer, t->values, t->count * sizeof(float)));
        }
    LS_TRY(ls_safetensors_commit(writer));
    LS_TRY(ls_dump_note(d, name, path, strcmp(name, file_names[0]) == 0));
exit:
    ls_safetensors_destroy(&writer);
    return status;
}

/* Of the operations that are computed by themselves: no training uses these. */
static ls_status write_params(dump *d, const listing *l)
{
    ls_status status = LS_OK;
    ls_safetensors_writer *writer = NULL;
    float *values = NULL;
    const char *path;
    LS_TRY(ls_dump_path(d, "weights.safetensors", &path));
    LS_TRY(ls_safetensors_create(&writer, path));
    for (int pass = 0; pass < 2; pass++)
        for (size_t p = 0; p < d->table->count; p++) {
            const ls_param *param = &d->table->params[p];
            const size_t n = ls_param_elements(param);
            const uint64_t dims[2] = {param->dims[0], param->dims[1]};
            if (!l->integers.params[p]) continue;
            if (pass == 0) {
                LS_TRY(ls_safetensors_declare(writer, param->name, LS_F32, param->n_dims, dims));
                continue;
            }
            free(values);
            values = NULL;
            LS_TRY(narrow(&values, l->integers.params[p], n));
            LS_TRY(ls_safetensors_write(writer, values, n * sizeof *values));
        }
    LS_TRY(ls_safetensors_commit(writer));
    LS_TRY(ls_dump_note(d, "weights.safetensors", path, true));
exit:
    free(values);
    ls_safetensors_destroy(&writer);
    return status;
}

static void release(dump *d, listing *l)
{
    for (size_t i = 0; l->values && i < d->graph->count; i++) free(l->values[i]);
    free(l->values);
    free(l->tensors);
    ls_integers_free(&l->integers);
    d->list = NULL;
    d->n_list = 0;
}

ls_status ls_dump_write_integers(dump *d)
{
    ls_status status = LS_OK;
    listing l = {.count = 0};
    char *digest = d->summary.digest;
    LS_TRY(ls_dump_make_batches(d));
    LS_TRY(ls_dump_write_batches(d));
    LS_TRY(ls_dump_advance(d, 0, 2, "integers"));
    LS_TRY(ls_integers_create(&l.integers, d->graph, &d->given[0], d->run.seed));
    LS_TRY(ls_dump_advance(d, 1, 2, "integers"));
    LS_TRY(list(d, &l));
    d->list = l.tensors;
    d->n_list = l.count;
    LS_TRY(write_params(d, &l));
    for (size_t f = 0; f < sizeof file_names / sizeof file_names[0]; f++)
        LS_TRY(write_tensors(d, &l, file_names[f]));
    LS_TRY(ls_dump_tensors_digest(d, digest));
    LS_TRY(ls_dump_write_manifest(d, digest));
    LS_TRY(ls_dump_write_order(d, digest));
    d->summary.tensors = l.count;
    LS_TRY(ls_dump_advance(d, 2, 2, "integers"));
exit:
    release(d, &l);
    return status;
}
