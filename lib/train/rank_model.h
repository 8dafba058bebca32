/* rank_model.h - what one rank of a layout trains: from its part of a batch to the loss and to
 * complete gradients in its store.
 *
 * The loop over ranks (layout_training.c) knows no more of a model than this. There are two kinds:
 * a transformer is a pipeline executor and the reduction over data-parallel replicas; a
 * convolutional network does all of it in one. */
#ifndef LS_TRAIN_RANK_MODEL_H
#define LS_TRAIN_RANK_MODEL_H

#include "lockstep/partition/share.h"
#include "lockstep/pipeline/schedule.h"
#include "train/training.h"

#define ls_rank_model LS_TYPED(ls_rank_model)
typedef struct ls_rank_model ls_rank_model;

/* What a kind does. All ranks call each of them together. */
#define ls_rank_model_operations LS_TYPED(ls_rank_model_operations)
typedef struct ls_rank_model_operations {
    /* A batch as it was filled: LS_ERR_RANK unless ranks that share any of it have the same. */
    ls_status (*check_batch)(ls_rank_model *m, ls_step_batch *batch);
    /* Loss of the global batch, the same on all ranks, and its gradient, use 0 complete, the same
     * on all that hold it. */
    ls_status (*gradients)(ls_rank_model *m, const ls_batch *batch, ls_real *ret_loss);
    void (*destroy)(ls_rank_model *m);
} ls_rank_model_operations;

/* The beginning of every kind's state. */
struct ls_rank_model {
    const ls_rank_model_operations *operations;
    ls_group *holders; /* ranks that hold one copy of the model together (placement.h): among these
                          the norm counts each granule once                                       */
    ls_share samples;  /* sequences or images of the global batch that this rank reads            */
};

typedef struct ls_rank_model_setup {
    ls_rank *rank;
    const ls_run *run;
    const ls_schedule *schedule; /* of a transformer */
} ls_rank_model_setup;

/* One of each kind over the shards in `store` (ls_holdings_of), which it does not own. All ranks
 * call it together: it splits groups. */
#define ls_rank_transformer_create LS_TYPED(ls_rank_transformer_create)
ls_status ls_rank_transformer_create(ls_rank_model **ret_model, const ls_rank_model_setup *setup,
                                     ls_store *store) LS_MUST_USE;
#define ls_rank_net_create LS_TYPED(ls_rank_net_create)
ls_status ls_rank_net_create(ls_rank_model **ret_model, const ls_rank_model_setup *setup,
                             ls_store *store) LS_MUST_USE;

static inline void ls_rank_model_destroy(ls_rank_model **model)
{
    if (*model) (*model)->operations->destroy(*model);
    *model = NULL;
}

#endif
