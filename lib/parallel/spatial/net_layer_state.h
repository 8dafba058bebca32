/* net_layer_state.h - what is inside ls_sharded_net: the state of a layer on a rank, and what a
 * kind of layer has to do.
 *
 * The engine (net_passes.c) knows boxes and exchanges, and no arithmetic; a kind (net_conv.c, ...)
 * knows its arithmetic on the blocks that it is given, and what it sums over ranks. Forward of a
 * layer:
 *
 *     engine   x := what this rank reads of the layer's input (exchange, or the block as it is)
 *     kind     y := this rank's block of the output
 *
 * Backward, in descending order of layers:
 *
 *     engine   dy := gradient of the block: sum of what the readers gave, ascending by reader
 *     kind     parameter gradients; dx := gradient of this rank's block of the INPUT in the layer's
 *              own grid (`takes`), with the exchanges of dy that it needs
 *     engine   dx to the owners of the input, where these are others
 */
#ifndef LS_PARALLEL_SPATIAL_NET_LAYER_STATE_H
#define LS_PARALLEL_SPATIAL_NET_LAYER_STATE_H

#include "lockstep/comm/exchange.h"
#include "lockstep/comm/sum_plan.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/parallel/spatial/sharded_net.h"
#include "parallel/spatial/net_sums.h"

/* The boxes that this rank sends and receives, computed once. needed: it sends something, or wants
 * another block than it has; without, the block is where it is and the rank takes no part. */
typedef struct ls_net_route {
    int of;        /* the layer whose output passes, */
    bool gradient; /* or the gradient of that        */
    bool needed;
    ls_transfer *transfers; /* those from or to this rank; freed with free() */
    size_t n_transfers;
} ls_net_route;

/* One input of a layer (an ADD has two). */
#define ls_net_input LS_TYPED(ls_net_input)
typedef struct ls_net_input {
    int from; /* layer or LS_NET_IMAGE */
    const ls_net_shape *shape;
    ls_image_box has;    /* the own block of the input in the grid that it is made in       */
    ls_image_box reads;  /* of the input, to make the own block of the output; of a window all of
                            `has` when that has it                                           */
    ls_image_box takes;  /* where this rank makes dx: ls_net_takes, mostly the own block of the
                            input in the layer's grid                                       */
    ls_net_route arrive; /* owners' blocks -> reads; none of the image: the batch has it    */
    ls_net_route leave;  /* takes -> owners' blocks, of dx                                  */
    const ls_real *x;    /* the block `reads`, from forward to backward                     */
    ls_rectangle inner;  /* outputs that read nothing but `has`, made before the others with
                            overlap; else empty                                             */
    ls_real *dx;         /* the gradient of `has` from this reader, until the layer that made it
                            adds them up; NULL of the image                                 */
} ls_net_input;

#define ls_net_layer_state LS_TYPED(ls_net_layer_state)
typedef struct ls_net_layer_state {
    const ls_net_layer *layer;
    size_t number;
    ls_layer_grid grid;
    ls_grid_place at;          /* where this rank is in it */
    const ls_net_shape *shape; /* of the output */
    ls_image_box own;          /* the block of the output; all zero when empty      */
    ls_share granules;         /* of the output's channel axis, also with an empty block */
    int n_inputs;
    ls_net_input input[2];
    ls_net_route dy_halo; /* owners' blocks of dy -> read_by                            */
    ls_image_box read_by; /* the outputs whose gradients dx of `takes` needs; of a window all of
                             `own` when that has them; empty where dx is not wanted */
    ls_net_sums *sums;    /* over images and pixels (net_sums.h), of the layer's grid;
                             shared by layers of one grid                               */
    ls_group *columns;    /* members that have the same images and pixels and other channels, by
                             channels ascending; NULL where channels are not cut        */
    ls_arena *gradients;  /* dy, and what the readers give                              */
    const struct LS_TYPED(ls_net_operations) * operations;
    ls_real *y;    /* the own block, in net->saved: from forward to backward      */
    ls_real *dy;   /* its gradient, during the backward pass                     */
    void *saved;   /* what the kind keeps from forward to backward, in net->saved; NULL at its first
                     call of a forward pass */
    void *lasting; /* what the kind made in `create`; in net->lasting            */
} ls_net_layer_state;

