/* plan_sizes.c - what a layer, and what a stage keeps of one sequence: the table of plan.h. */
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/layout/sharding.h"
#include "lockstep/partition/share.h"
#include "pipeline/plan_parts.h"

/* ---- the rank's share of every axis ---- */

/* Elements and nodes of one cut axis. */
static uint64_t cut(const ls_config *config, ls_granule_kind kind, int tp, int rank,
                    uint64_t *ret_nodes)
{
    ls_axis whole = ls_granule_axis(config, kind);
    ls_shard own = ls_shard_of(config, kind, tp, rank);
    if (ret_nodes)
        *ret_nodes = ls_tree_forest(whole.granules, own.first, own.first + own.count, NULL);
    return own.count * whole.granule;
}

/* Key/value heads whose group of heads reaches over more than one rank. */
static void count_shared(ls_own_axes *own, ls_shard heads, ls_shard kv)
{
    size_t group = (size_t)own->kv_group, end = heads.first + heads.count;
    for (size_t j = kv.first; j < kv.first + kv.count; j++) {
        size_t lo = heads.first > j * group ? heads.first - j * group : 0;
        size_t hi = end < (j + 1) * group ? end - j * group : group;
        if (hi - lo == group) continue;
        own->shared_kv++;
        own->shared_kv_nodes += ls_tree_forest(group, lo, hi, NULL);
    }
}

ls_own_axes ls_own_axes_of(const ls_config *config, const ls_layout *layout, int tp_rank)
{
    int tp = layout->tp;
    ls_shard heads = ls_shard_of(config, LS_GRANULE_HEADS, tp, tp_rank);
    ls_shard kv = ls_shard_of(config, LS_GRANULE_KV_HEADS, tp, tp_rank);
    ls_share tokens = {0, config->seq};
    ls_own_axes own = {.config = config, .sp = layout->sp};

    if (layout->sp) tokens = ls_share_of(config->seq, (size_t)tp, (size_t)tp_rank);
    own.D = config->d_model;
    own.S = config->seq;
    own.F = config->d_ff;
    own.first_tokens = tokens.first == 0;
    own.tokens = tokens.count;
    own.token_nodes = ls_tree_forest(config->seq, tokens.first, tokens.first + tokens.count, NULL);
    own.n_heads = heads.count;
    own.kv_group = config->heads / config->kv_heads;
    own.heads = cut(config, LS_GRANULE_HEADS, tp, tp_rank, &own.head_nodes);
    own.kv = cut(config, LS_GRANULE_KV_HEADS, tp, tp_rank, NULL);
    own.ff = cut(config, LS_GRANULE_FF, tp, tp_rank, &own.ff_nodes);
    own.vocab = cut(config, LS_GRANULE_VOCAB, tp, tp_rank, &own.vocab_nodes);
    own.model = cut(config, LS_GRANULE_MODEL, tp, tp_rank, &own.model_nodes);
    own.vectors = config->norm == LS_LAYER_NORM && config->bias ? 2 : 1;
    count_shared(&own, heads, kv);
    return own;
}

/* ---- a layer ---- */

static uint64_t statistics(const ls_own_axes *own)
{
    return own->tokens * (own->config->norm == LS_LAYER_NORM ? 2 : 1);
}

static ls_layer_elements layer_elements(const ls_own_axes *own, ls_recompute recompute)
{
    ls_layer_elements layer = {0};
    uint64_t between = own->tokens * own->D;

    if (recompute == LS_RECOMPUTE_STAGE) return layer;
    layer.input = between;
    if (recompute == LS_RECOMPUTE_LAYER) return layer;
    /* Norms after the residual sums: the second one's output is the layer's, and both sums are
     * saved.
     */
    bool post = own->config->norm_place == LS_NORM_POST;
    layer.norms = (post ? 1 : 2) * between;
    layer.statistics = 2 * statistics(own);
    layer.projections = own->S * (own->heads + 2 * own->kv);
    if (recompute != LS_RECOMPUTE_SELECTIVE) layer.probabilities = own->n_heads * own->S * own->S;
    layer.context = own->S * own->heads;
    layer.residual = (post ? 2 : 1) * between;
    layer.mlp = own->S * own->ff * (own->config->activation == LS_SWIGLU ? 3 : 2);
    /* Row-first: what is before the activation is whole on every rank. */
    if (own->config->mlp_cut == LS_MLP_ROW_FIRST) layer.mlp += own->S * (own->F - own->ff);
    return layer;
}

