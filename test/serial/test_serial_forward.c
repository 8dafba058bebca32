/* test_serial_forward.c - TRUTH: logits and loss of every kind of model against the papers'
 * formulas written naively, in binary64. The gradient test says that backward belongs to forward;
 * this one that forward is the transformer. */
#define LS_REAL_IS_F64
#include "serial/naive_transformer.h"
#include "serial/serial_fixture.h"
#include "run_tests.h"

static void check_forward(const fixture *f, const ls_batch *batch)
{
    const size_t n = batch->B * batch->S, V = f->table->config.vocab;
    const size_t Vp = ls_axis_extent(ls_config_vocab_axis(&f->table->config));
    double *values = fixture_noise(f->table), *logits = malloc(n * V * sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    double expected = naive_forward(f->table, values, batch, logits);
    double loss = fixture_forward(f, batch), largest = 0;
    ck_assert_msg(fabs(loss - expected) <= 1e-13 * expected, "%s: loss %.17g, by formula %.17g",
                  f->table->config.name, loss, expected);
    for (size_t t = 0; t < n; t++)
        for (size_t v = 0; v < Vp; v++) {
            double z = ls_serial_logits(f->serial)[t * Vp + v];
            double formula = v < V ? logits[t * V + v] : 0;
            ck_assert_msg(fabs(z - formula) <= 2e-14,
                          "%s: logit %zu of token %zu: %g, by formula %g", f->table->config.name, v,
                          t, z, formula);
            if (fabs(formula) > largest) largest = fabs(formula);
        }
    ck_assert(largest > 0.5 && expected > 0.5);
    free(values);
    free(logits);
}

START_TEST(every_model)
{
    static const ls_engine engines[] = {LS_ENGINE_PORTABLE,
#ifdef LS_HAVE_OPENBLAS
                                        LS_ENGINE_OPENBLAS, LS_ENGINE_PLAIN
#endif
    };
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    for (size_t e = 0; e < sizeof engines / sizeof engines[0]; e++) {
        fixture f = fixture_create(&config, engines[e]);
        ls_batch batch = tiny_batch_of(&ids, &config);
        check_forward(&f, &batch);
        batch.training = false; /* evaluation */
        check_forward(&f, &batch);
        /* other shapes in the same memory: smaller, one token, larger again */
        tiny_shape(&batch, &ids, 3, 4);
        batch.training = true;
        check_forward(&f, &batch);
        tiny_shape(&batch, &ids, 1, 1);
        check_forward(&f, &batch);
        tiny_shape(&batch, &ids, 2, config.seq);
        check_forward(&f, &batch);
        fixture_destroy(&f);
    }
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_forward", 60);
    tcase_add_loop_test(tc, every_model, 0, N_TINY_SERIAL);
    return run_tests();
}
