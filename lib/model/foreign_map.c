/* foreign_map.c - the rules of a list of names, spelled out for one model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "model/config_fields.h"
#include "model/foreign_rules.h"
#include "base/allocate.h"

/* ---- is the model of the right kind ---- */

static const ls_field *field_named(const char *key)
{
    for (size_t i = 0; i < LS_CONFIG_FIELDS; i++)
        if (strcmp(ls_config_fields[i].key, key) == 0) return &ls_config_fields[i];
    return NULL;
}

/* Which choice a field makes, and how that is said. */
static unsigned choice_of(const ls_config *config, const ls_field *field)
{
    size_t size;
    bool flag;
    switch (field->kind) {
    case LS_FIELD_CHOICE:
        return (unsigned)ls_field_choice(config, field);
    case LS_FIELD_FLAG:
        memcpy(&flag, ls_field_in(config, field), sizeof flag);
        return flag;
    case LS_FIELD_SIZE:
        memcpy(&size, ls_field_in(config, field), sizeof size);
        return size > 0;
    case LS_FIELD_REAL:
        break;
    }
    return 0;
}

static const char *choice_name(const ls_field *field, unsigned choice)
{
    if (field->kind == LS_FIELD_CHOICE) return field->choices[choice];
    if (field->kind == LS_FIELD_FLAG) return choice ? "true" : "false";
    return choice ? "above 0" : "0";
}

static ls_status check_kind(const ls_foreign_convention *convention, const ls_config *config,
                            const char *label)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < LS_FOREIGN_DEMANDS && convention->demands[i].key; i++) {
        const ls_foreign_demand *demand = &convention->demands[i];
        const ls_field *field = field_named(demand->key);
        unsigned choice = choice_of(config, field), wanted = 0;
        if (demand->allowed >> choice & 1) continue;
        while (!(demand->allowed >> wanted & 1)) wanted++;
        LS_FAIL(LS_ERR_INPUT, "%s: the names of %s are for models with %s %s; this one has %s",
                ls_show(label), convention->title, demand->key, choice_name(field, wanted),
                choice_name(field, choice));
    }
    if (!convention->groups && config->kv_heads != config->heads) {
        LS_FAIL(LS_ERR_INPUT,
                "%s: the names of %s are for models with as many kv_heads as heads; this one has "
                "%zu and %zu",
                ls_show(label), convention->title, config->kv_heads, config->heads);
    }
exit:
    return status;
}

/* ---- one rule ---- */

/* Outputs of a parameter: columns of a matrix, elements of a vector. A table of embeddings is read
 * as a matrix too; nothing is ever fused with it. */
static size_t outputs_of(const ls_param *param)
{
    return param->n_dims == 2 ? param->dims[1] : param->dims[0];
}

/* The parts of a tensor and the number of its outputs. */
static size_t place_parts(const ls_param_table *table, const ls_foreign_rule *rule,
                          ls_foreign_tensor *tensor)
{
    const ls_config *config = &table->config;
    size_t head = ls_config_head_width(config), outputs = 0;
    size_t shared = config->heads / config->kv_heads; /* query heads of a key/value head */
    for (int i = 0; i < tensor->n_parts; i++) {
        ls_foreign_part *part = &tensor->parts[i];
        size_t n = outputs_of(&table->params[part->param]);
        switch (rule->fusion) {
        case LS_FUSE_SIDE_BY_SIDE:
            part->base = outputs;
            part->width = part->stride = n;
            break;
        case LS_FUSE_BY_GROUP: /* query heads of a group, its key, its value */
            part->width = (i == 0 ? shared : 1) * head;
            part->base = i == 0 ? 0 : (shared + (size_t)i - 1) * head;
            part->stride = (shared + 2) * head;
            break;
        case LS_FUSE_PAIRED:
            part->base = outputs;
            part->width = part->stride = head;
            part->paired = true;
            break;
        }
        outputs += n;
    }
    return outputs;
}

/* Writes "a.LAYER.b" for "a.*.b". */
static void write_name(char name[LS_FOREIGN_NAME_BYTES], const char *pattern, size_t layer)
{
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(name, LS_FOREIGN_NAME_BYTES, "%.*s%zu%s", (int)(star - pattern), pattern, layer,
                 star + 1);
    else
        snprintf(name, LS_FOREIGN_NAME_BYTES, "%s", pattern);
}

/* What is being made. */
typedef struct builder {
    ls_foreign_map *map;
    const ls_foreign_convention *convention;
    size_t *params; /* layers x LS_ROLES: place in the table, or -1 */
} builder;

static const size_t *params_of(const builder *b, size_t layer)
{
    return b->params + layer * LS_ROLES;
}

/* Whether the model has all parameters that a rule speaks of. */
static bool has_all(const builder *b, const ls_foreign_rule *rule, size_t layer)
{
    for (int i = 0; i < rule->n_roles; i++)
        if (params_of(b, layer)[rule->roles[i]] == (size_t)-1) return false;
    return rule->n_roles > 0;
}

