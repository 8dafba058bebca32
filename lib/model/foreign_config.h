/* foreign_config.h - a model from Hugging Face's config.json. */
#ifndef LS_MODEL_FOREIGN_CONFIG_H
#define LS_MODEL_FOREIGN_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

#include "lockstep/model/config.h"

/* Whether the object is such a configuration and none of ours: it says its "model_type". */
int ls_foreign_config_is(const json_t *object);

/* Reads it: gpt2, llama or bert. Keys that are absent or null have the values that Hugging Face
 * gives them; keys that are known not to change what is computed are passed over, all others
 * refused. LS_ERR_INPUT names file and key: another model type, an unknown key, a wrong type of
 * value, a choice that this library does not have. *ret_config is undefined
 * then. */
ls_status ls_foreign_config_read(const json_t *object, const char *file,
                                 ls_config *ret_config) LS_MUST_USE;

/* Whether a key is known not to change what is computed. */
bool ls_foreign_key_is_harmless(const char *key);

/* Why a model type of Hugging Face's is not read here; NULL: not known, or it is. */
const char *ls_foreign_type_lacks(const char *type);

#endif
