/* net_fields.c - a layer's fields as data: key, type, range, value when absent. */
#include <math.h>
#include <stdio.h>

#include "model/net_parts.h"

/* clang-format off */
#define AT(member) offsetof(ls_net_layer, member)
#define SIZES(key, type, member, least, most, standard) \
    {key, type, AT(member), least, most, 0, 0, false, standard}
#define REAL(key, member, least, most, above, standard) \
    {key, LS_NET_REAL, AT(member), 0, 0, least, most, above, standard}
#define FLAG(key, member, standard) \
    {key, LS_NET_FLAG, AT(member), 0, 0, 0, 0, false, standard}
#define MUST ((double)NAN)

const ls_net_field ls_net_fields[LS_NET_FIELDS] = {
    [LS_NET_KEY_CHANNELS] = SIZES("channels", LS_NET_SIZE, channels,   1, (size_t)1 << 20, MUST),
    [LS_NET_KEY_GROUPS]   = SIZES("groups",   LS_NET_SIZE, groups,     1, (size_t)1 << 20, 1),
    [LS_NET_KEY_KERNEL]   = SIZES("kernel",   LS_NET_PAIR, kernel_h,   1, 1 << 12, MUST),
    [LS_NET_KEY_STRIDE]   = SIZES("stride",   LS_NET_PAIR, stride_h,   1, 1 << 12, 1),
    [LS_NET_KEY_DILATION] = SIZES("dilation", LS_NET_PAIR, dilation_h, 1, 1 << 12, 1),
    [LS_NET_KEY_PADDING]  = SIZES("padding",  LS_NET_PADS, pad_top,    0, 1 << 12, 0),
    [LS_NET_KEY_SPAN]     = SIZES("span",     LS_NET_SIZE, span,       1, (size_t)1 << 20, 5),
    [LS_NET_KEY_BIAS]          = FLAG("bias", bias, 1),
    [LS_NET_KEY_COUNT_PADDING] = FLAG("count_padding", count_pad, 1),
    [LS_NET_KEY_EPS]      = REAL("eps",      eps,      0, 1, true,  1e-5),
    [LS_NET_KEY_MOMENTUM] = REAL("momentum", momentum, 0, 1, false, 0.1),
    [LS_NET_KEY_ALPHA]    = REAL("alpha",    alpha,    0, 1e6, false, 1e-4),
    [LS_NET_KEY_BETA]     = REAL("beta",     beta,     0, 16, false, 0.75),
    [LS_NET_KEY_K]        = REAL("k",        k,        0, 1e6, true, 2),
    [LS_NET_KEY_P]        = REAL("p",        p,        0, 1, false, 0.5),
};

#define SIZE(member, most) {#member, offsetof(ls_net, member), 1, most}
const ls_net_size ls_net_sizes[LS_NET_SIZES] = {
    SIZE(channels, 1 << 12), SIZE(height, 1 << 14), SIZE(width, 1 << 14),
    SIZE(classes, (size_t)1 << 20),
    SIZE(row_granules, 1 << 10), SIZE(column_granules, 1 << 10), SIZE(channel_granules, 1 << 12),
};
/* clang-format on */

/* A pair or the four pads are read as an array that begins at the first of them. */
_Static_assert(AT(kernel_w) == AT(kernel_h) + sizeof(size_t) &&
                   AT(stride_w) == AT(stride_h) + sizeof(size_t) &&
                   AT(dilation_w) == AT(dilation_h) + sizeof(size_t) &&
                   AT(pad_right) == AT(pad_top) + 3 * sizeof(size_t),
               "sizes of one key lie side by side");

size_t ls_net_field_sizes(const ls_net_field *field)
{
    return field->type == LS_NET_SIZE   ? 1
           : field->type == LS_NET_PAIR ? 2
           : field->type == LS_NET_PADS ? 4
                                        : 0;
}

const char *ls_net_field_allowed(const ls_net_field *field, char buffer[LS_NET_TEXT_BYTES])
{
    switch (field->type) {
    case LS_NET_SIZE:
    case LS_NET_PAIR:
    case LS_NET_PADS:
        snprintf(buffer, LS_NET_TEXT_BYTES, "a whole number from %zu to %zu%s", field->least,
                 field->most,
                 field->type == LS_NET_PAIR   ? ", or two in a list: rows, columns"
                 : field->type == LS_NET_PADS ? ", or four: top, bottom, left, right"
                                              : "");
        break;
    case LS_NET_REAL:
        snprintf(buffer, LS_NET_TEXT_BYTES,
                 field->above ? "a number above %g and below %g" : "a number from %g to below %g",
                 field->real_least, field->real_most);
        break;
    case LS_NET_FLAG:
        snprintf(buffer, LS_NET_TEXT_BYTES, "true or false");
        break;
    }
    return buffer;
}
