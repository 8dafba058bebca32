/* serial_embedding.c - from tokens to vectors, and back to the gradient of the tables.
 *
 *     e = (token_embedding[token] + position_embedding[s]) + type_embedding[segment]
 *     x = dropout(norm(e))
 *
 * Rotary models have no position table; they turn queries and keys instead. Token types and the
 * norm are BERT's. */
#include "lockstep/kernels/embedding.h"

#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

void ls_serial_embedding_forward(const ls_serial *serial, ls_real *x)
{
    const ls_slot *token = ls_store_slot(serial->store, LS_TOKEN_EMBEDDING, 0);
    const ls_slot *position = ls_store_slot(serial->store, LS_POSITION_EMBEDDING, 0);
    const size_t B = serial->batch.B, S = serial->batch.S, D = serial->config->d_model;

    const ls_slot *type = ls_store_slot(serial->store, LS_TYPE_EMBEDDING, 0);
    ls_real *e = serial->config->embedding_norm ? serial->e : x;

    ls_embedding_forward(e, token->value, serial->batch.tokens, B * S, D, 0, token->rows);
    if (position != NULL)
        for (size_t b = 0; b < B; b++) /* rows 0 .. S - 1 of the table, next to each sequence */
            ls_add(e + b * S * D, e + b * S * D, position->value, S * D);
    if (type != NULL)
        for (size_t t = 0; t < B * S; t++)
            ls_add(e + t * D, e + t * D, type->value + (size_t)serial->batch.segments[t] * D, D);
    if (serial->config->embedding_norm)
        ls_serial_norm_forward(serial, LS_EMBEDDING_NORM_SCALE, LS_EMBEDDING_NORM_SHIFT, 0, x,
                               serial->mean_e, serial->rstd_e, e);
    ls_serial_dropout(serial, x, x, LS_RANDOM_DROPOUT_EMBEDDING, 0);
}

ls_status ls_serial_embedding_backward(const ls_serial *serial, ls_real *dx)
{
    ls_status status = LS_OK;
    ls_slot *token = ls_store_slot(serial->store, LS_TOKEN_EMBEDDING, 0);
    ls_slot *position = ls_store_slot(serial->store, LS_POSITION_EMBEDDING, 0);
    ls_slot *type = ls_store_slot(serial->store, LS_TYPE_EMBEDDING, 0);
    const size_t B = serial->batch.B, S = serial->batch.S, D = serial->config->d_model;

    /* x = dropout(norm(e)) */
    ls_serial_dropout(serial, dx, dx, LS_RANDOM_DROPOUT_EMBEDDING, 0);
    if (serial->config->embedding_norm)
        ls_serial_norm_backward(serial, LS_EMBEDDING_NORM_SCALE, LS_EMBEDDING_NORM_SHIFT, 0, dx, dx,
                                serial->e, serial->mean_e, serial->rstd_e);

    /* e = token row + position row + type row: position s sums over the sequences; no token, no
     * gradient */
    if (position != NULL) {
        ls_tree_sum_rows(position->grad[0], dx, ls_axis_whole(B), S * D, S * D);
        memset(position->grad[0] + S * D, 0, (position->rows - S) * D * sizeof *position->grad[0]);
    }
    /* row v sums over the tokens that are v: T over all tokens, the others standing as -0 (rule
     * 14), ended by + 0 */
    LS_TRY(ls_embedding_backward(token->grad[0], dx, serial->batch.tokens, serial->tokens, D, 0,
                                 token->rows));
    ls_normalize_zero(token->grad[0], token->rows * D);
    if (type != NULL) { /* the same, types in place of tokens */
        LS_TRY(ls_embedding_backward(type->grad[0], dx, serial->batch.segments, serial->tokens, D,
                                     0, type->rows));
        ls_normalize_zero(type->grad[0], type->rows * D);
    }
exit:
    return status;
}
