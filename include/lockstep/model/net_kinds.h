/* net_kinds.h - the list of the kinds of layers that a convolutional network is made of, and what
 * one output of each kind reads.
 *
 * Every room that computes a kind expands this list into a table, so a kind without a row does not
 * compile. lib/model/README.md says how a kind is added. */
#ifndef LS_MODEL_NET_KINDS_H
#define LS_MODEL_NET_KINDS_H

#include <stdbool.h>

#include "lockstep/base/status.h"

LS_BEGIN_DECLS

/* KIND(constant, name): LS_NET_<constant>; the name is the word in JSON. */
#define LS_NET_EACH_KIND(KIND)                                                                     \
    KIND(CONV, conv)                   /* convolution, in groups of channels              */       \
    KIND(MAX_POOL, max_pool)           /* the largest of a window                         */       \
    KIND(AVG_POOL, avg_pool)           /* the mean of a window                            */       \
    KIND(GLOBAL_POOL, global_pool)     /* the mean of all pixels                          */       \
    KIND(BATCH_NORM, batch_norm)       /* per channel over images and pixels              */       \
    KIND(RELU, relu)                   /* max(x, 0)                                       */       \
    KIND(RESPONSE_NORM, response_norm) /* AlexNet's: x / (k + alpha sum of squares)^beta,          \
                                          the sum over `span` neighbouring channels       */       \
    KIND(DROPOUT, dropout)                                                                         \
    KIND(DENSE, dense) /* of all elements (channel, row, column) of an image              */       \
    KIND(ADD, add)     /* the sum of two outputs of one shape                             */

#define LS_NET_CONSTANT(KIND, name) LS_NET_##KIND,
typedef enum ls_net_kind { LS_NET_EACH_KIND(LS_NET_CONSTANT) LS_NET_KINDS } ls_net_kind;
#undef LS_NET_CONSTANT

/* The pixels of an image that one output reads. */
typedef enum ls_net_pixels {
    LS_NET_SAME_PIXEL = 0,
    LS_NET_WINDOW,    /* kernel, stride, dilation and padding of the layer */
    LS_NET_ALL_PIXELS /* the output is one pixel                           */
} ls_net_pixels;

/* The channels that one output reads. LS_NET_SAME_CHANNEL and LS_NET_NEIGHBOURS keep the number of
 * channels. */
typedef enum ls_net_channels {
    LS_NET_SAME_CHANNEL = 0,
    LS_NET_GROUP,       /* those of its group: `groups` of the layer      */
    LS_NET_NEIGHBOURS,  /* and (span - 1) / 2 on both sides               */
    LS_NET_ALL_CHANNELS /* and all pixels: a product with the whole image */
} ls_net_channels;

/* What is true of all layers of a kind. */
typedef struct ls_net_traits {
    ls_net_pixels pixels;
    ls_net_channels channels;
    int inputs;            /* outputs that it reads: 1 or 2 */
    bool batch_statistics; /* normalises each channel by the mean and variance of the batch */
} ls_net_traits;

/* The word for a kind, as in JSON: "conv", "max_pool", ... */
LS_API const char *ls_net_kind_name(ls_net_kind kind);

/* kind: below LS_NET_KINDS. */
LS_API const ls_net_traits *ls_net_traits_of(ls_net_kind kind);

LS_END_DECLS

#endif
