/* serial_activations.c - the batch of a forward pass, and room for what the backward pass needs.
 *
 * Everything that a reader expects to find again is kept: the input of every operation whose
 * gradient needs it. Attention keeps S x S numbers per head, the largest part for long sequences.
 * Each forward pass gives back the room of the one before and takes the same again. */
#include <string.h>

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "serial/serial_parts.h"

static ls_status check_batch(const ls_serial *serial, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const ls_config *config = serial->config;
    if (batch->B == 0) LS_FAIL(LS_ERR_INPUT, "batch of 0 sequences: at least 1 is needed");
    if (batch->S == 0 || batch->S > config->seq)
        LS_FAIL(LS_ERR_INPUT, "sequences of %zu tokens: the model takes 1 to %zu (--seq)", batch->S,
                config->seq);
    if (batch->first != 0)
        LS_FAIL(LS_ERR_INPUT,
                "batch that begins with sequence %zu: the serial model takes the whole batch, from "
                "sequence 0 on",
                batch->first);
    LS_TRY(ls_ids_check(batch->tokens, batch->B * batch->S, config->vocab, 0, "token"));
    LS_TRY(ls_ids_check(batch->targets, batch->B * batch->S, config->vocab, 1, "target"));
exit:
    return status;
}

/* The backward pass reads tokens and targets again, when the caller's may be gone. */
static ls_status copy_ids(ls_serial *serial, const int32_t **ids)
{
    ls_status status = LS_OK;
    int32_t *copy = NULL;
    size_t n = ls_axis_extent(serial->tokens);
    LS_TRY(ls_arena_alloc(serial->kept, n, sizeof *copy, &copy));
    memcpy(copy, *ids, n * sizeof *copy);
    *ids = copy;
exit:
    return status;
}

/* Room for one array of rows x cols. */
static ls_status take(const ls_serial *serial, ls_real **ret_array, size_t rows, size_t cols)
{
    return ls_arena_alloc(serial->kept, rows * cols, sizeof(ls_real), ret_array);
}

static ls_status take_layer(const ls_serial *serial, ls_serial_layer *layer)
{
    ls_status status = LS_OK;
    const ls_config *config = serial->config;
    const size_t n = ls_axis_extent(serial->tokens), D = config->d_model, F = config->d_ff;
    const size_t Dkv = ls_axis_extent(serial->kv);
    const size_t B = serial->batch.B, S = serial->batch.S;

    LS_TRY(take(serial, &layer->x, n, D));
    LS_TRY(take(serial, &layer->rstd1, n, 1));
    LS_TRY(take(serial, &layer->n1, n, D));
    LS_TRY(take(serial, &layer->q, n, D));
    LS_TRY(take(serial, &layer->k, n, Dkv));
    LS_TRY(take(serial, &layer->v, n, Dkv));
    LS_TRY(take(serial, &layer->P, B * config->heads, S * S));
    LS_TRY(take(serial, &layer->o, n, D));
    LS_TRY(take(serial, &layer->x1, n, D));
    LS_TRY(take(serial, &layer->rstd2, n, 1));
    LS_TRY(take(serial, &layer->n2, n, D));
    LS_TRY(take(serial, &layer->h, n, F));
    LS_TRY(take(serial, &layer->u, n, F));
    if (config->activation == LS_SWIGLU) LS_TRY(take(serial, &layer->gate, n, F));
    if (config->norm == LS_LAYER_NORM) {
        LS_TRY(take(serial, &layer->mean1, n, 1));
        LS_TRY(take(serial, &layer->mean2, n, 1));
    }
exit:
    return status;
}

static ls_status take_ends(ls_serial *serial)
{
    ls_status status = LS_OK;
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    LS_TRY(take(serial, &serial->x, n, D));
    LS_TRY(take(serial, &serial->rstd, n, 1));
    if (serial->config->norm == LS_LAYER_NORM) LS_TRY(take(serial, &serial->mean, n, 1));
    LS_TRY(take(serial, &serial->xf, n, D));
    LS_TRY(take(serial, &serial->z, n, ls_axis_extent(serial->vocab)));
    LS_TRY(take(serial, &serial->largest, n, 1));
    LS_TRY(take(serial, &serial->sum_exp, n, 1));
exit:
    return status;
}

/* How many tokens have a target (rule 15: an integer over the whole batch). */
static size_t count_valid(const ls_batch *batch)
{
    size_t valid = 0;
    for (size_t t = 0; t < batch->B * batch->S; t++)
        if (batch->targets[t] != LS_IGNORE) valid++;
    return valid;
}

ls_status ls_serial_take_batch(ls_serial *serial, const ls_batch *batch)
{
    ls_status status = LS_OK;
    serial->ready = false;
    LS_TRY(check_batch(serial, batch));
    ls_arena_release(serial->kept, serial->kept_mark);

    serial->batch = *batch;
    serial->tokens = ls_batch_tokens(batch);
    serial->valid = count_valid(batch);
    LS_TRY(copy_ids(serial, &serial->batch.tokens));
    LS_TRY(copy_ids(serial, &serial->batch.targets));
    for (size_t l = 0; l < serial->config->layers; l++)
        LS_TRY(take_layer(serial, &serial->layers[l]));
    LS_TRY(take_ends(serial));
exit:
    return status;
}
