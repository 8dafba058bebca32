/* Sums over the batch gone wrong are named: a parameter's gradient of a run of sequences or tokens
 * alone, of one use of a tied embedding, scaled; means of means; norms, factors and updates. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* dW of a linear: sum over tokens t of weight(t) x_t dy_t. */
static double *outer(const scene *s, const char *x, size_t in, const char *dy, size_t out,
                     const double *weights)
{
    const double *X = value(s, x), *dY = value(s, dy);
    double *dw = zeros(in * out);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < in; i++)
            for (size_t j = 0; j < out; j++)
                dw[i * out + j] += weights[t] * X[t * in + i] * dY[t * out + j];
    return dw;
}

static double *column_sums(const scene *s, const char *dy, size_t out, const double *weights)
{
    const double *dY = value(s, dy);
    double *db = zeros(out);
    for (size_t t = 0; t < B * S; t++)
        for (size_t j = 0; j < out; j++) db[j] += weights[t] * dY[t * out + j];
    return db;
}

static void sequences(double *weights, size_t from, size_t to)
{
    for (size_t t = 0; t < B * S; t++) weights[t] = t / S >= from && t / S < to;
}

static void all(double *weights, double factor)
{
    for (size_t t = 0; t < B * S; t++) weights[t] = factor;
}

static double *up(const scene *s, const double *weights)
{
    return outer(s, "layers.0.norm2", D, "d.layers.0.up", F, weights);
}

/* "only the last micro-batch counted"; "gradients double with every micro-batch: 7 for 3"; "an
 * averaging that should be a sum"; "the replica reduction skipped" */
START_TEST(parameter_gradients)
{
    scene s;
    const char *name = "grad.layers.0.mlp.up.weight", *bias = "grad.layers.0.mlp.up.bias";
    double w[B * S];
    scene_begin(&s, GPT2);
    s.golden.run.layout.micro_batches = 3;
    sequences(w, 4, 6);
    expect_cause(&s, name, up(&s, w), LS_CAUSE_NOT_REDUCED,
                 "4 to 5 of 6 alone (micro-batch 2 of 3)");
    expect_cause(&s, bias, column_sums(&s, "d.layers.0.up", F, w), LS_CAUSE_NOT_REDUCED,
                 "4 to 5 of 6");
    sequences(w, 0, 3);
    expect_cause(&s, name, up(&s, w), LS_CAUSE_NOT_REDUCED, "0 to 2 of 6 alone");
    all(w, 4);
    expect_cause(&s, name, up(&s, w), LS_CAUSE_REDUCED_TWICE, "4 x right");
    all(w, 1.0 / 3);
    expect_cause(&s, name, up(&s, w), LS_CAUSE_AVERAGED, "1/3 x right");
    for (size_t t = 0; t < B * S; t++) w[t] = t / S < 2 ? 4 : t / S < 4 ? 2 : 1;
    expect_cause(&s, name, up(&s, w), LS_CAUSE_REDUCED_TWICE, "is doubled");

    /* "the last loss used three times: 300 for 111"; "a replica's reduction skipped on early
     * micro-batches" */
    for (size_t t = 0; t < B * S; t++) w[t] = t / S < 4 ? 0 : 3;
    expect_cause(&s, name, up(&s, w), LS_CAUSE_NOT_REDUCED, "sequences count 0 0 0 0 3 3");
    for (size_t t = 0; t < B * S; t++) w[t] = t / S == 3 || t / S == 4 ? 0 : 1;
    expect_cause(&s, name, up(&s, w), LS_CAUSE_NOT_REDUCED, "sequences count 1 1 1 0 0 1");
    for (size_t t = 0; t < B * S; t++) w[t] = t / S == 3 ? 2 : 1;
    expect_cause(&s, name, up(&s, w), LS_CAUSE_REDUCED_TWICE, "sequences count 1 1 1 2 1 1");

    /* tokens of one sequence-parallel rank: what is whole on every rank is not reduced over them */
    for (size_t t = 0; t < B * S; t++) w[t] = t % S >= 4 && t % S < 8;
    expect_cause(&s, "grad.layers.1.attention.output.bias",
                 column_sums(&s, "d.layers.1.attention", D, w), LS_CAUSE_REPLICATED_GRADIENT,
                 "tokens 4 to 7 of 12");
    expect_cause(&s, "grad.layers.1.norm2.bias", column_sums(&s, "d.layers.1.norm2", D, w),
                 LS_CAUSE_REPLICATED_GRADIENT, "tokens 4 to 7 of 12");
    scene_end(&s);
}
END_TEST