static void fill_tensor(const builder *b, const ls_foreign_rule *rule, size_t layer,
                        ls_foreign_tensor *tensor)
{
    const ls_param_table *table = b->map->table;
    write_name(tensor->name, rule->name, layer);
    tensor->n_parts = rule->n_roles;
    tensor->transposed = rule->out_in;
    tensor->twin = rule->use == LS_RULE_TWIN;
    for (int i = 0; i < rule->n_roles; i++)
        tensor->parts[i].param = params_of(b, layer)[rule->roles[i]];
    size_t outputs = place_parts(table, rule, tensor);
    const ls_param *first = &table->params[tensor->parts[0].param];
    bool vector = first->n_dims == 1;
    tensor->n_dims = first->n_dims;
    tensor->dims[0] = vector || rule->out_in ? outputs : first->dims[0];
    tensor->dims[1] = vector ? 1 : rule->out_in ? first->dims[0] : outputs;
    tensor->least_rows = tensor->dims[0];
    tensor->n_shape = tensor->n_dims;
    memcpy(tensor->shape, tensor->dims, sizeof tensor->dims);
    tensor->more_rows = first->role == LS_POSITION_EMBEDDING;
    if (first->kind == LS_GRANULE_VOCAB && b->convention->pads_vocabulary) {
        tensor->more_rows = true;
        tensor->dims[0] = tensor->shape[0] = ls_axis_extent(first->axis);
    }
}

/* Adds what rule number r says of one layer. Of several rules with one name the first that the
 * model has the parameters for counts. */
static void add_rule(const builder *b, size_t r, size_t layer)
{
    ls_foreign_map *map = b->map;
    const ls_foreign_rule *rules = b->convention->rules;
    if (!has_all(b, &rules[r], layer)) return;
    for (size_t earlier = 0; earlier < r; earlier++)
        if (strcmp(rules[earlier].name, rules[r].name) == 0 && has_all(b, &rules[earlier], layer))
            return;
    ls_foreign_tensor *tensor = &map->tensors[map->count];
    fill_tensor(b, &rules[r], layer, tensor);
    for (int i = 0; i < tensor->n_parts && !tensor->twin; i++)
        map->places[tensor->parts[i].param] = (ls_foreign_place){map->count, i};
    map->count++;
}

/* In the order of the rules, but layer after layer. */
static void add_rules(const builder *b)
{
    const ls_foreign_convention *convention = b->convention;
    size_t r = 0;
    for (; r < convention->n_rules && !strchr(convention->rules[r].name, '*'); r++)
        add_rule(b, r, 0);
    for (size_t layer = 0; layer < b->map->table->config.layers; layer++)
        for (size_t i = r; i < convention->n_rules; i++)
            if (strchr(convention->rules[i].name, '*')) add_rule(b, i, layer);
    for (; r < convention->n_rules; r++)
        if (!strchr(convention->rules[r].name, '*')) add_rule(b, r, 0);
}

/* The table's own names: a tensor per parameter, as it is. */
static void add_own(ls_foreign_map *map)
{
    for (size_t i = 0; i < map->table->count; i++) {
        const ls_param *param = &map->table->params[i];
        ls_foreign_tensor *tensor = &map->tensors[i];
        size_t outputs = outputs_of(param);
        snprintf(tensor->name, sizeof tensor->name, "%s", param->name);
        tensor->n_dims = param->n_dims;
        memcpy(tensor->dims, param->dims, sizeof tensor->dims);
        tensor->n_shape = param->n_shape;
        memcpy(tensor->shape, param->shape, sizeof tensor->shape);
        tensor->least_rows = param->dims[0];
        tensor->n_parts = 1;
        tensor->parts[0] = (ls_foreign_part){.param = i, .width = outputs, .stride = outputs};
        map->places[i] = (ls_foreign_place){i, 0};
    }
    map->count = map->table->count;
}

/* ---- the map ---- */

static int compare_names(const void *left, const void *right)
{
    const ls_foreign_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static ls_status check_complete(const ls_foreign_map *map, const char *label)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < map->table->count; i++)
        if (map->places[i].tensor == (size_t)-1)
            LS_FAIL(LS_ERR_INPUT, "%s: %s has no name for this model's %s", ls_show(label),
                    ls_names_title(map->names), map->table->params[i].name);
exit:
    return status;
}

ls_status ls_foreign_map_create(ls_foreign_map **ret_map, const ls_param_table *table,
                                ls_names names, const char *label)
{
    ls_status status = LS_OK;
    const bool net = table->config.kind == LS_MODEL_NET; /* none has names of its own for them */
    size_t roles = net ? 0 : table->config.layers * LS_ROLES;
    ls_foreign_map *map = NULL;
    builder b = {.convention = ls_foreign_convention_of(names)};
    LS_NEW(map, 1);
    LS_ROOM(b.params, roles);
    b.map = map;
    map->table = table;
    map->names = names;
    /* At most a tensor and a twin for each parameter. */
    LS_NEW(map->tensors, 2 * table->count);
    LS_ROOM(map->places, table->count);
    LS_ROOM(map->by_name, 2 * table->count);
    for (size_t i = 0; i < roles; i++) b.params[i] = (size_t)-1;
    for (size_t i = 0; i < table->count; i++) {
        if (!net) b.params[table->params[i].layer * LS_ROLES + table->params[i].role] = i;
        map->places[i] = (ls_foreign_place){(size_t)-1, 0};
    }
    if (b.convention) {
        if (net)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: %s has names for transformers only; a convolutional network "
                    "has its own",
                    ls_show(label), ls_names_title(names));
        LS_TRY(check_kind(b.convention, &table->config, label));
        add_rules(&b);
    } else {
        add_own(map);
    }
    LS_TRY(check_complete(map, label));
    for (size_t i = 0; i < map->count; i++) map->by_name[i] = &map->tensors[i];
    qsort(map->by_name, map->count, sizeof *map->by_name, compare_names);
    *ret_map = map;
    map = NULL;
exit:
    free(b.params);
    ls_foreign_map_destroy(&map);
    return status;
}

void ls_foreign_map_destroy(ls_foreign_map **map)
{
    if (!*map) return;
    free((*map)->tensors);
    free((*map)->places);
    free((*map)->by_name);
    free(*map);
    *map = NULL;
}
