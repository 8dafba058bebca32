/* judge_attention.c - the cases of attention on own heads.
 *
 * What others got wrong here: the scale 1 / d in place of 1 / sqrt(d); a causal mask that is off by
 * one or not there; heads of another rank. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/attention.h"
#include "conformance/judge_operations.h"
#include "step_graph/formula.h"

enum { SHAPES = 8 };

typedef struct attention_case {
    size_t B, S, per_rank, more, head_width;
    int cut;
    bool causal;
} attention_case;

static const attention_case CASES[SHAPES] = {{1, 1, 1, 0, 2, 0, true},  {2, 5, 1, 0, 3, 0, true},
                                             {1, 7, 2, 0, 4, 0, false}, {1, 4, 1, 1, 5, 0, true},
                                             {3, 3, 3, 0, 2, 3, true},  {1, 17, 1, 0, 8, 0, true},
                                             {2, 2, 0, 1, 7, 0, false}, {1, 9, 2, 0, 1, 1, false}};

typedef struct attention_view {
    ls_backend_attention shape;
    size_t width; /* of all heads */
    judge_tensor *q, *k, *v, *d_o;
} attention_view;

static ls_status prepare_shape(judge_trial *trial, attention_view **ret_view)
{
    ls_status status = LS_OK;
    const attention_case *c = &CASES[trial->number % SHAPES];
    const size_t H = c->per_rank * (size_t)trial->ranks + c->more;
    attention_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->shape = (ls_backend_attention){.B = c->B,
                                      .S = c->S,
                                      .heads = H,
                                      .head_width = c->head_width,
                                      .cut = {.granule = 1},
                                      .causal = c->causal};
    v->width = H * c->head_width;
    LS_TRY(ls_trial_cut(trial, H, 1, c->cut, &v->shape.cut.starts));
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label, "tokens %zu x %zu, %zu heads of %zu, %s", c->B,
             c->S, H, c->head_width, c->causal ? "causal" : "all keys seen");
    *ret_view = v;
exit:
    return status;
}

/* o, or dq, dk, dv. */
static int outputs_of(const attention_view *v)
{
    return v->d_o != NULL ? 3 : 1;
}

/* An array of tokens x heads x head_width, own heads of each rank. */
static ls_status add_heads(judge_trial *trial, const attention_view *v, const char *name,
                           judge_role role, judge_tensor **ret)
{
    return ls_trial_add(trial, name, role, v->shape.B * v->shape.S, v->shape.heads,
                        v->shape.head_width, v->shape.cut.starts, ret);
}

static ls_status add_inputs(judge_trial *trial, attention_view *v, bool backward)
{
    ls_status status = LS_OK;
    LS_TRY(add_heads(trial, v, "q", JUDGE_GIVEN, &v->q));
    LS_TRY(add_heads(trial, v, "k", JUDGE_GIVEN, &v->k));
    LS_TRY(add_heads(trial, v, "v", JUDGE_GIVEN, &v->v));
    ls_trial_draw(trial, v->q, 1);
    ls_trial_draw(trial, v->k, 1);
    ls_trial_draw(trial, v->v, 1);
    if (backward) {
        LS_TRY(add_heads(trial, v, "d_o", JUDGE_GIVEN, &v->d_o));
        ls_trial_draw(trial, v->d_o, 1);
    }
exit:
    return status;
}

/* All of it in one way, into values (and bounds): o, or dq, dk, dv. */
static ls_status evaluate(judge_trial *trial, const attention_view *v, const ls_variant *how,
                          double *const values[3], double *const bounds[3])
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const double *q = v->q->before, *k = v->k->before, *val = v->v->before;
    const ls_attention_form form = {.B = v->shape.B,
                                    .S = v->shape.S,
                                    .heads = v->shape.heads,
                                    .kv_heads = v->shape.heads,
                                    .head_width = v->shape.head_width,
                                    .causal = v->shape.causal,
                                    .variant = how};
    approx *room = NULL;
    LS_TRY(ls_trial_room(trial, 2 * v->shape.S, sizeof *room, &room));
    for (int slot = 0; slot < outputs_of(v); slot++) {
        approx_sum *sums = NULL;
        LS_TRY(ls_trial_room(trial, v->q->n, sizeof *sums, &sums));
        if (v->d_o)
            ls_formula_attention_gradient(p, &form, q, k, val, v->d_o->before, slot, room, sums);
        else
            ls_formula_attention(p, &form, q, k, val, room, sums);
        for (size_t i = 0; i < v->q->n; i++) {
            const approx a = approx_sum_end(p, &sums[i]);
            values[slot][i] = a.value;
            if (bounds != NULL) bounds[slot][i] = a.error;
        }
    }
exit:
    return status;
}

