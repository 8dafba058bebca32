/* net_parts.h - what the files about networks share: a layer's fields as data, and its shape. */
#ifndef LS_MODEL_NET_PARTS_H
#define LS_MODEL_NET_PARTS_H

#include <jansson.h>

#include "lockstep/model/config.h"

extern const char *const ls_net_kind_names[LS_NET_KINDS];

typedef enum ls_net_field_kind {
    LS_NET_SIZE, /* size_t                                                                   */
    LS_NET_PAIR, /* two size_t, rows and columns: a number, or a list of two                   */
    LS_NET_PADS, /* four: top, bottom, left, right: a number, or a list of four                */
    LS_NET_REAL, /* double, least <= value < most; above: least itself is refused              */
    LS_NET_FLAG
} ls_net_field_kind;

/* A field of a layer: which kinds have it, its key in JSON, what it is when that is absent. */
typedef struct ls_net_field {
    const char *key;
    ls_net_field_kind type;
    size_t offset;
    unsigned kinds; /* 1 << kind, or-ed */
    size_t least, most;
    double real_least, real_most;
    bool above;
    double standard; /* NaN: has to be given */
} ls_net_field;

enum { LS_NET_FIELDS = 15 };
extern const ls_net_field ls_net_fields[LS_NET_FIELDS];

static inline bool ls_net_has(const ls_net_field *field, ls_net_kind kind)
{
    return (field->kinds >> kind & 1) != 0;
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

/* Whether each channel made depends on several channels read, whose axis is then another one. */
bool ls_net_mixes_channels(ls_net_kind kind);

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
