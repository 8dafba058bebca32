/* stage_passes.c - a micro-batch through a stage: forward, backward, and the saved activations.
 *
 * A forward pass saves activations in the micro-batch's arena. They are released when its backward
 * pass ends, so that the rank's account shows live memory. With recomputation less is saved,
 * and the backward pass runs forward again over what it needs: the masks of dropout are functions
 * of the place (rule 4), so it gets the same bits. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "parallel/transformer/stage_ends.h"
#include "parallel/tensor/weight_gradient.h"
#include "base/allocate.h"

ls_status ls_micro_batch_create(ls_micro_batch **ret_micro_batch, const ls_stage *stage)
{
    ls_status status = LS_OK;
    ls_micro_batch *mb = NULL;

    LS_NEW(mb, 1);
    LS_NEW(mb->layers, stage->setup.layers + 1);
    LS_TRY(ls_arena_create(&mb->saved, stage->memory, LS_MEM_ACTIVATIONS));
    LS_TRY(ls_arena_create(&mb->outgoing, stage->memory, LS_MEM_COMMUNICATION));
    *ret_micro_batch = mb;
    mb = NULL;
exit:
    ls_micro_batch_destroy(&mb);
    return status;
}

void ls_micro_batch_destroy(ls_micro_batch **micro_batch)
{
    if (!micro_batch || !*micro_batch) return;
    ls_arena_destroy(&(*micro_batch)->saved);
    ls_arena_destroy(&(*micro_batch)->outgoing);
    free((*micro_batch)->layers);
    free(*micro_batch);
    *micro_batch = NULL;
}

void ls_micro_batch_sent(ls_micro_batch *micro_batch)
{
    ls_arena_release(micro_batch->outgoing, 0);
}

ls_sequence_losses ls_micro_batch_losses(const ls_micro_batch *micro_batch, ls_valid *ret_valid)
{
    *ret_valid = micro_batch->valid;
    return micro_batch->sequence_losses;
}

/* An array of activations between two blocks. */
static ls_status take(const ls_stage *stage, const ls_micro_batch *mb, ls_arena *arena,
                      ls_real **ret_x)
{
    return ls_arena_alloc(arena, ls_stage_rows(stage, mb->B, mb->S) * stage->config->d_model,
                          sizeof(ls_real), (void *)ret_x);
}

/* The observer, and the tensor that it sees. */
static void look_on(ls_stage *stage, const ls_micro_batch *mb)
{
    if (!stage->setup.observer) return;
    stage->observation =
        (ls_observation){.observer = stage->setup.observer,
                         .dtype = LS_REAL_DTYPE,
                         .batch = &mb->batch,
                         .sequences = stage->sum ? stage->sum->leaves : mb->batch.B,
                         .layer = -1,
                         .next = LS_POINTS};
    stage->tp.observation = &stage->observation;
}

/* ---- forward ---- */

/* From mb->input, or the tokens, to mb->end, or the losses. What is wanted later stays in
 * mb->saved: every layer's input, and with `all` what else each layer keeps. The stage's output
 * goes to the arena `last`. */
