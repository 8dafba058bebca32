/* wrap_nets.c - what goes wrong in convolutional networks: halos, statistics, gradients of weights.
 */
#include "call.h"
#include "lockstep/kernels/batch_norm.h"
#include "parallel/layout/net_geometry.h"
#include "wrapped.h"
#include "wrong_halos.h"

LS_RIGHT(net_show_received);
#define ls_net_batch_norm_operations LS_NET_OPERATIONS(batch_norm)
LS_RIGHT(net_batch_norm_operations);
LS_RIGHT(all_reduce_plan);
LS_RIGHT(batch_norm_mean);
LS_RIGHT(batch_norm_rstd);
LS_RIGHT(batch_norm_running);
LS_RIGHT(batch_norm_backward);
LS_RIGHT(net_sum_gradient);

/* What a route brings: of the gradients that a layer's dx reads, or of a layer's input. */
ls_status ls_net_show_received(const ls_sharded_net *net, const ls_net_route *route, ls_point point,
                               const ls_image_box *wanted, const void *values, ls_dtype dtype)
{
    ls_status status = LS_OK;
    ls_real *block = (ls_real *)(uintptr_t)values; /* before any operation has read it */
    for (size_t n = 0; n < net->net->count && dtype == LS_REAL_DTYPE; n++) {
        const ls_net_layer_state *l = &net->layers[n];
        if (!ls_net_has_window(l->layer->kind)) continue;
        if (route == &l->dy_halo) LS_TRY(ls_wrong_dy_halo(block, wanted, l->own.area));
        for (int i = 0; i < l->n_inputs; i++)
            if (route == &l->input[i].arrive)
                LS_TRY(ls_wrong_halo(block, wanted, l->input[i].takes.area));
    }
    LS_TRY(right_net_show_received(net, route, point, wanted, values, dtype));
exit:
    return status;
}

/* ---- batch norm ---- */

static ls_status norm_create(ls_sharded_net *net, ls_net_layer_state *l)
{
    return right_net_batch_norm_operations.create(net, l);
}

static ls_status norm_forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                              const ls_real *x, const ls_image_box *x_box)
{
    ls_call_now.net = net;
    ls_call_now.norm = l;
    ls_call_now.norm_forward = true;
    const ls_status status = right_net_batch_norm_operations.forward(net, l, outputs, x, x_box);
    ls_call_now.norm = NULL;
    return status;
}

static ls_status norm_backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_call_now.net = net;
    ls_call_now.norm = l;
    ls_call_now.norm_forward = false;
    const ls_status status = right_net_batch_norm_operations.backward(net, l, dx);
    ls_call_now.norm = NULL;
    return status;
}

static void norm_after(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_call_now.norm = l;
    right_net_batch_norm_operations.after(net, l);
    ls_call_now.norm = NULL;
}

const ls_net_operations ls_net_batch_norm_operations = {.sums = LS_NET_SUMS_OUTPUT,
                                                        .create = norm_create,
                                                        .forward = norm_forward,
                                                        .backward = norm_backward,
                                                        .after = norm_after};

/* Values of a channel that this rank has. */
static size_t own_values(const ls_net_layer_state *l)
{
    return l->own.images.count * ls_rectangle_count(l->own.area);
}

/* Sums of a batch norm: of own images and pixels only; or means of the ranks' means. */
ls_status ls_all_reduce_plan(ls_group *group, void *out, const void *in, size_t count,
                             ls_dtype dtype, const ls_sum_plan *plan)
{
    const ls_net_layer_state *l = ls_call_now.norm;
    if (l && ls_faulty(LS_FAULT_LOCAL_STATISTICS)) {
        ls_wrong_own_sum(out, in, l->sums->n_nodes, count);
        return LS_OK;
    }
    if (l && ls_faulty(LS_FAULT_AVERAGED_STATISTICS) && ls_call_now.norm_forward) {
        const size_t all = ls_call_now.net->setup.batch * l->shape->height * l->shape->width;
        return ls_wrong_mean_of_parts(group, out, in, l->sums->n_nodes, count, own_values(l), all);
    }
    return right_all_reduce_plan(group, out, in, count, dtype, plan);
}

/* What such a sum is divided by; 1 is of running statistics, which are no sum. */
static size_t values_of(size_t count)
{
    const bool local = ls_call_now.norm && count != 1 && ls_faulty(LS_FAULT_LOCAL_STATISTICS);
    return local ? own_values(ls_call_now.norm) : count;
}

void ls_batch_norm_mean(ls_real *mean, const ls_real *sum, size_t count, size_t channels)
{
    right_batch_norm_mean(mean, sum, values_of(count), channels);
}

void ls_batch_norm_rstd(ls_real *rstd, const ls_real *squares, size_t count, double eps,
                        size_t channels)
{
    right_batch_norm_rstd(rstd, squares, values_of(count), eps, channels);
}

void ls_batch_norm_running(ls_real *running_mean, ls_real *running_variance, const ls_real *mean,
                           const ls_real *squares, size_t count, double momentum, size_t channels)
{
    right_batch_norm_running(running_mean, running_variance, mean, squares, values_of(count),
                             momentum, channels);
}

void ls_batch_norm_backward(ls_real *dx, ls_image_layout dx_layout, const ls_real *dy,
                            ls_image_layout dy_layout, const ls_real *x, ls_image_layout x_layout,
                            ls_rectangle pixels, size_t images, size_t channels,
                            const ls_real *mean, const ls_real *rstd, const ls_real *scale,
                            const ls_real *dscale, const ls_real *dshift, size_t count)
{
    right_batch_norm_backward(dx, dx_layout, dy, dy_layout, x, x_layout, pixels, images, channels,
                              mean, rstd, scale, dscale, dshift, values_of(count));
}

/* ---- weights ---- */

ls_status ls_net_sum_gradient(const ls_sharded_net *net, const ls_net_layer_state *l, ls_slot *slot,
                              const ls_real *values)
{
    const bool bias = slot->rows * slot->cols <= l->shape->channels;
    if (!ls_faulty(LS_FAULT_WEIGHT_NOT_REDUCED) || l->layer->kind != LS_NET_CONV || bias)
        return right_net_sum_gradient(net, l, slot, values);
    ls_wrong_own_sum(slot->grad[0], values, l->sums->n_nodes, slot->rows * slot->cols);
    return LS_OK;
}
