/* judge_attention.c - the cases of attention on own heads.
 *
 * What others got wrong here: the scale 1 / d in place of 1 / sqrt(d); a causal mask that is off by
 * one or not there; heads of another rank. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/attention.h"
#include "conformance/judge_operations.h"
#include "step_graph/operation_parts.h"

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

/* How scores are scaled and what a query sees. */
typedef struct way {
    double scale;
    bool causal;
    int shift; /* of the mask */
} way;

typedef struct attention_view {
    ls_backend_attention shape;
    size_t width; /* of all heads */
    way right;
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
    v->right = (way){1 / sqrt((double)c->head_width), c->causal, 0};
    LS_TRY(ls_trial_cut(trial, H, 1, c->cut, &v->shape.cut.starts));
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label, "tokens %zu x %zu, %zu heads of %zu, %s", c->B,
             c->S, H, c->head_width, c->causal ? "causal" : "all keys seen");
    *ret_view = v;
exit:
    return status;
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

/* Place of token s of sequence b in head h. */
static size_t at(const attention_view *v, size_t b, size_t h, size_t s)
{
    return (b * v->shape.S + s) * v->width + h * v->shape.head_width;
}

static size_t seen_by(const attention_view *v, const way *w, size_t i)
{
    const long end = (long)i + 1 + w->shift;
    if (!w->causal || end > (long)v->shape.S) return v->shape.S;
    return end > 0 ? (size_t)end : 0;
}

/* Probabilities of query i; returns how many keys it sees. */
static size_t probabilities(const ls_precision *p, const attention_view *v, const way *w, size_t b,
                            size_t h, size_t i, approx *P)
{
    const size_t seen = seen_by(v, w, i);
    for (size_t j = 0; j < seen; j++) {
        approx_sum score = {0};
        for (size_t c = 0; c < v->shape.head_width; c++)
            approx_sum_add(&score, approx_exact(v->q->before[at(v, b, h, i) + c] *
                                                v->k->before[at(v, b, h, j) + c]));
        P[j] = approx_multiply(p, approx_sum_end(p, &score), approx_constant(p, w->scale));
    }
    ls_evaluate_softmax(p, P, seen);
    return seen;
}

/* What a case's sums go into: o, or dq, dk, dv. */
typedef struct sums {
    approx_sum *of[3];
} sums;

static void add_forward(const ls_precision *p, const attention_view *v, const way *w, size_t b,
                        size_t h, size_t i, approx *P, const sums *out)
{
    const size_t seen = probabilities(p, v, w, b, h, i, P);
    for (size_t j = 0; j < seen; j++)
        for (size_t c = 0; c < v->shape.head_width; c++)
            approx_sum_add(&out->of[0][at(v, b, h, i) + c],
                           approx_product(P[j], approx_exact(v->v->before[at(v, b, h, j) + c])));
}

/* dP_j = do v_j, dS_j = P_j (dP_j - sum P dP), dq = scale sum dS_j k_j, dk_j += scale dS_j q, dv_j
 * += P_j do */
static void add_backward(const ls_precision *p, const attention_view *v, const way *w, size_t b,
                         size_t h, size_t i, approx *P, const sums *out)
{
    const size_t S = v->shape.S, seen = probabilities(p, v, w, b, h, i, P), own = at(v, b, h, i);
    const double *d_o = v->d_o->before + own;
    approx *dP = P + S;
    approx_sum along = {0};
    for (size_t j = 0; j < seen; j++) {
        approx_sum dot = {0};
        for (size_t c = 0; c < v->shape.head_width; c++)
            approx_sum_add(&dot, approx_exact(d_o[c] * v->v->before[at(v, b, h, j) + c]));
        dP[j] = approx_sum_end(p, &dot);
        approx_sum_add(&along, approx_product(P[j], dP[j]));
    }
    const approx mean = approx_sum_end(p, &along);
    for (size_t j = 0; j < seen; j++) {
        const approx dS =
            approx_multiply(p, approx_multiply(p, P[j], approx_subtract(p, dP[j], mean)),
                            approx_constant(p, w->scale));
        for (size_t c = 0; c < v->shape.head_width; c++) {
            const size_t key = at(v, b, h, j) + c;
            approx_sum_add(&out->of[0][own + c],
                           approx_product(dS, approx_exact(v->k->before[key])));
            approx_sum_add(&out->of[1][key],
                           approx_product(dS, approx_exact(v->q->before[own + c])));
            approx_sum_add(&out->of[2][key], approx_product(P[j], approx_exact(d_o[c])));
        }
    }
}

