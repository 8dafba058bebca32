/* net_conv.c - convolution on a rank's block: y and dx with halos, never a sum over ranks but where
 * channels are cut; dW and db summed over the ranks of other images and pixels.
 *
 * With channels cut a rank makes the outputs of its own rows of the weight. They lie in whole
 * groups of the convolution, of which it has all input channels, or are a part of one group: then
 * it reads all channels of that group, and dx is finished together with the others of the group. */
#include "lockstep/kernels/conv2d.h"

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/pixel_sum.h"
#include "parallel/spatial/net_channel_sums.h"
#include "parallel/layout/net_geometry.h"
#include "parallel/spatial/net_leaves.h"

/* Several images of a node are one product each, added up behind: so a product needs room for one
 * image's columns. */
typedef struct weight_part {
    size_t first_piece, n_pieces;
    size_t closes; /* additions of parts that follow */
    bool last;     /* of a node */
} weight_part;

typedef struct conv_state {
    ls_conv2d conv; /* of the channels made here, and those that they read */
    ls_slot *weight, *bias;
    ls_net_channel_sums *sums;
    ls_net_leaves *leaves;
    ls_conv2d_piece *pieces;
    weight_part *parts;
    size_t n_parts, stack;
} conv_state;

/* ---- create ---- */

/* The convolution of the own outputs. Of the groups it has its own number: the groups of the layer
 * count channels that are elsewhere. */
static ls_conv2d conv_of(const ls_sharded_net *net, const ls_net_layer_state *l)
{
    const ls_net_layer *layer = l->layer;
    const ls_net_shape *in = l->input[0].shape;
    const size_t out_granules = l->shape->axis.granules / layer->groups; /* of a group */
    const size_t groups =
        l->granules.count > out_granules ? l->granules.count / out_granules : (size_t)1;
    return (ls_conv2d){.window = ls_net_window(layer, in),
                       .groups = groups,
                       .in_channels = groups * (in->channels / layer->groups),
                       .out_channels = l->granules.count * l->shape->axis.granule,
                       .in_granules = in->axis.granules / layer->groups,
                       .out_granules = l->granules.count / groups,
                       .grid = {net->net->row_granules, net->net->column_granules}};
}

/* Where the additions behind an image's last piece are those of the image itself, and where they
 * add up images: an image of n pieces has n - 1. */
static ls_status list_parts(ls_sharded_net *net, ls_net_layer_state *l, conv_state *state)
{
    ls_status status = LS_OK;
    const ls_net_leaves *leaves = state->leaves;
    const size_t image = l->sums->pixels.rows * l->sums->pixels.columns;
    weight_part *part = NULL;
    LS_TRY(ls_arena_alloc(net->lasting, leaves->n_leaves, sizeof *state->pieces,
                          (void *)&state->pieces));
    LS_TRY(ls_arena_alloc(net->lasting, leaves->n_leaves, sizeof *part, (void *)&part));
    state->parts = part;
    size_t next = 0;
    for (size_t j = 0; j < l->sums->n_nodes; j++) {
        const size_t n = l->sums->nodes[j].hi - l->sums->nodes[j].lo;
        const size_t each = n < image ? n : image;
        for (size_t done = 0; done < n; done += each, part++) {
            size_t held = 0;
            *part = (weight_part){next, each, 0, done + each == n};
            for (size_t i = 0; i < each; i++, next++) {
                const ls_net_leaf *leaf = &leaves->leaves[next];
                state->pieces[next] = (ls_conv2d_piece){leaf->image, leaf->pixels, leaf->closes};
                held += 1;
                if (i + 1 == each) {
                    part->closes = leaf->closes - (held - 1);
                    state->pieces[next].closes = held - 1;
                } else {
                    held -= leaf->closes;
                }
            }
        }
    }
    state->n_parts = (size_t)(part - state->parts);
    state->stack = leaves->stack;
exit:
    return status;
}

