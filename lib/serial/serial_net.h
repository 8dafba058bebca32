/* serial_net.h - what the files of the serial convolutional network share.
 *
 * A network is a list of layers, each a function of one earlier output, or two. The forward pass
 * goes through the list and keeps every output; the backward pass goes through it from the end. In
 * between is, for each layer, what its reader needs again: `ls_serial_net_layer`.
 *
 * Dimensions: B images, C channels, h x w pixels of an output; "B x C x h x w" is contiguous. */
#ifndef LS_SERIAL_SERIAL_NET_H
#define LS_SERIAL_SERIAL_NET_H

#include "lockstep/kernels/image_layout.h"
#include "lockstep/numerics/pixel_tree.h"
#include "serial/serial_parts.h"

typedef struct ls_serial_net_layer {
    const ls_net_layer *is;
    const ls_net_shape *in, *out; /* of one image */
    const ls_real *x;             /* what it reads: B images of `in`              */
    const ls_real *beside;        /* an addition: the other one                   */
    ls_real *y;                   /* what it makes: B images of `out`             */
    int32_t *place;               /* max pooling, as y: where each maximum stood  */
    ls_real *d;                   /* response norm, as y: k + alpha (sum of x^2)  */
    ls_real *mean, *rstd;         /* batch norm, C: what x is normalised by       */
    ls_real *squares;             /* batch norm, C: sum of (x - mean)^2, in a pass that trains */
    ls_real *dx; /* backward: what it passes to what it reads, B images of `in`; of an addition, to
                    each of the two. NULL: not wanted */
} ls_serial_net_layer;

/* A leaf of the tree over an image's granule rectangles: which, and how many additions follow it
 * when partial sums are on a stack. */
typedef struct ls_serial_net_granule {
    ls_rectangle at; /* in granules */
    size_t closes;
} ls_serial_net_granule;

struct ls_serial_net {
    const ls_net *net;
    ls_net_shapes shapes;
    ls_serial_net_granule *granules; /* the tree of an image, from left to right */
    size_t n_granules, stack;        /* stack: partial sums at once, at most     */
    ls_axis images;             /* B granules of 1: an image is never cut by rows of a product */
    ls_real *x;                 /* the images of the batch, in the precision of the run        */
    ls_real *largest, *sum_exp; /* B: of each row of logits                                    */
    ls_serial_net_layer layer[LS_NET_LAYERS];
};

/* ---- serial_net.c: the two passes. Makes serial->net, which free gives back. */
#define ls_serial_net_create LS_TYPED(ls_serial_net_create)
ls_status ls_serial_net_create(ls_serial *serial) LS_MUST_USE;
#define ls_serial_net_forward LS_TYPED(ls_serial_net_forward)
ls_status ls_serial_net_forward(ls_serial *serial, const ls_batch *batch,
                                ls_real *ret_loss) LS_MUST_USE;
#define ls_serial_net_backward LS_TYPED(ls_serial_net_backward)
ls_status ls_serial_net_backward(ls_serial *serial) LS_MUST_USE;
#define ls_serial_net_logits LS_TYPED(ls_serial_net_logits)
const ls_real *ls_serial_net_logits(const ls_serial_net *net);

/* serial_net_batch.c. Checks a batch, copies it and makes room for what a forward pass keeps. */
#define ls_serial_net_take_batch LS_TYPED(ls_serial_net_take_batch)
ls_status ls_serial_net_take_batch(ls_serial *serial, const ls_batch *batch) LS_MUST_USE;

/* ---- the kinds of layers. l: number of the layer. */
typedef struct ls_serial_net_operations {
    /* Makes layer->y, from layer->x, and what the backward pass reads. */
    ls_status (*forward)(const ls_serial *serial, size_t l);
    /* dy, the finished gradient of y: makes layer->dx, unless that is NULL, and the gradients of
     * the layer's parameters in the store. dy is read by others too: it is not overwritten. */
    ls_status (*backward)(const ls_serial *serial, size_t l, const ls_real *dy);
    /* After a forward pass of all layers that has not failed; may be NULL. */
    void (*after)(const ls_serial *serial, size_t l);
} ls_serial_net_operations;