static ls_status forward(ls_stage *stage, ls_micro_batch *mb, bool all, ls_arena *last)
{
    ls_status status = LS_OK;
    size_t layers = stage->setup.layers;
    const ls_real *x = mb->input;
    ls_real *y;

    if (stage->setup.embedding) {
        LS_TRY(take(stage, mb, layers == 0 && !stage->setup.head ? last : mb->saved, &mb->x));
        LS_TRY(ls_embed_keep(stage, mb));
        LS_TRY(ls_embed_forward(stage, mb));
        x = mb->x;
    }
    for (size_t l = 0; l < layers; l++) {
        LS_TRY(take(stage, mb, l + 1 == layers && !stage->setup.head ? last : mb->saved, &y));
        size_t mark = ls_arena_mark(mb->saved);
        LS_TRY(
            ls_layer_keep(&stage->tp, &stage->layers[l], mb->B, mb->S, mb->saved, &mb->layers[l]));
        mb->layers[l].x = x;
        ls_observe_in_layer(&stage->tp, (int)stage->layers[l].number);
        LS_TRY(ls_layer_forward(&stage->tp, &stage->layers[l], &mb->layers[l], y, &mb->batch));
        if (!all) ls_arena_release(mb->saved, mark);
        x = y;
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    ls_observe_in_layer(&stage->tp, -1);
    mb->end = x;
    if (stage->setup.head) {
        LS_TRY(ls_head_keep(stage, mb));
        LS_TRY(ls_head_forward(stage, mb, x));
    }
exit:
    return status;
}

/* Every rank looks at every id that its stage reads, so that a bad one is an error on all of them,
 * before any rank waits. */
static ls_status check_ids(const ls_stage *stage, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const ls_config *config = stage->config;
    size_t n = batch->B * batch->S;
    if (stage->setup.embedding) {
        LS_TRY(ls_ids_check(batch->tokens, n, config->vocab, 0, "token"));
        if (config->token_types > 0 && batch->segments)
            LS_TRY(ls_ids_check(batch->segments, n, config->token_types, 0, "token type"));
    }
    if (stage->setup.head) {
        LS_TRY(ls_ids_check(batch->targets, n, config->vocab, 1, "target"));
        if (config->sentence_order && batch->order)
            LS_TRY(ls_ids_check(batch->order, batch->B, 2, 1, "order label"));
    }
    LS_TRY(ls_lengths_check(batch->lengths, batch->B, batch->S));
exit:
    return status;
}

ls_status ls_stage_forward(ls_stage *stage, ls_micro_batch *mb, const ls_batch *batch,
                           const ls_real *x, const ls_real **ret_x)
{
    ls_status status = LS_OK;
    ls_recompute recompute = stage->setup.recompute;

    if (batch->S > stage->config->seq)
        LS_FAIL(LS_ERR_INPUT, "sequences of %zu tokens: the model has positions for %zu", batch->S,
                stage->config->seq);
    if (stage->sum &&
        (batch->first > stage->sum->leaves || batch->B > stage->sum->leaves - batch->first))
        LS_FAIL(LS_ERR_INPUT, "sequences %zu to %zu: the batch has %zu", batch->first,
                batch->first + batch->B, stage->sum->leaves);
    mb->batch = *batch;
    mb->B = batch->B;
    mb->S = batch->S;
    mb->input = x;
    mb->forward_done = false;
    ls_arena_release(mb->saved, 0);
    ls_arena_release(mb->outgoing, 0);
    LS_TRY(check_ids(stage, batch));
    look_on(stage, mb);
    if (stage->setup.head) {
        ls_sequence_losses *losses = &mb->sequence_losses;
        LS_TRY(ls_arena_alloc(mb->saved, mb->B, sizeof(ls_real), (void *)&losses->tokens));
        if (stage->config->sentence_order)
            LS_TRY(ls_arena_alloc(mb->saved, mb->B, sizeof(ls_real), (void *)&losses->order));
    }

    size_t mark = ls_arena_mark(mb->saved);
    LS_TRY(forward(stage, mb, recompute <= LS_RECOMPUTE_SELECTIVE, mb->outgoing));
    if (recompute == LS_RECOMPUTE_STAGE) ls_arena_release(mb->saved, mark);
    mb->forward_done = true;
    if (ret_x) *ret_x = stage->setup.head ? NULL : mb->end;
exit:
    return status;
}

/* ---- backward ---- */

/* From the gradient of the output to that of the input, in place. */
static ls_status backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, ls_valid valid)
{
    ls_status status = LS_OK;
    ls_batch batch = mb->batch;
    ls_real *y;

    if (stage->setup.head) LS_TRY(ls_head_backward(stage, mb, dx, mb->end, valid));
    for (size_t l = stage->setup.layers; l-- > 0;) {
        const ls_layer *layer = &stage->layers[l];
        size_t mark = ls_arena_mark(mb->saved);
        if (stage->setup.recompute == LS_RECOMPUTE_LAYER) {
            const ls_real *x = mb->layers[l].x;
            LS_TRY(ls_layer_keep(&stage->tp, layer, mb->B, mb->S, mb->saved, &mb->layers[l]));
            mb->layers[l].x = x;
            LS_TRY(take(stage, mb, mb->saved, &y));
            stage->observation.again = true;
            ls_observe_in_layer(&stage->tp, (int)layer->number);
            LS_TRY(ls_layer_forward(&stage->tp, layer, &mb->layers[l], y, &batch));
            look_on(stage, mb);
        }
        ls_observe_in_layer(&stage->tp, (int)layer->number);
        LS_TRY(ls_layer_backward(&stage->tp, layer, &mb->layers[l], dx, &batch));
        ls_arena_release(mb->saved, mark);
        LS_TRY(ls_rank_check(ls_group_owner(stage->tp.group)));
    }
    ls_observe_in_layer(&stage->tp, -1);
    if (stage->setup.embedding) LS_TRY(ls_embed_backward(stage, mb, dx));
exit:
    return status;
}

