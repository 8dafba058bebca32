/* Queries turned by other angles are named with the rule: another base, positions divided,
 * Llama-3's scaling, frequencies of their own, roundings to bf16. The angles come from plain
 * formulas here. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

typedef enum rounded { EXACT, FREQUENCY, ANGLE, TABLE } rounded;

typedef struct rule {
    double base, divided;
    double llama3; /* factor, for a context of 64 positions; 0: none */
    double odd;    /* the last pair's angle so many times */
    rounded how;
} rule;

enum { WIDE = 8, HEADS = 3 }; /* heads of 8 features: 4 pairs */

static double frequency(const rule *r, size_t i)
{
    const double turn = 2 * acos(-1);
    double f = pow(r->base, -2.0 * (double)i / WIDE) / r->divided;
    if (r->llama3 > 0) {
        const double wave = turn / f;
        if (wave > 8192 / 1.0)
            f /= r->llama3;
        else if (wave > 8192 / 4.0) {
            const double smooth = (8192 / wave - 1) / 3;
            f = (1 - smooth) * f / r->llama3 + smooth * f;
        }
    }
    return i == WIDE / 2 - 1 && r->odd > 0 ? f * r->odd : f;
}

/* layers.0.query as it is turned by a rule. */
static double *turned(const scene *s, const rule *r, const char *name, const char *weight)
{
    const double *x = value(s, "layers.0.norm1"), *w = param(s, weight);
    const size_t width = count_of(s, name) / (B * S);
    double *y = zeros(B * S * width);
    for (size_t t = 0; t < B * S; t++) {
        double row[D] = {0};
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < width; j++) row[j] += x[t * D + i] * w[i * width + j];
        for (size_t k = 0; k < width / 2; k++) {
            const size_t i = k % (WIDE / 2), a = k / (WIDE / 2) * WIDE + i, b = a + WIDE / 2;
            const double f = frequency(r, i);
            double angle = (double)(t % S) * (r->how == FREQUENCY ? nearest_bf16(f) : f);
            if (r->how == ANGLE) angle = nearest_bf16(angle);
            const bool table = r->how == TABLE;
            const double c = table ? nearest_bf16(cos(angle)) : cos(angle);
            const double z = table ? nearest_bf16(sin(angle)) : sin(angle);
            y[t * width + a] = row[a] * c - row[b] * z;
            y[t * width + b] = row[b] * c + row[a] * z;
        }
    }
    return y;
}

static void wide_scene(scene *s, double theta)
{
    ls_config config = kind_config(LLAMA);
    config.heads = HEADS, config.kv_heads = 1, config.rope_theta = theta;
    scene_begin_with(s, &config);
}

static const struct {
    double right;
    rule rule;
    const char *text;
    bool coarse; /* seen in bf16 too */
} rows[] = {
    {100, {.base = 1e5, .divided = 1}, "rotary base 100000, not 100", true},
    {1e4, {.base = 5e6, .divided = 1}, "rotary base 5000000, not 10000", true},
    {1e4, {.base = 23000, .divided = 1}, "rotary base 23000, not 10000", false},
    {100, {.base = 100, .divided = 4}, "positions divided by 4", true},
    {100, {.base = 100, .divided = 2.5}, "positions divided by 2.5", true},
    {1e6, {.base = 1e6, .divided = 1, .llama3 = 8}, "Llama-3 rotary scaling: factor 8", false},
    {100, {.base = 100, .divided = 1, .odd = 1.3}, "pair by pair, 1 1 1 1.3", false},
    {100, {.base = 100, .divided = 1, .how = TABLE}, "cosines and sines", false},
    {100, {.base = 100, .divided = 1, .how = ANGLE}, "rotary angles are rounded", false},
    {100, {.base = 100, .divided = 1, .how = FREQUENCY}, "inverse frequencies", false}};

START_TEST(rules)
{
    scene s;
    wide_scene(&s, rows[_i].right);
    expect_cause(&s, "layers.0.query",
                 turned(&s, &rows[_i].rule, "layers.0.query", "layers.0.attention.query.weight"),
                 LS_CAUSE_ROTARY, rows[_i].text);
    expect_cause(&s, "layers.0.key",
                 turned(&s, &rows[_i].rule, "layers.0.key", "layers.0.attention.key.weight"),
                 LS_CAUSE_ROTARY, rows[_i].text);
    s.format = LS_BF16;
    if (rows[_i].coarse)
        expect_cause(
            &s, "layers.0.query",
            turned(&s, &rows[_i].rule, "layers.0.query", "layers.0.attention.query.weight"),
            LS_CAUSE_ROTARY, rows[_i].text);
    scene_end(&s);
}
END_TEST

/* A candidate that turns by base 23000, which no list has: the gradient of the weight is named by
 * what its query tells. */
START_TEST(backward)
{
    scene s;
    wide_scene(&s, 1e4);
    const rule other = {.base = 23000, .divided = 1};
    double *query = turned(&s, &other, "layers.0.query", "layers.0.attention.query.weight");
    const double *x = value(&s, "layers.0.norm1"), *d = value(&s, "d.layers.0.query");
    double *dw = zeros(D * D);
    for (size_t t = 0; t < B * S; t++)
        for (size_t k = 0; k < D / 2; k++) {
            const size_t a = k / (WIDE / 2) * WIDE + k % (WIDE / 2), b = a + WIDE / 2;
            const double angle = (double)(t % S) * frequency(&other, k % (WIDE / 2));
            const double da = d[t * D + a], db = d[t * D + b];
            for (size_t i = 0; i < D; i++) {
                dw[i * D + a] += x[t * D + i] * (da * cos(angle) + db * sin(angle));
                dw[i * D + b] += x[t * D + i] * (db * cos(angle) - da * sin(angle));
            }
        }
    double *kept = s.step.values[node_of(&s, "layers.0.query")];
    for (size_t i = 0; i < B * S * D; i++) kept[i] = (double)(float)query[i];
    expect_cause(&s, "grad.layers.0.attention.query.weight", dw, LS_CAUSE_ROTARY, "base 23000");
    free(query);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_rotary", 120);
    tcase_add_loop_test(tests, rules, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(tests, backward);
    return run_tests();
}
