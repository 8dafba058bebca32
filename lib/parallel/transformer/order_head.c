/* order_head.c - BERT's sentence-order head (order_head.h). */
#include "parallel/transformer/order_head.h"

#include <string.h>

#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/hooks/observe.h"

enum { CHOICES = 2 };

/* Both of them, one granule. */
static ls_vocab_shard choices(void)
{
    ls_vocab_shard shard = {ls_axis_whole(CHOICES), 0, CHOICES};
    return shard;
}

/* An axis with a granule for each sequence, one row long; the linears see sequences as tokens. */
static ls_axis sequences_of(const ls_batch *batch)
{
    return ls_axis_of(batch->B, 1);
}

void ls_order_head_bind(ls_order_head *head, const ls_store *store)
{
    ls_replicated_bind(&head->pooler, store, LS_POOLER_WEIGHT);
    ls_replicated_bind(&head->classifier, store, LS_ORDER_WEIGHT);
}

ls_status ls_order_head_keep(const ls_order_head *head, const ls_batch *batch, ls_arena *arena,
                             ls_order_saved *ret_kept)
{
    ls_status status = LS_OK;
    size_t B = batch->B, D = head->pooler.in;
    ls_order_saved saved = {.labels = batch->order};
    int32_t *none;

    LS_TRY(ls_arena_alloc(arena, B * D, sizeof(ls_real), (void *)&saved.first));
    LS_TRY(ls_arena_alloc(arena, B * D, sizeof(ls_real), (void *)&saved.p));
    LS_TRY(ls_arena_alloc(arena, B * CHOICES, sizeof(ls_real), (void *)&saved.z));
    LS_TRY(ls_arena_alloc(arena, B, sizeof(ls_real), (void *)&saved.max));
    LS_TRY(ls_arena_alloc(arena, B, sizeof(ls_real), (void *)&saved.sum_exp));
    if (!saved.labels) {
        LS_TRY(ls_arena_alloc(arena, B, sizeof *none, (void *)&none));
        for (size_t b = 0; b < B; b++) none[b] = LS_IGNORE;
        saved.labels = none;
    }
    *ret_kept = saved;
exit:
    return status;
}

/* The first token of a sequence is the first of the first share, which is never empty. */
enum { RANK_OF_FIRST = 0 };

static bool has_first(const ls_tensor_parallel *tp)
{
    return !tp->sequence_parallel || ls_group_rank(tp->group) == RANK_OF_FIRST;
}

/* first = xf_0, on every member: B x D. */
static ls_status bring_first(const ls_tensor_parallel *tp, ls_real *first, const ls_real *xf,
                             const ls_batch *batch, size_t D)
{
    ls_status status = LS_OK;
    size_t width = ls_own_share(tp, batch->S).count * D;
    for (size_t b = 0; has_first(tp) && b < batch->B; b++)
        memcpy(first + b * D, xf + b * width, D * sizeof *first);
    if (!tp->sequence_parallel) goto exit;
    ls_view view = {.point = LS_POINT_FIRST_TOKEN, .comm = LS_COMM_SHARE};
    const ls_view_run dims[] = {ls_whole_run(D)};
    if (has_first(tp)) LS_TRY(ls_observe_crossing(tp, view, 1, dims, first, 0));
    LS_TRY(ls_broadcast(tp->group, first, batch->B * D, LS_REAL_DTYPE, RANK_OF_FIRST));
    view.comm = LS_COMM_GATHERED;
    LS_TRY(ls_observe_crossing(tp, view, 1, dims, first, 0));
exit:
    return status;
}

ls_status ls_order_head_forward(const ls_tensor_parallel *tp, const ls_order_head *head,
                                const ls_order_saved *saved, ls_real *ret_losses, const ls_real *xf,
                                const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary), B = batch->B, D = head->pooler.in;
    ls_tensor_parallel inside = ls_inside_block(tp);
    ls_axis sequences = sequences_of(batch);
    ls_real *target;

    LS_TRY(bring_first(tp, saved->first, xf, batch, D));
    LS_TRY(ls_replicated_forward(&inside, &head->pooler, saved->p, saved->first, sequences));
    ls_tanh_forward(saved->p, saved->p, B * D);
    LS_TRY(ls_replicated_forward(&inside, &head->classifier, saved->z, saved->p, sequences));
    LS_TRY(
        ls_observe_dims(tp, LS_POINT_POOLED, false, 1, (ls_view_run[]){ls_whole_run(D)}, saved->p));
    LS_TRY(ls_observe_dims(tp, LS_POINT_ORDER_LOGITS, false, 1,
                           (ls_view_run[]){ls_whole_run(CHOICES)}, saved->z));

    LS_TRY(ls_arena_alloc(tp->temporary, B, sizeof *target, (void *)&target));
    ls_cross_entropy_max(saved->max, saved->z, B, CHOICES, choices());
    ls_cross_entropy_sums(saved->sum_exp, NULL, target, saved->z, saved->max, saved->labels, B,
                          CHOICES, choices());
    ls_cross_entropy_loss(ret_losses, saved->max, saved->sum_exp, NULL, target, saved->labels, B,
                          CHOICES, 0);
    LS_TRY(ls_observe_dims(tp, LS_POINT_ORDER_LOSS, false, 0, NULL, ret_losses));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_order_head_backward(const ls_tensor_parallel *tp, const ls_order_head *head,
                                 const ls_order_saved *saved, ls_real *dx, ls_real factor,
                                 const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary), B = batch->B, D = head->pooler.in;
    size_t width = ls_own_share(tp, batch->S).count * D;
    ls_tensor_parallel inside = ls_inside_block(tp);
    ls_axis sequences = sequences_of(batch);
    ls_real *d;

    LS_TRY(ls_arena_alloc(tp->temporary, B * D, sizeof *d, (void *)&d));
    /* loss = mean of -log softmax(z)[label] */
    ls_cross_entropy_backward(saved->z, saved->z, saved->max, saved->sum_exp, saved->labels, B,
                              CHOICES, choices(), 0, factor);
    /* z = p W_o + b_o, p = tanh(xf_0 W_p + b_p) */
    LS_TRY(ls_observe_dims(tp, LS_POINT_ORDER_LOGITS, true, 1,
                           (ls_view_run[]){ls_whole_run(CHOICES)}, saved->z));
    LS_TRY(ls_replicated_backward(&inside, &head->classifier, d, saved->z, saved->p, sequences));
    LS_TRY(ls_observe_dims(tp, LS_POINT_POOLED, true, 1, (ls_view_run[]){ls_whole_run(D)}, d));
    ls_tanh_backward(d, d, saved->p, B * D);
    LS_TRY(ls_replicated_backward(&inside, &head->pooler, d, d, saved->first, sequences));
    /* What the first tokens have from the other loss, + this (losses in order, rule 11): once,
     * where they are. */
    for (size_t b = 0; has_first(tp) && b < B; b++)
        ls_add(dx + b * width, dx + b * width, d + b * D, D);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
