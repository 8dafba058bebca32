/* Both ends of BERT with numbers worked out beforehand, on every rank of every degree, with and
 * without shares of tokens, in one micro-batch and in two: what the three tables and the norm of
 * the embedding give and get (EXACT), what the two heads cost, and what each bias and each first
 * token gets. Every sum over tokens, labels, ranks and micro-batches counts each of its terms once.
 */
#include "stage_fixture.h"
#include "run_tests.h"

enum { B = 5, S = 4, ROWS = B * S, D = 24, V = 300, TYPES = 3 };

/* One stage of a model, a batch, what goes in at both sides, and what the ranks make of it. */
typedef struct job {
    ls_param_table *table;
    double *values; /* whole tensors in table order */
    ls_stage_setup setup;
    size_t parts; /* micro-batches, 1 or 2 */
    ls_batch batch;
    ls_valid valid;
    int32_t tokens[ROWS], targets[ROWS], segments[ROWS], order[B];
    ls_real x[ROWS * D], dy[ROWS * D];
    ls_store *store[MOST_RANKS];
    ls_real out[MOST_RANKS][ROWS * D], dx[MOST_RANKS][ROWS * D]; /* own tokens; NaN elsewhere */
    ls_real token_losses[MOST_RANKS][B], order_losses[MOST_RANKS][B];
} job;

static job *job_begin(ls_norm_place place, bool embedding)
{
    ls_config config = tiny_bert("ends", place);
    job *j = calloc(1, sizeof *j);
    uint64_t state = 17;
    config.layers = 1; /* not of this stage */
    config.heads = config.kv_heads = 12;
    config.d_model = D;
    config.d_ff = 36;
    config.seq = S + 2;
    config.vocab = V;
    config.tied = false;
    config.norm_eps = 1e-30;
    ck_assert_msg(ls_param_table_create(&j->table, &config) == LS_OK, "%s", ls_error_text());
    j->values = calloc(ls_param_table_elements(j->table), sizeof *j->values);
    j->setup = (ls_stage_setup){.embedding = embedding, .head = !embedding, .batch = B};
    for (size_t t = 0; t < ROWS; t++) {
        j->tokens[t] = (int32_t)(t * 97 % 283 * (t != 7)); /* the first comes twice */
        j->targets[t] = LS_IGNORE;
        j->segments[t] = (int32_t)(t * t / 3 % 2) * 2; /* type 1 never comes */
        for (size_t d = 0; d < D; d++)
            j->dy[t * D + d] =
                (ls_real)((int)(fabs((double)reference_noise(&state)) * 1e3) % 7 - 3);
    }
    j->batch = (ls_batch){.B = B,
                          .S = S,
                          .tokens = j->tokens,
                          .targets = j->targets,
                          .segments = j->segments,
                          .order = j->order};
    return j;
}

static void job_end(job *j)
{
    free(j->values);
    ls_param_table_destroy(&j->table);
    free(j);
}

static double *values_of(const job *j, ls_role role)
{
    size_t i = ls_param_find(j->table, role, 0);
    ck_assert_uint_lt(i, j->table->count);
    return j->values + place_in_table(j->table, i);
}

/* An integer from -3 to 3, by place. */
static void fill(const job *j, ls_role role)
{
    uint64_t state = 1000 + 7 * (uint64_t)role;
    size_t n = ls_param_elements(&j->table->params[ls_param_find(j->table, role, 0)]);
    for (size_t e = 0; e < n; e++)
        values_of(j, role)[e] = (int)(fabs((double)reference_noise(&state)) * 1e4) % 7 - 3;
}

/* ---- on the ranks ---- */

static ls_status pass_part(job *j, ls_stage *stage, ls_micro_batch *mb, size_t first, size_t count,
                           int r, ls_share own)
{
    ls_status status = LS_OK;
    ls_batch part = ls_batch_part(&j->batch, first, count);
    size_t at = first * S * D, from = own.first * D, width = own.count * D;
    ls_real *x = columns_of(j->x + at, count, S * D, from, width);
    ls_real *dy = columns_of(j->dy + at, count, S * D, from, width);
    const ls_real *y, *dx;
    ls_valid valid;
    ls_sequence_losses all = {j->token_losses[r], j->order_losses[r]};

    LS_TRY(ls_stage_forward(stage, mb, &part, j->setup.embedding ? NULL : x, &y));
    if (y) put_columns(j->out[r] + at, y, count, S * D, from, width);
    if (j->setup.head) losses_put(all, first, ls_micro_batch_losses(mb, &valid), count);
    LS_TRY(ls_stage_backward(stage, mb, j->setup.head ? NULL : dy, j->valid, &dx));
    if (dx) put_columns(j->dx[r] + at, dx, count, S * D, from, width);
exit:
    free(x), free(dy);
    return status;
}

