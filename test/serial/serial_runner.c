/* serial_runner.c - compiled once per precision; see serial_runner.h. */
#include "serial/serial_runner.h"

#include <stdlib.h>

#include "lockstep/serial/serial.h"

static ls_real *room(size_t n)
{
    ls_real *x = malloc(n * sizeof *x);
    if (!x) abort();
    return x;
}

static void set_values(const ls_store *store, const double *values)
{
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        size_t n = ls_param_elements(param);
        ls_real *whole = room(n);
        for (size_t e = 0; e < n; e++) whole[e] = (ls_real)*values++;
        ls_param_shard_in(param, store->slots[i].shard, sizeof *whole, store->slots[i].value,
                          whole);
        free(whole);
    }
}

static void get_gradients(const ls_store *store, double *gradients)
{
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        size_t n = ls_param_elements(param);
        ls_real *whole = room(n);
        ls_param_shard_out(param, store->slots[i].shard, sizeof *whole, whole,
                           store->slots[i].grad[0]);
        for (size_t e = 0; e < n; e++) *gradients++ = (double)whole[e];
        free(whole);
    }
}

#define serial_run LS_TYPED(serial_run)
ls_status serial_run(const ls_param_table *table, ls_engine engine, const ls_batch *batch,
                     const double *values, double *ret_loss, double *ret_logits,
                     double *ret_gradients)
{
    ls_status status = LS_OK;
    ls_store *store = NULL;
    ls_serial *serial = NULL;
    ls_real loss;
    const size_t V = table->config.vocab;
    const size_t Vp = ls_axis_extent(ls_config_vocab_axis(&table->config));
    LS_TRY(ls_store_create(&store, table, NULL, NULL));
    LS_TRY(ls_serial_create(&serial, store, engine, NULL));
    set_values(store, values);
    LS_TRY(ls_serial_forward(serial, batch, &loss));
    *ret_loss = (double)loss;
    for (size_t t = 0; t < batch->B * batch->S; t++)
        for (size_t v = 0; v < V; v++)
            ret_logits[t * V + v] = (double)ls_serial_logits(serial)[t * Vp + v];
    LS_TRY(ls_serial_backward(serial));
    get_gradients(store, ret_gradients);
exit:
    ls_serial_destroy(&serial);
    ls_store_destroy(&store);
    return status;
}
