/* executor_state.h - what is inside ls_executor: the rank's stages, and the micro-batches on
 * their way through them. */
#ifndef LS_PIPELINE_EXECUTOR_STATE_H
#define LS_PIPELINE_EXECUTOR_STATE_H

#include "lockstep/comm/channel.h"
#include "lockstep/parallel/transformer/stage.h"
#include "lockstep/partition/share.h"
#include "lockstep/pipeline/executor.h"

/* A micro-batch on its way through one stage. */
#define ls_in_flight LS_TYPED(ls_in_flight)
typedef struct ls_in_flight {
    int micro_batch; /* -1: free */
    bool over;       /* gone backward: free once its gradient is taken */
    ls_micro_batch *saved;
    ls_arena *input; /* activations received, until backward */
    const ls_real *output;
    ls_isend *sending; /* its output, then its gradient, until the receiver has taken it */
} ls_in_flight;

/* One of the rank's stages. */
#define ls_chunk LS_TYPED(ls_chunk)
typedef struct ls_chunk {
    int number; /* of the stage in the model */
    ls_stage *stage;
    ls_in_flight *flights; /* M, taken up in order: behind one that was never used (kept NULL) none
                           is, so as many are used as the schedule keeps alive or on their way */
} ls_chunk;

struct ls_executor {
    ls_executor_setup setup;
    ls_store *store;
    ls_memory *memory;
    ls_arena *lasting;  /* groups and bounds: as long as the executor */
    ls_arena *incoming; /* a gradient received, for the time of one backward pass */
    ls_kv_sharing kv;
    int stages;                       /* of the model */
    uint32_t step;                    /* the last one run */
    size_t S;                         /* its sequences' tokens */
    size_t bounds[LS_MAX_STAGES + 1]; /* stage s has the layers bounds[s] .. bounds[s + 1] */
    ls_chunk *chunks;
};

/* The sequences of a micro-batch, counted from the first own one. */
static inline ls_share ls_own_micro_batch(const ls_executor_setup *setup, int micro_batch)
{
    return ls_share_of(setup->sequences, (size_t)setup->layout->micro_batches, (size_t)micro_batch);
}

/* ---- stage_messages.c: what goes between stages ---- */

/* The flight of a micro-batch through a chunk; -1: the first that is free. NULL: none. */
#define ls_in_flight_of LS_TYPED(ls_in_flight_of)
ls_in_flight *ls_in_flight_of(const ls_executor *executor, const ls_chunk *chunk, int micro_batch);

/* Elements of a micro-batch's activations as this rank holds them between blocks. */
#define ls_message_elements LS_TYPED(ls_message_elements)
size_t ls_message_elements(const ls_executor *executor, const ls_batch *batch);

/* Begins to send what a pass made, `count` values that live until ls_in_flight_sent, to the stage
 * next in the direction of the pass: with a forward pass the one after `stage`, else the one
 * before. */
#define ls_send_output LS_TYPED(ls_send_output)
ls_status ls_send_output(ls_executor *executor, ls_in_flight *flight, int stage, ls_pass pass,
                         const ls_real *values, size_t count) LS_MUST_USE;

/* What a pass through `stage` begins with, in memory from `arena`: waits until it is there. Errors
 * besides those of ls_receive: LS_ERR_INPUT, the stage it comes from is this rank's and has not
 * made it. */
#define ls_recv_input LS_TYPED(ls_recv_input)
ls_status ls_recv_input(ls_executor *executor, ls_arena *arena, int stage, int micro_batch,
                        ls_pass pass, size_t count, const ls_real **ret_values) LS_MUST_USE;

/* Waits until what the flight sends has been taken, and gives back its room. */
#define ls_in_flight_sent LS_TYPED(ls_in_flight_sent)
ls_status ls_in_flight_sent(ls_in_flight *flight) LS_MUST_USE;

/* The same for every flight, all: waiting for each, else only those whose message has been taken by
 * now. */
#define ls_retire_sends LS_TYPED(ls_retire_sends)
ls_status ls_retire_sends(ls_executor *executor, bool all) LS_MUST_USE;

#endif
