/* checkpoint.h - a training run as one file, whatever layout wrote it.
 *
 * A safetensors file of whole logical tensors: every parameter under its name, its optimizer state
 * as "optimizer.m.NAME" and "optimizer.v.NAME"; in __metadata__ the model, layout, contract,
 * optimizer, seed and step. Since the data position is a function of seed and step, this is all
 * that a run needs to go on. Another program's file, or one for it (run->names), has its names and
 * its arrangement and no optimizer state: a run begins with such weights at step 0. */
#ifndef LS_TRAIN_CHECKPOINT_H
#define LS_TRAIN_CHECKPOINT_H

#include "lockstep/model/store.h"
#include "train/train.h"

/* Fills the store: from run->initial or run->load when there is one, else with initial values.
 * *ret_step: the step to begin with (0 for weights without optimizer state). Errors: LS_ERR_INPUT
 * naming the file and the tensor: not a checkpoint of this model, contract or optimizer, missing or
 * unknown tensor, other shape or dtype (binary32 weights may start a binary64 run), a step beyond
 * run->steps. */
#define ls_checkpoint_begin LS_TYPED(ls_checkpoint_begin)
ls_status ls_checkpoint_begin(const ls_run *run, ls_store *store, uint64_t *ret_step) LS_MUST_USE;

/* Fails as ls_checkpoint_begin would, without a store: what is wrong with a file is better said
 * once than by whichever of many ranks reads it first. */
#define ls_checkpoint_check LS_TYPED(ls_checkpoint_check)
ls_status ls_checkpoint_check(const ls_run *run, const ls_param_table *table) LS_MUST_USE;

/* Writes run->save. world: the ranks of run->layout, all of which call it together; NULL when the
 * store is whole. step: steps done. */
#define ls_checkpoint_save LS_TYPED(ls_checkpoint_save)
ls_status ls_checkpoint_save(const ls_run *run, ls_group *world, const ls_store *store,
                             uint64_t step, ls_arena *temporary) LS_MUST_USE;

#endif
