/* serial_transformer.c - the two passes of a transformer: embedding, layers, head, loss, and back.
 */
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "serial/serial_parts.h"

ls_status ls_serial_transformer_forward(ls_serial *serial, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const size_t L = serial->config->layers;
    ls_real loss;
    const bool post = serial->config->norm_place == LS_NORM_POST;
    LS_TRY(ls_serial_take_batch(serial, batch));

    ls_serial_embedding_forward(serial, serial->layers[0].x);
    for (size_t l = 0; l < L; l++) {
        ls_real *y = l + 1 < L ? serial->layers[l + 1].x : serial->x;
        LS_TRY(ls_serial_check_stop(serial));
        LS_TRY((post ? ls_serial_block_post_forward : ls_serial_block_forward)(serial, l, y));
    }
    LS_TRY(ls_serial_check_stop(serial));
    LS_TRY(ls_serial_head_forward(serial));
    LS_TRY(ls_serial_loss_forward(serial, &serial->token_loss));
    loss = serial->token_loss;
    if (serial->config->sentence_order) { /* losses in order (rule 11) */
        LS_TRY(ls_serial_order_head_forward(serial, &serial->order_loss));
        loss = loss + serial->order_loss;
    }

    *ret_loss = loss;
exit:
    return status;
}

/* No valid target: the loss is 0 whatever the parameters, every gradient +0 (rule 15). */
static void zero_gradients(const ls_serial *serial)
{
    for (size_t i = 0; i < serial->store->table->count; i++)
        ls_serial_zero_slot(&serial->store->slots[i], serial->store->table->params[i].uses);
}

/* A tied parameter was summed over the batch once for each of its uses; these meet last, the input
 * first (rule 13). */
static void add_uses(const ls_serial *serial)
{
    for (size_t i = 0; i < serial->store->table->count; i++) {
        ls_slot *slot = &serial->store->slots[i];
        for (int use = 1; use < serial->store->table->params[i].uses; use++)
            ls_add(slot->grad[0], slot->grad[0], slot->grad[use], ls_serial_slot_elements(slot));
    }
}

ls_status ls_serial_transformer_backward(ls_serial *serial)
{
    ls_status status = LS_OK;
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;
    const size_t mark = ls_arena_mark(serial->temporary);
    const bool post = serial->config->norm_place == LS_NORM_POST;
    ls_real *dx = NULL;
    if (serial->valid == 0 && serial->order.valid == 0) {
        zero_gradients(serial);
        goto exit;
    }
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *dx, &dx));

    if (serial->valid > 0) ls_serial_loss_backward(serial);
    LS_TRY(ls_serial_head_backward(serial, dx));
    for (size_t l = serial->config->layers; l-- > 0;) {
        LS_TRY(ls_serial_check_stop(serial));
        LS_TRY((post ? ls_serial_block_post_backward : ls_serial_block_backward)(serial, l, dx));
    }
    LS_TRY(ls_serial_embedding_backward(serial, dx));
    add_uses(serial);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
