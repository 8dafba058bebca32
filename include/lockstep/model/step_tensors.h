/* step_tensors.h - the named tensors of a training step, and which block of one is meant.
 *
 * A point is a tensor between two operations: the output of an operation, or, on the way back, the
 * gradient of it. A view describes a block of a logical tensor. Its dimensions, in this order,
 * those that the point has: sequences, tokens, then a last one (model width, heads' width,
 * feed-forward width, vocabulary), of each of which the block has a run; attention probabilities
 * have heads, queries and keys after the sequences. Observers (parallel/hooks/observer.h) are shown
 * views; the step graph finds its nodes by them. */
#ifndef LS_MODEL_STEP_TENSORS_H
#define LS_MODEL_STEP_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

/* The points of one forward pass, in order of execution; layers repeat theirs. */
typedef enum ls_point {
    LS_POINT_EMBEDDING_SUM, /* token, position and type rows added; none unless a norm follows */
    LS_POINT_EMBEDDING,     /* the sum, norm (if any) applied */
    LS_POINT_EMBEDDED,      /* after dropout: input of the first layer                        */
    LS_POINT_NORM1,         /* what the attention block reads; norms after: what the MLP reads */
    LS_POINT_QUERY,         /* as the attention core reads them: bias added, turned by position */
    LS_POINT_KEY,
    LS_POINT_VALUE,
    LS_POINT_PROBABILITIES,   /* softmax, before dropout; its gradient 0 where nothing is seen  */
    LS_POINT_HEADS,           /* outputs of the heads, side by side                             */
    LS_POINT_ATTENTION,       /* reduced, bias added                                            */
    LS_POINT_AFTER_ATTENTION, /* after dropout, + residual (norms after: before the norm)      */
    LS_POINT_NORM2,           /* what the MLP reads; norms after: none, it is LAYER            */
    LS_POINT_GATE,            /* SwiGLU only */
    LS_POINT_UP,
    LS_POINT_ACTIVATION,
    LS_POINT_MLP,          /* reduced, bias added                                            */
    LS_POINT_AFTER_MLP,    /* norms after: what norm 2 reads; else none, it is LAYER        */
    LS_POINT_LAYER,        /* the layer's output; what goes to the next stage                */
    LS_POINT_FINAL_NORM,   /* none where norms stand behind */
    LS_POINT_MASKED_DENSE, /* masked-token head: t, u and what meets the vocabulary          */
    LS_POINT_MASKED_ACTIVATION,
    LS_POINT_FEATURES,
    LS_POINT_LOGITS,
    LS_POINT_TOKEN_LOSS, /* per token; the losses forward only                            */
    LS_POINT_POOLED,     /* sentence-order head, per sequence                              */
    LS_POINT_ORDER_LOGITS,
    LS_POINT_ORDER_LOSS,
    /* Seen where they cross ranks only: */
    LS_POINT_LARGEST_LOGIT, /* per token: largest logit,                                      */
    LS_POINT_SUM_EXP,       /* sum of exp(logit - largest),                                   */
    LS_POINT_TARGET_LOGIT,  /* logit of the target; -0 where the word is another rank's       */
    LS_POINT_SUM_LOGITS,    /* sum of the logits (label smoothing)                            */
    LS_POINT_FIRST_TOKEN,   /* per sequence: what the sentence-order head reads               */
    /* Of a convolutional network; `layer` is the number in the network. */
    LS_POINT_OUTPUT,     /* of a layer, [images][channels][rows][columns]                  */
    LS_POINT_BATCH_MEAN, /* of batch norm, per channel                                     */
    LS_POINT_BATCH_RSTD, /* 1 / sqrt(variance + eps)                                       */
    LS_POINT_IMAGE_LOSS, /* per image                                                      */
    /* Of it, seen where they cross ranks only: */
    LS_POINT_PLACES,        /* of max pooling: where in the image each output's maximum is; I32 */
    LS_POINT_NORM_SUM,      /* of response norm: d of response_norm.h                            */
    LS_POINT_BATCH_SUM,     /* of batch norm, per channel: sum of what it read,                  */
    LS_POINT_BATCH_SQUARES, /* of (that - mean)^2                                                */
    LS_POINT_PIXEL_SUM,     /* of global pooling, per image and channel                          */
    LS_POINTS
} ls_point;

/* What is shown. Of a parameter, what this rank holds of it: its place in the table is `param`, its
 * dimensions are the table's, without padding. Nothing is gathered, and copies that several ranks
 * hold are not compared: each shows its own. A shard of nothing but padding is not shown. */
