/* config_tree.h - a configuration as a JSON tree, for a part of a larger one or to be compared. */
#ifndef LS_MODEL_CONFIG_TREE_H
#define LS_MODEL_CONFIG_TREE_H

#include <jansson.h>

#include "lockstep/model/config.h"

/* The tree that ls_config_to_json writes; json_decref frees it. Errors: those of ls_config_check;
 * LS_ERR_INPUT, a name that is not UTF-8; LS_ERR_MEMORY. */
ls_status ls_config_to_tree(const ls_config *config, json_t **ret_root) LS_MUST_USE;

#endif
