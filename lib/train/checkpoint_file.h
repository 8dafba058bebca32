/* checkpoint_file.h - a checkpoint opened and checked, before a number of it is taken.
 *
 * It may be one of this library's, with optimizer state or without, or another program's weights
 * under names of its own (model/foreign.h), in one file or several. */
#ifndef LS_TRAIN_CHECKPOINT_FILE_H
#define LS_TRAIN_CHECKPOINT_FILE_H

#include "lockstep/io/tensor_set.h"
#include "lockstep/model/foreign.h"
#include "train/train.h"

/* A parameter's arrays in a checkpoint: its value and the optimizer's two. */
enum { LS_CHECKPOINT_ARRAYS = 3 };
extern const char *const ls_checkpoint_prefixes[LS_CHECKPOINT_ARRAYS];

/* Tensors of a checkpoint of any model: above the most layers, parameters of one and arrays. Of a
 * known model a file may have OTHERS times what the model needs, masks and the like. */
enum { LS_CHECKPOINT_MOST_TENSORS = 1 << 18, LS_CHECKPOINT_OTHERS = 16 };

typedef struct ls_checkpoint_file {
    ls_tensor_set *set;
    ls_foreign_map *map;
    int arrays;    /* 1 for bare weights, else LS_CHECKPOINT_ARRAYS */
    uint64_t step; /* done; 0 for bare weights */
    /* For each array the tensor that each of the map's is found in; NULL only for twins and for the
     * optimizer state of what is not trained. */
    const ls_tensor_info **found[LS_CHECKPOINT_ARRAYS];
} ls_checkpoint_file;

/* Opens run->load for a run of run->dtype. Errors: LS_ERR_INPUT, each naming the file and the
 * tensor: not a checkpoint of this model, contract or optimizer; a tensor missing, unknown, there
 * twice, of another shape or of a dtype that does not fit into the run's; a tied head that is not
 * its embedding; a step beyond run->steps; far more tensors than the model has. */
ls_status ls_checkpoint_open(ls_checkpoint_file *ret_file, const ls_run *run,
                             const ls_param_table *table) LS_MUST_USE;
/* Whether a run can go on from the numbers of an open checkpoint. path: for the error.
 * LS_ERR_INPUT: a negative second moment (names tensor, element and value). NaN and infinity pass:
 * a run that diverged can be looked at, see ls_checkpoint_not_finite. */
ls_status ls_checkpoint_check_values(const ls_checkpoint_file *file, const char *path) LS_MUST_USE;

void ls_checkpoint_close(ls_checkpoint_file *file);

/* Whether a checkpoint has an array of one of the map's tensors: all have a value, but a state (of
 * the parameter table) has no optimizer state. */
bool ls_checkpoint_holds(const ls_foreign_map *map, size_t tensor, int array);

/* The tensor that holds an array of a parameter. */
const ls_tensor_info *ls_checkpoint_find(const ls_checkpoint_file *file, size_t param, int array);

#endif
