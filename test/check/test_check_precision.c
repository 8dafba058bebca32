/* Right candidates in every precision, pure and mixed, however they are written: explained. */
#include "check/check_fixture.h"
#include "run_tests.h"

static const char *const models[] = {"gpt2-nano", "llama-nano"};

static const ls_dtype formats[] = {LS_F32, LS_F64, LS_F16, LS_BF16};

static void expect_explained(const check_fixture *c, ls_dtype format)
{
    expect_none_different(c);
    ck_assert_uint_gt(c->judgement->explained, c->golden->count / 4);
    for (size_t i = 0; i < c->judgement->count; i++) {
        const ls_judged *j = &c->judgement->tensors[i];
        if (format != LS_F16 && format != LS_BF16) ck_assert_int_eq(j->format, format);
        if (j->verdict == LS_EQUAL) continue;
        ck_assert_msg(j->precision == format, "%s", j->golden->name);
        ck_assert_msg(j->local == LS_LOCAL_WITHIN, "%s", j->golden->name);
        ck_assert_msg(j->sound, "%s", j->golden->name);
        ck_assert_uint_gt(j->differing, 0);
        ck_assert_uint_gt(j->max_ulps, 0);
        ck_assert_uint_eq(j->outside, 0);
        ck_assert_uint_gt(ls_check_ulps(j->format, j->candidate_value, j->golden_value), 0);
    }
}

/* Every operation in another order and precision: explained, each by itself. */
START_TEST(another_precision_is_explained)
{
    check_fixture c;
    const ls_config config = check_config(models[_i / 4]);
    const ls_dtype format = formats[_i % 4];
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, format, NULL);
    check_fixture_judge(&c, NULL);
    expect_explained(&c, format);
    check_fixture_end(&c);
}
END_TEST

/* What is computed again is what the candidate computed: from its own tensors, parameters in its
 * format, moments that follow from its own gradients. ORDERED. */
START_TEST(operands_are_the_candidates_own)
{
    check_fixture c;
    const ls_config config = check_config(models[_i / 4]);
    const ls_dtype format = formats[_i % 4];
    size_t looked = 0;
    check_fixture_begin(&c, &config, 3);
    candidate_computed(&c, format, NULL);
    check_fixture_judge(&c, NULL);
    for (size_t i = 0; i < c.judgement->count; i++) {
        const ls_judged *j = &c.judgement->tensors[i];
        double *right = NULL, *bound = NULL;
        /* Who updates what it keeps in bf16 began with rounded weights. */
        if (format > LS_F64 && c.f.graph->nodes[j->golden->node].make == LS_MAKE_UPDATED) continue;
        fixture_ok(ls_check_again(
            c.judgement->inside, ls_check_at(c.judgement->inside, j->golden->step, j->golden->node),
            &right, &bound));
        ck_assert_ptr_nonnull(right);
        ls_check_round(format, right, j->golden->count);
        ck_assert_msg(memcmp(right, c.mine[j->golden->step][j->golden->node],
                             j->golden->count * sizeof *right) == 0,
                      "%s", j->golden->name);
        free(right), free(bound);
        looked++;
    }
    ck_assert_uint_gt(looked, c.golden->count / 2);
    check_fixture_end(&c);
}
END_TEST

/* Computed in one format, written in a wider one: taken for what it is. */
START_TEST(a_widened_file_is_judged_as_what_was_computed)
{
    static const ls_dtype rows[][2] = {{LS_BF16, LS_F32}, {LS_F16, LS_F32},  {LS_F32, LS_F64},
                                       {LS_F32, LS_F64},  {LS_BF16, LS_F64}, {LS_F16, LS_F64}};
    check_fixture c;
    const ls_config config = check_config(models[_i == 3]);
    const ls_dtype format = rows[_i][0], written = rows[_i][1];
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, format, NULL);
    write_as(&c, written);
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->candidate->dtype, written);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, format);
    ck_assert_int_eq(judged_of(&c, "loss")->format, format);
    check_fixture_end(&c);
}
END_TEST

