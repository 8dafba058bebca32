/* param_table.c - the one list of a model's parameters, in the order of a forward pass. */
#include "lockstep/model/param_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_mode.h"
#include "model/net_params.h"
#include "base/allocate.h"

ls_axis ls_granule_axis(const ls_config *config, ls_granule_kind kind)
{
    switch (kind) {
    case LS_GRANULE_HEADS:
    case LS_GRANULE_MODEL: /* D by heads too */
        return ls_config_heads_axis(config);
    case LS_GRANULE_KV_HEADS:
        return ls_config_kv_axis(config);
    case LS_GRANULE_FF:
        return ls_config_ff_axis(config);
    case LS_GRANULE_VOCAB:
        return ls_config_vocab_axis(config);
    case LS_GRANULE_NONE:
    case LS_GRANULE_CHANNELS:
    case LS_GRANULE_KINDS:
        break;
    }
    return ls_axis_whole(0);
}

/* ---- one entry per role ---- */

/* Appends a parameter with what all have in common; the caller adds what is particular. `layered`
 * names get "layers.N." in front. */
static ls_param *add(ls_param_table *table, ls_role role, size_t layer, int layered,
                     const char *name)
{
    ls_param *param = &table->params[table->count++];
    *param = (ls_param){.role = role, .layer = layer, .uses = 1, .cut = -1};
    if (layered)
        snprintf(param->name, sizeof param->name, "layers.%zu.%s", layer, name);
    else
        snprintf(param->name, sizeof param->name, "%s", name);
    param->stage = layered ? LS_STAGE_LAYER : LS_STAGE_FIRST;
    return param;
}

/* rows x cols; normal with standard deviation std; decays. */
static void as_matrix(ls_param *param, size_t rows, size_t cols, double std)
{
    param->n_dims = 2;
    param->dims[0] = rows;
    param->dims[1] = cols;
    param->init = LS_INIT_NORMAL;
    param->std = std;
    param->decay = true;
    param->axis = ls_axis_whole(rows);
}

static void as_vector(ls_param *param, size_t n, ls_init_kind init)
{
    param->n_dims = 1;
    param->dims[0] = n;
    param->dims[1] = 1;
    param->init = init;
    param->axis = ls_axis_whole(n);
}

static void cut_by(ls_param *param, const ls_config *config, int cut, ls_granule_kind kind)
{
    param->cut = cut;
    param->kind = kind;
    param->axis = ls_granule_axis(config, kind);
}

/* ---- the list ---- */

typedef struct builder {
    ls_param_table *table;
    const ls_config *config;
    size_t layer;
    int layered; /* inside a layer */
} builder;

static ls_param *add_here(builder *b, ls_role role, const char *name)
{
    return add(b->table, role, b->layer, b->layered, name);
}

/* A norm's scale and, when it has one, shift. */
static void add_norm(builder *b, ls_role scale, const char *scale_name, const char *shift_name)
{
    const ls_config *config = b->config;
    as_vector(add_here(b, scale, scale_name), config->d_model, LS_INIT_ONE);
    if (config->norm == LS_LAYER_NORM && config->bias)
        as_vector(add_here(b, (ls_role)(scale + 1), shift_name), config->d_model, LS_INIT_ZERO);
}

/* A linear in -> out, W as [in, out] (y = x W), and its bias when the model has them. Its role is
 * `weight`, the bias's the next. Cut by columns the bias is cut alike, cut by rows it is whole. */
static void add_linear(builder *b, ls_role weight, const char *weight_name, const char *bias_name,
                       size_t in, size_t out, double std, int cut, ls_granule_kind kind)
{
    ls_param *param = add_here(b, weight, weight_name);
    as_matrix(param, in, out, std);
    if (cut >= 0) cut_by(param, b->config, cut, kind);
    if (!b->config->bias || !bias_name) return;
    param = add_here(b, (ls_role)(weight + 1), bias_name);
    as_vector(param, out, LS_INIT_ZERO);
    if (cut == 1) cut_by(param, b->config, 0, kind);
}

