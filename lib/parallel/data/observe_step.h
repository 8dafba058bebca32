/* observe_step.h - the sums over ranks that are made once a step, seen by an observer: each is
 * the public function of its name without `_seen`, with what goes into its reduction and what comes
 * out shown (observe_param.h). */
#ifndef LS_PARALLEL_DATA_OBSERVE_STEP_H
#define LS_PARALLEL_DATA_OBSERVE_STEP_H

#include "lockstep/parallel/data/data_parallel.h"
#include "lockstep/parallel/data/update.h"
#include "parallel/hooks/observe_param.h"

#define ls_count_valid_seen LS_TYPED(ls_count_valid_seen)
ls_status ls_count_valid_seen(ls_step_observer look, ls_group *dp, const ls_config *config,
                              const ls_batch *batch, ls_valid *ret_valid) LS_MUST_USE;

#define ls_reduce_gradients_seen LS_TYPED(ls_reduce_gradients_seen)
ls_status ls_reduce_gradients_seen(ls_step_observer look, ls_group *dp, ls_store *store,
                                   ls_batch_cut cut) LS_MUST_USE;

#define ls_reduce_loss_seen LS_TYPED(ls_reduce_loss_seen)
ls_status ls_reduce_loss_seen(ls_step_observer look, ls_group *dp, ls_sequence_losses sequences,
                              ls_batch_cut cut, ls_valid valid, ls_real *ret_loss) LS_MUST_USE;

#define ls_shared_squares_seen LS_TYPED(ls_shared_squares_seen)
ls_status ls_shared_squares_seen(ls_step_observer look, ls_group *model, const ls_layout *layout,
                                 const ls_store *store, ls_arena *temporary,
                                 double *ret_squares) LS_MUST_USE;

#endif
