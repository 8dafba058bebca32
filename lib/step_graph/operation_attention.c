/* operation_attention.c - softmax of scores, the heads' outputs, and their gradients.
 *
 *     s_ij = q_i k_j / sqrt(dh)    P_i = softmax over the keys seen    o_i = sum_j mask_ij P_ij v_j
 *     dP_ij = mask_ij (do_i v_j), 0 where i does not see j
 *     dS_ij = P_ij (dP_ij - sum_j P_ij dP_ij)
 *     dq_i = sum_j dS_ij k_j / sqrt(dh)    dk_j = sum_i dS_ij q_i / sqrt(dh)
 *     dv_j = sum_i mask_ij P_ij do_i
 *
 * The largest score is subtracted before exp: whatever is subtracted cancels, only the rounding of
 * the difference, u |s - largest|, counts. An error e of the argument multiplies exp by 1 + e: this
 * is why the bound grows with the scores. */
#include <stdlib.h>

#include "step_graph/formula.h"
#include "step_graph/operation_parts.h"
#include "base/allocate.h"

void ls_formula_softmax(const ls_precision *p, approx *scores, size_t n)
{
    approx_sum sum = {0};
    double largest = -HUGE_VAL;
    for (size_t j = 0; j < n; j++) largest = fmax(largest, scores[j].value);
    for (size_t j = 0; j < n; j++) {
        scores[j] = approx_exp(p, approx_subtract(p, scores[j], approx_exact(largest)));
        approx_sum_add(&sum, scores[j]);
    }
    const approx all = approx_sum_end(p, &sum);
    for (size_t j = 0; j < n; j++) {
        scores[j] = approx_divide(p, scores[j], all);
        /* A probability is one, however far the scores are off. */
        const double most = fmax(scores[j].value, 1 - scores[j].value) + 16 * p->u;
        scores[j].error = fmin(approx_bound(scores[j]), most);
        scores[j].variance = fmin(scores[j].variance, most * most);
    }
}

void ls_formula_softmax_gradient(const ls_precision *p, const ls_variant *variant, const approx *P,
                                 approx *dP, size_t n)
{
    approx_sum along = {0};
    for (size_t j = 0; j < n; j++) approx_sum_add(&along, approx_product(P[j], dP[j]));
    const bool lost = variant->lost_term == LS_TERM_SOFTMAX_MEAN;
    const approx mean = lost ? approx_exact(0) : approx_sum_end(p, &along);
    for (size_t j = 0; j < n; j++)
        dP[j] = approx_multiply(p, P[j], approx_subtract(p, dP[j], mean));
}

/* Query i of head h of sequence b. */
typedef struct query {
    size_t b, h, i;
    size_t from, seen; /* keys from .. seen - 1 */
    size_t q, o, kv;   /* where its vectors begin; key j's at kv + j * kv_stride */
    size_t kv_stride;
    bool even; /* sees no key: even over all */
    size_t P;  /* where its probabilities begin */
} query;

/* Which keys the query sees. */
static void see(const ls_attention_form *f, query *at)
{
    const ls_variant *v = f->variant;
    const bool causal = v->mask == LS_MASK_CAUSAL || v->mask == LS_MASK_SHIFTED ||
                        (v->mask == LS_MASK_AS_IS && f->causal);
    const long end = (long)at->i + 1 + (v->mask == LS_MASK_SHIFTED ? v->mask_shift : 0);
    at->seen = f->S;
    if (v->mask == LS_MASK_REVERSED) at->from = at->i;
    if (causal && end < (long)f->S) at->seen = end > 0 ? (size_t)end : 0;
    if (f->lengths && !v->mask_padding && (size_t)f->lengths[at->b] < at->seen)
        at->seen = (size_t)f->lengths[at->b];
    if (v->window) {
        if (at->i + 1 > v->window + at->from) at->from = at->i + 1 - v->window;
        if (at->i + v->window < at->seen) at->seen = at->i + v->window;
    }
    if (v->chunk) {
        const size_t first = at->i / v->chunk * v->chunk, end_of_chunk = first + v->chunk;
        if (first > at->from) at->from = first;
        if (end_of_chunk < at->seen) at->seen = end_of_chunk;
    }
    if (v->ranges) {
        const size_t *range = v->ranges + 2 * (at->b * f->S + at->i);
        at->from = range[0], at->seen = range[1];
    }
    if (at->from >= at->seen) at->from = at->seen = 0;
    if (at->seen == 0 && v->mask_even) at->seen = f->S, at->even = true;
}

