/* naive_transformer.h - the forward pass once more, straight from the papers' formulas with loops,
 * the C library's functions and no order of addition in particular. In binary64 alone; shares
 * nothing with lib/ but the parameter table, the random numbers and the configuration. */
#ifndef LS_TEST_NAIVE_TRANSFORMER_H
#define LS_TEST_NAIVE_TRANSFORMER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/param_table.h"
#include "lockstep/numerics/random.h"

typedef struct naive {
    const ls_param_table *table;
    const ls_config *c;
    const double *values; /* table order, whole logical tensors */
    const ls_batch *batch;
    size_t n; /* tokens */
} naive;

/* The tensor of a role, or NULL. */
static inline const double *naive_param(const naive *f, ls_role role, size_t layer)
{
    const double *values = f->values;
    for (size_t i = 0; i < f->table->count; i++) {
        const ls_param *param = &f->table->params[i];
        if (param->role == role && param->layer == layer) return values;
        values += ls_param_elements(param);
    }
    return NULL;
}

static inline double *naive_array(size_t n)
{
    double *x = calloc(n, sizeof *x);
    if (!x) abort();
    return x;
}

/* y = x W + b for every token; a new array. */
static inline double *naive_linear(const naive *f, const double *x, ls_role weight, size_t layer,
                                   size_t in, size_t out)
{
    const double *W = naive_param(f, weight, layer);
    const double *b =
        weight == LS_MLP_GATE_WEIGHT ? NULL : naive_param(f, (ls_role)(weight + 1), layer);
    double *y = naive_array(f->n * out);
    for (size_t t = 0; t < f->n; t++)
        for (size_t j = 0; j < out; j++) {
            for (size_t i = 0; i < in; i++) y[t * out + j] += x[t * in + i] * W[i * out + j];
            if (b) y[t * out + j] += b[j];
        }
    return y;
}

static inline double *naive_norm(const naive *f, const double *x, ls_role scale, size_t layer)
{
    const size_t D = f->c->d_model;
    const double *w = naive_param(f, scale, layer);
    const double *b = naive_param(f, (ls_role)(scale + 1), layer);
    double *y = naive_array(f->n * D);
    for (size_t t = 0; t < f->n; t++) {
        double mean = 0, variance = 0;
        if (f->c->norm == LS_LAYER_NORM)
            for (size_t i = 0; i < D; i++) mean += x[t * D + i] / (double)D;
        for (size_t i = 0; i < D; i++) variance += pow(x[t * D + i] - mean, 2) / (double)D;
        for (size_t i = 0; i < D; i++)
            y[t * D + i] =
                (x[t * D + i] - mean) / sqrt(variance + f->c->norm_eps) * w[i] + (b ? b[i] : 0);
    }
    return y;
}

/* One number, dropped or scaled by 1 / (1 - p). */
static inline double naive_dropped(const naive *f, double x, ls_purpose purpose, size_t layer,
                                   size_t index)
{
    ls_stream stream = {f->batch->seed, (uint32_t)purpose, (uint32_t)layer, f->batch->step};
    if (!f->batch->training) return x;
    return ls_random_keep(stream, index, f->c->dropout) ? x / (1 - f->c->dropout) : 0;
}

/* Every head of every token turned: pair (i, i + dh / 2) by the angle s theta^(-2 i / dh). */
static inline void naive_rotary(const naive *f, double *x, size_t heads)
{
    const size_t dh = f->c->d_model / f->c->heads;
    if (f->c->position != LS_ROTARY) return;
    for (size_t t = 0; t < f->n; t++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < dh / 2; i++) {
                double *a = x + t * heads * dh + h * dh + i, *b = a + dh / 2, a0 = *a, b0 = *b;
                double angle = (double)(t % f->batch->S) *
                               pow(f->c->rope_theta, -2.0 * (double)i / (double)dh);
                *a = a0 * cos(angle) - b0 * sin(angle);
                *b = b0 * cos(angle) + a0 * sin(angle);
            }
}

