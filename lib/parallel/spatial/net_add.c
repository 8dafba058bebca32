/* net_add.c - the sum of two outputs of one shape: where a shortcut meets what it went around. */
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "parallel/spatial/net_layer_state.h"

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    (void)net;
    (void)outputs; /* not in parts: all three are the own block */
    (void)x_box;
    ls_add(l->y, x, l->input[1].x, ls_image_box_count(&l->own));
    return LS_OK;
}

/* y = a + b: each gets dy. */
static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    (void)net;
    const size_t count = ls_image_box_count(&l->own);
    for (int i = 0; i < 2; i++)
        if (dx[i] != NULL && count > 0) memcpy(dx[i], l->dy, count * sizeof *l->dy);
    return LS_OK;
}

const ls_net_operations LS_NET_OPERATIONS(add) = {.forward = forward, .backward = backward};
