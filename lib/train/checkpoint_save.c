#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/io/safetensors.h"
#include "lockstep/numerics/digest.h"
#include "train/checkpoint.h"
#include "train/checkpoint_file.h"
#include "train/checkpoint_metadata.h"
#include "train/gather.h"

static const ls_real *array_of(const ls_slot *slot, int array)
{
    return array == 0 ? slot->value : array == 1 ? slot->m : slot->v;
}

/* What the file says of itself: enough to go on from, or whose weights these are. */
static ls_status describe(const ls_run *run, const ls_config *config, uint64_t step,
                          ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    const bool own = run->names == LS_NAMES_OWN;
    char *model = NULL, text[4096];

    /* "pt", for PyTorch, is what Hugging Face's programs want to see. */
    LS_TRY(ls_safetensors_add_metadata(writer, "format", own ? LS_CHECKPOINT_FORMAT : "pt"));
    LS_TRY(ls_config_to_json(config, &model));
    LS_TRY(ls_safetensors_add_metadata(writer, "model", model));
    /* For people: any layout reads what any other wrote. */
    if (run->serial)
        snprintf(text, sizeof text, "serial");
    else
        ls_layout_describe(&run->layout, text, sizeof text);
    LS_TRY(ls_safetensors_add_metadata(writer, "layout", text));
    if (own) {
        LS_TRY(ls_safetensors_add_metadata(writer, "contract", ls_contract_name()));
        LS_TRY(ls_safetensors_add_metadata(writer, "contract_digest", ls_contract_digest()));
        LS_TRY(ls_safetensors_add_metadata(writer, "engine", ls_engine_name(run->engine)));
        LS_TRY(ls_safetensors_add_metadata(writer, "optimizer", ls_optimizer_name(run->optimizer)));
    } else {
        LS_TRY(ls_safetensors_add_metadata(writer, "names", ls_names_title(run->names)));
    }
    snprintf(text, sizeof text, "%" PRIu64, run->seed);
    LS_TRY(ls_safetensors_add_metadata(writer, "seed", text));
    snprintf(text, sizeof text, "%" PRIu64, step);
    LS_TRY(ls_safetensors_add_metadata(writer, "step", text));
exit:
    free(model);
    return status;
}

static ls_status declare(const ls_foreign_map *map, int arrays, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char name[LS_FOREIGN_NAME_BYTES + 16];
    for (int array = 0; array < arrays; array++) {
        for (size_t t = 0; t < map->count; t++) {
            const ls_foreign_tensor *tensor = &map->tensors[t];
            uint64_t dims[4];
            for (int d = 0; d < tensor->n_shape; d++) dims[d] = tensor->shape[d];
            if (tensor->twin || !ls_checkpoint_holds(map, t, array)) continue;
            snprintf(name, sizeof name, "%s%s", ls_checkpoint_prefixes[array], tensor->name);
            LS_TRY(ls_safetensors_declare(writer, name, LS_REAL_DTYPE, tensor->n_shape, dims));
        }
    }
exit:
    return status;
}

/* Elements of the largest tensor. */
static size_t most_elements(const ls_foreign_map *map)
{
    size_t most = 0;
    for (size_t t = 0; t < map->count; t++) {
        size_t elements = map->tensors[t].dims[0] * map->tensors[t].dims[1];
        if (elements > most) most = elements;
    }
    return most;
}

/* One that writes, or sends to the one that does. */
typedef struct saver {
    const ls_run *run;
    ls_group *world;
    const ls_store *store;
    const ls_foreign_map *map;
    ls_arena *temporary;
    ls_safetensors_writer *writer; /* of the root only, as the rest: */
    ls_real *whole;                /* a parameter */
    ls_real *tensor;               /* a foreign tensor */
} saver;

static ls_status save_tensor(const saver *s, const ls_foreign_tensor *tensor, int array)
{
    ls_status status = LS_OK;
    const ls_param_table *table = s->store->table;
    const size_t elements = tensor->dims[0] * tensor->dims[1];
    const bool as_it_is = s->map->names == LS_NAMES_OWN;
    if (s->writer && !as_it_is) memset(s->tensor, 0, elements * sizeof *s->tensor); /* padding */
    for (int part = 0; part < tensor->n_parts; part++) {
        size_t param = tensor->parts[part].param;
        LS_TRY(ls_gather_param(s->world, &s->run->layout, table, param, LS_REAL_DTYPE,
                               array == 0 ? "value" : "optimizer state",
                               array_of(&s->store->slots[param], array), s->whole, s->temporary));
        if (s->writer && !as_it_is)
            ls_foreign_whole_out(s->map, param, sizeof *s->whole, s->tensor, s->whole);
    }
    if (s->writer)
        LS_TRY(ls_safetensors_write(s->writer, as_it_is ? s->whole : s->tensor,
                                    elements * sizeof *s->whole));
exit:
    return status;
}

ls_status ls_checkpoint_save(const ls_run *run, ls_group *world, const ls_store *store,
                             uint64_t step, ls_arena *temporary)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    const bool own = run->names == LS_NAMES_OWN;
    const int arrays = own ? LS_CHECKPOINT_ARRAYS : 1;
    bool root = !world || ls_group_rank(world) == 0;
    size_t mark = ls_arena_mark(temporary);
    ls_safetensors_writer *writer = NULL;
    ls_foreign_map *map = NULL;
    saver s = {.run = run, .world = world, .store = store, .temporary = temporary};

    LS_TRY(ls_foreign_map_create(&map, table, run->names, "--names"));
    s.map = map;
    if (root) {
        LS_TRY(ls_arena_alloc(temporary, ls_gather_elements(table), sizeof *s.whole,
                              (void *)&s.whole));
        if (!own)
            LS_TRY(
                ls_arena_alloc(temporary, most_elements(map), sizeof *s.tensor, (void *)&s.tensor));
        LS_TRY(ls_safetensors_create(&writer, run->save));
        LS_TRY(describe(run, &table->config, step, writer));
        LS_TRY(declare(map, arrays, writer));
        s.writer = writer;
    }
    for (int array = 0; array < arrays; array++)
        for (size_t t = 0; t < map->count; t++)
            if (!map->tensors[t].twin && ls_checkpoint_holds(map, t, array))
                LS_TRY(save_tensor(&s, &map->tensors[t], array));
    if (root) LS_TRY(ls_safetensors_commit(writer));
exit:
    ls_safetensors_destroy(&writer);
    ls_foreign_map_destroy(&map);
    ls_arena_release(temporary, mark);
    return status;
}
