/* layer_dropout.c - dropout of a block's output, on own tokens: y = mask x / (1 - p), the mask
 * drawn for the place that each token has in the whole batch. */
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/transformer/layer.h"

void ls_layer_dropout(const ls_tensor_parallel *tp, const ls_layer *layer, ls_real *y,
                      const ls_real *x, ls_purpose purpose, const ls_batch *batch)
{
    ls_stream stream = {batch->seed, (uint32_t)purpose, layer->number, batch->step};
    ls_own_dropout(tp, y, x, ls_batch_tokens(batch), layer->D, batch->training ? layer->dropout : 0,
                   stream, batch->first);
}
