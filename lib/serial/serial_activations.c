/* serial_activations.c - the batch of a forward pass, and room for what the backward pass needs.
 *
 * Everything that a reader expects to find again is kept: the input of every operation whose
 * gradient needs it. Attention keeps S x S numbers per head, the largest part for long sequences.
 * Each forward pass gives back the room of the one before and takes the same again. */
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
    if (config->token_types > 0 && batch->segments)
        LS_TRY(ls_ids_check(batch->segments, batch->B * batch->S, config->token_types, 0,
                            "token type"));
    if (config->sentence_order && batch->order)
        LS_TRY(ls_ids_check(batch->order, batch->B, 2, 1, "order label"));
    LS_TRY(ls_lengths_check(batch->lengths, batch->B, batch->S));
exit:
    return status;
}

/* The backward pass reads the n ids again, when the caller's may be gone. None given: all
 * `otherwise`. */
static ls_status copy_ids(ls_serial *serial, const int32_t **ids, size_t n, int32_t otherwise)
{
    ls_status status = LS_OK;
    int32_t *copy = NULL;
    LS_TRY(ls_arena_alloc(serial->kept, n, sizeof *copy, &copy));
    for (size_t i = 0; i < n; i++) copy[i] = *ids ? (*ids)[i] : otherwise;
    *ids = copy;
exit:
    return status;
}

/* Which tokens are no padding, from the lengths of the sequences. */
static ls_status take_seen(ls_serial *serial)
{
    ls_status status = LS_OK;
    const ls_batch *batch = &serial->batch;
    unsigned char *seen = NULL;
    serial->seen = NULL;
    if (!batch->lengths) goto exit;
    LS_TRY(ls_arena_alloc(serial->kept, batch->B * batch->S, 1, (void *)&seen));
    for (size_t t = 0; t < batch->B * batch->S; t++)
        seen[t] = t % batch->S < (size_t)batch->lengths[t / batch->S];
    serial->seen = seen;
exit:
    return status;
}

/* Room for one array of rows x cols. */
static ls_status take(const ls_serial *serial, ls_real **ret_array, size_t rows, size_t cols)
{
    return ls_arena_alloc(serial->kept, rows * cols, sizeof(ls_real), ret_array);
}

/* What a norm keeps: RMSNorm has no mean. */
static ls_status take_statistics(const ls_serial *serial, ls_real **ret_mean, ls_real **ret_rstd)
{
    ls_status status = LS_OK;
    const size_t n = ls_axis_extent(serial->tokens);
    LS_TRY(take(serial, ret_rstd, n, 1));
    if (serial->config->norm == LS_LAYER_NORM) LS_TRY(take(serial, ret_mean, n, 1));
exit:
    return status;
}

static ls_status take_layer(const ls_serial *serial, ls_serial_layer *layer)
{
    ls_status status = LS_OK;
    const ls_config *config = serial->config;
    const size_t n = ls_axis_extent(serial->tokens), D = config->d_model, F = config->d_ff;
    const size_t Dkv = ls_axis_extent(serial->kv);
    const size_t B = serial->batch.B, S = serial->batch.S;

    LS_TRY(take(serial, &layer->x, n, D));
    LS_TRY(take_statistics(serial, &layer->mean1, &layer->rstd1));
    layer->n1 = layer->x; /* norms after: attention reads the input itself */
    if (config->norm_place == LS_NORM_PRE)
        LS_TRY(take(serial, &layer->n1, n, D));
    else
        LS_TRY(take(serial, &layer->x2, n, D));
    LS_TRY(take(serial, &layer->q, n, D));
    LS_TRY(take(serial, &layer->k, n, Dkv));
    LS_TRY(take(serial, &layer->v, n, Dkv));
    LS_TRY(take(serial, &layer->P, B * config->heads, S * S));
    LS_TRY(take(serial, &layer->o, n, D));
    LS_TRY(take(serial, &layer->x1, n, D));
    LS_TRY(take_statistics(serial, &layer->mean2, &layer->rstd2));
    LS_TRY(take(serial, &layer->n2, n, D));
    LS_TRY(take(serial, &layer->h, n, F));
    LS_TRY(take(serial, &layer->u, n, F));
    if (config->activation == LS_SWIGLU) LS_TRY(take(serial, &layer->gate, n, F));
exit:
    return status;
}