static ls_status create(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const size_t groups = l->layer->groups, each = l->shape->axis.granules / groups;
    conv_state *state = NULL;
    LS_TRY(ls_arena_zalloc(net->lasting, 1, sizeof *state, (void *)&state));
    l->lasting = state;
    state->conv = conv_of(net, l);
    LS_TRY(ls_net_slot(net, l, LS_CONV_WEIGHT, &state->weight));
    if (l->layer->bias) LS_TRY(ls_net_slot(net, l, LS_CONV_BIAS, &state->bias));
    LS_TRY(ls_net_leaves_create(&state->leaves, net->lasting, &l->sums->pixels, l->sums->nodes,
                                l->sums->n_nodes, l->own.images.first, l->shape->height,
                                l->shape->width));
    LS_TRY(list_parts(net, l, state));
    if (l->input[0].from == LS_NET_IMAGE) goto exit;
    const size_t sharers = l->granules.count < each ? each / l->granules.count : 1;
    const size_t read = state->conv.in_channels / state->conv.groups;
    const ls_share channels = {l->granules.first / each * read, state->conv.in_channels};
    LS_TRY(ls_net_channel_sums_create(
        &state->sums, net, l, (size_t)l->at.channel / sharers * sharers, sharers, channels));
exit:
    return status;
}

/* ---- forward ---- */