static ls_status job_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    ls_group *tp = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_group_size(tp);
    ls_stage_setup setup = j->setup;
    ls_share own = {0, S};
    ls_stage *stage = NULL;
    ls_micro_batch *mb = NULL;

    setup.tp = tp;
    if (setup.sequence_parallel) own = ls_share_of(S, (size_t)size, (size_t)r);
    for (size_t i = 0; i < ROWS * D; i++) j->out[r][i] = j->dx[r][i] = (ls_real)NAN;
    LS_TRY(store_begin(&j->store[r], j->table, size, r, j->values));
    LS_TRY(ls_store_gradient_slots(j->store[r], B));
    LS_TRY(ls_stage_create(&stage, &setup, j->store[r]));
    LS_TRY(ls_micro_batch_create(&mb, stage));
    ls_stage_begin_gradients(stage);
    LS_TRY(pass_part(j, stage, mb, 0, j->parts == 1 ? B : 2, r, own));
    if (j->parts == 2) LS_TRY(pass_part(j, stage, mb, 2, B - 2, r, own));
    ls_stage_settle_gradients(stage);
    ls_stage_finish_gradients(stage);
exit:
    ls_micro_batch_destroy(&mb);
    ls_stage_destroy(&stage);
    return status;
}

typedef void (*check)(const job *j, int tp, int r, ls_share own);

/* In every degree, tokens whole and in shares, in one and in two micro-batches. */
static void run_all(job *j, check check_rank)
{
    for (int i = 0; i < 4 * LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i / 4];
        j->setup.sequence_parallel = i % 2;
        j->parts = 1 + (size_t)(i / 2 % 2);
        run_ranks(tp, job_rank, j);
        for (int r = 0; r < tp; r++) {
            ls_share own = {0, S};
            if (j->setup.sequence_parallel) own = ls_share_of(S, (size_t)tp, (size_t)r);
            check_rank(j, tp, r, own);
            ls_store_destroy(&j->store[r]);
        }
    }
}

/* ---- checks ---- */

static const ls_slot *slot_of(const job *j, int r, ls_role role)
{
    const ls_slot *slot = ls_store_slot(j->store[r], role, 0);
    ck_assert_ptr_nonnull(slot);
    return slot;
}

/* A gradient that every rank has whole, against right values: exactly, also the sign of 0, or to
 * `most`. */
static void ck_gradient(const job *j, int tp, int r, ls_role role, const double *right, double most)
{
    const ls_slot *slot = slot_of(j, r, role);
    for (size_t e = 0; e < slot->rows * slot->cols; e++) {
        double found = (double)slot->grad[0][e], wanted = right ? right[e] : 0;
        bool fits = most > 0 ? fabs(found - wanted) <= most
                             : found == wanted && (found != 0 || !signbit(found));
        ck_assert_msg(fits, "%s, tp %d, rank %d, %s, %zu parts, element %zu: %.9g, right is %.9g",
                      j->table->params[ls_param_find(j->table, role, 0)].name, tp, r,
                      j->setup.sequence_parallel ? "shares" : "whole", j->parts, e, found, wanted);
    }
}

/* The same for the token embedding or the vocabulary's bias, of which a rank has its words. */
static void ck_words(const job *j, int tp, int r, ls_role role, size_t width, const double *right,
                     double most)
{
    const ls_slot *slot = slot_of(j, r, role);
    size_t first = slot->shard.first * 32; /* 384 padded words, 12 granules */
    for (size_t e = 0; e < slot->rows * slot->cols; e++) {
        size_t place = first * width + e;
        double found = (double)slot->grad[0][e], wanted = place < V * width ? right[place] : 0;
        ck_assert_msg(fabs(found - wanted) <= most,
                      "tp %d, rank %d, place %zu: %.9g, right is %.9g", tp, r, place, found,
                      wanted);
    }
}

/* ---- the embedding ---- */

static void check_tables(const job *j, int tp, int r, ls_share own)
{
    static double token[V * D], position[(S + 2) * D], type[TYPES * D];
    memset(token, 0, sizeof token);
    memset(position, 0, sizeof position);
    memset(type, 0, sizeof type);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t d = 0; d < D; d++) {
            size_t s = t % S, k = j->batch.segments ? (size_t)j->segments[t] : 0;
            size_t v = (size_t)j->tokens[t];
            double y = values_of(j, LS_TOKEN_EMBEDDING)[v * D + d] +
                       values_of(j, LS_POSITION_EMBEDDING)[s * D + d] +
                       values_of(j, LS_TYPE_EMBEDDING)[k * D + d];
            double found = (double)j->out[r][t * D + d];
            if (s >= own.first && s < own.first + own.count)
                ck_assert_msg(found == y, "tp %d, rank %d, token %zu: %g, right is %g", tp, r, t,
                              found, y);
            else
                ck_assert(isnan(found));
            token[v * D + d] += (double)j->dy[t * D + d];
            position[s * D + d] += (double)j->dy[t * D + d];
            type[k * D + d] += (double)j->dy[t * D + d];
        }
    ck_gradient(j, tp, r, LS_POSITION_EMBEDDING, position, 0);
    ck_gradient(j, tp, r, LS_TYPE_EMBEDDING, type, 0); /* a type that never comes: +0 */
    ck_words(j, tp, r, LS_TOKEN_EMBEDDING, D, token, 0);
}

