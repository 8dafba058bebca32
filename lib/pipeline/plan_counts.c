/* plan_counts.c - calls and bytes of a training step, by operation, as ls_rank_count counts them:
 * also those of groups of one, which send nothing. */
#include "pipeline/plan_parts.h"

static void add(const ls_step_traffic *step, ls_operation operation, uint64_t calls, uint64_t bytes)
{
    step->comm[operation].calls += calls;
    step->comm[operation].bytes += bytes;
}

/* `times` calls for every micro-batch, of so many elements for every sequence. */
static void each(const ls_step_traffic *step, ls_operation operation, uint64_t times,
                 uint64_t elements)
{
    add(step, operation, times * (uint64_t)step->layout->micro_batches,
        times * elements * step->sequences * step->element_bytes);
}

/* g and f: a sum over a cut axis, each rank handing in its nodes' partials, S x width. */
static void sum(const ls_step_traffic *step, uint64_t times, uint64_t nodes, uint64_t width)
{
    each(step, step->own->sp ? LS_OP_REDUCE_SCATTER : LS_OP_ALL_REDUCE, times,
         nodes * step->own->S * width);
}

/* Sequence parallel: own tokens become all tokens. */
static void gather(const ls_step_traffic *step, uint64_t times)
{
    if (step->own->sp) each(step, LS_OP_ALL_GATHER, times, step->own->tokens * step->own->D);
}

/* Sequence parallel: gradients of so many vectors of the norms, which are the same on all ranks. */
static void norm_sums(const ls_step_traffic *step, uint64_t times, uint64_t vectors)
{
    if (step->own->sp && vectors > 0)
        each(step, LS_OP_ALL_REDUCE, times, step->own->token_nodes * vectors * step->own->D);
}

/* ---- forward ---- */

static void layers_forward(const ls_step_traffic *step, uint64_t L)
{
    const ls_own_axes *own = step->own;
    gather(step, 2 * L);                   /* in front of attention and MLP */
    sum(step, L, own->head_nodes, own->D); /* behind the attention          */
    if (own->config->mlp_cut == LS_MLP_ROW_FIRST) sum(step, L, own->model_nodes, own->F);
    sum(step, L, own->ff_nodes, own->D); /* behind the MLP                */
}

static void embedding_forward(const ls_step_traffic *step)
{
    sum(step, 1, 1, step->own->D); /* every row has an owner: one partial each */
}

static void head_forward(const ls_step_traffic *step)
{
    const ls_own_axes *own = step->own;
    if (own->config->objective == LS_MASKED_TOKEN) gather(step, 1); /* its dense matrix */
    gather(step, 1);
    if (own->config->sentence_order && own->sp) /* first tokens, from the rank that has them */
        each(step, LS_OP_BROADCAST, 1, own->first_tokens ? own->D : 0);
    if (step->gathered_loss) {
        each(step, LS_OP_ALL_GATHER, 1, own->S * own->vocab);
        return;
    }
    /* The maximum; then the sum of exponentials and the target's logit, with label smoothing also
     * the sum of logits. */
    uint64_t numbers = own->config->label_smoothing != 0 ? 3 : 2;
    each(step, LS_OP_ALL_REDUCE, 1, own->S);
    each(step, LS_OP_ALL_REDUCE, 1, own->vocab_nodes * numbers * own->S);
}

/* ---- backward ---- */

static void layers_backward(const ls_step_traffic *step, uint64_t L)
{
    const ls_own_axes *own = step->own;
    if (own->config->mlp_cut == LS_MLP_ROW_FIRST) {
        each(step, LS_OP_ALL_GATHER, L, own->S * own->ff);    /* gradient before the activation */
        each(step, LS_OP_ALL_GATHER, L, own->S * own->model); /* dx */
    } else {
        gather(step, 2 * L); /* dy, and x once more for the weights' gradients */
        sum(step, L, own->ff_nodes, own->D);
    }
    gather(step, 2 * L);
    /* dK and dV of heads that several ranks have */
    uint64_t width = own->D / own->config->heads;
    add(step, LS_OP_ALL_REDUCE, 2 * L * own->shared_kv * (uint64_t)step->layout->micro_batches,
        2 * L * own->shared_kv_nodes * own->S * width * step->sequences * step->element_bytes);
    sum(step, L, own->head_nodes, own->D);
    norm_sums(step, L, 2 * own->vectors);
}

static void head_backward(const ls_step_traffic *step)
{
    const ls_own_axes *own = step->own;
    bool masked = own->config->objective == LS_MASKED_TOKEN;
    uint64_t norms = (own->config->norm_place == LS_NORM_PRE ? 1u : 0u) + (masked ? 1u : 0u);
    gather(step, masked ? 3 : 1); /* the dense matrix: dy, and x once more */
    sum(step, 1, own->vocab_nodes, own->D);
    norm_sums(step, 1, norms * own->vectors);
}

static void embedding_backward(const ls_step_traffic *step)
{
    if (step->own->config->embedding_norm) norm_sums(step, 1, step->own->vectors);
    gather(step, 1);
}

void ls_count_stage(const ls_step_traffic *step, const ls_stage_part *stage, int stage_number)
{
    const ls_layout *layout = step->layout;
    uint64_t boundary = step->own->tokens * step->own->D;
    bool again = layout->recompute == LS_RECOMPUTE_STAGE;

    for (int pass = 0; pass < (again ? 2 : 1); pass++) {
        if (stage->embedding) embedding_forward(step);
        layers_forward(step, stage->layers);
        if (stage->head) head_forward(step);
    }
    if (layout->recompute == LS_RECOMPUTE_LAYER) layers_forward(step, stage->layers);
    if (stage->head) head_backward(step);
    layers_backward(step, stage->layers);
    if (stage->embedding) embedding_backward(step);

    /* Between stages: activations forward, their gradients backward, unless both stages are this
     * rank's. */
    if (layout->pp == 1) return;
    if (stage_number > 0) {
        each(step, LS_OP_RECEIVE, 1, 0);
        each(step, LS_OP_SEND, 1, boundary);
    }
    if (stage_number < ls_layout_stages(layout) - 1) {
        each(step, LS_OP_SEND, 1, boundary);
        each(step, LS_OP_RECEIVE, 1, 0);
    }
}

void ls_count_step(const ls_step_traffic *step, const ls_step_ends *ends)
{
    const ls_layout *layout = step->layout;
    uint64_t e = step->element_bytes, losses = step->own->config->sentence_order ? 2 : 1;
    int last = layout->pp - 1;

    if (layout->dp > 1) {
        add(step, LS_OP_ALL_REDUCE, 1, 8 * losses); /* numbers of valid targets and labels */
        add(step, LS_OP_ALL_REDUCE, 1, ends->dp_nodes * ends->gradients * e);
        if (ends->at.pp == last) add(step, LS_OP_ALL_REDUCE, 1, ends->dp_nodes * losses * e);
    }
    if (ends->tied > 0) {
        add(step, LS_OP_SEND, 1, ends->tied * e);
        add(step, LS_OP_RECEIVE, 1, 0);
    }
    if (last > 0) add(step, LS_OP_BROADCAST, 1, ends->at.pp == last ? e : 0); /* loss */
    add(step, LS_OP_ALL_REDUCE, 1, ends->granules * 8); /* squares of the gradient, binary64 */
}
