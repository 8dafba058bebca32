/* Another formula in the place of the right one is named: attention's mask and scale, activations,
 * epsilon, targets, vocabulary, positions, dropout. The wrong values come from loops of the test's
 * own. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* Attention by plain loops: P [B, H, S, S] and o [B, S, D], no dropout in P. Query i sees keys with
 * from(i) <= j < end(i). */
typedef struct plain_attention {
    double scale;
    int shift;    /* end: i + 1 + shift; 1000: all */
    bool reverse; /* from i on */
    bool padding; /* padded keys are seen */
    bool modulo;
    size_t sequences; /* dropout's numbering begins again after so many; 0: never */
} plain_attention;

static void attend(const scene *s, const plain_attention *a, double *P, double *o)
{
    const double *q = value(s, "layers.1.query"), *k = value(s, "layers.1.key");
    const double *v = value(s, "layers.1.value");
    const size_t kv = s->config.kv_heads, Dkv = kv * DH;
    const ls_stream stream = {99, LS_RANDOM_DROPOUT_ATTENTION, 1, 5};
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < S; i++) {
                double *row = P + ((b * H + h) * S + i) * S, sum = 0;
                const size_t g = a->modulo ? h % kv : h / (H / kv);
                long end = a->reverse ? S : (long)i + 1 + a->shift;
                if (end > S) end = S;
                if (s->batch.lengths && !a->padding && end > s->lengths[b]) end = s->lengths[b];
                for (long j = a->reverse ? (long)i : 0; j < end; j++) {
                    double score = 0;
                    for (size_t c = 0; c < DH; c++)
                        score += q[(b * S + i) * D + h * DH + c] *
                                 k[(b * S + (size_t)j) * Dkv + g * DH + c];
                    row[j] = exp(score * a->scale);
                    sum += row[j];
                }
                for (size_t j = 0; j < S; j++) {
                    if (sum > 0) row[j] /= sum;
                    size_t number = (size_t)(row + j - P);
                    if (a->sequences) number %= a->sequences * H * S * S;
                    const bool kept = ls_random_keep(stream, number, 0.1);
                    for (size_t c = 0; c < DH && kept; c++)
                        o[(b * S + i) * D + h * DH + c] +=
                            row[j] / 0.9 * v[(b * S + j) * Dkv + g * DH + c];
                }
            }
}

static void expect_attention(const scene *s, plain_attention a, ls_cause cause, const char *text)
{
    double *P = zeros(B * H * S * S), *o = zeros(B * S * D);
    attend(s, &a, P, o);
    if (!a.modulo) {
        expect_cause(s, "layers.1.probabilities", P, cause, text);
    } else {
        free(P);
    }
    expect_cause(s, "layers.1.heads", o, cause, text);
}

START_TEST(attention)
{
    scene s;
    const double scale = 0.5; /* 1 / sqrt(4) */
    scene_begin(&s, _i == 0 ? GPT2 : LLAMA);
    const plain_attention ahead = {.scale = scale, .shift = 1};
    const plain_attention behind = {.scale = scale, .shift = -1};
    const plain_attention absent = {.scale = scale, .shift = 1000};
    const plain_attention reverse = {.scale = scale, .reverse = true};
    expect_attention(&s, ahead, LS_CAUSE_CAUSAL_MASK, "up to i + 1");
    expect_attention(&s, behind, LS_CAUSE_CAUSAL_MASK, "up to i - 1");
    expect_attention(&s, absent, LS_CAUSE_CAUSAL_MASK, "no mask");
    expect_attention(&s, reverse, LS_CAUSE_CAUSAL_MASK, "transposed");
    const plain_attention by_width = {.scale = 0.25}, unscaled = {.scale = 1};
    const plain_attention by_model = {.scale = 1 / sqrt(24)};
    expect_attention(&s, by_width, LS_CAUSE_SCORE_SCALE, "1 / head width");
    expect_attention(&s, unscaled, LS_CAUSE_SCORE_SCALE, "no scale");
    expect_attention(&s, by_model, LS_CAUSE_SCORE_SCALE, "model width");
    const plain_attention odd = {.scale = 0.3717};
    double *P = zeros(B * H * S * S), *o = zeros(B * S * D);
    attend(&s, &odd, P, o);
    free(o);
    expect_cause(&s, "layers.1.probabilities", P, LS_CAUSE_SCORE_SCALE, "0.3717");
    if (s.config.kv_heads < H) {
        const plain_attention modulo = {.scale = scale, .modulo = true};
        expect_attention(&s, modulo, LS_CAUSE_INTERLEAVED, "h mod 2");
    }
    /* Numbers of a mask of [B, H, S, S], not of the [B, S, D] that is made with it. */
    const plain_attention again = {.scale = scale, .sequences = 3};
    double *right = zeros(B * H * S * S), *masked = zeros(B * S * D);
    attend(&s, &again, right, masked);
    free(right);
    expect_cause(&s, "layers.1.heads", masked, LS_CAUSE_DROPOUT_MASK, "after every 3 sequences");
    scene_end(&s);
}
END_TEST

