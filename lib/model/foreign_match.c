/* foreign_match.c - a name and a shape from a file against the map. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "model/foreign_rules.h"
#include "base/append.h"

/* ---- names ---- */

static int compare_name(const void *key, const void *element)
{
    const ls_foreign_tensor *const *tensor = element;
    return strcmp(key, (*tensor)->name);
}

static const ls_foreign_tensor *find(const ls_foreign_map *map, const char *name)
{
    const ls_foreign_tensor **found =
        bsearch(name, map->by_name, map->count, sizeof *map->by_name, compare_name);
    return found ? *found : NULL;
}

static const ls_foreign_tensor *find_with_prefix(const ls_foreign_map *map, const char *prefix,
                                                 const char *name)
{
    char longer[LS_FOREIGN_NAME_BYTES];
    const ls_foreign_tensor *found = find(map, name);
    size_t before = prefix ? strlen(prefix) : 0;
    if (found || !prefix || before + strlen(name) >= sizeof longer) return found;
    memcpy(longer, prefix, before);
    strcpy(longer + before, name);
    return find(map, longer);
}

/* A name that neither the model nor any list has. owner: whose it is not, as the text says it. */
static ls_status unknown_name(const ls_foreign_map *map, const char *label, const char *name,
                              const char *owner)
{
    ls_status status = LS_OK;
    const ls_foreign_wrapper *wrapper;
    char plain[LS_FOREIGN_NAME_BYTES];
    if (ls_foreign_unwrap(map, name, plain, &wrapper))
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s is %s with the prefix \"%s\" of %s: strip it from every name, or "
                "save %s",
                ls_show(label), ls_show(name), plain, wrapper->part, wrapper->of, wrapper->remedy);
    LS_FAIL(LS_ERR_INPUT, "%s: has a tensor %s that %s", ls_show(label), ls_show(name), owner);
exit:
    return status;
}

ls_status ls_foreign_match(const ls_foreign_map *map, const char *label, const char *name,
                           const ls_foreign_tensor **ret_tensor)
{
    ls_status status = LS_OK;
    const ls_foreign_convention *convention = ls_foreign_convention_of(map->names);
    const size_t layers = map->table->config.layers;
    char modern[LS_FOREIGN_NAME_BYTES];
    const ls_foreign_tensor *tensor = NULL;
    bool known = false;
    if (!convention) {
        tensor = find(map, name);
        if (!tensor) LS_TRY(unknown_name(map, label, name, "the model does not know"));
    } else if (ls_foreign_modern(convention, name, modern)) {
        tensor = find_with_prefix(map, convention->prefix, modern);
        /* Not what the map has: what may be left alone, or belongs to some other model. */
        for (size_t r = 0; !tensor && r < convention->n_rules; r++) {
            const ls_foreign_rule *rule = &convention->rules[r];
            size_t layer;
            if (!ls_foreign_rule_names(convention, rule, modern, &layer)) continue;
            known = true;
            if (layer >= layers)
                LS_FAIL(LS_ERR_INPUT,
                        "%s: tensor %s belongs to layer %zu, counted from 0; the model has %zu "
                        "layers",
                        ls_show(label), ls_show(name), layer, layers);
            if (rule->use != LS_RULE_IGNORED && rule->use != LS_RULE_SPARE)
                LS_FAIL(LS_ERR_INPUT, "%s: has a tensor %s, for which this model has no place",
                        ls_show(label), ls_show(name));
        }
    }
    if (convention && !tensor && !known) {
        char owner[80];
        snprintf(owner, sizeof owner, "is none of %s's", convention->title);
        LS_TRY(unknown_name(map, label, name, owner));
    }
    *ret_tensor = tensor;
exit:
    return status;
}

/* ---- shapes ---- */

/* "3 x 4", "5", "()" for none. */
static const char *show_shape(int n_dims, const uint64_t *dims, char *buffer, size_t room)
{
    size_t used = 0;
    snprintf(buffer, room, "()");
    for (int d = 0; d < n_dims && used + 24 < room; d++)
        used = ls_append(buffer, room, used, "%s%" PRIu64, d ? " x " : "", dims[d]);
    return buffer;
}

ls_status ls_foreign_check_shape(const ls_foreign_tensor *tensor, const char *label,
                                 const char *name, int n_dims, const uint64_t *dims)
{
    ls_status status = LS_OK;
    bool as_written = n_dims == tensor->n_shape;
    for (int d = 0; as_written && d < n_dims; d++) as_written = dims[d] == tensor->shape[d];
    if (as_written) goto exit;
    bool good = n_dims == tensor->n_dims && (n_dims == 1 || dims[1] == tensor->dims[1]);
    if (good) good = tensor->more_rows ? dims[0] >= tensor->least_rows : dims[0] == tensor->dims[0];
    if (!good) {
        char found[200], wanted[128];
        uint64_t least[4];
        for (int d = 0; d < tensor->n_shape; d++) least[d] = tensor->shape[d];
        if (tensor->more_rows) least[0] = tensor->least_rows;
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s has shape %s; the model's is %s%s", ls_show(label),
                ls_show(name), show_shape(n_dims, dims, found, sizeof found),
                show_shape(tensor->n_shape, least, wanted, sizeof wanted),
                tensor->more_rows ? ", or with more rows" : "");
    }
exit:
    return status;
}
