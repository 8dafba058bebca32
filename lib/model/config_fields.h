/* config_fields.h - the fields of a configuration as data: what reads, writes and checks one goes
 * through this list. */
#ifndef LS_MODEL_CONFIG_FIELDS_H
#define LS_MODEL_CONFIG_FIELDS_H

#include "lockstep/model/config.h"

typedef enum ls_field_kind {
    LS_FIELD_SIZE,   /* size_t, least <= value <= most                           */
    LS_FIELD_REAL,   /* double, in the interval that `interval` and the limits say */
    LS_FIELD_CHOICE, /* an enum, 0 .. n_choices - 1                              */
    LS_FIELD_FLAG    /* bool                                                     */
} ls_field_kind;

typedef struct ls_field {
    const char *key; /* as in JSON; the option is "--" and - for _, but --norm for norm_place */
    ls_field_kind kind;
    size_t offset; /* in ls_config */
    size_t least, most;
    double above, below;  /* reals: above <= value < below; when open_below: above < value */
    int open_below;       /* whether `above` itself is refused */
    const char *interval; /* the same in words */
    const char *const *choices;
    size_t n_choices;
} ls_field;

enum { LS_CONFIG_FIELDS = 25 };
extern const ls_field ls_config_fields[LS_CONFIG_FIELDS];

/* The field's bytes in a configuration. */
static inline void *ls_field_of(ls_config *config, const ls_field *field)
{
    return (char *)config + field->offset;
}

static inline const void *ls_field_in(const ls_config *config, const ls_field *field)
{
    return (const char *)config + field->offset;
}

/* A choice is stored as an enum of its own type; these go through its bytes. */
int ls_field_choice(const ls_config *config, const ls_field *field);
void ls_field_choose(ls_config *config, const ls_field *field, int choice);

/* Whether the field says something of a convolutional network too. */
bool ls_field_of_net(const ls_field *field);

/* What the field may be, in words: "a whole number from 1 to 4000", "layernorm or rmsnorm". Written
 * to `buffer`, which is returned. */
enum { LS_FIELD_TEXT_BYTES = 160 };
const char *ls_field_allowed(const ls_field *field, char buffer[LS_FIELD_TEXT_BYTES]);

/* How texts name a field: "--d-model", or "FILE: d_model" for a configuration read from a file. */
enum { LS_FIELD_LABEL_BYTES = 512 };
const char *ls_field_label(const char *key, const char *file, char buffer[LS_FIELD_LABEL_BYTES]);

/* The divisors of `of`, at most `most`, that leave a quotient divisible by `step`: "1, 2, 3 or 6",
 * or the first ten and "..."; "" when there is none. Returns buffer. */
enum { LS_DIVISORS_TEXT = 160 };
const char *ls_divisors_text(size_t of, size_t step, size_t most, char buffer[LS_DIVISORS_TEXT]);

/* ls_config_check with texts that name keys of `file` instead of options (NULL: options). */
ls_status ls_config_check_file(const ls_config *config, const char *file) LS_MUST_USE;

/* Whether the configuration is one of `count` built-in names, and those names. */
enum { LS_CONFIG_NAMES = 6 };
#define LS_CONFIG_NAMES_TEXT                                                                       \
    "gpt2-nano, gpt2-124m, llama-nano, bert-nano, alexnet-nano or resnet-nano"
extern const char *const ls_config_names[LS_CONFIG_NAMES];

#endif