static ls_status take_scratch(ls_sharded_net *net, const ls_conv2d *conv, size_t images,
                              ls_real **ret_scratch)
{
    return ls_arena_alloc(net->temporary, ls_conv2d_scratch(conv, images), sizeof **ret_scratch,
                          (void *)ret_scratch);
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    const conv_state *state = l->lasting;
    const size_t mark = ls_arena_mark(net->temporary), images = l->own.images.count;
    ls_real *scratch = NULL;
    LS_TRY(take_scratch(net, &state->conv, images, &scratch));
    LS_TRY(ls_conv2d_forward(net->setup.engine, &state->conv, images, l->y,
                             ls_net_layout_of(&l->own), outputs, x, ls_net_layout_of(x_box),
                             state->weight->value, ls_conv2d_depth(&state->conv),
                             state->bias ? state->bias->value : NULL, scratch));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

/* ---- backward: parameters ---- */

/* values: for each node the weight's gradient, from the products of its parts. */
static ls_status weight_nodes(ls_sharded_net *net, ls_net_layer_state *l, ls_real *values,
                              size_t count)
{
    ls_status status = LS_OK;
    const conv_state *state = l->lasting;
    const ls_net_input *input = &l->input[0];
    const size_t mark = ls_arena_mark(net->temporary);
    size_t most = 0, held = 0;
    ls_real *scratch = NULL, *above = NULL; /* the stack but for its lowest place */
    for (size_t i = 0; i < state->n_parts; i++) {
        const weight_part *part = &state->parts[i];
        const size_t room =
            ls_conv2d_node_scratch(&state->conv, state->pieces + part->first_piece, part->n_pieces);
        if (room > most) most = room;
    }
    LS_TRY(ls_arena_alloc(net->temporary, most, sizeof *scratch, (void *)&scratch));
    LS_TRY(ls_arena_alloc(net->temporary, state->stack * count, sizeof *above, (void *)&above));
    for (size_t i = 0; i < state->n_parts; i++) {
        const weight_part *part = &state->parts[i];
        LS_TRY(ls_conv2d_weight_node(
            net->setup.engine, &state->conv, held == 0 ? values : above + (held - 1) * count,
            ls_conv2d_depth(&state->conv), state->pieces + part->first_piece, part->n_pieces, l->dy,
            ls_net_layout_of(&l->own), input->x, ls_net_layout_of(&input->reads), scratch));
        held++;
        for (size_t k = part->closes; k > 0; k--, held--) {
            ls_real *lower = held == 2 ? values : above + (held - 3) * count;
            ls_add(lower, lower, above + (held - 2) * count, count);
        }
        if (!part->last) continue;
        values += count;
        held = 0;
    }
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

static void bias_leaf(ls_real *value, const void *context, const ls_net_leaf *leaf)
{
    const ls_net_layer_state *l = context;
    const ls_image_layout layout = ls_net_layout_of(&l->own);
    const conv_state *state = l->lasting;
    const size_t at = ls_rectangle_is_empty(leaf->pixels) ? 0 : leaf->image * layout.stride;
    ls_pixel_sum(value, l->dy + at, layout, leaf->pixels, state->conv.out_channels);
}

static ls_status backward_parameters(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const conv_state *state = l->lasting;
    const ls_net_sums *sums = l->sums;
    const size_t mark = ls_arena_mark(net->handed), channels = state->conv.out_channels;
    const size_t count = channels * ls_conv2d_depth(&state->conv);
    ls_real *values = NULL;
    LS_TRY(ls_arena_alloc(net->handed, sums->n_nodes * count, sizeof *values, (void *)&values));
    LS_TRY(weight_nodes(net, l, values, count));
    LS_TRY(ls_net_sum_gradient(net, l, state->weight, values));
    if (state->bias == NULL) goto exit;
    /* y += b: db = the sum of dy over images and pixels (rule 9) */
    LS_TRY(ls_net_leaf_sums(values, channels, state->leaves, bias_leaf, l, net->temporary));
    LS_TRY(ls_net_sum_gradient(net, l, state->bias, values));
exit:
    ls_arena_release(net->handed, mark);
    return status;
}

/* ---- backward: dx ---- */

/* dx of `box` from the outputs of the granules `from` .. from + count of the own ones; count 0:
 * all. dy: the block read_by. */
static ls_status backward_granules(ls_sharded_net *net, const ls_net_layer_state *l, ls_real *dx,
                                   const ls_image_box *box, const ls_real *dy, ls_share granules)
{
    ls_status status = LS_OK;
    const conv_state *state = l->lasting;
    const size_t mark = ls_arena_mark(net->temporary), granule = l->shape->axis.granule;
    const size_t depth = ls_conv2d_depth(&state->conv);
    const size_t plane = ls_rectangle_count(l->read_by.area);
    ls_conv2d conv = state->conv;
    ls_real *scratch = NULL;
    if (state->sums) { /* a part of one group */
        conv.out_granules = granules.count;
        conv.out_channels = granules.count * granule;
    }
    LS_TRY(take_scratch(net, &conv, box->images.count, &scratch));
    LS_TRY(ls_conv2d_backward(
        net->setup.engine, &conv, box->images.count, dx, ls_net_layout_of(box), box->area,
        dy + granules.first * granule * plane, ls_net_layout_of(&l->read_by),
        state->weight->value + granules.first * granule * depth, depth, scratch));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

static ls_status backward_input(ls_sharded_net *net, ls_net_layer_state *l, ls_real *dx,
                                const ls_real *dy)
{
    ls_status status = LS_OK;
    const conv_state *state = l->lasting;
    const ls_net_channel_sums *sums = state->sums;
    const size_t mark = ls_arena_mark(net->handed);
    ls_real *parts = NULL;
    if (sums == NULL) {
        LS_TRY(backward_granules(net, l, dx, &l->input[0].takes, dy, (ls_share){0, 0}));
        goto exit;
    }
    LS_TRY(ls_net_channel_sums_take(net, sums, &parts));
    for (size_t j = 0; j < sums->n_nodes; j++) {
        const ls_node node = sums->nodes[j];
        LS_TRY(backward_granules(net, l, parts + j * ls_image_box_count(&sums->box), &sums->box, dy,
                                 (ls_share){node.lo - sums->first, node.hi - node.lo}));
    }
    LS_TRY(ls_net_channel_sums_finish(net, l, sums, parts, dx));
exit:
    ls_arena_release(net->handed, mark);
    return status;
}

/* The neighbours' dy are there; NULL: they were before. */
static ls_status end_halo(ls_sharded_net *net, const ls_net_layer_state *l, ls_exchange **exchange,
                          ls_real *halo)
{
    ls_status status = LS_OK;
    if (*exchange == NULL) return LS_OK;
    LS_TRY(ls_exchange_end(exchange));
    LS_TRY(
        ls_net_show_received(net, &l->dy_halo, LS_POINT_OUTPUT, &l->read_by, halo, LS_REAL_DTYPE));
exit:
    return status;
}

/* With overlap the neighbours' dy come while the weight's gradient is made, which needs none of
 * them. */
static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const ls_real *dy = l->dy;
    ls_real *halo = NULL;
    ls_exchange *exchange = NULL;
    if (dx[0] != NULL && l->dy_halo.needed) {
        LS_TRY(ls_arena_alloc(net->temporary, ls_image_box_count(&l->read_by), sizeof *halo,
                              (void *)&halo));
        LS_TRY(ls_net_show_sent(net, &l->dy_halo, LS_POINT_OUTPUT, &l->own, l->dy, LS_REAL_DTYPE));
        LS_TRY(ls_net_begin(net, &l->dy_halo, &l->own, l->dy, &l->read_by, halo, LS_REAL_DTYPE,
                            &exchange));
        dy = halo;
    }
    if (!net->layout.overlap) LS_TRY(end_halo(net, l, &exchange, halo));
    LS_TRY(backward_parameters(net, l));
    LS_TRY(end_halo(net, l, &exchange, halo));
    if (dx[0] != NULL) LS_TRY(backward_input(net, l, dx[0], dy));
exit:
    ls_exchange_cancel(&exchange);
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(conv) = {.sums = LS_NET_SUMS_OUTPUT,
                                                   .create = create,
                                                   .forward = forward,
                                                   .parts = true,
                                                   .backward = backward};