static void add_layer(builder *b)
{
    const ls_config *c = b->config;
    size_t D = c->d_model, F = c->d_ff, kv = ls_axis_extent(ls_config_kv_axis(c));
    double std = c->init_std;
    bool post = c->norm_place == LS_NORM_POST;
    /* What is added to the residual stream 2 L times starts smaller (GPT-2); norms after every sum
     * make that unnecessary (BERT). */
    double std_out = post ? std : std / sqrt(2 * (double)c->layers);

    if (!post) add_norm(b, LS_NORM1_SCALE, "norm1.weight", "norm1.bias");
    add_linear(b, LS_QUERY_WEIGHT, "attention.query.weight", "attention.query.bias", D, D, std, 1,
               LS_GRANULE_HEADS);
    add_linear(b, LS_KEY_WEIGHT, "attention.key.weight", "attention.key.bias", D, kv, std, 1,
               LS_GRANULE_KV_HEADS);
    add_linear(b, LS_VALUE_WEIGHT, "attention.value.weight", "attention.value.bias", D, kv, std, 1,
               LS_GRANULE_KV_HEADS);
    add_linear(b, LS_ATTN_OUT_WEIGHT, "attention.output.weight", "attention.output.bias", D, D,
               std_out, 0, LS_GRANULE_HEADS);
    if (post)
        add_norm(b, LS_NORM1_SCALE, "norm1.weight", "norm1.bias");
    else
        add_norm(b, LS_NORM2_SCALE, "norm2.weight", "norm2.bias");
    if (c->activation == LS_SWIGLU)
        add_linear(b, LS_MLP_GATE_WEIGHT, "mlp.gate.weight", NULL, D, F, std, 1, LS_GRANULE_FF);
    if (c->mlp_cut == LS_MLP_COLUMN_FIRST)
        add_linear(b, LS_MLP_UP_WEIGHT, "mlp.up.weight", "mlp.up.bias", D, F, std, 1,
                   LS_GRANULE_FF);
    else
        add_linear(b, LS_MLP_UP_WEIGHT, "mlp.up.weight", "mlp.up.bias", D, F, std, 0,
                   LS_GRANULE_MODEL);
    add_linear(b, LS_MLP_DOWN_WEIGHT, "mlp.down.weight", "mlp.down.bias", F, D, std_out, 0,
               LS_GRANULE_FF);
    if (post) add_norm(b, LS_NORM2_SCALE, "norm2.weight", "norm2.bias");
}

/* V x D, cut by rows. */
static ls_param *add_vocabulary(builder *b, ls_role role, const char *name)
{
    const ls_config *c = b->config;
    ls_param *param = add_here(b, role, name);
    as_matrix(param, c->vocab, c->d_model, c->init_std);
    cut_by(param, c, 0, LS_GRANULE_VOCAB);
    return param;
}

static void add_embedding(builder *b)
{
    const ls_config *c = b->config;
    ls_param *param = add_vocabulary(b, LS_TOKEN_EMBEDDING, "token_embedding.weight");
    if (c->tied) {
        param->uses = 2;
        param->also_last = true;
    }
    if (c->position == LS_LEARNED) {
        param = add_here(b, LS_POSITION_EMBEDDING, "position_embedding.weight");
        as_matrix(param, c->seq, c->d_model, c->init_std);
    }
    if (c->token_types > 0) {
        param = add_here(b, LS_TYPE_EMBEDDING, "token_type_embedding.weight");
        as_matrix(param, c->token_types, c->d_model, c->init_std);
    }
    if (c->embedding_norm)
        add_norm(b, LS_EMBEDDING_NORM_SCALE, "embedding_norm.weight", "embedding_norm.bias");
}

