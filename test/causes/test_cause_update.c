/* The end of a step by another formula is named: clipping with an epsilon beside the norm, other
 * decays, corrections, epsilons, betas, rates and moments of the optimizer. EXACT
 * arithmetic of the mistake, by the test's own loops. */
#include "causes/cause_fixture.h"
#include "golden/golden_files.h"
#include "run_tests.h"

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

/* ---- the optimizer ---- */

/* AdamW with everything that may be done otherwise. */
typedef struct adam {
    double lr, beta1, beta2, eps, decay;
    bool l2, without_rate, raw_mean, raw_square, sgd;
    int eps_at; /* 1: in the root; 2: before bias correction */
    int t;      /* 0: the step's */
} adam;

static const adam right_adam = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1};

static void adam_step(const adam *a, int t, double *w, double *m, double *v, double g)
{
    if (a->t) t = a->t;
    if (a->l2) g += a->decay * *w;
    *m = a->beta1 * *m + (1 - a->beta1) * g;
    *v = a->beta2 * *v + (1 - a->beta2) * g * g;
    const double c1 = a->raw_mean ? 1 : 1 / (1 - pow(a->beta1, t));
    const double c2 = a->raw_square ? 1 : 1 / (1 - pow(a->beta2, t));
    const double below = a->eps_at == 1   ? sqrt(*v * c2 + a->eps)
                         : a->eps_at == 2 ? (sqrt(*v) + a->eps) * sqrt(c2)
                                          : sqrt(*v * c2) + a->eps;
    if (a->sgd) {
        *w -= a->lr * (g + 0 * a->decay);
        return;
    }
    if (!a->l2) *w -= (a->without_rate ? 1 : a->lr) * a->decay * *w;
    *w -= a->lr * *m * c1 / below;
}

/* A parameter in its second step: what the first left, right (for the operands) and by `how`. */
typedef struct second {
    scene s;
    const char *name;
    size_t n;
    double *first, *gradient; /* weights before the first step, its clipped gradient */
    const double **moments[2];
    double *right[2];
    ls_golden_tensor golden;
    ls_candidate_tensor tensor;
    ls_candidate whole;
    ls_golden_files files;
    const void **given;
    ls_dtype *dtypes;
} second;

static void second_begin(second *z, const char *weight, bool decays, int step)
{
    char name[96];
    memset(z, 0, sizeof *z);
    scene *s = &z->s;
    scene_begin(s, GPT2);
    const size_t place = ls_param_find_name(s->table, weight);
    z->name = weight, z->n = ls_param_elements(&s->table->params[place]);
    ck_assert(s->table->params[place].decay == decays);
    if (step == 0) return;
    snprintf(name, sizeof name, "clipped.%s", weight);
    z->gradient = copy_of(s, name), z->first = zeros(z->n);
    uint64_t state = 77;
    adam how = right_adam;
    if (!decays) how.decay = 0;
    for (int i = 0; i < 2; i++) {
        z->moments[i] = calloc(s->table->count, sizeof *z->moments[i]);
        z->moments[i][place] = z->right[i] = zeros(z->n);
    }
    for (size_t i = 0; i < z->n; i++) {
        z->gradient[i] *= 1 + 0.5 * (double)reference_noise(&state);
        z->first[i] = param(s, weight)[i] + 0.01 * (double)reference_noise(&state);
        double w = z->first[i];
        adam_step(&how, 1, &w, &z->right[0][i], &z->right[1][i], z->gradient[i]);
    }
    z->golden.step = 0, z->golden.node = node_of(s, name), z->golden.count = z->n;
    z->tensor.golden = &z->golden, z->tensor.dtype = LS_F64, z->tensor.values = z->gradient;
    z->whole.count = 1, z->whole.tensors = &z->tensor;
    z->given = calloc(s->table->count, sizeof *z->given);
    z->dtypes = calloc(s->table->count, sizeof *z->dtypes);
    for (int i = 0; i < 3; i++) z->files.dtypes[i] = z->dtypes;
    const void **none = calloc(s->table->count, sizeof *none);
    z->given[place] = z->first, z->dtypes[place] = LS_F64;
    z->files.params[0] = z->given, z->files.params[1] = z->files.params[2] = none;
    s->golden.files = &z->files;
    s->step.operands.moment1 = z->moments[0], s->step.operands.moment2 = z->moments[1];
    s->update.t = 2, s->at = 1;
}

static void second_end(second *z)
{
    if (z->gradient) free((void *)z->files.params[1]);
    for (int i = 0; i < 2; i++) free(z->moments[i]), free(z->right[i]);
    free(z->gradient), free(z->first), free(z->given), free(z->dtypes);
    scene_end(&z->s);
}

/* What is said of the weights that `how` leaves; kept: its moments of the step before. */
static ls_suspicion said_of(const second *z, const adam *how, bool kept, bool may_be_right)
{
    char name[96];
    double *y = zeros(z->n);
    snprintf(name, sizeof name, "clipped.%s", z->name);
    const double *g = value(&z->s, name);
    for (size_t i = 0; i < z->n; i++) {
        double m = 0, v = 0, w = z->first ? z->first[i] : 0;
        if (z->first && kept) adam_step(how, 1, &w, &m, &v, z->gradient[i]);
        y[i] = param(&z->s, z->name)[i];
        adam_step(how, (int)z->s.update.t, &y[i], &m, &v, g[i]);
    }
    snprintf(name, sizeof name, "param.%s", z->name);
    const ls_suspicion found =
        suspicion_of(&z->s, name, y, z->first ? &z->whole : NULL, NULL, may_be_right);
    free(y);
    return found;
}

