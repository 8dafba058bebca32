#include "train/checkpoint_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "lockstep/base/show.h"
#include "lockstep/io/safetensors.h"
#include "train/checkpoint.h"

ls_status ls_checkpoint_same_model(const char *path, const char *json, const ls_config *config)
{
    /* Two models may agree in every shape and still compute different things. */
    static const char *const keys[] = {"heads",    "kv_heads", "norm",      "activation",
                                       "position", "mlp_cut",  "causal",    "bias",
                                       "tied",     "norm_eps", "rope_theta"};
    ls_status status = LS_OK;
    char *own_text = NULL, *theirs_text = NULL, *ours_text = NULL;
    json_t *theirs = NULL, *ours = NULL;
    json_error_t error;

    theirs = json_loads(json, 0, &error);
    if (!json_is_object(theirs))
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ has a model that is not a JSON object",
                ls_show(path));
    LS_TRY(ls_config_to_json(config, &own_text));
    ours = json_loads(own_text, 0, &error);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *their = json_object_get(theirs, keys[i]), *our = json_object_get(ours, keys[i]);
        if (!their || !our || json_equal(their, our)) continue;
        theirs_text = json_dumps(their, JSON_ENCODE_ANY | JSON_COMPACT);
        ours_text = json_dumps(our, JSON_ENCODE_ANY | JSON_COMPACT);
        LS_FAIL(LS_ERR_INPUT, "%s: was saved by a model with %s %s; this one has %s", ls_show(path),
                keys[i], ls_show(theirs_text), ls_show(ours_text));
    }
exit:
    json_decref(theirs);
    json_decref(ours);
    free(own_text);
    free(theirs_text);
    free(ours_text);
    return status;
}

ls_status ls_checkpoint_seed(const char *path, uint64_t fallback, uint64_t *ret_seed)
{
    ls_status status = LS_OK;
    ls_safetensors *file = NULL;
    const char *text;
    LS_TRY(ls_safetensors_open(&file, path));
    text = ls_safetensors_metadata(file, "seed");
    *ret_seed = text ? strtoull(text, NULL, 10) : fallback;
exit:
    ls_safetensors_close(&file);
    return status;
}
