/* What a name rests on: factors are about ranks only where ranks are seen, zeros are no partial
 * sums, bounds that allow anything explain nothing, one number chooses among no mistakes; clipping
 * otherwise than by the norm; divisors by what they count. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

static double *scaled(const scene *s, const char *name, double factor)
{
    double *y = copy_of(s, name);
    for (size_t i = 0; i < count_of(s, name); i++) y[i] *= factor;
    return y;
}

static ls_suspicion of_layout(const scene *s, const char *name, double factor, const ls_layout *l)
{
    const ls_candidate whole = {.has_layout = l != NULL, .layout = l ? *l : ls_layout_serial()};
    double *y = scaled(s, name, factor);
    const ls_suspicion found = suspicion_of(s, name, y, &whole, NULL, false);
    free(y);
    return found;
}

/* upstream: only the gradient is given. ranks: of data parallelism that the candidate states; 0:
 * it states nothing. */
static const struct {
    const char *name;
    double factor;
    bool upstream;
    int ranks;
    ls_cause cause;
    const char *text;
} factors[] = {
    {"grad.layers.0.mlp.up.weight", 2, true, 0, LS_CAUSE_FACTOR, "2 x right"},
    {"grad.layers.1.attention.value.bias", 2, true, 0, LS_CAUSE_FACTOR, "2 x right"},
    {"grad.layers.0.mlp.up.weight", 1024, true, 0, LS_CAUSE_FACTOR, "loss scale"},
    {"grad.layers.0.mlp.up.weight", 0.125, true, 0, LS_CAUSE_FACTOR, "1/8 x right"},
    {"grad.layers.0.mlp.up.weight", 2, true, 2, LS_CAUSE_REDUCED_TWICE, "2 x right"},
    {"grad.layers.0.mlp.up.weight", 4, true, 2, LS_CAUSE_FACTOR, "4 x right"},
    {"grad.layers.0.mlp.up.weight", 1.0 / 2, true, 2, LS_CAUSE_AVERAGED, "1/2 x right"},
    {"grad.layers.0.mlp.up.weight", 2, false, 0, LS_CAUSE_REDUCED_TWICE, "2 x right"},
    {"grad.layers.0.mlp.up.weight", 2, false, 1, LS_CAUSE_FACTOR, "2 x right"},
    {"layers.0.mlp", 2, false, 1, LS_CAUSE_FACTOR, "2 x right"},
    {"grad.layers.0.mlp.up.weight", 1.37, true, 0, LS_CAUSE_NONE, NULL},
    /* heads of 4: 1 / sqrt(4) left out on the way back */
    {"d.layers.1.query", 2, false, 0, LS_CAUSE_SCORE_SCALE, "is left out"},
    {"d.layers.0.key", 2, false, 1, LS_CAUSE_SCORE_SCALE, "is left out"},
    {"d.layers.0.key", 0.5, false, 0, LS_CAUSE_SCORE_SCALE, "counts twice"},
    {"grad.layers.0.mlp.up.weight", 0, false, 0, LS_CAUSE_NEVER_COMPUTED, "0 everywhere"},
    {"grad.layers.0.mlp.up.weight", 0, true, 0, LS_CAUSE_NEVER_COMPUTED, "0 everywhere"},
    {"d.layers.0.norm1", 0, false, 0, LS_CAUSE_NEVER_COMPUTED, "0 everywhere"},
};

START_TEST(a_factor)
{
    scene s;
    scene_begin(&s, GPT2);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        ls_layout layout = ls_layout_serial();
        layout.dp = factors[i].ranks;
        s.upstream = factors[i].upstream, s.slack = 1e-7;
        expect_found(
            &s, factors[i].name,
            of_layout(&s, factors[i].name, factors[i].factor, factors[i].ranks ? &layout : NULL),
            factors[i].cause, factors[i].text);
    }
    scene_end(&s);
}
END_TEST

