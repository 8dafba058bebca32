/* graph_forward.c - the nodes of a forward pass. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/numerics/random.h"
#include "step_graph/graph_build.h"

typedef struct forward {
    ls_graph *graph;
    const ls_config *config;
    int layer; /* -1: none */
} forward;

static int param(const forward *f, ls_role role)
{
    const size_t place = ls_param_find(f->graph->table, role, f->layer < 0 ? 0 : (size_t)f->layer);
    return place == (size_t)-1 ? -1 : (int)place;
}

/* A node "layers.L.point", or "point" outside the layers; the one without a point is the loss. */
static ls_graph_node *node(const forward *f, ls_operation_kind make, ls_point point, int x0, int x1,
                           int x2)
{
    char whole[64];
    const char *name = point == LS_POINTS ? "loss" : ls_point_name(point);
    if (f->layer < 0)
        snprintf(whole, sizeof whole, "%s", name);
    else
        snprintf(whole, sizeof whole, "layers.%d.%s", f->layer, name);
    ls_graph_node *made =
        &f->graph->nodes[ls_graph_append(f->graph, LS_GRAPH_FORWARD, make, whole)];
    made->inputs[0] = x0;
    made->inputs[1] = x1;
    made->inputs[2] = x2;
    made->layer = f->layer;
    made->point = point;
    return made;
}

static int place_of(const forward *f, const ls_graph_node *made)
{
    return (int)(made - f->graph->nodes);
}

/* Dimensions after the sequences: tokens and `width`, named `names`. */
static void shape(const forward *f, ls_graph_node *made, size_t width, const char *names)
{
    made->n_dims = 3;
    made->dims[0] = f->graph->B;
    made->dims[1] = f->graph->S;
    made->dims[2] = width;
    snprintf(made->dim_names, sizeof made->dim_names, "%s", names);
}

static int stream(const forward *f, ls_graph_node *made)
{
    shape(f, made, f->config->d_model, "B S[sp] D");
    return place_of(f, made);
}

static int norm(const forward *f, ls_point point, int x, ls_role scale, ls_role shift)
{
    ls_graph_node *made = node(f, LS_MAKE_NORM, point, x, -1, -1);
    made->params[0] = param(f, scale);
    made->params[1] = param(f, shift);
    return stream(f, made);
}

/* weight: its bias is the next role, but the gate has none. */
static int linear(const forward *f, ls_operation_kind make, ls_point point, int x, ls_role weight,
                  size_t width, const char *names)
{
    ls_graph_node *made = node(f, make, point, x, -1, -1);
    made->params[0] = param(f, weight);
    made->params[1] = weight == LS_MLP_GATE_WEIGHT ? -1 : param(f, (ls_role)(weight + 1));
    shape(f, made, width, names);
    return place_of(f, made);
}

static int residual(const forward *f, ls_point point, int branch, int beside, ls_purpose purpose)
{
    ls_graph_node *made = node(f, LS_MAKE_RESIDUAL, point, branch, beside, -1);
    made->purpose = (int)purpose;
    return stream(f, made);
}

static int embedding(const forward *f)
{
    const bool normed = f->config->embedding_norm;
    ls_graph_node *made = node(f, LS_MAKE_EMBEDDING,
                               normed ? LS_POINT_EMBEDDING_SUM : LS_POINT_EMBEDDING, -1, -1, -1);
    made->params[0] = param(f, LS_TOKEN_EMBEDDING);
    made->params[1] = param(f, LS_POSITION_EMBEDDING);
    made->params[2] = param(f, LS_TYPE_EMBEDDING);
    int e = stream(f, made);
    if (normed)
        e = norm(f, LS_POINT_EMBEDDING, e, LS_EMBEDDING_NORM_SCALE, LS_EMBEDDING_NORM_SHIFT);
    made = node(f, LS_MAKE_DROPOUT, LS_POINT_EMBEDDED, e, -1, -1);
    made->purpose = LS_RANDOM_DROPOUT_EMBEDDING;
    return stream(f, made);
}

static int attention(const forward *f, int x)
{
    const size_t D = f->config->d_model;
    const size_t Dkv = f->config->kv_heads * ls_config_head_width(f->config);
    const ls_operation_kind turned =
        f->config->position == LS_ROTARY ? LS_MAKE_LINEAR_TURNED : LS_MAKE_LINEAR;
    const int q = linear(f, turned, LS_POINT_QUERY, x, LS_QUERY_WEIGHT, D, "B S D[tp]");
    const int k = linear(f, turned, LS_POINT_KEY, x, LS_KEY_WEIGHT, Dkv, "B S Dkv[tp]");
    const int v = linear(f, LS_MAKE_LINEAR, LS_POINT_VALUE, x, LS_VALUE_WEIGHT, Dkv, "B S Dkv[tp]");

    ls_graph_node *made = node(f, LS_MAKE_PROBABILITIES, LS_POINT_PROBABILITIES, q, k, -1);
    made->n_dims = 4;
    made->dims[0] = f->graph->B;
    made->dims[1] = f->config->heads;
    made->dims[2] = made->dims[3] = f->graph->S;
    snprintf(made->dim_names, sizeof made->dim_names, "B H[tp] S S");

    const int P = place_of(f, made);
    made = node(f, LS_MAKE_HEADS, LS_POINT_HEADS, q, k, v);
    made->through = P;
    made->purpose = LS_RANDOM_DROPOUT_ATTENTION;
    shape(f, made, D, "B S D[tp]");
    return linear(f, LS_MAKE_LINEAR, LS_POINT_ATTENTION, place_of(f, made), LS_ATTN_OUT_WEIGHT, D,
                  "B S[sp] D");
}

