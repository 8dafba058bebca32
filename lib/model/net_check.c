/* net_check.c - whether a network can be computed. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "model/config_fields.h"
#include "model/net_parts.h"

/* Nothing larger is ever counted: parameters, elements of one output of one image. */
#define MOST_PARAMETERS ((uint64_t)1 << 42)
#define MOST_ELEMENTS ((uint64_t)1 << 40)

/* What is being checked; `at` is the layer. */
typedef struct checker {
    const ls_net *net;
    const char *label;
    size_t at;
    const ls_net_layer *layer;
    ls_net_shape shape[LS_NET_LAYERS + 1]; /* of the image, then of each layer */
    bool read[LS_NET_LAYERS + 1];
    uint64_t parameters;
} checker;

/* "FILE: network: layer conv2" */
static const char *layer_text(const checker *c, char buffer[256])
{
    snprintf(buffer, 256, "%.200s: layer %s", c->label, c->layer->name);
    return buffer;
}

/* LS_FAIL with the layer in front. */
#define LAYER_FAIL(c, ...)                                                                         \
    do {                                                                                           \
        char layer_buffer[256], layer_rest[400];                                                   \
        snprintf(layer_rest, sizeof layer_rest, __VA_ARGS__);                                      \
        LS_FAIL(LS_ERR_INPUT, "%s: %s", layer_text(c, layer_buffer), layer_rest);                  \
    } while (0)

static ls_status check_sizes(const ls_net *net, const char *label)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < LS_NET_SIZES; i++) {
        size_t value;
        memcpy(&value, (const char *)net + ls_net_sizes[i].offset, sizeof value);
        if (value < ls_net_sizes[i].least || value > ls_net_sizes[i].most)
            LS_FAIL(LS_ERR_INPUT, "%s: %s %zu: must be a whole number from %zu to %zu", label,
                    ls_net_sizes[i].key, value, ls_net_sizes[i].least, ls_net_sizes[i].most);
    }
    if (net->count < 1 || net->count > LS_NET_LAYERS)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu layers: a network has 1 to %d", label, net->count,
                (int)LS_NET_LAYERS);
exit:
    return status;
}

static ls_status check_name(const checker *c)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    ls_status status = LS_OK;
    const char *name = c->layer->name;
    const char *end = memchr(name, '\0', LS_NET_NAME_BYTES);
    if (!end || end == name || strspn(name, legal) != (size_t)(end - name))
        LS_FAIL(LS_ERR_INPUT,
                "%s: the name \"%s\" of layer %zu: must be 1 to %d letters, digits, '_', '-' and "
                "'.'",
                c->label, ls_show_bytes(name, end ? (size_t)(end - name) : LS_NET_NAME_BYTES),
                c->at, (int)LS_NET_NAME_BYTES - 1);
    if (strcmp(name, "image") == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: the name \"image\" of layer %zu is what layers call the image",
                c->label, c->at);
    for (size_t i = 0; i < c->at; i++)
        if (strcmp(c->net->layers[i].name, name) == 0)
            LS_FAIL(LS_ERR_INPUT, "%s: layers %zu and %zu are both called %s", c->label, i, c->at,
                    name);
exit:
    return status;
}

/* Each field of the kind by itself. */
static ls_status check_fields(const checker *c)
{
    ls_status status = LS_OK;
    char allowed[LS_NET_TEXT_BYTES];
    for (size_t f = 0; f < LS_NET_FIELDS; f++) {
        const ls_net_field *field = &ls_net_fields[f];
        const char *at = (const char *)c->layer + field->offset;
        if (!ls_net_has(field, c->layer->kind)) continue;
        for (size_t i = 0; i < ls_net_field_sizes(field); i++) {
            size_t size;
            memcpy(&size, at + i * sizeof size, sizeof size);
            if (size < field->least || size > field->most)
                LAYER_FAIL(c, "%s %zu: must be %s", field->key, size,
                           ls_net_field_allowed(field, allowed));
        }
        if (field->type != LS_NET_REAL) continue;
        double real;
        memcpy(&real, at, sizeof real);
        /* Written so that NaN fails. */
        if (!(real >= field->real_least && real < field->real_most) ||
            (field->above && !(real > field->real_least)))
            LAYER_FAIL(c, "%s %g: must be %s", field->key, real,
                       ls_net_field_allowed(field, allowed));
    }
exit:
    return status;
}

