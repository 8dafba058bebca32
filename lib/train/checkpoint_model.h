/* checkpoint_model.h - whether a checkpoint was written by the model that reads it. */
#ifndef LS_TRAIN_CHECKPOINT_MODEL_H
#define LS_TRAIN_CHECKPOINT_MODEL_H

#include "lockstep/base/status.h"
#include "lockstep/model/config.h"

/* Compares what shapes alone do not tell (heads, activation, norm, ...). json: the checkpoint's.
 * LS_ERR_INPUT names the key and both values. */
ls_status ls_checkpoint_same_model(const char *path, const char *json,
                                   const ls_config *config) LS_MUST_USE;

#endif