/* What comes after the layers. */
static void add_heads(builder *b)
{
    const ls_config *c = b->config;
    size_t D = c->d_model;
    bool masked = c->objective == LS_MASKED_TOKEN;
    if (c->norm_place == LS_NORM_PRE)
        add_norm(b, LS_FINAL_NORM_SCALE, "final_norm.weight", "final_norm.bias");
    if (masked) {
        add_linear(b, LS_MASKED_DENSE_WEIGHT, "masked_head.dense.weight", "masked_head.dense.bias",
                   D, D, c->init_std, -1, LS_GRANULE_NONE);
        add_norm(b, LS_MASKED_NORM_SCALE, "masked_head.norm.weight", "masked_head.norm.bias");
    }
    if (!c->tied) add_vocabulary(b, LS_HEAD_WEIGHT, "head.weight");
    if (masked && c->bias) {
        ls_param *param = add_here(b, LS_VOCAB_BIAS, "masked_head.bias");
        as_vector(param, c->vocab, LS_INIT_ZERO);
        cut_by(param, c, 0, LS_GRANULE_VOCAB);
    }
    if (c->sentence_order) {
        add_linear(b, LS_POOLER_WEIGHT, "pooler.weight", "pooler.bias", D, D, c->init_std, -1,
                   LS_GRANULE_NONE);
        add_linear(b, LS_ORDER_WEIGHT, "order_head.weight", "order_head.bias", D, 2, c->init_std,
                   -1, LS_GRANULE_NONE);
    }
}

static void add_all(builder *b)
{
    add_embedding(b);
    b->layered = 1;
    for (b->layer = 0; b->layer < b->config->layers; b->layer++) add_layer(b);
    b->layered = 0;
    b->layer = 0;
    size_t tail = b->table->count;
    add_heads(b);
    for (; tail < b->table->count; tail++) b->table->params[tail].stage = LS_STAGE_LAST;
}

/* Where nothing else was said. */
static void say_shape(ls_param *param)
{
    if (param->n_shape > 0) return;
    param->n_shape = param->n_dims;
    for (int d = 0; d < param->n_dims; d++) param->shape[d] = param->dims[d];
}

ls_status ls_param_table_create(ls_param_table **ret_table, const ls_config *config)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_param_table *table = NULL;
    ls_thread_mode_set(&mode);
    LS_TRY(ls_config_check(config));
    LS_NEW(table, 1);
    table->config = *config;
    /* Each role at most once per layer, and once outside. */
    const bool net = config->kind == LS_MODEL_NET;
    const size_t most = net ? config->net.count * LS_NET_PARAMS : (config->layers + 1) * LS_ROLES;
    LS_NEW(table->params, most);
    if (net)
        ls_net_params_add(table);
    else
        add_all(&(builder){table, &table->config, 0, 0});
    for (size_t i = 0; i < table->count; i++) say_shape(&table->params[i]);
    *ret_table = table;
    table = NULL;
exit:
    ls_param_table_destroy(&table);
    ls_thread_mode_restore(&mode);
    return status;
}

void ls_param_table_destroy(ls_param_table **table)
{
    if (!*table) return;
    free((*table)->params);
    free(*table);
    *table = NULL;
}

/* ---- questions ---- */

size_t ls_param_find(const ls_param_table *table, ls_role role, size_t layer)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->params[i].role == role && table->params[i].layer == layer) return i;
    return (size_t)-1;
}

size_t ls_param_find_name(const ls_param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->params[i].name, name) == 0) return i;
    return (size_t)-1;
}

size_t ls_param_elements(const ls_param *param)
{
    return param->dims[0] * param->dims[1];
}

size_t ls_param_table_elements(const ls_param_table *table)
{
    size_t elements = 0;
    for (size_t i = 0; i < table->count; i++) elements += ls_param_elements(&table->params[i]);
    return elements;
}

size_t ls_param_table_granules(const ls_param_table *table)
{
    size_t granules = 0;
    for (size_t i = 0; i < table->count; i++)
        granules += table->params[i].state ? 0 : table->params[i].axis.granules;
    return granules;
}
