/* plan_parts.h - what the files of a plan share. */
#ifndef LS_PIPELINE_PLAN_PARTS_H
#define LS_PIPELINE_PLAN_PARTS_H

#include "lockstep/model/param_table.h"
#include "lockstep/pipeline/plan.h"
#include "pipeline/schedule_places.h"

/* What a tensor-parallel rank has of the model's axes. */
typedef struct ls_own_axes {
    const ls_config *config;
    bool sp;
    bool first_tokens; /* it has the first token of each sequence */
    uint64_t D, S, F;
    uint64_t tokens;   /* own tokens of a sequence between the blocks */
    uint64_t heads;    /* own heads times their width */
    uint64_t kv;       /* own key/value heads times their width */
    uint64_t n_heads;  /* own heads */
    uint64_t ff;       /* own columns of the feed-forward width */
    uint64_t model;    /* row-first MLP: own columns of the model width */
    uint64_t vocab;    /* own rows of the vocabulary */
    uint64_t vectors;  /* parameters of a norm */
    uint64_t kv_group; /* heads per key/value head */
    /* Partials that the rank sends to a sum over an axis (rule 8). */
    uint64_t head_nodes, ff_nodes, model_nodes, vocab_nodes, token_nodes;
    /* Key/value heads that other ranks have too, and the partials of all of them. */
    uint64_t shared_kv, shared_kv_nodes;
} ls_own_axes;

ls_own_axes ls_own_axes_of(const ls_config *config, const ls_layout *layout, int tp_rank);

/* One of a rank's stages. */
typedef struct ls_stage_part {
    size_t layers;
    bool embedding, head;
} ls_stage_part;

/* What a stage takes for one sequence, in elements. */
typedef struct ls_stage_elements {
    uint64_t saved;        /* between forward and backward */
    uint64_t forward_most; /* at most during the forward pass, the former included */
    uint64_t again;        /* more than `kept` during the backward pass: what is computed again */
    uint64_t working;      /* temporary, at least, in the backward pass */
} ls_stage_elements;

ls_stage_elements ls_stage_elements_of(const ls_own_axes *own, const ls_stage_part *stage,
                                       ls_recompute recompute, bool received);

/* ---- communication of one step ---- */

/* A step on one rank. */
typedef struct ls_step_traffic {
    const ls_own_axes *own;
    const ls_layout *layout;
    bool gathered_loss;
    uint64_t element_bytes;
    uint64_t sequences; /* of the replica */
    ls_comm_count *comm;
} ls_step_traffic;

/* All micro-batches through one stage of the rank, both passes, with what they send to the stages
 * before and after it. stage_number: in the model. */
void ls_count_stage(const ls_step_traffic *step, const ls_stage_part *stage, int stage_number);

/* Once a step: valid targets, gradients and loss over the replicas, the loss for every stage, the
 * uses of a tied embedding, squares of the gradient. at: the rank's place. gradients: elements that
 * it makes itself; tied: of its shard of a tied embedding, if it is exchanged. granules: of the
 * table. dp_nodes: complete nodes that its sequences make in the global batch. */
typedef struct ls_step_ends {
    ls_coordinates at;
    uint64_t gradients, tied, granules, dp_nodes;
} ls_step_ends;

void ls_count_step(const ls_step_traffic *step, const ls_step_ends *ends);

/* ---- over the schedule ---- */

/* Peaks in bytes over the tasks of one pipeline rank, whose chunks have these sizes; B sequences of
 * each micro-batch by ls_share_of. */
typedef struct ls_schedule_peaks {
    uint64_t activations, working;
    uint64_t at_once; /* activations and working together, in one backward pass */
} ls_schedule_peaks;

ls_schedule_peaks ls_schedule_peaks_of(const ls_schedule *schedule, int pp_rank,
                                       const ls_stage_elements *chunks, size_t sequences,
                                       size_t element_bytes);

/* Sequences whose activations or gradients may at most be in the buffers of a rank's messages at
 * once, whatever the time that neighbours take. */
ls_status ls_schedule_messages(const ls_places *places, int pp_rank, size_t sequences,
                               uint64_t *ret_sequences) LS_MUST_USE;

#endif
