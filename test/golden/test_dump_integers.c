/* A directory of integers: every made tensor is what its terms add up to, in any order and in any
 * format, by ranks or at once; a mistake in an operation changes it. EXACT throughout. */
#include "golden/bounds_start.h"
#include "golden/integers_fixture.h"
#include "run_tests.h"

/* ---- sums in every order and format ---- */

static double sum(const terms *t, ls_dtype dtype, bool backwards)
{
    double total = 0;
    for (size_t i = 0; i < t->count; i++)
        total = ls_rounded_to(dtype, total + t->values[backwards ? t->count - 1 - i : i]);
    return total;
}

/* By five ranks that take terms in turn, the last first, each rounding. */
static double sum_by_ranks(const terms *t, ls_dtype dtype)
{
    double total = 0;
    for (size_t rank = 5; rank-- > 0;) {
        double part = 0;
        for (size_t i = rank; i < t->count; i += 5)
            part = ls_rounded_to(dtype, part + t->values[i]);
        total = ls_rounded_to(dtype, total + part);
    }
    return total;
}

/* Positive ones first, then the negative ones: as far away as a sum can get on its way. */
static double sum_by_sign(const terms *t, ls_dtype dtype)
{
    double total = 0;
    for (int sign = 0; sign < 2; sign++)
        for (size_t i = 0; i < t->count; i++)
            if ((t->values[i] < 0) == (sign == 1))
                total = ls_rounded_to(dtype, total + t->values[i]);
    return total;
}

/* What is wrong with an element; NULL: nothing. (Check's assertions cost a system call each.) */
static const char *fault_of(const terms *t, double made)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F16};
    double magnitudes = 0;
    for (size_t i = 0; i < t->count; i++) magnitudes += fabs(t->values[i]);
    if (!(magnitudes <= 256)) return "magnitudes";
    for (size_t d = 0; d < 3; d++) {
        if (sum(t, dtypes[d], false) != made) return "ascending";
        if (sum(t, dtypes[d], true) != made) return "descending";
        if (sum_by_ranks(t, dtypes[d]) != made) return "by ranks";
        if (sum_by_sign(t, dtypes[d]) != made) return "by sign";
    }
    return signbit(made) && made == 0 ? "-0" : NULL;
}

START_TEST(any_order_and_format)
{
    fixture f;
    const ls_config config = model_config((model)_i);
    terms *t = malloc(sizeof *t);
    size_t made = 0;
    begin(&f, &config);
    for (size_t i = 0; i < f.golden->count; i++) {
        const ls_golden_tensor *tensor = &f.golden->tensors[i];
        const ls_graph_node *node = &f.golden->graph->nodes[tensor->node];
        const float *values = tensor->values;
        size_t nonzero = 0;
        for (size_t e = 0; e < tensor->count; e++) nonzero += values[e] != 0;
        ck_assert_msg(nonzero > 0, "%s: nothing but 0", node->name);
        if (tensor->given) continue;
        made++;
        for (size_t e = 0; e < tensor->count; e++) {
            terms_of(&f, node, e, t);
            const char *fault = fault_of(t, (double)values[e]);
            if (fault) ck_abort_msg("%s, element %zu: %s", node->name, e, fault);
        }
    }
    ck_assert_uint_gt(made, f.golden->count / 2);
    expect_ok(ls_golden_verify(f.golden, NULL, NULL));
    free(t);
    end(&f);
}
END_TEST

/* ---- what there is ---- */

static const char *role(const fixture *f, const char *name)
{
    const ls_golden_tensor *t = tensor(f, name);
    return !t ? "absent" : t->given ? "given" : "made";
}

START_TEST(what_there_is)
{
    static const struct {
        model model;
        const char *name, *role;
    } cases[] = {
        {GPT2, "embedding", "made"},
        {GPT2, "embedded", "made"},
        {GPT2, "layers.0.norm1", "given"},
        {GPT2, "layers.3.query", "made"},
        {GPT2, "layers.3.probabilities", "absent"},
        {GPT2, "layers.3.heads", "given"},
        {GPT2, "layers.3.attention", "made"},
        {GPT2, "layers.0.after_attention", "made"},
        {GPT2, "layers.0.activation", "given"},
        {GPT2, "layers.0.mlp", "made"},
        {GPT2, "logits", "made"},
        {GPT2, "token_loss", "absent"},
        {GPT2, "loss", "absent"},
        {GPT2, "d.logits", "given"},
        {GPT2, "d.final_norm", "made"},
        {GPT2, "d.layers.1.query", "given"},
        {GPT2, "d.layers.1.norm1", "made"},
        {GPT2, "d.layers.1.heads", "made"},
        {GPT2, "d.layers.1.activation", "made"},
        {GPT2, "d.layers.1.layer", "given"},
        {GPT2, "d.layers.1.mlp", "made"},
        {GPT2, "grad.layers.0.attention.output.weight", "made"},
        {GPT2, "grad.layers.0.attention.output.bias", "made"},
        {GPT2, "grad.layers.0.norm1.weight", "absent"},
        {GPT2, "grad.token_embedding.weight", "made"},
        {GPT2, "grad.token_embedding.weight.as_head", "made"},
        {GPT2, "grad.token_embedding.weight.as_input", "made"},
        {GPT2, "norm", "absent"},
        {GPT2, "param.token_embedding.weight", "absent"},
        {LLAMA, "layers.0.query", "absent"}, /* turned by position */
        {LLAMA, "layers.0.value", "made"},
        {LLAMA, "layers.0.gate", "made"},
        {LLAMA, "d.layers.0.norm1", "absent"},
        {LLAMA, "d.layers.0.norm2", "made"},
        {BERT_POST, "embedding", "given"},
        {BERT_POST, "embedding_sum", "made"},
        {BERT_POST, "pooled", "given"},
        {BERT_POST, "order_logits", "made"},
        {BERT_POST, "grad.order_head.bias", "made"},
        {BERT_POST, "grad.pooler.weight", "absent"},
        {BERT_POST, "grad.token_type_embedding.weight", "made"},
        {BERT_POST, "d.layers.0.norm1", "made"}, /* the up projection's and what stands beside */
    };
    fixture f;
    const ls_config config = model_config((model)_i);
    begin(&f, &config);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].model == (model)_i)
            ck_assert_msg(strcmp(role(&f, cases[i].name), cases[i].role) == 0, "%s is %s",
                          cases[i].name, role(&f, cases[i].name));
    end(&f);
}
END_TEST