static query query_of(const ls_attention_form *f, size_t b, size_t h, size_t i)
{
    const size_t dh = f->head_width, H = f->heads, Dkv = f->kv_heads * dh;
    query at = {.b = b, .h = h, .i = i, .kv_stride = Dkv};
    see(f, &at);
    at.q = (b * f->S + i) * H * dh + h * dh;
    at.kv = b * f->S * Dkv;
    at.kv += (f->variant->kv_modulo ? h % f->kv_heads : h / (H / f->kv_heads)) * dh;
    at.P = ((b * H + h) * f->S + i) * f->S;
    return at;
}

static approx scale_of(const ls_precision *p, const ls_attention_form *f)
{
    if (f->variant->score_scale > 0) return approx_constant(p, f->variant->score_scale);
    return approx_constant(p, 1 / sqrt((double)f->head_width));
}

/* Times the factor of dropout. */
static approx masked(const ls_precision *p, const ls_attention_form *f, approx a, size_t place)
{
    return f->mask ? approx_multiply(p, a, f->mask(f->dropout, place)) : a;
}

/* P of the keys seen. */
static void probabilities(const ls_precision *p, const ls_attention_form *f, const query *at,
                          const double *q, const double *k, approx *P)
{
    for (size_t j = at->from; j < at->seen; j++) {
        approx_sum score = {0};
        for (size_t c = 0; c < f->head_width && !at->even; c++)
            approx_sum_add(&score, approx_exact(q[at->q + c] * k[at->kv + j * at->kv_stride + c]));
        P[j] = approx_multiply(p, approx_sum_end(p, &score), scale_of(p, f));
        if (f->variant->alibi) {
            const double slope = pow(2, -8.0 * (double)(at->h + 1) / (double)f->heads);
            const double away = (double)at->i - (double)j;
            P[j] = approx_subtract(p, P[j], approx_exact(slope * away));
        }
    }
    ls_formula_softmax(p, P + at->from, at->seen - at->from);
}

/* dP of one query. */
static void probability_gradient(const ls_precision *p, const ls_attention_form *f, const query *at,
                                 const double *d_o, const double *v, approx *dP)
{
    for (size_t j = at->from; j < at->seen; j++) {
        approx_sum dot = {0};
        for (size_t c = 0; c < f->head_width; c++)
            approx_sum_add(&dot, approx_exact(d_o[at->q + c] * v[at->kv + j * at->kv_stride + c]));
        dP[j] = masked(p, f, approx_sum_end(p, &dot), at->P + j);
    }
}

static void add_query(const ls_precision *p, const ls_attention_form *f, const query *at,
                      const double *q, const double *k, const double *v, approx *P, approx_sum *out)
{
    probabilities(p, f, at, q, k, P);
    for (size_t j = at->from; j < at->seen; j++) {
        if (!v) {
            approx_sum_add(&out[at->P + j], P[j]);
            continue;
        }
        const approx kept = masked(p, f, P[j], at->P + j);
        for (size_t c = 0; c < f->head_width; c++)
            approx_sum_add(&out[at->q + c],
                           approx_product(kept, approx_exact(v[at->kv + j * at->kv_stride + c])));
    }
}

void ls_formula_attention(const ls_precision *p, const ls_attention_form *f, const double *q,
                          const double *k, const double *v, approx *room, approx_sum *out)
{
    for (size_t b = 0; b < f->B; b++)
        for (size_t h = 0; h < f->heads; h++)
            for (size_t i = 0; i < f->S; i++) {
                const query at = query_of(f, b, h, i);
                add_query(p, f, &at, q, k, v, room, out);
            }
}

