/* Formulas with a part too many or too few, another constant, rows written where they should be
 * added, another parameter, shards of a product met in another order, one row that is wrong: each
 * from plain loops, and named. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* ---- norms ---- */

typedef struct norm_form {
    kind kind;
    bool centred, plus_one, unweighted; /* forward */
    bool no_mean, no_along;             /* backward */
    const char *forward, *backward;     /* NULL: right */
} norm_form;

static const norm_form norms[] = {
    {LLAMA, .centred = true, .forward = "LayerNorm in the place of RMSNorm"},
    {GPT2, .forward = "RMSNorm in the place of LayerNorm"},
    {LLAMA, .plus_one = true, .forward = "1 + w", .backward = "1 + w"},
    {GPT2, .centred = true, .plus_one = true, .forward = "1 + w", .backward = "1 + w"},
    {LLAMA, .unweighted = true, .forward = "not multiplied by w", .backward = "not multiplied"},
    {LLAMA, .no_along = true, .backward = "xhat mean(g xhat)"},
    {GPT2, .centred = true, .no_along = true, .backward = "xhat mean(g xhat)"},
    {GPT2, .centred = true, .no_mean = true, .backward = "mean(g)"}};

/* layers.1.norm2 and what it sends back to after_attention, with d.layers.1.layer that goes past.
 */
static void norm(const scene *s, const norm_form *f, double *y, double *dx)
{
    const double *x = value(s, "layers.1.after_attention"), *dy = value(s, "d.layers.1.norm2");
    const double *past = value(s, "d.layers.1.layer");
    const double *w = param(s, "layers.1.norm2.weight");
    const double *shift = f->kind == LLAMA ? NULL : param(s, "layers.1.norm2.bias");
    for (size_t t = 0; t < B * S; t++) {
        double mean = 0, squares = 0, xhat[D], g[D], mean_g = 0, along = 0;
        for (size_t i = 0; i < D; i++) mean += f->centred ? x[t * D + i] / D : 0;
        for (size_t i = 0; i < D; i++) squares += pow(x[t * D + i] - mean, 2) / D;
        const double rstd = 1 / sqrt(squares + 1e-5);
        for (size_t i = 0; i < D; i++) {
            const double weight = f->unweighted ? 1 : w[i] + (f->plus_one ? 1 : 0);
            xhat[i] = (x[t * D + i] - mean) * rstd;
            y[t * D + i] = xhat[i] * weight + (shift ? shift[i] : 0);
            g[i] = dy[t * D + i] * weight;
            mean_g += f->centred && !f->no_mean ? g[i] / D : 0;
            along += f->no_along ? 0 : g[i] * xhat[i] / D;
        }
        for (size_t i = 0; i < D; i++)
            dx[t * D + i] = past[t * D + i] + rstd * (g[i] - mean_g - xhat[i] * along);
    }
}

START_TEST(norm_forms)
{
    scene s;
    const norm_form *f = &norms[_i];
    scene_begin(&s, f->kind);
    double *y = zeros(B * S * D), *dx = zeros(B * S * D);
    norm(&s, f, y, dx);
    for (int format = 0; format < 2; format++) {
        s.format = format ? LS_BF16 : LS_F32;
        if (f->forward && !(format && f->centred != (f->kind == GPT2)))
            expect_found(&s, "layers.1.norm2",
                         suspicion_of(&s, "layers.1.norm2", y, NULL, NULL, false),
                         LS_CAUSE_NORM_FORM, f->forward);
        if (f->backward && !format)
            expect_found(&s, "d.layers.1.after_attention",
                         suspicion_of(&s, "d.layers.1.after_attention", dx, NULL, NULL, false),
                         f->forward ? LS_CAUSE_NORM_FORM : LS_CAUSE_LOST_TERM, f->backward);
    }
    free(y), free(dx);
    scene_end(&s);
}
END_TEST

/* ---- activations ---- */

static double *gelu(const scene *s, double root, double cubic)
{
    const double *x = value(s, "layers.0.up");
    double *y = zeros(B * S * F);
    for (size_t i = 0; i < B * S * F; i++)
        y[i] = x[i] / 2 * (1 + tanh(root * (x[i] + cubic * x[i] * x[i] * x[i])));
    return y;
}

