/* foreign_config.h - a model from Hugging Face's config.json. */
#ifndef LS_MODEL_FOREIGN_CONFIG_H
#define LS_MODEL_FOREIGN_CONFIG_H

#include <jansson.h>

#include "lockstep/model/config.h"

/* Whether the object is such a configuration and none of ours: it says its "model_type". */
int ls_foreign_config_is(const json_t *object);

/* Reads it: gpt2, llama or bert. Keys that are absent or null have the values that Hugging Face
 * gives them; keys that do not change what is computed are not looked at. LS_ERR_INPUT names file
 * and key: another model type, a wrong type of value, a choice that this library does not have.
 * *ret_config is undefined then. */
ls_status ls_foreign_config_read(const json_t *object, const char *file,
                                 ls_config *ret_config) LS_MUST_USE;

#endif