struct ls_sharded_net {
    ls_sharded_net_setup setup;
    ls_layout layout; /* setup.layout points here */
    ls_store *store;
    const ls_net *net;
    ls_net_shapes shapes;
    ls_net_grids grids;
    ls_memory *memory;
    ls_arena *lasting;   /* as long as the network; tables, on no account */
    ls_arena *saved;     /* from forward to backward                     */
    ls_arena *temporary; /* during one call of a kind, which gives back what it took */
    ls_arena *handed;    /* the same, for what goes into a reduction     */
    ls_net_layer_state *layers;
    ls_net_sums **sums; /* all different ones */
    size_t n_sums;
    ls_net_sums *loss_sums; /* of the last layer's grid, a leaf an image */
    ls_batch batch;         /* of the pass under way */
    bool forward_done;
    ls_real *max, *sum_exp; /* of the rows of logits that this rank has, from forward to backward */
};

/* What a kind of layer does. create and backward may be NULL where there is nothing to do. Every
 * member of the world calls each of them for the same layer at the same time, also with an empty
 * block. */
typedef enum ls_net_summed {
    LS_NET_NO_SUMS = 0,
    LS_NET_SUMS_OUTPUT, /* over the images and pixels of its output, */
    LS_NET_SUMS_INPUT   /* or of its input                           */
} ls_net_summed;

#define ls_net_operations LS_TYPED(ls_net_operations)
typedef struct ls_net_operations {
    ls_net_summed sums; /* what the sums of ls_net_layer_state go over */
    /* Once: tables, splits of groups. */
    ls_status (*create)(ls_sharded_net *net, ls_net_layer_state *l);
    /* The rectangle `outputs` of the own block l->y, from x, which holds box x_box of the input:
     * the whole block `reads`; with `parts` also the own block of the input, for the outputs that
     * read nothing else. (input[1], if there is one: l->input[1].x.) */
    ls_status (*forward)(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box);
    /* Whether forward may be called for parts of the block, one after another: then, with overlap,
     * what needs no halo is made while the halo is under way. */
    bool parts;
    /* Parameter gradients into the store; dx[i]: the block input[i].takes, to be overwritten; NULL
     * when it is not wanted (the image). dy: l->dy. */
    ls_status (*backward)(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx);
    /* Once every forward pass has gone well, on this rank at least; may be NULL. It does not
     * communicate. Batch norm's running statistics. */
    void (*after)(ls_sharded_net *net, ls_net_layer_state *l);
} ls_net_operations;

/* One variable for each kind, defined in its file: ls_net_conv_operations, ... */
#define LS_NET_OPERATIONS(name) LS_TYPED(ls_net_##name##_operations)
#define LS_NET_DECLARE(KIND, name) extern const ls_net_operations LS_NET_OPERATIONS(name);
LS_NET_EACH_KIND(LS_NET_DECLARE)
#undef LS_NET_DECLARE

/* ---- what the engine offers to kinds */

/* Boxes along a route, over all ranks: begin, and where the blocks are needed ls_exchange_end is
 * called. from: the block `owned`; to: the block `wanted`. A route that is not needed may not be
 * begun. */
#define ls_net_begin LS_TYPED(ls_net_begin)
ls_status ls_net_begin(ls_sharded_net *net, const ls_net_route *route, const ls_image_box *owned,
                       const void *from, const ls_image_box *wanted, void *to, ls_dtype dtype,
                       ls_exchange **ret_exchange) LS_MUST_USE;

/* The gradients `read_by` of layer l's output: l->dy itself where no halo is needed, else from
 * net->temporary by an exchange. */
#define ls_net_dy_halo LS_TYPED(ls_net_dy_halo)
ls_status ls_net_dy_halo(ls_sharded_net *net, ls_net_layer_state *l,
                         const ls_real **ret_dy) LS_MUST_USE;

/* The same of anything else that lies as l->dy, of whatever dtype: max pooling sends its places.
 * point: what it is to an observer. */
#define ls_net_halo_of LS_TYPED(ls_net_halo_of)
ls_status ls_net_halo_of(ls_sharded_net *net, ls_net_layer_state *l, ls_point point,
                         const void *values, ls_dtype dtype, const void **ret_values) LS_MUST_USE;

