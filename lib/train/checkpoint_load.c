#include <stdlib.h>

#include "lockstep/base/show.h"
#include "lockstep/base/widen.h"
#include "train/checkpoint.h"
#include "train/checkpoint_file.h"
#include "base/allocate.h"

/* A parameter's shard, widened where the run is wider than the file. */
static ls_status take(const ls_foreign_map *map, size_t param, const ls_tensor_info *info,
                      ls_shard shard, ls_real *own)
{
    ls_status status = LS_OK;
    const size_t bytes = ls_dtype_bytes(info->dtype);
    void *narrow = NULL;
    size_t rows, cols;
    if (info->dtype == LS_REAL_DTYPE) {
        ls_foreign_shard_in(map, param, shard, bytes, own, info->data);
        return status;
    }
    ls_param_shard_shape(&map->table->params[param], shard, &rows, &cols);
    LS_BYTES(narrow, rows * cols * bytes);
    ls_foreign_shard_in(map, param, shard, bytes, narrow, info->data);
    ls_widen(LS_REAL_DTYPE, own, info->dtype, narrow, rows * cols);
exit:
    free(narrow);
    return status;
}

static ls_status load(const ls_run *run, ls_store *store, uint64_t *ret_step)
{
    ls_status status = LS_OK;
    ls_checkpoint_file file = {0};

    LS_TRY(ls_checkpoint_open(&file, run, store->table));
    if (run->serial) LS_TRY(ls_checkpoint_check_values(&file, run->load)); /* else _check did */
    for (size_t i = 0; i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        ls_real *const arrays[LS_CHECKPOINT_ARRAYS] = {slot->value, slot->m, slot->v};
        for (int array = 0; slot->value && array < file.arrays; array++)
            if (arrays[array]) /* a state has no moments */
                LS_TRY(take(file.map, i, ls_checkpoint_find(&file, i, array), slot->shard,
                            arrays[array]));
    }
    *ret_step = file.step;
exit:
    ls_checkpoint_close(&file);
    return status;
}

/* One array of one parameter's shard. */
static ls_status begin_array(const ls_param *param, ls_shard shard, const double *whole,
                             ls_real *own)
{
    ls_status status = LS_OK;
    const size_t n = ls_param_elements(param);
    ls_real *rounded = NULL;
    LS_ROOM(rounded, n + 1);
    for (size_t i = 0; i < n; i++) rounded[i] = (ls_real)whole[i];
    ls_param_shard_in(param, shard, sizeof *rounded, own, rounded);
exit:
    free(rounded);
    return status;
}

static ls_status begin_from(const ls_initial *initial, ls_store *store, uint64_t *ret_step)
{
    ls_status status = LS_OK;
    const double *const *const arrays[] = {initial->values, initial->moment1, initial->moment2};
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        ls_real *const own[] = {slot->value, slot->m, slot->v};
        for (int array = 0; slot->value && array < 3; array++)
            if (arrays[array] && own[array]) /* moments are zero to begin with; a state has none */
                LS_TRY(begin_array(&store->table->params[i], slot->shard, arrays[array][i],
                                   own[array]));
    }
    *ret_step = initial->step;
exit:
    return status;
}

ls_status ls_checkpoint_check(const ls_run *run, const ls_param_table *table)
{
    ls_status status = LS_OK;
    ls_checkpoint_file file = {0};
    if (!run->load || run->initial) return LS_OK;
    LS_TRY(ls_checkpoint_open(&file, run, table));
    LS_TRY(ls_checkpoint_check_values(&file, run->load));
exit:
    ls_checkpoint_close(&file);
    return status;
}

ls_status ls_checkpoint_begin(const ls_run *run, ls_store *store, uint64_t *ret_step)
{
    if (run->initial) return begin_from(run->initial, store, ret_step);
    if (run->load) return load(run, store, ret_step);
    ls_store_init(store, run->seed);
    *ret_step = 0;
    return LS_OK;
}
