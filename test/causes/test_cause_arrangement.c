/* Right numbers in wrong places are named: shards in another order or joined along another
 * dimension, transposed matrices, query, key and value or gate and up taken for one another. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

static double *linear(const scene *s, const double *x, size_t in, const double *w, const double *b,
                      size_t out)
{
    double *y = zeros(B * S * out);
    (void)s;
    for (size_t t = 0; t < B * S; t++)
        for (size_t j = 0; j < out; j++) {
            y[t * out + j] = b ? b[j] : 0;
            for (size_t i = 0; i < in; i++) y[t * out + j] += x[t * in + i] * w[i * out + j];
        }
    return y;
}

/* rows x cols of `from`, its columns given by map. */
static double *columns(const double *from, size_t rows, size_t cols, const size_t *map)
{
    double *to = zeros(rows * cols);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) to[r * cols + c] = from[r * cols + map[c]];
    return to;
}

static void blocks(size_t *map, size_t width, size_t count, const size_t *order)
{
    for (size_t c = 0; c < width; c++)
        map[c] = order[c / (width / count)] * (width / count) + c % (width / count);
}

/* "a permuted layout"; "nested shards gathered flat"; "samples [0,1,0,1] for [0,1,2,3]" */
START_TEST(results)
{
    scene s;
    static const size_t reverse[] = {2, 1, 0}, odd[] = {2, 0, 3, 1}, twice[] = {0, 2, 0, 2},
                        copied[] = {0, 2, 2, 3};
    size_t map[F];
    scene_begin(&s, GPT2);
    blocks(map, D, 3, reverse);
    expect_cause(&s, "layers.1.heads", columns(value(&s, "layers.1.heads"), B * S, D, map),
                 LS_CAUSE_SHARD_ORDER, "blocks of D are the right ones in the order 2 1 0");
    blocks(map, F, 4, odd);
    expect_cause(&s, "layers.0.activation",
                 columns(value(&s, "layers.0.activation"), B * S, F, map), LS_CAUSE_SHARD_ORDER,
                 "4 blocks of F are the right ones in the order 2 0 3 1");
    blocks(map, D, 4, twice);
    expect_cause(&s, "d.layers.1.heads", columns(value(&s, "d.layers.1.heads"), B * S, D, map),
                 LS_CAUSE_SHARD_ORDER, "order 0 2 0 2");
    expect_cause(&s, "grad.layers.0.attention.query.weight",
                 columns(value(&s, "grad.layers.0.attention.query.weight"), D, D, map),
                 LS_CAUSE_SHARD_ORDER, "order 0 2 0 2");
    /* A block that is a copy of another is no order. */
    blocks(map, F, 4, copied);
    expect_cause(&s, "layers.0.activation",
                 columns(value(&s, "layers.0.activation"), B * S, F, map), LS_CAUSE_NONE, "");

    /* sequences in another order, tokens in another order */
    const double *x = value(&s, "layers.0.norm1");
    double *y = zeros(B * S * D), *z = zeros(B * S * D), *e = zeros(B * S * D);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < D; i++) {
            y[t * D + i] = x[((t / S + 3) % B * S + t % S) * D + i];
            z[t * D + i] = x[(t / S * S + (t % S + 4) % S) * D + i];
            e[(t % S * B + t / S) * D + i] = x[t * D + i];
        }
    expect_cause(&s, "layers.0.norm1", y, LS_CAUSE_SHARD_ORDER, "2 blocks of B");
    expect_cause(&s, "layers.0.norm1", z, LS_CAUSE_SHARD_ORDER, "3 blocks of S");
    expect_cause(&s, "layers.0.norm1", e, LS_CAUSE_TRANSPOSED, "B and S are exchanged");

    /* "a gather along the first dimension taken for one along the last": shards [2][B S][F / 2] */
    const double *a = value(&s, "layers.0.activation");
    y = zeros(B * S * F), z = zeros(B * S * F);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < F; i++) {
            y[(i / (F / 2) * B * S + t) * (F / 2) + i % (F / 2)] = a[t * F + i];
            /* dealt out one by one: feature i of rank r is i * 3 + r */
            z[t * F + i] = a[t * F + i % (F / 3) * 3 + i / (F / 3)];
        }
    expect_cause(&s, "layers.0.activation", y, LS_CAUSE_SHARD_ORDER,
                 "2 shards of F stand one after another along");
    expect_cause(&s, "layers.0.activation", z, LS_CAUSE_SHARD_ORDER, "one by one to 3 shards");
    scene_end(&s);
}
END_TEST

