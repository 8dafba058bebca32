/* config_json.c - a configuration as JSON text. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_text.h"
#include "base/path.h"
#include "base/thread_mode.h"
#include "base/utf8.h"
#include "lockstep/base/show.h"
#include "model/config_fields.h"
#include "model/config_tree.h"
#include "model/foreign_config.h"
#include "model/net_parts.h"
#include "base/allocate.h"
#include "base/append.h"

/* A configuration is a page of text; more is some other file. */
enum { MOST_BYTES = 1 << 20 };

#define CONFIG_NAME "config.json" /* of Hugging Face */

/* Stores one value of the right type; what lies outside its range is found later, by the check. */
static ls_status read_field(ls_config *config, const ls_field *field, const json_t *value,
                            const char *file)
{
    ls_status status = LS_OK;
    int fits = 0;
    switch (field->kind) {
    case LS_FIELD_SIZE:
        if (json_is_integer(value) && json_integer_value(value) >= 0 &&
            (uintmax_t)json_integer_value(value) <= SIZE_MAX) {
            size_t size = (size_t)json_integer_value(value);
            memcpy(ls_field_of(config, field), &size, sizeof size);
            fits = 1;
        }
        break;
    case LS_FIELD_REAL:
        if (json_is_number(value)) {
            double real = json_number_value(value);
            memcpy(ls_field_of(config, field), &real, sizeof real);
            fits = 1;
        }
        break;
    case LS_FIELD_FLAG:
        if (json_is_boolean(value)) {
            bool flag = json_is_true(value);
            memcpy(ls_field_of(config, field), &flag, sizeof flag);
            fits = 1;
        }
        break;
    case LS_FIELD_CHOICE:
        for (size_t i = 0; json_is_string(value) && i < field->n_choices; i++) {
            if (strcmp(json_string_value(value), field->choices[i]) != 0) continue;
            ls_field_choose(config, field, (int)i);
            fits = 1;
        }
        break;
    }
    if (!fits) {
        char allowed[LS_FIELD_TEXT_BYTES];
        LS_FAIL(LS_ERR_INPUT, "%s: %s %s: must be %s", ls_show(file), field->key,
                ls_json_show(value), ls_field_allowed(field, allowed));
    }
exit:
    return status;
}

static ls_status read_name(ls_config *config, const json_t *value, const char *file)
{
    ls_status status = LS_OK;
    const char *name = json_string_value(value);
    /* It is in many texts, so it must be one that is shown as it is. */
    if (!name || name[0] == '\0' || strlen(name) >= sizeof config->name ||
        strcmp(ls_show(name), name) != 0) {
        LS_FAIL(LS_ERR_INPUT, "%s: name %s: must be 1 to %zu printable bytes", ls_show(file),
                ls_json_show(value), sizeof config->name - 1);
    }
    strcpy(config->name, name);
exit:
    return status;
}

static ls_status read_base(ls_config *config, const json_t *value, const char *file)
{
    ls_status status = LS_OK;
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    for (size_t i = 0; i < LS_CONFIG_NAMES; i++)
        if (strcmp(name, ls_config_names[i]) == 0) return ls_config_named(name, config);
    LS_FAIL(LS_ERR_INPUT, "%s: base %s: must be " LS_CONFIG_NAMES_TEXT, ls_show(file),
            ls_json_show(value));
exit:
    return status;
}

static ls_status unknown_key(const char *key, const char *file)
{
    const char *known[LS_CONFIG_FIELDS + 3] = {"name", "base", "network"};
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++) known[i + 3] = ls_config_fields[i].key;
    const char *nearest = ls_nearest(key, known, LS_CONFIG_FIELDS + 3);
    if (nearest) {
        return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                               "%s: unknown key \"%s\"; did you mean \"%s\"?", ls_show(file),
                               ls_show(key), nearest);
    }
    char list[512] = "";
    for (size_t i = 0, used = 0; i < LS_CONFIG_FIELDS + 3; i++)
        used = ls_append(list, sizeof list, used, "%s%s", i ? ", " : "", known[i]);
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "%s: unknown key \"%s\"; known keys: %s", ls_show(file), ls_show(key),
                           list);
}

static const ls_field *field_named(const char *key)
{
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++)
        if (strcmp(key, ls_config_fields[i].key) == 0) return &ls_config_fields[i];
    return NULL;
}

/* A network without a base: all but its image, classes and layers. */
static void begin_network(ls_config *config)
{
    memset(config, 0, sizeof *config);
    config->kind = LS_MODEL_NET;
    config->batch = 8;
    config->net.row_granules = config->net.column_granules = 8;
    config->net.channel_granules = 4;
}