typedef enum ls_view_kind {
    LS_VIEW_POINT = 0,      /* what an operation made, or the gradient of that */
    LS_VIEW_USE_GRADIENT,   /* of a tied parameter, from one of its uses (`use`: 0 the input, 1 the
                               head), over the whole batch, before the uses are added; by the ranks
                               that make it */
    LS_VIEW_PARAM_GRADIENT, /* complete, before clipping */
    LS_VIEW_CLIPPED,        /* as the optimizer takes it, scaled or not */
    LS_VIEW_PARAM,          /* after the optimizer's step */
    LS_VIEW_LOSS,           /* of the step, as this rank knows it; no dimensions */
    LS_VIEW_NORM,           /* of the gradient, the same; binary64 */
    /* Seen where they cross ranks only: */
    LS_VIEW_SEQUENCE_GRADIENT, /* of a norm's parameter, from each sequence by itself: sequences,
                                  model width. Sequence parallelism cuts the tokens that it is a
                                  sum over */
    LS_VIEW_TARGET_COUNTS,     /* how many targets count, and how many sentence-order labels; I64 */
    LS_VIEW_LOSS_SUMS,         /* sums of the losses of those, before they are divided */
    LS_VIEW_SQUARES /* sums of the gradient's squares, by parameter and granule; binary64.
                       -0 where another rank tells */
} ls_view_kind;

/* Whether what is shown goes into a call that crosses ranks, the next of this rank's, or came out
 * of its last one (`skipped`: the next or last but so many).
 *
 * With the points: PARTIAL and TOTAL of ATTENTION and MLP before the bias (row-first MLP: of UP
 * too), of EMBEDDING token rows only, a leaf per rank; of gradients of KEY and VALUE heads that
 * several ranks hold, over the query heads of their group; of gradients of what the blocks read, as
 * NORM1 and NORM2 wherever the norms stand, before what comes next to the block is added; of
 * gradients of what meets the vocabulary (FINAL_NORM, FEATURES). SHARE and GATHERED, with sequence
 * parallelism: NORM1, NORM2 and FINAL_NORM, again what blocks and heads read wherever the norms
 * stand, forward and once more backward; gradients of what they made. SENT and RECEIVED: LAYER,
 * from stage to stage.
 *
 * Of networks SENT and RECEIVED are OUTPUT, PLACES and NORM_SUM, a piece for each message: what a
 * layer reads of another one's block, forward, and gradients, those that a layer reads of its own
 * output and those that it gives back of what it read. PARTIAL and TOTAL: sums over channels of the
 * gradient of an OUTPUT; all sums over images and pixels. */
typedef enum ls_comm_kind {
    LS_COMM_NONE = 0,
    LS_COMM_PARTIAL,  /* handed into a reduction, node lo .. hi of its tree of `leaves` leaves;
                             LARGEST_LOGIT: the largest of those */
    LS_COMM_TOTAL,    /* what the reduction gave this rank                                 */
    LS_COMM_SHARE,    /* handed into a gather, or a broadcast's root's                     */
    LS_COMM_GATHERED, /* what that gave                                                    */
    LS_COMM_SENT,     /* to another rank                                                   */
    LS_COMM_RECEIVED,
    LS_COMM_KINDS
} ls_comm_kind;

/* A run of a dimension; whole: extent of the logical dimension. */
typedef struct ls_view_run {
    size_t whole, first, count;
} ls_view_run;

enum { LS_VIEW_DIMS = 4 };

typedef struct ls_view {
    ls_view_kind kind;
    int param, use;   /* -1 where the kind has none */
    const char *name; /* of the parameter, valid during the call; NULL */
    ls_point point;   /* LS_POINTS unless kind is LS_VIEW_POINT */
    bool gradient;    /* of the loss, with respect to what the point gives forward */
    int layer;        /* -1: none */
    uint32_t step;
    ls_comm_kind comm;
    size_t lo, hi, leaves; /* with LS_COMM_PARTIAL */
    size_t rows, columns;  /* of granules that the tree cuts each image into (pixel_tree.h); 0:
                              the tree is T of the leaves */
    size_t skipped;        /* calls between this and the one it belongs to: several messages are one
                              exchange */
    int n_dims;
    ls_view_run dims[LS_VIEW_DIMS]; /* of a point the first: sequences of the global batch */
    ls_dtype dtype;
    const void *values; /* the block, row-major, valid during the call */
    size_t stride;      /* elements from row to row: the last count, more where padding follows */
} ls_view;

/* "embedding", "embedded", "norm1", "query", ... */
LS_API const char *ls_point_name(ls_point point);

/* "partial", "total", "share", "gathered", "sent", "received". */
LS_API const char *ls_comm_kind_name(ls_comm_kind comm);

LS_END_DECLS

#endif
