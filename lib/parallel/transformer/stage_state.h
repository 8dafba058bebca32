/* stage_state.h - what is inside ls_stage and ls_micro_batch. */
#ifndef LS_PARALLEL_TRANSFORMER_STAGE_STATE_H
#define LS_PARALLEL_TRANSFORMER_STAGE_STATE_H

#include "lockstep/numerics/forest_sum.h"
#include "lockstep/parallel/transformer/stage.h"
#include "parallel/transformer/layer.h"
#include "parallel/hooks/observe.h"
#include "parallel/transformer/masked_head.h"
#include "parallel/transformer/order_head.h"

/* A gradient that this stage makes: one use of one of its parameters. */
#define ls_own_gradient LS_TYPED(ls_own_gradient)
typedef struct ls_own_gradient {
    ls_real *values; /* in slot 0 */
    size_t count;
} ls_own_gradient;

struct ls_stage {
    ls_stage_setup setup;
    ls_store *store;
    const ls_config *config;
    ls_memory *memory;
    ls_arena *lasting; /* cuts, tables, groups: as long as the stage */
    ls_arena *temporary;
    ls_tensor_parallel tp;
    ls_observation observation; /* with setup.observer: tp.observation */
    ls_cuts cuts;
    ls_kv_sharing kv;
    ls_real *cos, *sin; /* rotary tables, or NULL */
    ls_layer *layers;
    ls_slot *token, *position, *type; /* with the embedding, what of it the model has */
    ls_norm embedding_norm;
    ls_norm final_norm;
    ls_slot *head; /* with the head; the token slot when tied */
    int head_use;
    ls_slot *vocab_bias; /* or NULL */
    ls_masked_head masked;
    ls_order_head order;
    ls_own_gradient *gradients;
    size_t n_gradients;
    ls_forest_sum *sum; /* which sequences' gradients are where; NULL: one micro-batch is all */
};

struct ls_micro_batch {
    size_t B, S; /* of `batch` */
    ls_memory *memory;
    ls_arena *saved;    /* from forward to backward                             */
    ls_arena *outgoing; /* to the next stage, or back to the one before         */
    bool forward_done;  /* and not yet gone backward */
    ls_batch batch;
    ls_sequence_losses sequence_losses;
    ls_valid valid;
    const ls_real *input; /* of a stage without the embedding */
    ls_real *x;           /* output of the embedding */
    ls_real *e;           /* what its norm reads; x without one */
    ls_norm_saved embedding_norm;
    ls_layer_saved *layers;
    const ls_real *end; /* output of the last layer, or what comes in when there is none */
    ls_norm_saved final_norm;
    const ls_real *xf; /* what the heads read */
    ls_masked_saved masked;
    ls_order_saved order;
    ls_real *z;                      /* own logits, then their gradient */
    ls_real *losses, *max, *sum_exp; /* per token */
};

#endif
