/* data_parallel.h - what data-parallel replicas have to tell each other.
 *
 * Each replica has a run of the global batch's sequences and the same parameters. In a step: how
 * many targets and labels are valid altogether, before the first backward pass, since the loss is
 * one mean over all of them (and not the mean of the replicas' means, which weighs tokens
 * unequally); the gradients, once, after the last micro-batch; the loss. The latter two are sums
 * over the sequences, a tree over the global batch (contract rule 9) of which each replica has the
 * nodes that its run makes.
 *
 * Every member of the dp group calls these together. Errors: those of collectives.h. */
#ifndef LS_PARALLEL_DATA_DATA_PARALLEL_H
#define LS_PARALLEL_DATA_DATA_PARALLEL_H

#include "lockstep/comm/collectives.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/layout/losses.h"

LS_BEGIN_DECLS

/* The sequences of a global batch and which replica has which run of them. */
typedef struct ls_batch_cut {
    size_t sequences;
    const size_t *bounds; /* group size + 1: replica d has bounds[d] .. bounds[d + 1] */
} ls_batch_cut;

/* The numbers of valid targets and of order labels of the global batch. batch: own sequences. One
 * all-reduce, of one integer or, when the model has sentence order, two; none with one replica. */
#define ls_count_valid LS_TYPED(ls_count_valid)
LS_API ls_status ls_count_valid(ls_group *dp, const ls_config *config, const ls_batch *batch,
                                ls_valid *ret_valid) LS_MUST_USE;

/* The gradients of the global batch, into slot 0 of the store, from the nodes that
 * ls_stage_settle_gradients left in slots 0, 1, ... 1 all-reduce of nodes * gradient_count; none
 * with one replica. */
#define ls_reduce_gradients LS_TYPED(ls_reduce_gradients)
LS_API ls_status ls_reduce_gradients(ls_group *dp, ls_store *store, ls_batch_cut cut) LS_MUST_USE;

/* The loss of the global batch from own sequences' losses (ls_micro_batch_losses): T over all
 * sequences, ended, divided once by the number of valid targets; 0 when that is 0; with sentence
 * order the same of the labels is added to it. One all-reduce, of one number per node or, with
 * sentence order, two; none with one replica. */
#define ls_reduce_loss LS_TYPED(ls_reduce_loss)
LS_API ls_status ls_reduce_loss(ls_group *dp, ls_sequence_losses sequences, ls_batch_cut cut,
                                ls_valid valid, ls_real *ret_loss) LS_MUST_USE;

LS_END_DECLS

#endif
