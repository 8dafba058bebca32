#include <math.h>
#include <stdio.h>

#include "model/net_parts.h"

const char *const ls_net_kind_names[LS_NET_KINDS] = {
    "conv", "max_pool",      "avg_pool", "global_pool", "batch_norm",
    "relu", "response_norm", "dropout",  "dense",       "add"};

/* clang-format off */
#define AT(member) offsetof(ls_net_layer, member)
#define CONV (1u << LS_NET_CONV)
#define POOLS (1u << LS_NET_MAX_POOL | 1u << LS_NET_AVG_POOL)
#define DENSE (1u << LS_NET_DENSE)
#define NORM (1u << LS_NET_BATCH_NORM)
#define RESPONSE (1u << LS_NET_RESPONSE_NORM)
#define SIZES(key, type, member, kinds, least, most, standard) \
    {key, type, AT(member), kinds, least, most, 0, 0, false, standard}
#define REAL(key, member, kinds, least, most, above, standard) \
    {key, LS_NET_REAL, AT(member), kinds, 0, 0, least, most, above, standard}
#define FLAG(key, member, kinds, standard) \
    {key, LS_NET_FLAG, AT(member), kinds, 0, 0, 0, 0, false, standard}
#define MUST ((double)NAN)

const ls_net_field ls_net_fields[LS_NET_FIELDS] = {
    SIZES("channels", LS_NET_SIZE, channels,   CONV | DENSE, 1, (size_t)1 << 20, MUST),
    SIZES("groups",   LS_NET_SIZE, groups,     CONV,         1, (size_t)1 << 20, 1),
    SIZES("kernel",   LS_NET_PAIR, kernel_h,   CONV | POOLS, 1, 1 << 12, MUST),
    SIZES("stride",   LS_NET_PAIR, stride_h,   CONV | POOLS, 1, 1 << 12, 1),
    SIZES("dilation", LS_NET_PAIR, dilation_h, CONV | POOLS, 1, 1 << 12, 1),
    SIZES("padding",  LS_NET_PADS, pad_top,    CONV | POOLS, 0, 1 << 12, 0),
    SIZES("span",     LS_NET_SIZE, span,       RESPONSE,     1, (size_t)1 << 20, 5),
    FLAG("bias", bias, CONV | DENSE, 1),
    FLAG("count_padding", count_pad, 1u << LS_NET_AVG_POOL, 1),
    REAL("eps",      eps,      NORM,     0, 1, true,  1e-5),
    REAL("momentum", momentum, NORM,     0, 1, false, 0.1),
    REAL("alpha",    alpha,    RESPONSE, 0, 1e6, false, 1e-4),
    REAL("beta",     beta,     RESPONSE, 0, 16, false, 0.75),
    REAL("k",        k,        RESPONSE, 0, 1e6, true, 2),
    REAL("p",        p,        1u << LS_NET_DROPOUT, 0, 1, false, 0.5),
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
