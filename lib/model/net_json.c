/* net_json.c - a network as JSON and back.
 *
 * A layer says its kind, its name (the kind and its number when absent), what it reads (the layer
 * before it when absent) and the fields of its kind. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "model/net_parts.h"
#include "base/append.h"

/* ---- reading ---- */

/* What texts about a layer begin with: "FILE: network: layer conv2". */
typedef struct reader {
    const char *file;
    ls_net *net;
    size_t at;
    ls_net_layer *layer;
} reader;

/* LS_FAIL with file and layer in front. */
#define LAYER_FAIL(r, ...)                                                                         \
    do {                                                                                           \
        char layer_rest[600];                                                                      \
        snprintf(layer_rest, sizeof layer_rest, __VA_ARGS__);                                      \
        LS_FAIL(LS_ERR_INPUT, "%s: network: layer %s: %s", ls_show((r)->file),                     \
                ls_show((r)->layer->name), layer_rest);                                            \
    } while (0)

static bool read_size(const json_t *value, size_t *ret_size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uintmax_t)json_integer_value(value) > SIZE_MAX)
        return false;
    *ret_size = (size_t)json_integer_value(value);
    return true;
}

/* One number for all `count` sizes, or a list of so many. */
static bool read_sizes(const json_t *value, size_t count, size_t sizes[4])
{
    if (!json_is_array(value)) {
        if (!read_size(value, &sizes[0])) return false;
        for (size_t i = 1; i < count; i++) sizes[i] = sizes[0];
        return true;
    }
    if (count == 1 || json_array_size(value) != count) return false;
    for (size_t i = 0; i < count; i++)
        if (!read_size(json_array_get(value, i), &sizes[i])) return false;
    return true;
}

/* A field that is given; what lies outside its range is found later, by the check. */
static ls_status read_field(const reader *r, const ls_net_field *field, const json_t *value)
{
    ls_status status = LS_OK;
    char *to = (char *)r->layer + field->offset;
    const size_t count = ls_net_field_sizes(field);
    size_t sizes[4];
    bool fits = false;
    if (count > 0 && (fits = read_sizes(value, count, sizes)))
        memcpy(to, sizes, count * sizeof *sizes);
    if (field->type == LS_NET_REAL && (fits = json_is_number(value))) {
        const double real = json_number_value(value);
        memcpy(to, &real, sizeof real);
    }
    if (field->type == LS_NET_FLAG && (fits = json_is_boolean(value))) {
        const bool flag = json_is_true(value);
        memcpy(to, &flag, sizeof flag);
    }
    if (!fits) {
        char allowed[LS_NET_TEXT_BYTES];
        LAYER_FAIL(r, "%s %s: must be %s", field->key, ls_json_show(value),
                   ls_net_field_allowed(field, allowed));
    }
exit:
    return status;
}

/* A field that is absent. */
static ls_status take_standard(const reader *r, const ls_net_field *field)
{
    ls_status status = LS_OK;
    const double standard = field->standard;
    char *to = (char *)r->layer + field->offset;
    if (!(standard >= 0)) { /* NaN */
        char allowed[LS_NET_TEXT_BYTES];
        LAYER_FAIL(r, "has no \"%s\"; give %s", field->key, ls_net_field_allowed(field, allowed));
    }
    for (size_t i = 0; i < ls_net_field_sizes(field); i++) {
        const size_t size = (size_t)standard;
        memcpy(to + i * sizeof size, &size, sizeof size);
    }
    if (field->type == LS_NET_REAL) memcpy(to, &standard, sizeof standard);
    if (field->type == LS_NET_FLAG) {
        const bool flag = standard > 0;
        memcpy(to, &flag, sizeof flag);
    }
exit:
    return status;
}