static ls_status take_ends(ls_serial *serial)
{
    ls_status status = LS_OK;
    const ls_config *config = serial->config;
    const size_t n = ls_axis_extent(serial->tokens), D = config->d_model;
    if (config->embedding_norm) {
        LS_TRY(take(serial, &serial->e, n, D));
        LS_TRY(take_statistics(serial, &serial->mean_e, &serial->rstd_e));
    }
    LS_TRY(take(serial, &serial->x, n, D));
    serial->xf = serial->x;
    if (config->norm_place == LS_NORM_PRE) {
        LS_TRY(take_statistics(serial, &serial->mean, &serial->rstd));
        LS_TRY(take(serial, &serial->xf, n, D));
    }
    LS_TRY(take(serial, &serial->z, n, ls_axis_extent(serial->vocab)));
    LS_TRY(take(serial, &serial->largest, n, 1));
    LS_TRY(take(serial, &serial->sum_exp, n, 1));
exit:
    return status;
}

/* The heads of a masked-token model. */
static ls_status take_heads(ls_serial *serial)
{
    ls_status status = LS_OK;
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    const size_t B = serial->batch.B;
    if (serial->config->objective == LS_MASKED_TOKEN) {
        LS_TRY(take(serial, &serial->masked.t, n, D));
        LS_TRY(take(serial, &serial->masked.u, n, D));
        LS_TRY(take_statistics(serial, &serial->masked.mean, &serial->masked.rstd));
        LS_TRY(take(serial, &serial->masked.features, n, D));
    }
    if (serial->config->sentence_order) {
        LS_TRY(take(serial, &serial->order.p, B, D));
        LS_TRY(take(serial, &serial->order.z, B, 2));
        LS_TRY(take(serial, &serial->order.largest, B, 1));
        LS_TRY(take(serial, &serial->order.sum_exp, B, 1));
    }
exit:
    return status;
}

/* How many have a label (rule 15: an integer over the whole batch). */
static size_t count_valid(const int32_t *labels, size_t n)
{
    size_t valid = 0;
    for (size_t i = 0; i < n; i++)
        if (labels[i] != LS_IGNORE) valid++;
    return valid;
}

ls_status ls_serial_take_batch(ls_serial *serial, const ls_batch *batch)
{
    ls_status status = LS_OK;
    LS_TRY(check_batch(serial, batch));
    ls_arena_release(serial->kept, serial->kept_mark);

    serial->batch = *batch;
    serial->tokens = ls_batch_tokens(batch);
    serial->sequences = ls_axis_of(batch->B, 1);
    const size_t n = batch->B * batch->S;
    LS_TRY(copy_ids(serial, &serial->batch.tokens, n, 0));
    LS_TRY(copy_ids(serial, &serial->batch.targets, n, LS_IGNORE));
    if (serial->config->token_types > 0) LS_TRY(copy_ids(serial, &serial->batch.segments, n, 0));
    if (serial->config->sentence_order)
        LS_TRY(copy_ids(serial, &serial->batch.order, batch->B, LS_IGNORE));
    LS_TRY(take_seen(serial));
    serial->batch.lengths = NULL; /* taken over by `seen` */
    serial->valid = count_valid(serial->batch.targets, n);
    serial->order.valid =
        serial->config->sentence_order ? count_valid(serial->batch.order, batch->B) : 0;
    for (size_t l = 0; l < serial->config->layers; l++)
        LS_TRY(take_layer(serial, &serial->layers[l]));
    LS_TRY(take_ends(serial));
    LS_TRY(take_heads(serial));
exit:
    return status;
}
