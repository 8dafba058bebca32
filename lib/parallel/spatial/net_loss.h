/* net_loss.h - softmax cross-entropy on the rows of logits that a rank has. */
#ifndef LS_PARALLEL_SPATIAL_NET_LOSS_H
#define LS_PARALLEL_SPATIAL_NET_LOSS_H

#include "parallel/spatial/net_layer_state.h"

/* Whether the batch is what this rank needs: LS_ERR_INPUT names what is not. */
#define ls_net_check_batch LS_TYPED(ls_net_check_batch)
ls_status ls_net_check_batch(const ls_sharded_net *net, const ls_batch *batch) LS_MUST_USE;

/* *ret_loss = T over the images of the global batch of -log softmax(logits)[label], divided once by
 * their number: the same on all ranks. Keeps what the gradient needs. */
#define ls_net_loss_forward LS_TYPED(ls_net_loss_forward)
ls_status ls_net_loss_forward(ls_sharded_net *net, ls_real *ret_loss) LS_MUST_USE;

/* dlogits: the block of the last layer. */
#define ls_net_loss_backward LS_TYPED(ls_net_loss_backward)
void ls_net_loss_backward(const ls_sharded_net *net, ls_real *dlogits);

#endif
