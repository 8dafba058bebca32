/* plan_facts.h - a plan for people and for programs. */
#ifndef LOCKSTEP_PLAN_FACTS_H
#define LOCKSTEP_PLAN_FACTS_H

#include "facts.h"
#include "lockstep/pipeline/plan.h"
#include "report/rank_groups.h"

typedef struct planned {
    const settings *settings;
    ls_plan *plan;
    ls_timeline *timeline;   /* a backward pass twice as long as a forward pass */
    ls_layer_elements layer; /* what a layer keeps on rank 0 */
    double machine_bytes;    /* of memory here; 0: not known */
    ls_rank_groups groups;   /* ranks that hold and send the same */
} planned;

/* "(K - 1) / (V M + K - 1)": what the bubble of a layout is by ls_bubble_formula. */
const char *bubble_formula_text(const ls_layout *layout);

/* What passes between ranks for each layer of a network. */
ls_status print_net_layers(FILE *file, const planned *p) LS_MUST_USE;
json_t *json_net_layers(const ls_plan *plan);

ls_status print_plan(FILE *file, const planned *p) LS_MUST_USE;
ls_status print_plan_json(const planned *p) LS_MUST_USE;

#endif
