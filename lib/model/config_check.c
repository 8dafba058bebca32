/* config_check.c - whether the sizes of a model fit each other. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "model/config_fields.h"

/* Nothing larger is ever counted: parameters, tokens of a batch, elements of one activation. */
#define MOST_PARAMETERS ((uint64_t)1 << 42)
#define MOST_TOKENS (((uint64_t)1 << 31) - 1)
#define MOST_ELEMENTS ((uint64_t)1 << 48)

/* One field by itself. */
static ls_status check_field(const ls_config *config, const ls_field *field, const char *file)
{
    ls_status status = LS_OK;
    char label[LS_FIELD_LABEL_BYTES], allowed[LS_FIELD_TEXT_BYTES];
    ls_field_label(field->key, file, label);
    ls_field_allowed(field, allowed);
    size_t size;
    double real;
    int choice;
    switch (field->kind) {
    case LS_FIELD_SIZE:
        memcpy(&size, ls_field_in(config, field), sizeof size);
        if (size < field->least || size > field->most)
            LS_FAIL(LS_ERR_INPUT, "%s %zu: must be %s", label, size, allowed);
        break;
    case LS_FIELD_REAL:
        memcpy(&real, ls_field_in(config, field), sizeof real);
        /* Written so that NaN fails. */
        if (!(real >= field->above && real < field->below) ||
            (field->open_below && !(real > field->above)))
            LS_FAIL(LS_ERR_INPUT, "%s %g: must be %s", label, real, allowed);
        break;
    case LS_FIELD_CHOICE:
        choice = ls_field_choice(config, field);
        if (choice < 0 || (size_t)choice >= field->n_choices)
            LS_FAIL(LS_ERR_INPUT, "%s %d: must be %s", label, choice, allowed);
        break;
    case LS_FIELD_FLAG:
        break;
    }
exit:
    return status;
}

static ls_status check_heads(const ls_config *config, const char *file)
{
    ls_status status = LS_OK;
    size_t D = config->d_model, H = config->heads;
    /* Rotary positions turn pairs of a head's elements. */
    size_t step = config->position == LS_ROTARY ? 2 : 1;
    char label[LS_FIELD_LABEL_BYTES], other[LS_FIELD_LABEL_BYTES], legal[LS_DIVISORS_TEXT];
    if (D % step != 0) {
        LS_FAIL(LS_ERR_INPUT, "%s %zu: must be even, rotary positions turn pairs of elements",
                ls_field_label("d_model", file, label), D);
    }
    if (D % H != 0) {
        LS_FAIL(LS_ERR_INPUT, "%s %zu: does not divide %s %zu; use %s",
                ls_field_label("heads", file, label), H,
                file ? "d_model" : ls_field_label("d_model", NULL, other), D,
                ls_divisors_text(D, step, 1 << 12, legal));
    }
    if (D / H % step != 0) {
        LS_FAIL(LS_ERR_INPUT,
                "%s %zu: makes heads %zu wide, and rotary positions need an even width; use %s",
                ls_field_label("heads", file, label), H, D / H,
                ls_divisors_text(D, step, 1 << 12, legal));
    }
    if (H % config->kv_heads != 0) {
        LS_FAIL(LS_ERR_INPUT, "%s %zu: does not divide %s %zu; use %s",
                ls_field_label("kv_heads", file, label), config->kv_heads,
                file ? "heads" : "--heads", H, ls_divisors_text(H, 1, 1 << 12, legal));
    }
exit:
    return status;
}

static ls_status check_choices(const ls_config *config, const char *file)
{
    ls_status status = LS_OK;
    char label[LS_FIELD_LABEL_BYTES];
    if (config->activation == LS_SWIGLU && config->bias) {
        LS_FAIL(LS_ERR_INPUT,
                "%s swiglu: has no biases; set %s to false, or use gelu_tanh or gelu_erf",
                ls_field_label("activation", file, label), file ? "bias" : "--bias");
    }
    if (config->mlp_cut == LS_MLP_ROW_FIRST && config->activation == LS_SWIGLU) {
        LS_FAIL(LS_ERR_INPUT,
                "%s row_first: stands for gelu_tanh and gelu_erf only, not for swiglu",
                ls_field_label("mlp_cut", file, label));
    }
    if (config->sentence_order && config->objective != LS_MASKED_TOKEN) {
        LS_FAIL(LS_ERR_INPUT,
                "%s true: only a masked-token model sees two spans; set %s to masked_token",
                ls_field_label("sentence_order", file, label), file ? "objective" : "--objective");
    }
    if (config->objective == LS_MASKED_TOKEN && config->token_types == 1) {
        LS_FAIL(LS_ERR_INPUT, "%s 1: a masked-token model sees two spans; use 0 or at least 2",
                ls_field_label("token_types", file, label));
    }
exit:
    return status;
}

/* No factor below exceeds its field's limit, and B S stays below 2^31 once checked, so none of
 * these products leaves 64 bits. */