/* A norm's scale: dy xhat over one rank's tokens. */
START_TEST(norm_scales)
{
    scene s;
    scene_begin(&s, _i == 0 ? LLAMA : BERT);
    const bool rms = _i == 0;
    const double *x = value(&s, rms ? "layers.1.after_attention" : "layers.1.after_mlp");
    const double *dy = value(&s, rms ? "d.layers.1.norm2" : "d.layers.1.layer");
    double *a = zeros(D), *b = zeros(D);
    for (size_t t = 0; t < B * S; t++) {
        double mean = 0, squares = 0;
        for (size_t i = 0; i < D && !rms; i++) mean += x[t * D + i] / D;
        for (size_t i = 0; i < D; i++) squares += pow(x[t * D + i] - mean, 2);
        for (size_t i = 0; i < D; i++) {
            const double d = dy[t * D + i] * (x[t * D + i] - mean) / sqrt(squares / D + 1e-5);
            if (t % S < S / 2) a[i] += d;
            if (t / S < 2) b[i] += d;
        }
    }
    expect_cause(&s, "grad.layers.1.norm2.weight", a, LS_CAUSE_REPLICATED_GRADIENT,
                 "tokens 0 to 5 of 12");
    expect_cause(&s, "grad.layers.1.norm2.weight", b, LS_CAUSE_NOT_REDUCED, "0 to 1 of 6");
    scene_end(&s);
}
END_TEST

/* "tied embedding on two stages never has its gradients summed" */
START_TEST(tied)
{
    scene s;
    const char *name = "grad.token_embedding.weight";
    scene_begin(&s, _i == 0 ? GPT2 : BERT);
    const size_t n = V * D;
    const double *head = value(&s, "grad.token_embedding.weight.as_head");
    const double *input = value(&s, "grad.token_embedding.weight.as_input");
    double *a = zeros(n), *b = zeros(n), *c = zeros(n), *d = zeros(n), *e = zeros(n);
    for (size_t i = 0; i < n; i++) {
        a[i] = head[i];
        b[i] = input[i];
        c[i] = 2 * head[i] + input[i];
        d[i] = 2 * (head[i] + input[i]);
    }
    /* the head's of all sequences, the input's of the first two */
    for (size_t i = 0; i < n; i++) e[i] = head[i];
    const double *de = value(&s, _i == 0 ? "d.embedding" : "d.embedding_sum");
    for (size_t t = 0; t < 2 * S; t++)
        for (size_t k = 0; k < D; k++) e[(size_t)s.tokens[t] * D + k] += de[t * D + k];
    expect_cause(&s, name, a, LS_CAUSE_TIED_ONE_SIDE, "from use as input is missing");
    expect_cause(&s, name, b, LS_CAUSE_TIED_ONE_SIDE, "from use as head is missing");
    expect_cause(&s, name, c, LS_CAUSE_TIED_ONE_SIDE, "2 x gradient from use as head");
    expect_cause(&s, name, d, LS_CAUSE_REDUCED_TWICE, "2 x right");
    expect_cause(&s, name, e, LS_CAUSE_TIED_ONE_SIDE, "from the input is of sequences 0 to 1");
    scene_end(&s);
}
END_TEST

static size_t targets_of(const scene *s, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t t = from * S; t < to * S; t++) n += s->targets[t] != LS_IGNORE;
    return n;
}

