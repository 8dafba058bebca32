/* Sums over ranks gone wrong are named: addends that every rank added, partial sums, sums reduced
 * twice or averaged. EXACT arithmetic of the mistake, by the test's own loops. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* y of a linear without its bias: sum over the rows from .. to - 1 of the weight. */
static double *product(const scene *s, const char *x, size_t in, size_t out, const char *w,
                       size_t from, size_t to)
{
    const double *X = value(s, x), *W = param(s, w);
    double *y = zeros(B * S * out);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = from; i < to; i++)
            for (size_t j = 0; j < out; j++) y[t * out + j] += X[t * in + i] * W[i * out + j];
    return y;
}

static double *plus(double *y, const double *b, size_t width, size_t n, double times)
{
    for (size_t i = 0; i < n; i++) y[i] += times * b[i % width];
    return y;
}

/* y += what dy sends back through w [in, out], columns from .. to - 1 */
static double *back(const scene *s, double *y, const char *dy, size_t in, size_t out, const char *w,
                    size_t from, size_t to, double times)
{
    const double *dY = value(s, dy), *W = param(s, w);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < in; i++)
            for (size_t j = from; j < to; j++)
                y[t * in + i] += times * dY[t * out + j] * W[i * out + j];
    return y;
}

/* The rotary gradient of a query or key turned back, by the plain formula. */
static double *turned_back(const scene *s, const char *dy, size_t width)
{
    double *d = copy_of(s, dy);
    for (size_t t = 0; t < B * S; t++)
        for (size_t h = 0; h < width / DH; h++)
            for (size_t i = 0; i < DH / 2; i++) {
                double *a = &d[t * width + h * DH + i], *b = a + DH / 2;
                const double angle = (double)(t % S) * pow(100, -2.0 * (double)i / DH);
                const double x = *a, y = *b;
                *a = x * cos(angle) + y * sin(angle);
                *b = y * cos(angle) - x * sin(angle);
            }
    return d;
}

/* "bias added to each rank's partial product": output too large by (T - 1) bias; "bias not added";
 * rank r's part alone, with and without the bias; "reduced twice"; "averaged" */
START_TEST(row_linears)
{
    static const size_t tps[] = {2, 3, 6};
    scene s;
    scene_begin(&s, _i == 1 ? BERT : _i == 2 ? ROW_FIRST : GPT2);
    const size_t n = B * S * D;
    const double *b = param(&s, "layers.1.attention.output.bias");
    const double *c = param(&s, "layers.0.mlp.down.bias");
    char text[64];
    for (size_t i = 0; i < 3; i++) {
        const size_t T = tps[i], r = T - 1;
        const char *out = "layers.1.attention.output.weight", *heads = "layers.1.heads";
        double *y = plus(product(&s, heads, D, D, out, 0, D), b, D, n, (double)T);
        snprintf(text, sizeof text, "= %zu x layers.1.attention.output.bias", T - 1);
        expect_cause(&s, "layers.1.attention", y, LS_CAUSE_BIAS_PER_RANK, text);

        y = plus(product(&s, heads, D, D, out, r * D / T, (r + 1) * D / T), b, D, n, 1);
        snprintf(text, sizeof text, "rank %zu of tp %zu", r, T);
        expect_cause(&s, "layers.1.attention", y, LS_CAUSE_NOT_REDUCED, text);
        y = product(&s, "layers.0.activation", F, D, "layers.0.mlp.down.weight", 0, F / T);
        snprintf(text, sizeof text, "rank 0 of tp %zu", T);
        expect_cause(&s, "layers.0.mlp", y, LS_CAUSE_NOT_REDUCED, text);

        y = product(&s, heads, D, D, out, 0, D);
        for (size_t e = 0; e < n; e++) y[e] *= (double)T;
        snprintf(text, sizeof text, "candidate = %zu x right, the bias once", T);
        expect_cause(&s, "layers.1.attention", plus(y, b, D, n, 1), LS_CAUSE_REDUCED_TWICE, text);
        y = copy_of(&s, "layers.0.mlp");
        for (size_t e = 0; e < n; e++) y[e] *= (double)T;
        snprintf(text, sizeof text, "candidate = %zu x right", T);
        expect_cause(&s, "layers.0.mlp", y, LS_CAUSE_REDUCED_TWICE, text);

        y = product(&s, "layers.0.activation", F, D, "layers.0.mlp.down.weight", 0, F);
        for (size_t e = 0; e < n; e++) y[e] /= (double)T;
        snprintf(text, sizeof text, "candidate = 1/%zu x right, the bias once", T);
        expect_cause(&s, "layers.0.mlp", plus(y, c, D, n, 1), LS_CAUSE_AVERAGED, text);
    }
    double *y = product(&s, "layers.0.activation", F, D, "layers.0.mlp.down.weight", 0, F);
    expect_cause(&s, "layers.0.mlp", y, LS_CAUSE_BIAS_MISSING, "layers.0.mlp.down.bias");
    scene_end(&s);
}
END_TEST

