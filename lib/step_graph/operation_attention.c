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

#include "step_graph/operation_parts.h"
#include "base/allocate.h"

void ls_evaluate_softmax(const ls_precision *p, approx *scores, size_t n)
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
static void see(const evaluation *e, query *at)
{
    const ls_variant *v = &e->variant;
    const bool causal = v->mask == LS_MASK_CAUSAL || v->mask == LS_MASK_SHIFTED ||
                        (v->mask == LS_MASK_AS_IS && e->config->causal);
    const long end = (long)at->i + 1 + (v->mask == LS_MASK_SHIFTED ? v->mask_shift : 0);
    at->seen = e->S;
    if (v->mask == LS_MASK_REVERSED) at->from = at->i;
    if (causal && end < (long)e->S) at->seen = end > 0 ? (size_t)end : 0;
    if (e->batch->lengths && !v->mask_padding && (size_t)e->batch->lengths[at->b] < at->seen)
        at->seen = (size_t)e->batch->lengths[at->b];
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
        const size_t *range = v->ranges + 2 * (at->b * e->S + at->i);
        at->from = range[0], at->seen = range[1];
    }
    if (at->from >= at->seen) at->from = at->seen = 0;
    if (at->seen == 0 && v->mask_even) at->seen = e->S, at->even = true;
}

static query query_of(const evaluation *e, size_t b, size_t h, size_t i)
{
    const size_t dh = ls_config_head_width(e->config), H = e->config->heads;
    const size_t Dkv = e->config->kv_heads * dh;
    query at = {.b = b, .h = h, .i = i, .kv_stride = Dkv};
    see(e, &at);
    at.q = (b * e->S + i) * e->config->d_model + h * dh;
    at.kv = b * e->S * Dkv;
    at.kv += (e->variant.kv_modulo ? h % e->config->kv_heads : h / (H / e->config->kv_heads)) * dh;
    at.P = ((b * H + h) * e->S + i) * e->S;
    return at;
}

static approx scale_of(const evaluation *e)
{
    if (e->variant.score_scale > 0) return approx_constant(e->p, e->variant.score_scale);
    return approx_constant(e->p, 1 / sqrt((double)ls_config_head_width(e->config)));
}

/* P of the keys seen. */
static void probabilities(const evaluation *e, const query *at, const double *q, const double *k,
                          approx *P)
{
    const size_t dh = ls_config_head_width(e->config);
    for (size_t j = at->from; j < at->seen; j++) {
        approx_sum score = {0};
        for (size_t c = 0; c < dh && !at->even; c++)
            approx_sum_add(&score, approx_exact(q[at->q + c] * k[at->kv + j * at->kv_stride + c]));
        P[j] = approx_multiply(e->p, approx_sum_end(e->p, &score), scale_of(e));
        if (e->variant.alibi) {
            const double slope = pow(2, -8.0 * (double)(at->h + 1) / (double)e->config->heads);
            const double away = (double)at->i - (double)j;
            P[j] = approx_subtract(e->p, P[j], approx_exact(slope * away));
        }
    }
    ls_evaluate_softmax(e->p, P + at->from, at->seen - at->from);
}

/* Sums over a head's features and over keys are one rank's: their operands were rounded, but no
 * parts meet. */
static evaluation of_one_rank(const evaluation *e, ls_precision *own)
{
    evaluation local = *e;
    *own = *e->p;
    own->partials = fmin(own->partials, LS_OPERAND_ROUNDINGS);
    local.p = own;
    return local;
}

ls_status ls_evaluate_attention(const evaluation *all, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    ls_precision own;
    const evaluation local = of_one_rank(all, &own), *e = &local;
    const size_t dh = ls_config_head_width(e->config);
    const double *q = value_of(e, node->inputs[0]), *k = value_of(e, node->inputs[1]);
    const double *v = value_of(e, node->inputs[2]);
    approx *P = NULL;
    LS_ROOM(P, e->S);
    for (size_t b = 0; b < e->B; b++)
        for (size_t h = 0; h < e->config->heads; h++)
            for (size_t i = 0; i < e->S; i++) {
                const query at = query_of(e, b, h, i);
                probabilities(e, &at, q, k, P);
                for (size_t j = at.from; j < at.seen; j++) {
                    if (node->make == LS_MAKE_PROBABILITIES) {
                        approx_sum_add(&out[at.P + j], P[j]);
                        continue;
                    }
                    const approx kept =
                        approx_multiply(e->p, P[j], ls_evaluate_mask(e, node, at.P + j));
                    for (size_t c = 0; c < dh; c++)
                        approx_sum_add(
                            &out[at.q + c],
                            approx_product(kept, approx_exact(v[at.kv + j * at.kv_stride + c])));
                }
            }
exit:
    free(P);
    return status;
}

