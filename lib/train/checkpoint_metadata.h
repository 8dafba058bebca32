/* checkpoint_metadata.h - what a checkpoint says of itself, besides its tensors. */
#ifndef LS_TRAIN_CHECKPOINT_METADATA_H
#define LS_TRAIN_CHECKPOINT_METADATA_H

#include "lockstep/io/safetensors.h"
#include "lockstep/model/config.h"

/* Whether the model that wrote `file` computes what this one does: compares what shapes alone do
 * not tell (heads, activation, norm, ...). A file that says no model passes. LS_ERR_INPUT names the
 * key and both values; LS_ERR_MEMORY. */
ls_status ls_checkpoint_same_model(const ls_safetensors *file, const char *path,
                                   const ls_config *config) LS_MUST_USE;

/* A whole number, such as "step". LS_ERR_INPUT, naming file and key, when it is missing or is none.
 */
ls_status ls_checkpoint_number(const ls_safetensors *file, const char *path, const char *key,
                               uint64_t *ret_number) LS_MUST_USE;

/* The seed that the checkpoint at `path` was trained with; `fallback` when the file says none.
 * Errors: those of ls_safetensors_open and ls_checkpoint_number. */
ls_status ls_checkpoint_seed(const char *path, uint64_t fallback, uint64_t *ret_seed) LS_MUST_USE;

#endif
