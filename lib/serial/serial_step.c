/* serial_step.c - a training step: forward, backward, norm of the gradient, update.
 *
 * Begin here to read the serial models; the passes go on in serial_transformer.c or serial_net.c.
 */
#include "base/thread_mode.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_net.h"
#include "serial/serial_parts.h"

ls_status ls_serial_forward(ls_serial *serial, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    serial->ready = false;
    LS_TRY((serial->net ? ls_serial_net_forward : ls_serial_transformer_forward)(serial, batch,
                                                                                 ret_loss));
    serial->ready = true;
exit:
    ls_thread_mode_restore(&mode);
    return status;
}

ls_status ls_serial_backward(ls_serial *serial)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    if (!serial->ready)
        LS_FAIL(LS_ERR_INPUT, "backward pass: there is no forward pass that it could follow; each "
                              "forward pass allows one");
    serial->ready = false; /* the logits become their gradient */
    LS_TRY((serial->net ? ls_serial_net_backward : ls_serial_transformer_backward)(serial));
exit:
    ls_thread_mode_restore(&mode);
    return status;
}

ls_status ls_serial_squares(const ls_serial *serial, double *ret_squares)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    const size_t count = ls_param_table_granules(serial->store->table);
    const size_t mark = ls_arena_mark(serial->temporary);
    double *squares = NULL;
    ls_thread_mode_set(&mode);
    LS_TRY(ls_arena_alloc(serial->temporary, count, sizeof *squares, &squares));
    ls_store_squares(serial->store, squares);
    *ret_squares = ls_tree_sum_f64(squares, count, 1);
exit:
    ls_arena_release(serial->temporary, mark);
    ls_thread_mode_restore(&mode);
    return status;
}

void ls_serial_update(ls_serial *serial, const ls_update *update, double squares, double max_norm)
{
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    const double factor = ls_clip_factor(squares, max_norm);
    for (size_t i = 0; i < serial->store->table->count; i++) {
        const ls_param *param = &serial->store->table->params[i];
        ls_slot *slot = &serial->store->slots[i];
        if (param->state) continue; /* written by the forward pass only */
        const size_t n = ls_serial_slot_elements(slot);
        if (factor != 1) ls_scale(slot->grad[0], slot->grad[0], (ls_real)factor, n);
        /* Padding too: its gradient and its value are +0 and stay so. */
        ls_update_apply(update, param->decay, slot->value, slot->m, slot->v, slot->grad[0], n);
    }
    ls_thread_mode_restore(&mode);
}