static ls_status check_products(const ls_config *config, const char *file)
{
    ls_status status = LS_OK;
    char label[LS_FIELD_LABEL_BYTES];
    uint64_t L = config->layers, D = config->d_model, F = config->d_ff, S = config->seq;
    uint64_t V = ls_axis_extent(ls_config_vocab_axis(config)), B = config->batch;

    /* Three matrices D x F: an upper bound for both activations; vectors are noise. */
    uint64_t parameters = L * (4 * D * D + 3 * D * F) + 2 * V * D + S * D;
    if (config->objective == LS_MASKED_TOKEN) parameters += 2 * D * D; /* its head, the pooler */
    parameters += config->token_types * D;
    if (parameters > MOST_PARAMETERS) {
        LS_FAIL(LS_ERR_INPUT,
                "%s %zu: with %zu layers, feed-forward width %zu and a vocabulary of %zu this is "
                "a model of %llu parameters; at most %llu",
                ls_field_label("d_model", file, label), config->d_model, config->layers,
                config->d_ff, config->vocab, (unsigned long long)parameters,
                (unsigned long long)MOST_PARAMETERS);
    }
    if (B * S > MOST_TOKENS) {
        LS_FAIL(LS_ERR_INPUT,
                "%s %zu: sequences of %zu tokens are a batch of more than %llu; use at most %llu",
                ls_field_label("batch", file, label), config->batch, config->seq,
                (unsigned long long)MOST_TOKENS, (unsigned long long)(MOST_TOKENS / S));
    }
    uint64_t widest = D > F ? D : F;
    if (V > widest) widest = V;
    if (B * S * widest > MOST_ELEMENTS || B * S * config->heads * S > MOST_ELEMENTS) {
        LS_FAIL(LS_ERR_INPUT,
                "%s %zu: with %zu sequences, %zu heads and a width of %llu one activation has more "
                "than %llu elements",
                ls_field_label("seq", file, label), config->seq, config->batch, config->heads,
                (unsigned long long)widest, (unsigned long long)MOST_ELEMENTS);
    }
exit:
    return status;
}

/* A network has its own sizes; one of a transformer's was meant for something else. */
static ls_status check_net_field(const ls_config *config, const ls_field *field, const char *file)
{
    ls_status status = LS_OK;
    char label[LS_FIELD_LABEL_BYTES];
    size_t size = 0;
    double real = 0;
    bool flag = false;
    int choice = 0;
    if (field->kind == LS_FIELD_SIZE) memcpy(&size, ls_field_in(config, field), sizeof size);
    if (field->kind == LS_FIELD_REAL) memcpy(&real, ls_field_in(config, field), sizeof real);
    if (field->kind == LS_FIELD_FLAG) memcpy(&flag, ls_field_in(config, field), sizeof flag);
    if (field->kind == LS_FIELD_CHOICE) choice = ls_field_choice(config, field);
    if (size != 0 || !(real >= 0 && real <= 0) || flag || choice != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: a convolutional network has none; its layers are said under \"network\" in a "
                "JSON file",
                ls_field_label(field->key, file, label));
exit:
    return status;
}

static ls_status check_net(const ls_config *config, const char *file)
{
    ls_status status = LS_OK;
    char label[LS_FIELD_LABEL_BYTES];
    if (file)
        snprintf(label, sizeof label, "%s: network", ls_show(file));
    else
        snprintf(label, sizeof label, "--model %s", ls_show(config->name));
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++) {
        const ls_field *field = &ls_config_fields[i];
        LS_TRY((ls_field_of_net(field) ? check_field : check_net_field)(config, field, file));
    }
    LS_TRY(ls_net_check(&config->net, label));

    ls_net_shapes shapes;
    ls_net_shapes_of(&config->net, &shapes);
    for (int l = LS_NET_IMAGE; l < (int)config->net.count; l++) {
        const size_t elements = ls_net_shape_elements(ls_net_shape_at(&shapes, l));
        if (elements > MOST_ELEMENTS / config->batch)
            LS_FAIL(LS_ERR_INPUT,
                    "%s %zu: %s makes %zu elements of each image; more than %llu in all",
                    ls_field_label("batch", file, label), config->batch,
                    l < 0 ? "the file" : config->net.layers[l].name, elements,
                    (unsigned long long)MOST_ELEMENTS);
    }
exit:
    return status;
}

ls_status ls_config_check_file(const ls_config *config, const char *file)
{
    ls_status status = LS_OK;
    if (!memchr(config->name, '\0', sizeof config->name)) {
        LS_FAIL(LS_ERR_INPUT, "the model's name has no end; at most %zu bytes",
                sizeof config->name - 1);
    }
    if ((unsigned)config->kind > LS_MODEL_NET)
        LS_FAIL(LS_ERR_INPUT,
                "the model's kind is %d: must be 0, a transformer, or 1, a "
                "convolutional network",
                (int)config->kind);
    if (config->kind == LS_MODEL_NET) {
        LS_TRY(check_net(config, file));
        goto exit;
    }
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++)
        LS_TRY(check_field(config, &ls_config_fields[i], file));
    LS_TRY(check_heads(config, file));
    LS_TRY(check_choices(config, file));
    LS_TRY(check_products(config, file));
exit:
    return status;
}

ls_status ls_config_check(const ls_config *config)
{
    return ls_config_check_file(config, NULL);
}
