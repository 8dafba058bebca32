/* test_dump_loaded.c - mistakes that a plain text lets pass are found on the batch that tells, also
 * with weights that were loaded; and the manifest says what --start came to. */
#include "lockstep/io/safetensors.h"
#include "lockstep/numerics/ignore.h"
#include "lockstep/partition/share.h"
#include "check/check.h"
#include "golden/dump_fixture.h"
#include "verify/record.h"
#include "run_tests.h"

static ls_config config;
static ls_text text;

/* ---- mistakes ---- */

typedef struct loaded {
    ls_golden *golden;
    ls_record *right; /* one step of the golden run */
} loaded;

/* A checkpoint of a training run, dumped with the start that is the default. */
static void begin_loaded(loaded *l, model m)
{
    char saved[1024];
    ls_train_result result;
    ls_dump_options options = dump_plainly();
    options.truth = ls_engine_available(LS_ENGINE_PLAIN); /* else found again at every check */
    config = model_config(m);
    config.layers = 2;
    config.dropout = 0;
    text = fixture_text();
    ls_run run = fixture_run(&config, &text, 2);
    snprintf(saved, sizeof saved, "%s", scratch_path("saved.safetensors"));
    run.save = saved;
    ASSERT_OK(ls_train(&run, NULL, &result));
    ls_train_result_free(&result);
    run.save = NULL;
    run.load = saved;
    run.steps = 3;
    run.layout.micro_batches = 2;
    run.serial = false;
    const ls_dump_summary summary = dump_ok(&run, scratch_path("golden"), &options);
    ck_assert_int_eq(summary.start.weights, LS_DUMP_GIVEN);
    ck_assert_int_eq(summary.start.batch, LS_DUMP_TELLING);
    l->golden = open_ok(scratch_path("golden"));
    ls_run again = l->golden->run;
    again.serial = true;
    ASSERT_OK(ls_record_run(&l->right, &again, NULL, NULL));
}

static void end_loaded(loaded *l)
{
    ls_record_destroy(&l->right);
    ls_golden_close(&l->golden);
}

/* Adds the step's loss and gradients for other targets, times a factor, to `sums`: the loss, then
 * every gradient. */
static void add_run(const loaded *l, const int32_t *targets, double factor, double *sums)
{
    ls_run run = l->golden->run;
    ls_batch batch = run.given[0];
    ls_record *record = NULL;
    batch.targets = targets;
    run.given = &batch;
    run.serial = true;
    run.layout = ls_layout_serial();
    ASSERT_OK(ls_record_run(&record, &run, NULL, NULL));
    *sums++ += factor * record->step[0].loss;
    for (size_t p = 0; p < record->table->count; p++) {
        const float *gradient = record->step[0].gradient[p];
        const size_t n = ls_param_elements(&record->table->params[p]);
        for (size_t i = 0; i < n; i++) *sums++ += factor * (double)gradient[i];
    }
    ls_record_destroy(&record);
}

static double *new_sums(const loaded *l)
{
    size_t n = 1;
    for (size_t p = 0; p < l->golden->table->count; p++)
        n += ls_param_elements(&l->golden->table->params[p]);
    double *sums = calloc(n, sizeof *sums);
    ck_assert_ptr_nonnull(sums);
    return sums;
}

/* How many of the tensors in a file are judged different. */
static size_t judge_file(const ls_golden *golden, const char *path)
{
    ls_candidate *candidate = NULL;
    ls_judgement *judgement = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, path, NULL));
    ASSERT_OK(ls_check(&judgement, golden, candidate, NULL));
    const size_t different = judgement->different;
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    return different;
}

static void write_floats(const loaded *l, const char *path, size_t count, char (*names)[160],
                         const ls_golden_tensor **like, double *const *values)
{
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, path));
    for (size_t t = 0; t < count; t++) {
        const ls_graph_node *node = &l->golden->graph->nodes[like[t]->node];
        ASSERT_OK(ls_safetensors_declare(writer, names[t], LS_F32, node->n_dims, node->dims));
    }
    for (size_t t = 0; t < count; t++) {
        float *narrow = malloc(like[t]->count * sizeof *narrow);
        ck_assert_ptr_nonnull(narrow);
        for (size_t i = 0; i < like[t]->count; i++) narrow[i] = (float)values[t][i];
        ASSERT_OK(ls_safetensors_write(writer, narrow, like[t]->count * sizeof *narrow));
        free(narrow);
    }
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

