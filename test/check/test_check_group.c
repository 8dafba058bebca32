/* Which wrong tensors are one mistake; and where in a tensor it is. EXACT. */
#include "check/check_fixture.h"
#include "run_tests.h"

/* A mistake that is known, and one more wrong tensor. */
static const struct {
    const char *known;
    ls_cause cause;
    const char *root;
    ls_cause its, other; /* the root's, and one that fits as well */
    bool examined, joins, later;
} rows[] = {
    /* the same cause, wherever */
    {"step0/layers.0.attention", LS_CAUSE_BIAS_PER_RANK, "step0/layers.1.mlp",
     LS_CAUSE_BIAS_PER_RANK, LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.attention", LS_CAUSE_BIAS_PER_RANK, "step0/layers.1.attention",
     LS_CAUSE_AVERAGED, LS_CAUSE_NONE, true, false, false},
    /* one that fits as well */
    {"step0/grad.final_norm.weight", LS_CAUSE_AVERAGED, "step0/grad.final_norm.bias",
     LS_CAUSE_SHARD_ORDER, LS_CAUSE_AVERAGED, true, true, false},
    {"step0/grad.final_norm.weight", LS_CAUSE_AVERAGED, "step0/grad.final_norm.bias",
     LS_CAUSE_SHARD_ORDER, LS_CAUSE_TRANSPOSED, true, false, false},
    /* no cause: the same tensor of another layer or step; what the update makes of all parameters
     */
    {"step0/layers.0.activation", LS_CAUSE_GELU_VARIANT, "step0/layers.1.activation", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.activation", LS_CAUSE_GELU_VARIANT, "step1/layers.1.activation", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, true},
    {"step0/layers.0.activation", LS_CAUSE_GELU_VARIANT, "step0/layers.1.norm2", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    {"step0/layers.0.activation", LS_CAUSE_NONE, "step0/layers.1.activation", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.activation", LS_CAUSE_NONE, "step0/d.layers.0.activation", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    {"step0/clipped.final_norm.weight", LS_CAUSE_NONE, "step0/clipped.final_norm.bias",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, false},
    {"step0/param.final_norm.weight", LS_CAUSE_UPDATE_TWICE, "step1/param.final_norm.bias",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, true},
    {"step0/grad.final_norm.weight", LS_CAUSE_NONE, "step0/grad.final_norm.bias", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    /* a weight in another arrangement: who reads it, what it becomes */
    {"step0/layers.0.query", LS_CAUSE_SHARD_ORDER, "step0/d.layers.0.norm1", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.query", LS_CAUSE_INTERLEAVED, "step0/param.layers.0.attention.query.weight",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.query", LS_CAUSE_TRANSPOSED, "step0/d.layers.1.norm1", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    {"step0/layers.0.query", LS_CAUSE_AVERAGED, "step0/d.layers.0.norm1", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    /* another mask, backward: what was computed again; causal mask: what is made of probabilities
     */
    {"step0/d.layers.1.mlp", LS_CAUSE_DROPOUT_MASK, "step0/grad.layers.1.mlp.up.weight",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, false},
    {"step0/layers.1.layer", LS_CAUSE_DROPOUT_MASK, "step0/grad.layers.1.mlp.up.weight",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, false, false},
    {"step0/layers.0.probabilities", LS_CAUSE_CAUSAL_MASK, "step0/layers.1.heads", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.probabilities", LS_CAUSE_CAUSAL_MASK, "step0/layers.1.up", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    /* the gradient of a weight that is arranged otherwise, and what reads the weight */
    {"step0/grad.layers.0.attention.query.weight", LS_CAUSE_SHARD_ORDER, "step0/layers.0.query",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, false},
    {"step0/grad.layers.0.attention.query.weight", LS_CAUSE_SHARD_ORDER, "step0/layers.0.key",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, false, false},
    /* heads in another order: what attention gives, and its gradients */
    {"step0/d.layers.0.value", LS_CAUSE_SHARD_ORDER, "step0/layers.0.heads", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.heads", LS_CAUSE_SHARD_ORDER, "step0/d.layers.1.probabilities", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.heads", LS_CAUSE_SHARD_ORDER, "step0/d.layers.1.norm2", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    {"step0/layers.0.heads", LS_CAUSE_AVERAGED, "step0/d.layers.1.probabilities", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, false, false},
    /* an embedding's rows of tokens and of positions, from a part of the batch */
    {"step0/grad.position_embedding.weight", LS_CAUSE_NOT_REDUCED,
     "step0/grad.token_embedding.weight", LS_CAUSE_TIED_ONE_SIDE, LS_CAUSE_NONE, true, true, false},
    {"step0/grad.position_embedding.weight", LS_CAUSE_NOT_REDUCED,
     "step0/grad.token_embedding.weight", LS_CAUSE_NONE, LS_CAUSE_NONE, true, true, false},
    {"step0/grad.final_norm.weight", LS_CAUSE_NOT_REDUCED, "step0/grad.token_embedding.weight",
     LS_CAUSE_TIED_ONE_SIDE, LS_CAUSE_NONE, true, false, false},
    {"step0/grad.token_embedding.weight.as_input", LS_CAUSE_NOT_REDUCED,
     "step0/grad.token_embedding.weight", LS_CAUSE_TIED_ONE_SIDE, LS_CAUSE_NONE, true, true, false},
    /* ... but not from its use as head: there the other side is reduced */
    {"step0/grad.token_embedding.weight.as_head", LS_CAUSE_NOT_REDUCED,
     "step0/grad.token_embedding.weight", LS_CAUSE_TIED_ONE_SIDE, LS_CAUSE_NONE, true, false,
     false},
    /* shifted targets: which losses their mean counts */
    {"step0/token_loss", LS_CAUSE_TARGET_SHIFT, "step0/loss", LS_CAUSE_TARGET_SET, LS_CAUSE_NONE,
     true, true, false},
    {"step0/token_loss", LS_CAUSE_GELU_VARIANT, "step0/loss", LS_CAUSE_TARGET_SET, LS_CAUSE_NONE,
     true, false, false},
    {"step0/token_loss", LS_CAUSE_TARGET_SHIFT, "step1/loss", LS_CAUSE_TARGET_SET, LS_CAUSE_NONE,
     true, false, false},
    {"step0/d.logits", LS_CAUSE_TARGET_SHIFT, "step0/loss", LS_CAUSE_TARGET_SET, LS_CAUSE_NONE,
     true, false, false},
    /* clipped element by element, where no element is large */
    {"step0/clipped.final_norm.weight", LS_CAUSE_CLIPPED_BY_VALUE, "step0/clipped.final_norm.bias",
     LS_CAUSE_NOT_CLIPPED, LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.probabilities", LS_CAUSE_ATTENTION_SET, "step0/d.layers.1.key", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    {"step0/layers.0.probabilities", LS_CAUSE_ATTENTION_SET, "step0/d.layers.1.norm1",
     LS_CAUSE_NONE, LS_CAUSE_NONE, true, false, false},
    {"step0/layers.0.query", LS_CAUSE_ROTARY, "step0/d.layers.0.norm1", LS_CAUSE_NONE,
     LS_CAUSE_NONE, true, true, false},
    /* in a later step nobody knows */
    {"step0/layers.0.up", LS_CAUSE_NONE, "step1/layers.0.norm1", LS_CAUSE_NONE, LS_CAUSE_NONE, true,
     false, true},
    {"step1/layers.0.up", LS_CAUSE_NONE, "step1/layers.1.norm1", LS_CAUSE_NONE, LS_CAUSE_NONE, true,
     false, false},
    {"step0/layers.0.up", LS_CAUSE_NONE, "step1/layers.0.norm1", LS_CAUSE_AVERAGED, LS_CAUSE_NONE,
     true, false, false},
    /* not looked at */
    {"step0/layers.0.up", LS_CAUSE_BIAS_MISSING, "step0/layers.1.up", LS_CAUSE_NONE, LS_CAUSE_NONE,
     false, true, false},
    {"step0/layers.0.up", LS_CAUSE_BIAS_MISSING, "step0/layers.1.mlp", LS_CAUSE_NONE, LS_CAUSE_NONE,
     false, false, false},
};

START_TEST(what_is_one_mistake)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 2);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    check_fixture_judge(&c, NULL);
    ls_findings *f = c.findings;
    ck_assert_uint_eq(f->count, 0);
    f->list = calloc(1, sizeof *f->list);
    f->list->tensors = calloc(1, sizeof *f->list->tensors);
    f->count = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_judged *root = judged_of(&c, rows[i].root);
        const ls_suspicion suspicion = {.cause = rows[i].its,
                                        .also = rows[i].other != LS_CAUSE_NONE,
                                        .others = {rows[i].other}};
        f->list->tensor = f->list->tensors[0] = judged_of(&c, rows[i].known);
        f->list->count = 1;
        f->list->suspicion.cause = rows[i].cause;
        ck_assert_msg(ls_findings_group(f, root, &suspicion, rows[i].examined) ==
                          (rows[i].joins ? f->list : NULL),
                      "row %zu: %s", i, rows[i].root);
        ck_assert_msg(ls_findings_come_before(f, root, &suspicion) == rows[i].later,
                      "row %zu: %s, later", i, rows[i].root);
    }
    check_fixture_end(&c);
}
END_TEST

/* ---- planted: one mistake that shows in two tensors, and one that has two names ---- */

static const double *values_of(const check_fixture *c, const ls_operands *operands,
                               const char *name)
{
    return operands->values[ls_graph_find(c->f.graph, name)];
}

/* The target of a token is that of the next; where the fixture has a context, the last targets of
 * two shards are lost. What is divided by stays the right number. */
static int32_t other_target(const check_fixture *c, const ls_batch *batch, size_t t)
{
    const size_t S = batch->S;
    if (c->context) return t % S == S / 2 || t % S == S - 1 ? LS_IGNORE : batch->targets[t];
    return t % S + 1 < S ? batch->targets[t + 1] : LS_IGNORE;
}

static void other_targets(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    const char *name = c->f.graph->nodes[node].name;
    const ls_batch *batch = operands->batch;
    const size_t n = batch->B * batch->S, V = c->f.run.config.vocab;
    const bool backward = strcmp(name, "d.logits") == 0;
    double valid = 0, sum = 0;
    (void)step;
    for (size_t t = 0; t < n; t++) valid += batch->targets[t] != LS_IGNORE;
    if (strcmp(name, "loss") == 0) {
        const double *losses = values_of(c, operands, "token_loss");
        for (size_t t = 0; t < n; t++) sum += losses[t];
        values[0] = sum / valid;
    }
    if (!backward && strcmp(name, "token_loss") != 0) return;
    memset(values, 0, n * (backward ? V : 1) * sizeof *values);
    for (size_t t = 0; t < n; t++) {
        const double *z = values_of(c, operands, "logits") + t * V;
        const int32_t target = other_target(c, batch, t);
        if (target == LS_IGNORE) continue;
        sum = 0;
        for (size_t j = 0; j < V; j++) sum += exp(z[j]);
        if (!backward) values[t] = log(sum) - z[target];
        for (size_t j = 0; backward && j < V; j++)
            values[t * V + j] = (exp(z[j]) / sum - ((size_t)target == j ? 1 : 0)) / valid;
    }
}

START_TEST(shifted_targets_and_their_mean)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, other_targets);
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "loss")->local, LS_LOCAL_OUTSIDE);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_int_eq(c.findings->list[0].suspicion.cause, LS_CAUSE_TARGET_SHIFT);
    ck_assert_ptr_eq(finding_at(&c, "step1/loss"), &c.findings->list[0]);
    check_fixture_end(&c);
}
END_TEST

/* Of the loss, one number, nothing is concluded; what the gradients say is asked of it. */
START_TEST(lost_targets_in_loss_and_gradients)
{
    static const char *const absent[] = {"embedd*", "layers.*",   "final_norm",
                                         "logits",  "token_loss", "d.*",
                                         "norm",    "clipped.*",  "param.*"};
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    c.context = &c;
    candidate_computed(&c, LS_F32, other_targets);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) candidate_drop(&c, absent[i]);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_int_eq(c.findings->list[0].suspicion.cause, LS_CAUSE_TARGET_SET);
    ck_assert_ptr_eq(finding_at(&c, "step0/loss"), &c.findings->list[0]);
    check_fixture_end(&c);
}
END_TEST

