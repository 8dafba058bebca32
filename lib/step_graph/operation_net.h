/* operation_net.h - what the files that evaluate a network's layers share: shapes, and from where a
 * window's pixels come. */
#ifndef LS_STEP_GRAPH_OPERATION_NET_H
#define LS_STEP_GRAPH_OPERATION_NET_H

#include "lockstep/kernels/window.h"
#include "lockstep/partition/share.h"
#include "step_graph/operation_parts.h"

/* A layer of one image after another. */
typedef struct net_layer {
    const ls_net *net;
    const ls_net_layer *layer;
    ls_net_shape in, out;
    ls_window window; /* of those that have one */
    size_t images, in_pixels, out_pixels;
} net_layer;

net_layer ls_net_layer_at(const evaluation *e, const ls_graph_node *node);

/* From where the pixels come that a window reads: as they are, or as the halos of a wrong spatial
 * cut have them. Forward `made` are outputs and what they need inputs; backward the other way. */
typedef struct net_halo {
    ls_halo_form form; /* LS_HALO_AS_IS: nothing below is read */
    const ls_variant *variant;
    ls_share own[2], reads[2]; /* rows, columns: of the block that is made                   */
    size_t extent[2];          /* of what is needed                                          */
    size_t blocks[2];          /* of the grid */
} net_halo;

void ls_net_halo_begin(net_halo *halo, const evaluation *e, const net_layer *l, bool backward);
/* The block that makes pixel (row, column). */
void ls_net_halo_at(net_halo *halo, const net_layer *l, bool backward, size_t row, size_t column);
/* Where a pixel's value is taken from, in place: false: it is 0. */
bool ls_net_halo_source(const net_halo *halo, size_t *row, size_t *column);

/* Pixels of block number `at` of `blocks` of an axis of `extent` pixels in `granules`. */
ls_share ls_net_block_pixels(size_t extent, size_t granules, size_t blocks, size_t at);

/* Input of output o and kernel place k on one axis; false: it is padding. */
static inline bool net_reads(size_t o, size_t k, size_t stride, size_t dilation, size_t pad,
                             size_t extent, size_t *ret_input)
{
    const size_t at = o * stride + k * dilation;
    *ret_input = at - pad;
    return at >= pad && at - pad < extent;
}

#endif