START_TEST(attention_both_ways)
{
    scene s;
    scene_begin(&s, BERT);
    const plain_attention causal = {.scale = 0.5, .shift = 0};
    const plain_attention padded = {.scale = 0.5, .shift = 1000, .padding = true};
    const plain_attention unscaled = {.scale = 1, .shift = 1000};
    expect_attention(&s, causal, LS_CAUSE_CAUSAL_MASK, "should see all");
    expect_attention(&s, padded, LS_CAUSE_ATTENTION_SET, "padded");
    expect_attention(&s, unscaled, LS_CAUSE_SCORE_SCALE, "no scale");
    scene_end(&s);
}
END_TEST

static double cdf(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2)));
}

static double tanh_cdf(double x)
{
    return 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

START_TEST(activations)
{
    scene s;
    scene_begin(&s, GPT2);
    const size_t n = B * S * F;
    const double *x = value(&s, "layers.0.up");
    double *y = zeros(n), *z = zeros(n), *r = zeros(n), *d = zeros(n);
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * cdf(x[i]);
        z[i] = x[i] / (1 + exp(-1.702 * x[i]));
        r[i] = fmax(0, x[i]);
        d[i] = value(&s, "d.layers.0.activation")[i] *
               (cdf(x[i]) + x[i] * exp(-x[i] * x[i] / 2) / sqrt(2 * acos(-1)));
    }
    expect_cause(&s, "layers.0.activation", y, LS_CAUSE_GELU_VARIANT, "erf");
    expect_cause(&s, "layers.0.activation", z, LS_CAUSE_GELU_VARIANT, "1.702");
    expect_cause(&s, "layers.0.activation", r, LS_CAUSE_GELU_VARIANT, "ReLU");
    expect_cause(&s, "d.layers.0.up", d, LS_CAUSE_GELU_VARIANT, "erf");
    scene_end(&s);

    scene_begin(&s, LLAMA);
    const double *gate = value(&s, "layers.0.gate"), *up = value(&s, "layers.0.up");
    y = zeros(n), z = zeros(n);
    for (size_t i = 0; i < n; i++) {
        y[i] = gate[i] * tanh_cdf(gate[i]) * up[i];
        z[i] = up[i] / (1 + exp(-up[i])) * gate[i];
    }
    expect_cause(&s, "layers.0.activation", y, LS_CAUSE_GELU_VARIANT, "tanh");
    expect_cause(&s, "layers.0.activation", z, LS_CAUSE_INTERLEAVED, "silu(up) gate");
    scene_end(&s);

    scene_begin(&s, BERT);
    const double *t = value(&s, "masked_dense");
    y = zeros(B * S * D);
    for (size_t i = 0; i < B * S * D; i++) y[i] = t[i] * tanh_cdf(t[i]);
    expect_cause(&s, "masked_activation", y, LS_CAUSE_GELU_VARIANT, "tanh, not GELU by erf");
    scene_end(&s);
}
END_TEST

static double *normed(const scene *s, const char *x, const char *w, const char *b, double eps,
                      bool rms, size_t over)
{
    const double *X = value(s, x), *scale = param(s, w), *shift = b ? param(s, b) : NULL;
    double *y = zeros(B * S * D);
    for (size_t t = 0; t < B * S; t++) {
        double mean = 0, squares = 0;
        for (size_t i = 0; i < D && !rms; i++) mean += X[t * D + i] / D;
        for (size_t i = 0; i < D; i++) squares += pow(X[t * D + i] - mean, 2);
        for (size_t i = 0; i < D; i++)
            y[t * D + i] = (X[t * D + i] - mean) / sqrt(squares / (double)over + eps) * scale[i] +
                           (shift ? shift[i] : 0);
    }
    return y;
}