/* All of it in one way, into values (and bounds). */
static ls_status evaluate(judge_trial *trial, const attention_view *v, const way *w,
                          double *const values[3], double *const bounds[3])
{
    ls_status status = LS_OK;
    const size_t n = v->shape.B * v->shape.S * v->width;
    const int outputs = v->d_o != NULL ? 3 : 1;
    sums out = {{NULL, NULL, NULL}};
    approx *P = NULL;
    LS_TRY(ls_trial_room(trial, 2 * v->shape.S, sizeof *P, &P));
    for (int k = 0; k < outputs; k++)
        LS_TRY(ls_trial_room(trial, n, sizeof *out.of[k], &out.of[k]));
    for (size_t b = 0; b < v->shape.B; b++)
        for (size_t h = 0; h < v->shape.heads; h++)
            for (size_t i = 0; i < v->shape.S; i++)
                (v->d_o != NULL ? add_backward : add_forward)(&trial->precision, v, w, b, h, i, P,
                                                              &out);
    for (int k = 0; k < outputs; k++)
        for (size_t i = 0; i < n; i++) {
            const approx a = approx_sum_end(&trial->precision, &out.of[k][i]);
            values[k][i] = a.value;
            if (bounds != NULL) bounds[k][i] = a.error;
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
                                      .scale = v->right.scale,
                                      .causal = v->shape.causal};
    for (size_t b = 0; b < v->shape.B; b++)
        for (size_t h = 0; h < v->shape.heads; h++) {
            const size_t i = at(v, b, h, 0);
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
    const double d = (double)v->shape.head_width;
    const bool causal = v->shape.causal;
    const struct {
        const char *text;
        way way;
    } wrong[] = {{"the scores are scaled by 1 / head_width", {1 / d, causal, 0}},
                 {"the scores are not scaled", {1, causal, 0}},
                 {"no causal mask", {v->right.scale, false, 0}},
                 {"a causal mask where all keys are seen", {v->right.scale, true, 0}},
                 {"the causal mask is off by one", {v->right.scale, true, 1}},
                 {"the causal mask is off by one", {v->right.scale, true, -1}}};
    const int outputs = v->d_o != NULL ? 3 : 1;
    double *values[3] = {NULL, NULL, NULL}, *bounds[3] = {NULL, NULL, NULL};
    for (int k = 0; k < outputs; k++) values[k] = out[k]->value, bounds[k] = out[k]->bound;
    LS_TRY(evaluate(trial, v, &v->right, values, bounds));
    LS_TRY(order(trial, v, out));
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
        for (int k = 0; k < outputs; k++)
            LS_TRY(ls_trial_variant(trial, out[k], wrong[w].text, false, &values[k]));
        LS_TRY(evaluate(trial, v, &wrong[w].way, values, NULL));
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

JUDGE_HAS(attention_forward)
JUDGE_HAS(attention_backward)

static const judge_operation operations[] = {
    {"attention_forward", false, true, 1, SHAPES, has_attention_forward, prepare_forward,
     call_forward, NULL},
    {"attention_backward", false, true, 1, SHAPES, has_attention_backward, prepare_backward,
     call_backward, NULL},
};

const judge_chapter ls_judge_attention = {operations, sizeof operations / sizeof operations[0]};