/* What column-parallel linears send back: one rank's part; "the input boundary reduced the
 * gradient, a later reduction did it again": the rows through the column-parallel layer TP times */
START_TEST(gradients_into_blocks)
{
    scene s;
    scene_begin(&s, GPT2);
    const size_t n = B * S * D;
    double *y = back(&s, zeros(n), "d.layers.1.up", D, F, "layers.1.mlp.up.weight", 20, 40, 1);
    expect_cause(&s, "d.layers.1.norm2", y, LS_CAUSE_NOT_REDUCED, "rank 1 of tp 3");

    y = zeros(n);
    static const char *const which[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        char dy[64], w[64];
        snprintf(dy, sizeof dy, "d.layers.0.%s", which[i]);
        snprintf(w, sizeof w, "layers.0.attention.%s.weight", which[i]);
        back(&s, y, dy, D, D, w, 12, 24, 1);
    }
    expect_cause(&s, "d.layers.0.norm1", y, LS_CAUSE_NOT_REDUCED, "rank 1 of tp 2");

    y = copy_of(&s, "d.layers.0.norm1");
    back(&s, y, "d.layers.0.value", D, D, "layers.0.attention.value.weight", 0, D, 1);
    expect_cause(&s, "d.layers.0.norm1", y, LS_CAUSE_REDUCED_TWICE,
                 "layers.0.value counts 2 times");
    y = copy_of(&s, "d.layers.0.norm2");
    for (size_t i = 0; i < n; i++) y[i] *= 4;
    expect_cause(&s, "d.layers.0.norm2", y, LS_CAUSE_REDUCED_TWICE, "4 x right");

    /* the vocabulary: granules of 64 words */
    y = zeros(n);
    const double *dz = value(&s, "d.logits"), *w = param(&s, "token_embedding.weight");
    for (size_t t = 0; t < B * S; t++)
        for (size_t v = 192; v < V; v++)
            for (size_t c = 0; c < D; c++) y[t * D + c] += dz[t * V + v] * w[v * D + c];
    expect_cause(&s, "d.final_norm", y, LS_CAUSE_NOT_REDUCED, "rank 1 of tp 2");

    /* rank 0's part in the place of rank 1's */
    y = back(&s, zeros(n), "d.layers.1.up", D, F, "layers.1.mlp.up.weight", 0, 30, 2);
    expect_cause(&s, "d.layers.1.norm2", y, LS_CAUSE_NOT_REDUCED, "granules count 2 2 2 0 0 0");

    /* the residual bypasses: only what comes through the norm twice */
    const double *through = value(&s, "d.layers.0.after_attention"),
                 *bypass = value(&s, "d.layers.0.layer");
    y = zeros(n);
    for (size_t i = 0; i < n; i++) y[i] = 2 * through[i] - bypass[i];
    expect_cause(&s, "d.layers.0.after_attention", y, LS_CAUSE_REDUCED_TWICE,
                 "by way of layers.0.norm2 counts 2 times");
    scene_end(&s);
}
END_TEST

