/* call.h - what a wrapper knows of the calls that it is inside of, on this rank's thread. */
#ifndef LS_GALLERY_CALL_H
#define LS_GALLERY_CALL_H

#include "lockstep/parallel/layout/losses.h"
#include "lockstep/parallel/layout/tensor_parallel.h"
#include "parallel/spatial/net_layer_state.h"

typedef enum product { NO_PRODUCT = 0, ROW_FORWARD, COLUMN_BACKWARD } product;

typedef struct ls_call {
    product product;           /* of ls_reduced_product */
    bool token_sums;           /* in ls_token_sums_finish */
    const ls_group *attention; /* in the attention block's backward pass: its tp group */
    bool positions;            /* at the beginning of the embedding's forward pass */
    bool squares;              /* in the gradient norm, */
    int model_rank;            /* as this member */
    int parts;                 /* in ls_executor_run: micro-batches of all replicas, */
    ls_valid valid;            /* and the global numbers of targets */
    bool spoiled;              /* the weights are, once a run */
    const ls_sharded_net *net; /* in a batch norm of this network, */
    const ls_net_layer_state *norm;
    bool norm_forward;
} ls_call;

extern _Thread_local ls_call ls_call_now;

#endif
