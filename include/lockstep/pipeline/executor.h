/* executor.h - one rank's part in a pipeline: runs whatever schedule it is given.
 *
 * The rank goes through its list of tasks. A forward pass takes the activations of the stage
 * before, a backward pass the gradient of the stage behind: from a message, or, when that stage is
 * a chunk of the same rank, from where they lie. What a task makes is sent at once and taken when
 * the receiver comes to it (ls_send_begin): a rank goes on with its list meanwhile, and waits only
 * at the end of the step for what has not been taken yet. So every schedule that ls_schedule_check
 * accepts runs through, with rendezvous channels too. Messages are whole micro-batches'
 * activations: B S D, with sequence parallelism B S_r D. */
#ifndef LS_PIPELINE_EXECUTOR_H
#define LS_PIPELINE_EXECUTOR_H

#include "lockstep/comm/group.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/parallel/layout/losses.h"
#include "lockstep/parallel/hooks/observer.h"
#include "lockstep/pipeline/schedule.h"

LS_BEGIN_DECLS

typedef struct ls_executor_setup {
    ls_group *tp; /* the rank's tensor-parallel group                        */
    ls_group *pp; /* the ranks of the pipeline, in order; its first and last exchange tied uses */
    const ls_layout *layout;
    const ls_schedule *schedule; /* of as many ranks, micro-batches and chunks as the layout says */
    ls_engine engine;
    bool gathered_loss;
    size_t batch;                /* sequences of the global batch                              */
    size_t first, sequences;     /* own run of them; cut into micro-batches by ls_share_of     */
    const ls_observer *observer; /* NULL: none. Outlives the executor          */
} ls_executor_setup;

#define ls_executor LS_TYPED(ls_executor)
typedef struct ls_executor ls_executor;

/* Makes the rank's stages over `store` (ls_holdings_of), which it does not own and gives as many
 * slots for gradients as the schedule needs. Schedule, layout and store must outlive it. Every
 * member of tp calls it together: the splits of ls_kv_sharing_create. Errors: LS_ERR_INPUT (a
 * schedule of another size than the layout's, or one that ls_schedule_check refuses; fewer
 * sequences than micro-batches), those of ls_stage_create, LS_ERR_MEMORY. */
#define ls_executor_create LS_TYPED(ls_executor_create)
LS_API ls_status ls_executor_create(ls_executor **ret_executor, const ls_executor_setup *setup,
                                    ls_store *store) LS_MUST_USE;
#define ls_executor_destroy LS_TYPED(ls_executor_destroy)
LS_API void ls_executor_destroy(ls_executor **executor);

/* Runs every task of the schedule: all micro-batches forward and backward. Leaves the gradients of
 * own sequences in the store's slots as ls_stage_settle_gradients says, and on the last stage the
 * losses of own sequences in `losses` (elsewhere not touched; may be NULL there). batch: own
 * sequences. valid: valid targets and labels of the global batch; without any every gradient is +0,
 * nothing is computed or sent, and `losses` is not touched. All ranks of the pipeline call it
 * together. */
#define ls_executor_run LS_TYPED(ls_executor_run)
LS_API ls_status ls_executor_run(ls_executor *executor, const ls_batch *batch, ls_valid valid,
                                 ls_sequence_losses losses) LS_MUST_USE;

/* Ends the gradients once they are reduced over the data-parallel replicas: the masked sums of the
 * embedding (rule 14), then the uses of a tied embedding, which the first and the last rank of the
 * pipeline exchange, so that both add them, input use first (rule 13). 1 send and 1 receive of the
 * embedding's shard on these two, when there are two. An observer sees each use where it is made,
 * before they meet. */
#define ls_executor_finish LS_TYPED(ls_executor_finish)
LS_API ls_status ls_executor_finish(ls_executor *executor) LS_MUST_USE;

LS_END_DECLS

#endif