/* A weight's shards reversed, its bias with them; inputs of a linear in another order. */
START_TEST(operands)
{
    scene s;
    scene_begin(&s, _i == 0 ? GPT2 : LLAMA);
    static const size_t reverse[] = {1, 0}, rotated[] = {1, 2, 0};
    size_t map[F];
    const double *x = value(&s, "layers.0.norm1"), *h = value(&s, "layers.1.activation");
    const double *down = param(&s, "layers.1.mlp.down.weight");
    const double *bias = _i == 0 ? param(&s, "layers.1.mlp.down.bias") : NULL;

    /* a row-cut matrix with its shards of rows rotated: as its input's columns the other way */
    blocks(map, F, 3, rotated);
    double *w = zeros(F * D);
    for (size_t i = 0; i < F; i++) memcpy(w + i * D, down + map[i] * D, D * sizeof *w);
    expect_cause(&s, "layers.1.mlp", linear(&s, h, F, w, bias, D), LS_CAUSE_SHARD_ORDER,
                 "3 shards of");
    free(w);

    if (_i == 0) {
        blocks(map, D, 2, reverse);
        w = columns(param(&s, "layers.0.attention.query.weight"), D, D, map);
        double *b = columns(param(&s, "layers.0.attention.query.bias"), 1, D, map);
        expect_cause(&s, "layers.0.query", linear(&s, x, D, w, b, D), LS_CAUSE_SHARD_ORDER,
                     "order 1 0");
        free(w), free(b);
    }

    /* sequence shards gathered from the second rank on, and joined along the batch */
    double *rows = zeros(B * S * D), *joined = zeros(B * S * D);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < D; i++) {
            rows[t * D + i] = x[(t / S * S + (t % S + S / 3) % S) * D + i];
            const size_t r = t % S / (S / 3), at = (r * B + t / S) * (S / 3) + t % (S / 3);
            joined[at * D + i] = x[t * D + i];
        }
    const double *wv = param(&s, "layers.0.attention.value.weight");
    const double *bv = _i == 0 ? param(&s, "layers.0.attention.value.bias") : NULL;
    const size_t Dv = _i == 0 ? D : 2 * DH;
    expect_cause(&s, "layers.0.value", linear(&s, rows, D, wv, bv, Dv), LS_CAUSE_SHARD_ORDER,
                 "order 1 2 0");
    expect_cause(&s, "layers.0.value", linear(&s, joined, D, wv, bv, Dv), LS_CAUSE_SHARD_ORDER,
                 "3 shards of S");
    /* 5 shards of 12 tokens, 3, 3, 2, 2, 2, of two sequences at a time */
    size_t at = 0;
    for (size_t pair = 0; pair < B; pair += 2)
        for (size_t r = 0, from = 0; r < 5; from += r < 2 ? 3 : 2, r++)
            for (size_t b = pair; b < pair + 2; b++)
                for (size_t t = from; t < from + (r < 2 ? 3 : 2); t++, at++)
                    memcpy(joined + at * D, x + (b * S + t) * D, D * sizeof *x);
    expect_cause(&s, "layers.0.value", linear(&s, joined, D, wv, bv, Dv), LS_CAUSE_SHARD_ORDER,
                 "5 shards of S one after another");
    free(rows), free(joined);

    /* words of another rank's rows: the table's granules of 64 words, 384 with padding, in threes
     */
    const double *e = param(&s, "token_embedding.weight");
    double *y = copy_of(&s, "embedding");
    for (size_t i = 0; i < B * S * D; i++) {
        const size_t token = (size_t)s.tokens[i / D],
                     other = token < 192 ? token + 192 : token - 192;
        y[i] += (other < V ? e[other * D + i % D] : 0) - e[token * D + i % D];
    }
    expect_cause(&s, "embedding", y, LS_CAUSE_SHARD_ORDER, "shards of token_embedding");
    scene_end(&s);
}
END_TEST