START_TEST(grouped_heads)
{
    scene s;
    scene_begin(&s, LLAMA);
    const size_t n = B * S * D, kv = 2 * DH;
    double *dq = turned_back(&s, "d.layers.1.query", D),
           *dk = turned_back(&s, "d.layers.1.key", kv);
    const double *dv = value(&s, "d.layers.1.value");
    const double *wq = param(&s, "layers.1.attention.query.weight");
    const double *wk = param(&s, "layers.1.attention.key.weight");
    const double *wv = param(&s, "layers.1.attention.value.weight");
    double *y = zeros(n);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < D; i++) {
            for (size_t j = 0; j < D / 2; j++) y[t * D + i] += dq[t * D + j] * wq[i * D + j];
            for (size_t j = 0; j < kv / 2; j++)
                y[t * D + i] += dk[t * kv + j] * wk[i * kv + j] + dv[t * kv + j] * wv[i * kv + j];
        }
    expect_cause(&s, "d.layers.1.norm1", y, LS_CAUSE_NOT_REDUCED, "rank 0 of tp 2");
    free(dq), free(dk);

    /* a key/value head on several ranks: each has the part of its own query heads; here dV of
     * query heads 0 and 3 alone (tp 6) */
    const double *P = value(&s, "layers.1.probabilities"), *d_o = value(&s, "d.layers.1.heads");
    const ls_stream stream = {99, LS_RANDOM_DROPOUT_ATTENTION, 1, 5};
    y = zeros(B * S * kv);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h += 3)
            for (size_t i = 0; i < S; i++)
                for (size_t j = 0; j <= i; j++) {
                    const size_t at = ((b * H + h) * S + i) * S + j;
                    if (!ls_random_keep(stream, at, 0.1)) continue;
                    for (size_t c = 0; c < DH; c++)
                        y[(b * S + j) * kv + h / 3 * DH + c] +=
                            P[at] / 0.9 * d_o[(b * S + i) * D + h * DH + c];
                }
    expect_cause(&s, "d.layers.1.value", y, LS_CAUSE_NOT_REDUCED, "1 of the 3 query heads");
    scene_end(&s);
}
END_TEST

/* Under sequence parallelism: each rank keeps its own part for its own tokens. */
START_TEST(reduce_scatter)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *x = value(&s, "layers.1.heads");
    const double *w = param(&s, "layers.1.attention.output.weight");
    const double *b = param(&s, "layers.1.attention.output.bias");
    double *y = plus(zeros(B * S * D), b, D, B * S * D, 1), *dx = zeros(B * S * D);
    const double *dy = value(&s, "d.layers.1.up"), *up = param(&s, "layers.1.mlp.up.weight");
    for (size_t t = 0; t < B * S; t++) {
        const size_t rank = t % S / 4;
        for (size_t j = 0; j < D; j++) {
            for (size_t i = rank * 8; i < rank * 8 + 8; i++)
                y[t * D + j] += x[t * D + i] * w[i * D + j];
            for (size_t i = rank * 20; i < rank * 20 + 20; i++)
                dx[t * D + j] += dy[t * F + i] * up[j * F + i];
        }
    }
    expect_cause(&s, "layers.1.attention", y, LS_CAUSE_NOT_REDUCED, "each of 3 shares");
    expect_cause(&s, "d.layers.1.norm2", dx, LS_CAUSE_NOT_REDUCED, "each of 3 shares");
    scene_end(&s);
}
END_TEST

/* Position rows that every rank added; a rank's own words alone; the residual added by every rank
 */
START_TEST(embedding_and_residual)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *w = param(&s, "token_embedding.weight");
    const double *p = param(&s, "position_embedding.weight");
    double *y = copy_of(&s, "embedding");
    for (size_t i = 0; i < B * S * D; i++) y[i] += 2 * p[i % (S * D)];
    expect_cause(&s, "embedding", y, LS_CAUSE_REDUCED_TWICE,
                 "position_embedding.weight counts 3 times");
    y = copy_of(&s, "embedding");
    for (size_t i = 0; i < B * S * D; i++) y[i] -= p[i % (S * D)];
    expect_cause(&s, "embedding", y, LS_CAUSE_POSITIONS, "position_embedding.weight");
    y = zeros(B * S * D);
    for (size_t i = 0; i < B * S * D; i++) {
        const size_t token = (size_t)s.tokens[i / D];
        y[i] = (token >= 128 && token < 256 ? w[token * D + i % D] : 0) + p[i % (S * D)];
    }
    expect_cause(&s, "embedding", y, LS_CAUSE_NOT_REDUCED, "rank 1 of tp 3");
    y = copy_of(&s, "layers.0.after_attention");
    for (size_t i = 0; i < B * S * D; i++) y[i] += value(&s, "embedded")[i];
    expect_cause(&s, "layers.0.after_attention", y, LS_CAUSE_REDUCED_TWICE,
                 "embedded counts 2 times");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_sum", 120);
    tcase_add_loop_test(tests, row_linears, 0, 3);
    tcase_add_test(tests, gradients_into_blocks);
    tcase_add_test(tests, grouped_heads);
    tcase_add_test(tests, reduce_scatter);
    tcase_add_test(tests, embedding_and_residual);
    return run_tests();
}