/* On failure *config is undefined. */
static ls_status read_into(ls_config *config, json_t *object, const char *file)
{
    ls_status status = LS_OK;
    if (ls_foreign_config_is(object)) {
        LS_TRY(ls_foreign_config_read(object, file, config));
        LS_TRY(ls_config_check_file(config, file));
        goto exit;
    }
    const json_t *network = json_object_get(object, "network");
    json_t *base = json_object_get(object, "base");
    LS_TRY(ls_config_named("gpt2-nano", config));
    if (network) begin_network(config);
    if (base) LS_TRY(read_base(config, base, file));
    if (network && config->kind != LS_MODEL_NET)
        LS_FAIL(LS_ERR_INPUT,
                "%s: base %s: is a transformer and has no \"network\"; use alexnet-nano "
                "or resnet-nano, or leave it out",
                ls_show(file), ls_json_show(base));
    strcpy(config->name, "custom");
    bool one_kv_per_head = config->kv_heads == config->heads;

    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const ls_field *field = field_named(key);
        if (field && config->kind == LS_MODEL_NET && !ls_field_of_net(field))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: %s: a convolutional network has none; known keys: name, base, batch, "
                    "label_smoothing, network",
                    ls_show(file), key);
        if (field)
            LS_TRY(read_field(config, field, value, file));
        else if (strcmp(key, "name") == 0)
            LS_TRY(read_name(config, value, file));
        else if (strcmp(key, "network") == 0)
            LS_TRY(ls_net_read(value, file, &config->net));
        else if (strcmp(key, "base") != 0)
            LS_TRY(unknown_key(key, file));
    }
    /* A model without shared key/value heads stays one when only its heads are changed. */
    if (one_kv_per_head && !json_object_get(object, "kv_heads")) config->kv_heads = config->heads;
    LS_TRY(ls_config_check_file(config, file));
exit:
    return status;
}

/* A description is 40 KB, and a thread's stack may be 128 KiB. */
static ls_status read_object(json_t *object, const char *file, ls_config *ret_config)
{
    ls_status status = LS_OK;
    ls_config *config = NULL;
    LS_ROOM(config, 1);
    LS_TRY(read_into(config, object, file));
    *ret_config = *config;
exit:
    free(config);
    return status;
}

static ls_status read_root(json_t *root, const char *file, ls_config *ret_config)
{
    ls_status status = LS_OK;
    if (!json_is_object(root)) {
        LS_FAIL(LS_ERR_INPUT, "%s: found %s; a model is a JSON object {\"layers\": 4, ...}",
                ls_show(file), ls_json_show(root));
    }
    LS_TRY(read_object(root, file, ret_config));
exit:
    return status;
}

ls_status ls_config_from_json(const char *label, const char *json, ls_config *ret_config)
{
    ls_status status = LS_OK;
    json_t *root = NULL;
    LS_TRY(ls_json_parse(ls_show(label), (ls_json_span){json, strlen(json)}, &root));
    LS_TRY(read_root(root, label, ret_config));
exit:
    json_decref(root);
    return status;
}

static ls_status read_json(const char *file, ls_config *ret_config)
{
    ls_status status = LS_OK;
    json_t *root = NULL;
    LS_TRY(ls_json_read(file, MOST_BYTES, &root));
    LS_TRY(read_root(root, file, ret_config));
exit:
    json_decref(root);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static ls_status read_folder(const char *folder, ls_config *ret_config)
{
    ls_status status = LS_OK;
    struct stat about;
    char *file = ls_path_inside(folder, CONFIG_NAME);
    if (!file) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(folder));
    if (stat(file, &about) != 0)
        LS_FAIL(LS_ERR_INPUT, "--model %s: a folder without config.json", ls_show(folder));
    LS_TRY(read_json(file, ret_config));
exit:
    free(file);
    return status;
}

ls_status ls_config_beside(const char *checkpoint, char **ret_file)
{
    ls_status status = LS_OK;
    static const char otherwise[] = "; say with --model which model it is, whatever this file says";
    char *file = is_folder(checkpoint) ? ls_path_inside(checkpoint, CONFIG_NAME)
                                       : ls_path_beside(checkpoint, CONFIG_NAME);
    struct stat about;
    json_t *root = NULL;
    *ret_file = NULL;
    if (!file) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room to read %s", ls_show(checkpoint));
    if (stat(file, &about) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) goto exit;
        LS_FAIL(LS_ERR_IO, "%s: %s", ls_show(file), ls_show_errno(errno));
    }
    /* Opening a pipe would wait for its other end. */
    if (!S_ISREG(about.st_mode))
        LS_FAIL(LS_ERR_INPUT, "%s: is a folder, a device or a pipe, not a plain file%s",
                ls_show(file), otherwise);
    LS_TRY(ls_json_read(file, MOST_BYTES, &root));
    if (!json_is_object(root))
        LS_FAIL(LS_ERR_INPUT,
                "%s: found %s; a config.json is a JSON object {\"model_type\": ...}%s",
                ls_show(file), ls_json_show(root), otherwise);
    if (!ls_foreign_config_is(root))
        LS_FAIL(LS_ERR_INPUT,
                "%s: has no \"model_type\", which a config.json of Hugging Face has%s",
                ls_show(file), otherwise);
    *ret_file = file;
    file = NULL;