static inline double *naive_attention(const naive *f, const double *x, size_t layer)
{
    const size_t D = f->c->d_model, H = f->c->heads, Hkv = f->c->kv_heads, dh = D / H;
    const size_t S = f->batch->S, Dkv = Hkv * dh;
    double *q = naive_linear(f, x, LS_QUERY_WEIGHT, layer, D, D);
    double *k = naive_linear(f, x, LS_KEY_WEIGHT, layer, D, Dkv);
    double *v = naive_linear(f, x, LS_VALUE_WEIGHT, layer, D, Dkv);
    double *o = naive_array(f->n * D), *p = naive_array(S);
    naive_rotary(f, q, H);
    naive_rotary(f, k, Hkv);
    for (size_t b = 0; b < f->batch->B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < S; i++) {
                const size_t kv = h / (H / Hkv);
                const size_t length = f->batch->lengths ? (size_t)f->batch->lengths[b] : S;
                size_t seen = f->c->causal ? i + 1 : S;
                if (seen > length) seen = length; /* nobody attends to padding */
                double sum = 0;
                for (size_t j = 0; j < seen; j++) {
                    double score = 0;
                    for (size_t d = 0; d < dh; d++)
                        score +=
                            q[(b * S + i) * D + h * dh + d] * k[(b * S + j) * Dkv + kv * dh + d];
                    sum += p[j] = exp(score / sqrt((double)dh));
                }
                for (size_t j = 0; j < seen; j++) {
                    double weight = naive_dropped(f, p[j] / sum, LS_RANDOM_DROPOUT_ATTENTION, layer,
                                                  ((b * H + h) * S + i) * S + j);
                    for (size_t d = 0; d < dh; d++)
                        o[(b * S + i) * D + h * dh + d] +=
                            weight * v[(b * S + j) * Dkv + kv * dh + d];
                }
            }
    double *a = naive_linear(f, o, LS_ATTN_OUT_WEIGHT, layer, D, D);
    free(q), free(k), free(v), free(o), free(p);
    return a;
}

