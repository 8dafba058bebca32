/* net_built_in.c - the built-in networks, layer by layer. */
#include <stdio.h>

#include "model/net_parts.h"

/* Appends a layer that reads the one before. */
static ls_net_layer *add(ls_net *net, ls_net_kind kind, const char *name)
{
    ls_net_layer *layer = &net->layers[net->count];
    *layer = (ls_net_layer){.kind = kind, .from = (int)net->count - 1};
    snprintf(layer->name, sizeof layer->name, "%s", name);
    net->count++;
    return layer;
}

static void set_window(ls_net_layer *layer, size_t kernel, size_t stride, size_t pad)
{
    layer->kernel_h = layer->kernel_w = kernel;
    layer->stride_h = layer->stride_w = stride;
    layer->dilation_h = layer->dilation_w = 1;
    layer->pad_top = layer->pad_bottom = layer->pad_left = layer->pad_right = pad;
}

static ls_net_layer *conv(ls_net *net, const char *name, size_t channels, size_t kernel,
                          size_t stride, size_t groups, bool bias)
{
    ls_net_layer *layer = add(net, LS_NET_CONV, name);
    layer->channels = channels;
    layer->groups = groups;
    layer->bias = bias;
    set_window(layer, kernel, stride, kernel / 2);
    return layer;
}

static void dense(ls_net *net, const char *name, size_t channels)
{
    ls_net_layer *layer = add(net, LS_NET_DENSE, name);
    layer->channels = channels;
    layer->bias = true;
}

static void begin(ls_net *net, size_t classes)
{
    *net = (ls_net){.channels = 3,
                    .height = 32,
                    .width = 32,
                    .classes = classes,
                    .row_granules = 8,
                    .column_granules = 8,
                    .channel_granules = 4};
}

/* ---- AlexNet ---- */

static void response_norm(ls_net *net, const char *name)
{
    ls_net_layer *layer = add(net, LS_NET_RESPONSE_NORM, name);
    layer->span = 5;
    layer->alpha = 1e-4;
    layer->beta = 0.75;
    layer->k = 2;
}

/* Windows of 3 every 2: they overlap. */
static void pool(ls_net *net, const char *name)
{
    set_window(add(net, LS_NET_MAX_POOL, name), 3, 2, 0);
}

void ls_net_alexnet_nano(ls_net *ret_net)
{
    ls_net *net = ret_net;
    begin(net, 10);
    conv(net, "conv1", 16, 5, 1, 1, true); /* 16 x 32 x 32 */
    add(net, LS_NET_RELU, "relu1");
    response_norm(net, "norm1");
    pool(net, "pool1");                    /* 16 x 15 x 15 */
    conv(net, "conv2", 32, 5, 1, 2, true); /* 32 x 15 x 15, each column by itself */
    add(net, LS_NET_RELU, "relu2");
    response_norm(net, "norm2");
    pool(net, "pool2");                    /* 32 x 7 x 7 */
    conv(net, "conv3", 48, 3, 1, 1, true); /* 48 x 7 x 7, from both columns */
    add(net, LS_NET_RELU, "relu3");
    conv(net, "conv4", 48, 3, 1, 2, true);
    add(net, LS_NET_RELU, "relu4");
    conv(net, "conv5", 32, 3, 1, 2, true); /* 32 x 7 x 7 */
    add(net, LS_NET_RELU, "relu5");
    pool(net, "pool5");       /* 32 x 3 x 3 */
    dense(net, "dense6", 64); /* from both columns */
    add(net, LS_NET_RELU, "relu6");
    add(net, LS_NET_DROPOUT, "dropout6")->p = 0.1;
    dense(net, "dense7", 64);
    add(net, LS_NET_RELU, "relu7");
    add(net, LS_NET_DROPOUT, "dropout7")->p = 0.1;
    dense(net, "dense8", net->classes);
}

/* ---- ResNet ---- */

static void batch_norm(ls_net *net, const char *block, const char *name)
{
    char text[LS_NET_NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", block, name);
    ls_net_layer *layer = add(net, LS_NET_BATCH_NORM, text);
    layer->eps = 1e-5;
    layer->momentum = 0.1;
}

static ls_net_layer *block_conv(ls_net *net, const char *block, const char *name, size_t channels,
                                size_t kernel, size_t stride)
{
    char text[LS_NET_NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", block, name);
    return conv(net, text, channels, kernel, stride, 1, false);
}

/* Two 3x3 convolutions next to the identity, or next to a projection where the shape changes. */
static void residual_block(ls_net *net, const char *block, size_t channels, size_t stride,
                           bool projection)
{
    const int input = (int)net->count - 1;
    char text[LS_NET_NAME_BYTES];
    block_conv(net, block, ".conv1", channels, 3, stride);
    batch_norm(net, block, ".norm1");
    snprintf(text, sizeof text, "%s.relu1", block);
    add(net, LS_NET_RELU, text);
    block_conv(net, block, ".conv2", channels, 3, 1);
    batch_norm(net, block, ".norm2");
    const int residual = (int)net->count - 1;
    int shortcut = input;
    if (projection) {
        block_conv(net, block, ".projection", channels, 1, stride)->from = input;
        batch_norm(net, block, ".projection_norm");
        shortcut = (int)net->count - 1;
    }
    snprintf(text, sizeof text, "%s.add", block);
    ls_net_layer *sum = add(net, LS_NET_ADD, text);
    sum->from = residual;
    sum->beside = shortcut;
    snprintf(text, sizeof text, "%s.relu2", block);
    add(net, LS_NET_RELU, text);
}

void ls_net_resnet_nano(ls_net *ret_net)
{
    ls_net *net = ret_net;
    begin(net, 16);
    block_conv(net, "stem", ".conv", 8, 3, 1); /* 8 x 32 x 32 */
    batch_norm(net, "stem", ".norm");
    add(net, LS_NET_RELU, "stem.relu");
    residual_block(net, "block1", 8, 1, false);
    residual_block(net, "block2", 16, 2, true); /* 16 x 16 x 16 */
    residual_block(net, "block3", 32, 2, true); /* 32 x 8 x 8 */
    add(net, LS_NET_GLOBAL_POOL, "pool");
    dense(net, "dense", net->classes);
}
