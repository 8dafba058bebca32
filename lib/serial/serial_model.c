/* serial_model.c - making and unmaking the serial models.
 *
 * The parameters belong to the caller's store. What a model owns is room: for what a forward pass
 * keeps, for temporaries, and for a transformer's rotary tables. */
#include <stdlib.h>

#include "base/thread_mode.h"
#include "lockstep/kernels/rotary.h"
#include "serial/serial_net.h"
#include "serial/serial_parts.h"
#include "base/allocate.h"

/* Every parameter, whole, with room for the gradient of each of its uses. */
static ls_status check_store(const ls_store *store)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        const ls_slot *slot = &store->slots[i];
        bool whole = slot->value != NULL && slot->shard.first == 0 &&
                     slot->shard.count == param->axis.granules;
        for (int use = 0; use < param->uses; use++) whole = whole && slot->grad[use] != NULL;
        if (!whole)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: the store holds a part of it; the serial model needs every parameter "
                    "whole",
                    param->name);
    }
exit:
    return status;
}

/* Cosines and sines of every position that a sequence may have. */
static ls_status make_rotary_tables(ls_serial *serial)
{
    ls_status status = LS_OK;
    const ls_config *config = serial->config;
    size_t dh = ls_config_head_width(config);
    LS_TRY(ls_arena_alloc(serial->kept, config->seq * (dh / 2), sizeof(ls_real), &serial->cosine));
    LS_TRY(ls_arena_alloc(serial->kept, config->seq * (dh / 2), sizeof(ls_real), &serial->sine));
    ls_rotary_table(serial->cosine, serial->sine, config->seq, dh, config->rope_theta);
exit:
    return status;
}

/* The axes and the room of a transformer. */
static ls_status make_transformer(ls_serial *serial)
{
    ls_status status = LS_OK;
    serial->model = ls_axis_whole(serial->config->d_model);
    serial->heads = ls_config_heads_axis(serial->config);
    serial->kv = ls_config_kv_axis(serial->config);
    serial->ff = ls_config_ff_axis(serial->config);
    serial->vocab = ls_config_vocab_axis(serial->config);

    LS_NEW(serial->layers, serial->config->layers);
    if (serial->config->position == LS_ROTARY) LS_TRY(make_rotary_tables(serial));
exit:
    return status;
}

ls_status ls_serial_create(ls_serial **ret_serial, ls_store *store, ls_engine engine,
                           ls_memory *memory)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_serial *serial = NULL;
    ls_thread_mode_set(&mode);
    LS_TRY(check_store(store));

    LS_NEW(serial, 1);
    serial->store = store;
    serial->config = &store->table->config;
    serial->engine = engine;
    LS_TRY(ls_arena_create(&serial->kept, memory, LS_MEM_ACTIVATIONS));
    LS_TRY(ls_arena_create(&serial->temporary, memory, LS_MEM_TEMPORARY));
    if (serial->config->kind == LS_MODEL_NET)
        LS_TRY(ls_serial_net_create(serial));
    else
        LS_TRY(make_transformer(serial));
    serial->kept_mark = ls_arena_mark(serial->kept);

    *ret_serial = serial;
    serial = NULL;
exit:
    ls_serial_destroy(&serial);
    ls_thread_mode_restore(&mode);
    return status;
}

void ls_serial_destroy(ls_serial **serial)
{
    ls_serial *gone = *serial;
    if (gone == NULL) return;
    ls_arena_destroy(&gone->kept);
    ls_arena_destroy(&gone->temporary);
    free(gone->layers);
    free(gone->net);
    free(gone);
    *serial = NULL;
}

void ls_serial_stop_when(ls_serial *serial, const volatile int *stop)
{
    serial->stop = stop;
}

void ls_serial_losses(const ls_serial *serial, ls_real *ret_token, ls_real *ret_order)
{
    *ret_token = serial->token_loss;
    *ret_order = serial->order_loss;
}

const ls_real *ls_serial_logits(const ls_serial *serial)
{
    if (!serial->ready) return NULL;
    return serial->net ? ls_serial_net_logits(serial->net) : serial->z;
}
