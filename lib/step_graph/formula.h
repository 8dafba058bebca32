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