static ls_status check_from(checker *c, const char *key, int from)
{
    ls_status status = LS_OK;
    if (from < LS_NET_IMAGE || from >= (int)c->at)
        LAYER_FAIL(c,
                   "%s %d: must be a layer before this one, which is number %zu, or %d for the "
                   "image",
                   key, from, c->at, (int)LS_NET_IMAGE);
    c->read[from + 1] = true;
exit:
    return status;
}

static ls_status check_groups(const checker *c, const ls_net_shape *in)
{
    ls_status status = LS_OK;
    const ls_net_layer *layer = c->layer;
    const size_t common = ls_net_divisor(in->channels, layer->channels);
    char legal[LS_DIVISORS_TEXT];
    if (in->channels % layer->groups != 0 || layer->channels % layer->groups != 0)
        LAYER_FAIL(c, "groups %zu: do not divide the %zu channels read and the %zu made; use %s",
                   layer->groups, in->channels, layer->channels,
                   ls_divisors_text(common, 1, common, legal));
exit:
    return status;
}

/* A window along one axis. */
static ls_status check_window(const checker *c, const char *rows, size_t in, size_t kernel,
                              size_t dilation, size_t before, size_t behind)
{
    ls_status status = LS_OK;
    const size_t extent = (kernel - 1) * dilation + 1;
    if (extent > in + before + behind) {
        if (dilation > 1)
            LAYER_FAIL(c,
                       "kernel %zu with dilation %zu: covers %zu %s and the image has %zu with its "
                       "padding; at most that",
                       kernel, dilation, extent, rows, in + before + behind);
        LAYER_FAIL(c, "kernel %zu: the image has %zu %s with its padding; at most that", kernel,
                   in + before + behind, rows);
    }
    if (ls_net_traits_of(c->layer->kind)->channels != LS_NET_SAME_CHANNEL) goto exit;
    if (dilation != 1) LAYER_FAIL(c, "dilation %zu: a pooling window has no gaps; use 1", dilation);
    /* A window of nothing but padding has no largest and, its padding not counted, no mean. */
    const size_t padding = before > behind ? before : behind;
    if (padding >= kernel)
        LAYER_FAIL(c, "padding %zu: a window of %zu %s could lie in it whole; at most %zu", padding,
                   kernel, rows, kernel - 1);
exit:
    return status;
}

static ls_status check_windows(const checker *c, const ls_net_shape *in)
{
    ls_status status = LS_OK;
    const ls_net_layer *l = c->layer;
    LS_TRY(
        check_window(c, "rows", in->height, l->kernel_h, l->dilation_h, l->pad_top, l->pad_bottom));
    LS_TRY(check_window(c, "columns", in->width, l->kernel_w, l->dilation_w, l->pad_left,
                        l->pad_right));
exit:
    return status;
}

/* Whether both outputs that are added have one shape. */
static ls_status check_sum(checker *c, const ls_net_shape *in)
{
    ls_status status = LS_OK;
    LS_TRY(check_from(c, "beside", c->layer->beside));
    const ls_net_shape *other = &c->shape[c->layer->beside + 1];
    if (in->channels != other->channels || in->height != other->height || in->width != other->width)
        LAYER_FAIL(c,
                   "adds %zu x %zu x %zu and %zu x %zu x %zu (channels x rows x columns); the two "
                   "must be of one shape",
                   in->channels, in->height, in->width, other->channels, other->height,
                   other->width);
exit:
    return status;
}

