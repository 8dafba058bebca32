/* net_geometry.h - what the kernels call the numbers of a network's layer. */
#ifndef LS_PARALLEL_LAYOUT_NET_GEOMETRY_H
#define LS_PARALLEL_LAYOUT_NET_GEOMETRY_H

#include "lockstep/kernels/response_norm.h"
#include "lockstep/kernels/window.h"
#include "lockstep/model/net.h"

/* Of a convolution or a pooling that reads images of shape `in`. */
static inline ls_window ls_net_window(const ls_net_layer *layer, const ls_net_shape *in)
{
    return (ls_window){.in_h = in->height,
                       .in_w = in->width,
                       .kernel_h = layer->kernel_h,
                       .kernel_w = layer->kernel_w,
                       .stride_h = layer->stride_h,
                       .stride_w = layer->stride_w,
                       .dilation_h = layer->dilation_h,
                       .dilation_w = layer->dilation_w,
                       .pad_top = layer->pad_top,
                       .pad_bottom = layer->pad_bottom,
                       .pad_left = layer->pad_left,
                       .pad_right = layer->pad_right};
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
