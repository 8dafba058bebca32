/* Targets that are lost or counted though ignored, divisors that are not the number of labels,
 * counts and maxima of a shard's own: each from plain loops, named with the set. */
#include "causes/cause_fixture.h"
#include "run_tests.h"

/* Losses and the logits' gradient, divided by `valid`. */
static void cross_entropy(const scene *s, const int32_t *targets, double valid, double *loss,
                          double *dz)
{
    const double *z = value(s, "logits");
    for (size_t t = 0; t < B * S; t++) {
        double sum = 0;
        if (targets[t] == LS_IGNORE) continue;
        for (size_t j = 0; j < V; j++) sum += exp(z[t * V + j]);
        loss[t] = log(sum) - z[t * V + (size_t)targets[t]];
        for (size_t j = 0; j < V; j++)
            dz[t * V + j] = (exp(z[t * V + j]) / sum - ((size_t)targets[t] == j ? 1 : 0)) / valid;
    }
}

static size_t count(const int32_t *labels, size_t n)
{
    size_t valid = 0;
    for (size_t t = 0; t < n; t++) valid += labels[t] != LS_IGNORE;
    return valid;
}

/* Both tensors of other targets, by their own number or by the right one. */
static void expect_targets(scene *s, const int32_t *targets, const char *text)
{
    for (int format = 0; format < 2; format++)
        for (int right = 0; right < 2; right++) {
            double *loss = zeros(B * S), *dz = zeros(B * S * V);
            s->format = format ? LS_BF16 : LS_F32;
            cross_entropy(s, targets, (double)count(right ? s->targets : targets, B * S), loss, dz);
            expect_cause(s, "token_loss", loss, LS_CAUSE_TARGET_SET, text);
            expect_cause(s, "d.logits", dz, LS_CAUSE_TARGET_SET, text);
        }
    s->format = LS_F32;
}

START_TEST(sets)
{
    scene s;
    int32_t targets[B * S];
    scene_begin(&s, (kind)_i);
    const int32_t word = s.targets[20];
    ck_assert_int_ne(word, LS_IGNORE);
    for (size_t t = 0; t < B * S; t++) targets[t] = t % 6 == 5 ? LS_IGNORE : s.targets[t];
    expect_targets(&s, targets, "last target of each of 2 token shards");
    for (size_t t = 0; t < B * S; t++) targets[t] = t % 3 == 2 ? LS_IGNORE : s.targets[t];
    expect_targets(&s, targets, "last target of each of 4 token shards");
    for (size_t t = 0; t < B * S; t++) targets[t] = s.targets[t] == word ? LS_IGNORE : s.targets[t];
    char text[64];
    snprintf(text, sizeof text, "that are word %d are lost", (int)word);
    expect_targets(&s, targets, text);
    for (size_t t = 0; t < B * S; t++) targets[t] = s.targets[t] == LS_IGNORE ? 0 : s.targets[t];
    expect_targets(&s, targets, "tokens without a target count as if it were word 0");
    for (size_t t = 0; t < B * S; t++) targets[t] = s.targets[t] == LS_IGNORE ? 17 : s.targets[t];
    expect_targets(&s, targets, "word 17");
    memcpy(targets, s.targets, sizeof targets);
    targets[20] = targets[28] = targets[47] = LS_IGNORE;
    expect_targets(&s, targets, "3 targets are lost, the first that of token 8 of sequence 1");
    scene_end(&s);
}
END_TEST

/* BERT's loss of both kinds, each by its own divisor. */
START_TEST(divisors)
{
    scene s;
    scene_begin(&s, BERT);
    s.order[2] = LS_IGNORE;
    for (size_t i = 0; i < s.step.graph->count; i++) whole_step_node(&s.step, (int)i, true);
    const double *token = value(&s, "token_loss"), *order = value(&s, "order_loss");
    const double targets = (double)count(s.targets, B * S), labels = (double)count(s.order, B);
    double tokens = 0, orders = 0, unpadded = 0, loss;
    for (size_t t = 0; t < B * S; t++) tokens += token[t];
    for (size_t b = 0; b < B; b++) orders += order[b], unpadded += s.lengths[b];
    const double *d_order = value(&s, "d.order_logits");
    double *d = copy_of(&s, "d.order_logits");
    for (size_t i = 0; i < 2 * B; i++) d[i] = d_order[i] * labels / B;
    expect_cause(&s, "d.order_logits", d, LS_CAUSE_TARGET_COUNT,
                 "order losses is divided by the number of sequences (6)");
    loss = tokens / targets + orders / B;
    expect_found(&s, "loss", suspicion_of(&s, "loss", &loss, NULL, NULL, false),
                 LS_CAUSE_TARGET_COUNT,
                 "order losses is divided by the number of sequences (6), not by that of labels "
                 "that count (5)");
    loss = tokens / unpadded + orders / labels;
    expect_found(&s, "loss", suspicion_of(&s, "loss", &loss, NULL, NULL, false),
                 LS_CAUSE_TARGET_COUNT, "tokens that are no padding (57)");
    scene_end(&s);
}
END_TEST

START_TEST(shards)
{
    scene s;
    scene_begin(&s, (kind)_i);
    const double *z = value(&s, "logits");
    const size_t words = ls_axis_extent(ls_config_vocab_axis(&s.config)) / 3;
    double *loss = zeros(B * S), *dz = zeros(B * S * V), *own = copy_of(&s, "d.logits");
    const double valid = (double)count(s.targets, B * S);
    for (size_t t = 0; t < B * S; t++) {
        double largest[3] = {-1e30, -1e30, -1e30}, sum = 0;
        if (s.targets[t] == LS_IGNORE) continue;
        const size_t target = (size_t)s.targets[t];
        for (size_t j = 0; j < V; j++) largest[j / words] = fmax(largest[j / words], z[t * V + j]);
        for (size_t j = 0; j < V; j++) sum += exp(z[t * V + j] - largest[j / words]);
        loss[t] = log(sum) - (z[t * V + target] - largest[target / words]);
        for (size_t j = 0; j < V; j++)
            dz[t * V + j] =
                (exp(z[t * V + j] - largest[j / words]) / sum - (j == target ? 1 : 0)) / valid;
    }
    expect_cause(&s, "token_loss", loss, LS_CAUSE_LOCAL_MAXIMUM, "each of 3 shards");
    expect_cause(&s, "d.logits", dz, LS_CAUSE_LOCAL_MAXIMUM, "each of 3 shards");
    /* three shards of 4 tokens, each by its own number of targets */
    double n[3] = {0};
    for (size_t t = 0; t < B * S; t++) n[t % S / 4] += s.targets[t] != LS_IGNORE;
    for (size_t t = 0; t < B * S * V; t++) own[t] *= valid / 3 / n[t / V % S / 4];
    expect_cause(&s, "d.logits", own, LS_CAUSE_MEAN_OF_MEANS,
                 "each of 3 shares of a sequence's tokens divides by its own");
    scene_end(&s);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("cause_targets", 120);
    tcase_add_loop_test(tests, sets, 0, 3);
    tcase_add_test(tests, divisors);
    tcase_add_loop_test(tests, shards, 0, 2);
    return run_tests();
}