/* "mean per micro-batch, then mean of means"; "per-rank masked mean, then the average" */
START_TEST(means)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *loss = value(&s, "token_loss"), *dz = value(&s, "d.logits");
    const double whole = (double)targets_of(&s, 0, B);
    s.golden.run.layout.micro_batches = 2;
    for (size_t parts = 2; parts <= 3; parts++) {
        double *mean = zeros(1), *own = zeros(1), *d = zeros(B * S * V), *sums = zeros(B * S * V);
        const size_t each = B / parts;
        for (size_t m = 0; m < parts; m++) {
            const double n = (double)targets_of(&s, m * each, (m + 1) * each);
            double sum = 0;
            for (size_t t = m * each * S; t < (m + 1) * each * S; t++) sum += loss[t];
            *mean += sum / n / (double)parts;
            if (m == 1) *own = sum / n;
            for (size_t i = m * each * S * V; i < (m + 1) * each * S * V; i++) {
                d[i] = dz[i] * whole / (n * (double)parts);
                sums[i] = dz[i] * whole / n;
            }
        }
        expect_cause(&s, "loss", mean, LS_CAUSE_MEAN_OF_MEANS,
                     parts == 2 ? "over 2 parts (each a micro-batch" : "over 3 parts");
        expect_cause(&s, "loss", own, LS_CAUSE_NOT_REDUCED, "divided by their own targets");
        expect_cause(&s, "d.logits", d, LS_CAUSE_MEAN_OF_MEANS, "the mean of the means");
        expect_cause(&s, "d.logits", sums, LS_CAUSE_MEAN_OF_MEANS, "mean of its own");
    }
    double *twice = copy_of(&s, "loss"), *sum = copy_of(&s, "d.logits"),
           *half = copy_of(&s, "loss");
    *twice *= 2, *half /= 4;
    for (size_t i = 0; i < B * S * V; i++) sum[i] *= whole;
    expect_cause(&s, "loss", twice, LS_CAUSE_REDUCED_TWICE, "2 x right");
    expect_cause(&s, "loss", half, LS_CAUSE_AVERAGED, "1/4 x right");
    expect_cause(&s, "d.logits", sum, LS_CAUSE_TARGET_COUNT, "not divided at all");
    /* "mean loss divides by all rows although some targets are ignored" */
    double *rows = copy_of(&s, "loss");
    *rows *= whole / (B * S);
    expect_cause(&s, "loss", rows, LS_CAUSE_TARGET_COUNT, "number of all tokens (72)");
    double w[B * S];
    all(w, whole / (B * S));
    expect_cause(&s, "grad.layers.0.mlp.up.weight", up(&s, w), LS_CAUSE_TARGET_COUNT, "(72)");
    all(w, whole);
    expect_cause(&s, "grad.layers.0.mlp.up.weight", up(&s, w), LS_CAUSE_TARGET_COUNT, "(1)");
    scene_end(&s);
}
END_TEST

/* ---- the end of a step ---- */

/* Sum of squares of what tp rank `rank` of two holds; whole: of what is whole on every rank. */
static double squares(const scene *s, size_t tp, size_t rank, double whole)
{
    double sum = 0;
    for (size_t p = 0; p < s->table->count; p++) {
        const ls_param *par = &s->table->params[p];
        const double *g = s->step.values[ls_graph_param_gradient(s->step.graph, (int)p)];
        const size_t rows = par->n_dims == 2 ? par->dims[0] : 1;
        const size_t cols = par->n_dims == 2 ? par->dims[1] : par->dims[0];
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                const size_t at = par->n_dims == 2 && par->cut == 0 ? r : c;
                const size_t share = ls_axis_extent(par->axis) / tp;
                const double here =
                    par->cut < 0 ? whole : (rank == tp || at / share == rank ? 1 : 0);
                sum += here * pow(g[r * cols + c], 2);
            }
    }
    return sum;
}

/* "the norm counts replicated parameters once per rank"; "the norm per stage"; "the tied weight on
 * both stages" */
