/* net_batch_norm.c - batch normalisation whose batch and images lie on many ranks.
 *
 * Every rank normalises by the statistics of the global batch. Of each sum a rank has a few nodes
 * of the tree over granule rectangles and images; one all-reduce among the ranks with the same
 * channels finishes it. So the number of values in a mean is that of the global batch, however
 * many this rank has - none, one, or more than others -, and no mean of means is ever taken.
 *
 *     forward    sum x -> mean, sum (x - mean)^2 -> rstd: two all-reduces of C values
 *     backward   dscale and dshift together: one of 2 C
 *
 * A batch that trains is normalised by itself, one that is evaluated by the
 * running statistics, which every rank of the same channels holds. */
#include "lockstep/kernels/batch_norm.h"

#include <string.h>

#include "lockstep/kernels/pixel_sum.h"
#include "parallel/spatial/net_layer_state.h"
#include "parallel/spatial/net_leaves.h"

typedef struct norm {
    ls_real *mean, *rstd; /* C each, of the pass under way: kept until backward */
    ls_real *squares;     /* C: sum of (x - mean)^2, in a pass that trains      */
    ls_net_leaves *leaves;
    size_t C;     /* channels of this rank, also when it has no pixel of them */
    size_t count; /* values of a channel in the global batch                  */
    ls_slot *scale, *shift, *running_mean, *running_variance;
} norm;

/* ---- sums over the global batch */

typedef struct leaf_terms {
    const ls_real *x, *dy, *mean, *rstd;
    ls_image_layout x_layout, dy_layout;
    size_t channels;
} leaf_terms;

static void sum_leaf(ls_real *value, const void *context, const ls_net_leaf *leaf)
{
    const leaf_terms *t = context;
    ls_pixel_sum(value, t->x + leaf->image * t->x_layout.stride, t->x_layout, leaf->pixels,
                 t->channels);
}

static void squares_leaf(ls_real *value, const void *context, const ls_net_leaf *leaf)
{
    const leaf_terms *t = context;
    ls_batch_norm_squares(value, t->x + leaf->image * t->x_layout.stride, t->x_layout, leaf->pixels,
                          t->mean, t->channels);
}

/* dscale, then dshift. */
static void gradient_leaf(ls_real *value, const void *context, const ls_net_leaf *leaf)
{
    const leaf_terms *t = context;
    const ls_real *x = t->x + leaf->image * t->x_layout.stride;
    const ls_real *dy = t->dy + leaf->image * t->dy_layout.stride;
    ls_batch_norm_scale_leaf(value, dy, t->dy_layout, x, t->x_layout, leaf->pixels, t->mean,
                             t->rstd, t->channels);
    ls_pixel_sum(value + t->channels, dy, t->dy_layout, leaf->pixels, t->channels);
}

/* The channels of this rank. */
static ls_view_run channels_of(const ls_net_layer_state *l)
{
    const size_t granule = l->shape->axis.granule;
    return (ls_view_run){l->shape->channels, l->granules.first * granule,
                         l->granules.count * granule};
}

/* What goes into a sum, or what came out. point: of forward's two; LS_POINTS: gradients. */
static ls_status look_at_sum(const ls_sharded_net *net, const ls_net_layer_state *l, ls_point point,
                             const ls_real *values, bool part)
{
    ls_status status = LS_OK;
    const norm *n = l->lasting;
    if (net->setup.observer == NULL) return LS_OK;
    const ls_view view = {.point = point, .n_dims = 1, .dims = {channels_of(l)}};
    if (point != LS_POINTS) return ls_net_show_pixel_sum(net, l, false, &view, values, part);
    LS_TRY(ls_net_show_gradient(net, l, n->scale, values, 2 * n->C, part));
    LS_TRY(ls_net_show_gradient(net, l, n->shift, values + n->C, 2 * n->C, part));
exit:
    return status;
}

/* sum: count values, the same on every member. */
static ls_status sum_over_batch(const ls_sharded_net *net, const ls_net_layer_state *l,
                                ls_point point, ls_real *sum, size_t count,
                                ls_net_leaf_value *value, const leaf_terms *terms)
{
    ls_status status = LS_OK;
    const norm *n = l->lasting;
    const size_t mark = ls_arena_mark(net->handed);
    ls_real *nodes = NULL;
    LS_TRY(ls_arena_alloc(net->handed, n->leaves->n_nodes * count, sizeof *nodes, (void *)&nodes));
    LS_TRY(ls_net_leaf_sums(nodes, count, n->leaves, value, terms, net->temporary));
    LS_TRY(look_at_sum(net, l, point, nodes, true));
    LS_TRY(ls_all_reduce_plan(l->sums->members, sum, nodes, count, LS_REAL_DTYPE, l->sums->plan));
    LS_TRY(look_at_sum(net, l, point, sum, false));
exit:
    ls_arena_release(net->handed, mark);
    return status;
}

/* ---- the layer */

