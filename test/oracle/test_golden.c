/* A golden directory opened: what it holds, and everything that is refused. */
#include "oracle/golden_fixture.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/scratch.h"

static ls_config small_config(void)
{
    ls_config config;
    ASSERT_OK(ls_config_named("gpt2-nano", &config));
    config.layers = 2;
    config.heads = config.kv_heads = 2;
    config.d_model = 6;
    config.d_ff = 10;
    config.seq = 3;
    config.batch = 5;
    config.vocab = 11;
    config.dropout = 0;
    return config;
}

START_TEST(what_was_written_is_found)
{
    const ls_config config = small_config();
    golden_fixture f;
    ls_golden *golden = NULL;
    golden_fixture_begin(&f, &config, 2);
    f.truth = true;
    f.run.seed = 99;
    f.run.layout.dp = 2;
    f.run.layout.micro_batches = 2;
    fixture_values(&f, 1, "layers.1.mlp")[4] = NAN;
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ck_assert_uint_eq(golden->count, 2 * f.graph->count);
    ck_assert_uint_eq(golden->steps, 2);
    ck_assert_uint_eq(golden->run.seed, 99);
    ck_assert_int_eq(golden->run.layout.dp, 2);
    ck_assert_uint_eq(golden->run.config.d_ff, 10);
    for (size_t i = 0; i < golden->count; i++) {
        const ls_golden_tensor *t = &golden->tensors[i];
        ck_assert_ptr_eq(ls_golden_find(golden, t->step, t->node), t);
        ck_assert_str_eq(ls_tensor_name_parse(t->name).rest, f.graph->nodes[t->node].name);
        void *bytes = fixture_round(f.values[t->step][t->node], t->count, t->dtype);
        ck_assert_uint_eq(t->count, ls_graph_elements(f.graph, t->node));
        ck_assert(memcmp(bytes, t->values, t->count * ls_dtype_bytes(t->dtype)) == 0);
        ck_assert(memcmp(f.values[t->step][t->node], t->truth, t->count * 8) == 0);
        ck_assert_uint_eq((uintptr_t)t->values % ls_dtype_bytes(t->dtype), 0);
        free(bytes);
    }
    for (int p = 0; p < (int)f.table->count; p++) {
        ls_dtype dtype;
        const size_t count = ls_param_elements(&f.table->params[p]);
        float *bytes = fixture_round(f.params[p], count, LS_F32);
        ck_assert(memcmp(ls_golden_param(golden, 0, p, &dtype), bytes, 4 * count) == 0);
        ck_assert_int_eq(dtype, LS_F32);
        ck_assert_ptr_null(ls_golden_moment(golden, p, 0, &dtype));
        char name[160];
        snprintf(name, sizeof name, "param.%s", f.table->params[p].name);
        ck_assert_ptr_eq(ls_golden_param(golden, 1, p, &dtype),
                         ls_golden_find(golden, 0, fixture_node(&f, name))->values);
        free(bytes);
    }
    const ls_batch *batch = ls_golden_batch(golden, 1);
    ck_assert(memcmp(batch->tokens, f.tokens[1], 15 * 4) == 0);
    ck_assert(memcmp(batch->targets, f.targets[1], 15 * 4) == 0);
    ck_assert_uint_eq(batch->step, 1);
    ck_assert_ptr_null(ls_golden_batch(golden, 2));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ls_golden_close(&golden);
    ck_assert_ptr_null(golden);
    golden_fixture_end(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *reading = tcase_create("reading");
    suite_add_tcase(suite, reading);
    tcase_add_unchecked_fixture(reading, scratch_setup, scratch_teardown);
    tcase_add_test(reading, what_was_written_is_found);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
