/* formula.h - the formulas of operations on one row or element, in binary64 with their errors
 * (approx.h) and as known mistakes write them (variant.h): the one place where each is written.
 *
 * The operations of a step (operation_*.c) and the judge of another implementation's functions
 * (conformance) both compute with these. Operands come with their errors: 0 where the caller knows
 * the very numbers that were read, a rounding where they may have been read before they were
 * rounded. */
#ifndef LS_STEP_GRAPH_FORMULA_H
#define LS_STEP_GRAPH_FORMULA_H

#include "step_graph/approx.h"

/* ---- norms: operation_norm.c ---- */

typedef struct ls_norm_form {
    bool centred; /* LayerNorm; else RMSNorm */
    double eps;
    const ls_variant *variant;
} ls_norm_form;

/* x, D elements, becomes xhat = (x - mean) rstd; returns rstd = 1 / sqrt(variance + eps). */
approx ls_formula_normalize(const ls_precision *p, const ls_norm_form *form, approx *x, size_t D);

/* g = dy scale, D elements, becomes dx = rstd (g - mean(g) - xhat mean(g xhat)). */
void ls_formula_norm_gradient(const ls_precision *p, const ls_norm_form *form, approx rstd,
                              const approx *xhat, approx *g, size_t D);

/* ---- cross-entropy: operation_loss.c ---- */

typedef struct ls_loss_form {
    double smoothing;
    size_t padded; /* further logits of 0 */
    double factor; /* of the sum of exponentials; 1 */
} ls_loss_form;

/* The loss of one row of n logits. */
approx ls_formula_cross_entropy(const ls_precision *p, const ls_loss_form *form, const approx *z,
                                size_t n, size_t label);

/* z, n logits and room for the padded ones, becomes the loss's gradient: softmax(z) - q. */
void ls_formula_cross_entropy_gradient(const ls_precision *p, const ls_loss_form *form, approx *z,
                                       size_t n, size_t label);

/* ---- activations: operation_pointwise.c ---- */

/* y and its derivative at x; `right` is the model's form, which the variant may replace. */
void ls_formula_activation(const ls_precision *p, const ls_variant *variant,
                           ls_activation_form right, approx x, approx *ret_y, approx *ret_slope);

/* ---- attention: operation_attention.c ---- */

/* n scores become their softmax. */
void ls_formula_softmax(const ls_precision *p, approx *scores, size_t n);

/* dP, n elements, becomes dS = P (dP - sum of P dP). */
void ls_formula_softmax_gradient(const ls_precision *p, const ls_variant *variant, const approx *P,
                                 approx *dP, size_t n);

/* Heads of a batch: q, o are [B][S][heads][head_width], k, v [B][S][kv_heads][head_width],
 * probabilities [B][heads][S][S]. */
typedef struct ls_attention_form {
    size_t B, S, heads, kv_heads, head_width;
    bool causal;
    const int32_t *lengths; /* of the sequences, without padding; NULL: all S */
    const ls_variant *variant;
    /* Factor of probability `place` by dropout; NULL: no dropout. */
    approx (*mask)(const void *dropout, size_t place);
    const void *dropout;
} ls_attention_form;

/* Adds o to out; v NULL: the probabilities. room: 2 S. */
void ls_formula_attention(const ls_precision *p, const ls_attention_form *form, const double *q,
                          const double *k, const double *v, approx *room, approx_sum *out);

/* Adds the gradient of q (slot 0), k (1), v (2) or the probabilities (LS_SLOT_THROUGH). */
void ls_formula_attention_gradient(const ls_precision *p, const ls_attention_form *form,
                                   const double *q, const double *k, const double *v,
                                   const double *d_o, int slot, approx *room, approx_sum *out);

/* ---- the optimizer: operation_update.c ---- */

typedef struct ls_optimizer_state {
    approx w, m, v;
} ls_optimizer_state;

/* How exactly a computation has the constants of AdamW: 1 - beta, which loses digits where beta is
 * rounded first, and 1 - beta^t, whose power is t products. In units of the precision's roundoff;
 * 0: each is rounded once. */
typedef struct ls_adamw_constants {
    double rest, power;
} ls_adamw_constants;

/* An element of a gradient of this norm, scaled when that is above `most`; 0: never. Where the norm
 * is so near that either branch may be taken, the error covers both. */
approx ls_formula_clip(const ls_precision *p, const ls_variant *variant, double most, approx g,
                       approx norm);

ls_optimizer_state ls_formula_adamw(const ls_precision *p, const ls_update *u,
                                    const ls_variant *variant, bool decay,
                                    ls_adamw_constants constants, ls_optimizer_state at, approx g);

#endif