/* What is copied out of weights given in binary32 (Llama's embedding) has numbers of binary32 in a
 * run in binary64 too, and is no reason to judge that run more loosely. */
START_TEST(a_copy_of_weights_makes_a_run_no_coarser)
{
    check_fixture c;
    const ls_config config = check_config("llama-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F64, NULL);
    double *query = candidate_values(&c, 0, "layers.0.query");
    query[0] *= 1 + 1e-9;
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->precision, LS_F64);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->verdict, LS_DIFFERENT_TENSOR);
    check_fixture_end(&c);
}
END_TEST

/* Rounding noise, as binary32 has it: small multiples of one power of two, which are numbers of
 * bf16 without having been rounded to it. */
static void put_noise(check_fixture *c, const char *name)
{
    double *values = candidate_values(c, 0, name);
    const size_t count = ls_graph_elements(c->f.graph, fixture_node(&c->f, name));
    for (size_t i = 0; i < count; i++) values[i] = (double)((int)(i * 37 % 241) - 120) * 0x1p-36;
}

/* One such tensor loosens no other's bound: half the learning rate, a wrong norm. */
START_TEST(noise_tells_no_format)
{
    check_fixture c;
    ls_config config = check_config("gpt2-nano");
    config.d_model = 40; /* as many numbers as a format is believed of */
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    put_noise(&c, "grad.layers.0.attention.key.bias");
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "grad.layers.0.attention.key.bias")->format, LS_F32);
    ck_assert_int_eq(judged_of(&c, "norm")->precision, LS_F32);
    ck_assert_int_eq(judged_of(&c, "param.layers.0.mlp.up.weight")->precision, LS_F32);
    ck_assert(judged_of(&c, "grad.layers.0.attention.key.bias")->zero_on_paper);
    *candidate_values(&c, 0, "norm") *= 1.01;
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "norm")->verdict, LS_DIFFERENT_TENSOR);
    check_fixture_end(&c);
}
END_TEST

/* One tensor that was rounded is taken for that, and nothing else is; --computed overrules. */
START_TEST(one_rounded_tensor_is_not_passed_on)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    const ls_check_options as_f32 = {.has_computed = true, .computed = LS_F32};
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    ls_check_round(LS_BF16, candidate_values(&c, 0, "layers.0.query"),
                   ls_graph_elements(c.f.graph, fixture_node(&c.f, "layers.0.query")));
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, LS_BF16);
    ck_assert(judged_of(&c, "layers.0.query")->assumed);
    ck_assert_str_eq(judged_of(&c, "layers.0.query")->source->name, "step0/layers.0.query");
    ck_assert_int_eq(judged_of(&c, "layers.0.probabilities")->precision, LS_F32);
    ck_assert_int_eq(judged_of(&c, "loss")->precision, LS_F32);
    check_fixture_judge(&c, &as_f32);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, LS_F32);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->verdict, LS_DIFFERENT_TENSOR);
    check_fixture_end(&c);
}
END_TEST

/* ---- mixed precision ---- */

static bool is_product(const ls_graph *graph, int node)
{
    const ls_graph_node *n = &graph->nodes[node];
    if (n->make == LS_MAKE_LINEAR || n->make == LS_MAKE_LOGITS || n->make == LS_MAKE_HEADS)
        return true;
    if (n->make != LS_MAKE_GRADIENT && n->make != LS_MAKE_PARAM_GRADIENT) return false;
    for (int r = 0; r < (int)graph->count; r++) { /* what goes back through one alone */
        const ls_graph_node *reader = &graph->nodes[r];
        const bool reads = n->make == LS_MAKE_GRADIENT
                               ? ls_graph_back_slot(reader, n->of) >= 0
                               : ls_graph_param_slot(reader, n->params[0]) >= 0;
        if (reader->phase != LS_GRAPH_FORWARD || !reads) continue;
        if (reader->make == LS_MAKE_PROBABILITIES) continue;
        return is_product(graph, r);
    }
    return false;
}

