/* plan.h - what a run will hold and send, without running it: pure functions of the model, the
 * layout, the batch and the precision.
 *
 * Held to the byte against the accounts of real runs: parameters, gradients, optimizer state,
 * activations, and calls and bytes of every operation. Not predicted: what one operation needs
 * while it works (LS_MEM_TEMPORARY), of which there is a lower bound only. Buffers of messages
 * between stages have an upper bound: when they are free again depends on when a neighbour has
 * taken them.
 *
 * What one layer keeps from forward to backward, in elements for B sequences of S tokens. D model
 * width, F feed-forward width (GELU; SwiGLU: F + F + F in place of F + F), H heads, one key/value
 * head per head, T ranks of tp:
 *
 *     norm 1 (output, mean, 1/deviation)      S D + 2 S       cut by T with sequence parallelism
 *     q, k, v                               3 S D             cut by T
 *     probabilities                           H S S           cut by T
 *     attention's output before W_o           S D             cut by T
 *     input x, and x + attention            2 S D             cut by T with sequence parallelism
 *     norm 2                                  S D + 2 S       cut by T with sequence parallelism
 *     MLP (before and after its activation)   S F + S F       cut by T
 *
 * With F = 4 D that is B S D times
 *
 *     nothing cut, nothing computed again     16             + H S / D         + 4 / D
 *     tensor parallel                          4 + 12 / T    + H S / (D T)     + 4 / D
 *     tensor and sequence parallel           (16             + H S / D         + 4 / D) / T
 *     tensor parallel, selective               4 + 12 / T                      + 4 / D
 *     tensor and sequence parallel, selective (16                              + 4 / D) / T
 *     layer                                    1             (sequence parallel: 1 / T)
 *     stage                                    0             (1 for the stage as a whole)
 *
 * The table of arXiv 2205.05198 counts bytes, two an element and one for a mask: 34 + 5 H S / D.
 * Its 34 are these 16 elements and 2 bytes of masks, which here are drawn again; its 5 are two
 * bytes of probabilities, one of their mask and two of what dropout made of them, here drawn again
 * too: 1. It leaves the statistics of the norms out, 4 / D. Key/value heads shared by several heads
 * make k and v smaller, and where tp cuts a group of heads, each of its ranks has its own copy.
 * Norms after the residual sums keep x + MLP in place of norm 2's output, which is the next
 * layer's x. */
#ifndef LS_PIPELINE_PLAN_H
#define LS_PIPELINE_PLAN_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/comm/world.h"
#include "lockstep/model/config.h"
#include "lockstep/partition/layer_grid.h"
#include "lockstep/pipeline/timeline.h"

LS_BEGIN_DECLS

/* What one layer keeps of one sequence, in elements. */
typedef struct ls_layer_elements {
    uint64_t input;         /* x: the output of what is before the layer */
    uint64_t norms;         /* their outputs; a norm that ends the layer has the layer's own */
    uint64_t statistics;    /* of both, a mean and a 1/deviation per token (RMSNorm: the latter) */
    uint64_t projections;   /* q, k, v */
    uint64_t probabilities; /* of the attention */
    uint64_t context;       /* what the attention's output matrix reads */
    uint64_t residual;      /* x + attention; where a norm comes after it, the sum with the MLP */
    uint64_t mlp;           /* before and after the activation */
} ls_layer_elements;

/* On tensor-parallel rank tp_rank of a layout (its tp and sp are read), in one mode of
 * recomputation. config and layout have passed ls_layout_check. */
LS_API ls_layer_elements ls_plan_layer(const ls_config *config, const ls_layout *layout,
                                       ls_recompute recompute, int tp_rank);
LS_API uint64_t ls_layer_elements_sum(const ls_layer_elements *layer);