/* Biases have no zero, and every granule of what a layout cuts holds something, sequence by
 * sequence too: no rank's share can be left out unseen. */
START_TEST(no_share_is_empty)
{
    fixture f;
    const ls_config config = model_config((model)_i);
    begin(&f, &config);
    for (size_t i = 0; i < f.golden->graph->count; i++) {
        const ls_graph_node *node = &f.golden->graph->nodes[i];
        if (node->make != LS_MAKE_LINEAR || !ls_golden_find(f.golden, 0, (int)i)) continue;
        const ls_param *param = &f.golden->table->params[node->params[0]];
        const product m = product_of(&f, node);
        const float *x = values_of(&f, node->inputs[0]);
        size_t zeros = 0;
        for (size_t j = 0; m.b && j < m.out; j++) zeros += m.b[j] == 0;
        ck_assert_uint_eq(zeros, 0);
        const size_t rows = ls_graph_elements(f.golden->graph, (int)i) / m.out;
        const size_t per_sequence = rows / config.batch;
        if (param->cut != 0) continue;
        for (size_t g = 0; g < param->axis.granules; g++)
            for (size_t b = 0; b < config.batch; b++) {
                bool any = false;
                for (size_t t = b * per_sequence; t < (b + 1) * per_sequence; t++)
                    for (size_t j = 0; j < m.out; j++) {
                        double part = 0;
                        for (size_t k = 0; k < param->axis.granule; k++) {
                            const size_t in = g * param->axis.granule + k;
                            part += (double)x[t * m.in + in] * weight_at(&m, in, j);
                        }
                        any |= part != 0;
                    }
                ck_assert_msg(any, "%s: granule %zu, sequence %zu adds nothing", node->name, g, b);
            }
    }
    end(&f);
}
END_TEST

/* ---- mistakes ---- */

typedef enum mistake { BIAS_TWICE, HALF_LEFT_OUT, TRANSPOSED, SHIFTED, MISTAKES } mistake;

static double mistaken(const product *m, const float *x, size_t j, mistake what)
{
    double y = 0;
    for (size_t i = 0; i < m->in; i++) {
        if (what == HALF_LEFT_OUT && i >= m->in / 2) break;
        y += (double)x[i] * (what == TRANSPOSED ? weight_at(m, j, i)
                             : what == SHIFTED  ? weight_at(m, i, (j + 1) % m->out)
                                                : weight_at(m, i, j));
    }
    if (m->b) y += (what == BIAS_TWICE ? 2 : 1) * (double)m->b[j];
    return y;
}

START_TEST(mistakes_show)
{
    fixture f;
    const ls_config config = model_config((model)_i);
    size_t tried = 0;
    begin(&f, &config);
    for (size_t n = 0; n < f.golden->graph->count; n++) {
        const ls_graph_node *node = &f.golden->graph->nodes[n];
        if (node->make != LS_MAKE_LINEAR || !ls_golden_find(f.golden, 0, (int)n)) continue;
        const product m = product_of(&f, node);
        const float *x = values_of(&f, node->inputs[0]), *y = values_of(&f, (int)n);
        for (int what = 0; what < MISTAKES; what++) {
            size_t differing = 0;
            if ((what == BIAS_TWICE && !m.b) || (what == TRANSPOSED && m.in != m.out)) continue;
            const size_t count = ls_graph_elements(f.golden->graph, (int)n);
            for (size_t e = 0; e < count; e++)
                differing +=
                    mistaken(&m, x + e / m.out * m.in, e % m.out, (mistake)what) != (double)y[e];
            ck_assert_msg(differing > count / 4, "%s, mistake %d: %zu of %zu differ", node->name,
                          what, differing, count);
            tried++;
        }
    }
    ck_assert_uint_gt(tried, 4 * config.layers);
    end(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("dump_integers", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, any_order_and_format, 0, MODELS);
    tcase_add_loop_test(tests, what_there_is, 0, BERT_POST + 1);
    tcase_add_loop_test(tests, no_share_is_empty, 0, MODELS);
    tcase_add_loop_test(tests, mistakes_show, 0, MODELS);
    return run_tests();
}