static double *rounded_copy(const double *values, size_t count)
{
    double *copy = malloc((count + 1) * sizeof *copy);
    if (!values) {
        free(copy);
        return NULL;
    }
    memcpy(copy, values, count * sizeof *copy);
    ls_check_round(LS_BF16, copy, count);
    return copy;
}

/* Products from operands rounded to bf16, with results in bf16; everything else in binary32 from
 * what there is. */
static void mixed(check_fixture *c, size_t step, int node, const ls_operands *operands,
                  double *values)
{
    const ls_graph *graph = c->f.graph;
    ls_operands narrow = *operands;
    const size_t count = graph->count, params = graph->table->count;
    (void)step;
    if (!is_product(graph, node)) return;
    double **v = calloc(count, sizeof *v), **p = calloc(params, sizeof *p);
    for (size_t i = 0; i < count; i++)
        v[i] = rounded_copy(operands->values[i], ls_graph_elements(graph, (int)i));
    for (size_t i = 0; i < params; i++)
        p[i] = rounded_copy(operands->params[i], ls_param_elements(&graph->table->params[i]));
    narrow.values = (const double *const *)v;
    narrow.params = (const double *const *)p;
    fixture_ok(ls_operation_evaluate(&narrow, node, ls_precision_of(LS_F64, 1), values, NULL));
    ls_check_round(LS_BF16, values, ls_graph_elements(graph, node));
    for (size_t i = 0; i < count; i++) free(v[i]);
    for (size_t i = 0; i < params; i++) free(p[i]);
    free(v), free(p);
}

/* As frameworks compute it: products in bf16, norms, residual sums, losses and the optimizer in
 * binary32; written in what each came out in, or everything as binary32. */
START_TEST(mixed_precision_is_explained)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, mixed);
    for (int n = 0; _i == 0 && n < (int)c.f.graph->count; n++)
        if (is_product(c.f.graph, n)) c.dtypes[n] = LS_BF16;
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, LS_BF16);
    ck_assert_int_eq(judged_of(&c, "layers.1.norm1")->format, LS_F32);
    ck_assert_int_eq(judged_of(&c, "layers.1.norm1")->precision, LS_BF16);
    ck_assert_int_eq(judged_of(&c, "layers.0.norm1")->precision, LS_F32);
    check_fixture_end(&c);
}
END_TEST

/* Products in half precision, everything else in f32, and written so: `computed` says it. */
static void half_products(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    const ls_operation_kind make = c->f.graph->nodes[node].make;
    (void)step, (void)operands;
    if (make != LS_MAKE_LINEAR && make != LS_MAKE_LOGITS && make != LS_MAKE_PARAM_GRADIENT) return;
    ls_check_round(LS_F16, values, ls_graph_elements(c->f.graph, node));
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++) values[i] *= 1 + 0x1p-23;
}

START_TEST(products_in_half_precision_must_be_said)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    const ls_check_options options = {.has_computed = true, .computed = LS_F16};
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, half_products);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_gt(c.judgement->different, 0);
    check_fixture_judge(&c, &options);
    expect_none_different(&c);
    check_fixture_end(&c);
}
END_TEST

/* The norm alone, added in another order in the precision of the run and in a finer one. */
static void plain_norm(check_fixture *c, size_t step, int node, const ls_operands *operands,
                       double *values)
{
    float sum = 0;
    (void)step;
    if (c->f.graph->nodes[node].make != LS_MAKE_GRADIENT_NORM) return;
    for (int p = (int)c->f.table->count; p-- > 0;) {
        const int gradient = ls_graph_param_gradient(c->f.graph, p);
        for (size_t i = ls_graph_elements(c->f.graph, gradient); i-- > 0;)
            sum += (float)operands->values[gradient][i] * (float)operands->values[gradient][i];
    }
    values[0] = (double)sqrtf(sum);
}

