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

bool ls_net_mixes_channels(ls_net_kind kind)
{
    return kind == LS_NET_CONV || kind == LS_NET_DENSE;
}

void ls_net_shape_of_layer(const ls_net_layer *layer, const ls_net_shape *in,
                           ls_net_shape *ret_shape)
{
    ls_net_shape out = *in;
    switch (layer->kind) {
    case LS_NET_CONV:
        out.channels = layer->channels;
        /* fall through */
    case LS_NET_MAX_POOL:
    case LS_NET_AVG_POOL:
        out.height = ls_net_windows(in->height, layer->pad_top, layer->pad_bottom, layer->kernel_h,
                                    layer->stride_h, layer->dilation_h);
        out.width = ls_net_windows(in->width, layer->pad_left, layer->pad_right, layer->kernel_w,
                                   layer->stride_w, layer->dilation_w);
        break;
    case LS_NET_DENSE:
        out.channels = layer->channels;
        /* fall through */
    case LS_NET_GLOBAL_POOL:
        out.height = out.width = 1;
        break;
    case LS_NET_BATCH_NORM:
    case LS_NET_RELU:
    case LS_NET_RESPONSE_NORM:
    case LS_NET_DROPOUT:
    case LS_NET_ADD:
    case LS_NET_KINDS:
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
        const size_t from = (size_t)(layer->from + 1);
        ls_net_shape_of_layer(layer, ls_net_shape_at(ret_shapes, layer->from),
                              &ret_shapes->layer[i]);
        if (layer->kind == LS_NET_CONV) {
            demand(&a, from, layer->groups);
            demand(&a, i + 1, layer->groups);
        }
        if (!ls_net_mixes_channels(layer->kind)) join(&a, from, i + 1);
        if (layer->kind == LS_NET_ADD) join(&a, (size_t)(layer->beside + 1), i + 1);
    }
    /* Only now are all readers known. */
    for (size_t i = 0; i <= net->count; i++) {
        ls_net_shape *shape = i == 0 ? image : &ret_shapes->layer[i - 1];
        shape->axis =
            channel_axis(shape->channels, net->channel_granules, a.multiple[leader_of(&a, i)]);
    }
}

const char *ls_net_kind_name(ls_net_kind kind)
{
    return (size_t)kind < LS_NET_KINDS ? ls_net_kind_names[kind] : "?";
}
