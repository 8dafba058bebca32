/* stage_state.h - what stands behind ls_stage and ls_micro_batch. */
#ifndef LS_PARALLEL_STAGE_STATE_H
#define LS_PARALLEL_STAGE_STATE_H

#include "lockstep/parallel/stage.h"
#include "parallel/layer.h"

struct ls_stage {
    ls_stage_setup setup;
    ls_store *store;
    const ls_config *config;
    ls_memory *memory;
    ls_arena *lasting; /* cuts, tables, groups: as long as the stage */
    ls_arena *temporary;
    ls_tensor_parallel tp;
    ls_cuts cuts;
    ls_kv_sharing kv;
    ls_real *cos, *sin; /* rotary tables, or NULL */
    ls_layer *layers;
    ls_norm final_norm;
    ls_slot *token, *position; /* with the embedding */
    ls_slot *head;             /* with the head; the token slot when tied */
    int head_use;
};

struct ls_micro_batch {
    size_t B, S;       /* room for so many sequences of so many tokens */
    ls_arena *kept;    /* from forward to backward                     */
    ls_arena *going;   /* what is on its way back                      */
    bool forward_done; /* and not yet gone backward */
    ls_batch batch;
    ls_real *x; /* output of the embedding */
    ls_layer_kept *layers;
    const ls_real *end; /* output of the last layer, or what comes in when there is none */
    ls_norm_kept final_norm;
    ls_real *z;                      /* own logits, then their gradient */
    ls_real *losses, *max, *sum_exp; /* per token */
    ls_real *sequence_losses;
    int64_t valid;
    ls_real *dx; /* gradient on its way back: n x D */
};

#endif