START_TEST(norms)
{
    scene s;
    scene_begin(&s, GPT2);
    const char *x = "embedded", *w = "layers.0.norm1.weight", *b = "layers.0.norm1.bias";
    expect_cause(&s, "layers.0.norm1", normed(&s, x, w, b, 1e-3, false, D), LS_CAUSE_NORM_EPSILON,
                 "0.001, not 1e-05");
    expect_cause(&s, "layers.0.norm1", normed(&s, x, w, b, 1e-12, false, D), LS_CAUSE_NORM_EPSILON,
                 "not 1e-05");
    /* outside the root: by the same plain loops, from the deviation */
    const double *in = value(&s, x);
    double *outside = zeros(B * S * D);
    for (size_t t = 0; t < B * S; t++) {
        double mean = 0, squares = 0;
        for (size_t i = 0; i < D; i++) mean += in[t * D + i] / D;
        for (size_t i = 0; i < D; i++) squares += pow(in[t * D + i] - mean, 2) / D;
        for (size_t i = 0; i < D; i++)
            outside[t * D + i] =
                (in[t * D + i] - mean) / (sqrt(squares) + 1e-5) * param(&s, w)[i] + param(&s, b)[i];
    }
    expect_cause(&s, "layers.0.norm1", outside, LS_CAUSE_NORM_EPSILON,
                 "added to the root, not inside it");
    expect_cause(&s, "layers.0.norm1", normed(&s, x, w, b, 1e-5, false, D - 1),
                 LS_CAUSE_VARIANCE_UNBIASED, "divided by 23");
    scene_end(&s);
    scene_begin(&s, LLAMA);
    expect_cause(
        &s, "layers.1.norm2",
        normed(&s, "layers.1.after_attention", "layers.1.norm2.weight", NULL, 1e-3, true, D),
        LS_CAUSE_NORM_EPSILON, "0.001");
    scene_end(&s);
}
END_TEST

/* Losses for other targets, with further words of logit 0. */
static double *losses(const scene *s, const int32_t *targets, size_t padded)
{
    const double *z = value(s, "logits");
    double *loss = zeros(B * S);
    for (size_t t = 0; t < B * S; t++) {
        double sum = (double)padded;
        if (targets[t] == LS_IGNORE) continue;
        for (size_t j = 0; j < V; j++) sum += exp(z[t * V + j]);
        loss[t] = log(sum) - z[t * V + (size_t)targets[t]];
    }
    return loss;
}

static double *logit_gradient(const scene *s, const int32_t *targets, size_t padded)
{
    const double *z = value(s, "logits");
    double *dz = zeros(B * S * V), valid = 0;
    for (size_t t = 0; t < B * S; t++) valid += targets[t] != LS_IGNORE;
    for (size_t t = 0; t < B * S; t++) {
        double sum = (double)padded;
        if (targets[t] == LS_IGNORE) continue;
        for (size_t j = 0; j < V; j++) sum += exp(z[t * V + j]);
        for (size_t j = 0; j < V; j++)
            dz[t * V + j] = (exp(z[t * V + j]) / sum - ((size_t)targets[t] == j ? 1 : 0)) / valid;
    }
    return dz;
}

/* "labels already shifted were shifted again"; "the padded size adds logit columns to the softmax";
 * "gathered logits to the loss of shards: log 2 more" */
