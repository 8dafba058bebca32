/* The same mistakes from candidates in every format, binary64 to f16, and on whole numbers where
 * every right value is exact; and what a candidate with nothing but losses and gradients shows. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

static double rounded(double value, ls_dtype dtype)
{
    int exponent;
    const int bits = dtype == LS_BF16 ? 8 : 11;
    if (dtype == LS_F64) return value;
    if (dtype == LS_F32) return (double)(float)value;
    const double fraction = frexp(value, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

/* As expect_cause, of a candidate in a format; its operands too. exact: nothing may be off. */
static void expect_in(scene *s, ls_dtype dtype, bool exact, const char *name, double *values,
                      ls_cause cause, const char *evidence)
{
    const int place = node_of(s, name);
    const size_t n = count_of(s, name);
    double *right = zeros(n), *bound = zeros(n);
    ls_precision precision = ls_precision_of(dtype, 8);
    ls_suspicion found;
    if (exact) memset(&precision, 0, sizeof precision);
    for (size_t i = 0; i < n; i++) values[i] = rounded(values[i], dtype);
    ck_assert_int_eq(ls_operation_evaluate(&s->step.operands, place, precision, right, bound),
                     LS_OK);
    ck_assert(count_outside(values, right, bound, n) > 0);
    const ls_case of = {.golden = &s->golden,
                        .node = place,
                        .operands = s->step.operands,
                        .own_inputs = true,
                        .precision = precision,
                        .candidate = values,
                        .right = right,
                        .bound = bound};
    ck_assert_int_eq(ls_cause_find(&of, &found), LS_OK);
    expect_found(s, name, found, cause, evidence);
    free(right), free(bound), free(values);
}

static double *without_bias(const scene *s, const char *name, const double *bias, double times,
                            double bias_times)
{
    double *y = copy_of(s, name);
    for (size_t i = 0; i < count_of(s, name); i++)
        y[i] = (y[i] - bias[i % D]) * times + bias_times * bias[i % D];
    return y;
}

static void several(scene *s, ls_dtype dtype, bool exact)
{
    const double *b = param(s, "layers.1.attention.output.bias");
    const char *name = "layers.1.attention";
    expect_in(s, dtype, exact, name, without_bias(s, name, b, 1, 4), LS_CAUSE_BIAS_PER_RANK,
              "4 times");
    expect_in(s, dtype, exact, name, without_bias(s, name, b, 1, 0), LS_CAUSE_BIAS_MISSING, NULL);
    expect_in(s, dtype, exact, name, without_bias(s, name, b, 2, 1), LS_CAUSE_REDUCED_TWICE,
              "2 x right");
    expect_in(s, dtype, exact, name, without_bias(s, name, b, 0.25, 0.25), LS_CAUSE_AVERAGED,
              "1/4 x right");
    const double *x = value(s, "layers.1.heads");
    const double *w = param(s, "layers.1.attention.output.weight");
    double *y = zeros(B * S * D), *t = zeros(B * S * D);
    for (size_t e = 0; e < B * S; e++)
        for (size_t j = 0; j < D; j++) {
            y[e * D + j] = t[e * D + j] = b[j];
            for (size_t i = 0; i < D; i++) {
                if (i < D / 2) y[e * D + j] += x[e * D + i] * w[i * D + j];
                t[e * D + j] += x[e * D + i] * w[j * D + i];
            }
        }
    expect_in(s, dtype, exact, name, y, LS_CAUSE_NOT_REDUCED, "rank 0 of tp 2");
    expect_in(s, dtype, exact, name, t, LS_CAUSE_TRANSPOSED, NULL);
    const char *grad = "grad.layers.1.attention.output.weight";
    double *g = copy_of(s, grad);
    for (size_t i = 0; i < D * D; i++) g[i] *= 2;
    expect_in(s, dtype, exact, grad, g, LS_CAUSE_REDUCED_TWICE, "2 x right");
}

START_TEST(formats)
{
    static const ls_dtype dtypes[] = {LS_F64, LS_F32, LS_BF16, LS_F16};
    scene s;
    scene_begin(&s, GPT2);
    for (size_t i = 0; i < s.step.graph->count && dtypes[_i] == LS_F64; i++)
        whole_step_node(&s.step, (int)i, false);
    several(&s, dtypes[_i], false);
    scene_end(&s);
}
END_TEST

