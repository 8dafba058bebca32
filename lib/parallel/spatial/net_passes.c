/* net_passes.c - a convolutional network forward and backward on a rank: what is where, what
 * is exchanged, and when. The arithmetic is that of the kinds (net_conv.c, ...). */
#include <stdint.h>

#include "lockstep/comm/trace.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/spatial/box_exchange.h"
#include "parallel/spatial/net_layer_state.h"
#include "parallel/layout/net_geometry.h"
#include "parallel/spatial/net_loss.h"

/* Messages of a network; only their order tells them apart. */

/* ---- labels of a trace ---- */

static void label(const ls_sharded_net *net, const char *part, const char *purpose)
{
    ls_trace_part(ls_group_owner(net->setup.world), part, purpose);
}

/* What the blocks of an input, or of its gradient, are exchanged for. */
static void label_exchange(const ls_sharded_net *net, const ls_net_layer_state *l,
                           const ls_net_input *input)
{
    const ls_layer_grid from = ls_net_grid_at(&net->grids, input->from);
    label(net, l->layer->name, ls_net_exchange_purpose(l->layer, from, l->grid));
}

/* Room for a block. */
static ls_status take(ls_arena *arena, const ls_image_box *box, ls_real **ret_block)
{
    return ls_arena_alloc(arena, ls_image_box_count(box), sizeof **ret_block, (void *)ret_block);
}

/* ---- forward ---- */

/* A block of the image, from the batch: it is not sent. */
static ls_status take_image(ls_sharded_net *net, ls_net_input *input)
{
    ls_status status = LS_OK;
    const ls_image_box *box = &input->reads;
    const ls_rectangle area = box->area;
    const size_t rows = net->net->height, columns = net->net->width;
    ls_real *x = NULL;
    LS_TRY(take(net->saved, box, &x));
    input->x = x;
    for (size_t n = 0; n < box->images.count; n++)
        for (size_t c = 0; c < box->channels.count; c++) {
            const size_t image = box->images.first + n - net->batch.first;
            const float *from = net->batch.images + image * net->batch.pixels +
                                (box->channels.first + c) * rows * columns + area.left;
            for (size_t r = area.top; r < area.top + area.height; r++)
                for (size_t i = 0; i < area.width; i++) *x++ = (ls_real)from[r * columns + i];
        }
exit:
    return status;
}

/* What is left of `own` around `inner`: above, below, left, right. Returns how many. */
static size_t around(ls_rectangle own, ls_rectangle inner, ls_rectangle ret_rest[4])
{
    const size_t bottom = inner.top + inner.height, right = inner.left + inner.width;
    const ls_rectangle rest[4] = {{own.top, own.left, inner.top - own.top, own.width},
                                  {bottom, own.left, own.top + own.height - bottom, own.width},
                                  {inner.top, own.left, inner.height, inner.left - own.left},
                                  {inner.top, right, inner.height, own.left + own.width - right}};
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        if (!ls_rectangle_is_empty(rest[i])) ret_rest[n++] = rest[i];
    return n;
}

/* Makes y, waiting for `exchange` where something is still to come; with overlap what needs
 * nothing of it is made first. */
static ls_status make_outputs(ls_sharded_net *net, ls_net_layer_state *l, ls_exchange **exchange)
{
    ls_status status = LS_OK;
    ls_net_input *input = &l->input[0];
    ls_rectangle rest[4] = {l->own.area};
    size_t n_rest = 1;
    if (!ls_rectangle_is_empty(input->inner)) {
        LS_TRY(
            l->operations->forward(net, l, input->inner, net->layers[input->from].y, &input->has));
        n_rest = around(l->own.area, input->inner, rest);
    }
    for (int i = 0; i < l->n_inputs; i++) {
        const ls_net_input *in = &l->input[i];
        LS_TRY(ls_exchange_end(&exchange[i]));
        if (!in->arrive.needed) continue;
        LS_TRY(ls_net_show_received(net, &in->arrive, LS_POINT_OUTPUT, &in->reads, in->x,
                                    LS_REAL_DTYPE));
    }
    for (size_t i = 0; i < n_rest; i++)
        LS_TRY(l->operations->forward(net, l, rest[i], input->x, &input->reads));
exit:
    return status;
}

static ls_status forward_layer(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    ls_exchange *exchange[2] = {NULL, NULL};
    label(net, l->layer->name, NULL);
    l->saved = NULL;
    LS_TRY(take(net->saved, &l->own, &l->y));
    for (int i = 0; i < l->n_inputs; i++) {
        ls_net_input *input = &l->input[i];
        if (input->from == LS_NET_IMAGE) {
            LS_TRY(take_image(net, input));
        } else if (!input->arrive.needed) {
            input->x = net->layers[input->from].y;
        } else {
            const ls_real *from = net->layers[input->from].y;
            ls_real *x = NULL;
            LS_TRY(take(net->saved, &input->reads, &x));
            label_exchange(net, l, input);
            LS_TRY(ls_net_show_sent(net, &input->arrive, LS_POINT_OUTPUT, &input->has, from,
                                    LS_REAL_DTYPE));
            LS_TRY(ls_net_begin(net, &input->arrive, &input->has, from, &input->reads, x,
                                LS_REAL_DTYPE, &exchange[i]));
            input->x = x;
        }
    }
    LS_TRY(make_outputs(net, l, exchange));
    LS_TRY(ls_net_show_block(net, l->number, false, &l->own, l->y));
exit:
    for (int i = 0; i < 2; i++) ls_exchange_cancel(&exchange[i]);
    return status;
}

