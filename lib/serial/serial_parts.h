/* serial_parts.h - what the files of the serial model share: the state between a forward pass and
 * its backward pass, and the parts of a transformer that both are made of (those of a convolutional
 * network: serial_net.h).
 *
 * Dimensions: B sequences, S tokens of each, D model width, H query heads, Hkv key/value heads, dh
 * head width, F feed-forward width, V vocabulary (Vp padded), L layers. "tokens x D" is B S rows of
 * D elements, row b S + s the token s of sequence b. The gradient of x is dx. */
#ifndef LS_SERIAL_SERIAL_PARTS_H
#define LS_SERIAL_SERIAL_PARTS_H

#include "lockstep/numerics/random.h"
#include "lockstep/serial/serial.h"

/* What the forward pass of one layer keeps for its backward pass. */
typedef struct ls_serial_layer {
    ls_real *x;             /* tokens x D: the layer's input                                  */
    ls_real *mean1, *rstd1; /* tokens: statistics of the first norm (RMSNorm has no mean)     */
    ls_real *n1;            /* tokens x D: what attention reads: norm1(x), or x itself        */
    ls_real *q;             /* tokens x D: queries, head after head, turned by their position */
    ls_real *k, *v;         /* tokens x (Hkv dh)                                              */
    ls_real *P;             /* B x H x S x S: softmax(q k^T / sqrt(dh)), before its dropout   */
    ls_real *o;             /* tokens x D: the heads' outputs side by side                    */
    ls_real *x1;            /* tokens x D: attention + x                                      */
    ls_real *mean2, *rstd2; /* tokens: statistics of the second norm                          */
    ls_real *n2;            /* tokens x D: what the MLP reads: norm2(x1), or norm1(x1)        */
    ls_real *x2;            /* tokens x D: mlp + n2, norms after the residual sums only     */
    ls_real *gate;          /* tokens x F: n2 Wgate, SwiGLU only                             */
    ls_real *h;             /* tokens x F: n2 W1 + b1, before the activation                  */
    ls_real *u;             /* tokens x F: after it                                           */
} ls_serial_layer;

/* A masked-token model's way to the vocabulary: serial_masked_head.c. */
typedef struct ls_serial_masked_head {
    ls_real *t, *u;       /* tokens x D: before and after the GELU        */
    ls_real *mean, *rstd; /* tokens: statistics of its norm               */
    ls_real *features;    /* tokens x D: norm(u)                          */
} ls_serial_masked_head;

/* The sentence-order head: serial_order_head.c. */
typedef struct ls_serial_order_head {
    ls_real *p;                 /* B x D: tanh of the pooler                    */
    ls_real *z;                 /* B x 2: logits, then their gradient           */
    ls_real *largest, *sum_exp; /* B: of each row of logits                     */
    size_t valid;               /* labels that are not LS_IGNORE                */
} ls_serial_order_head;

#define ls_serial_net LS_TYPED(ls_serial_net)
typedef struct ls_serial_net ls_serial_net; /* serial_net.h */

struct ls_serial {
    ls_store *store; /* not owned */
    const ls_config *config;
    ls_engine engine;
    const volatile int *stop; /* not NULL: an end is wanted once it is not 0 */

    /* Room. `kept` holds the rotary tables for ever and, behind `kept_mark`, the activations of the
     * last forward pass; `temporary` is empty between calls. */
    ls_arena *kept, *temporary;
    size_t kept_mark;

    /* The last forward pass: it went well, and no backward pass has used it up. */
    bool ready;
    ls_batch batch; /* its arrays are copies */

    ls_serial_net *net; /* of a convolutional network; NULL: the rest is a transformer's */

    /* The axes of the sums (rule 7). A cut axis has granules whether a layout cuts it or not: this
     * is how the serial model fixes the order for every layout. */
    ls_axis model; /* D, never cut: one granule */
    ls_axis heads; /* D as H heads              */
    ls_axis kv;    /* Hkv heads                 */
    ls_axis ff;    /* F                         */
    ls_axis vocab; /* Vp                        */

    ls_real *cosine, *sine; /* seq x dh/2 each: rotary models only */

    /* What the last forward pass kept. */
    ls_axis tokens;            /* B granules of S (rule 9)                           */
    ls_axis sequences;         /* B granules of 1: one row per sequence              */
    const unsigned char *seen; /* tokens: 0 where no query attends to; NULL: all seen  */
    ls_real *e;                /* tokens x D: the embedding before its norm          */
    ls_real *mean_e, *rstd_e;  /* tokens: statistics of that norm                    */
    ls_serial_layer *layers;
    ls_real *x;                 /* tokens x D: output of the last layer               */
    ls_real *mean, *rstd;       /* tokens: statistics of the final norm               */
    ls_real *xf;                /* tokens x D: final_norm(x), or x itself             */
    ls_real *z;                 /* tokens x Vp: logits, then their gradient           */
    ls_real *largest, *sum_exp; /* tokens: of each row of logits                      */
    size_t valid;               /* targets that are not LS_IGNORE                     */
    ls_serial_masked_head masked;
    ls_serial_order_head order;
    ls_real token_loss, order_loss; /* what the loss is made of                       */
};