/* Small integers as operands of the two operations: every sum is exact. */
START_TEST(integers)
{
    scene s;
    scene_begin(&s, GPT2);
    uint64_t state = 3;
    double *x = s.step.values[node_of(&s, "layers.1.heads")];
    double *dy = s.step.values[node_of(&s, "d.layers.1.attention")];
    double *w = whole_step_param(&s.step, ls_param_find(s.table, LS_ATTN_OUT_WEIGHT, 1));
    double *b = whole_step_param(&s.step, ls_param_find(s.table, LS_ATTN_OUT_BIAS, 1));
    for (size_t i = 0; i < B * S * D; i++) {
        x[i] = rint(2 * (double)reference_noise(&state));
        dy[i] = rint(2 * (double)reference_noise(&state));
    }
    for (size_t i = 0; i < D * D; i++) w[i] = rint(2 * (double)reference_noise(&state));
    for (size_t i = 0; i < D; i++) b[i] = rint(3 * (double)reference_noise(&state));
    whole_step_node(&s.step, node_of(&s, "layers.1.attention"), false);
    whole_step_node(&s.step, node_of(&s, "grad.layers.1.attention.output.weight"), false);
    several(&s, LS_F32, true);
    /* a third is no binary number */
    const char *name = "layers.1.attention";
    expect_in(&s, LS_F32, true, name, without_bias(&s, name, b, 1.0 / 3, 1.0 / 3),
              LS_CAUSE_AVERAGED, "1/3 x right");
    scene_end(&s);
}
END_TEST

/* Gradients alone, nothing that they are made of: means of means show in every one. */
/* A loss scale in bf16, whose fit is a unit off: 1025 all over is within its rounding. */
START_TEST(loss_scale)
{
    scene s;
    scene_begin(&s, GPT2);
    s.format = LS_BF16;
    double *d = copy_of(&s, "d.logits");
    for (size_t i = 0; i < B * S * V; i++) d[i] *= 1025;
    expect_cause(&s, "d.logits", d, LS_CAUSE_FACTOR, "1024 x right (fitted 102");
    s.format = LS_F32;
    d = copy_of(&s, "d.logits");
    for (size_t i = 0; i < B * S * V; i++) d[i] *= 1025.3;
    expect_cause(&s, "d.logits", d, LS_CAUSE_NONE, NULL);
    scene_end(&s);
}
END_TEST

START_TEST(gradients_alone)
{
    scene s;
    scene_begin(&s, GPT2);
    double weights[B], all = 0, n[2] = {0, 0};
    for (size_t t = 0; t < B * S; t++) {
        all += s.targets[t] != LS_IGNORE;
        n[t / S / 3] += s.targets[t] != LS_IGNORE;
    }
    for (size_t b = 0; b < B; b++) weights[b] = all / (2 * n[b / 3]);
    s.upstream = true;
    s.slack = 1e-9;
    double *d = copy_of(&s, "d.layers.0.norm1");
    for (size_t i = 0; i < B * S * D; i++) d[i] *= weights[i / (S * D)];
    expect_cause(&s, "d.layers.0.norm1", d, LS_CAUSE_MEAN_OF_MEANS, "over 2 parts");
    d = copy_of(&s, "d.layers.0.norm1");
    for (size_t i = 0; i < B * S * D; i++) d[i] *= all / (B * S);
    expect_cause(&s, "d.layers.0.norm1", d, LS_CAUSE_TARGET_COUNT, "all tokens (72)");
    /* a gradient of a parameter, of scaled gradients of what it multiplies */
    const double *x = value(&s, "layers.0.norm2"), *dy = value(&s, "d.layers.0.up");
    double *g = zeros(D * F);
    for (size_t t = 0; t < B * S; t++)
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < F; j++)
                g[i * F + j] += weights[t / S] * x[t * D + i] * dy[t * F + j];
    expect_cause(&s, "grad.layers.0.mlp.up.weight", g, LS_CAUSE_MEAN_OF_MEANS, "over 2 parts");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_formats", 120);
    tcase_add_loop_test(tests, formats, 0, 4);
    tcase_add_test(tests, integers);
    tcase_add_test(tests, loss_scale);
    tcase_add_test(tests, gradients_alone);
    return run_tests();
}