/* Judges a loss and gradients; frees them. */
static size_t judge_sums(const loaded *l, double *sums)
{
    enum { MOST = 128 };
    static char names[MOST][160];
    const ls_golden_tensor *like[MOST];
    double *values[MOST];
    size_t n = 0;
    const ls_param_table *table = l->golden->table;
    const uint64_t step = l->golden->first_step;
    double *at = sums;
    for (size_t p = 0; p <= table->count; p++) {
        char name[128] = "loss";
        if (p > 0) snprintf(name, sizeof name, "grad.%s", table->params[p - 1].name);
        ck_assert_uint_lt(n, MOST);
        like[n] = tensor_ok(l->golden, step, name);
        snprintf(names[n], sizeof names[n], "step%d/%s", (int)step, name);
        values[n] = at;
        at += like[n]->count;
        n++;
    }
    char path[1024];
    snprintf(path, sizeof path, "%s", scratch_path("candidate.safetensors"));
    write_floats(l, path, n, names, like, values);
    free(sums);
    return judge_file(l->golden, path);
}

/* The targets of sequences first .. first + count; the others are ignored. */
static int32_t *targets_of(const ls_batch *batch, size_t first, size_t count)
{
    const size_t S = batch->S;
    int32_t *targets = malloc(batch->B * S * sizeof *targets);
    ck_assert_ptr_nonnull(targets);
    for (size_t i = 0; i < batch->B * S; i++)
        targets[i] = i / S >= first && i / S < first + count ? batch->targets[i] : LS_IGNORE;
    return targets;
}

/* A mean over `parts` runs of sequences of their means. */
static double *mean_of_means(const loaded *l, size_t parts)
{
    const ls_batch *batch = &l->golden->run.given[0];
    double *sums = new_sums(l);
    for (size_t p = 0; p < parts; p++) {
        const ls_share part = ls_share_of(batch->B, parts, p);
        int32_t *targets = targets_of(batch, part.first, part.count);
        add_run(l, targets, 1 / (double)parts, sums);
        free(targets);
    }
    return sums;
}

START_TEST(mistakes_of_means_are_found)
{
    loaded l;
    begin_loaded(&l, (model)_i);
    const ls_batch *batch = &l.golden->run.given[0];
    const size_t tokens = batch->B * batch->S;
    size_t counted = 0;
    for (size_t i = 0; i < tokens; i++) counted += batch->targets[i] != LS_IGNORE;

    int32_t *targets = targets_of(batch, 0, batch->B);
    double *sums = new_sums(&l);
    add_run(&l, targets, 1, sums);
    ck_assert_uint_eq(judge_sums(&l, sums), 0); /* right */

    ck_assert_uint_gt(judge_sums(&l, mean_of_means(&l, 2)), 0);
    ck_assert_uint_gt(judge_sums(&l, mean_of_means(&l, batch->B)), 0);

    sums = new_sums(&l); /* divided by B S */
    add_run(&l, targets, (double)counted / (double)tokens, sums);
    ck_assert_uint_gt(judge_sums(&l, sums), 0);

    sums = new_sums(&l); /* the words that come next, of ignored ones too */
    for (size_t i = 0; i < tokens; i++)
        if (targets[i] == LS_IGNORE) targets[i] = i + 1 < tokens ? batch->tokens[i + 1] : 0;
    add_run(&l, targets, 1, sums);
    ck_assert_uint_gt(judge_sums(&l, sums), 0);
    free(targets);
    end_loaded(&l);
}
END_TEST