START_TEST(transposed)
{
    scene s;
    scene_begin(&s, _i == 0 ? GPT2 : _i == 1 ? LLAMA : BERT);
    const double *h = value(&s, "layers.1.heads");
    const double *w = param(&s, "layers.1.attention.output.weight");
    const double *b = _i == 1 ? NULL : param(&s, "layers.1.attention.output.bias");
    double *t = zeros(D * D), *u = zeros(D * F);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) t[j * D + i] = w[i * D + j];
    expect_cause(&s, "layers.1.attention", linear(&s, h, D, t, b, D), LS_CAUSE_TRANSPOSED,
                 "output.weight gives transposed");
    /* [out, in] read as [in, out] */
    const double *up = param(&s, "layers.0.mlp.up.weight");
    const double *ub = _i == 1 ? NULL : param(&s, "layers.0.mlp.up.bias");
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < F; j++) u[j * D + i] = up[i * F + j];
    const double *x = value(&s, _i == 2 ? "layers.0.norm1" : "layers.0.norm2");
    expect_cause(&s, "layers.0.up", linear(&s, x, D, u, ub, F), LS_CAUSE_TRANSPOSED,
                 "[out, in] array read as [in, out]");
    /* a gradient */
    const double *g = value(&s, "grad.layers.1.attention.output.weight");
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) t[j * D + i] = g[i * D + j];
    expect_cause(&s, "grad.layers.1.attention.output.weight", t, LS_CAUSE_TRANSPOSED,
                 "right gradient transposed");
    free(u);
    scene_end(&s);
}
END_TEST

/* Fused columns, out[T groups]: group g has part g of T of each. */
static double *fuse(const double *const *w, const size_t *width, int n, size_t rows, size_t T)
{
    size_t all = 0, at = 0;
    for (int m = 0; m < n; m++) all += width[m];
    double *fused = zeros(rows * all);
    for (size_t g = 0; g < T; g++)
        for (int m = 0; m < n; m++)
            for (size_t c = 0; c < width[m] / T; c++, at++)
                for (size_t r = 0; r < rows; r++)
                    fused[r * all + at] = w[m][r * width[m] + g * (width[m] / T) + c];
    return fused;
}

/* Matrix m out of it, read with T groups. */
static double *unfuse(const double *fused, const size_t *width, int n, int m, size_t rows, size_t T)
{
    size_t all = 0, at = 0;
    for (int k = 0; k < n; k++) all += width[k];
    double *w = zeros(rows * width[m]);
    for (size_t g = 0; g < T; g++)
        for (int k = 0; k < n; k++)
            for (size_t c = 0; c < width[k] / T; c++, at++)
                for (size_t r = 0; r < rows && k == m; r++)
                    w[r * width[m] + g * (width[m] / T) + c] = fused[r * all + at];
    return w;
}

/* "fused q|k|v split into thirds at tp 1 but by rows at tp > 1: {0,1,2} for {0,2,4}"; "three fused
 * orders exist" */