static void add_query_gradient(const ls_precision *p, const ls_attention_form *f, const query *at,
                               const double *q, const double *k, const double *v, const double *d_o,
                               int slot, approx *room, approx_sum *out)
{
    approx *P = room, *dP = room + f->S;
    if (slot != 2) probability_gradient(p, f, at, d_o, v, dP);
    for (size_t j = at->from; slot == LS_SLOT_THROUGH && j < at->seen; j++)
        approx_sum_add(&out[at->P + j], dP[j]);
    if (slot == LS_SLOT_THROUGH) return;
    probabilities(p, f, at, q, k, P);
    if (slot < 2)
        ls_formula_softmax_gradient(p, f->variant, P + at->from, dP + at->from,
                                    at->seen - at->from);
    for (size_t j = at->from; j < at->seen; j++) {
        const size_t key = at->kv + j * at->kv_stride;
        const approx d =
            slot < 2 ? approx_multiply(p, dP[j], scale_of(p, f)) : masked(p, f, P[j], at->P + j);
        const double *with = slot == 0 ? k + key : (slot == 1 ? q : d_o) + at->q;
        approx_sum *into = out + (slot == 0 ? at->q : key);
        for (size_t c = 0; c < f->head_width; c++)
            approx_sum_add(&into[c], approx_product(d, approx_exact(with[c])));
    }
}

void ls_formula_attention_gradient(const ls_precision *p, const ls_attention_form *f,
                                   const double *q, const double *k, const double *v,
                                   const double *d_o, int slot, approx *room, approx_sum *out)
{
    for (size_t b = 0; b < f->B; b++)
        for (size_t h = 0; h < f->heads; h++)
            for (size_t i = 0; i < f->S; i++) {
                const query at = query_of(f, b, h, i);
                add_query_gradient(p, f, &at, q, k, v, d_o, slot, room, out);
            }
}

/* ---- nodes ---- */

typedef struct dropout {
    const evaluation *e;
    const ls_graph_node *node;
} dropout;

static approx mask_of(const void *context, size_t place)
{
    const dropout *d = context;
    return ls_evaluate_mask(d->e, d->node, place);
}

static ls_attention_form form_of(const dropout *d)
{
    const ls_config *config = d->e->config;
    return (ls_attention_form){.B = d->e->B,
                               .S = d->e->S,
                               .heads = config->heads,
                               .kv_heads = config->kv_heads,
                               .head_width = ls_config_head_width(config),
                               .causal = config->causal,
                               .lengths = d->e->batch->lengths,
                               .variant = &d->e->variant,
                               .mask = mask_of,
                               .dropout = d};
}

/* Sums over a head's features and over keys are one rank's: their operands were rounded, but no
 * parts meet. */
static ls_precision of_one_rank(const evaluation *e)
{
    ls_precision own = *e->p;
    own.partials = fmin(own.partials, LS_OPERAND_ROUNDINGS);
    return own;
}

ls_status ls_evaluate_attention(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision own = of_one_rank(e);
    const dropout d = {e, node};
    const ls_attention_form form = form_of(&d);
    approx *room = NULL;
    LS_ROOM(room, 2 * e->S);
    ls_formula_attention(&own, &form, value_of(e, node->inputs[0]), value_of(e, node->inputs[1]),
                         value_of(e, node->inputs[2]), room, out);
exit:
    free(room);
    return status;
}

ls_status ls_evaluate_attention_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                         approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision own = of_one_rank(e);
    const dropout d = {e, reader};
    const ls_attention_form form = form_of(&d);
    approx *room = NULL;
    LS_ROOM(room, 2 * e->S);
    ls_formula_attention_gradient(&own, &form, value_of(e, reader->inputs[0]),
                                  value_of(e, reader->inputs[1]), value_of(e, reader->inputs[2]),
                                  gradient_of(e, reader), slot, room, out);
exit:
    free(room);
    return status;
}
