/* serial_net_loss.c - softmax cross-entropy over the classes, averaged over the images.
 *
 *     loss = (sum over images of -log softmax(z)[label]) / B
 *
 * An image is where a transformer has a token. No layout cuts the classes: they are one
 * granule.
 */
#include "lockstep/kernels/cross_entropy.h"

#include "lockstep/numerics/tree.h"
#include "serial/serial_net.h"

static ls_vocab_shard classes_of(const ls_serial *serial)
{
    const size_t classes = serial->net->net->classes;
    const ls_vocab_shard shard = {ls_axis_whole(classes), 0, classes};
    return shard;
}

ls_status ls_serial_net_loss_forward(const ls_serial *serial, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const ls_serial_net *net = serial->net;
    const ls_vocab_shard shard = classes_of(serial);
    const size_t B = serial->batch.B, mark = ls_arena_mark(serial->temporary);
    const double smoothing = serial->config->label_smoothing;
    const ls_real *z = ls_serial_net_logits(net);
    ls_real *losses = NULL, *label = NULL, *sum_z = NULL, total;
    LS_TRY(ls_arena_alloc(serial->temporary, B, sizeof *losses, &losses));
    LS_TRY(ls_arena_alloc(serial->temporary, B, sizeof *label, &label));
    if (smoothing > 0) LS_TRY(ls_arena_alloc(serial->temporary, B, sizeof *sum_z, &sum_z));
    ls_cross_entropy_max(net->largest, z, B, shard.V, shard);
    ls_cross_entropy_sums(net->sum_exp, sum_z, label, z, net->largest, serial->batch.labels, B,
                          shard.V, shard);
    ls_cross_entropy_loss(losses, net->largest, net->sum_exp, sum_z, label, serial->batch.labels, B,
                          shard.V, smoothing);
    ls_tree_sum_rows(&total, losses, net->images, 1, 1);
    *ret_loss = total / (ls_real)B;
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

void ls_serial_net_loss_backward(const ls_serial *serial, ls_real *dlogits)
{
    const ls_serial_net *net = serial->net;
    const ls_vocab_shard shard = classes_of(serial);
    /* loss = total / B: every image's loss has this gradient */
    const ls_real factor = (ls_real)1 / (ls_real)serial->batch.B;
    ls_cross_entropy_backward(dlogits, ls_serial_net_logits(net), net->largest, net->sum_exp,
                              serial->batch.labels, serial->batch.B, shard.V, shard,
                              serial->config->label_smoothing, factor);
}

const ls_real *ls_serial_net_logits(const ls_serial_net *net)
{
    return net->layer[net->net->count - 1].y;
}
