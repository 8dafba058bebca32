/* A mistake that runs through a whole step, forward and backward, of a candidate that gives every
 * tensor: it is one mistake, named at the first tensor that is different; in bf16 it has that name
 * or none. The operations' own evaluator makes the candidates: that the names are right is the
 * business of test_cause_attention.c and the like, from loops of their own. */
#include "check/check_fixture.h"
#include "run_tests.h"

typedef struct whole {
    const char *model;
    ls_variant variant;
    ls_cause cause;
    const char *first, *text;
    bool backward; /* only what goes back is done otherwise */
    int lost;      /* 1 + the word whose targets are lost; -1: ignored ones count as word 0 */
} whole;

static const double divided_by_four[] = {0.25, 0.0025};

static const whole rows[] = {
    {"llama-nano", {.rope_theta = 1e5}, LS_CAUSE_ROTARY, "layers.0.query", "rotary base", false, 0},
    {"llama-nano",
     {.rope_rounding = LS_ROPE_TABLES},
     LS_CAUSE_ROTARY,
     "layers.0.query",
     "cosines",
     false,
     0},
    {"llama-nano",
     {.rope_frequencies = divided_by_four},
     LS_CAUSE_ROTARY,
     "layers.0.query",
     "divided by 4",
     false,
     0},
    {"gpt2-nano",
     {.window = 4},
     LS_CAUSE_ATTENTION_SET,
     "layers.0.probabilities",
     "window of 4",
     false,
     0},
    {"bert-nano",
     {.chunk = 3},
     LS_CAUSE_ATTENTION_SET,
     "layers.0.probabilities",
     "block of 3",
     false,
     0},
    {"gpt2-nano",
     {.score_scale = 0.45},
     LS_CAUSE_SCORE_SCALE,
     "layers.0.probabilities",
     "0.9 times",
     false,
     0},
    {"llama-nano",
     {.alibi = true},
     LS_CAUSE_POSITION_BIAS,
     "layers.0.probabilities",
     "ALiBi",
     false,
     0},
    {"llama-nano",
     {.centred_flipped = true, 0},
     LS_CAUSE_NORM_FORM,
     "layers.0.norm1",
     "LayerNorm in",
     false,
     0},
    {"gpt2-nano",
     {.weight_plus_one = true},
     LS_CAUSE_NORM_FORM,
     "layers.0.norm1",
     "1 + w",
     false,
     0},
    {"gpt2-nano", {.unweighted = true}, LS_CAUSE_NORM_FORM, "layers.0.norm1", "by w", false, 0},
    {"gpt2-nano",
     {.lost_term = LS_TERM_NORM_ALONG},
     LS_CAUSE_LOST_TERM,
     "d.layers.1.layer",
     "xhat mean",
     true,
     0},
    {"llama-nano",
     {.lost_term = LS_TERM_SOFTMAX_MEAN},
     LS_CAUSE_LOST_TERM,
     "d.layers.1.key",
     "P dP",
     true,
     0},
    {"llama-nano",
     {.lost_term = LS_TERM_ACTIVATION_SLOPE},
     LS_CAUSE_LOST_TERM,
     "d.layers.1.gate",
     "without x times",
     true,
     0},
    {"gpt2-nano",
     {.gelu_cubic = 0.44715},
     LS_CAUSE_GELU_VARIANT,
     "layers.0.activation",
     "0.44715",
     false,
     0},
    {"gpt2-nano", {0}, LS_CAUSE_TARGET_SET, "token_loss", "as if it were padding", false, 1},
    {"llama-nano", {0}, LS_CAUSE_TARGET_SET, "token_loss", "count as if it were word 0", false, -1},
    {"llama-nano", {0}, LS_CAUSE_TARGET_SET, "d.logits", "count as if it were word 0", true, -1},
    {"gpt2-nano",
     {.maximum_shards = 8},
     LS_CAUSE_LOCAL_MAXIMUM,
     "token_loss",
     "8 shards",
     false,
     0},
};

static void otherwise(check_fixture *c, size_t step, int node, const ls_operands *operands,
                      double *values)
{
    const whole *row = c->context;
    ls_operands changed = *operands;
    ls_batch batch = *operands->batch;
    int32_t targets[64];
    (void)step;
    if (row->lost) {
        const size_t n = batch.B * batch.S;
        ck_assert_uint_le(n, 64);
        const int32_t word = batch.targets[n / 2 - 1];
        ck_assert_int_ne(word, LS_IGNORE);
        for (size_t t = 0; t < n; t++) {
            targets[t] = row->lost > 0 && batch.targets[t] == word ? LS_IGNORE : batch.targets[t];
            if (row->lost < 0 && batch.targets[t] == LS_IGNORE) targets[t] = 0;
        }
        batch.targets = targets;
        changed.batch = &batch;
    }
    changed.variant = &row->variant;
    if (row->backward && operands->graph->nodes[node].phase != LS_GRAPH_BACKWARD) return;
    fixture_ok(ls_operation_evaluate(&changed, node, ls_precision_of(LS_F64, 1), values, NULL));
}

static const char *findings_of(const check_fixture *c)
{
    static char text[4000];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < c->findings->count && used < 3500; i++) {
        const ls_finding *f = &c->findings->list[i];
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s (%zu tensors): %s: %s\n", f->tensor->golden->name,
            f->count, ls_mistake_of(f->suspicion.cause)->sentence, f->suspicion.evidence);
    }
    return text;
}

START_TEST(one_mistake)
{
    check_fixture c;
    const whole *row = &rows[_i];
    const ls_config config = check_config(row->model);
    check_fixture_begin(&c, &config, 1);
    c.context = (void *)(uintptr_t)row;
    for (int coarse = 0; coarse < 2; coarse++) {
        candidate_computed(&c, coarse ? LS_BF16 : LS_F32, otherwise);
        check_fixture_judge(&c, NULL);
        const ls_findings *f = c.findings;
        if (getenv("LS_TEST_SHOW")) printf("%s\n", findings_of(&c));
        for (size_t i = 0; i < f->count; i++) {
            const ls_cause cause = f->list[i].suspicion.cause;
            ck_assert_msg(cause == row->cause || (coarse && cause == LS_CAUSE_NONE),
                          "%s: not '%s' but\n%s", row->model, ls_mistake_of(row->cause)->sentence,
                          findings_of(&c));
        }
        if (coarse) continue;
        ck_assert_msg(f->count == 1, "%s, %s:\n%s", row->model, ls_mistake_of(row->cause)->sentence,
                      findings_of(&c));
        ck_assert_msg(strstr(f->list[0].tensor->golden->name, row->first) != NULL &&
                          strstr(f->list[0].suspicion.evidence, row->text) != NULL,
                      "%s: not '%s' in\n%s", row->model, row->text, findings_of(&c));
    }
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_whole", 120);
    tcase_add_checked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, one_mistake, 0, (int)(sizeof rows / sizeof *rows));
    return run_tests();
}
