/* judge_embedding.c - the cases of the vocabulary-parallel embedding.
 *
 * What others got wrong here: rows of another rank looked up as the own row 0 instead of left out;
 * the last rows of a vocabulary that does not divide; the gradient of a row averaged over its
 * tokens, or overwritten by the last of them. */
#include <stdio.h>

#include "lockstep/kernels/embedding.h"
#include "conformance/judge_operations.h"
#include "conformance/judge_product.h"
#include "step_graph/approx.h"

enum { SHAPES = 8, RANGE = 99 };

typedef struct vocab_view {
    ls_backend_vocab shape;
    size_t tokens;
    ls_axis token_axis;
    judge_tensor *ids;
} vocab_view;

static ls_status prepare_shape(judge_trial *trial, vocab_view **ret_view)
{
    ls_status status = LS_OK;
    static const size_t B[SHAPES] = {1, 2, 3, 1, 2, 1, 2, 1},
                        S[SHAPES] = {1, 3, 4, 7, 5, 13, 2, 31};
    static const size_t D[SHAPES] = {1, 5, 7, 3, 2, 4, 11, 6};
    const size_t P = (size_t)trial->ranks, s = trial->number % SHAPES;
    /* Rows of the padded vocabulary, and how many of them are padding. */
    const size_t rows[SHAPES] = {P, 2 * P, P + 1, 3 * P, 5 * P, 17, 7, 4 * P};
    const size_t padding[SHAPES] = {0, 1, 0, P, 3, 0, 0, P};
    vocab_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->tokens = B[s] * S[s];
    v->token_axis = ls_axis_of(B[s], S[s]);
    v->shape = (ls_backend_vocab){
        .B = B[s], .S = S[s], .D = D[s], .V = rows[s] - padding[s], .cut = {.granule = 1}};
    LS_TRY(ls_trial_cut(trial, rows[s], 1, s == 5 ? 1 : s == 6 ? 3 : 0, &v->shape.cut.starts));
    if (padding[s] > 0) trial->traits |= JUDGE_PADDED;
    if (B[s] > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label, "tokens %zu x %zu, D %zu, V %zu padded to %zu",
             B[s], S[s], D[s], v->shape.V, rows[s]);
    *ret_view = v;
exit:
    return status;
}

/* The first and last row of every rank among them, then at random. */
static ls_status add_ids(judge_trial *trial, vocab_view *v)
{
    ls_status status = LS_OK;
    const size_t V = v->shape.V, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "ids", JUDGE_GIVEN, 1, v->tokens, 1, NULL, &v->ids));
    v->ids->integer = true;
    for (size_t t = 0; t < v->tokens; t++) {
        size_t id = (size_t)(ls_trial_word(trial) % V);
        const size_t r = t / 2;
        if (r < (size_t)trial->ranks && starts[r] < starts[r + 1])
            id = t % 2 ? starts[r + 1] - 1 : starts[r];
        v->ids->before[t] = (double)(id < V ? id : V - 1);
    }
exit:
    return status;
}

static size_t id_of(const vocab_view *v, size_t t)
{
    return (size_t)v->ids->before[t];
}

static size_t owner_of(const judge_trial *trial, const vocab_view *v, size_t row)
{
    size_t r = 0;
    while (r + 1 < (size_t)trial->ranks && row >= v->shape.cut.starts[r + 1]) r++;
    return r;
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    vocab_view *v = NULL;
    judge_tensor *y = NULL, *table = NULL;
    double *clamped = NULL;
    ls_real *bits = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const size_t D = v->shape.D, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, v->tokens, D, 1, NULL, &y));
    LS_TRY(ls_trial_add(trial, "table", JUDGE_GIVEN, 1, starts[trial->ranks], D, starts, &table));
    LS_TRY(add_ids(trial, v));
    ls_trial_draw(trial, table, RANGE);
    LS_TRY(ls_trial_parts(trial, y));
    for (size_t i = 0; i < y->n; i++) {
        const size_t row = id_of(v, i / D);
        y->value[i] = table->before[row * D + i % D];
        y->part[owner_of(trial, v, row) * y->n + i] = y->value[i];
    }
    LS_TRY(ls_judge_reals(trial, y->n, y->value, &bits));
    y->ordered = bits;
    LS_TRY(ls_trial_variant(trial, y, LS_CAUSE_NONE,
                            "tokens of other ranks looked up as the own row 0, not left out",
                            &clamped));
    for (size_t i = 0; i < y->n; i++)
        for (size_t r = 0; r < (size_t)trial->ranks; r++)
            if (r != owner_of(trial, v, id_of(v, i / D)) && starts[r] < starts[r + 1])
                clamped[i] += table->before[starts[r] * D + i % D];
exit:
    return status;
}

static int call_forward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const vocab_view *v = trial->shape;
    return ((const ls_backend *)backend)->vocab_embedding_forward(me, b[0], b[1], b[2], &v->shape);
}

static ls_status prepare_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    vocab_view *v = NULL;
    judge_tensor *dtable = NULL, *dy = NULL;
    double *last = NULL, *summed = NULL;
    ls_real *bits = NULL, *upstream = NULL;
    int32_t *ids = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const size_t D = v->shape.D, *starts = v->shape.cut.starts, rows = starts[trial->ranks];
    LS_TRY(ls_trial_add(trial, "dtable", JUDGE_WANTED, 1, rows, D, starts, &dtable));
    LS_TRY(ls_trial_add(trial, "dy", JUDGE_GIVEN, v->tokens, D, 1, NULL, &dy));
    LS_TRY(add_ids(trial, v));
    ls_trial_draw(trial, dy, RANGE);
    for (size_t i = 0; i < dtable->n; i++) {
        approx_sum sum = {0};
        for (size_t t = 0; t < v->tokens; t++)
            if (id_of(v, t) == i / D) approx_sum_add(&sum, approx_exact(dy->before[t * D + i % D]));
        const approx total = approx_sum_end(&trial->precision, &sum);
        dtable->value[i] = total.value;
        dtable->bound[i] = total.error;
    }
    LS_TRY(ls_judge_reals(trial, dtable->n, NULL, &bits));
    LS_TRY(ls_judge_reals(trial, dy->n, dy->before, &upstream));
    LS_TRY(ls_trial_room(trial, v->tokens, sizeof *ids, &ids));
    for (size_t t = 0; t < v->tokens; t++) ids[t] = (int32_t)id_of(v, t);
    LS_TRY(ls_embedding_backward(bits, upstream, ids, v->token_axis, D, 0, rows));
    ls_normalize_zero(bits, dtable->n);
    dtable->ordered = bits;
    LS_TRY(ls_trial_variant(trial, dtable, LS_CAUSE_ASSIGNED,
                            "a row has the gradient of its last token alone", &last));
    LS_TRY(ls_trial_variant(trial, dtable, LS_CAUSE_REDUCED_TWICE,
                            "summed over ranks that all have the whole gradient", &summed));
    for (size_t t = 0; t < v->tokens; t++)
        for (size_t d = 0; d < D; d++) last[id_of(v, t) * D + d] = dy->before[t * D + d];
    for (size_t i = 0; i < dtable->n; i++) summed[i] *= trial->ranks;
exit:
    return status;
}

static int call_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const vocab_view *v = trial->shape;
    return ((const ls_backend *)backend)->vocab_embedding_backward(me, b[0], b[1], b[2], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOTH(vocab_embedding_forward, SHAPES, prepare_forward, call_forward),
    JUDGE_BOTH(vocab_embedding_backward, SHAPES, prepare_backward, call_backward),
};

const judge_chapter ls_judge_embedding = JUDGE_CHAPTER(operations);