static inline double naive_gelu(const naive *f, double x)
{
    if (f->c->activation == LS_GELU_ERF) return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static inline double *naive_mlp(const naive *f, const double *x, size_t layer)
{
    const size_t D = f->c->d_model, F = f->c->d_ff;
    double *u = naive_linear(f, x, LS_MLP_UP_WEIGHT, layer, D, F);
    if (f->c->activation == LS_SWIGLU) {
        double *g = naive_linear(f, x, LS_MLP_GATE_WEIGHT, layer, D, F);
        for (size_t i = 0; i < f->n * F; i++) u[i] *= g[i] / (1 + exp(-g[i]));
        free(g);
    } else {
        for (size_t i = 0; i < f->n * F; i++) u[i] = naive_gelu(f, u[i]);
    }
    double *m = naive_linear(f, u, LS_MLP_DOWN_WEIGHT, layer, F, D);
    free(u);
    return m;
}

/* x += dropout(branch), which is freed. */
static inline void naive_residual(const naive *f, double *x, double *branch, ls_purpose purpose,
                                  size_t layer)
{
    for (size_t i = 0; i < f->n * f->c->d_model; i++)
        x[i] += naive_dropped(f, branch[i], purpose, layer, i);
    free(branch);
}

/* Mean over the valid targets of - sum over v of (target distribution) log softmax. */
static inline double naive_loss(const naive *f, const double *logits)
{
    const size_t V = f->c->vocab;
    const double a = f->c->label_smoothing;
    double total = 0, valid = 0;
    for (size_t t = 0; t < f->n; t++) {
        double sum = 0;
        if (f->batch->targets[t] == LS_IGNORE) continue;
        for (size_t v = 0; v < V; v++) sum += exp(logits[t * V + v]);
        for (size_t v = 0; v < V; v++) {
            double share = a / (double)V + ((int32_t)v == f->batch->targets[t] ? 1 - a : 0);
            total -= share * (logits[t * V + v] - log(sum));
        }
        valid++;
    }
    return valid > 0 ? total / valid : 0;
}

/* x = norm(x). */
static inline void naive_renorm(const naive *f, double *x, ls_role scale, size_t layer)
{
    double *y = naive_norm(f, x, scale, layer);
    memcpy(x, y, f->n * f->c->d_model * sizeof *x);
    free(y);
}

/* A layer; the norms before the blocks or behind the sums. */
static inline void naive_layer(const naive *f, double *x, size_t l)
{
    if (f->c->norm_place == LS_NORM_POST) {
        naive_residual(f, x, naive_attention(f, x, l), LS_RANDOM_DROPOUT_ATTN_OUT, l);
        naive_renorm(f, x, LS_NORM1_SCALE, l);
        naive_residual(f, x, naive_mlp(f, x, l), LS_RANDOM_DROPOUT_MLP, l);
        naive_renorm(f, x, LS_NORM2_SCALE, l);
        return;
    }
    double *n1 = naive_norm(f, x, LS_NORM1_SCALE, l);
    naive_residual(f, x, naive_attention(f, n1, l), LS_RANDOM_DROPOUT_ATTN_OUT, l);
    double *n2 = naive_norm(f, x, LS_NORM2_SCALE, l);
    naive_residual(f, x, naive_mlp(f, n2, l), LS_RANDOM_DROPOUT_MLP, l);
    free(n1), free(n2);
}

/* Sentence order: mean over the labelled sequences of - log softmax of two logits. */
static inline double naive_order_loss(const naive *f, const double *x)
{
    const size_t D = f->c->d_model, S = f->batch->S;
    const double *W = naive_param(f, LS_ORDER_WEIGHT, 0), *bias = naive_param(f, LS_ORDER_BIAS, 0);
    double *pooled = naive_linear(f, x, LS_POOLER_WEIGHT, 0, D, D);
    double total = 0, valid = 0;
    for (size_t b = 0; f->batch->order && b < f->batch->B; b++) {
        double z[2] = {bias ? bias[0] : 0, bias ? bias[1] : 0};
        if (f->batch->order[b] == LS_IGNORE) continue;
        for (size_t d = 0; d < D; d++) /* the first token alone */
            for (int c = 0; c < 2; c++) z[c] += tanh(pooled[b * S * D + d]) * W[2 * d + (size_t)c];
        total -= z[f->batch->order[b]] - log(exp(z[0]) + exp(z[1]));
        valid++;
    }
    free(pooled);
    return valid > 0 ? total / valid : 0;
}

/* The masked-token head's features, in place. */
static inline void naive_features(const naive *f, double *x)
{
    const size_t D = f->c->d_model;
    double *t = naive_linear(f, x, LS_MASKED_DENSE_WEIGHT, 0, D, D);
    for (size_t i = 0; i < f->n * D; i++) x[i] = 0.5 * t[i] * (1 + erf(t[i] / sqrt(2.0)));
    naive_renorm(f, x, LS_MASKED_NORM_SCALE, 0);
    free(t);
}

/* The loss; logits: tokens x V. */
static inline double naive_forward(const ls_param_table *table, const double *values,
                                   const ls_batch *batch, double *logits)
{
    const ls_config *c = &table->config;
    const naive f = {table, c, values, batch, batch->B * batch->S};
    const size_t D = c->d_model;
    const double *token = naive_param(&f, LS_TOKEN_EMBEDDING, 0);
    const double *position = naive_param(&f, LS_POSITION_EMBEDDING, 0);
    const double *type = naive_param(&f, LS_TYPE_EMBEDDING, 0);
    const double *word_bias = naive_param(&f, LS_VOCAB_BIAS, 0);
    const double *head = c->tied ? token : naive_param(&f, LS_HEAD_WEIGHT, 0);
    double *x = naive_array(f.n * D);
    for (size_t i = 0; i < f.n * D; i++) {
        size_t t = i / D;
        double e = token[(size_t)batch->tokens[t] * D + i % D];
        if (position) e += position[t % batch->S * D + i % D];
        if (type) e += type[(batch->segments ? (size_t)batch->segments[t] : 0) * D + i % D];
        x[i] = e;
    }
    if (c->embedding_norm) naive_renorm(&f, x, LS_EMBEDDING_NORM_SCALE, 0);
    for (size_t i = 0; i < f.n * D; i++)
        x[i] = naive_dropped(&f, x[i], LS_RANDOM_DROPOUT_EMBEDDING, 0, i);
    for (size_t l = 0; l < c->layers; l++) naive_layer(&f, x, l);
    if (c->norm_place == LS_NORM_PRE) naive_renorm(&f, x, LS_FINAL_NORM_SCALE, 0);
    double order = c->sentence_order ? naive_order_loss(&f, x) : 0;
    if (c->objective == LS_MASKED_TOKEN) naive_features(&f, x);
    for (size_t t = 0; t < f.n; t++)
        for (size_t v = 0; v < c->vocab; v++) {
            logits[t * c->vocab + v] = word_bias ? word_bias[v] : 0;
            for (size_t d = 0; d < D; d++)
                logits[t * c->vocab + v] += x[t * D + d] * head[v * D + d];
        }
    free(x);
    return naive_loss(&f, logits) + order;
}

#endif