/* "from" or "beside": the name of an earlier layer, or "image". */
static ls_status read_place(const reader *r, const char *key, const json_t *value, int *ret_place)
{
    ls_status status = LS_OK;
    const char *name = json_string_value(value);
    const char *known[LS_NET_LAYERS + 1] = {"image"};
    if (!name)
        LAYER_FAIL(r, "%s %s: must be the name of an earlier layer or \"image\"", key,
                   ls_json_show(value));
    for (size_t i = 0; i < r->at; i++) known[i + 1] = r->net->layers[i].name;
    for (size_t i = 0; i <= r->at; i++)
        if (strcmp(known[i], name) == 0) {
            *ret_place = (int)i - 1;
            goto exit;
        }
    const char *nearest = ls_nearest(name, known, r->at + 1);
    LAYER_FAIL(r, "%s \"%s\": no layer before it is called so%s%s%s", key, ls_show(name),
               nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
exit:
    return status;
}

static ls_status read_kind(const reader *r, const json_t *object)
{
    ls_status status = LS_OK;
    const json_t *value = json_object_get(object, "kind");
    const char *name = json_string_value(value);
    for (int kind = 0; name && kind < LS_NET_KINDS; kind++)
        if (strcmp(ls_net_kind_name((ls_net_kind)kind), name) == 0) {
            r->layer->kind = (ls_net_kind)kind;
            goto exit;
        }
    char list[160] = "";
    size_t used = 0;
    for (int kind = 0; kind < LS_NET_KINDS; kind++)
        used = ls_append(list, sizeof list, used, "%s%s", ls_or((size_t)kind, LS_NET_KINDS),
                         ls_net_kind_name((ls_net_kind)kind));
    LS_FAIL(LS_ERR_INPUT, "%s: network: the kind of layer %zu is %s: must be %s", ls_show(r->file),
            r->at, value ? ls_json_show(value) : "not given", list);
exit:
    return status;
}

static ls_status read_name(const reader *r, const json_t *object)
{
    ls_status status = LS_OK;
    const json_t *value = json_object_get(object, "name");
    const char *name = json_string_value(value);
    if (!value) {
        snprintf(r->layer->name, sizeof r->layer->name, "%s%zu", ls_net_kind_name(r->layer->kind),
                 r->at);
        goto exit;
    }
    if (!name || strlen(name) >= LS_NET_NAME_BYTES)
        LS_FAIL(LS_ERR_INPUT, "%s: network: the name of layer %zu is %s: must be 1 to %d bytes",
                ls_show(r->file), r->at, ls_json_show(value), (int)LS_NET_NAME_BYTES - 1);
    snprintf(r->layer->name, sizeof r->layer->name, "%s", name);
exit:
    return status;
}

static ls_status refuse_key(const reader *r, const char *key)
{
    ls_status status = LS_OK;
    const char *known[LS_NET_FIELDS + 4] = {"kind", "name", "from"};
    size_t count = 3;
    if (ls_net_has_beside(r->layer->kind)) known[count++] = "beside";
    for (size_t f = 0; f < LS_NET_FIELDS; f++)
        if (ls_net_has(&ls_net_fields[f], r->layer->kind)) known[count++] = ls_net_fields[f].key;
    char list[200] = "";
    for (size_t i = 0, used = 0; i < count; i++)
        used = ls_append(list, sizeof list, used, "%s%s", i ? ", " : "", known[i]);
    LAYER_FAIL(r, "unknown key \"%s\" for %s; known keys: %s", ls_show(key),
               ls_net_kind_name(r->layer->kind), list);
exit:
    return status;
}

static ls_status read_keys(const reader *r, json_t *object)
{
    ls_status status = LS_OK;
    ls_net_layer *layer = r->layer;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const ls_net_field *field = NULL;
        for (size_t f = 0; f < LS_NET_FIELDS; f++)
            if (strcmp(ls_net_fields[f].key, key) == 0 &&
                ls_net_has(&ls_net_fields[f], layer->kind))
                field = &ls_net_fields[f];
        if (field)
            LS_TRY(read_field(r, field, value));
        else if (strcmp(key, "from") == 0)
            LS_TRY(read_place(r, key, value, &layer->from));
        else if (strcmp(key, "beside") == 0 && ls_net_has_beside(layer->kind))
            LS_TRY(read_place(r, key, value, &layer->beside));
        else if (strcmp(key, "kind") != 0 && strcmp(key, "name") != 0)
            LS_TRY(refuse_key(r, key));
    }
    if (ls_net_has_beside(layer->kind) && !json_object_get(object, "beside"))
        LAYER_FAIL(r, "has no \"beside\"; give the name of an earlier layer");
exit:
    return status;
}

static ls_status read_layer(const reader *r, json_t *object)
{
    ls_status status = LS_OK;
    *r->layer = (ls_net_layer){.from = (int)r->at - 1};
    if (!json_is_object(object))
        LS_FAIL(LS_ERR_INPUT, "%s: network: layer %zu is %s: must be an object {\"kind\": ...}",
                ls_show(r->file), r->at, ls_json_show(object));
    LS_TRY(read_kind(r, object));
    LS_TRY(read_name(r, object));
    for (size_t f = 0; f < LS_NET_FIELDS; f++)
        if (ls_net_has(&ls_net_fields[f], r->layer->kind) &&
            !json_object_get(object, ls_net_fields[f].key))
            LS_TRY(take_standard(r, &ls_net_fields[f]));
    LS_TRY(read_keys(r, object));
exit:
    return status;
}

