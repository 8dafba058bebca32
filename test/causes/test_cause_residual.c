/* Residual sums with another second term or none, and their gradients, are named. EXACT arithmetic
 * of the mistake, by the test's own loops. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

enum { N = B * S * D };

/* a, times minus b, plus c: element by element. */
static double *exchanged(const scene *s, const char *a, const char *b, const char *c)
{
    double *y = copy_of(s, a);
    for (size_t i = 0; i < N; i++) y[i] -= value(s, b)[i];
    for (size_t i = 0; i < N && c; i++) y[i] += value(s, c)[i];
    return y;
}

/* "residual from the norm's output instead of its input"; left out */
START_TEST(forward_sums)
{
    scene s;
    scene_begin(&s, _i == 1 ? LLAMA : GPT2);
    const char *after = "layers.0.after_attention", *out = "layers.1.layer";
    expect_cause(&s, after, exchanged(&s, after, "embedded", "layers.0.norm1"), LS_CAUSE_RESIDUAL,
                 "is layers.0.norm1, not embedded");
    expect_cause(&s, after, exchanged(&s, after, "embedded", NULL), LS_CAUSE_RESIDUAL,
                 "embedded is not added");
    expect_cause(&s, out, exchanged(&s, out, "layers.1.after_attention", "layers.1.norm2"),
                 LS_CAUSE_RESIDUAL, "is layers.1.norm2, not layers.1.after_attention");
    expect_cause(&s, out, exchanged(&s, out, "layers.1.after_attention", "layers.0.layer"),
                 LS_CAUSE_RESIDUAL, "is layers.0.layer,");
    scene_end(&s);

    scene_begin(&s, BERT);
    after = "layers.1.after_mlp";
    expect_cause(&s, after, exchanged(&s, after, "layers.1.norm1", "layers.1.after_attention"),
                 LS_CAUSE_RESIDUAL, "is layers.1.after_attention, not layers.1.norm1");
    expect_cause(&s, after, exchanged(&s, after, "layers.1.norm1", "layers.0.layer"),
                 LS_CAUSE_RESIDUAL, "is layers.0.layer,");
    expect_cause(&s, after, exchanged(&s, after, "layers.1.norm1", NULL), LS_CAUSE_RESIDUAL,
                 "layers.1.norm1 is not added");
    scene_end(&s);
}
END_TEST

/* "the skip's gradient dropped"; sent to the norm's output */
START_TEST(gradients)
{
    scene s;
    scene_begin(&s, GPT2);
    const char *d = "d.layers.0.after_attention", *skip = "d.layers.0.layer";
    expect_cause(&s, d, exchanged(&s, d, skip, NULL), LS_CAUSE_RESIDUAL,
                 "connection of layers.0.layer sends back is left out");
    expect_cause(&s, "d.embedded", exchanged(&s, "d.embedded", d, NULL), LS_CAUSE_RESIDUAL,
                 "connection of layers.0.after_attention");
    double *y = copy_of(&s, "d.layers.0.norm2");
    for (size_t i = 0; i < N; i++) y[i] += value(&s, skip)[i];
    expect_cause(&s, "d.layers.0.norm2", y, LS_CAUSE_RESIDUAL, "of layers.0.layer is sent back");
    /* what comes through the norm is another mistake */
    y = copy_of(&s, skip);
    expect_found(&s, d, suspicion_of(&s, d, y, NULL, NULL, false), LS_CAUSE_NONE, NULL);
    free(y);
    scene_end(&s);

    scene_begin(&s, BERT);
    d = "d.layers.0.norm1", skip = "d.layers.0.after_mlp";
    expect_cause(&s, d, exchanged(&s, d, skip, NULL), LS_CAUSE_RESIDUAL, "of layers.0.after_mlp");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_residual", 120);
    tcase_add_loop_test(tests, forward_sums, 0, 2);
    tcase_add_test(tests, gradients);
    return run_tests();
}