START_TEST(losses_and_their_gradients)
{
    scene s;
    int32_t next[B * S];
    scene_begin(&s, _i == 0 ? GPT2 : _i == 1 ? LLAMA : BERT);
    for (size_t t = 0; t < B * S; t++) next[t] = t % S == S - 1 ? LS_IGNORE : s.targets[t + 1];
    expect_cause(&s, "token_loss", losses(&s, next, 0), LS_CAUSE_TARGET_SHIFT, "token t + 1");
    expect_cause(&s, "d.logits", logit_gradient(&s, next, 0), LS_CAUSE_TARGET_SHIFT, "token t + 1");
    expect_cause(&s, "token_loss", losses(&s, s.tokens, 0), LS_CAUSE_TARGET_SHIFT, "token itself");
    for (size_t t = 0; t < B * S; t++) next[t] = s.targets[t / S * S + (t + 1) % S];
    expect_cause(&s, "token_loss", losses(&s, next, 0), LS_CAUSE_TARGET_SHIFT, "token t + 1");

    for (size_t t = 0; t < B * S; t++) next[t] = s.targets[(t + 2 * S) % (B * S)];
    expect_cause(&s, "token_loss", losses(&s, next, 0), LS_CAUSE_TARGET_SHIFT, "sequence b + 2");

    expect_cause(&s, "token_loss", losses(&s, s.targets, 384 - V), LS_CAUSE_PADDED_VOCABULARY,
                 "vocabulary of 384, not 263");
    expect_cause(&s, "d.logits", logit_gradient(&s, s.targets, 264 - V), LS_CAUSE_PADDED_VOCABULARY,
                 "vocabulary of 264");
    double *more = copy_of(&s, "token_loss");
    for (size_t t = 0; t < B * S; t++) more[t] += s.targets[t] == LS_IGNORE ? 0 : log(2);
    expect_cause(&s, "token_loss", more, LS_CAUSE_REDUCED_TWICE, "log 2");
    scene_end(&s);
}
END_TEST

/* "local positions restart at 0" */
START_TEST(positions)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *w = param(&s, "token_embedding.weight");
    const double *p = param(&s, "position_embedding.weight");
    static const size_t shares[] = {2, 3, 4};
    for (size_t k = 0; k < 3; k++) {
        const size_t n = S / shares[k];
        double *y = zeros(B * S * D);
        char text[64];
        for (size_t i = 0; i < B * S * D; i++) {
            const size_t t = i / D;
            y[i] = w[(size_t)s.tokens[t] * D + i % D] + p[t % n * D + i % D];
        }
        snprintf(text, sizeof text, "after every %zu tokens", n);
        expect_cause(&s, "embedding", y, LS_CAUSE_POSITIONS, text);
    }
    /* 5 shares of 12 tokens: 3, 3, 2, 2, 2 */
    static const size_t local[S] = {0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1};
    double *y = zeros(B * S * D);
    for (size_t i = 0; i < B * S * D; i++)
        y[i] = w[(size_t)s.tokens[i / D] * D + i % D] + p[local[i / D % S] * D + i % D];
    expect_cause(&s, "embedding", y, LS_CAUSE_POSITIONS, "in each of 5 shares");
    /* one later, and one earlier, around the end of the table: no shards of the tokens */
    for (size_t by = 1; by < S; by += S - 2) {
        y = zeros(B * S * D);
        for (size_t i = 0; i < B * S * D; i++)
            y[i] = w[(size_t)s.tokens[i / D] * D + i % D] + p[(i / D + by) % S * D + i % D];
        expect_cause(&s, "embedding", y, LS_CAUSE_POSITIONS,
                     by == 1 ? "begin at 1, and after the table's last row"
                             : "last row, the first");
        y = zeros(S * D);
        const double *d = value(&s, "grad.position_embedding.weight");
        for (size_t i = 0; i < S * D; i++) y[(i + by * D) % (S * D)] = d[i];
        expect_cause(&s, "grad.position_embedding.weight", y, LS_CAUSE_POSITIONS, NULL);
    }
    scene_end(&s);
}
END_TEST

/* layers.0.query, turned by plain formulas. */
static double *turned(const scene *s, double base, size_t restart, bool adjacent, double sign)
{
    const double *x = value(s, "layers.0.norm1");
    const double *w = param(s, "layers.0.attention.query.weight");
    double *y = zeros(B * S * D);
    for (size_t t = 0; t < B * S; t++) {
        double row[D] = {0};
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++) row[j] += x[t * D + i] * w[i * D + j];
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < DH / 2; i++) {
                const size_t a = h * DH + (adjacent ? 2 * i : i), b = a + (adjacent ? 1 : DH / 2);
                const double angle =
                    sign * (double)(t % S % restart) * pow(base, -2.0 * (double)i / DH);
                y[t * D + a] = row[a] * cos(angle) - row[b] * sin(angle);
                y[t * D + b] = row[b] * cos(angle) + row[a] * sin(angle);
            }
    }
    return y;
}

