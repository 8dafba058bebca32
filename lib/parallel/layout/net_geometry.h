/* net_geometry.h - what the kernels call the numbers of a network's layer. */
#ifndef LS_PARALLEL_LAYOUT_NET_GEOMETRY_H
#define LS_PARALLEL_LAYOUT_NET_GEOMETRY_H

#include "lockstep/kernels/response_norm.h"
#include "lockstep/kernels/window.h"
#include "lockstep/model/net.h"

/* Of a convolution or a pooling that reads images of shape `in`. */
static inline ls_window ls_net_window(const ls_net_layer *layer, const ls_net_shape *in)
{
    return LS_WINDOW_OF(layer, in);
}

static inline ls_response_norm ls_net_response_norm(const ls_net_layer *layer,
                                                    const ls_net_shape *shape)
{
    return (ls_response_norm){shape->channels, layer->span, layer->alpha, layer->beta, layer->k};
}

/* Layers that read a window of pixels. */
static inline bool ls_net_has_window(ls_net_kind kind)
{
    return ls_net_traits_of(kind)->pixels == LS_NET_WINDOW;
}

#endif