/* Known bugs: rows of types that get the gradient of a rank's own tokens alone, or once per rank.
 */
START_TEST(tables)
{
    job *j = job_begin(LS_NORM_PRE, true);
    j->valid.targets = 1;
    fill(j, LS_TOKEN_EMBEDDING);
    fill(j, LS_POSITION_EMBEDDING);
    fill(j, LS_TYPE_EMBEDDING);
    if (_i) j->batch.segments = NULL; /* all of type 0 */
    run_all(j, check_tables);
    job_end(j);
}
END_TEST

static void check_norm(const job *j, int tp, int r, ls_share own)
{
    double scale[D] = {0}, shift[D] = {0};
    for (size_t t = 0; t < ROWS; t++)
        for (size_t d = 0; d < D; d++) {
            double e = values_of(j, LS_TOKEN_EMBEDDING)[(size_t)j->tokens[t] * D + d];
            double y = e * values_of(j, LS_EMBEDDING_NORM_SCALE)[d] +
                       values_of(j, LS_EMBEDDING_NORM_SHIFT)[d];
            if (t % S >= own.first && t % S < own.first + own.count)
                ck_assert((double)j->out[r][t * D + d] == y);
            scale[d] += (double)j->dy[t * D + d] * e;
            shift[d] += (double)j->dy[t * D + d];
        }
    ck_gradient(j, tp, r, LS_EMBEDDING_NORM_SCALE, scale, 0);
    ck_gradient(j, tp, r, LS_EMBEDDING_NORM_SHIFT, shift, 0);
}

/* Rows half of 1 and half of -1 are their own normal form. Known bug: parameters of a norm on token
 * shares left unreduced. */
START_TEST(embedding_norm)
{
    job *j = job_begin(LS_NORM_POST, true);
    j->valid.targets = 1;
    for (size_t e = 0; e < V * D; e++) {
        size_t v = e / D, d = e % D;
        values_of(j, LS_TOKEN_EMBEDDING)[e] = (d + v) % 2 == (v * v / 5) % 2 ? 1 : -1;
    }
    fill(j, LS_EMBEDDING_NORM_SCALE);
    fill(j, LS_EMBEDDING_NORM_SHIFT);
    run_all(j, check_norm);
    job_end(j);
}
END_TEST

/* ---- the heads ---- */

/* Three words share what softmax gives, by their biases alone: the decoder's matrix is 0. */
static const size_t words[3] = {40, 299, 130};
static const double word_share[3] = {0.5, 0.3, 0.2}, order_share[2] = {0.8, 0.2};

/* The pooler turns and doubles first tokens of 0 into p = 0, where tanh has slope 1: so the logits
 * of the order are its biases, and its gradient comes back through two known matrices. */
static size_t turned(size_t d)
{
    return (d * 5 + 3) % D;
}

static job *heads_begin(void)
{
    static const int32_t order[B] = {0, 1, LS_IGNORE, 1, 1};
    job *j = job_begin(LS_NORM_POST, false);
    memcpy(j->order, order, sizeof order);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t d = 0; d < D; d++)
            j->x[t * D + d] = t % S == 0 ? 0 : j->dy[t * D + d]; /* what others are is no matter */
    for (size_t v = 0; v < V; v++) values_of(j, LS_VOCAB_BIAS)[v] = -1000;
    for (size_t k = 0; k < 3; k++) values_of(j, LS_VOCAB_BIAS)[words[k]] = log(word_share[k]);
    for (size_t d = 0; d < D; d++) values_of(j, LS_POOLER_WEIGHT)[d * D + turned(d)] = 2;
    fill(j, LS_ORDER_WEIGHT);
    for (size_t c = 0; c < 2; c++) values_of(j, LS_ORDER_BIAS)[c] = log(order_share[c]);
    return j;
}

/* Word k of token t; 3: none. */
static size_t word_of(const job *j, size_t t)
{
    size_t k = 0;
    while (k < 3 && j->targets[t] != (int32_t)words[k]) k++;
    return k;
}