/* The contract's bits, head by head. */
static ls_status order(judge_trial *trial, const attention_view *v, judge_tensor *const out[3])
{
    ls_status status = LS_OK;
    const size_t n = v->q->n, S = v->shape.S;
    ls_real *q = NULL, *k = NULL, *val = NULL, *up = NULL, *P = NULL, *scratch = NULL;
    ls_real *o = NULL, *bits[3] = {NULL, NULL, NULL};
    LS_TRY(ls_judge_reals(trial, n, v->q->before, &q));
    LS_TRY(ls_judge_reals(trial, n, v->k->before, &k));
    LS_TRY(ls_judge_reals(trial, n, v->v->before, &val));
    LS_TRY(ls_judge_reals(trial, n, v->d_o ? v->d_o->before : NULL, &up));
    LS_TRY(ls_judge_reals(trial, n, NULL, &o));
    for (int b = 0; b < 3; b++) LS_TRY(ls_judge_reals(trial, n, NULL, &bits[b]));
    LS_TRY(ls_judge_reals(trial, S * S, NULL, &P));
    LS_TRY(ls_judge_reals(trial, 2 * S * S, NULL, &scratch));
    const ls_attention_shape shape = {.S = S,
                                      .head_width = v->shape.head_width,
                                      .ld_q = v->width,
                                      .ld_kv = v->width,
                                      .scale = 1 / sqrt((double)v->shape.head_width),
                                      .causal = v->shape.causal};
    for (size_t b = 0; b < v->shape.B; b++)
        for (size_t h = 0; h < v->shape.heads; h++) {
            const size_t i = b * S * v->width + h * v->shape.head_width;
            LS_TRY(ls_attention_forward(LS_ENGINE_PORTABLE, &shape, o + i, P, q + i, k + i, val + i,
                                        scratch));
            if (v->d_o != NULL)
                LS_TRY(ls_attention_backward(LS_ENGINE_PORTABLE, &shape, bits[0] + i, bits[1] + i,
                                             bits[2] + i, up + i, P, q + i, k + i, val + i,
                                             scratch));
        }
    if (v->d_o == NULL) out[0]->ordered = o;
    for (int b = 0; b < 3 && v->d_o != NULL; b++) out[b]->ordered = bits[b];
exit:
    return status;
}

static ls_status finish(judge_trial *trial, const attention_view *v, judge_tensor *const out[3])
{
    ls_status status = LS_OK;
    const ls_variant right = {0};
    const struct {
        ls_cause cause;
        const char *text;
        ls_variant how;
    } wrong[] = {
        {LS_CAUSE_SCORE_SCALE,
         "the scores are scaled by 1 / head_width",
         {.score_scale = 1 / (double)v->shape.head_width}},
        {LS_CAUSE_SCORE_SCALE, "the scores are not scaled", {.score_scale = 1}},
        {LS_CAUSE_CAUSAL_MASK, "no causal mask", {.mask = LS_MASK_ABSENT}},
        {LS_CAUSE_CAUSAL_MASK, "a causal mask where all keys are seen", {.mask = LS_MASK_CAUSAL}},
        {LS_CAUSE_CAUSAL_MASK,
         "the causal mask is off by one",
         {.mask = LS_MASK_SHIFTED, .mask_shift = 1}},
        {LS_CAUSE_CAUSAL_MASK,
         "the causal mask is off by one",
         {.mask = LS_MASK_SHIFTED, .mask_shift = -1}}};
    double *values[3] = {NULL, NULL, NULL}, *bounds[3] = {NULL, NULL, NULL};
    for (int k = 0; k < outputs_of(v); k++) values[k] = out[k]->value, bounds[k] = out[k]->bound;
    LS_TRY(evaluate(trial, v, &right, values, bounds));
    LS_TRY(order(trial, v, out));
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
        for (int k = 0; k < outputs_of(v); k++)
            LS_TRY(ls_trial_variant(trial, out[k], wrong[w].cause, wrong[w].text, &values[k]));
        LS_TRY(evaluate(trial, v, &wrong[w].how, values, NULL));
    }
exit:
    return status;
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    attention_view *v = NULL;
    judge_tensor *out[3] = {NULL, NULL, NULL};
    LS_TRY(prepare_shape(trial, &v));
    LS_TRY(add_heads(trial, v, "o", JUDGE_WANTED, &out[0]));
    LS_TRY(add_inputs(trial, v, false));
    LS_TRY(finish(trial, v, out));
exit:
    return status;
}

static int call_forward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const attention_view *v = trial->shape;
    return ((const ls_backend *)backend)->attention_forward(me, b[0], b[1], b[2], b[3], &v->shape);
}

static ls_status prepare_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    attention_view *v = NULL;
    judge_tensor *out[3] = {NULL, NULL, NULL};
    LS_TRY(prepare_shape(trial, &v));
    LS_TRY(add_heads(trial, v, "dq", JUDGE_WANTED, &out[0]));
    LS_TRY(add_heads(trial, v, "dk", JUDGE_WANTED, &out[1]));
    LS_TRY(add_heads(trial, v, "dv", JUDGE_WANTED, &out[2]));
    LS_TRY(add_inputs(trial, v, true));
    LS_TRY(finish(trial, v, out));
exit:
    return status;
}

static int call_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const attention_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->attention_backward(me, b[0], b[1], b[2], b[6], b[3], b[4], b[5], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(attention_forward, SHAPES, prepare_forward, call_forward, 0),
    JUDGE_BOUNDED(attention_backward, SHAPES, prepare_backward, call_backward, 0),
};

const judge_chapter ls_judge_attention = JUDGE_CHAPTER(operations);
