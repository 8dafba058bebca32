#include "model/config_fields.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/append.h"

static const char *const norms[] = {"layernorm", "rmsnorm"};
static const char *const activations[] = {"gelu_tanh", "gelu_erf", "swiglu"};
static const char *const positions[] = {"learned", "rotary"};
static const char *const places[] = {"pre", "post"};
static const char *const objectives[] = {"next_token", "masked_token"};
static const char *const cuts[] = {"column_first", "row_first"};

/* clang-format off */
#define AT(member) offsetof(ls_config, member)
#define SIZE(member, most) SIZE_FROM(member, 1, most)
#define SIZE_FROM(member, least, most) \
    {#member, LS_FIELD_SIZE, AT(member), least, most, 0, 0, 0, NULL, NULL, 0}
#define CHOICE(member, names) \
    {#member, LS_FIELD_CHOICE, AT(member), 0, 0, 0, 0, 0, NULL, names, sizeof names / sizeof *names}
#define FLAG(member) \
    {#member, LS_FIELD_FLAG, AT(member), 0, 0, 0, 0, 0, NULL, NULL, 0}
#define REAL(member, above, below, open, interval) \
    {#member, LS_FIELD_REAL, AT(member), 0, 0, above, below, open, interval, NULL, 0}

/* The largest sizes are far beyond what a machine holds; they keep every product of sizes inside 64
 * bits. 4000 layers: a parameter's place in the table must fit the 16 bits it has in the counter of
 * the random numbers. */
const ls_field ls_config_fields[LS_CONFIG_FIELDS] = {
    SIZE(layers, 4000),
    SIZE(d_model, (size_t)1 << 20),
    SIZE(heads, (size_t)1 << 12),
    SIZE(kv_heads, (size_t)1 << 12),
    SIZE(d_ff, (size_t)1 << 22),
    SIZE(seq, (size_t)1 << 20),
    SIZE(vocab, (size_t)1 << 24),
    SIZE(batch, (size_t)1 << 20),
    CHOICE(norm, norms),
    CHOICE(norm_place, places),
    CHOICE(activation, activations),
    CHOICE(position, positions),
    CHOICE(mlp_cut, cuts),
    CHOICE(objective, objectives),
    SIZE_FROM(token_types, 0, (size_t)1 << 16),
    FLAG(embedding_norm),
    FLAG(sentence_order),
    FLAG(causal),
    FLAG(bias),
    FLAG(tied),
    REAL(dropout, 0, 1, 0, "a number from 0 to below 1"),
    REAL(norm_eps, 0, 1, 1, "a number above 0 and below 1"),
    REAL(rope_theta, 0, 1e30, 1, "a number above 0 and below 1e30"),
    REAL(init_std, 0, 1e6, 0, "a number from 0 to below 1e6"),
    REAL(label_smoothing, 0, 1, 0, "a number from 0 to below 1"),
};
/* clang-format on */

/* An enumeration without negative values is an unsigned or a signed int, as the compiler likes. */
_Static_assert(sizeof(ls_norm_kind) == sizeof(int) && sizeof(ls_activation_kind) == sizeof(int) &&
                   sizeof(ls_position_kind) == sizeof(int) && sizeof(ls_mlp_cut) == sizeof(int) &&
                   sizeof(ls_norm_place) == sizeof(int) && sizeof(ls_objective) == sizeof(int),
               "a choice is stored as an int");

int ls_field_choice(const ls_config *config, const ls_field *field)
{
    int choice;
    memcpy(&choice, ls_field_in(config, field), sizeof choice);
    return choice;
}

void ls_field_choose(ls_config *config, const ls_field *field, int choice)
{
    memcpy(ls_field_of(config, field), &choice, sizeof choice);
}

bool ls_field_of_net(const ls_field *field)
{
    return field->offset == AT(batch) || field->offset == AT(label_smoothing);
}

const char *ls_field_allowed(const ls_field *field, char buffer[LS_FIELD_TEXT_BYTES])
{
    size_t used = 0;
    switch (field->kind) {
    case LS_FIELD_SIZE:
        snprintf(buffer, LS_FIELD_TEXT_BYTES, "a whole number from %zu to %zu", field->least,
                 field->most);
        break;
    case LS_FIELD_REAL:
        snprintf(buffer, LS_FIELD_TEXT_BYTES, "%s", field->interval);
        break;
    case LS_FIELD_CHOICE:
        for (size_t i = 0; i < field->n_choices; i++)
            used = ls_append(buffer, LS_FIELD_TEXT_BYTES, used, "%s%s", ls_or(i, field->n_choices),
                             field->choices[i]);
        break;
    case LS_FIELD_FLAG:
        snprintf(buffer, LS_FIELD_TEXT_BYTES, "true or false");
        break;
    }
    return buffer;
}

const char *ls_field_label(const char *key, const char *file, char buffer[LS_FIELD_LABEL_BYTES])
{
    if (file) {
        snprintf(buffer, LS_FIELD_LABEL_BYTES, "%s: %s", ls_show(file), key);
    } else {
        if (strcmp(key, "norm_place") == 0) key = "norm"; /* its option's name */
        snprintf(buffer, LS_FIELD_LABEL_BYTES, "--%s", key);
        for (char *c = buffer + 2; *c; c++)
            if (*c == '_') *c = '-';
    }
    return buffer;
}

const char *ls_divisors_text(size_t of, size_t step, size_t most, char buffer[LS_DIVISORS_TEXT])
{
    enum { LISTED = 10 };
    size_t found = 0, used = 0, listed[LISTED];
    buffer[0] = '\0';
    for (size_t d = 1; d <= of && d <= most && found <= LISTED; d++) {
        if (of % d != 0 || of / d % step != 0) continue;
        if (found < LISTED) listed[found] = d;
        found++;
    }
    for (size_t i = 0; i < found && i < LISTED; i++)
        used = ls_append(buffer, LS_DIVISORS_TEXT, used, "%s%zu", ls_or(i, found), listed[i]);
    if (found > LISTED) ls_append(buffer, LS_DIVISORS_TEXT, used, ", ...");
    return buffer;
}