/* ---- for both kinds of model: serial_step.c */

/* LS_ERR_INTERRUPTED when the run is to end; asked between two layers. */
#define ls_serial_check_stop LS_TYPED(ls_serial_check_stop)
ls_status ls_serial_check_stop(const ls_serial *serial) LS_MUST_USE;

static inline size_t ls_serial_slot_elements(const ls_slot *slot)
{
    return slot->rows * slot->cols;
}

/* ---- the passes of a transformer: serial_transformer.c */

#define ls_serial_transformer_forward LS_TYPED(ls_serial_transformer_forward)
ls_status ls_serial_transformer_forward(ls_serial *serial, const ls_batch *batch,
                                        ls_real *ret_loss) LS_MUST_USE;
#define ls_serial_transformer_backward LS_TYPED(ls_serial_transformer_backward)
ls_status ls_serial_transformer_backward(ls_serial *serial) LS_MUST_USE;

/* ---- a linear layer: serial_linear.c */

/* y = x W + b with the axes that its three products run over. */
typedef struct ls_serial_linear {
    ls_slot *weight; /* extent(in) x extent(out) */
    ls_slot *bias;   /* extent(out); NULL when the model has none */
    ls_axis in, out;
} ls_serial_linear;

#define ls_serial_linear_of LS_TYPED(ls_serial_linear_of)
ls_serial_linear ls_serial_linear_of(const ls_serial *serial, ls_role weight, ls_role bias,
                                     size_t layer, ls_axis in, ls_axis out);

/* y = x W + b. x: tokens x in, y: tokens x out. */
#define ls_serial_linear_forward LS_TYPED(ls_serial_linear_forward)
ls_status ls_serial_linear_forward(const ls_serial *serial, ls_serial_linear linear, ls_real *y,
                                   const ls_real *x) LS_MUST_USE;

/* dW = x^T dy, db = sum of dy over the tokens: into the gradients of the store. */
#define ls_serial_linear_backward_parameters LS_TYPED(ls_serial_linear_backward_parameters)
ls_status ls_serial_linear_backward_parameters(const ls_serial *serial, ls_serial_linear linear,
                                               const ls_real *x, const ls_real *dy) LS_MUST_USE;

/* dx = dy W^T. */
#define ls_serial_linear_backward_input LS_TYPED(ls_serial_linear_backward_input)
ls_status ls_serial_linear_backward_input(const ls_serial *serial, ls_serial_linear linear,
                                          ls_real *dx, const ls_real *dy) LS_MUST_USE;

/* ---- LayerNorm or RMSNorm: serial_norm.c */

/* y = norm(x); mean (LayerNorm only) and rstd are kept. scale, shift: roles of the parameters. */
#define ls_serial_norm_forward LS_TYPED(ls_serial_norm_forward)
void ls_serial_norm_forward(const ls_serial *serial, ls_role scale, ls_role shift, size_t layer,
                            ls_real *y, ls_real *mean, ls_real *rstd, const ls_real *x);

/* dx from dy (dx may be dy), and the gradients of scale and shift into the store. */
#define ls_serial_norm_backward LS_TYPED(ls_serial_norm_backward)
void ls_serial_norm_backward(const ls_serial *serial, ls_role scale, ls_role shift, size_t layer,
                             ls_real *dx, const ls_real *dy, const ls_real *x, const ls_real *mean,
                             const ls_real *rstd);

/* ---- dropout of tokens x D: serial_dropout.c. Backward is the same call: the mask is drawn again
 * from the same numbers. y may be x. */
#define ls_serial_dropout LS_TYPED(ls_serial_dropout)
void ls_serial_dropout(const ls_serial *serial, ls_real *y, const ls_real *x, ls_purpose purpose,
                       size_t layer);
#define ls_serial_dropout_probability LS_TYPED(ls_serial_dropout_probability)
double ls_serial_dropout_probability(const ls_serial *serial); /* 0 when the batch has it off */
#define ls_serial_dropout_stream LS_TYPED(ls_serial_dropout_stream)
ls_stream ls_serial_dropout_stream(const ls_serial *serial, ls_purpose purpose, size_t layer);

/* ---- the parts of the model, in the order of a forward pass. Backward functions leave the
 * gradients of their parameters in the store. */

/* serial_embedding.c. x: tokens x D, out. dx: the gradient of x; overwritten. */
#define ls_serial_embedding_forward LS_TYPED(ls_serial_embedding_forward)
void ls_serial_embedding_forward(const ls_serial *serial, ls_real *x);
#define ls_serial_embedding_backward LS_TYPED(ls_serial_embedding_backward)
ls_status ls_serial_embedding_backward(const ls_serial *serial, ls_real *dx) LS_MUST_USE;