/* How each mistake shows: in a step without history, and in one with. */
static const struct {
    adam how;
    const char *text;
    bool first, later; /* told apart in the first step, in a later one */
    bool vectors;      /* in a parameter that does not decay, too */
} mistakes[] = {
#define ADAM .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1
    {{ADAM, .l2 = true}, "added to the gradient (L2)", true, true, false},
    {{ADAM, .without_rate = true}, "not multiplied by the learning rate", true, true, false},
    {{ADAM, .raw_mean = true, .raw_square = true},
     "no bias correction, of m and v",
     true,
     true,
     true},
    {{ADAM, .raw_mean = true}, "no bias correction of m", true, true, true},
    {{ADAM, .raw_square = true}, "no bias correction of v", true, true, true},
    {{ADAM, .eps_at = 1}, "sqrt(v + eps)", true, true, true},
    {{ADAM, .eps_at = 2}, "sqrt(v) before the bias correction", true, true, true},
    {{ADAM, .sgd = true}, "plain SGD", true, true, true},
    {{.lr = 1e-3, .beta1 = 0.95, .beta2 = 0.9, .eps = 1e-8, .decay = 0.1},
     "exchanged",
     false,
     true,
     true},
    {{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.1},
     "0.9 and 0.999",
     false,
     true,
     true},
    {{.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1},
     "learning rate 0.0003 = 0.3 x 0.001",
     true,
     true,
     true},
    {{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.01},
     "weight decay 0.01, not 0.1",
     true,
     true,
     false},
    {{.lr = 2e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.01},
     "learning rate 0.002 and weight decay 0.01",
     true,
     true,
     false},
    {{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .decay = 0.1},
     "epsilon 1e-06",
     true,
     true,
     true},
    {{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
     "without weight decay",
     true,
     true,
     false},
    {{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
     ", and without its weight decay",
     false,
     true,
     false},
    {{ADAM, .t = 3}, "as in update 3, not 2", false, true, true},
};

/* "weight decay of biases", "L2 for decoupled decay", "no bias correction", ... */
START_TEST(steps)
{
    const bool later = _i == 1;
    second z;
    second_begin(&z, "layers.0.mlp.up.weight", true, later);
    const char *name = "param.layers.0.mlp.up.weight";
    ck_assert_int_eq(said_of(&z, &right_adam, true, true).cause, LS_CAUSE_NONE);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (later ? mistakes[i].later : mistakes[i].first)
            expect_found(&z.s, name, said_of(&z, &mistakes[i].how, true, false),
                         LS_CAUSE_OPTIMIZER_VARIANT, mistakes[i].text);
    if (later)
        expect_found(&z.s, name, said_of(&z, &right_adam, false, false), LS_CAUSE_OPTIMIZER_VARIANT,
                     "they were not kept");
    expect_cause(&z.s, name, scaled(&z.s, name, 1.37), LS_CAUSE_NONE, NULL);
    expect_cause(&z.s, name, scaled(&z.s, name, 0.93), LS_CAUSE_NONE, NULL);
    double *y = zeros(z.n);
    memcpy(y, param(&z.s, z.name), z.n * sizeof *y);
    expect_cause(&z.s, name, y, LS_CAUSE_OPTIMIZER_VARIANT, "not updated");
    second_end(&z);
}
END_TEST

/* A parameter that does not decay. */
START_TEST(vectors)
{
    const bool later = _i == 1;
    second z;
    second_begin(&z, "layers.1.norm2.weight", false, later);
    const char *name = "param.layers.1.norm2.weight";
    adam how = right_adam;
    expect_found(&z.s, name, said_of(&z, &how, true, false), LS_CAUSE_OPTIMIZER_VARIANT,
                 "with weight decay, which this parameter does not have");
    how.decay = 0.01; /* as of a library's default */
    expect_found(&z.s, name, said_of(&z, &how, true, false), LS_CAUSE_OPTIMIZER_VARIANT,
                 "weight decay 0.01, not 0");
    how.decay = 0;
    ck_assert_int_eq(said_of(&z, &how, true, true).cause, LS_CAUSE_NONE);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        how = mistakes[i].how;
        how.decay = 0;
        if (mistakes[i].vectors && (later ? mistakes[i].later : mistakes[i].first))
            expect_found(&z.s, name, said_of(&z, &how, true, false), LS_CAUSE_OPTIMIZER_VARIANT,
                         NULL);
    }
    second_end(&z);
}
END_TEST

/* Twice the learning rate is not two updates where the parameter decays; where it does not, in the
 * first step, it may be either. */
START_TEST(twice)
{
    second z;
    second_begin(&z, "layers.0.mlp.up.weight", true, 0);
    adam how = right_adam;
    how.lr *= 2;
    expect_found(&z.s, "param.layers.0.mlp.up.weight", said_of(&z, &how, true, false),
                 LS_CAUSE_OPTIMIZER_VARIANT, "learning rate 0.002 = 2 x 0.001");
    second_end(&z);
    second_begin(&z, "layers.1.norm2.weight", false, 0);
    how.decay = 0;
    const ls_suspicion found = said_of(&z, &how, true, false);
    expect_found(&z.s, "param.layers.1.norm2.weight", found, LS_CAUSE_UPDATE_TWICE, NULL);
    ck_assert_uint_eq(found.also, 1);
    ck_assert_int_eq(found.others[0], LS_CAUSE_OPTIMIZER_VARIANT);
    second_end(&z);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_update", 120);
    tcase_add_test(tests, clipping);
    tcase_add_loop_test(tests, steps, 0, 2);
    tcase_add_loop_test(tests, vectors, 0, 2);
    tcase_add_test(tests, twice);
    return run_tests();
}