/* Gradient of the order's logits for one sequence. */
static double order_gradient(const job *j, size_t b, size_t c)
{
    if (j->valid.labels == 0 || j->order[b] == LS_IGNORE) return 0;
    return (order_share[c] - ((size_t)j->order[b] == c)) / (double)j->valid.labels;
}

static void check_losses(const job *j, int r)
{
    for (size_t b = 0; b < B; b++) {
        double tokens = 0, order = 0;
        for (size_t s = 0; s < S; s++)
            if (word_of(j, b * S + s) < 3) tokens -= log(word_share[word_of(j, b * S + s)]);
        if (j->order[b] != LS_IGNORE) order = -log(order_share[j->order[b]]);
        ck_assert(fabs((double)j->token_losses[r][b] - tokens) <= 2e-6);
        ck_assert(fabs((double)j->order_losses[r][b] - order) <= 1e-6);
        if (order == 0) ck_assert(signbit(j->order_losses[r][b])); /* no term: -0 (rule 14) */
    }
}

static void check_heads(const job *j, int tp, int r, ls_share own)
{
    static double bias[V];
    double classifier[2] = {0}, pooler[D] = {0};
    memset(bias, 0, sizeof bias);
    for (size_t k = 0; k < 3 && j->valid.targets > 0; k++) {
        for (size_t t = 0; t < ROWS; t++) bias[words[k]] -= word_of(j, t) == k;
        bias[words[k]] = bias[words[k]] / (double)j->valid.targets + word_share[k];
    }
    for (size_t b = 0; b < B; b++)
        for (size_t d = 0; d < D; d++) {
            double dp = 0;
            for (size_t c = 0; c < 2; c++)
                dp += order_gradient(j, b, c) * values_of(j, LS_ORDER_WEIGHT)[turned(d) * 2 + c];
            pooler[turned(d)] += dp;
            for (size_t s = own.first; s < own.first + own.count; s++) {
                double found = (double)j->dx[r][(b * S + s) * D + d];
                double right = s == 0 ? 2 * dp : 0; /* once, however many ranks compute it */
                ck_assert_msg(fabs(found - right) <= 1e-6,
                              "tp %d, rank %d, sequence %zu, token %zu: %.9g, right is %.9g", tp, r,
                              b, s, found, right);
            }
        }
    for (size_t b = 0; b < B; b++)
        for (size_t c = 0; c < 2; c++) classifier[c] += order_gradient(j, b, c);
    check_losses(j, r);
    double most = j->valid.labels > 0 ? 1e-6 : 0; /* without labels +0, exactly */
    ck_gradient(j, tp, r, LS_ORDER_BIAS, classifier, most);
    ck_gradient(j, tp, r, LS_POOLER_BIAS, pooler, most);
    ck_gradient(j, tp, r, LS_ORDER_WEIGHT, NULL, most); /* p is 0 */
    ck_gradient(j, tp, r, LS_POOLER_WEIGHT, NULL, most);
    ck_words(j, tp, r, LS_VOCAB_BIAS, 1, bias, j->valid.targets > 0 ? 1e-6 : 0);
    if (j->valid.targets == 0) {
        ck_gradient(j, tp, r, LS_MASKED_DENSE_WEIGHT, NULL, 0);
        ck_gradient(j, tp, r, LS_MASKED_DENSE_BIAS, NULL, 0);
        ck_gradient(j, tp, r, LS_MASKED_NORM_SCALE, NULL, 0);
        ck_gradient(j, tp, r, LS_MASKED_NORM_SHIFT, NULL, 0);
        ck_gradient(j, tp, r, LS_HEAD_WEIGHT, NULL, 0);
    }
}

/* Both losses, each alone, neither: each is a mean over its own terms. Known bugs: a bias of the
 * vocabulary added once per rank; a gradient that all ranks compute alike added once per rank; a
 * mean of the micro-batches' means. */
START_TEST(heads)
{
    job *j = heads_begin();
    bool targets = _i % 2 || _i == 4, labels = _i & 2;
    for (size_t t = 0; targets && t < ROWS; t++) /* 1, 2, 3, ... of the sequences */
        if (t % S <= t / S) j->targets[t] = (int32_t)words[t * t % 3];
    for (size_t b = 0; !labels && b < B; b++) j->order[b] = LS_IGNORE;
    for (size_t t = 0; t < ROWS; t++) j->valid.targets += j->targets[t] != LS_IGNORE;
    for (size_t b = 0; b < B; b++) j->valid.labels += j->order[b] != LS_IGNORE;
    if (_i == 4) j->batch.order = NULL; /* as if all were unknown */
    run_all(j, check_heads);
    job_end(j);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("ends", 60);
    tcase_add_loop_test(tests, tables, 0, 2);
    tcase_add_test(tests, embedding_norm);
    tcase_add_loop_test(tests, heads, 0, 5);
    return run_tests();
}
