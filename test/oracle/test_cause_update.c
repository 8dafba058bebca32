/* The end of a step by another formula is named: clipping with an epsilon beside the norm. EXACT
 * arithmetic of the mistake, by the test's own loops. */
#include "oracle/cause_fixture.h"

static double *scaled(const scene *s, const char *gradient, double factor)
{
    double *y = copy_of(s, gradient);
    for (size_t i = 0; i < count_of(s, gradient); i++) y[i] *= factor;
    return y;
}

/* "clip_grad_norm_ divides by norm + 1e-6" */
START_TEST(clipping)
{
    static const struct {
        double eps;
        ls_cause cause;
        const char *text;
    } rows[] = {{1e-6, LS_CAUSE_CLIPPING_EPSILON, "(norm + 1e-06)"},
                {1e-5, LS_CAUSE_CLIPPING_EPSILON, "(norm + 1e-05)"},
                {1e-3, LS_CAUSE_CLIPPING_EPSILON, "(norm + 0.001)"},
                {3.3e-5, LS_CAUSE_CLIPPING_EPSILON, "(norm + 3.3e-05)"},
                {4.3e-3, LS_CAUSE_NONE, NULL}, /* no epsilon of anybody */
                {-1e-5, LS_CAUSE_NONE, NULL}};
    scene s;
    scene_begin(&s, GPT2);
    /* The smallest of these shows in binary32 where the norm is about 1. */
    const double norm = s.step.values[node_of(&s, "norm")][0] = 0.75;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_cause(&s, "clipped.layers.1.norm2.weight",
                     scaled(&s, "grad.layers.1.norm2.weight", 0.5 / (norm + rows[i].eps)),
                     rows[i].cause, rows[i].text);
        expect_cause(&s, "clipped.layers.0.mlp.up.weight",
                     scaled(&s, "grad.layers.0.mlp.up.weight", 0.5 / (norm + rows[i].eps)),
                     rows[i].cause, rows[i].text);
    }
    const char *up = "clipped.layers.0.mlp.up.weight", *grad = "grad.layers.0.mlp.up.weight";
    expect_cause(&s, up, copy_of(&s, grad), LS_CAUSE_NOT_CLIPPED, NULL);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cause_update");
    tcase_add_test(tests, clipping);
    return run_tests("cause_update", tests);
}
