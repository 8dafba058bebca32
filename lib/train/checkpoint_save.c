#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/io/safetensors.h"
#include "lockstep/numerics/digest.h"
#include "train/checkpoint.h"
#include "train/checkpoint_metadata.h"
#include "train/gather.h"

/* A parameter's arrays in the order of the file: value, then the optimizer's two. */
static const char *const prefixes[] = {"", "optimizer.m.", "optimizer.v."};
enum { ARRAYS = 3 };

static const ls_real *array_of(const ls_slot *slot, int which)
{
    return which == 0 ? slot->value : which == 1 ? slot->m : slot->v;
}

/* Metadata and the list of tensors. */
static ls_status declare(const ls_run *run, const ls_store *store, uint64_t step,
                         ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    char *model = NULL, text[4096];

    LS_TRY(ls_safetensors_add_metadata(writer, "format", LS_CHECKPOINT_FORMAT));
    LS_TRY(ls_config_to_json(&table->config, &model));
    LS_TRY(ls_safetensors_add_metadata(writer, "model", model));
    /* For people: any layout reads what any other wrote. */
    if (run->serial)
        snprintf(text, sizeof text, "serial");
    else
        ls_layout_describe(&run->layout, text, sizeof text);
    LS_TRY(ls_safetensors_add_metadata(writer, "layout", text));
    LS_TRY(ls_safetensors_add_metadata(writer, "contract", ls_contract_name()));
    LS_TRY(ls_safetensors_add_metadata(writer, "contract_digest", ls_contract_digest()));
    LS_TRY(ls_safetensors_add_metadata(writer, "engine", ls_engine_name(run->engine)));
    LS_TRY(ls_safetensors_add_metadata(writer, "optimizer", ls_optimizer_name(run->optimizer)));
    snprintf(text, sizeof text, "%" PRIu64, run->seed);
    LS_TRY(ls_safetensors_add_metadata(writer, "seed", text));
    snprintf(text, sizeof text, "%" PRIu64, step);
    LS_TRY(ls_safetensors_add_metadata(writer, "step", text));
    for (int which = 0; which < ARRAYS; which++) {
        for (size_t i = 0; i < table->count; i++) {
            const ls_param *param = &table->params[i];
            uint64_t dims[2] = {param->dims[0], param->dims[1]};
            snprintf(text, sizeof text, "%s%s", prefixes[which], param->name);
            LS_TRY(ls_safetensors_declare(writer, text, LS_REAL_DTYPE, param->n_dims, dims));
        }
    }
exit:
    free(model);
    return status;
}

ls_status ls_checkpoint_save(const ls_run *run, ls_group *world, const ls_store *store,
                             uint64_t step, ls_arena *temporary)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    bool root = !world || ls_group_rank(world) == 0;
    size_t mark = ls_arena_mark(temporary);
    ls_safetensors_writer *writer = NULL;
    ls_real *whole = NULL;

    if (root) {
        LS_TRY(ls_arena_alloc(temporary, ls_gather_elements(table), sizeof *whole, (void *)&whole));
        LS_TRY(ls_safetensors_create(&writer, run->save));
        LS_TRY(declare(run, store, step, writer));
    }
    for (int which = 0; which < ARRAYS; which++) {
        for (size_t i = 0; i < table->count; i++) {
            const ls_param *param = &table->params[i];
            LS_TRY(ls_gather_param(world, &run->layout, table, i, LS_REAL_DTYPE,
                                   which == 0 ? "value" : "optimizer state",
                                   array_of(&store->slots[i], which), whole, temporary));
            if (root)
                LS_TRY(
                    ls_safetensors_write(writer, whole, ls_param_elements(param) * sizeof *whole));
        }
    }
    if (root) LS_TRY(ls_safetensors_commit(writer));
exit:
    ls_safetensors_destroy(&writer);
    ls_arena_release(temporary, mark);
    return status;
}
