/* net_global_pool.c - the mean over all pixels of an image that lies on several ranks.
 *
 * Members with the same images and channels sum along the tree over granule rectangles and divide
 * once; a mean of the members' means would weigh unequal shares alike. The one pixel that comes out
 * lies in the last granule (rule 9), so it belongs to the last of the members; backward, its
 * gradient goes to all of them. */
#include "lockstep/kernels/batch_norm.h"
#include "lockstep/kernels/pixel_sum.h"
#include "lockstep/kernels/pooling.h"
#include "parallel/spatial/net_layer_state.h"
#include "parallel/spatial/net_leaves.h"

typedef struct pooling {
    ls_net_leaves *leaves;   /* of this member's part of an image, the same in all images */
    size_t images, channels; /* also of a member that has no pixels                       */
    size_t pixels;           /* of an image */
    ls_view sum;             /* what the members make */
} pooling;

static ls_status create(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    const ls_net_shape *in = l->input[0].shape;
    pooling *p = NULL;
    LS_TRY(ls_arena_zalloc(net->lasting, 1, sizeof *p, (void *)&p));
    const ls_share images =
        ls_share_of(net->setup.batch, (size_t)l->grid.samples, (size_t)l->at.sample);
    const size_t granule = l->shape->axis.granule;
    p->images = images.count;
    p->channels = l->granules.count * granule;
    p->sum = (ls_view){.point = LS_POINT_PIXEL_SUM,
                       .n_dims = 2,
                       .dims = {{net->setup.batch, images.first, images.count},
                                {in->channels, l->granules.first * granule, p->channels}}};
    p->pixels = in->height * in->width;
    LS_TRY(ls_net_leaves_create(&p->leaves, net->lasting, &l->sums->image_pixels,
                                l->sums->image_nodes, l->sums->n_image_nodes, 0, in->height,
                                in->width));
    l->lasting = p;
exit:
    return status;
}

typedef struct block {
    const pooling *p;
    const ls_real *x;
    ls_image_layout layout;
} block;

/* A granule in all images, images x channels. */
static void sum_leaf(ls_real *value, const void *context, const ls_net_leaf *leaf)
{
    const block *b = context;
    for (size_t n = 0; n < b->p->images; n++)
        ls_pixel_sum(value + n * b->p->channels, b->x + n * b->layout.stride, b->layout,
                     leaf->pixels, b->p->channels);
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    const pooling *p = l->lasting;
    const size_t count = p->images * p->channels, mark = ls_arena_mark(net->temporary);
    const size_t handed = ls_arena_mark(net->handed);
    const block b = {p, x, ls_net_layout_of(x_box)};
    ls_real *nodes = NULL, *sum = NULL;
    (void)outputs;             /* one pixel, or none */
    if (count == 0) goto exit; /* nor has any other of the members */
    LS_TRY(ls_arena_alloc(net->handed, p->leaves->n_nodes * count, sizeof *nodes, (void *)&nodes));
    LS_TRY(ls_arena_alloc(net->temporary, count, sizeof *sum, (void *)&sum));
    LS_TRY(ls_net_leaf_sums(nodes, count, p->leaves, sum_leaf, &b, net->temporary));
    LS_TRY(ls_net_show_pixel_sum(net, l, true, &p->sum, nodes, true));
    LS_TRY(ls_all_reduce_plan(l->sums->image_members, sum, nodes, count, LS_REAL_DTYPE,
                              l->sums->image_plan));
    LS_TRY(ls_net_show_pixel_sum(net, l, true, &p->sum, sum, false));
    if (ls_image_box_is_empty(&l->own)) goto exit; /* another member has the pixel */
    ls_batch_norm_mean(l->y, sum, p->pixels, count);
exit:
    ls_arena_release(net->temporary, mark);
    ls_arena_release(net->handed, handed);
    return status;
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const pooling *p = l->lasting;
    const ls_image_box *takes = &l->input[0].takes;
    const ls_real *dy = NULL;
    if (dx[0] == NULL) goto exit;
    LS_TRY(ls_net_dy_halo(net, l, &dy));
    ls_global_pool_backward(dx[0], ls_net_layout_of(takes), takes->area, takes->images.count,
                            takes->channels.count, dy, p->pixels);
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(global_pool) = {
    .sums = LS_NET_SUMS_INPUT, .create = create, .forward = forward, .backward = backward};
