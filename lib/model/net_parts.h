/* net_parts.h - what the files about networks share: a layer's fields as data, and its shape. */
#ifndef LS_MODEL_NET_PARTS_H
#define LS_MODEL_NET_PARTS_H

#include <jansson.h>

#include "lockstep/model/config.h"
#include "model/net_params.h"

typedef enum ls_net_field_kind {
    LS_NET_SIZE, /* size_t                                                                   */
    LS_NET_PAIR, /* two size_t, rows and columns: a number, or a list of two                   */
    LS_NET_PADS, /* four: top, bottom, left, right: a number, or a list of four                */
    LS_NET_REAL, /* double, least <= value < most; above: least itself is refused              */
    LS_NET_FLAG
} ls_net_field_kind;

/* The keys of a layer in JSON, in the order in which they are written. */
typedef enum ls_net_key {
    LS_NET_KEY_CHANNELS = 0,
    LS_NET_KEY_GROUPS,
    LS_NET_KEY_KERNEL,
    LS_NET_KEY_STRIDE,
    LS_NET_KEY_DILATION,
    LS_NET_KEY_PADDING,
    LS_NET_KEY_SPAN,
    LS_NET_KEY_BIAS,
    LS_NET_KEY_COUNT_PADDING,
    LS_NET_KEY_EPS,
    LS_NET_KEY_MOMENTUM,
    LS_NET_KEY_ALPHA,
    LS_NET_KEY_BETA,
    LS_NET_KEY_K,
    LS_NET_KEY_P,
    LS_NET_FIELDS
} ls_net_key;

/* A field of a layer: its key in JSON, its range, its value when the key is absent. */
typedef struct ls_net_field {
    const char *key;
    ls_net_field_kind type;
    size_t offset;
    size_t least, most;
    double real_least, real_most;
    bool above;
    double standard; /* NaN: has to be given */
} ls_net_field;

extern const ls_net_field ls_net_fields[LS_NET_FIELDS];

typedef enum ls_net_param_form {
    LS_NET_NO_PARAM = 0,
    LS_NET_WEIGHT_ROWS,    /* channels made x terms, cut by rows                    */
    LS_NET_WEIGHT_COLUMNS, /* terms x channels made, cut by columns                 */
    LS_NET_BIAS,           /* a number for each channel made, if the layer has bias */
    LS_NET_VECTOR,         /* a number for each channel made                        */
    LS_NET_STATE           /* the same, not trained                                 */
} ls_net_param_form;

typedef struct ls_net_param {
    ls_net_param_form form;
    ls_role role;
    const char *name; /* after the layer's; PyTorch's */
    ls_init_kind init;
} ls_net_param;

/* All that the model knows of a kind (net_kinds.c). */
typedef struct ls_net_kind_row {
    ls_net_traits traits;
    unsigned fields; /* 1 << ls_net_key, or-ed */
    ls_net_param params[LS_NET_PARAMS];
} ls_net_kind_row;

/* kind: below LS_NET_KINDS. */
const ls_net_kind_row *ls_net_kind_row_of(ls_net_kind kind);

static inline bool ls_net_has(const ls_net_field *field, ls_net_kind kind)
{
    return (ls_net_kind_row_of(kind)->fields >> (field - ls_net_fields) & 1) != 0;
}

/* Whether layers of a kind read a second output, "beside". */
static inline bool ls_net_has_beside(ls_net_kind kind)
{
    return ls_net_traits_of(kind)->inputs == 2;
}

/* Sizes that a field has: 1, 2 or 4; 0 for other types. */
size_t ls_net_field_sizes(const ls_net_field *field);

/* "a whole number from 1 to 4096", "a number from 0 to below 1": what one value may be. */
enum { LS_NET_TEXT_BYTES = 96 };
const char *ls_net_field_allowed(const ls_net_field *field, char buffer[LS_NET_TEXT_BYTES]);

/* The sizes of a network next to its layers. */
typedef struct ls_net_size {
    const char *key;
    size_t offset, least, most;
} ls_net_size;

enum { LS_NET_SIZES = 7 };
extern const ls_net_size ls_net_sizes[LS_NET_SIZES];

size_t ls_net_divisor(size_t a, size_t b); /* greatest common */

/* Windows along one axis, none of which reaches beyond the padding. */
size_t ls_net_windows(size_t in, size_t before, size_t behind, size_t kernel, size_t stride,
                      size_t dilation);

/* The shape that a layer makes of `in`, all but the axis of the channels. */
void ls_net_shape_of_layer(const ls_net_layer *layer, const ls_net_shape *in,
                           ls_net_shape *ret_shape);

/* Reads the object of the key "network" over what *net is, and writes one. file: how errors call
 * the text. ls_net_write returns NULL without memory; *digits: the most that a number needs. */
ls_status ls_net_read(const json_t *value, const char *file, ls_net *net) LS_MUST_USE;
json_t *ls_net_write(const ls_net *net, int *digits);

/* The fewest digits that give a number back. */
int ls_config_digits(double real);

#endif