static ls_status read_layers(json_t *list, const char *file, ls_net *net)
{
    ls_status status = LS_OK;
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > LS_NET_LAYERS)
        LS_FAIL(LS_ERR_INPUT, "%s: network: layers %s: must be a list of 1 to %d layers",
                ls_show(file), ls_json_show(list), (int)LS_NET_LAYERS);
    memset(net->layers, 0, sizeof net->layers);
    net->count = json_array_size(list);
    for (size_t i = 0; i < net->count; i++)
        LS_TRY(read_layer(&(reader){file, net, i, &net->layers[i]}, json_array_get(list, i)));
exit:
    return status;
}

static ls_status read_net_size(const char *key, const json_t *value, const char *file, ls_net *net)
{
    ls_status status = LS_OK;
    const char *known[LS_NET_SIZES + 1] = {"layers"};
    for (size_t i = 0; i < LS_NET_SIZES; i++) {
        const ls_net_size *size = &ls_net_sizes[i];
        known[i + 1] = size->key;
        if (strcmp(key, size->key) != 0) continue;
        if (!read_size(value, (size_t *)(void *)((char *)net + size->offset)))
            LS_FAIL(LS_ERR_INPUT, "%s: network: %s %s: must be a whole number from %zu to %zu",
                    ls_show(file), key, ls_json_show(value), size->least, size->most);
        goto exit;
    }
    const char *nearest = ls_nearest(key, known, LS_NET_SIZES + 1);
    LS_FAIL(LS_ERR_INPUT, "%s: network: unknown key \"%s\"%s%s%s", ls_show(file), ls_show(key),
            nearest ? "; did you mean \""
                    : "; known keys: layers, channels, height, width, classes, "
                      "row_granules, column_granules, channel_granules",
            nearest ? nearest : "", nearest ? "\"?" : "");
exit:
    return status;
}

ls_status ls_net_read(const json_t *object, const char *file, ls_net *net)
{
    ls_status status = LS_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        LS_FAIL(LS_ERR_INPUT, "%s: network %s: must be an object {\"layers\": [...], ...}",
                ls_show(file), ls_json_show(object));
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (strcmp(key, "layers") == 0)
            LS_TRY(read_layers(value, file, net));
        else
            LS_TRY(read_net_size(key, value, file, net));
    }
exit:
    return status;
}

/* ---- writing ---- */

/* One number where all are alike. */
static json_t *sizes_value(const char *at, size_t count)
{
    size_t sizes[4];
    bool alike = true;
    memcpy(sizes, at, count * sizeof *sizes);
    for (size_t i = 1; i < count; i++) alike = alike && sizes[i] == sizes[0];
    if (alike) return json_integer((json_int_t)sizes[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, json_integer((json_int_t)sizes[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *field_value(const ls_net_layer *layer, const ls_net_field *field, int *digits)
{
    const char *at = (const char *)layer + field->offset;
    double real;
    bool flag;
    switch (field->type) {
    case LS_NET_REAL:
        memcpy(&real, at, sizeof real);
        if (ls_config_digits(real) > *digits) *digits = ls_config_digits(real);
        return json_real(real);
    case LS_NET_FLAG:
        memcpy(&flag, at, sizeof flag);
        return json_boolean(flag);
    case LS_NET_SIZE:
    case LS_NET_PAIR:
    case LS_NET_PADS:
        break;
    }
    return sizes_value(at, ls_net_field_sizes(field));
}

static const char *place_name(const ls_net *net, int place)
{
    return place < 0 ? "image" : net->layers[place].name;
}

static json_t *layer_value(const ls_net *net, const ls_net_layer *layer, int *digits)
{
    json_t *object = json_object();
    int failed = json_object_set_new(object, "name", json_string(layer->name));
    failed |= json_object_set_new(object, "kind", json_string(ls_net_kind_name(layer->kind)));
    failed |= json_object_set_new(object, "from", json_string(place_name(net, layer->from)));
    if (ls_net_has_beside(layer->kind))
        failed |=
            json_object_set_new(object, "beside", json_string(place_name(net, layer->beside)));
    for (size_t f = 0; f < LS_NET_FIELDS; f++)
        if (ls_net_has(&ls_net_fields[f], layer->kind))
            failed |= json_object_set_new(object, ls_net_fields[f].key,
                                          field_value(layer, &ls_net_fields[f], digits));
    if (failed == 0) return object;
    json_decref(object);
    return NULL;
}

json_t *ls_net_write(const ls_net *net, int *digits)
{
    json_t *object = json_object(), *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < LS_NET_SIZES; i++) {
        size_t size;
        memcpy(&size, (const char *)net + ls_net_sizes[i].offset, sizeof size);
        failed |= json_object_set_new(object, ls_net_sizes[i].key, json_integer((json_int_t)size));
    }
    for (size_t i = 0; i < net->count; i++)
        failed |= json_array_append_new(list, layer_value(net, &net->layers[i], digits));
    failed |= json_object_set_new(object, "layers", list);
    if (failed == 0) return object;
    json_decref(object);
    return NULL;
}
