/* net_dense.c - y = x W + b on all elements of an image, by columns of W where channels are cut.
 *
 *     forward    every rank reads its images whole and makes its own columns of y
 *     dW, db     T over the images: its own columns, finished across the ranks of other images
 *     dx         a part per node of its own columns' granules, finished across the columns */
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "parallel/spatial/net_channel_sums.h"

typedef struct dense_state {
    ls_slot *weight, *bias;
    ls_axis in, out; /* read; made here */
    ls_net_channel_sums *sums;
} dense_state;

static ls_status create(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const ls_net_shape *in = l->input[0].shape;
    dense_state *state = NULL;
    if (l->grid.down > 1 || l->grid.across > 1)
        LS_FAIL(LS_ERR_INPUT,
                "layer %s: a grid of %d x %d ranks over one pixel: a dense layer is cut by samples "
                "and channels",
                l->layer->name, l->grid.down, l->grid.across);
    LS_TRY(ls_arena_zalloc(net->lasting, 1, sizeof *state, (void *)&state));
    LS_TRY(ls_net_slot(net, l, LS_DENSE_WEIGHT, &state->weight));
    if (l->layer->bias) LS_TRY(ls_net_slot(net, l, LS_DENSE_BIAS, &state->bias));
    /* The axis that is read: granules of channels, each with all its pixels. */
    state->in = ls_axis_of(in->axis.granules, in->axis.granule * in->height * in->width);
    state->out = ls_axis_of(l->granules.count, l->shape->axis.granule);
    if (l->input[0].from != LS_NET_IMAGE)
        LS_TRY(ls_net_channel_sums_create(&state->sums, net, l, 0, (size_t)l->grid.channels,
                                          (ls_share){0, in->channels}));
    l->lasting = state;
exit:
    return status;
}

/* Rows of a product are images, each a granule by itself (rule 9). */
static ls_axis images_of(const ls_image_box *box)
{
    return ls_axis_of(box->images.count, 1);
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    const dense_state *state = l->lasting;
    const size_t n_in = ls_axis_extent(state->in), n_out = ls_axis_extent(state->out);
    (void)outputs; /* one pixel */
    (void)x_box;
    LS_TRY(ls_gemm(net->setup.engine, LS_NO_TRANS, LS_NO_TRANS, images_of(&l->own), state->out,
                   state->in, x, n_in, state->weight->value, n_out, l->y, n_out, false));
    if (state->bias) ls_add_bias(l->y, state->bias->value, l->own.images.count, n_out, n_out);
exit:
    return status;
}

/* y = x W + b: dW = x^T dy and db = sum of dy, an image a leaf. */
static ls_status backward_weight(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const dense_state *state = l->lasting;
    const ls_net_sums *sums = l->sums;
    const size_t n_in = ls_axis_extent(state->in), n_out = ls_axis_extent(state->out);
    const size_t mark = ls_arena_mark(net->handed), count = n_in * n_out;
    ls_real *weight = NULL, *bias = NULL;
    LS_TRY(ls_arena_alloc(net->handed, sums->n_nodes * count, sizeof *weight, (void *)&weight));
    LS_TRY(ls_arena_alloc(net->handed, sums->n_nodes * n_out, sizeof *bias, (void *)&bias));
    for (size_t j = 0; j < sums->n_nodes; j++) {
        const size_t at = sums->nodes[j].lo - l->own.images.first;
        const ls_axis images = ls_axis_of(sums->nodes[j].hi - sums->nodes[j].lo, 1);
        const ls_real *x = l->input[0].x + at * n_in, *dy = l->dy + at * n_out;
        LS_TRY(ls_gemm(net->setup.engine, LS_TRANS, LS_NO_TRANS, state->in, state->out, images, x,
                       n_in, dy, n_out, weight + j * count, n_out, false));
        if (state->bias)
            ls_tree_sum_rows(bias + j * n_out, dy, ls_axis_whole(images.granules), n_out, n_out);
    }
    LS_TRY(ls_net_sum_gradient(net, l, state->weight, weight));
    if (state->bias) LS_TRY(ls_net_sum_gradient(net, l, state->bias, bias));
exit:
    ls_arena_release(net->handed, mark);
    return status;
}

/* dx = dy W^T over the columns lo .. hi of the own granules. */
static ls_status backward_columns(const ls_sharded_net *net, const ls_net_layer_state *l,
                                  ls_real *dx, ls_share granules)
{
    const dense_state *state = l->lasting;
    const size_t n_in = ls_axis_extent(state->in), n_out = ls_axis_extent(state->out);
    const size_t first = granules.first * state->out.granule;
    return ls_gemm(net->setup.engine, LS_NO_TRANS, LS_TRANS, images_of(&l->own), state->in,
                   ls_axis_of(granules.count, state->out.granule), l->dy + first, n_out,
                   state->weight->value + first, n_out, dx, n_in, false);
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const dense_state *state = l->lasting;
    const ls_net_channel_sums *sums = state->sums;
    const size_t mark = ls_arena_mark(net->handed);
    ls_real *parts = NULL;
    LS_TRY(backward_weight(net, l));
    if (dx[0] == NULL) goto exit;
    if (sums == NULL) {
        LS_TRY(backward_columns(net, l, dx[0], (ls_share){0, state->out.granules}));
        goto exit;
    }
    LS_TRY(ls_net_channel_sums_take(net, sums, &parts));
    for (size_t j = 0; j < sums->n_nodes; j++) {
        const ls_node node = sums->nodes[j];
        LS_TRY(backward_columns(net, l, parts + j * ls_image_box_count(&sums->box),
                                (ls_share){node.lo - sums->first, node.hi - node.lo}));
    }
    LS_TRY(ls_net_channel_sums_finish(net, l, sums, parts, dx[0]));
exit:
    ls_arena_release(net->handed, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(dense) = {
    .sums = LS_NET_SUMS_OUTPUT, .create = create, .forward = forward, .backward = backward};
