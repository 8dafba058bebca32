/* Of a candidate that has one tensor alone, the mistake is found among the operations before it;
 * and what is known of ranks that should hold the same. The wrong runs are steps of a model that
 * was changed: other configuration, weights, or targets. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* A tensor of another step in the place of the first one's. */
static void expect_upstream(scene *s, const scene *other, const char *name, ls_cause cause,
                            const char *evidence)
{
    double *values = copy_of(other, name), largest = 0;
    const double *right = value(s, name);
    for (size_t i = 0; i < count_of(s, name); i++) largest = fmax(largest, fabs(right[i]));
    s->upstream = true;
    s->slack = 3e-6 * largest;
    expect_cause(s, name, values, cause, evidence);
}

/* Every node again, from changed weights, batch or configuration. */
static void again(scene *s)
{
    for (size_t i = 0; i < s->step.graph->count; i++) whole_step_node(&s->step, (int)i, true);
}

static void transpose_all(scene *s, ls_role role)
{
    for (size_t p = 0; p < s->table->count; p++) {
        const ls_param *par = &s->table->params[p];
        double *w = whole_step_param(&s->step, p);
        for (size_t i = 0; par->role == role && i < par->dims[0]; i++)
            for (size_t j = 0; j < i; j++) {
                const double x = w[i * par->dims[1] + j];
                w[i * par->dims[1] + j] = w[j * par->dims[1] + i];
                w[j * par->dims[1] + i] = x;
            }
    }
}

static void scale_all(scene *s, ls_role role, double by)
{
    for (size_t p = 0; p < s->table->count; p++)
        for (size_t i = 0;
             s->table->params[p].role == role && i < ls_param_elements(&s->table->params[p]); i++)
            whole_step_param(&s->step, p)[i] *= by;
}

START_TEST(from_logits)
{
    scene s, o;
    ls_config c = kind_config(GPT2);
    scene_begin(&s, GPT2);
    c.activation = LS_GELU_ERF;
    scene_begin_with(&o, &c);
    expect_upstream(&s, &o, "logits", LS_CAUSE_GELU_VARIANT, "erf");
    expect_upstream(&s, &o, "grad.layers.0.attention.query.weight", LS_CAUSE_GELU_VARIANT, "erf");
    scene_end(&o);
    c = kind_config(GPT2);
    c.norm_eps = 1e-3;
    scene_begin_with(&o, &c);
    expect_upstream(&s, &o, "logits", LS_CAUSE_NORM_EPSILON, "0.001");
    scene_end(&o);
    c = kind_config(GPT2);
    c.causal = false;
    scene_begin_with(&o, &c);
    expect_upstream(&s, &o, "logits", LS_CAUSE_CAUSAL_MASK, "no mask");
    /* one number chooses among no mistakes, but it may be consistent with one found elsewhere */
    expect_upstream(&s, &o, "loss", LS_CAUSE_NONE, "causal mask off by one");
    s.hint = LS_CAUSE_CAUSAL_MASK;
    expect_upstream(&s, &o, "loss", LS_CAUSE_CAUSAL_MASK, "no mask");
    s.hint = LS_CAUSE_NONE;
    scene_end(&o);

    scene_begin(&o, GPT2);
    scale_all(&o, LS_QUERY_WEIGHT, 0.5);
    scale_all(&o, LS_QUERY_BIAS, 0.5);
    again(&o);
    expect_upstream(&s, &o, "logits", LS_CAUSE_SCORE_SCALE, "1 / head width");
    scene_end(&o);
    scene_begin(&o, GPT2);
    transpose_all(&o, LS_ATTN_OUT_WEIGHT);
    again(&o);
    expect_upstream(&s, &o, "logits", LS_CAUSE_TRANSPOSED, "attention");
    scene_end(&o);
    scene_begin(&o, GPT2);
    scale_all(&o, LS_ATTN_OUT_BIAS, 2);
    scale_all(&o, LS_MLP_DOWN_BIAS, 2);
    again(&o);
    expect_upstream(&s, &o, "logits", LS_CAUSE_BIAS_PER_RANK, "2 times");
    scene_end(&o);
    scene_begin(&o, GPT2);
    scale_all(&o, LS_ATTN_OUT_WEIGHT, 2);
    scale_all(&o, LS_MLP_DOWN_WEIGHT, 2);
    again(&o);
    expect_upstream(&s, &o, "logits", LS_CAUSE_REDUCED_TWICE, "2 times");
    scene_end(&o);
    scene_begin(&o, GPT2);
    for (size_t t = 0; t < B * S; t++) o.targets[t] = t % S == S - 1 ? LS_IGNORE : s.targets[t + 1];
    again(&o);
    expect_upstream(&s, &o, "loss", LS_CAUSE_NONE, "targets shifted twice");
    expect_upstream(&s, &o, "grad.final_norm.bias", LS_CAUSE_TARGET_SHIFT, "t + 1");
    scene_end(&o);
    scene_end(&s);
}
END_TEST

