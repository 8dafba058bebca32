/* net.h - what a convolutional network is: its image and the list of its layers.
 *
 * A layer reads the output of one earlier layer or the image; LS_NET_ADD reads two. Every output is
 * read by some later layer, except the last one's: those are the logits, 1 x 1 pixels of `classes`
 * channels, for softmax cross-entropy. So the list is the network and the order in which it is
 * computed, with shortcuts and, through groups, AlexNet's two columns.
 *
 * An array of images is [image][channel][row][column], contiguous. */
#ifndef LS_MODEL_NET_H
#define LS_MODEL_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/net_kinds.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

enum { LS_NET_LAYERS = 192, LS_NET_NAME_BYTES = 32, LS_NET_IMAGE = -1 };

/* A layer. What its kind does not have is 0 and not looked at. */
typedef struct ls_net_layer {
    ls_net_kind kind;
    char name[LS_NET_NAME_BYTES];  /* letters, digits, '_', '-' and '.'; no two alike           */
    int from;                      /* number of the layer that it reads, or LS_NET_IMAGE        */
    int beside;                    /* ADD: of the other one                                     */
    size_t channels;               /* CONV, DENSE: of the output                                */
    size_t groups;                 /* CONV: divides the channels read and made                  */
    size_t kernel_h, kernel_w;     /* CONV, MAX_POOL, AVG_POOL, as the next ones                */
    size_t stride_h, stride_w;     /* from one window to the next                               */
    size_t dilation_h, dilation_w; /* CONV: from one kernel row or column to the next; pooling: 1 */
    size_t pad_top, pad_bottom, pad_left, pad_right;
    size_t span;           /* RESPONSE_NORM: channels of a sum, odd                     */
    bool bias;             /* CONV, DENSE                                               */
    bool count_pad;        /* AVG_POOL: padding counts in the divisor                   */
    double eps;            /* BATCH_NORM                                                */
    double momentum;       /* BATCH_NORM: running = (1 - momentum) running + momentum x */
    double alpha, beta, k; /* RESPONSE_NORM                                         */
    double p;              /* DROPOUT                                                   */
} ls_net_layer;

typedef struct ls_net {
    size_t channels, height, width; /* of an image */
    size_t classes;
    /* Granules (contract rules 7 and 9): a layer of H rows has row_granules runs of rows, granule g
     * from floor(g H / row_granules) to below floor((g + 1) H / row_granules), some empty when H is
     * smaller; columns alike. channel_granules: see ls_net_shape. */
    size_t row_granules, column_granules, channel_granules;
    size_t count;
    ls_net_layer layers[LS_NET_LAYERS];
} ls_net;

/* The shape of one output, of one image. */
typedef struct ls_net_shape {
    size_t channels, height, width;
    /* The channels as an axis that channel parallelism cuts. Layers that keep their channels apart
     * have the axis of what they read. With m the least common multiple of the groups of all
     * convolutions that make or read such an axis, it has m gcd(channel_granules / gcd(
     * channel_granules, m), channels / m) granules: none lies in two groups. */
    ls_axis axis;
} ls_net_shape;

typedef struct ls_net_shapes {
    ls_net_shape image;
    ls_net_shape layer[LS_NET_LAYERS];
} ls_net_shapes;

/* Whether the network can be computed: one line that names the layer, what was found and what is
 * allowed. label begins the line: how the network is called, "--model" or a file. Limits each size
 * so that no product overflows. */
LS_API ls_status ls_net_check(const ls_net *net, const char *label) LS_MUST_USE;

/* LS_ERR_INPUT when a batch has no images or labels, or images of another size. */
LS_API ls_status ls_net_check_images(const ls_net *net, const ls_batch *batch) LS_MUST_USE;

/* The shapes of all outputs of a network that has passed ls_net_check. */
LS_API void ls_net_shapes_of(const ls_net *net, ls_net_shapes *ret_shapes);

/* The shape of the output `from`: of a layer, or LS_NET_IMAGE. */
static inline const ls_net_shape *ls_net_shape_at(const ls_net_shapes *shapes, int from)
{
    return from < 0 ? &shapes->image : &shapes->layer[from];
}

/* Elements of an output, of one image. */
static inline size_t ls_net_shape_elements(const ls_net_shape *shape)
{
    return shape->channels * shape->height * shape->width;
}

/* Layer or LS_NET_IMAGE that a layer reads as its input number i, below the inputs of its kind. */
static inline int ls_net_input_of(const ls_net_layer *layer, int i)
{
    return i == 0 ? layer->from : layer->beside;
}

/* Groups of channels that a layer keeps apart. */
static inline size_t ls_net_groups(const ls_net_layer *layer)
{
    return ls_net_traits_of(layer->kind)->channels == LS_NET_GROUP ? layer->groups : 1;
}

/* Terms of the weighted sum that makes one output from images of shape `in`; 0: the kind has no
 * weights. */
LS_API size_t ls_net_terms(const ls_net_layer *layer, const ls_net_shape *in);

/* The built-in networks.
 *
 * alexnet-nano: AlexNet's two columns at a size for one core. conv2, conv4 and conv5 are in two
 * groups, which are the two columns; conv3 and the dense layers read both. Response norms,
 * and overlapping pooling as published, dropout of 0.1 in place of 0.5, which leaves too little of
 * 64 columns to learn from (Krizhevsky et al. 2012, sections 3 and 4).
 *
 * resnet-nano: a 3x3 stem and three blocks of two 3x3 convolutions with batch norm; the second and
 * third halve the image and have a projection as their shortcut (He et al. 2015, figure 3). */
LS_API void ls_net_alexnet_nano(ls_net *ret_net);
LS_API void ls_net_resnet_nano(ls_net *ret_net);

LS_END_DECLS

#endif
