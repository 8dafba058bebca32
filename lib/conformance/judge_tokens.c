/* judge_tokens.c - the cases of sequence parallelism's pair: gather and scatter of tokens.
 *
 * Tokens are cut inside each sequence, so with several sequences neither is a plain all-gather or
 * reduce-scatter of the whole array: blocks are not contiguous. Exact numbers of both; S below,
 * at and above the number of ranks. */
#include <stdio.h>

#include "conformance/judge_operations.h"

enum { SHAPES = 9, RANGE = 99 };

static ls_status prepare_shape(judge_trial *trial, ls_backend_tokens **ret_shape)
{
    ls_status status = LS_OK;
    const size_t P = (size_t)trial->ranks;
    const size_t B[SHAPES] = {1, 2, 3, 1, 2, 1, 4, 2, 1},
                 width[SHAPES] = {1, 3, 2, 5, 4, 7, 1, 3, 2};
    const size_t S[SHAPES] = {P, 2 * P, P + 1, 1, P - 1, 97, 3 * P + 2, 5, 0};
    ls_backend_tokens *shape = NULL;
    const size_t s = trial->number % SHAPES;
    LS_TRY(ls_trial_room(trial, 1, sizeof *shape, &shape));
    trial->shape = shape;
    *shape = (ls_backend_tokens){.B = B[s], .S = S[s], .width = width[s], .cut = {.granule = 1}};
    LS_TRY(ls_trial_cut(trial, S[s], 1, 0, &shape->cut.starts));
    if (B[s] > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label, "tokens %zu x %zu, width %zu", B[s], S[s],
             width[s]);
    *ret_shape = shape;
exit:
    return status;
}

/* own -> whole */
static ls_status prepare_gather(judge_trial *trial)
{
    ls_status status = LS_OK;
    ls_backend_tokens *s = NULL;
    judge_tensor *whole = NULL, *own = NULL;
    double *flat = NULL;
    size_t at = 0;
    LS_TRY(prepare_shape(trial, &s));
    LS_TRY(ls_trial_add(trial, "whole", JUDGE_WANTED, s->B, s->S, s->width, NULL, &whole));
    LS_TRY(ls_trial_add(trial, "own", JUDGE_GIVEN, s->B, s->S, s->width, s->cut.starts, &own));
    ls_trial_draw(trial, own, RANGE);
    for (size_t i = 0; i < whole->n; i++) whole->value[i] = own->before[i];
    LS_TRY(ls_trial_variant(trial, whole, LS_CAUSE_SHARD_ORDER,
                            "ranks' blocks one after another instead of token by token", &flat));
    for (int q = 0; q < trial->ranks; q++)
        for (size_t i = 0; i < own->count[q]; i++) flat[at++] = own->before[own->where[q][i]];
exit:
    return status;
}

static int call_gather(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                       void *const *b)
{
    return ((const ls_backend *)backend)->gather_tokens(me, b[0], b[1], trial->shape);
}

/* partials -> own tokens of the sum */
static ls_status prepare_scatter(judge_trial *trial)
{
    ls_status status = LS_OK;
    ls_backend_tokens *s = NULL;
    judge_tensor *own = NULL, *partial = NULL;
    double *flat = NULL;
    size_t at = 0;
    LS_TRY(prepare_shape(trial, &s));
    const size_t n = s->B * s->S * s->width;
    LS_TRY(ls_trial_add(trial, "own", JUDGE_WANTED, s->B, s->S, s->width, s->cut.starts, &own));
    LS_TRY(ls_trial_add_own(trial, "partial", JUDGE_GIVEN, n, &partial));
    ls_trial_draw(trial, partial, RANGE);
    LS_TRY(ls_trial_parts(trial, own));
    for (size_t i = 0; i < partial->n; i++) own->part[i] = partial->before[i];
    ls_judge_sum_parts(trial, own);
    LS_TRY(ls_judge_order_parts(trial, own));
    LS_TRY(ls_trial_variant(trial, own, LS_CAUSE_SHARD_ORDER,
                            "a run of all tokens instead of a share of every sequence", &flat));
    for (int q = 0; q < trial->ranks; q++)
        for (size_t i = 0; i < own->count[q]; i++) flat[own->where[q][i]] = own->value[at++];
exit:
    return status;
}

static int call_scatter(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    return ((const ls_backend *)backend)->scatter_tokens(me, b[0], b[1], trial->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOTH(gather_tokens, SHAPES, prepare_gather, call_gather),
    JUDGE_BOTH(scatter_tokens, SHAPES, prepare_scatter, call_scatter),
};

const judge_chapter ls_judge_tokens = JUDGE_CHAPTER(operations);
