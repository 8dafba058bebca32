/* Directories of integers as a whole: judged against candidates, made again, of other sizes. EXACT.
 */
#include "lockstep/io/safetensors.h"
#include "check/check.h"
#include "golden/integers_fixture.h"
#include "step_graph/tensor_name.h"
#include "run_tests.h"

/* ---- as candidates ---- */

/* The made tensors in a format; `change`: of the tensor of that name, element 5 is one more. */
static void write_candidate(const fixture *f, ls_dtype dtype, const char *change, bool minus_zero)
{
    ls_safetensors_writer *writer;
    expect_ok(ls_safetensors_create(&writer, scratch_path("candidate.safetensors")));
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < f->golden->count; i++) {
            const ls_golden_tensor *t = &f->golden->tensors[i];
            const ls_graph_node *node = &f->golden->graph->nodes[t->node];
            uint64_t dims[LS_NODE_DIMS];
            if (t->given) continue;
            for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
            if (pass == 0) {
                expect_ok(ls_safetensors_declare(writer, t->name, dtype, node->n_dims, dims));
                continue;
            }
            float *wide = malloc(t->count * sizeof *wide);
            uint16_t *narrow = malloc(t->count * sizeof *narrow);
            memcpy(wide, t->values, t->count * sizeof *wide);
            if (change && strcmp(node->name, change) == 0) wide[5] += 1;
            for (size_t e = 0; e < t->count; e++) {
                uint32_t bits;
                if (minus_zero && wide[e] == 0) wide[e] = -0.0f;
                memcpy(&bits, &wide[e], sizeof bits);
                narrow[e] = (uint16_t)(bits >> 16);
            }
            if (dtype == LS_BF16)
                expect_ok(ls_safetensors_write(writer, narrow, t->count * sizeof *narrow));
            else
                expect_ok(ls_safetensors_write(writer, wide, t->count * sizeof *wide));
            free(wide);
            free(narrow);
        }
    expect_ok(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

static ls_judgement *judge(const fixture *f, ls_candidate **ret_candidate)
{
    ls_judgement *judgement;
    const ls_check_options options = {.threads = 1};
    expect_ok(
        ls_candidate_open(ret_candidate, f->golden, scratch_path("candidate.safetensors"), NULL));
    expect_ok(ls_check(&judgement, f->golden, *ret_candidate, &options));
    return judgement;
}

START_TEST(as_candidates)
{
    fixture f;
    const ls_config config = model_config(GPT2);
    const char *const wrong = "layers.2.mlp";
    ls_candidate *candidate;
    ls_judgement *judgement;
    begin(&f, &config);
    for (int i = 0; i < 4; i++) {
        const ls_dtype dtype = i % 2 ? LS_BF16 : LS_F32;
        write_candidate(&f, dtype, NULL, i >= 2); /* a zero has no sign here */
        judgement = judge(&f, &candidate);
        ck_assert_uint_gt(judgement->count, 50);
        ck_assert_uint_eq(judgement->equal, judgement->count);
        ls_judgement_destroy(&judgement);
        ls_candidate_close(&candidate);
    }
    write_candidate(&f, LS_BF16, wrong, true);
    judgement = judge(&f, &candidate);
    ck_assert_uint_eq(judgement->equal, judgement->count - 1);
    const ls_judged *j = ls_judgement_find(judgement, wrong);
    ck_assert_int_eq(j->verdict, LS_DIFFERENT_TENSOR);
    ck_assert_uint_eq(j->differing, 1);
    ck_assert_uint_eq(j->first, 5);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    end(&f);
}
END_TEST

/* ---- the same again ---- */

START_TEST(the_same_again)
{
    fixture a, b, c;
    const ls_config config = model_config((model)_i);
    dump_integers(&a, &config, "one", 3);
    dump_integers(&b, &config, "two", 3);
    dump_integers(&c, &config, "three", 4);
    ck_assert_str_eq(a.summary.digest, b.summary.digest);
    ck_assert_str_ne(a.summary.digest, c.summary.digest);
    ck_assert_uint_eq(a.summary.tensors, b.summary.tensors);
}
END_TEST

/* Other sizes: one wide, one long, one with many words. */
START_TEST(other_sizes)
{
    fixture f;
    ls_config config = model_config(GPT2);
    config.layers = _i == 3 ? 40 : 2; /* residual sums grow */
    if (_i == 0) config.d_model = 192, config.d_ff = 576;
    if (_i == 1) config.seq = 300;
    if (_i == 2) config.vocab = 6000;
    config.batch = 2;
    begin(&f, &config);
    size_t given = 0, sums = 0;
    for (size_t i = 0; i < f.golden->count; i++) {
        const ls_golden_tensor *t = &f.golden->tensors[i];
        const ls_graph_node *node = &f.golden->graph->nodes[t->node];
        const float *values = t->values;
        float most = 0;
        size_t nonzero = 0;
        for (size_t e = 0; e < t->count; e++) {
            nonzero += values[e] != 0;
            most = fmaxf(most, fabsf(values[e]));
        }
        ck_assert_msg(most <= 256, "%s: %g", node->name, (double)most);
        /* Of the words few occur in a batch. */
        const bool words = strstr(node->name, "grad.token_embedding.weight") != NULL;
        ck_assert_msg(nonzero > t->count / (words ? 2000 : 200), "%s: %zu of %zu", node->name,
                      nonzero, t->count);
        if (node->make != LS_MAKE_RESIDUAL) continue;
        sums++;
        given += t->given;
    }
    ck_assert_uint_lt(given, sums / 2);
    if (_i == 3) ck_assert_uint_gt(given, 0);
    end(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("integers_judged", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, as_candidates);
    tcase_add_loop_test(tests, the_same_again, 0, MODELS);
    tcase_add_loop_test(tests, other_sizes, 0, 4);
    return run_tests();
}