/* A bound that is larger than what a hypothesis is to explain lets it explain nothing. */
START_TEST(a_vacuous_bound)
{
    scene s;
    double largest = 0;
    const char *name = "grad.layers.0.mlp.up.weight";
    scene_begin(&s, GPT2);
    for (size_t i = 0; i < count_of(&s, name); i++)
        largest = fmax(largest, fabs(value(&s, name)[i]));
    s.upstream = true, s.slack = 0.8 * largest; /* of 4 times the gradient: 3.2 */
    expect_cause(&s, name, scaled(&s, name, 4), LS_CAUSE_NONE, NULL);
    s.slack = 1e-3 * largest;
    expect_cause(&s, name, scaled(&s, name, 4), LS_CAUSE_FACTOR, "4 x right");
    scene_end(&s);
}
END_TEST

/* Each element by itself, at the largest norm and at another value; one that has none so large is
 * not clipped at all. */
START_TEST(clipped_by_value)
{
    scene s;
    const char *names[] = {"layers.0.mlp.up.weight", "token_embedding.weight"};
    scene_begin(&s, GPT2);
    for (int k = 0; k < 2; k++)
        for (int most = 0; most < 2; most++) {
            char grad[64], clipped[64];
            double largest = 0;
            snprintf(grad, sizeof grad, "grad.%s", names[k]);
            snprintf(clipped, sizeof clipped, "clipped.%s", names[k]);
            double *y = copy_of(&s, grad);
            for (size_t i = 0; i < count_of(&s, grad); i++) largest = fmax(largest, fabs(y[i]));
            const double c = most ? 2 * largest : largest / 3;
            for (size_t i = 0; i < count_of(&s, grad); i++) y[i] = fmin(fmax(y[i], -c), c);
            expect_cause(&s, clipped, y, most ? LS_CAUSE_NOT_CLIPPED : LS_CAUSE_CLIPPED_BY_VALUE,
                         most ? "the gradient itself" : "cut off at");
        }
    /* clipped to another norm: of one parameter by itself that is no more than a number */
    expect_cause(&s, "clipped.layers.0.mlp.up.weight",
                 scaled(&s, "clipped.layers.0.mlp.up.weight", 0.83), LS_CAUSE_NONE, NULL);
    scene_end(&s);
}
END_TEST

/* BERT: the mean over tokens and the mean over sequences each have their own divisor. */
START_TEST(divisors)
{
    scene s;
    double sum = 0, order = 0, labels = 0, targets = 0, present = 0;
    scene_begin(&s, BERT);
    s.order[2] = LS_IGNORE;
    for (size_t i = 0; i < s.step.graph->count; i++) whole_step_node(&s.step, (int)i, true);
    for (size_t t = 0; t < B * S; t++) sum += value(&s, "token_loss")[t];
    for (size_t t = 0; t < B * S; t++) targets += s.targets[t] != LS_IGNORE;
    for (size_t b = 0; b < B; b++) {
        order += value(&s, "order_loss")[b];
        labels += s.order[b] != LS_IGNORE;
        present += s.lengths[b];
    }
    double *y = zeros(1);
    *y = sum / targets + order / B;
    expect_cause(&s, "loss", y, LS_CAUSE_TARGET_COUNT,
                 "order losses is divided by the number of "
                 "sequences (6)");
    y = zeros(1);
    *y = sum / present + order / labels;
    expect_cause(&s, "loss", y, LS_CAUSE_TARGET_COUNT, "no padding");
    expect_cause(&s, "d.order_logits", scaled(&s, "d.order_logits", labels / B),
                 LS_CAUSE_TARGET_COUNT, "sequences (6), not by that of labels that count (5)");
    expect_cause(&s, "d.logits", scaled(&s, "d.logits", targets / present), LS_CAUSE_TARGET_COUNT,
                 "no padding");
    scene_end(&s);
}
END_TEST

/* One number is named where its own inputs are given and one mistake explains it; else what it is
 * consistent with is listed, unless another tensor has that cause. */