/* One variable for each kind, defined in its file: ls_serial_net_conv, ... */
#define LS_SERIAL_NET(name) LS_TYPED(ls_serial_net_##name)
#define LS_SERIAL_NET_DECLARE(KIND, name) extern const ls_serial_net_operations LS_SERIAL_NET(name);
LS_NET_EACH_KIND(LS_SERIAL_NET_DECLARE)
#undef LS_SERIAL_NET_DECLARE

/* serial_net_batch.c. Room for n numbers until the next forward pass. */
#define ls_serial_net_keep LS_TYPED(ls_serial_net_keep)
ls_status ls_serial_net_keep(const ls_serial *serial, ls_real **ret_array, size_t n) LS_MUST_USE;

/* ---- serial_net_loss.c. The mean of -log softmax(logits)[label] over the images; its gradient. */
#define ls_serial_net_loss_forward LS_TYPED(ls_serial_net_loss_forward)
ls_status ls_serial_net_loss_forward(const ls_serial *serial, ls_real *ret_loss) LS_MUST_USE;
#define ls_serial_net_loss_backward LS_TYPED(ls_serial_net_loss_backward)
void ls_serial_net_loss_backward(const ls_serial *serial, ls_real *dlogits);

/* ---- sums over images and pixels (rule 9): serial_net_sum.c */

/* The value of image number `image`. */
#define ls_serial_net_image_leaf LS_TYPED(ls_serial_net_image_leaf)
typedef ls_status ls_serial_net_image_leaf(const ls_serial *serial, ls_real *value,
                                           const void *context, size_t image);

/* sum = T over `images` images. value, sum: `count` elements. */
#define ls_serial_net_sum_images LS_TYPED(ls_serial_net_sum_images)
ls_status ls_serial_net_sum_images(const ls_serial *serial, ls_real *sum, size_t count,
                                   size_t images, ls_serial_net_image_leaf *leaf,
                                   const void *context) LS_MUST_USE;

/* The value of a granule rectangle of an image; -0 when it has no pixels. */
#define ls_serial_net_pixel_leaf LS_TYPED(ls_serial_net_pixel_leaf)
typedef void ls_serial_net_pixel_leaf(ls_real *value, const void *context, size_t image,
                                      ls_rectangle pixels);

/* sum = T over the images and, in each, the tree over the granule rectangles of `shape`. value,
 * sum: a number per channel. */
#define ls_serial_net_sum_pixels LS_TYPED(ls_serial_net_sum_pixels)
ls_status ls_serial_net_sum_pixels(const ls_serial *serial, ls_real *sum, const ls_net_shape *shape,
                                   size_t images, ls_serial_net_pixel_leaf *leaf,
                                   const void *context) LS_MUST_USE;

/* The sum of x itself. x: images of `shape`. */
#define ls_serial_net_sum_plainly LS_TYPED(ls_serial_net_sum_plainly)
ls_status ls_serial_net_sum_plainly(const ls_serial *serial, ls_real *sum, const ls_real *x,
                                    const ls_net_shape *shape, size_t images) LS_MUST_USE;

/* Makes the list net->granules; once. */
#define ls_serial_net_list_granules LS_TYPED(ls_serial_net_list_granules)
ls_status ls_serial_net_list_granules(ls_serial *serial) LS_MUST_USE;

/* The pixels of granule rectangle number i of that list. */
#define ls_serial_net_pixels LS_TYPED(ls_serial_net_pixels)
ls_rectangle ls_serial_net_pixels(const ls_serial_net *net, size_t i, const ls_net_shape *shape);

/* What a convolution or a pooling reads. */
static inline ls_window ls_serial_net_window(const ls_serial_net_layer *layer)
{
    return LS_WINDOW_OF(layer->is, layer->in);
}

/* Whole images of a shape, as the kernels take them. */
static inline ls_image_layout ls_serial_net_layout(const ls_net_shape *shape)
{
    ls_image_layout layout = {{0, 0, shape->height, shape->width}, ls_net_shape_elements(shape)};
    return layout;
}

#endif