START_TEST(norms_of_a_rank)
{
    scene s;
    scene_begin(&s, GPT2);
    const double whole = squares(&s, 1, 0, 1);
    ck_assert(fabs(sqrt(whole) - value(&s, "norm")[0]) < 1e-6 * sqrt(whole));
    ck_assert(sqrt(whole) > 0.5);
    char text[64];
    for (size_t tp = 2; tp <= 6; tp += tp == 3 ? 3 : 1) {
        double *counted = zeros(1), *own = zeros(1);
        *counted = sqrt(squares(&s, tp, tp, (double)tp));
        *own = sqrt(squares(&s, tp, 1, 1));
        snprintf(text, sizeof text, "(tp %zu)", tp);
        expect_cause(&s, "norm", counted, LS_CAUSE_REPLICAS_COUNTED, text);
        snprintf(text, sizeof text, "rank 1 of tp %zu", tp);
        expect_cause(&s, "norm", own, LS_CAUSE_CLIPPING_PER_RANK, text);
    }
    double *both = zeros(1), *stage = zeros(1), *twice = zeros(1);
    double embedding = 0, first = 0;
    for (size_t p = 0; p < s.table->count; p++) {
        const ls_param *par = &s.table->params[p];
        const double *g = s.step.values[ls_graph_param_gradient(s.step.graph, (int)p)];
        for (size_t i = 0; i < ls_param_elements(par); i++) {
            if (par->uses > 1) embedding += g[i] * g[i];
            if (par->stage == LS_STAGE_FIRST || (par->stage == LS_STAGE_LAYER && par->layer == 0))
                first += g[i] * g[i];
        }
    }
    *both = sqrt(whole + embedding), *stage = sqrt(first), *twice = sqrt(2 * whole);
    expect_cause(&s, "norm", both, LS_CAUSE_REPLICAS_COUNTED, "both of its stages");
    expect_cause(&s, "norm", stage, LS_CAUSE_CLIPPING_PER_RANK, "stage 0 of pp 2");
    expect_cause(&s, "norm", twice, LS_CAUSE_REPLICAS_COUNTED, "sqrt(2)");

    /* over tp, data-parallel ranks and both ends of a pipeline together */
    double *subset = zeros(1);
    *subset = sqrt(3 * (squares(&s, 2, 2, 2) + embedding));
    expect_cause(&s, "norm", subset, LS_CAUSE_REPLICAS_COUNTED, "and everything 3 times");
    subset = zeros(1);
    *subset = sqrt(4 * squares(&s, 3, 3, 3));
    expect_cause(&s, "norm", subset, LS_CAUSE_REPLICAS_COUNTED, "(tp 3), and everything 4 times");
    subset = zeros(1);
    *subset = 1.027 * sqrt(whole);
    expect_cause(&s, "norm", subset, LS_CAUSE_NONE, NULL);

    /* and what is scaled by them: a whole parameter, and one cut over two ranks */
    const char *names[] = {"layers.0.norm1.weight", "layers.0.mlp.up.weight"};
    for (int k = 0; k < 2; k++) {
        char grad[64], clipped[64];
        snprintf(grad, sizeof grad, "grad.%s", names[k]);
        snprintf(clipped, sizeof clipped, "clipped.%s", names[k]);
        double *y = copy_of(&s, grad);
        const size_t n = count_of(&s, grad);
        for (size_t i = 0; i < n; i++) {
            const size_t rank = k == 0 ? 0 : i % F / (F / 2);
            y[i] *= 0.5 / sqrt(squares(&s, 2, rank, 1));
        }
        expect_cause(&s, clipped, y, LS_CAUSE_CLIPPING_PER_RANK, "tp");
        /* "norm right but nothing scaled" */
        expect_cause(&s, clipped, copy_of(&s, grad), LS_CAUSE_NOT_CLIPPED, "the gradient itself");
        y = copy_of(&s, grad);
        for (size_t i = 0; i < n; i++) y[i] *= 0.5 / sqrt(squares(&s, 3, 3, 3));
        expect_cause(&s, clipped, y, LS_CAUSE_REPLICAS_COUNTED, "(tp 3)");
    }
    scene_end(&s);
}
END_TEST

/* A vocabulary padded to a multiple of 128, whose further logits are 0 and in the softmax: the
 * norm counts their rows' gradients. */