/* serial_attention.c. a = (attention of n1) Wo + bo, tokens x D; dn1 from da. */
#define ls_serial_attention_forward LS_TYPED(ls_serial_attention_forward)
ls_status ls_serial_attention_forward(const ls_serial *serial, size_t layer,
                                      ls_real *a) LS_MUST_USE;
#define ls_serial_attention_backward LS_TYPED(ls_serial_attention_backward)
ls_status ls_serial_attention_backward(const ls_serial *serial, size_t layer, ls_real *dn1,
                                       const ls_real *da) LS_MUST_USE;

/* serial_mlp.c. m = mlp(n2), tokens x D; dn2 from dm. */
#define ls_serial_mlp_forward LS_TYPED(ls_serial_mlp_forward)
ls_status ls_serial_mlp_forward(const ls_serial *serial, size_t layer, ls_real *m) LS_MUST_USE;
#define ls_serial_mlp_backward LS_TYPED(ls_serial_mlp_backward)
ls_status ls_serial_mlp_backward(const ls_serial *serial, size_t layer, ls_real *dn2,
                                 const ls_real *dm) LS_MUST_USE;

/* serial_block.c. y: the layer's output. dx: in the gradient of the output, out of the input. */
#define ls_serial_block_forward LS_TYPED(ls_serial_block_forward)
ls_status ls_serial_block_forward(const ls_serial *serial, size_t layer, ls_real *y) LS_MUST_USE;
#define ls_serial_block_backward LS_TYPED(ls_serial_block_backward)
ls_status ls_serial_block_backward(const ls_serial *serial, size_t layer, ls_real *dx) LS_MUST_USE;

/* serial_block_post.c. The same with the norms after the residual sums. */
#define ls_serial_block_post_forward LS_TYPED(ls_serial_block_post_forward)
ls_status ls_serial_block_post_forward(const ls_serial *serial, size_t layer,
                                       ls_real *y) LS_MUST_USE;
#define ls_serial_block_post_backward LS_TYPED(ls_serial_block_post_backward)
ls_status ls_serial_block_post_backward(const ls_serial *serial, size_t layer,
                                        ls_real *dx) LS_MUST_USE;

/* serial_masked_head.c. features of xf; dx, the gradient of xf, from dfeatures, which is
 * overwritten. */
#define ls_serial_masked_head_forward LS_TYPED(ls_serial_masked_head_forward)
ls_status ls_serial_masked_head_forward(const ls_serial *serial) LS_MUST_USE;
#define ls_serial_masked_head_backward LS_TYPED(ls_serial_masked_head_backward)
ls_status ls_serial_masked_head_backward(const ls_serial *serial, ls_real *dx,
                                         ls_real *dfeatures) LS_MUST_USE;

/* serial_order_head.c. The loss of the labels; the backward pass adds to dx, the gradient of xf, at
 * the first token of each sequence. */
#define ls_serial_order_head_forward LS_TYPED(ls_serial_order_head_forward)
ls_status ls_serial_order_head_forward(const ls_serial *serial, ls_real *ret_loss) LS_MUST_USE;
#define ls_serial_order_head_backward LS_TYPED(ls_serial_order_head_backward)
ls_status ls_serial_order_head_backward(const ls_serial *serial, ls_real *dx) LS_MUST_USE;

/* serial_head.c. Final norm and logits z; dx, the gradient of the last layer's output, from dz. */
#define ls_serial_head_forward LS_TYPED(ls_serial_head_forward)
ls_status ls_serial_head_forward(const ls_serial *serial) LS_MUST_USE;
#define ls_serial_head_backward LS_TYPED(ls_serial_head_backward)
ls_status ls_serial_head_backward(const ls_serial *serial, ls_real *dx) LS_MUST_USE;

/* serial_loss.c. The loss of z; the backward pass turns z into dz. */
#define ls_serial_loss_forward LS_TYPED(ls_serial_loss_forward)
ls_status ls_serial_loss_forward(ls_serial *serial, ls_real *ret_loss) LS_MUST_USE;
#define ls_serial_loss_backward LS_TYPED(ls_serial_loss_backward)
void ls_serial_loss_backward(ls_serial *serial);

/* serial_transformer.c. Sets the gradient of an untied parameter outside the layers to +0; nothing
 * when the model has no such parameter. */
#define ls_serial_zero_slot LS_TYPED(ls_serial_zero_slot)
void ls_serial_zero_slot(const ls_slot *slot, int uses);
#define ls_serial_zero_gradient LS_TYPED(ls_serial_zero_gradient)
void ls_serial_zero_gradient(const ls_serial *serial, ls_role role);

/* serial_activations.c. Checks a batch, copies it and makes room for what a forward pass keeps. */
#define ls_serial_take_batch LS_TYPED(ls_serial_take_batch)
ls_status ls_serial_take_batch(ls_serial *serial, const ls_batch *batch) LS_MUST_USE;

#endif
