/* plan_net.h - the plan of a convolutional network: what its ranks keep, and what passes between
 * them. */
#ifndef LS_PIPELINE_PLAN_NET_H
#define LS_PIPELINE_PLAN_NET_H

#include "lockstep/pipeline/plan.h"

/* What passes in every layer, and of each rank the activations, the bounds of communication and
 * temporary memory, and what it sends: into plan->net_layers and plan->rank. The plan has been
 * checked. Cost: layers * ranks^2 intersections of boxes. Errors: LS_ERR_MEMORY. */
ls_status ls_plan_net(ls_plan *plan) LS_MUST_USE;

#endif