START_TEST(rotary)
{
    scene s;
    scene_begin(&s, LLAMA);
    expect_cause(&s, "layers.0.query", turned(&s, 100, S, true, 1), LS_CAUSE_POSITIONS,
                 "features 2i and 2i + 1");
    expect_cause(&s, "layers.0.query", turned(&s, 100, 6, false, 1), LS_CAUSE_POSITIONS,
                 "after every 6 tokens");
    expect_cause(&s, "layers.0.query", turned(&s, 10000, S, false, 1), LS_CAUSE_ROTARY,
                 "base 10000, not 100");
    expect_cause(&s, "layers.0.query", turned(&s, 100, S, false, -1), LS_CAUSE_POSITIONS,
                 "other way");
    expect_cause(&s, "layers.0.query", turned(&s, 100, S, false, 0), LS_CAUSE_POSITIONS,
                 "not turned");
    scene_end(&s);
}
END_TEST

/* "recomputed forward draws a fresh mask"; "dropout did not use the right random state" */
START_TEST(dropout)
{
    scene s;
    scene_begin(&s, GPT2);
    const size_t n = B * S * D;
    const double *x0 = value(&s, "layers.0.mlp"), *x1 = value(&s, "layers.0.after_attention");
    const double *dy = value(&s, "d.layers.0.layer");
    const ls_stream other_seed = {100, LS_RANDOM_DROPOUT_MLP, 0, 5};
    const ls_stream right = {99, LS_RANDOM_DROPOUT_MLP, 0, 5};
    const ls_stream layer = {99, LS_RANDOM_DROPOUT_MLP, 1, 5},
                    step = {99, LS_RANDOM_DROPOUT_MLP, 0, 4};
    const ls_stream foreign = {123456789, LS_RANDOM_DROPOUT_MLP, 17, 77};
    double *a = zeros(n), *b = zeros(n), *c = zeros(n), *d = zeros(n), *e = zeros(n), *f = zeros(n);
    double *g = zeros(n), *h = zeros(n);
    for (size_t i = 0; i < n; i++) {
        const size_t t = i / D, local = (t / S * (S / 2) + t % S % (S / 2)) * D + i % D;
        a[i] = x1[i] + (ls_random_keep(other_seed, i, 0.1) ? x0[i] / 0.9 : 0);
        b[i] = x1[i] + (ls_random_keep(layer, i, 0.1) ? x0[i] / 0.9 : 0);
        c[i] = x1[i] + x0[i];
        d[i] = x1[i] + (ls_random_keep(foreign, i, 0.1) ? x0[i] / 0.9 : 0);
        e[i] = ls_random_keep(foreign, i, 0.1) ? dy[i] / 0.9 : 0;
        f[i] = ls_random_keep(step, i, 0.1) ? dy[i] / 0.9 : 0;
        g[i] = x1[i] + (ls_random_keep(right, i, 0.1) ? x0[i] : 0);
        h[i] = x1[i] + (ls_random_keep(right, local, 0.1) ? x0[i] / 0.9 : 0);
    }
    expect_cause(&s, "layers.0.layer", a, LS_CAUSE_DROPOUT_MASK, "seed 100");
    expect_cause(&s, "layers.0.layer", b, LS_CAUSE_DROPOUT_MASK, "layer 1");
    expect_cause(&s, "layers.0.layer", c, LS_CAUSE_DROPOUT_MASK, "no dropout");
    expect_cause(&s, "layers.0.layer", d, LS_CAUSE_DROPOUT_MASK, "another mask");
    expect_cause(&s, "d.layers.0.mlp", e, LS_CAUSE_DROPOUT_MASK, "backward another mask");
    expect_cause(&s, "d.layers.0.mlp", f, LS_CAUSE_DROPOUT_MASK, "step 4");
    expect_cause(&s, "layers.0.layer", g, LS_CAUSE_DROPOUT_MASK, "not divided");
    expect_cause(&s, "layers.0.layer", h, LS_CAUSE_DROPOUT_MASK, "2 shares of the tokens");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_formula", 120);
    tcase_add_loop_test(tests, attention, 0, 2);
    tcase_add_test(tests, attention_both_ways);
    tcase_add_test(tests, activations);
    tcase_add_test(tests, norms);
    tcase_add_loop_test(tests, losses_and_their_gradients, 0, 3);
    tcase_add_test(tests, positions);
    tcase_add_test(tests, rotary);
    tcase_add_test(tests, dropout);
    return run_tests();
}