START_TEST(queries_keys_values)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *x = value(&s, "layers.1.norm1");
    const double *w[3] = {param(&s, "layers.1.attention.query.weight"),
                          param(&s, "layers.1.attention.key.weight"),
                          param(&s, "layers.1.attention.value.weight")};
    const double *b[3] = {param(&s, "layers.1.attention.query.bias"),
                          param(&s, "layers.1.attention.key.bias"),
                          param(&s, "layers.1.attention.value.bias")};
    const double *g[3] = {value(&s, "grad.layers.1.attention.query.weight"),
                          value(&s, "grad.layers.1.attention.key.weight"),
                          value(&s, "grad.layers.1.attention.value.weight")};
    const size_t width[3] = {D, D, D};
    static const struct {
        size_t in, out;
        const char *text;
    } cases[] = {{1, 6, "one after another in one array and are read head by head"},
                 {6, 1, "head by head in one array and are read one after another"},
                 {1, 2, "read in 2 groups"},
                 {3, 1, "in 3 groups"}};
    static const char *const names[] = {"query", "key", "value"};
    for (size_t k = 0; k < 4; k++)
        for (int m = 0; m < 3; m++) {
            char node[64];
            double *fw = fuse(w, width, 3, D, cases[k].in), *fb = fuse(b, width, 3, 1, cases[k].in);
            double *ww = unfuse(fw, width, 3, m, D, cases[k].out);
            double *bb = unfuse(fb, width, 3, m, 1, cases[k].out);
            snprintf(node, sizeof node, "layers.1.%s", names[m]);
            expect_cause(&s, node, linear(&s, x, D, ww, bb, D), LS_CAUSE_INTERLEAVED, NULL);
            if (m == 0) {
                double *y = linear(&s, x, D, ww, b[m], D); /* biases right */
                expect_cause(&s, node, y, LS_CAUSE_INTERLEAVED, cases[k].text);
            }
            free(fw), free(fb), free(ww), free(bb);
            double *fg = fuse(g, width, 3, D, cases[k].in);
            snprintf(node, sizeof node, "grad.layers.1.attention.%s.weight", names[m]);
            expect_cause(&s, node, unfuse(fg, width, 3, m, D, cases[k].out), LS_CAUSE_INTERLEAVED,
                         NULL);
            free(fg);
        }
    expect_cause(&s, "layers.1.query", linear(&s, x, D, w[1], b[1], D), LS_CAUSE_INTERLEAVED,
                 "belongs to key is taken for query's");
    expect_cause(&s, "layers.1.value", linear(&s, x, D, w[0], b[0], D), LS_CAUSE_INTERLEAVED,
                 "belongs to query is taken for value's");
    expect_cause(&s, "grad.layers.1.attention.key.weight",
                 copy_of(&s, "grad.layers.1.attention.value.weight"), LS_CAUSE_INTERLEAVED, NULL);
    scene_end(&s);
}
END_TEST

/* "fused gate|up must be cut in two before sharding: {1, 10}, wrong {1, 2}" */
START_TEST(gate_and_up)
{
    scene s;
    scene_begin(&s, LLAMA);
    const double *x = value(&s, "layers.0.norm2");
    const double *w[2] = {param(&s, "layers.0.mlp.gate.weight"),
                          param(&s, "layers.0.mlp.up.weight")};
    const size_t width[2] = {F, F};
    for (size_t T = 2; T <= 60; T = T == 2 ? 3 : T == 3 ? 4 : T == 4 ? 60 : 61)
        for (int m = 0; m < 2; m++) {
            double *fw = fuse(w, width, 2, D, 1), *ww = unfuse(fw, width, 2, m, D, T);
            expect_cause(&s, m ? "layers.0.up" : "layers.0.gate", linear(&s, x, D, ww, NULL, F),
                         LS_CAUSE_INTERLEAVED, "gate and up stand one after another");
            free(fw), free(ww);
        }
    expect_cause(&s, "layers.0.gate", linear(&s, x, D, w[1], NULL, F), LS_CAUSE_INTERLEAVED,
                 "is taken for");
    expect_cause(&s, "d.layers.0.gate", copy_of(&s, "d.layers.0.up"), LS_CAUSE_INTERLEAVED,
                 "each other's place");
    expect_cause(&s, "grad.layers.0.mlp.up.weight", copy_of(&s, "grad.layers.0.mlp.gate.weight"),
                 LS_CAUSE_INTERLEAVED, "is taken for");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_arrangement", 120);
    tcase_add_test(tests, results);
    tcase_add_loop_test(tests, operands, 0, 2);
    tcase_add_loop_test(tests, transposed, 0, 3);
    tcase_add_test(tests, queries_keys_values);
    tcase_add_test(tests, gate_and_up);
    return run_tests();
}