START_TEST(the_norm_alone_is_judged)
{
    check_fixture c;
    const ls_config config = check_config(models[_i / 2]);
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, _i % 2 ? LS_F64 : LS_F32, _i % 2 ? NULL : plain_norm);
    candidate_keep_only(&c, "norm");
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.judgement->count, 2);
    expect_none_different(&c);
    /* As far off as additions in a bad order may bring it. */
    const double u = _i % 2 ? 0x1p-52 : 0x1p-24;
    const double elements = (double)ls_param_table_elements(c.f.table);
    *candidate_values(&c, 1, "norm") *= 1 + 6 * sqrt(elements) * u;
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    *candidate_values(&c, 1, "norm") *= _i % 2 ? 1 + 1e-11 : 1 + 1e-4;
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.judgement->different, 1);
    check_fixture_end(&c);
}
END_TEST

/* ---- steps of parameters that are kept in binary32 ---- */

static void half_step(check_fixture *c, size_t step, int node, const ls_operands *operands,
                      double *values)
{
    const ls_graph_node *of = &c->f.graph->nodes[node];
    (void)step;
    if (of->make != LS_MAKE_UPDATED) return;
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++)
        values[i] = (values[i] + operands->params[of->params[0]][i]) / 2;
}

/* Parameters in binary32, and of the other tensors those of one kind, in bf16. */
static void keep_params_and(check_fixture *c, ls_operation_kind kind)
{
    for (size_t n = 0; n < c->f.graph->count; n++) {
        const ls_operation_kind make = c->f.graph->nodes[n].make;
        if (make == LS_MAKE_UPDATED) continue;
        if (make == kind) {
            c->dtypes[n] = LS_BF16;
            continue;
        }
        free(c->mine[0][n]);
        c->mine[0][n] = NULL;
    }
}

/* One tensor that is stored in bf16 says nothing of the parameters. Gradients in bf16 do, but not
 * that half of each step may be missing, however coarse bf16 is next to a weight. */
START_TEST(steps_in_binary32_are_judged_as_steps)
{
    static const ls_operation_kind kinds[] = {LS_MAKE_UPDATED, LS_MAKE_GRADIENT_NORM,
                                              LS_MAKE_LOGITS, LS_MAKE_PARAM_GRADIENT};
    const ls_operation_kind kind = kinds[_i];
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    for (int wrong = 0; wrong < 2; wrong++) {
        candidate_computed(&c, LS_F32, wrong ? half_step : NULL);
        keep_params_and(&c, kind);
        check_fixture_judge(&c, NULL);
        const ls_judged *weight = judged_of(&c, "param.layers.0.mlp.up.weight");
        ck_assert_int_eq(weight->verdict == LS_DIFFERENT_TENSOR, wrong);
        ck_assert_int_eq(weight->precision, kind == LS_MAKE_PARAM_GRADIENT ? LS_BF16 : LS_F32);
        if (!wrong) ck_assert_uint_eq(c.judgement->different, 0);
    }
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_precision", 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, another_precision_is_explained, 0, 8);
    tcase_add_loop_test(tests, operands_are_the_candidates_own, 0, 8);
    tcase_add_loop_test(tests, a_widened_file_is_judged_as_what_was_computed, 0, 6);
    tcase_add_test(tests, a_copy_of_weights_makes_a_run_no_coarser);
    tcase_add_test(tests, noise_tells_no_format);
    tcase_add_test(tests, one_rounded_tensor_is_not_passed_on);
    tcase_add_loop_test(tests, mixed_precision_is_explained, 0, 2);
    tcase_add_test(tests, products_in_half_precision_must_be_said);
    tcase_add_loop_test(tests, the_norm_alone_is_judged, 0, 4);
    tcase_add_loop_test(tests, steps_in_binary32_are_judged_as_steps, 0, 4);
    return run_tests();
}