/* Whether the layer fits what it reads. */
static ls_status check_fit(checker *c)
{
    ls_status status = LS_OK;
    const ls_net_layer *layer = c->layer;
    const ls_net_shape *in = &c->shape[layer->from + 1];
    const ls_net_traits *traits = ls_net_traits_of(layer->kind);
    if (traits->channels == LS_NET_GROUP) LS_TRY(check_groups(c, in));
    if (traits->pixels == LS_NET_WINDOW) LS_TRY(check_windows(c, in));
    if (traits->channels == LS_NET_NEIGHBOURS && layer->span % 2 == 0)
        LAYER_FAIL(c, "span %zu: as many channels on both sides and the own one; must be odd",
                   layer->span);
    if (traits->inputs == 2) LS_TRY(check_sum(c, in));
    /* Below 2^44 2^20: a quotient keeps the product inside 64 bits. */
    const uint64_t terms = ls_net_terms(layer, in);
    if (terms > 0 && terms > MOST_PARAMETERS / layer->channels)
        c->parameters = MOST_PARAMETERS;
    else
        c->parameters += terms * layer->channels;
    if (c->parameters >= MOST_PARAMETERS)
        LAYER_FAIL(c, "with it the network has more than %llu parameters",
                   (unsigned long long)MOST_PARAMETERS - 1);
exit:
    return status;
}

static ls_status check_layer(checker *c)
{
    ls_status status = LS_OK;
    const ls_net_layer *layer = c->layer;
    ls_net_shape *out = &c->shape[c->at + 1];
    LS_TRY(check_name(c));
    if ((size_t)layer->kind >= LS_NET_KINDS)
        LAYER_FAIL(c, "kind %d: must be from 0 to %d", (int)layer->kind, (int)LS_NET_KINDS - 1);
    LS_TRY(check_fields(c));
    LS_TRY(check_from(c, "from", layer->from));
    LS_TRY(check_fit(c));
    ls_net_shape_of_layer(layer, &c->shape[layer->from + 1], out);
    if (ls_net_shape_elements(out) >
        MOST_ELEMENTS) /* below 2^20 2^21 2^21: padding adds 2^13 a layer */
        LAYER_FAIL(c, "makes %zu x %zu x %zu (channels x rows x columns): more than %llu elements",
                   out->channels, out->height, out->width, (unsigned long long)MOST_ELEMENTS);
exit:
    return status;
}

/* The last layer makes the logits, and all others serve it. */
static ls_status check_end(checker *c)
{
    ls_status status = LS_OK;
    const ls_net *net = c->net;
    const ls_net_shape *last = &c->shape[net->count];
    c->layer = &net->layers[net->count - 1];
    if (last->channels != net->classes || last->height != 1 || last->width != 1)
        LAYER_FAIL(c,
                   "the last one makes %zu x %zu x %zu (channels x rows x columns); for %zu "
                   "classes it must be %zu x 1 x 1",
                   last->channels, last->height, last->width, net->classes, net->classes);
    for (size_t i = 0; i + 1 < net->count; i++) {
        c->layer = &net->layers[i];
        if (!c->read[i + 1])
            LAYER_FAIL(c, "nobody reads it; a later layer must, by \"from\" or \"beside\"");
    }
exit:
    return status;
}

ls_status ls_net_check(const ls_net *net, const char *label)
{
    ls_status status = LS_OK;
    checker c = {.net = net, .label = label};
    LS_TRY(check_sizes(net, label));
    c.shape[0] = (ls_net_shape){net->channels, net->height, net->width, {0, 0}};
    for (c.at = 0; c.at < net->count; c.at++) {
        c.layer = &net->layers[c.at];
        LS_TRY(check_layer(&c));
    }
    LS_TRY(check_end(&c));
exit:
    return status;
}

ls_status ls_net_check_images(const ls_net *net, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const size_t pixels = net->channels * net->height * net->width;
    if (batch->images == NULL || batch->labels == NULL)
        LS_FAIL(LS_ERR_INPUT, "batch without %s: a convolutional network needs images and labels",
                batch->images == NULL ? "images" : "labels");
    if (batch->pixels != pixels)
        LS_FAIL(LS_ERR_INPUT, "images of %zu numbers: the network reads %zu (%zu x %zu x %zu)",
                batch->pixels, pixels, net->channels, net->height, net->width);
exit:
    return status;
}
