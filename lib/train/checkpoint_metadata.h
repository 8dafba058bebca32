/* checkpoint_metadata.h - what a checkpoint says of itself, besides its tensors. */
#ifndef LS_TRAIN_CHECKPOINT_METADATA_H
#define LS_TRAIN_CHECKPOINT_METADATA_H

#include "lockstep/io/tensor_set.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/model/config.h"

/* The format that is written and read. */
#define LS_CHECKPOINT_FORMAT "lockstep checkpoint 1"

/* Whether the model that wrote `file` computes what this one does: compares what shapes alone do
 * not tell (heads, activation, norm, ...). A file that says no model passes. LS_ERR_INPUT names the
 * key and both values; LS_ERR_MEMORY. */
ls_status ls_checkpoint_same_model(const ls_tensor_set *file, const char *path,
                                   const ls_config *config) LS_MUST_USE;

/* Whether `file` was saved under the contract that this library keeps, so that a run that goes on
 * from it has the bits of one that did not stop, and in a format that it knows. A file that says
 * neither, or has another program's format, passes. LS_ERR_INPUT names both. */
ls_status ls_checkpoint_same_contract(const ls_tensor_set *file, const char *path) LS_MUST_USE;

/* Whether the optimizer state in `file` is that of `optimizer`. A file that does not say passes. */
ls_status ls_checkpoint_same_optimizer(const ls_tensor_set *file, const char *path,
                                       ls_optimizer optimizer) LS_MUST_USE;
const char *ls_optimizer_name(ls_optimizer optimizer); /* "adamw", "sgd" */

/* A whole number, such as "step". LS_ERR_INPUT, naming file and key, when it is missing or is none.
 */
ls_status ls_checkpoint_number(const ls_tensor_set *file, const char *path, const char *key,
                               uint64_t *ret_number) LS_MUST_USE;

/* The seed that the checkpoint at `path` was trained with; `fallback` when the file says none.
 * Errors: those of ls_tensor_set_open and ls_checkpoint_number. */
ls_status ls_checkpoint_seed(const char *path, uint64_t fallback, uint64_t *ret_seed) LS_MUST_USE;

#endif