ls_status ls_sharded_net_forward(ls_sharded_net *net, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_real loss = 0;
    net->forward_done = false;
    ls_arena_release(net->saved, 0);
    LS_TRY(ls_net_check_batch(net, batch));
    net->batch = *batch;
    for (size_t n = 0; n < net->net->count; n++) {
        LS_TRY(ls_rank_check(ls_group_owner(net->setup.world)));
        LS_TRY(forward_layer(net, &net->layers[n]));
    }
    label(net, "loss", NULL);
    LS_TRY(ls_net_loss_forward(net, &loss));
    for (size_t n = 0; n < net->net->count; n++)
        if (net->layers[n].operations->after)
            net->layers[n].operations->after(net, &net->layers[n]);
    net->forward_done = true;
    *ret_loss = loss;
exit:
    return status;
}

/* ---- backward ---- */

/* l->dy: what the readers of the output gave, ascending by reader, from left to right. (They gave
 * it in descending order.) */
static ls_status add_up(ls_sharded_net *net, ls_net_layer_state *l)
{
    const size_t count = ls_image_box_count(&l->own);
    l->dy = NULL;
    for (size_t r = l->number + 1; r < net->net->count; r++)
        for (int i = 0; i < net->layers[r].n_inputs; i++) {
            ls_net_input *input = &net->layers[r].input[i];
            if (input->from != (int)l->number) continue;
            if (l->dy == NULL)
                l->dy = input->dx;
            else
                ls_add(l->dy, l->dy, input->dx, count);
        }
    return ls_net_show_block(net, l->number, true, &l->own, l->dy);
}

static ls_status backward_layer(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    ls_exchange *exchange[2] = {NULL, NULL};
    /* Messages that come first are of the gradient of its output. */
    label(net, l->layer->name, ls_net_has_window(l->layer->kind) ? "halo" : "gradient");
    ls_real *dx[2] = {NULL, NULL};
    for (int i = 0; i < l->n_inputs; i++) {
        ls_net_input *input = &l->input[i];
        if (input->from == LS_NET_IMAGE) continue;
        LS_TRY(take(net->layers[input->from].gradients, &input->has, &input->dx));
        dx[i] = input->dx;
        if (input->leave.needed) LS_TRY(take(net->temporary, &input->takes, &dx[i]));
    }
    if (l->operations->backward) LS_TRY(l->operations->backward(net, l, dx));
    for (int i = 0; i < l->n_inputs; i++) {
        ls_net_input *input = &l->input[i];
        if (dx[i] == NULL || !input->leave.needed) continue;
        label_exchange(net, l, input);
        LS_TRY(ls_net_show_sent(net, &input->leave, LS_POINT_OUTPUT, &input->takes, dx[i],
                                LS_REAL_DTYPE));
        LS_TRY(ls_net_begin(net, &input->leave, &input->takes, dx[i], &input->has, input->dx,
                            LS_REAL_DTYPE, &exchange[i]));
    }
    for (int i = 0; i < l->n_inputs; i++) {
        ls_net_input *input = &l->input[i];
        LS_TRY(ls_exchange_end(&exchange[i]));
        if (dx[i] && input->leave.needed)
            LS_TRY(ls_net_show_received(net, &input->leave, LS_POINT_OUTPUT, &input->has, input->dx,
                                        LS_REAL_DTYPE));
    }
exit:
    for (int i = 0; i < 2; i++) ls_exchange_cancel(&exchange[i]);
    ls_arena_release(net->temporary, mark);
    return status;
}

ls_status ls_sharded_net_backward(ls_sharded_net *net)
{
    ls_status status = LS_OK;
    const size_t last = net->net->count - 1;
    if (!net->forward_done)
        LS_FAIL(LS_ERR_INPUT, "a backward pass follows a forward pass, each of them once");
    net->forward_done = false;
    label(net, "loss", NULL);
    LS_TRY(take(net->layers[last].gradients, &net->layers[last].own, &net->layers[last].dy));
    ls_net_loss_backward(net, net->layers[last].dy);
    for (size_t n = net->net->count; n-- > 0;) {
        ls_net_layer_state *l = &net->layers[n];
        LS_TRY(ls_rank_check(ls_group_owner(net->setup.world)));
        if (n < last) LS_TRY(add_up(net, l));
        if (n == last) LS_TRY(ls_net_show_block(net, n, true, &l->own, l->dy));
        LS_TRY(backward_layer(net, l));
        l->dy = NULL;
        ls_arena_release(l->gradients, 0);
    }
    ls_arena_release(net->saved, 0);
exit:
    return status;
}