/* A hint is tried alone where the search is to be brief, first where it is not. */
START_TEST(hints)
{
    scene s, o;
    ls_config c = kind_config(GPT2);
    c.activation = LS_GELU_ERF;
    scene_begin(&s, GPT2);
    scene_begin_with(&o, &c);
    s.hint = LS_CAUSE_GELU_VARIANT, s.brief = true;
    expect_upstream(&s, &o, "logits", LS_CAUSE_GELU_VARIANT, "erf");
    s.hint = LS_CAUSE_NORM_EPSILON;
    expect_upstream(&s, &o, "logits", LS_CAUSE_NONE, NULL);
    s.brief = false;
    expect_upstream(&s, &o, "logits", LS_CAUSE_GELU_VARIANT, "erf");
    scene_end(&o);
    scene_end(&s);
}
END_TEST

START_TEST(llama)
{
    scene s, o;
    ls_config c = kind_config(LLAMA);
    scene_begin(&s, LLAMA);
    c.rope_theta = 10000;
    scene_begin_with(&o, &c);
    expect_upstream(&s, &o, "logits", LS_CAUSE_ROTARY, "base 10000");
    scene_end(&o);
    scene_begin(&o, LLAMA);
    for (size_t l = 0; l < LAYERS; l++) {
        const size_t gate = ls_param_find(o.table, LS_MLP_GATE_WEIGHT, l);
        const size_t up = ls_param_find(o.table, LS_MLP_UP_WEIGHT, l);
        const double *w = o.step.params[gate];
        o.step.params[gate] = o.step.params[up], o.step.params[up] = w;
    }
    again(&o);
    expect_upstream(&s, &o, "logits", LS_CAUSE_INTERLEAVED, "gate is taken for up");
    scene_end(&o);
    scene_end(&s);
}
END_TEST

/* ---- ranks ---- */

/* Whole tensors of `ranks` ranks. */
static ls_candidate_tensor given(ls_candidate_block *blocks, int ranks, const scene *s,
                                 const char *name, double *const *values)
{
    const ls_graph_node *node = &s->step.graph->nodes[node_of(s, name)];
    for (int r = 0; r < ranks; r++) {
        const ls_candidate_block block = {
            .rank = r, .micro_batch = -1, .dtype = LS_F64, .values = values[r]};
        blocks[r] = block;
        for (int d = 0; d < node->n_dims; d++) {
            const ls_view_run run = {node->dims[d], 0, node->dims[d]};
            blocks[r].runs[d] = run;
        }
    }
    const ls_candidate_tensor tensor = {.dtype = LS_F64,
                                        .n_blocks = (size_t)ranks,
                                        .blocks = blocks,
                                        .ranks = ranks,
                                        .replicas_differ = true};
    return tensor;
}

static void expect_of_ranks(const scene *s, const char *name, double *const *values, int ranks,
                            const ls_candidate *whole, ls_cause cause, const char *evidence)
{
    ls_candidate_block blocks[8];
    const ls_candidate_tensor tensor = given(blocks, ranks, s, name, values);
    expect_found(s, name, suspicion_of(s, name, values[0], whole, &tensor, true), cause, evidence);
}

START_TEST(ranks_that_differ)
{
    scene s;
    scene_begin(&s, GPT2);
    const char *name = "layers.0.attention";
    const size_t n = count_of(&s, name);
    const double *right = value(&s, name), *b = param(&s, "layers.0.attention.output.bias");
    double *v[4];
    /* parts of the sum that no shares of granules explain, each with the bias */
    for (int r = 0; r < 4; r++) v[r] = zeros(n);
    for (size_t i = 0; i < n; i++) {
        uint64_t state = i + 7;
        double rest = right[i] - b[i % D];
        for (int r = 0; r < 4; r++) {
            const double part = r < 3 ? (double)reference_noise(&state) : rest;
            v[r][i] = part + b[i % D];
            rest -= part;
        }
    }
    expect_of_ranks(&s, name, v, 4, NULL, LS_CAUSE_NOT_REDUCED, "the bias once per rank");
    /* right on rank 0, the bias twice on rank 2 alone */
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; i < n; i++) v[r][i] = right[i] + (r == 2 ? b[i % D] : 0);
    expect_of_ranks(&s, name, v, 4, NULL, LS_CAUSE_BIAS_PER_RANK, "rank 2 (1 of 4 ranks wrong): ");

    /* "a norm's gradient holds only the local part: [0.12, 0.04] and [0.0197, -0.0077]" */
    const char *grad = "grad.layers.0.norm1.weight";
    ls_candidate whole = {.has_layout = true, .layout = ls_layout_serial()};
    whole.layout.tp = 2;
    const double *g = value(&s, grad);
    for (size_t i = 0; i < D; i++) {
        uint64_t state = i + 3;
        v[0][i] = (double)reference_noise(&state) * 0.01;
        v[1][i] = g[i] - v[0][i];
    }
    expect_of_ranks(&s, grad, v, 2, &whole, LS_CAUSE_REPLICATED_GRADIENT, "2 ranks");
    for (int r = 0; r < 4; r++) free(v[r]);
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_upstream", 120);
    tcase_add_test(tests, from_logits);
    tcase_add_test(tests, hints);
    tcase_add_test(tests, llama);
    tcase_add_test(tests, ranks_that_differ);
    return run_tests();
}
