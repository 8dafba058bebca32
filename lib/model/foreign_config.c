/* foreign_config.c - a config.json of Hugging Face, key by key. */
#include "model/foreign_config.h"

#include <stdint.h>
#include <string.h>

#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "model/config_fields.h"

/* ---- what the three kinds say ---- */

enum { MOST_KEYS = 12, MOST_DEMANDS = 8, MOST_DROPOUTS = 3, MOST_ACTIVATIONS = 4 };

typedef struct key {
    const char *theirs, *ours; /* a field of the configuration */
} key;

typedef struct demand {
    const char *key, *value; /* as JSON: the only one that is computed here */
} demand;

typedef struct activation {
    const char *name;
    ls_activation_kind kind;
} activation;

typedef struct kind {
    const char *type;
    const char *activation_key;
    activation activations[MOST_ACTIVATIONS]; /* the first: when nothing is said */
    key keys[MOST_KEYS];
    const char *dropouts[MOST_DROPOUTS]; /* one number here: all must be the same */
    demand demands[MOST_DEMANDS];
    ls_config defaults; /* sizes of 0 follow from others */
} kind;

static const kind kinds[] = {
    {.type = "gpt2",
     .activation_key = "activation_function",
     .activations = {{"gelu_new", LS_GELU_TANH},
                     {"gelu_pytorch_tanh", LS_GELU_TANH},
                     {"gelu", LS_GELU_ERF}},
     .keys = {{"n_layer", "layers"},
              {"n_embd", "d_model"},
              {"n_head", "heads"},
              {"n_inner", "d_ff"},
              {"n_positions", "seq"},
              {"vocab_size", "vocab"},
              {"layer_norm_epsilon", "norm_eps"},
              {"initializer_range", "init_std"},
              {"tie_word_embeddings", "tied"}},
     .dropouts = {"embd_pdrop", "attn_pdrop", "resid_pdrop"},
     .demands = {{"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx", "false"}},
     .defaults = {.layers = 12,
                  .d_model = 768,
                  .heads = 12,
                  .seq = 1024,
                  .vocab = 50257,
                  .norm = LS_LAYER_NORM,
                  .position = LS_LEARNED,
                  .causal = true,
                  .bias = true,
                  .tied = true,
                  .dropout = 0.1,
                  .norm_eps = 1e-5}},
    {.type = "llama",
     .activation_key = "hidden_act",
     .activations = {{"silu", LS_SWIGLU}, {"swish", LS_SWIGLU}},
     .keys = {{"num_hidden_layers", "layers"},
              {"hidden_size", "d_model"},
              {"num_attention_heads", "heads"},
              {"num_key_value_heads", "kv_heads"},
              {"intermediate_size", "d_ff"},
              {"max_position_embeddings", "seq"},
              {"vocab_size", "vocab"},
              {"rms_norm_eps", "norm_eps"},
              {"rope_theta", "rope_theta"},
              {"initializer_range", "init_std"},
              {"tie_word_embeddings", "tied"}},
     .demands = {{"attention_bias", "false"},
                 {"mlp_bias", "false"},
                 {"attention_dropout", "0.0"},
                 {"partial_rotary_factor", "1.0"},
                 {"use_sliding_window", "false"}},
     .defaults = {.layers = 32,
                  .d_model = 4096,
                  .heads = 32,
                  .d_ff = 11008,
                  .seq = 2048,
                  .vocab = 32000,
                  .norm = LS_RMS_NORM,
                  .position = LS_ROTARY,
                  .causal = true,
                  .norm_eps = 1e-6}},
    {.type = "bert",
     .activation_key = "hidden_act",
     .activations = {{"gelu", LS_GELU_ERF}},
     .keys = {{"num_hidden_layers", "layers"},
              {"hidden_size", "d_model"},
              {"num_attention_heads", "heads"},
              {"intermediate_size", "d_ff"},
              {"max_position_embeddings", "seq"},
              {"vocab_size", "vocab"},
              {"type_vocab_size", "token_types"},
              {"layer_norm_eps", "norm_eps"},
              {"initializer_range", "init_std"},
              {"tie_word_embeddings", "tied"}},
     .dropouts = {"hidden_dropout_prob", "attention_probs_dropout_prob"},
     .demands = {{"position_embedding_type", "\"absolute\""}},
     .defaults = {.layers = 12,
                  .d_model = 768,
                  .heads = 12,
                  .d_ff = 3072,
                  .seq = 512,
                  .vocab = 30522,
                  .norm = LS_LAYER_NORM,
                  .norm_place = LS_NORM_POST,
                  .position = LS_LEARNED,
                  .objective = LS_MASKED_TOKEN,
                  .token_types = 2,
                  .embedding_norm = true,
                  .sentence_order = true,
                  .bias = true,
                  .tied = true,
                  .dropout = 0.1,
                  .norm_eps = 1e-12}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Of every kind. */
static const demand of_all[] = {{"is_encoder_decoder", "false"},
                                {"is_decoder", "false"},
                                {"add_cross_attention", "false"},
                                {"tie_encoder_decoder", "false"},
                                {"pruned_heads", "{}"}};

int ls_foreign_config_is(const json_t *object)
{
    return json_object_get(object, "model_type") != NULL;
}

/* ---- reading ---- */

/* The value of a key; NULL when it is absent or null. */
static json_t *get(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

static ls_status refuse(const char *file, const char *name, const json_t *value,
                        const char *allowed)
{
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__, "%s: %s %s: must be %s", ls_show(file),
                           name, ls_json_show(value), allowed);
}

static const ls_field *field_named(const char *name)
{
    size_t i = 0;
    while (strcmp(ls_config_fields[i].key, name) != 0) i++;
    return &ls_config_fields[i];
}

/* Stores the value of a key; its range is checked with the whole. */
static ls_status read_key(ls_config *config, const char *file, const key *k, const json_t *value)
{
    ls_status status = LS_OK;
    const ls_field *field = field_named(k->ours);
    char allowed[LS_FIELD_TEXT_BYTES];
    size_t size;
    double real;
    bool flag;
    if (field->kind == LS_FIELD_SIZE && json_is_integer(value) && json_integer_value(value) >= 0) {
        size = (size_t)json_integer_value(value);
        /* 0 is no size, and stands for none here. */
        if (size < field->least)
            return refuse(file, k->theirs, value, ls_field_allowed(field, allowed));
        memcpy(ls_field_of(config, field), &size, sizeof size);
    } else if (field->kind == LS_FIELD_REAL && json_is_number(value)) {
        real = json_number_value(value);
        memcpy(ls_field_of(config, field), &real, sizeof real);
    } else if (field->kind == LS_FIELD_FLAG && json_is_boolean(value)) {
        flag = json_is_true(value);
        memcpy(ls_field_of(config, field), &flag, sizeof flag);
    } else {
        status = refuse(file, k->theirs, value, ls_field_allowed(field, allowed));
    }
    return status;
}

static ls_status read_activation(ls_config *config, const char *file, const kind *k,
                                 const json_t *object)
{
    const json_t *value = get(object, k->activation_key);
    const char *name = value ? json_string_value(value) : k->activations[0].name;
    char list[160] = "";
    for (int i = 0; i < MOST_ACTIVATIONS && k->activations[i].name; i++) {
        if (name && strcmp(name, k->activations[i].name) == 0) {
            config->activation = k->activations[i].kind;
            return LS_OK;
        }
        strcat(strcat(list, i ? " or " : ""), k->activations[i].name);
    }
    return refuse(file, k->activation_key, value, list);
}

/* Several dropouts of theirs are one here. */
static ls_status read_dropouts(ls_config *config, const char *file, const kind *k,
                               const json_t *object)
{
    ls_status status = LS_OK;
    double first = config->dropout;
    for (int i = 0; i < MOST_DROPOUTS && k->dropouts[i]; i++) {
        const json_t *value = get(object, k->dropouts[i]);
        double dropout = value ? json_number_value(value) : config->dropout;
        if (value && !json_is_number(value))
            return refuse(file, k->dropouts[i], value, "a number from 0 to below 1");
        if (i == 0) first = dropout;
        if (dropout < first || dropout > first)
            LS_FAIL(LS_ERR_INPUT, "%s: %s %g, but %s %g: this library has one dropout for all",
                    ls_show(file), k->dropouts[0], first, k->dropouts[i], dropout);
    }
    config->dropout = first;
exit:
    return status;
}

/* Whether a key, if it is there, has the one value whose computation is this library's. */
static ls_status check_demand(const char *file, const demand *d, const json_t *object)
{
    const json_t *value = get(object, d->key);
    ls_status status = LS_OK;
    json_t *wanted = NULL;
    LS_TRY(ls_json_parse(d->key, (ls_json_span){d->value, strlen(d->value)}, &wanted));
    bool number = json_is_number(wanted) && json_is_number(value);
    double distance = json_number_value(value) - json_number_value(wanted);
    bool same = number ? distance >= 0 && distance <= 0 : json_equal(value, wanted);
    if (value && !same) LS_TRY(refuse(file, d->key, value, d->value));
exit:
    json_decref(wanted);
    return status;
}

static const demand whole_heads = {"partial_rotary_factor", "1.0"};

/* Llama's rotary angles in one of the two objects where they have been written: theta and nothing
 * else. place: its key. before: what the configuration itself says of theta; 0: nothing. */
static ls_status read_angles(ls_config *config, const char *file, const char *place,
                             const json_t *object, double before)
{
    static const key theta = {"rope_theta", "rope_theta"};
    ls_status status = LS_OK;
    const json_t *number = get(object, theta.theirs);
    const char *name;
    json_t *value;
    const json_t *type = get(object, "rope_type");
    if (!type) type = get(object, "type");
    if (!json_is_object(object)) LS_TRY(refuse(file, place, object, "null or an object"));
    if (!type)
        LS_FAIL(LS_ERR_INPUT,
                "%s: %s %s: says no rope_type; only \"default\", angles without scaling, is "
                "computed here",
                ls_show(file), place, ls_json_show(object));
    if (!json_is_string(type) || strcmp(json_string_value(type), "default") != 0)
        LS_TRY(refuse(file, place, object,
                      "null, or of the type default: scaled angles are not computed here"));
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (strcmp(name, "rope_type") == 0 || strcmp(name, "type") == 0 || json_is_null(value) ||
            strcmp(name, theta.theirs) == 0 || strcmp(name, whole_heads.key) == 0)
            continue;
        LS_FAIL(LS_ERR_INPUT,
                "%s: %s: unknown key \"%s\"; rope_type, rope_theta and "
                "partial_rotary_factor are read here",
                ls_show(file), place, ls_show(name));
    }
    LS_TRY(check_demand(file, &whole_heads, object));
    if (number) LS_TRY(read_key(config, file, &theta, number));
    if (number && before > 0 && (config->rope_theta < before || config->rope_theta > before))
        LS_FAIL(LS_ERR_INPUT, "%s: rope_theta %g, but %s.rope_theta %g", ls_show(file), before,
                place, config->rope_theta);
exit:
    return status;
}

static ls_status read_rotary(ls_config *config, const char *file, const json_t *object)
{
    static const char *const places[] = {"rope_scaling", "rope_parameters"};
    ls_status status = LS_OK;
    for (int i = 0; i < 2; i++) {
        const json_t *value = get(object, places[i]);
        const double before = get(object, "rope_theta") ? config->rope_theta : 0;
        if (value) LS_TRY(read_angles(config, file, places[i], value, before));
    }
exit:
    return status;
}

/* Whether the kind reads a key, or what it would change is known to be nothing. */
static bool knows_key(const kind *k, const char *name)
{
    static const char *const rotary[] = {"rope_scaling", "rope_parameters", "head_dim"};
    bool known = strcmp(name, k->activation_key) == 0 || ls_foreign_key_is_harmless(name);
    for (int i = 0; i < MOST_KEYS && k->keys[i].theirs; i++)
        known |= strcmp(name, k->keys[i].theirs) == 0;
    for (int i = 0; i < MOST_DROPOUTS && k->dropouts[i]; i++)
        known |= strcmp(name, k->dropouts[i]) == 0;
    for (int i = 0; i < MOST_DEMANDS && k->demands[i].key; i++)
        known |= strcmp(name, k->demands[i].key) == 0;
    for (int i = 0; i < 3 && k->defaults.position == LS_ROTARY; i++)
        known |= strcmp(name, rotary[i]) == 0;
    return known;
}

/* An unknown key could change what is computed. */
static ls_status check_keys(const json_t *object, const char *file, const kind *k)
{
    ls_status status = LS_OK;
    const char *name;
    json_t *value;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        LS_TRY(check_demand(file, &of_all[i], object));
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool known = json_is_null(value) || knows_key(k, name);
        for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
            known |= strcmp(name, of_all[i].key) == 0;
        if (!known)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: unknown key \"%s\" %s: it could change what a %s computes; remove it "
                    "where it does not",
                    ls_show(file), ls_show(name), ls_json_show(value), k->type);
    }