START_TEST(norm_with_padded_rows)
{
    scene s;
    const size_t padded = 128 - V % 128;
    scene_begin(&s, _i == 0 ? GPT2 : BERT);
    const double *z = value(&s, "logits");
    const ls_graph_node *head = &s.step.graph->nodes[node_of(&s, "logits")];
    const double *x = s.step.values[head->inputs[0]];
    double row[D] = {0}, bias = 0, targets = 0, more = 0;
    for (size_t t = 0; t < B * S; t++) targets += s.targets[t] != LS_IGNORE;
    for (size_t t = 0; t < B * S; t++) {
        double all = (double)padded;
        if (s.targets[t] == LS_IGNORE) continue;
        for (size_t j = 0; j < V; j++) all += exp(z[t * V + j]);
        for (size_t i = 0; i < D; i++) row[i] += x[t * D + i] / (all * targets);
        bias += 1 / (all * targets);
    }
    for (size_t i = 0; i < D; i++) more += row[i] * row[i];
    if (head->params[1] >= 0) more += bias * bias;
    double *norm = zeros(1);
    *norm = sqrt(pow(value(&s, "norm")[0], 2) + (double)padded * more);
    expect_cause(&s, "norm", norm, LS_CAUSE_PADDED_VOCABULARY, "gradients of 121 padded words");
    norm = zeros(1);
    *norm = sqrt(pow(value(&s, "norm")[0], 2) + 1.1 * (double)padded * more);
    expect_cause(&s, "norm", norm, LS_CAUSE_NONE, NULL);
    scene_end(&s);
}
END_TEST

/* AdamW by its formulas, starting from zero moments. */
static void adam(double *w, double *m, double *v, double g, int t, bool decay)
{
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.95 * *v + 0.05 * g * g;
    if (decay) *w -= 1e-3 * 0.1 * *w;
    *w -= 1e-3 * (*m / (1 - pow(0.9, t))) / (sqrt(*v / (1 - pow(0.95, t))) + 1e-8);
}

/* "two optimizer steps for one"; "two separate Adam steps, one per use" */
START_TEST(updates)
{
    scene s;
    scene_begin(&s, GPT2);
    const char *weight = "layers.0.mlp.up.weight";
    const double *g = value(&s, "clipped.layers.0.mlp.up.weight"), *w = param(&s, weight);
    double *a = zeros(D * F), *b = zeros(D * F);
    for (size_t i = 0; i < D * F; i++) {
        double m = 0, v = 0;
        a[i] = w[i];
        adam(&a[i], &m, &v, g[i], 1, true);
        b[i] = a[i];
        double m2 = m, v2 = v;
        adam(&a[i], &m, &v, g[i], 1, true);
        adam(&b[i], &m2, &v2, g[i], 2, true);
    }
    expect_cause(&s, "param.layers.0.mlp.up.weight", a, LS_CAUSE_UPDATE_TWICE, "1 and 1");
    expect_cause(&s, "param.layers.0.mlp.up.weight", b, LS_CAUSE_UPDATE_TWICE, "1 and 2");

    const double *head = value(&s, "grad.token_embedding.weight.as_head");
    const double *input = value(&s, "grad.token_embedding.weight.as_input");
    const double *e = param(&s, "token_embedding.weight");
    const double factor = 0.5 / value(&s, "norm")[0];
    double *c = zeros(V * D);
    for (size_t i = 0; i < V * D; i++) {
        double m = 0, v = 0, m2 = 0, v2 = 0;
        c[i] = e[i];
        adam(&c[i], &m, &v, factor * input[i], 1, true);
        adam(&c[i], &m2, &v2, factor * head[i], 1, true);
    }
    expect_cause(&s, "param.token_embedding.weight", c, LS_CAUSE_UPDATE_TWICE,
                 "one update for each use");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_batch", 120);
    tcase_add_test(tests, parameter_gradients);
    tcase_add_loop_test(tests, norm_scales, 0, 2);
    tcase_add_loop_test(tests, tied, 0, 2);
    tcase_add_test(tests, means);
    tcase_add_test(tests, norms_of_a_rank);
    tcase_add_loop_test(tests, norm_with_padded_rows, 0, 2);
    tcase_add_test(tests, updates);
    return run_tests();
}