exit:
    json_decref(root);
    free(file);
    return status;
}

ls_status ls_config_load(const char *name_or_file, ls_config *ret_config)
{
    ls_status status = LS_OK;
    struct stat about;
    bool folder = is_folder(name_or_file);
    if (!folder && stat(name_or_file, &about) == 0) return read_json(name_or_file, ret_config);

    for (size_t i = 0; i < LS_CONFIG_NAMES; i++)
        if (strcmp(name_or_file, ls_config_names[i]) == 0)
            return ls_config_named(name_or_file, ret_config);
    if (folder) return read_folder(name_or_file, ret_config);
    const char *nearest = ls_nearest(name_or_file, ls_config_names, LS_CONFIG_NAMES);
    LS_FAIL(LS_ERR_INPUT,
            "--model %s: neither a built-in model nor a file that can be read%s%s%s; use "
            "a JSON file, " LS_CONFIG_NAMES_TEXT,
            ls_show(name_or_file), nearest ? " (did you mean " : "", nearest ? nearest : "",
            nearest ? "?)" : "");
exit:
    return status;
}

/* ---- writing ---- */

static json_t *field_value(const ls_config *config, const ls_field *field, int *digits)
{
    size_t size;
    double real;
    bool flag;
    switch (field->kind) {
    case LS_FIELD_SIZE:
        memcpy(&size, ls_field_in(config, field), sizeof size);
        return json_integer((json_int_t)size);
    case LS_FIELD_REAL:
        memcpy(&real, ls_field_in(config, field), sizeof real);
        if (ls_config_digits(real) > *digits) *digits = ls_config_digits(real);
        return json_real(real);
    case LS_FIELD_FLAG:
        memcpy(&flag, ls_field_in(config, field), sizeof flag);
        return json_boolean(flag);
    case LS_FIELD_CHOICE:
        return json_string(field->choices[ls_field_choice(config, field)]);
    }
    return NULL;
}

/* *ret_digits: that give every real of the tree back. */
static ls_status make_tree(const ls_config *config, json_t **ret_root, int *ret_digits)
{
    ls_status status = LS_OK;
    json_t *root = NULL;
    int digits = 1;
    LS_TRY(ls_config_check(config));
    if (!ls_is_utf8(config->name)) /* JSON cannot hold it */
        LS_FAIL(LS_ERR_INPUT, "the model's name \"%s\" is not UTF-8", ls_show(config->name));
    root = json_object();
    if (!root || json_object_set_new(root, "name", json_string(config->name)) != 0)
        LS_NO_MEMORY("the model as JSON");
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++) {
        const ls_field *field = &ls_config_fields[i];
        if (config->kind == LS_MODEL_NET && !ls_field_of_net(field)) continue;
        if (json_object_set_new(root, field->key, field_value(config, field, &digits)) != 0)
            LS_NO_MEMORY("the model as JSON");
    }
    if (config->kind == LS_MODEL_NET &&
        json_object_set_new(root, "network", ls_net_write(&config->net, &digits)) != 0)
        LS_NO_MEMORY("the model as JSON");
    *ret_root = root;
    *ret_digits = digits;
    root = NULL;
exit:
    json_decref(root);
    return status;
}

ls_status ls_config_to_tree(const ls_config *config, json_t **ret_root)
{
    int digits;
    return make_tree(config, ret_root, &digits);
}

ls_status ls_config_to_json(const ls_config *config, char **ret_json)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    json_t *root = NULL;
    char *text = NULL;
    int digits;
    ls_thread_mode_set(&mode);
    LS_TRY(make_tree(config, &root, &digits));
    text = ls_json_write(root, (size_t)(JSON_INDENT(2)) | (size_t)(JSON_REAL_PRECISION(digits)));
    if (!text) LS_NO_MEMORY("the model as JSON");
    *ret_json = text;
exit:
    json_decref(root);
    ls_thread_mode_restore(&mode);
    return status;
}