/* Room for one query. */
typedef struct row_work {
    approx *P, *mask, *dP;
} row_work;

/* dP of one query. */
static void probability_gradient(const evaluation *e, const query *at, const double *d_o,
                                 const double *v, const row_work *w)
{
    const size_t dh = ls_config_head_width(e->config);
    for (size_t j = at->from; j < at->seen; j++) {
        approx_sum dot = {0};
        for (size_t c = 0; c < dh; c++)
            approx_sum_add(&dot, approx_exact(d_o[at->q + c] * v[at->kv + j * at->kv_stride + c]));
        w->dP[j] = approx_multiply(e->p, approx_sum_end(e->p, &dot), w->mask[j]);
    }
}

/* dP of one query, and from it dS in its place. */
static void score_gradient(const evaluation *e, const query *at, const double *d_o, const double *v,
                           const row_work *w)
{
    approx_sum along = {0};
    probability_gradient(e, at, d_o, v, w);
    for (size_t j = at->from; j < at->seen; j++)
        approx_sum_add(&along, approx_product(w->P[j], w->dP[j]));
    const bool lost = e->variant.lost_term == LS_TERM_SOFTMAX_MEAN;
    const approx mean = lost ? approx_exact(0) : approx_sum_end(e->p, &along);
    for (size_t j = at->from; j < at->seen; j++)
        w->dP[j] = approx_multiply(e->p, w->P[j], approx_subtract(e->p, w->dP[j], mean));
}

ls_status ls_evaluate_attention_backward(const evaluation *all, const ls_graph_node *reader,
                                         int slot, approx_sum *out)
{
    ls_status status = LS_OK;
    ls_precision own;
    const evaluation local = of_one_rank(all, &own), *e = &local;
    const size_t dh = ls_config_head_width(e->config);
    const double *q = value_of(e, reader->inputs[0]), *k = value_of(e, reader->inputs[1]);
    const double *v = value_of(e, reader->inputs[2]), *d_o = gradient_of(e, reader);
    const approx scale = scale_of(e);
    approx *room = NULL;
    LS_ROOM(room, 3 * e->S);
    const row_work w = {room, room + e->S, room + 2 * e->S};
    for (size_t b = 0; b < e->B; b++)
        for (size_t h = 0; h < e->config->heads; h++)
            for (size_t i = 0; i < e->S; i++) {
                const query at = query_of(e, b, h, i);
                for (size_t j = at.from; j < at.seen; j++)
                    w.mask[j] = ls_evaluate_mask(e, reader, at.P + j);
                if (slot == LS_SLOT_THROUGH) {
                    probability_gradient(e, &at, d_o, v, &w);
                    for (size_t j = at.from; j < at.seen; j++)
                        approx_sum_add(&out[at.P + j], w.dP[j]);
                    continue;
                }
                probabilities(e, &at, q, k, w.P);
                if (slot < 2) score_gradient(e, &at, d_o, v, &w);
                for (size_t j = at.from; j < at.seen; j++) {
                    const size_t key = at.kv + j * at.kv_stride;
                    const approx d = slot < 2 ? approx_multiply(e->p, w.dP[j], scale)
                                              : approx_multiply(e->p, w.P[j], w.mask[j]);
                    const double *with = slot == 0 ? k + key : (slot == 1 ? q : d_o) + at.q;
                    approx_sum *into = out + (slot == 0 ? at.q : key);
                    for (size_t c = 0; c < dh; c++)
                        approx_sum_add(&into[c], approx_product(d, approx_exact(with[c])));
                }
            }
exit:
    free(room);
    return status;
}