/* Of a tied embedding's use as head the last sequence is missing, that as input is whole. */
static void head_not_summed(check_fixture *c, size_t step, int node, const ls_operands *operands,
                            double *values)
{
    const char *name = c->f.graph->nodes[node].name;
    const ls_batch *batch = operands->batch;
    const size_t V = c->f.run.config.vocab, width = c->f.run.config.d_model;
    (void)step;
    if (strcmp(name, "grad.token_embedding.weight.as_head") != 0 &&
        strcmp(name, "grad.token_embedding.weight") != 0)
        return;
    const double *dz = values_of(c, operands, "d.logits");
    const double *x = values_of(c, operands, "final_norm");
    for (size_t t = (batch->B - 1) * batch->S; t < batch->B * batch->S; t++)
        for (size_t i = 0; i < V * width; i++)
            values[i] -= dz[t * V + i / width] * x[t * width + i % width];
}

START_TEST(a_tied_embedding_summed_on_one_side)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, head_not_summed);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.findings->count, 2);
    ck_assert_int_eq(finding_at(&c, "step0/grad.token_embedding.weight.as_head")->suspicion.cause,
                     LS_CAUSE_NOT_REDUCED);
    ck_assert_int_eq(finding_at(&c, "step0/grad.token_embedding.weight")->suspicion.cause,
                     LS_CAUSE_TIED_ONE_SIDE);
    check_fixture_end(&c);
}
END_TEST

