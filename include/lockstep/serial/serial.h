/* serial.h - the baseline: a transformer or a convolutional network in the plainest sequential
 * code.
 *
 * It knows no thread and no rank. Together with the contract it says what every layout must give.
 * With LS_ENGINE_PLAIN in binary64 it is the truth that the contract's results are measured
 * against. */
#ifndef LS_SERIAL_SERIAL_H
#define LS_SERIAL_SERIAL_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/numerics/gemm.h"

LS_BEGIN_DECLS

#define ls_serial LS_TYPED(ls_serial)
typedef struct ls_serial ls_serial;

/* A model whose parameters are `store` (all held whole, every use), which it does not own. memory:
 * an account for activations and temporaries, or NULL. Errors: LS_ERR_INPUT (a parameter that the
 * store does not hold whole), LS_ERR_MEMORY. */
#define ls_serial_create LS_TYPED(ls_serial_create)
LS_API ls_status ls_serial_create(ls_serial **ret_serial, ls_store *store, ls_engine engine,
                                  ls_memory *memory) LS_MUST_USE;
#define ls_serial_destroy LS_TYPED(ls_serial_destroy)
LS_API void ls_serial_destroy(ls_serial **serial);

/* From now on a pass ends with LS_ERR_INTERRUPTED, "interrupted", before the next layer once *stop
 * is not 0; what the pass was to make is then undefined. stop NULL, as at first: passes go through.
 * It may be set by a signal handler and must outlive the model. */
#define ls_serial_stop_when LS_TYPED(ls_serial_stop_when)
LS_API void ls_serial_stop_when(ls_serial *serial, const volatile int *stop);

/* Forward: *ret_loss = T over the tokens' losses by rule 9, divided once by the number of valid
 * targets (rule 15); 0 when there is none. A model with sentence order adds the same over the
 * sequences and their labels. The batch is the whole one (first is 0); its arrays are
 * copied. Keeps what the backward pass needs, in the room of the forward pass before. Errors:
 * LS_ERR_INPUT (a token or target outside the vocabulary, a token type, length or label that
 * is none, named by its place and value; S too long; no sequence), LS_ERR_MEMORY,
 * LS_ERR_INTERRUPTED; the store is as before.
 *
 * Of a network: the mean over the images of the batch, all of which have a label. With
 * batch->training on it is a training pass: batch norm takes the statistics of the batch, and once
 * everything has gone well its running statistics, which the store holds, take these in. Off is
 * evaluation: nothing is dropped, batch norm takes the running statistics as constants and leaves
 * them only, here and in the backward pass. Errors as above (images of another size, one value per
 * channel where a variance is needed). */
#define ls_serial_forward LS_TYPED(ls_serial_forward)
LS_API ls_status ls_serial_forward(ls_serial *serial, const ls_batch *batch,
                                   ls_real *ret_loss) LS_MUST_USE;

/* What the loss of the last forward pass is made of: the mean over tokens, and in a model with
 * sentence order the mean over labels (else 0). The loss is the first, + the second. */
#define ls_serial_losses LS_TYPED(ls_serial_losses)
LS_API void ls_serial_losses(const ls_serial *serial, ls_real *ret_token, ls_real *ret_order);

/* The logits of the last forward pass, B x S x V padded (row stride = padded vocabulary, padded
 * columns 0), of a network B x classes; NULL before one and after its backward pass. Valid until
 * the next call. */
#define ls_serial_logits LS_TYPED(ls_serial_logits)
LS_API const ls_real *ls_serial_logits(const ls_serial *serial);

/* Backward of the last forward, once: overwrites every gradient in the store. The uses of a tied
 * parameter are added at the end: input use first (rule 13), into use 0. Without any valid target
 * all are +0 (rule 15). Errors: LS_ERR_INPUT (no forward pass to follow), LS_ERR_MEMORY and
 * LS_ERR_INTERRUPTED (gradients are then undefined). */
#define ls_serial_backward LS_TYPED(ls_serial_backward)
LS_API ls_status ls_serial_backward(ls_serial *serial) LS_MUST_USE;

/* Squared norm of the whole gradient in binary64 (rule 16): T over (parameter, granule) in table
 * order. */
#define ls_serial_squares LS_TYPED(ls_serial_squares)
LS_API ls_status ls_serial_squares(const ls_serial *serial, double *ret_squares) LS_MUST_USE;

/* Scales every gradient (use 0) by ls_clip_factor(squares, max_norm), when it is not 1, then
 * updates every parameter but the states, which the forward pass writes. */
#define ls_serial_update LS_TYPED(ls_serial_update)
LS_API void ls_serial_update(ls_serial *serial, const ls_update *update, double squares,
                             double max_norm);

LS_END_DECLS

#endif
