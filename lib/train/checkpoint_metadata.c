#include "train/checkpoint_metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "lockstep/numerics/digest.h"
#include "model/config_tree.h"
#include "train/checkpoint_file.h"

/* A network's layers, all but what they drop: kinds, what they read, strides, ... */
static ls_status same_layers(const char *path, const json_t *theirs, const json_t *ours)
{
    ls_status status = LS_OK;
    const json_t *their = json_object_get(json_object_get(theirs, "network"), "layers");
    const json_t *our = json_object_get(json_object_get(ours, "network"), "layers");
    if (!their || !our) goto exit;
    for (size_t i = 0; i < json_array_size(our) || i < json_array_size(their); i++) {
        json_t *a = json_array_get(their, i), *b = json_array_get(our, i);
        json_object_del(a, "p");
        json_object_del(b, "p");
        if (a && b && json_equal(a, b)) continue;
        char *text[2] = {a ? ls_json_write(a, JSON_ENCODE_ANY | JSON_COMPACT) : NULL,
                         b ? ls_json_write(b, JSON_ENCODE_ANY | JSON_COMPACT) : NULL};
        const ls_status refused = ls_error_record(
            LS_ERR_INPUT, __FILE__, __LINE__,
            "%s: was saved by a network whose layer %zu is %.300s; this one has %.300s",
            ls_show(path), i, text[0] ? ls_show(text[0]) : "none",
            text[1] ? ls_show(text[1]) : "none");
        free(text[0]);
        free(text[1]);
        LS_TRY(refused);
    }
exit:
    return status;
}

ls_status ls_checkpoint_same_model(const ls_tensor_set *file, const char *path,
                                   const ls_config *config)
{
    /* Two models may agree in every shape and still compute different things. */
    static const char *const keys[] = {
        "heads",     "kv_heads", "norm", "norm_place", "activation", "position",  "mlp_cut",
        "objective", "causal",   "bias", "tied",       "norm_eps",   "rope_theta"};
    enum { LABEL_BYTES = 480 };
    ls_status status = LS_OK;
    const char *json = ls_tensor_set_metadata(file, "model");
    char label[LABEL_BYTES];
    json_t *theirs = NULL, *ours = NULL;

    if (!json) goto exit;
    snprintf(label, sizeof label, "%s: __metadata__: model", ls_show(path));
    LS_TRY(ls_json_parse(label, (ls_json_span){json, strlen(json)}, &theirs));
    if (!json_is_object(theirs))
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ has a model that is not a JSON object",
                ls_show(path));
    LS_TRY(ls_config_to_tree(config, &ours));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *their = json_object_get(theirs, keys[i]), *our = json_object_get(ours, keys[i]);
        if (!their || !our || json_equal(their, our)) continue;
        LS_FAIL(LS_ERR_INPUT, "%s: was saved by a model with %s %s; this one has %s", ls_show(path),
                keys[i], ls_json_show(their), ls_json_show(our));
    }
    LS_TRY(same_layers(path, theirs, ours));
exit:
    json_decref(theirs);
    json_decref(ours);
    return status;
}

ls_status ls_checkpoint_same_contract(const ls_tensor_set *file, const char *path)
{
    ls_status status = LS_OK;
    static const char family[] = "lockstep checkpoint";
    const char *format = ls_tensor_set_metadata(file, "format");
    const char *name = ls_tensor_set_metadata(file, "contract");
    const char *digest = ls_tensor_set_metadata(file, "contract_digest");

    if (format && strncmp(format, family, sizeof family - 1) == 0 &&
        strcmp(format, LS_CHECKPOINT_FORMAT) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: has the format \"%s\"; this version reads \"%s\"", ls_show(path),
                ls_show(format), LS_CHECKPOINT_FORMAT);
    if (name && strcmp(name, ls_contract_name()) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: was saved under the contract %s; this version keeps %s, and a run that goes "
                "on would have the bits of neither",
                ls_show(path), ls_show(name), ls_contract_name());
    if (digest && strcmp(digest, ls_contract_digest()) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: was saved under a contract with the digest %.16s; that of this version's %s "
                "is %.16s, and a run that goes on would have the bits of neither",
                ls_show(path), ls_show(digest), ls_contract_name(), ls_contract_digest());
exit:
    return status;
}

const char *ls_optimizer_name(ls_optimizer optimizer)
{
    return optimizer == LS_ADAMW ? "adamw" : "sgd";
}

ls_status ls_checkpoint_same_optimizer(const ls_tensor_set *file, const char *path,
                                       ls_optimizer optimizer)
{
    ls_status status = LS_OK;
    const char *theirs = ls_tensor_set_metadata(file, "optimizer");
    if (theirs && strcmp(theirs, ls_optimizer_name(optimizer)) != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: has the optimizer state of %s, from which --optimizer %s cannot go on",
                ls_show(path), ls_show(theirs), ls_optimizer_name(optimizer));
exit:
    return status;
}

ls_status ls_checkpoint_number(const ls_tensor_set *file, const char *path, const char *key,
                               uint64_t *ret_number)
{
    ls_status status = LS_OK;
    const char *text = ls_tensor_set_metadata(file, key);
    uint64_t number = 0;
    bool good = text && *text;
    for (const char *c = text; good && *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        good = *c >= '0' && *c <= '9' && number <= (UINT64_MAX - digit) / 10;
        if (good) number = 10 * number + digit;
    }
    if (!good)
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ says %s %s; a whole number below 2^64 is needed",
                ls_show(path), key, text ? ls_show(text) : "nothing");
    *ret_number = number;
exit:
    return status;
}

ls_status ls_checkpoint_seed(const char *path, uint64_t fallback, uint64_t *ret_seed)
{
    ls_status status = LS_OK;
    ls_tensor_set *file = NULL;
    uint64_t seed = fallback;
    LS_TRY(ls_tensor_set_open_most(&file, path, LS_CHECKPOINT_MOST_TENSORS));
    if (ls_tensor_set_metadata(file, "seed"))
        LS_TRY(ls_checkpoint_number(file, path, "seed", &seed));
    *ret_seed = seed;
exit:
    ls_tensor_set_close(&file);
    return status;
}