/* The slot of a parameter of layer l, of which the rank holds l->granules, with a gradient if it is
 * trained. LS_ERR_INPUT when the store holds something else. */
#define ls_net_slot LS_TYPED(ls_net_slot)
ls_status ls_net_slot(const ls_sharded_net *net, const ls_net_layer_state *l, ls_role role,
                      ls_slot **ret_slot) LS_MUST_USE;

/* The gradient of a parameter of layer l, finished along l->sums. values: for each of its nodes
 * what this rank adds, as the slot. */
#define ls_net_sum_gradient LS_TYPED(ls_net_sum_gradient)
ls_status ls_net_sum_gradient(const ls_sharded_net *net, const ls_net_layer_state *l, ls_slot *slot,
                              const ls_real *values) LS_MUST_USE;

/* Shows the block `box` of layer `number`'s output, or of the gradient of that, to the observer;
 * nothing without one, or when the box is empty. */
#define ls_net_show_block LS_TYPED(ls_net_show_block)
ls_status ls_net_show_block(const ls_sharded_net *net, size_t number, bool gradient,
                            const ls_image_box *box, const ls_real *values) LS_MUST_USE;

/* The same for what goes into a sum of dx, node `node` of a tree of `leaves` granules of channels,
 * and for what this rank got of that (leaves 0). */
#define ls_net_show_sum LS_TYPED(ls_net_show_sum)
ls_status ls_net_show_sum(const ls_sharded_net *net, size_t number, const ls_image_box *box,
                          ls_node node, size_t leaves, const ls_real *values) LS_MUST_USE;

/* The messages of an exchange along a route: before ls_net_begin the pieces of the block `owned`
 * that go to others, after ls_exchange_end those of the block `wanted` that others sent. */
#define ls_net_show_sent LS_TYPED(ls_net_show_sent)
ls_status ls_net_show_sent(const ls_sharded_net *net, const ls_net_route *route, ls_point point,
                           const ls_image_box *owned, const void *values,
                           ls_dtype dtype) LS_MUST_USE;
#define ls_net_show_received LS_TYPED(ls_net_show_received)
ls_status ls_net_show_received(const ls_sharded_net *net, const ls_net_route *route, ls_point point,
                               const ls_image_box *wanted, const void *values,
                               ls_dtype dtype) LS_MUST_USE;

/* Shows a row of a point of layer `number`: per channel, per image. */
#define ls_net_show_row LS_TYPED(ls_net_show_row)
ls_status ls_net_show_row(const ls_sharded_net *net, size_t number, ls_point point, ls_view_run run,
                          const ls_real *values) LS_MUST_USE;

/* What goes into a sum over images and pixels along l->sums, a value for each of its nodes
 * (`part`), or what came out of it: the gradient of a parameter, `stride` elements from node to
 * node; a point of layer l, whose dimensions `view` has, inside_images: along the tree of one
 * image. Nothing when one rank has all. */
#define ls_net_show_gradient LS_TYPED(ls_net_show_gradient)
ls_status ls_net_show_gradient(const ls_sharded_net *net, const ls_net_layer_state *l,
                               const ls_slot *slot, const ls_real *values, size_t stride,
                               bool part) LS_MUST_USE;
#define ls_net_show_pixel_sum LS_TYPED(ls_net_show_pixel_sum)
ls_status ls_net_show_pixel_sum(const ls_sharded_net *net, const ls_net_layer_state *l,
                                bool inside_images, const ls_view *view, const ls_real *values,
                                bool part) LS_MUST_USE;

/* That a view is a part, this node of a sum. Images of one granule need no tree of their own. */
static inline void ls_net_fill_node(ls_view *view, const ls_pixel_tree *pixels, ls_node node)
{
    const bool cut = pixels->rows * pixels->columns > 1;
    view->comm = LS_COMM_PARTIAL;
    view->lo = node.lo;
    view->hi = node.hi;
    view->leaves = pixels->images * pixels->rows * pixels->columns;
    view->rows = cut ? pixels->rows : 0;
    view->columns = cut ? pixels->columns : 0;
}

/* The layout of a block for the kernels: what it covers, and the stride from image to image. */
static inline ls_image_layout ls_net_layout_of(const ls_image_box *box)
{
    return (ls_image_layout){box->area, box->channels.count * box->area.height * box->area.width};
}

#endif