/* No valid target or label anywhere: the loss is 0 whatever the parameters, so every gradient is +0
 * (rule 15). Computed, some would be -0: sums of +0 times something negative. */
static void zero_gradients(const ls_stage *stage)
{
    for (size_t i = 0; i < stage->n_gradients; i++)
        ls_no_gradient(&stage->tp, stage->gradients[i].values, stage->gradients[i].count);
}

/* Adds what has found its sibling. */
static void merge_gradients(ls_stage *stage)
{
    size_t into, from, stride = stage->store->gradient_count;
    while (ls_forest_sum_next(stage->sum, &into, &from))
        for (size_t i = 0; i < stage->n_gradients; i++) {
            ls_real *values = stage->gradients[i].values;
            ls_add(values + into * stride, values + into * stride, values + from * stride,
                   stage->gradients[i].count);
        }
}

ls_status ls_stage_backward(ls_stage *stage, ls_micro_batch *mb, const ls_real *dx, ls_valid valid,
                            const ls_real **ret_dx)
{
    ls_status status = LS_OK;
    ls_node nodes[LS_FOREST_MAX];
    size_t offsets[LS_FOREST_MAX];
    ls_batch_sums sums = {0, nodes, offsets};
    size_t first = mb->batch.first, mark = ls_arena_mark(stage->temporary);
    size_t count = ls_stage_rows(stage, mb->B, mb->S) * stage->config->d_model;
    ls_real *d;

    if (!mb->forward_done)
        LS_FAIL(LS_ERR_INPUT, "a backward pass without a forward pass before it");
    mb->forward_done = false;
    ls_micro_batch_sent(mb);
    if (stage->sum) {
        LS_TRY(ls_forest_sum_arrive(stage->sum, (ls_node){first, first + mb->B}, nodes, offsets,
                                    &sums.n));
        for (size_t j = 0; j < sums.n; j++) {
            nodes[j] = (ls_node){nodes[j].lo - first, nodes[j].hi - first};
            offsets[j] *= stage->store->gradient_count;
        }
        stage->tp.sums = &sums;
    }
    /* It is sent to the stage before, when there is one. */
    LS_TRY(take(stage, mb, stage->setup.embedding ? stage->temporary : mb->outgoing, &d));
    if (!ls_valid_any(valid)) {
        zero_gradients(stage);
        memset(d, 0, count * sizeof *d);
    } else {
        look_on(stage, mb);
        stage->observation.again = true;
        if (stage->setup.recompute == LS_RECOMPUTE_STAGE)
            LS_TRY(forward(stage, mb, true, mb->saved));
        look_on(stage, mb);
        if (!stage->setup.head) memcpy(d, dx, count * sizeof *d);
        LS_TRY(backward(stage, mb, d, valid));
    }
    if (stage->sum) merge_gradients(stage);
    if (ret_dx) *ret_dx = stage->setup.embedding ? NULL : d;
exit:
    stage->tp.sums = NULL;
    ls_arena_release(stage->temporary, mark);
    ls_arena_release(mb->saved, 0);
    return status;
}

/* ---- the gradients of a step ---- */

void ls_stage_begin_gradients(ls_stage *stage)
{
    if (stage->sum) ls_forest_sum_clear(stage->sum);
}

void ls_stage_settle_gradients(ls_stage *stage)
{
    size_t one, other, stride = stage->store->gradient_count;
    while (stage->sum && ls_forest_sum_settle(stage->sum, &one, &other))
        for (size_t i = 0; i < stage->n_gradients; i++) {
            ls_real *a = stage->gradients[i].values + one * stride;
            ls_real *b = stage->gradients[i].values + other * stride;
            for (size_t e = 0; e < stage->gradients[i].count; e++) {
                ls_real moved = b[e];
                b[e] = a[e];
                a[e] = moved;
            }
        }
}

void ls_stage_finish_gradients(ls_stage *stage)
{
    ls_slot *const tables[] = {stage->token, stage->type};
    for (size_t i = 0; i < 2; i++)
        if (tables[i]) ls_normalize_zero(tables[i]->grad[0], tables[i]->rows * tables[i]->cols);
}