/* ---- a tensor's story ---- */

START_TEST(where_it_is_off)
{
    check_fixture c;
    ls_inspection *look = NULL;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    /* Queries of 3 sequences, 7 tokens, 4 heads of 4: token 2 to 4, the second head, every 2nd. */
    double *query = candidate_values(&c, 0, "layers.0.query");
    for (size_t b = 0; b < 3; b++)
        for (size_t s = 2; s < 5; s++)
            for (size_t k = 4; k < 8; k += 2) query[(b * 7 + s) * 16 + k] += 0.5 + (double)(s == 3);
    query[(1 * 7 + 3) * 16 + 6] += 10;
    check_fixture_judge(&c, NULL);
    fixture_ok(ls_inspection_create(&look, c.judgement, judged_of(&c, "layers.0.query")));
    ck_assert(look->off_is_outside && look->right_is_local);
    ck_assert_uint_eq(look->off, 18);
    ck_assert_uint_eq(look->dimensions[0].touched, 3);
    ck_assert_uint_eq(look->dimensions[1].touched, 3);
    ck_assert_uint_eq(look->dimensions[1].first, 2);
    ck_assert_uint_eq(look->dimensions[1].last, 4);
    ck_assert_uint_eq(look->dimensions[1].period, 1);
    ck_assert_uint_eq(look->dimensions[2].first, 4);
    ck_assert_uint_eq(look->dimensions[2].last, 6);
    ck_assert_uint_eq(look->dimensions[2].period, 2);
    ck_assert_uint_eq(look->dimensions[2].blocks, 4);
    ck_assert_uint_eq(look->dimensions[2].in_block[0], 0);
    ck_assert_uint_eq(look->dimensions[2].in_block[1], 18);
    ck_assert_uint_eq(look->n_worst, LS_INSPECTION_WORST);
    ck_assert_uint_eq(look->worst[0], (1 * 7 + 3) * 16 + 6);
    ck_assert_uint_eq(look->rows, 21);
    ck_assert_uint_eq(look->columns, 16);
    ck_assert_uint_eq(look->cell_rows, 2);
    ck_assert(look->share[0 * 16 + 4] == 0);   /* tokens 0, 1 */
    ck_assert(look->share[1 * 16 + 4] == 1);   /* tokens 2, 3 */
    ck_assert(look->share[2 * 16 + 4] == 0.5); /* token 4, not 5 */
    ck_assert(look->share[1 * 16 + 5] == 0);
    ls_inspection_destroy(&look);
    /* Tokens 0, 1 and 4: neither a run nor every other one. */
    double *key = candidate_values(&c, 0, "layers.1.key");
    for (size_t b = 0; b < 3; b++) key[b * 7 * 16] += 1, key[(b * 7 + 1) * 16] += 1;
    key[(2 * 7 + 4) * 16 + 5] += 1;
    check_fixture_judge(&c, NULL);
    fixture_ok(ls_inspection_create(&look, c.judgement, judged_of(&c, "layers.1.key")));
    ck_assert_uint_eq(look->off, 7);
    ck_assert_uint_eq(look->dimensions[1].touched, 3);
    ck_assert_uint_eq(look->dimensions[1].first, 0);
    ck_assert_uint_eq(look->dimensions[1].last, 4);
    ck_assert_uint_eq(look->dimensions[1].period, 0);
    ck_assert_uint_eq(look->dimensions[0].period, 1);
    ls_inspection_destroy(&look);
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_group", 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, what_is_one_mistake);
    tcase_add_test(tests, shifted_targets_and_their_mean);
    tcase_add_test(tests, lost_targets_in_loss_and_gradients);
    tcase_add_test(tests, a_tied_embedding_summed_on_one_side);
    tcase_add_test(tests, where_it_is_off);
    return run_tests();
}