static int mlp(const forward *f, int x)
{
    const size_t F = f->config->d_ff;
    const bool gated = f->config->activation == LS_SWIGLU;
    int gate = -1;
    if (gated)
        gate = linear(f, LS_MAKE_LINEAR, LS_POINT_GATE, x, LS_MLP_GATE_WEIGHT, F, "B S F[tp]");
    const int up = linear(f, LS_MAKE_LINEAR, LS_POINT_UP, x, LS_MLP_UP_WEIGHT, F, "B S F[tp]");
    ls_graph_node *made =
        node(f, LS_MAKE_ACTIVATION, LS_POINT_ACTIVATION, gated ? gate : up, gated ? up : -1, -1);
    shape(f, made, F, "B S F[tp]");
    return linear(f, LS_MAKE_LINEAR, LS_POINT_MLP, place_of(f, made), LS_MLP_DOWN_WEIGHT,
                  f->config->d_model, "B S[sp] D");
}

/* One layer; x its input. */
static int layer(const forward *f, int x)
{
    const bool post = f->config->norm_place == LS_NORM_POST;
    int n = x;
    if (!post) n = norm(f, LS_POINT_NORM1, x, LS_NORM1_SCALE, LS_NORM1_SHIFT);
    const int x1 =
        residual(f, LS_POINT_AFTER_ATTENTION, attention(f, n), x, LS_RANDOM_DROPOUT_ATTN_OUT);
    if (!post) {
        n = norm(f, LS_POINT_NORM2, x1, LS_NORM2_SCALE, LS_NORM2_SHIFT);
        return residual(f, LS_POINT_LAYER, mlp(f, n), x1, LS_RANDOM_DROPOUT_MLP);
    }
    /* Norms after: what the MLP reads is the first norm's, and is what is next to it. */
    n = norm(f, LS_POINT_NORM1, x1, LS_NORM1_SCALE, LS_NORM1_SHIFT);
    const int x2 = residual(f, LS_POINT_AFTER_MLP, mlp(f, n), n, LS_RANDOM_DROPOUT_MLP);
    return norm(f, LS_POINT_LAYER, x2, LS_NORM2_SCALE, LS_NORM2_SHIFT);
}

/* From what meets the vocabulary to a loss per token. */
static int vocabulary(const forward *f, int x)
{
    ls_graph_node *made = node(f, LS_MAKE_LOGITS, LS_POINT_LOGITS, x, -1, -1);
    made->params[0] = param(f, f->config->tied ? LS_TOKEN_EMBEDDING : LS_HEAD_WEIGHT);
    made->params[1] = param(f, LS_VOCAB_BIAS);
    shape(f, made, f->config->vocab, "B S V[tp]");
    made = node(f, LS_MAKE_TOKEN_LOSS, LS_POINT_TOKEN_LOSS, place_of(f, made), -1, -1);
    shape(f, made, 1, "B S");
    made->n_dims = 2;
    return place_of(f, made);
}

static int per_sequence(const forward *f, int place, size_t width, const char *names)
{
    ls_graph_node *made = &f->graph->nodes[place];
    made->n_dims = width > 0 ? 2 : 1;
    made->dims[0] = f->graph->B;
    made->dims[1] = width;
    made->dims[2] = 0;
    snprintf(made->dim_names, sizeof made->dim_names, "%s", names);
    return place;
}

static int sentence_order(const forward *f, int x)
{
    const int pooled =
        linear(f, LS_MAKE_POOLED, LS_POINT_POOLED, x, LS_POOLER_WEIGHT, f->config->d_model, "");
    const int z =
        linear(f, LS_MAKE_LINEAR, LS_POINT_ORDER_LOGITS,
               per_sequence(f, pooled, f->config->d_model, "B D"), LS_ORDER_WEIGHT, 2, "");
    ls_graph_node *made =
        node(f, LS_MAKE_ORDER_LOSS, LS_POINT_ORDER_LOSS, per_sequence(f, z, 2, "B 2"), -1, -1);
    return per_sequence(f, place_of(f, made), 0, "B");
}

void ls_graph_forward(ls_graph *graph)
{
    forward f = {graph, &graph->table->config, -1};
    int x = embedding(&f), order = -1;
    for (f.layer = 0; f.layer < (int)f.config->layers; f.layer++) x = layer(&f, x);
    f.layer = -1;
    if (f.config->norm_place == LS_NORM_PRE)
        x = norm(&f, LS_POINT_FINAL_NORM, x, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT);
    int features = x;
    if (f.config->objective == LS_MASKED_TOKEN) {
        features = linear(&f, LS_MAKE_LINEAR, LS_POINT_MASKED_DENSE, x, LS_MASKED_DENSE_WEIGHT,
                          f.config->d_model, "B S[sp] D");
        features = stream(&f, node(&f, LS_MAKE_GELU, LS_POINT_MASKED_ACTIVATION, features, -1, -1));
        features =
            norm(&f, LS_POINT_FEATURES, features, LS_MASKED_NORM_SCALE, LS_MASKED_NORM_SHIFT);
    }
    const int token = vocabulary(&f, features);
    if (f.config->sentence_order) order = sentence_order(&f, x);
    node(&f, LS_MAKE_MEAN, LS_POINTS, token, order, -1);
}