ls_layer_elements ls_plan_layer(const ls_config *config, const ls_layout *layout,
                                ls_recompute recompute, int tp_rank)
{
    ls_own_axes own = ls_own_axes_of(config, layout, tp_rank);
    return layer_elements(&own, recompute);
}

uint64_t ls_layer_elements_sum(const ls_layer_elements *layer)
{
    return layer->input + layer->norms + layer->statistics + layer->projections +
           layer->probabilities + layer->context + layer->residual + layer->mlp;
}

/* ---- a stage ---- */

/* What the embedding keeps next to its output: with a norm, the sum that the norm reads. */
static uint64_t embedding_elements(const ls_own_axes *own)
{
    return own->config->embedding_norm ? own->tokens * own->D + statistics(own) : 0;
}

/* What the head keeps next to its input: the final norm, or none after norms that end each layer;
 * what a masked-token model makes of it before the vocabulary, t, u and a norm; logits of own words
 * and, of each token, loss, maximum and sum of exponentials. The sentence-order head keeps first
 * tokens, their pooled vectors, two logits and two numbers. */
static uint64_t head_elements(const ls_own_axes *own)
{
    const ls_config *config = own->config;
    uint64_t between = own->tokens * own->D, head = own->S * (own->vocab + 3);
    if (config->norm_place == LS_NORM_PRE) head += between + statistics(own);
    if (config->objective == LS_MASKED_TOKEN) head += 3 * between + statistics(own);
    if (config->sentence_order) head += 2 * own->D + 4;
    return head;
}

/* What its backward pass surely needs besides what is saved, all at one time: gradients of the
 * block and of its norm, in the MLP those around the activation and the partials of dx, in the
 * attention those of its output, of q, k and v, and the latter two once more for each head of a
 * group. */
static uint64_t working(const ls_own_axes *own)
{
    uint64_t gathered = own->sp ? own->S * own->D : 0;
    uint64_t mlp = own->S * own->ff * (own->config->activation == LS_SWIGLU ? 2 : 1) +
                   own->ff_nodes * own->S * own->D + gathered;
    uint64_t attention = 2 * own->S * own->heads + 2 * own->S * own->kv * (1 + own->kv_group);
    uint64_t product =
        2 * own->S * (own->heads + own->kv) + own->head_nodes * own->S * own->D + gathered;
    if (own->config->mlp_cut == LS_MLP_ROW_FIRST) mlp = own->S * (2 * own->ff + own->F);
    if (product > attention) attention = product;
    return 2 * own->tokens * own->D + (mlp > attention ? mlp : attention);
}

ls_stage_elements ls_stage_elements_of(const ls_own_axes *own, const ls_stage_part *stage,
                                       ls_recompute recompute, bool received)
{
    /* Computed again, a layer keeps everything, its probabilities too. */
    ls_layer_elements all = layer_elements(
        own, recompute == LS_RECOMPUTE_SELECTIVE ? LS_RECOMPUTE_SELECTIVE : LS_RECOMPUTE_NONE);
    uint64_t L = stage->layers, boundary = own->tokens * own->D;
    uint64_t layer = ls_layer_elements_sum(&all) - all.input;
    uint64_t head = stage->head ? head_elements(own) : 0;
    uint64_t embedding = stage->embedding ? embedding_elements(own) : 0;

    /* What came in, and the losses of the sequence. */
    uint64_t in = received ? boundary : 0;
    if (stage->head) in += own->config->sentence_order ? 2 : 1;
    /* The embedding's output and every layer's; without a head the last of them is sent away. */
    uint64_t outputs = L + (stage->embedding ? 1 : 0);
    uint64_t stays = stage->head || outputs == 0 ? outputs : outputs - 1;
    uint64_t one_layer = L > 0 ? layer : 0;
    ls_stage_elements e = {.saved = in + embedding + stays * boundary};

    /* Where layers do not keep what they make, the last one has it while it works. */
    e.forward_most = e.saved + (one_layer > head ? one_layer : head);
    if (L > 0) e.working = working(own);
    switch (recompute) {
    case LS_RECOMPUTE_NONE:
    case LS_RECOMPUTE_SELECTIVE:
        e.saved += L * layer + head;
        e.forward_most = e.saved;
        break;
    case LS_RECOMPUTE_LAYER: /* one layer at a time, with its output */
        e.saved += head;
        if (L > 0) e.again = layer + boundary;
        break;
    case LS_RECOMPUTE_STAGE: /* everything from the stage's input on */
        e.saved = in;
        e.again = embedding + outputs * boundary + L * layer + head;
        break;
    }
    return e;
}
