/* layout.h - how a run is split over ranks, and where each rank is in the grid. Pure
 * arithmetic. */
#ifndef LS_PARTITION_LAYOUT_H
#define LS_PARTITION_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"
#include "lockstep/partition/layer_grid.h"

LS_BEGIN_DECLS

/* In which order a pipeline's stages take up the micro-batches. */
typedef enum ls_schedule_kind {
    LS_GPIPE = 0,  /* all forward, then all backward, last first (arXiv 1811.06965); with one
                      micro-batch the naive pipeline, in which one stage works at a time */
    LS_1F1B,       /* one forward, one backward, then flush (PipeDream-flush)                */
    LS_INTERLEAVED /* 1F1B over several virtual stages a rank (arXiv 2104.04473)             */
} ls_schedule_kind;

/* What a stage computes again in the backward pass instead of keeping it. */
typedef enum ls_recompute {
    LS_RECOMPUTE_NONE = 0,
    LS_RECOMPUTE_SELECTIVE, /* the attention probabilities (arXiv 2205.05198)             */
    LS_RECOMPUTE_LAYER,     /* everything but each layer's input                          */
    LS_RECOMPUTE_STAGE      /* everything but the stage's input, as GPipe does            */
} ls_recompute;

enum {
    LS_MAX_STAGES = 256, /* pp * virtual_stages                        */
    LS_MAX_STRATEGIES = 64,
    LS_LAYOUT_TEXT = 512 + 12 * LS_MAX_STAGES + 64 * LS_MAX_STRATEGIES /* room for any layout of
                                                 ls_layout_describe                         */
};

/* The grid of one layer of a convolutional network, in place of the one that it would have. */
typedef struct ls_strategy {
    int layer; /* its number in the network */
    ls_layer_grid grid;
} ls_strategy;

/* Degrees of parallelism; each at least 1. Rank r has the coordinates of Megatron-LM's order: tp
 * fastest, then cp, dp, pp: r = tp_rank + tp (cp_rank + cp (dp_rank + dp pp_rank)). A convolutional
 * network has dp, down, across and channels instead, all others 1: r = channel + channels (column +
 * across (row + down dp_rank)), as layer_grid.h says. Every choice here leaves the bits of a run as
 * they are. */
typedef struct ls_layout {
    int tp;             /* tensor parallel                          */
    int cp;             /* context parallel: 1 in this version      */
    int dp;             /* data parallel                            */
    int pp;             /* pipeline stages                          */
    bool sp;            /* sequence parallelism inside each tp group */
    int virtual_stages; /* V: runs of layers per pipeline rank; above 1 with LS_INTERLEAVED only */
    int micro_batches;  /* M: parts that each data-parallel rank cuts its sequences into */
    ls_schedule_kind schedule;
    ls_recompute recompute;
    /* Layers of each of the pp * V stages, in order; given is 0 (as even as can be: ls_share_of) or
     * pp * V. Stage s belongs to pipeline rank s mod pp. */
    int given;
    int stage_layers[LS_MAX_STAGES];
    int down, across; /* spatial parallel: rows x columns of ranks over an image */
    int channels;     /* channel parallel */
    bool overlap;     /* compute what needs no halo while halos are under way */
    int n_strategies;
    ls_strategy strategies[LS_MAX_STRATEGIES]; /* in ascending order of layers */
} ls_layout;

typedef struct ls_coordinates {
    int tp, cp, dp, pp;
    int row, column, channel; /* of a convolutional network */
} ls_coordinates;

/* One rank. */
LS_API ls_layout ls_layout_serial(void);

/* Ranks of the grid; -1 when the product overflows. */
LS_API int ls_layout_ranks(const ls_layout *layout);

/* Stages of the model: pp * V. */
LS_API int ls_layout_stages(const ls_layout *layout);

LS_API ls_coordinates ls_layout_coordinates(const ls_layout *layout, int rank);
LS_API int ls_layout_rank(const ls_layout *layout, ls_coordinates at);

/* ret_bounds[s] = first layer of stage s, ret_bounds[stages] = layers: the given partition, or an
 * even one. stages + 1 numbers. */
LS_API void ls_layout_stage_bounds(const ls_layout *layout, size_t layers, size_t *ret_bounds);

/* "gpipe", "1f1b", "interleaved"; "none", "selective", "layer", "stage". */
LS_API const char *ls_schedule_kind_name(ls_schedule_kind kind);
LS_API const char *ls_recompute_name(ls_recompute recompute);

/* Writes the layout as "dp 2 x pp 2 x tp 2, sp, 1f1b, 4 micro-batches", of a network as "dp 2 x
 * spatial 2x1 x channel 2, overlap, layer 5 4x1x1x2" (samples, down, across, channels); what is 1
 * or none is left out, and with one micro-batch and one virtual stage the schedule, since all are
 * the same then; "one rank" when there is nothing to say. buffer: size bytes, always terminated, a
 * text that does not fit ends in "...". */
LS_API void ls_layout_describe(const ls_layout *layout, char *buffer, size_t size);

/* Reads such a description back; what it leaves out is 1 or none, the schedule GPipe. option: who
 * is named in an error, "--layouts". LS_ERR_INPUT names the part that is none. */
LS_API ls_status ls_layout_parse(const char *option, const char *text,
                                 ls_layout *ret_layout) LS_MUST_USE;

LS_END_DECLS

#endif