START_TEST(one_number)
{
    scene s;
    scene_begin(&s, GPT2);
    expect_cause(&s, "loss", scaled(&s, "loss", 2), LS_CAUSE_REDUCED_TWICE, "2 x right");
    s.upstream = true;
    expect_cause(&s, "loss", scaled(&s, "loss", 2), LS_CAUSE_NONE, NULL);
    scene_end(&s);
}
END_TEST

/* BERT's pooler reads one token of each sequence: another one is no order of shards. */
START_TEST(another_token_is_pooled)
{
    scene s;
    scene_begin(&s, BERT);
    const double *x = value(&s, "layers.1.layer"), *w = param(&s, "pooler.weight");
    const double *b = param(&s, "pooler.bias");
    for (int row = 0; row < 3; row++) { /* the last, the fourth, the last that is no padding */
        double *y = zeros(B * D);
        for (size_t i = 0; i < B * D; i++) {
            const size_t last = (size_t)s.lengths[i / D] - 1;
            const size_t token = row == 0 ? S - 1 : row == 1 ? 3 : last;
            double sum = b[i % D];
            for (size_t k = 0; k < D; k++) sum += x[(i / D * S + token) * D + k] * w[k * D + i % D];
            y[i] = tanh(sum);
        }
        expect_cause(&s, "pooled", y, LS_CAUSE_POOLING,
                     row == 0   ? "first token of a sequence is expected, token 11 was read"
                     : row == 1 ? "first token of a sequence is expected, token 3 was read"
                                : "last one that is no padding");
    }
    scene_end(&s);
}
END_TEST

/* What only ranks can do is not listed where nothing says that there are several. */
START_TEST(ranks_that_are_not_stated)
{
    scene s;
    scene_begin(&s, GPT2);
    for (int dp = 0; dp < 3; dp++) {
        ls_layout layout = ls_layout_serial();
        layout.dp = dp;
        const ls_suspicion found = of_layout(&s, "d.layers.1.query", 2, dp ? &layout : NULL);
        bool listed = false;
        for (size_t i = 0; i < found.also; i++) listed |= found.others[i] == LS_CAUSE_REDUCED_TWICE;
        ck_assert_int_eq(found.cause, LS_CAUSE_SCORE_SCALE);
        ck_assert_int_eq(listed, dp == 2);
    }
    scene_end(&s);
}
END_TEST

/* AdamW's step hardly depends on the scale of its gradient: one that was not clipped acts as a
 * smaller epsilon does, and it is named before one. */
START_TEST(a_step_from_what_was_not_clipped)
{
    static const struct {
        bool unclipped;
        double eps;
        const char *text;
    } rows[] = {{true, 1e-8, "from the gradient before clipping"},
                {false, 1e-6, "epsilon 1e-06, not 1e-08"},
                {false, 1e-5, "epsilon 1e-05, not 1e-08"}};
    scene s;
    scene_begin(&s, GPT2);
    const char *name = "param.token_embedding.weight";
    const size_t n = count_of(&s, name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double *g = value(&s, rows[i].unclipped ? "grad.token_embedding.weight"
                                                      : "clipped.token_embedding.weight");
        double *y = zeros(n);
        for (size_t k = 0; k < n; k++) {
            const double w = param(&s, "token_embedding.weight")[k];
            y[k] =
                w - s.update.lr * (g[k] / (fabs(g[k]) + rows[i].eps) + s.update.weight_decay * w);
        }
        expect_cause(&s, name, y, LS_CAUSE_OPTIMIZER_VARIANT, rows[i].text);
    }
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_evidence", 120);
    tcase_add_test(tests, a_factor);
    tcase_add_test(tests, a_vacuous_bound);
    tcase_add_test(tests, clipped_by_value);
    tcase_add_test(tests, divisors);
    tcase_add_test(tests, one_number);
    tcase_add_test(tests, another_token_is_pooled);
    tcase_add_test(tests, ranks_that_are_not_stated);
    tcase_add_test(tests, a_step_from_what_was_not_clipped);
    return run_tests();
}
