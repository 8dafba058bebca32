/* net_relu.c - max(x, 0): what has the block has all that it needs. */
#include "lockstep/kernels/activation.h"
#include "parallel/spatial/net_layer_state.h"

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    (void)net;
    (void)outputs; /* the whole block */
    (void)x_box;
    ls_relu_forward(l->y, x, ls_image_box_count(&l->own));
    return LS_OK;
}

/* y = max(x, 0): from y, not from x */
static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    (void)net;
    if (dx[0]) ls_relu_backward(dx[0], l->dy, l->y, ls_image_box_count(&l->own));
    return LS_OK;
}

const ls_net_operations LS_NET_OPERATIONS(relu) = {.forward = forward, .backward = backward};