START_TEST(activations)
{
    scene s;
    const double root = sqrt(2 / acos(-1));
    scene_begin(&s, GPT2);
    expect_cause(&s, "layers.0.activation", gelu(&s, root, 0.44715), LS_CAUSE_GELU_VARIANT,
                 "factor of x^3 in GELU is 0.44715, not 0.044715");
    expect_cause(&s, "layers.0.activation", gelu(&s, root, 0.047715), LS_CAUSE_GELU_VARIANT,
                 "factor of x^3 in GELU is 0.047715,");
    expect_cause(&s, "layers.0.activation", gelu(&s, 0.7978, 0.044715), LS_CAUSE_GELU_VARIANT,
                 "sqrt(2 / pi) in GELU is 0.7978, not");
    expect_cause(&s, "layers.0.activation", gelu(&s, sqrt(2) / acos(-1), 0.044715),
                 LS_CAUSE_GELU_VARIANT, "sqrt(2 / pi) in GELU is 0.45016");
    const double *x = value(&s, "layers.0.up"), *dy = value(&s, "d.layers.0.activation");
    double *dx = zeros(B * S * F);
    for (size_t i = 0; i < B * S * F; i++)
        dx[i] = dy[i] / 2 * (1 + tanh(root * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
    expect_cause(&s, "d.layers.0.up", dx, LS_CAUSE_LOST_TERM, "without x times");
    scene_end(&s);
    scene_begin(&s, LLAMA);
    const double *gate = value(&s, "layers.0.gate"), *up = value(&s, "layers.0.up");
    dy = value(&s, "d.layers.0.activation"), dx = zeros(B * S * F);
    for (size_t i = 0; i < B * S * F; i++) dx[i] = dy[i] * up[i] / (1 + exp(-gate[i]));
    expect_cause(&s, "d.layers.0.gate", dx, LS_CAUSE_LOST_TERM, "without x times");
    scene_end(&s);
}
END_TEST

/* ---- rows of embeddings ---- */

START_TEST(written_rows)
{
    scene s;
    scene_begin(&s, LLAMA);
    const double *d = value(&s, "d.embedding");
    for (int last = 0; last < 2; last++) {
        double *rows = zeros(V * D);
        bool taken[V] = {false};
        size_t again = 0;
        for (size_t t = 0; t < B * S; t++) {
            const size_t word = (size_t)s.tokens[t];
            again += taken[word];
            for (size_t i = 0; i < D && (last || !taken[word]); i++)
                rows[word * D + i] = d[t * D + i];
            taken[word] = true;
        }
        ck_assert_uint_gt(again, 2);
        expect_cause(&s, "grad.token_embedding.weight", rows, LS_CAUSE_ASSIGNED,
                     last ? "the last one's part" : "the first one's part");
    }
    scene_end(&s);
}
END_TEST

/* ---- other parameters ---- */

static double *linear(const scene *s, const char *in, const double *w, const double *b,
                      size_t inner, size_t width)
{
    const double *x = value(s, in);
    double *y = zeros(B * S * width);
    for (size_t t = 0; t < B * S; t++)
        for (size_t j = 0; j < width; j++) {
            y[t * width + j] = b ? b[j] : 0;
            for (size_t i = 0; i < inner; i++)
                y[t * width + j] += x[t * inner + i] * w[i * width + j];
        }
    return y;
}

START_TEST(parameters)
{
    scene s;
    scene_begin(&s, LLAMA);
    const double *table = param(&s, "token_embedding.weight"), *x = value(&s, "final_norm");
    double *z = zeros(B * S * V);
    for (size_t i = 0; i < B * S * V; i++)
        for (size_t k = 0; k < D; k++) z[i] += x[i / V * D + k] * table[i % V * D + k];
    expect_cause(&s, "logits", z, LS_CAUSE_WRONG_PARAM, "the head is tied");
    scene_end(&s);
    scene_begin(&s, GPT2);
    const double *w = param(&s, "layers.1.attention.key.weight");
    const double *b = param(&s, "layers.1.attention.key.bias");
    double first[D], turned[D];
    for (size_t i = 0; i < D; i++) first[i] = b[i % 12], turned[i] = b[(i + 8) % D];
    expect_cause(&s, "layers.1.key", linear(&s, "layers.1.norm1", w, first, D, D),
                 LS_CAUSE_WRONG_PARAM, "those are added: 0 0");
    expect_cause(&s, "layers.1.key", linear(&s, "layers.1.norm1", w, turned, D, D),
                 LS_CAUSE_WRONG_PARAM, "those are added: 1 2 0");
    scene_end(&s);
}
END_TEST

/* Rows of the second matrix of attention and MLP in another order of shards, which no rotation and
 * no reversal is; the forward tensor is named. */
START_TEST(shards_of_a_sum)
{
    static const size_t orders[][6] = {{1, 0, 2}, {0, 2, 1}, {0, 1, 1}, {2, 0, 3, 1, 5, 4}};
    const size_t T = _i == 3 ? 6 : 3;
    scene s;
    scene_begin(&s, GPT2);
    const double *w = param(&s, "layers.0.attention.output.weight");
    const double *b = param(&s, "layers.0.attention.output.bias");
    double moved[D * D];
    for (size_t i = 0; i < D; i++)
        memcpy(moved + i * D, w + (orders[_i][i / (D / T)] * (D / T) + i % (D / T)) * D,
               D * sizeof *w);
    char text[64] = "meet its shards";
    for (size_t k = 0; k < T; k++) snprintf(text + strlen(text), 8, " %zu", orders[_i][k]);
    for (int format = 0; format < 2; format++) {
        s.format = format ? LS_BF16 : LS_F32;
        expect_cause(&s, "layers.0.attention", linear(&s, "layers.0.heads", moved, b, D, D),
                     LS_CAUSE_SHARD_ORDER, text);
    }
    s.format = LS_F32;
    w = param(&s, "layers.0.mlp.down.weight"), b = param(&s, "layers.0.mlp.down.bias");
    double down[F * D];
    for (size_t i = 0; i < F; i++)
        memcpy(down + i * D, w + (orders[_i][i / (F / T)] * (F / T) + i % (F / T)) * D,
               D * sizeof *w);
    expect_cause(&s, "layers.0.mlp", linear(&s, "layers.0.activation", down, b, F, D),
                 LS_CAUSE_SHARD_ORDER, text);
    scene_end(&s);
}
END_TEST

/* [S, B, D] of two ranks' three sequences each taken for [B, S, D]. */
START_TEST(axes)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *x = value(&s, "layers.0.attention");
    for (size_t run = 3; run <= 6; run += 3) {
        double *y = zeros(B * S * D);
        for (size_t t = 0; t < B * S; t++) {
            const size_t rank = t / (run * S), k = t % (run * S); /* place in memory */
            const size_t from = (rank * run + k % run) * S + k / run;
            memcpy(y + t * D, x + from * D, D * sizeof *y);
        }
        expect_cause(&s, "layers.0.attention", y, LS_CAUSE_TRANSPOSED,
                     run == 3 ? "within 3 sequences and 12 tokens" : "B");
    }
    scene_end(&s);
}
END_TEST

START_TEST(corrupted)
{
    scene s;
    scene_begin(&s, (kind)_i);
    double *y = copy_of(&s, "layers.0.mlp");
    for (size_t i = 0; i < D; i++) y[40 * D + i] += 0.1 * (double)(1 + i % 3);
    expect_cause(&s, "layers.0.mlp", y, LS_CAUSE_CORRUPTED_ROW, "row [3, 4] of 72 is wrong in 24");
    y = copy_of(&s, "layers.0.mlp"); /* two rows are not one */
    for (size_t i = 0; i < D; i++) y[40 * D + i] += 0.1, y[52 * D + i] -= 0.1 * (double)(i + 1);
    expect_cause(&s, "layers.0.mlp", y, LS_CAUSE_NONE, NULL);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_terms", 120);
    tcase_add_loop_test(tests, norm_forms, 0, (int)(sizeof norms / sizeof *norms));
    tcase_add_test(tests, activations);
    tcase_add_test(tests, written_rows);
    tcase_add_test(tests, parameters);
    tcase_add_loop_test(tests, shards_of_a_sum, 0, 4);
    tcase_add_test(tests, axes);
    tcase_add_loop_test(tests, corrupted, 0, 2);
    return run_tests();
}
