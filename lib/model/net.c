/* net.c - shapes and granules that follow from the list of layers. */
#include "lockstep/model/net.h"

#include "model/net_parts.h"

size_t ls_net_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

size_t ls_net_windows(size_t in, size_t before, size_t behind, size_t kernel, size_t stride,
                      size_t dilation)
{
    return (in + before + behind - ((kernel - 1) * dilation + 1)) / stride + 1;
}

/* Whether each channel made depends on several channels read: then its axis is another one. */
static bool mixes_channels(const ls_net_layer *layer)
{
    const ls_net_channels read = ls_net_traits_of(layer->kind)->channels;
    return read == LS_NET_GROUP || read == LS_NET_ALL_CHANNELS;
}

size_t ls_net_terms(const ls_net_layer *layer, const ls_net_shape *in)
{
    switch (ls_net_traits_of(layer->kind)->channels) {
    case LS_NET_GROUP:
        return in->channels / layer->groups * layer->kernel_h * layer->kernel_w;
    case LS_NET_ALL_CHANNELS:
        return ls_net_shape_elements(in);
    case LS_NET_SAME_CHANNEL:
    case LS_NET_NEIGHBOURS:
        break;
    }
    return 0;
}

void ls_net_shape_of_layer(const ls_net_layer *layer, const ls_net_shape *in,
                           ls_net_shape *ret_shape)
{
    ls_net_shape out = *in;
    if (mixes_channels(layer)) out.channels = layer->channels;
    switch (ls_net_traits_of(layer->kind)->pixels) {
    case LS_NET_WINDOW:
        out.height = ls_net_windows(in->height, layer->pad_top, layer->pad_bottom, layer->kernel_h,
                                    layer->stride_h, layer->dilation_h);
        out.width = ls_net_windows(in->width, layer->pad_left, layer->pad_right, layer->kernel_w,
                                   layer->stride_w, layer->dilation_w);
        break;
    case LS_NET_ALL_PIXELS:
        out.height = out.width = 1;
        break;
    case LS_NET_SAME_PIXEL:
        break;
    }
    *ret_shape = out;
}

/* ---- channel axes ---- */

/* Outputs whose channels stay apart on the way from one to the other share an axis. Number 0 is the
 * image, i + 1 layer i; each points to another one of its axis, the first to itself. */
typedef struct axes {
    size_t leader[LS_NET_LAYERS + 1];
    size_t multiple[LS_NET_LAYERS + 1]; /* of a leader: least common multiple of the groups */
} axes;

static size_t leader_of(axes *a, size_t output)
{
    while (a->leader[output] != output) output = a->leader[output];
    return output;
}

static void demand(axes *a, size_t output, size_t groups)
{
    size_t *multiple = &a->multiple[leader_of(a, output)];
    *multiple = *multiple / ls_net_divisor(*multiple, groups) * groups;
}

/* The later one joins the earlier one. */
static void join(axes *a, size_t one, size_t other)
{
    one = leader_of(a, one);
    other = leader_of(a, other);
    if (one == other) return;
    size_t first = one < other ? one : other, second = one < other ? other : one;
    a->leader[second] = first;
    demand(a, first, a->multiple[second]);
}

static ls_axis channel_axis(size_t channels, size_t granules, size_t multiple)
{
    granules /= ls_net_divisor(granules, multiple);
    granules = multiple * ls_net_divisor(granules, channels / multiple);
    return ls_axis_of(granules, channels / granules);
}

void ls_net_shapes_of(const ls_net *net, ls_net_shapes *ret_shapes)
{
    axes a;
    ls_net_shape *image = &ret_shapes->image;
    *image = (ls_net_shape){net->channels, net->height, net->width, {0, 0}};
    for (size_t i = 0; i <= net->count; i++) {
        a.leader[i] = i;
        a.multiple[i] = 1;
    }
    for (size_t i = 0; i < net->count; i++) {
        const ls_net_layer *layer = &net->layers[i];
        ls_net_shape_of_layer(layer, ls_net_shape_at(ret_shapes, layer->from),
                              &ret_shapes->layer[i]);
        demand(&a, (size_t)(layer->from + 1), ls_net_groups(layer));
        demand(&a, i + 1, ls_net_groups(layer));
        for (int k = 0; !mixes_channels(layer) && k < ls_net_traits_of(layer->kind)->inputs; k++)
            join(&a, (size_t)(ls_net_input_of(layer, k) + 1), i + 1);
    }
    /* Only now are all readers known. */
    for (size_t i = 0; i <= net->count; i++) {
        ls_net_shape *shape = i == 0 ? image : &ret_shapes->layer[i - 1];
        shape->axis =
            channel_axis(shape->channels, net->channel_granules, a.multiple[leader_of(&a, i)]);
    }
}
