#include "train/checkpoint_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "train/checkpoint_metadata.h"
#include "base/allocate.h"

const char *const ls_checkpoint_prefixes[LS_CHECKPOINT_ARRAYS] = {"", "optimizer.m.",
                                                                  "optimizer.v."};

bool ls_checkpoint_holds(const ls_foreign_map *map, size_t tensor, int array)
{
    return array == 0 || !map->table->params[map->tensors[tensor].parts[0].param].state;
}

/* ---- whose file ---- */

/* Which array a tensor of ours is, by the beginning of its name, and the name of the parameter. */
static int array_of(const char *name, const char **ret_param)
{
    for (int array = 1; array < LS_CHECKPOINT_ARRAYS; array++) {
        size_t length = strlen(ls_checkpoint_prefixes[array]);
        if (strncmp(name, ls_checkpoint_prefixes[array], length) != 0) continue;
        *ret_param = name + length;
        return array;
    }
    *ret_param = name;
    return 0;
}

static const char *name_at(const void *context, size_t i)
{
    return ls_tensor_set_at(context, i, NULL)->name;
}

/* One name of ours is enough: what others know in such a file is a stray. */
static ls_names whose(const ls_tensor_set *set, const ls_param_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (ls_tensor_set_find(set, table->params[i].name)) return LS_NAMES_OWN;
    return ls_names_recognise(name_at, set, ls_tensor_set_count(set));
}

/* ---- its tensors ---- */

static ls_status check_dtype(const ls_tensor_info *info, const char *file, ls_dtype dtype)
{
    ls_status status = LS_OK;
    if (!ls_widens(info->dtype, dtype))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s is %s; a %s run takes %sF32, F16 or BF16",
                ls_show(file), ls_show(info->name), ls_dtype_name(info->dtype),
                ls_dtype_name(dtype), dtype == LS_F64 ? "F64, " : "");
exit:
    return status;
}

/* Finds the place of one tensor of the file. */
static ls_status take_tensor(ls_checkpoint_file *file, size_t i, ls_dtype dtype)
{
    ls_status status = LS_OK;
    const char *path, *name;
    const ls_tensor_info *info = ls_tensor_set_at(file->set, i, &path);
    const ls_foreign_tensor *tensor;
    int array = 0;
    name = info->name;
    if (file->map->names == LS_NAMES_OWN) array = array_of(info->name, &name);
    if (array > 0) file->arrays = LS_CHECKPOINT_ARRAYS;
    LS_TRY(ls_foreign_match(file->map, path, name, &tensor));
    if (!tensor) goto exit;
    LS_TRY(ls_foreign_check_shape(tensor, path, info->name, info->n_dims, info->dims));
    LS_TRY(check_dtype(info, path, dtype));
    const size_t place = (size_t)(tensor - file->map->tensors);
    if (!ls_checkpoint_holds(file->map, place, array))
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: %s is not trained and has no optimizer state",
                ls_show(path), ls_show(info->name), tensor->name);
    const ls_tensor_info **found = &file->found[array][place];
    if (*found)
        LS_FAIL(LS_ERR_INPUT, "%s: tensors %s and %s are the same one of the model's",
                ls_show(path), ls_show((*found)->name), ls_show(info->name));
    *found = info;
exit:
    return status;
}

/* An alias takes the place of a tensor that is not there, and must agree with one that is. */
static ls_status join_twin(ls_checkpoint_file *file, size_t twin, const char *path)
{
    ls_status status = LS_OK;
    const ls_foreign_tensor *tensor = &file->map->tensors[twin];
    const ls_tensor_info *info = file->found[0][twin];
    size_t place = file->map->places[tensor->parts[0].param].tensor;
    const ls_tensor_info **main = &file->found[0][place];
    size_t rows = tensor->least_rows;
    if (!info) goto exit;
    if (!*main) {
        *main = info;
        goto exit;
    }
    if (info->dtype != (*main)->dtype ||
        memcmp(info->data, (*main)->data, rows * tensor->dims[1] * ls_dtype_bytes(info->dtype)) !=
            0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s is not the same as %s, which it is tied to in this model%s",
                ls_show(path), ls_show(info->name), ls_show((*main)->name),
                file->map->table->params[tensor->parts[0].param].uses > 1
                    ? "; one with \"tied\": false keeps both"
                    : "");
exit:
    return status;
}

static ls_status take_all(ls_checkpoint_file *file, const char *path, ls_dtype dtype)
{
    ls_status status = LS_OK;
    const ls_foreign_map *map = file->map;
    for (size_t i = 0; i < ls_tensor_set_count(file->set); i++) LS_TRY(take_tensor(file, i, dtype));
    for (size_t t = 0; t < map->count; t++)
        if (map->tensors[t].twin) LS_TRY(join_twin(file, t, path));
    for (int array = 0; array < file->arrays; array++)
        for (size_t t = 0; t < map->count; t++)
            if (!map->tensors[t].twin && ls_checkpoint_holds(map, t, array) &&
                !file->found[array][t])
                LS_FAIL(LS_ERR_INPUT, "%s: has no tensor %s%s, which the model needs",
                        ls_show(path), ls_checkpoint_prefixes[array], map->tensors[t].name);
exit:
    return status;
}

/* ---- the whole ---- */

ls_status ls_checkpoint_open(ls_checkpoint_file *ret_file, const ls_run *run,
                             const ls_param_table *table)
{
    ls_status status = LS_OK;
    const char *path = run->load;
    ls_checkpoint_file file = {.arrays = 1};

    LS_TRY(ls_tensor_set_open_most(
        &file.set, path, LS_CHECKPOINT_OTHERS * LS_CHECKPOINT_ARRAYS * (table->count + 1)));
    LS_TRY(ls_checkpoint_same_contract(file.set, path));
    /* The model first: it tells more than a tensor's name. */
    LS_TRY(ls_checkpoint_same_model(file.set, path, &table->config));
    LS_TRY(ls_foreign_map_create(&file.map, table, whose(file.set, table), path));
    for (int array = 0; array < LS_CHECKPOINT_ARRAYS; array++) {
        LS_NEW(file.found[array], file.map->count);
    }
    LS_TRY(take_all(&file, path, run->dtype));
    /* With any optimizer state a run goes on, and needs all of it; bare weights begin one. */
    if (file.arrays > 1) {
        LS_TRY(ls_checkpoint_same_optimizer(file.set, path, run->optimizer));
        LS_TRY(ls_checkpoint_number(file.set, path, "step", &file.step));
    }
    if (file.step > run->steps)
        LS_FAIL(LS_ERR_INPUT,
                "--steps %" PRIu64 ": %s stands at step %" PRIu64 "; ask for that or more",
                run->steps, ls_show(path), file.step);
    *ret_file = file;
    memset(&file, 0, sizeof file);
exit:
    ls_checkpoint_close(&file);
    return status;
}

void ls_checkpoint_close(ls_checkpoint_file *file)
{
    for (int array = 0; array < LS_CHECKPOINT_ARRAYS; array++) free(file->found[array]);
    ls_foreign_map_destroy(&file->map);
    ls_tensor_set_close(&file->set);
    memset(file, 0, sizeof *file);
}

const ls_tensor_info *ls_checkpoint_find(const ls_checkpoint_file *file, size_t param, int array)
{
    return file->found[array][file->map->places[param].tensor];
}
