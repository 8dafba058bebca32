/* net_loss.c - the loss of a convolutional network, whose last layer is cut by samples only: a
 * rank has whole rows of logits. */
#include "parallel/spatial/net_loss.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "parallel/hooks/observe_param.h"

static const ls_net_layer_state *last_of(const ls_sharded_net *net)
{
    return &net->layers[net->net->count - 1];
}

/* The classes are one granule: no layout cuts them. */
static ls_vocab_shard classes_of(const ls_sharded_net *net)
{
    const size_t classes = net->net->classes;
    return (ls_vocab_shard){ls_axis_whole(classes), 0, classes};
}

/* The labels of the rows that this rank has. */
static const int32_t *labels_of(const ls_sharded_net *net)
{
    const ls_share rows = last_of(net)->own.images;
    return rows.count ? net->batch.labels + (rows.first - net->batch.first) : NULL;
}

ls_status ls_net_check_batch(const ls_sharded_net *net, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const ls_net *n = net->net;
    const ls_share needed = ls_sharded_net_samples(net);
    if (needed.count == 0) goto exit;
    if (batch->first > needed.first || batch->first + batch->B < needed.first + needed.count)
        LS_FAIL(LS_ERR_INPUT, "batch of images %zu to below %zu: this rank needs %zu to below %zu",
                batch->first, batch->first + batch->B, needed.first, needed.first + needed.count);
    LS_TRY(ls_net_check_images(n, batch));
    LS_TRY(ls_ids_check(batch->labels, batch->B, n->classes, 0, "label"));
exit:
    return status;
}

/* What goes into the sum of the losses, and what comes out. */
static ls_status look_at_parts(const ls_sharded_net *net, const ls_net_sums *sums,
                               const ls_real *parts)
{
    ls_status status = LS_OK;
    const ls_step_observer look = {net->setup.observer, net->batch.step};
    for (size_t j = 0; j < sums->n_nodes && sums->plan->members > 1; j++)
        LS_TRY(ls_observe_at_step(look, sums->members, LS_VIEW_LOSS_SUMS, LS_REAL_DTYPE,
                                  sums->nodes[j], sums->tree.leaves, 1, &parts[j]));
exit:
    return status;
}

static ls_status look_at_total(const ls_sharded_net *net, const ls_net_sums *sums,
                               const ls_real *total)
{
    const ls_step_observer look = {net->setup.observer, net->batch.step};
    if (sums->plan->members == 1) return LS_OK;
    return ls_observe_at_step(look, sums->members, LS_VIEW_LOSS_SUMS, LS_REAL_DTYPE,
                              (ls_node){0, 0}, 0, 1, total);
}

ls_status ls_net_loss_forward(ls_sharded_net *net, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const ls_net_layer_state *l = last_of(net);
    const ls_net_sums *sums = net->loss_sums;
    const ls_vocab_shard shard = classes_of(net);
    const double smoothing = net->store->table->config.label_smoothing;
    const int32_t *labels = labels_of(net);
    const size_t rows = l->own.images.count, B = net->setup.batch;
    const size_t mark = ls_arena_mark(net->temporary), handed = ls_arena_mark(net->handed);
    ls_real *losses = NULL, *logit = NULL, *sum_z = NULL, *parts = NULL, total = 0;

    LS_TRY(ls_arena_alloc(net->saved, rows, sizeof *net->max, (void *)&net->max));
    LS_TRY(ls_arena_alloc(net->saved, rows, sizeof *net->sum_exp, (void *)&net->sum_exp));
    LS_TRY(ls_arena_alloc(net->temporary, rows, sizeof *losses, (void *)&losses));
    LS_TRY(ls_arena_alloc(net->temporary, rows, sizeof *logit, (void *)&logit));
    if (smoothing > 0) LS_TRY(ls_arena_alloc(net->temporary, rows, sizeof *sum_z, (void *)&sum_z));
    ls_cross_entropy_max(net->max, l->y, rows, shard.V, shard);
    ls_cross_entropy_sums(net->sum_exp, sum_z, logit, l->y, net->max, labels, rows, shard.V, shard);
    ls_cross_entropy_loss(losses, net->max, net->sum_exp, sum_z, logit, labels, rows, shard.V,
                          smoothing);
    LS_TRY(ls_net_show_row(net, l->number, LS_POINT_IMAGE_LOSS,
                           (ls_view_run){B, l->own.images.first, rows}, losses));

    /* A leaf of the sum is an image. */
    LS_TRY(ls_arena_alloc(net->handed, sums->n_nodes + 1, sizeof *parts, (void *)&parts));
    for (size_t j = 0; j < sums->n_nodes; j++)
        parts[j] = ls_tree_sum(losses + (sums->nodes[j].lo - l->own.images.first),
                               sums->nodes[j].hi - sums->nodes[j].lo, 1);
    LS_TRY(look_at_parts(net, sums, parts));
    LS_TRY(ls_all_reduce_plan(sums->members, &total, parts, 1, LS_REAL_DTYPE, sums->plan));
    LS_TRY(look_at_total(net, sums, &total));
    *ret_loss = total / (ls_real)B;
exit:
    ls_arena_release(net->temporary, mark);
    ls_arena_release(net->handed, handed);
    return status;
}

void ls_net_loss_backward(const ls_sharded_net *net, ls_real *dlogits)
{
    const ls_net_layer_state *l = last_of(net);
    const ls_vocab_shard shard = classes_of(net);
    /* loss = total / B: every image's loss has this gradient */
    const ls_real factor = (ls_real)1 / (ls_real)net->setup.batch;
    ls_cross_entropy_backward(dlogits, l->y, net->max, net->sum_exp, labels_of(net),
                              l->own.images.count, shard.V, shard,
                              net->store->table->config.label_smoothing, factor);
}