/* A rank that reads nothing for the first or the last word of its shard; or drops its gradient. */
START_TEST(lost_rows_are_found)
{
    loaded l;
    begin_loaded(&l, (model)_i);
    const ls_batch *batch = &l.golden->run.given[0];
    const uint64_t step = l.golden->first_step;
    const size_t D = config.d_model, place = ls_param_find(l.golden->table, LS_TOKEN_EMBEDDING, 0);
    const ls_golden_tensor *like[2] = {tensor_ok(l.golden, step, "embedding"),
                                       tensor_ok(l.golden, step, "grad.token_embedding.weight")};
    char names[2][160], path[1024];
    ls_dtype dtype;
    const float *table = ls_golden_param(l.golden, step, (int)place, &dtype);
    snprintf(path, sizeof path, "%s", scratch_path("candidate.safetensors"));
    for (int t = 0; t < 2; t++) snprintf(names[t], sizeof names[t], "%s", like[t]->name);
    /* 263 words, padded to 384, over 1, 2, 3 and 6 ranks. */
    static const size_t ends[] = {0, 63, 64, 127, 128, 191, 192, 255, 256, 262};
    double *values[2];
    for (int v = 0; v < 2; v++) values[v] = malloc(like[v]->count * sizeof **values);
    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        for (int v = 0; v < 2; v++)
            for (size_t i = 0; i < like[v]->count; i++)
                values[v][i] = (double)((const float *)like[v]->values)[i];
        for (size_t i = 0; i < like[0]->count; i++)
            if ((size_t)batch->tokens[i / D] == ends[e])
                values[0][i] -= (double)table[ends[e] * D + i % D];
        memset(values[1] + ends[e] * D, 0, D * sizeof **values);
        write_floats(&l, path, 2, names, like, values);
        const size_t different = judge_file(l.golden, path);
        ck_assert_msg(different == 2, "row %zu lost: %zu of 2 found", ends[e], different);
    }
    for (int v = 0; v < 2; v++) free(values[v]);
    end_loaded(&l);
}
END_TEST

/* What the manifest and the summary say of the start. */
START_TEST(what_start_came_to)
{
    static const struct {
        ls_dump_start start;
        bool load;
        ls_dump_source weights, batch;
    } cases[] = {{LS_START_TELLING, false, LS_DUMP_TELLING, LS_DUMP_TELLING},
                 {LS_START_TELLING, true, LS_DUMP_GIVEN, LS_DUMP_TELLING},
                 {LS_START_TRAINING, false, LS_DUMP_TRAINING, LS_DUMP_TRAINING},
                 {LS_START_TRAINING, true, LS_DUMP_GIVEN, LS_DUMP_TRAINING}};
    ls_dump_options options = dump_plainly();
    config = model_config(GPT2);
    text = fixture_text();
    ls_run run = fixture_run(&config, &text, 1);
    char weights[1024], words[96];
    snprintf(weights, sizeof weights, "%s", scratch_path("start2/weights.safetensors"));
    static const int order[] = {2, 0, 1, 3}; /* the loaded ones are those of training */
    for (size_t i = 0; i < 4; i++) {
        const int c = order[i];
        snprintf(words, sizeof words, "start%d", c);
        options.start = cases[c].start;
        run.load = cases[c].load ? weights : NULL;
        const ls_dump_told told = dump_ok(&run, scratch_path(words), &options).start;
        ck_assert_int_eq(told.weights, cases[c].weights);
        ck_assert_int_eq(told.batch, cases[c].batch);
        ck_assert_uint_gt(told.biases, 0);
        /* Norms' scales and shifts and all biases are constant where training begins. */
        ck_assert((told.constant > told.biases) == cases[c].load);
        snprintf(words, sizeof words, "start%d/manifest.json", c);
        size_t count;
        char *manifest = (char *)scratch_read(scratch_path(words), &count);
        snprintf(words, sizeof words, "\"start\": {\"weights\": \"%s\", \"batch\": \"%s\"",
                 ls_dump_source_name(cases[c].weights), ls_dump_source_name(cases[c].batch));
        ck_assert_msg(strstr(manifest, words) != NULL, "%s", words);
        free(manifest);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("dump_loaded", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, mistakes_of_means_are_found, 0, BERT_PRE);
    tcase_add_loop_test(tcase, lost_rows_are_found, 0, LLAMA + 1);
    tcase_add_test(tcase, what_start_came_to);
    return run_tests();
}