/* What one rank will hold and send. */
typedef struct ls_rank_plan {
    /* Peaks. Exact, but for LS_MEM_TEMPORARY (a lower bound) and LS_MEM_COMMUNICATION (an upper
     * bound). */
    uint64_t bytes[LS_MEM_CATEGORIES];
    uint64_t at_once;                /* all categories together, at least */
    ls_comm_count comm[LS_OP_COUNT]; /* of one training step, as ls_rank_count counts */
    uint64_t gradient_slots;         /* gradients that wait for those of other micro-batches, and
                                        the one being made: about log2 of their number */
    size_t layers;                   /* of all its stages */
    size_t sequences;                /* or images, of its data-parallel replica */
    int live;                        /* micro-batches alive at once, over all its stages */
} ls_rank_plan;

/* Bytes that ranks receive: all together, and the one that receives most. */
typedef struct ls_net_traffic {
    uint64_t bytes, most;
} ls_net_traffic;

/* What passes between ranks for one layer of a convolutional network in one step. Next to what is
 * counted from the blocks of all ranks there is the formula of the literature, O x edge x channels
 * with O = (K - 1) / 2: what a rank with neighbours on all sides that the grid has receives
 * forward. They agree for odd kernels with stride 1 and padding (K - 1) / 2 on images that the grid
 * cuts evenly, without redistribution and with channels uncut. */
typedef struct ls_net_layer_plan {
    ls_layer_grid grid;
    ls_net_traffic forward;  /* what it reads: halos, other channels, another grid           */
    ls_net_traffic backward; /* of the gradient of its output: halos; max pooling's places too,
                                response norm's sums too                                     */
    ls_net_traffic returned; /* the gradient of what it reads, where that has another grid    */
    uint64_t summed;         /* bytes handed into reductions by all ranks: gradients of
                                parameters, statistics, dx where channels are cut, the loss  */
    uint64_t halo_formula;   /* bytes; 0: no window, pixels that are not cut, or the image is read,
                                which is taken from the batch                                */
} ls_net_layer_plan;

typedef struct ls_plan_setup {
    const ls_config *config;
    const ls_layout *layout;
    size_t batch;       /* sequences or images of the global batch */
    ls_dtype dtype;     /* LS_F32 or LS_F64 */
    bool gathered_loss; /* as in ls_stage_setup */
} ls_plan_setup;

typedef struct ls_plan {
    ls_config config; /* with the batch planned for */
    ls_layout layout;
    ls_dtype dtype;
    uint64_t parameters; /* of the model, a tied embedding once */
    int ranks;
    ls_rank_plan *rank;            /* one per rank */
    ls_net_layer_plan *net_layers; /* of a convolutional network, one per layer; else NULL */
    ls_schedule *schedule;         /* of every pipeline of the layout */
    ls_ratio bubble; /* of that schedule, exact, backward passes twice as long as forward */
} ls_plan;

enum { LS_PLAN_MAX_RANKS = 1 << 16, LS_PLAN_MAX_NET_RANKS = 1 << 11 };

/* Of a network's rank plan slots are 1, layers those of the network, live is 1, and sequences are
 * the images of its replica.
 *
 * Plans a training run whose batches have at least one valid target, and label where the model asks
 * for them. Cost: for each rank the tasks of its schedule and the parameters of the table; nothing
 * of the model's size is allocated. Errors: those of ls_config_check and ls_layout_check;
 * LS_ERR_INPUT for more than LS_PLAN_MAX_RANKS ranks (LS_PLAN_MAX_NET_RANKS of a network, where
 * each meets each other) or more bytes than are counted; LS_ERR_MEMORY.
 */
LS_API ls_status ls_plan_create(ls_plan **ret_plan, const ls_plan_setup *setup) LS_MUST_USE;
LS_API void ls_plan_destroy(ls_plan **plan);

/* Whether two ranks hold and send the same. */
LS_API bool ls_plan_alike(const ls_rank_plan *a, const ls_rank_plan *b);

/* What all ranks together need at least: the sum of at_once. */
LS_API double ls_plan_bytes(const ls_plan *plan);

LS_END_DECLS

#endif
