/* observer.h - an observer of the tensors between operations.
 *
 * An observer sees what a rank has at the points of its computation (model/step_tensors.h): the
 * output of each operation forward, the gradient of each of those backward, and at every call that
 * crosses ranks what the rank sends and what it receives. It only reads; a run without one pays a
 * comparison per point. All ranks may show tensors at the same time, each from its own thread. */
#ifndef LS_PARALLEL_HOOKS_OBSERVER_H
#define LS_PARALLEL_HOOKS_OBSERVER_H

#include "lockstep/base/status.h"
#include "lockstep/comm/world.h"
#include "lockstep/model/step_tensors.h"

LS_BEGIN_DECLS

typedef struct ls_observer {
    void *context;
    /* Called by the rank's own thread. A status other than LS_OK ends the run. */
    ls_status (*look)(void *context, ls_rank *rank, const ls_view *view);
} ls_observer;

LS_END_DECLS

#endif
