/* What no known mistake explains is given no name: right tensors with roundings, noise, mistakes
 * that are not on the list, and what was reported as a mistake and is none. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

static void expect_none(const scene *s, const char *name, double *values)
{
    expect_found(s, name, suspicion_of(s, name, values, NULL, NULL, true), LS_CAUSE_NONE, NULL);
    free(values);
}

/* Every node: as it is, with a rounding, and in turn with noise of 1e-3, noise of its own size,
 * scaled by a number that is no count, one element off. */
START_TEST(every_node)
{
    scene s;
    scene_begin(&s, (kind)_i);
    uint64_t state = 5;
    for (size_t i = 0; i < s.step.graph->count; i++) {
        const ls_graph_node *node = &s.step.graph->nodes[i];
        const size_t n = ls_graph_elements(s.step.graph, (int)i);
        const double *right = s.step.values[i];
        double largest = 0;
        if (node->layer == 1 && _i != GPT2) continue; /* as layer 0 */
        for (size_t e = 0; e < n; e++) largest = fmax(largest, fabs(right[e]));
        expect_none(&s, node->name, copy_of(&s, node->name));
        for (int how = 0; how < 5; how++) {
            if (how > 0 && i % 4 != (size_t)how - 1) continue;
            double *v = copy_of(&s, node->name);
            for (size_t e = 0; e < n; e++) {
                const double noise = (double)reference_noise(&state);
                if (how == 0) v[e] *= 1 + 0x1p-23 * noise;
                if (how == 1) v[e] += 1e-3 * largest * noise;
                if (how == 2) v[e] = largest * noise;
                if (how == 3) v[e] *= 1.37;
            }
            if (how == 4) v[n / 2] += 0.1 * largest + 1e-3;
            if (how == 3 && node->make == LS_MAKE_GRADIENT_NORM) v[0] = 1.0037 * right[0];
            expect_none(&s, node->name, v);
        }
    }
    scene_end(&s);
}
END_TEST

/* NaN and infinity are no explanation of anything, nor explained. */
START_TEST(no_numbers)
{
    scene s;
    scene_begin(&s, GPT2);
    static const char *const names[] = {"layers.0.attention",
                                        "layers.1.probabilities",
                                        "loss",
                                        "grad.token_embedding.weight",
                                        "norm",
                                        "param.layers.0.mlp.up.weight",
                                        "layers.0.layer"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int all = 0; all < 2; all++) {
            double *v = copy_of(&s, names[k]), *w = copy_of(&s, names[k]);
            for (size_t i = 0; i < (all ? count_of(&s, names[k]) : 1); i++)
                v[i] = (double)NAN, w[i] = (double)INFINITY;
            expect_none(&s, names[k], v);
            expect_none(&s, names[k], w);
        }
    scene_end(&s);
}
END_TEST

/* Reported as mistakes that are none: the bias on rank 0 alone; scores scaled by 1 / layer and back
 * in the softmax; rowsum(dO O) for rowsum(P dP); another order of a sum. */
START_TEST(no_mistakes)
{
    scene s;
    scene_begin(&s, GPT2);
    const double *x = value(&s, "layers.1.heads");
    const double *w = param(&s, "layers.1.attention.output.weight");
    const double *b = param(&s, "layers.1.attention.output.bias");
    double *y = zeros(B * S * D), *P = zeros(B * H * S * S);
    for (size_t t = 0; t < B * S; t++)
        for (size_t j = 0; j < D; j++) {
            float rank0 = (float)b[j], rank1 = 0;
            for (size_t i = 0; i < D / 2; i++) {
                rank0 += (float)(x[t * D + i] * w[i * D + j]);
                rank1 += (float)(x[t * D + D - 1 - i] * w[(D - 1 - i) * D + j]);
            }
            y[t * D + j] = (double)(rank0 + rank1);
        }
    expect_none(&s, "layers.1.attention", y);

    const double *q = value(&s, "layers.1.query"), *k = value(&s, "layers.1.key");
    for (size_t r = 0; r < B * H * S; r++) {
        const size_t at = r / H / S, h = r / S % H, i = r % S;
        float sum = 0, row[S];
        for (size_t j = 0; j <= i; j++) {
            float score = 0;
            for (size_t c = 0; c < DH; c++)
                score += (float)q[(at * S + i) * D + h * DH + c] *
                         (float)k[(at * S + j) * D + h * DH + c];
            row[j] = expf(score * (0.5F / 2) * 2);
            sum += row[j];
        }
        for (size_t j = 0; j <= i; j++) P[r * S + j] = (double)(row[j] / sum);
    }
    expect_none(&s, "layers.1.probabilities", P);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_none", 120);
    tcase_add_loop_test(tests, every_node, 0, KINDS);
    tcase_add_test(tests, no_numbers);
    tcase_add_test(tests, no_mistakes);
    return run_tests();
}