static ls_status create(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const ls_net_shape *shape = l->shape;
    const ls_share images =
        ls_share_of(net->setup.batch, (size_t)l->grid.samples, (size_t)l->at.sample);
    norm *n = NULL;
    LS_TRY(ls_arena_zalloc(net->lasting, 1, sizeof *n, (void *)&n));
    n->C = l->granules.count * shape->axis.granule;
    n->count = net->setup.batch * shape->height * shape->width;
    LS_TRY(ls_net_leaves_create(&n->leaves, net->lasting, &l->sums->pixels, l->sums->nodes,
                                l->sums->n_nodes, images.first, shape->height, shape->width));
    l->lasting = n;
    if (n->C == 0) goto exit;
    LS_TRY(ls_net_slot(net, l, LS_BATCH_NORM_SCALE, &n->scale));
    LS_TRY(ls_net_slot(net, l, LS_BATCH_NORM_SHIFT, &n->shift));
    LS_TRY(ls_net_slot(net, l, LS_BATCH_NORM_MEAN, &n->running_mean));
    LS_TRY(ls_net_slot(net, l, LS_BATCH_NORM_VARIANCE, &n->running_variance));
exit:
    return status;
}

/* From the global batch, in two passes. */
static ls_status take_statistics(const ls_sharded_net *net, const ls_net_layer_state *l,
                                 const leaf_terms *terms)
{
    ls_status status = LS_OK;
    const norm *n = l->lasting;
    LS_TRY(ls_batch_norm_check(l->layer->name, n->count));
    LS_TRY(sum_over_batch(net, l, LS_POINT_BATCH_SUM, n->mean, n->C, sum_leaf, terms));
    ls_batch_norm_mean(n->mean, n->mean, n->count, n->C);
    LS_TRY(sum_over_batch(net, l, LS_POINT_BATCH_SQUARES, n->squares, n->C, squares_leaf, terms));
    ls_batch_norm_rstd(n->rstd, n->squares, n->count, l->layer->eps, n->C);
exit:
    return status;
}

static ls_status show(const ls_sharded_net *net, const ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const norm *n = l->lasting;
    const ls_view_run run = channels_of(l);
    LS_TRY(ls_net_show_row(net, l->number, LS_POINT_BATCH_MEAN, run, n->mean));
    LS_TRY(ls_net_show_row(net, l->number, LS_POINT_BATCH_RSTD, run, n->rstd));
exit:
    return status;
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    norm *n = l->lasting;
    const size_t C = n->C;
    if (C == 0) goto exit; /* nor has any other member of the group */
    LS_TRY(ls_arena_alloc(net->saved, C, sizeof *n->mean, (void *)&n->mean));
    LS_TRY(ls_arena_alloc(net->saved, C, sizeof *n->rstd, (void *)&n->rstd));
    const leaf_terms terms = {
        .x = x, .mean = n->mean, .x_layout = ls_net_layout_of(x_box), .channels = C};
    if (net->batch.training) {
        LS_TRY(ls_arena_alloc(net->saved, C, sizeof *n->squares, (void *)&n->squares));
        LS_TRY(take_statistics(net, l, &terms));
    } else {
        memcpy(n->mean, n->running_mean->value, C * sizeof *n->mean);
        ls_batch_norm_rstd(n->rstd, n->running_variance->value, 1, l->layer->eps, C);
    }
    LS_TRY(show(net, l));
    ls_batch_norm_forward(l->y, ls_net_layout_of(&l->own), x, terms.x_layout, outputs,
                          l->own.images.count, C, n->mean, n->rstd, n->scale->value,
                          n->shift->value);
exit:
    return status;
}

/* The running statistics take in those of the batch, on every rank that holds them alike. */
static void after(ls_sharded_net *net, ls_net_layer_state *l)
{
    const norm *n = l->lasting;
    if (n->C > 0 && net->batch.training)
        ls_batch_norm_running(n->running_mean->value, n->running_variance->value, n->mean,
                              n->squares, n->count, l->layer->momentum, n->C);
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const norm *n = l->lasting;
    const size_t C = n->C, mark = ls_arena_mark(net->temporary);
    const ls_net_input *in = &l->input[0];
    const ls_image_layout layout = ls_net_layout_of(&l->own);
    ls_real *gradients = NULL; /* dscale, dshift */
    if (C == 0) goto exit;
    const leaf_terms terms = {in->x,  l->dy, n->mean, n->rstd, ls_net_layout_of(&in->reads),
                              layout, C};
    LS_TRY(ls_arena_alloc(net->temporary, 2 * C, sizeof *gradients, (void *)&gradients));
    LS_TRY(sum_over_batch(net, l, LS_POINTS, gradients, 2 * C, gradient_leaf, &terms));
    memcpy(n->scale->grad[0], gradients, C * sizeof *gradients);
    memcpy(n->shift->grad[0], gradients + C, C * sizeof *gradients);
    if (dx[0] == NULL) goto exit;
    if (!net->batch.training) /* running statistics are constants: x moves neither */
        memset(gradients, 0, 2 * C * sizeof *gradients);
    ls_batch_norm_backward(dx[0], layout, l->dy, layout, in->x, terms.x_layout, l->own.area,
                           l->own.images.count, C, n->mean, n->rstd, n->scale->value, gradients,
                           gradients + C, n->count);
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(batch_norm) = {.sums = LS_NET_SUMS_OUTPUT,
                                                         .create = create,
                                                         .forward = forward,
                                                         .backward = backward,
                                                         .after = after};
