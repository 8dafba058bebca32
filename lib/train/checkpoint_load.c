#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/io/safetensors.h"
#include "train/checkpoint.h"
#include "train/checkpoint_metadata.h"

enum { NAME_MAX_BYTES = 128 };

/* The tensor `name`, checked against the parameter it is to fill. */
static ls_status find(const ls_safetensors *file, const char *path, const char *name,
                      const ls_param *param, const ls_tensor_info **ret_info)
{
    ls_status status = LS_OK;
    const ls_tensor_info *info = ls_safetensors_find(file, name);
    if (!info)
        LS_FAIL(LS_ERR_INPUT, "%s: has no tensor %s, which the model needs", ls_show(path), name);
    if (info->n_dims != param->n_dims || info->dims[0] != param->dims[0] ||
        (param->n_dims == 2 && info->dims[1] != param->dims[1])) {
        char found[160] = "", wanted[64];
        size_t used = 0;
        for (int d = 0; d < info->n_dims && used < sizeof found - 24; d++)
            used += (size_t)snprintf(found + used, sizeof found - used, "%s%" PRIu64,
                                     d ? " x " : "", info->dims[d]);
        if (param->n_dims == 2)
            snprintf(wanted, sizeof wanted, "%zu x %zu", param->dims[0], param->dims[1]);
        else
            snprintf(wanted, sizeof wanted, "%zu", param->dims[0]);
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has shape %s; the model's is %s", ls_show(path), name,
                info->n_dims ? found : "()", wanted);
    }
    if (info->dtype != LS_F32 && info->dtype != LS_REAL_DTYPE)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; a %s run takes %s", ls_show(path), name,
                ls_dtype_name(info->dtype), ls_dtype_name(LS_REAL_DTYPE),
                LS_REAL_DTYPE == LS_F64 ? "F64 or F32" : "F32");
    *ret_info = info;
exit:
    return status;
}

/* The tensor's shard, widened where the run is wider than the file. */
static ls_status take(const ls_tensor_info *info, const ls_param *param, ls_shard shard,
                      ls_real *own)
{
    ls_status status = LS_OK;
    float *narrow = NULL;
    size_t rows, cols;
    if (info->dtype == LS_REAL_DTYPE) {
        ls_param_shard_in(param, shard, sizeof *own, own, info->data);
        return status;
    }
    ls_param_shard_shape(param, shard, &rows, &cols);
    narrow = malloc((rows * cols + 1) * sizeof *narrow);
    if (!narrow) LS_FAIL(LS_ERR_MEMORY, "no memory to read tensor %s", ls_show(info->name));
    ls_param_shard_in(param, shard, sizeof *narrow, narrow, info->data);
    for (size_t i = 0; i < rows * cols; i++) own[i] = (ls_real)narrow[i];
exit:
    free(narrow);
    return status;
}

/* Every tensor of the file must be one that the model knows: a stray one is a file of something
 * else. */
static ls_status refuse_strangers(const ls_safetensors *file, const char *path,
                                  const ls_param_table *table)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        const char *param = name;
        if (strncmp(name, "optimizer.m.", 12) == 0 || strncmp(name, "optimizer.v.", 12) == 0)
            param = name + 12;
        if (ls_param_find_name(table, param) == (size_t)-1)
            LS_FAIL(LS_ERR_INPUT, "%s: has a tensor %s that the model does not know", ls_show(path),
                    ls_show(name));
    }
exit:
    return status;
}

/* With any optimizer state a run goes on, and needs all of it; bare weights begin one. */
static bool has_optimizer_state(const ls_safetensors *file)
{
    for (size_t i = 0; i < ls_safetensors_count(file); i++)
        if (strncmp(ls_safetensors_at(file, i)->name, "optimizer.", 10) == 0) return true;
    return false;
}

/* The tensor of a parameter, 0, or of its optimizer state, 1 and 2. */
static ls_status find_array(const ls_safetensors *file, const char *path, const ls_param *param,
                            int which, const ls_tensor_info **ret_info)
{
    static const char *const prefixes[] = {"", "optimizer.m.", "optimizer.v."};
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s%s", prefixes[which], param->name);
    return find(file, path, name, param, ret_info);
}

/* A checkpoint that everything is right with. */
typedef struct opened {
    ls_safetensors *file;
    int arrays; /* per parameter: its value, and when the run goes on, two of the optimizer */
    uint64_t step;
} opened;

static ls_status open_checked(const ls_run *run, const ls_param_table *table, opened *ret_opened)
{
    ls_status status = LS_OK;
    const char *path = run->load;
    const ls_tensor_info *info;
    opened o = {NULL, 1, 0};

    LS_TRY(ls_safetensors_open(&o.file, path));
    LS_TRY(ls_checkpoint_same_contract(o.file, path));
    /* The model first: it tells more than a tensor's name. */
    LS_TRY(ls_checkpoint_same_model(o.file, path, &table->config));
    LS_TRY(refuse_strangers(o.file, path, table));
    if (has_optimizer_state(o.file)) {
        LS_TRY(ls_checkpoint_same_optimizer(o.file, path, run->optimizer));
        LS_TRY(ls_checkpoint_number(o.file, path, "step", &o.step));
        o.arrays = 3;
    }
    if (o.step > run->steps)
        LS_FAIL(LS_ERR_INPUT,
                "--steps %" PRIu64 ": %s stands at step %" PRIu64 "; ask for that or more",
                run->steps, ls_show(path), o.step);
    for (size_t i = 0; i < table->count; i++)
        for (int which = 0; which < o.arrays; which++)
            LS_TRY(find_array(o.file, path, &table->params[i], which, &info));
    *ret_opened = o;
    o.file = NULL;
exit:
    ls_safetensors_close(&o.file);
    return status;
}

static ls_status load(const ls_run *run, ls_store *store, uint64_t *ret_step)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    opened o = {NULL, 0, 0};

    LS_TRY(open_checked(run, table, &o));
    for (size_t i = 0; i < table->count; i++) {
        ls_slot *slot = &store->slots[i];
        ls_real *const arrays[] = {slot->value, slot->m, slot->v};
        for (int which = 0; slot->value && which < o.arrays; which++) {
            const ls_tensor_info *info;
            LS_TRY(find_array(o.file, run->load, &table->params[i], which, &info));
            LS_TRY(take(info, &table->params[i], slot->shard, arrays[which]));
        }
    }
    *ret_step = o.step;
exit:
    ls_safetensors_close(&o.file);
    return status;
}

ls_status ls_checkpoint_check(const ls_run *run, const ls_param_table *table)
{
    ls_status status = LS_OK;
    opened o = {NULL, 0, 0};
    if (run->load) LS_TRY(open_checked(run, table, &o));
exit:
    ls_safetensors_close(&o.file);
    return status;
}

ls_status ls_checkpoint_begin(const ls_run *run, ls_store *store, uint64_t *ret_step)
{
    if (run->load) return load(run, store, ret_step);
    ls_store_init(store, run->seed);
    *ret_step = 0;
    return LS_OK;
}