exit:
    return status;
}

/* BERT with one loss or two. */
static bool has_architecture(const json_t *object, const char *name)
{
    const json_t *list = get(object, "architectures");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

static ls_status read_kind(const json_t *object, const char *file, const kind *k, ls_config *config)
{
    ls_status status = LS_OK;
    LS_TRY(check_keys(object, file, k));
    *config = k->defaults;
    strcpy(config->name, k->type);
    config->batch = 8;
    config->rope_theta = 10000;
    config->init_std = 0.02;
    for (int i = 0; i < MOST_KEYS && k->keys[i].theirs; i++) {
        const json_t *value = get(object, k->keys[i].theirs);
        if (value) LS_TRY(read_key(config, file, &k->keys[i], value));
    }
    LS_TRY(read_activation(config, file, k, object));
    LS_TRY(read_dropouts(config, file, k, object));
    for (int i = 0; i < MOST_DEMANDS && k->demands[i].key; i++)
        LS_TRY(check_demand(file, &k->demands[i], object));
    if (config->position == LS_ROTARY) LS_TRY(read_rotary(config, file, object));
    if (has_architecture(object, "BertForMaskedLM")) config->sentence_order = false;
    if (config->kv_heads == 0) config->kv_heads = config->heads;
    if (config->d_ff == 0) config->d_ff = 4 * config->d_model;
    const json_t *head = get(object, "head_dim");
    if (head && (!json_is_integer(head) || config->d_model % config->heads != 0 ||
                 (size_t)json_integer_value(head) != ls_config_head_width(config)))
        LS_FAIL(
            LS_ERR_INPUT,
            "%s: head_dim %s: must be hidden_size %zu divided by num_attention_heads %zu; heads "
            "of a width of their own are not computed here",
            ls_show(file), ls_json_show(head), config->d_model, config->heads);
exit:
    return status;
}

ls_status ls_foreign_config_read(const json_t *object, const char *file, ls_config *ret_config)
{
    const json_t *type = json_object_get(object, "model_type");
    const char *lacks = ls_foreign_type_lacks(json_string_value(type));
    for (size_t i = 0; i < KINDS; i++)
        if (json_is_string(type) && strcmp(json_string_value(type), kinds[i].type) == 0)
            return read_kind(object, file, &kinds[i], ret_config);
    if (!lacks) return refuse(file, "model_type", type, "gpt2, llama or bert");
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "%s: model_type %s: %s; must be gpt2, llama or bert", ls_show(file),
                           ls_json_show(type), lacks);
}
