/* test_dump_whole.c - a golden directory is whole and right, or there is none: blocks that do not
 * fit each other, failures in the middle, places that are taken. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "golden/dump_fixture.h"
#include "golden/dump_parts.h"
#include "run_tests.h"

static ls_config config;
static ls_text text;

static ls_run small_run(model m, uint64_t steps)
{
    config = model_config(m);
    config.layers = 2;
    text = fixture_text();
    return fixture_run(&config, &text, steps);
}

/* ---- views that do not fit each other ---- */

/* A dump whose ranks are made up. */
typedef struct made_up {
    dump d;
    ls_dump_options options;
    ls_batch batch;
    int32_t targets[64];
    float values[64];
} made_up;

static void begin_made_up(made_up *m)
{
    memset(m, 0, sizeof *m);
    m->options = dump_plainly();
    m->d.options = &m->options;
    m->d.run = small_run(LLAMA, 1);
    m->d.steps = 1;
    ASSERT_OK(ls_new_folder_create(&m->d.folder, scratch_path("made-up")));
    ASSERT_OK(ls_param_table_create(&m->d.table, &m->d.run.config));
    ASSERT_OK(ls_graph_create(&m->d.graph, m->d.table, config.batch, config.seq));
    ASSERT_OK(ls_dump_tensors_create(&m->d));
    m->batch = (ls_batch){.B = config.batch, .S = config.seq, .targets = m->targets};
    m->d.given = &m->batch;
    for (int i = 0; i < 64; i++) m->values[i] = (float)(i + 1) * 0.5f;
}

static void end_made_up(made_up *m)
{
    ls_dump_tensors_destroy(&m->d);
    ls_graph_destroy(&m->d.graph);
    ls_param_table_destroy(&m->d.table);
    ls_new_folder_destroy(&m->d.folder);
}

/* Elements first .. first + count of the gradient of the final norm's scale. */
static ls_view norm_scale(const made_up *m, size_t first, size_t count)
{
    const size_t place = ls_param_find(m->d.table, LS_FINAL_NORM_SCALE, 0);
    return (ls_view){.kind = LS_VIEW_PARAM_GRADIENT,
                     .param = (int)place,
                     .use = -1,
                     .point = LS_POINTS,
                     .layer = -1,
                     .n_dims = 1,
                     .dims = {{config.d_model, first, count}},
                     .dtype = LS_F32,
                     .values = m->values,
                     .stride = count};
}

START_TEST(ranks_that_disagree)
{
    made_up m;
    begin_made_up(&m);
    ls_view view = norm_scale(&m, 4, 8);
    ASSERT_OK(ls_dump_tensors_take(&m.d, 0, &view));
    view = norm_scale(&m, 6, 4);
    view.values = m.values + 2;
    ASSERT_OK(ls_dump_tensors_take(&m.d, 1, &view)); /* the same numbers */
    m.values[5] = -7;
    ASSERT_SAYS(ls_dump_tensors_take(&m.d, 2, &view), LS_DIFFERENT, "grad.final_norm.weight[9]",
                "0x1.8p+1 on rank 0", "-0x1.cp+2 on rank 2");
    /* Any NaN is any other's equal. */
    m.values[20] = (float)NAN;
    view = norm_scale(&m, 20, 1);
    view.values = m.values + 20;
    ASSERT_OK(ls_dump_tensors_take(&m.d, 0, &view));
    m.values[20] = -(float)NAN;
    ASSERT_OK(ls_dump_tensors_take(&m.d, 1, &view));
    end_made_up(&m);
}
END_TEST

START_TEST(views_that_are_none)
{
    made_up m;
    begin_made_up(&m);
    ls_view view = norm_scale(&m, 4, 8);
    ASSERT_OK(ls_dump_tensors_take(&m.d, 3, &view));
    view = norm_scale(&m, 11, 2);
    ASSERT_SAYS(ls_dump_tensors_take(&m.d, 3, &view), LS_ERR_INTERNAL, "grad.final_norm.weight",
                "rank 3", "a second time");
    view = norm_scale(&m, config.d_model - 1, 2);
    ASSERT_SAYS(ls_dump_tensors_take(&m.d, 0, &view), LS_ERR_INTERNAL, "dimension 0, which is 24");
    view = norm_scale(&m, 0, 2);
    view.dtype = LS_F64;
    ASSERT_SAYS(ls_dump_tensors_take(&m.d, 0, &view), LS_ERR_INTERNAL, "F64", "F32");
    view = norm_scale(&m, 0, 2);
    view.step = 1;
    ASSERT_SAYS(ls_dump_tensors_take(&m.d, 0, &view), LS_ERR_INTERNAL, "no tensor of this run");
    ASSERT_SAYS(ls_dump_tensors_check(&m.d), LS_ERR_INTERNAL, "step0/embedding",
                "ranks show 0 of its");
    end_made_up(&m);
}
END_TEST

/* Blocks that overlap in part, as shards of shared kv heads do. (That their elements count once is
 * seen in layouts: tp 3 and 6 of a model with 2 kv heads.) */
START_TEST(blocks_that_overlap)
{
    made_up m;
    begin_made_up(&m);
    const int node =
        ls_graph_param_gradient(m.d.graph, (int)ls_param_find(m.d.table, LS_FINAL_NORM_SCALE, 0));
    static const size_t runs[2][2] = {{0, 10}, {8, 12}};
    for (int r = 0; r < 2; r++) {
        ls_view view = norm_scale(&m, runs[r][0], runs[r][1]);
        view.values = m.values + runs[r][0];
        ASSERT_OK(ls_dump_tensors_take(&m.d, r, &view));
    }
    ls_view view = norm_scale(&m, 0, 24);
    ASSERT_OK(ls_dump_tensors_take(&m.d, 2, &view));
    const float *there = ls_dump_tensor(&m.d, (size_t)node)->values;
    ck_assert_mem_eq(there, m.values, 24 * sizeof *there);
    end_made_up(&m);
}
END_TEST

/* ---- all or nothing ---- */

static volatile int stop;

static void stop_after_a_step(void *context, uint64_t done, uint64_t of, const char *what)
{
    (void)of;
    if (strcmp(what, context) == 0 && done > 0) __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

START_TEST(failure_leaves_nothing)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof folder, "%s", scratch_path("nothing"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/golden", folder);
    ls_run run = small_run(GPT2, 2);
    ls_dump_options options = dump_plainly();
    ls_dump_summary summary;
    options.per_rank = options.collectives = true;
    run.world.stop = &stop;
    run.serial = false;
    run.layout.tp = 2;
    options.advance = stop_after_a_step;
    static const char *const moments[] = {"steps", "files of ranks", "digests"};
    for (int i = 0; i < 3; i++) {
        stop = 0;
        options.context = (void *)moments[i];
        ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INTERRUPTED, "interrupted");
        ck_assert_int_eq(scratch_entries(folder), 0);
    }
    stop = 0;
    options.advance = NULL;
    const ls_dump_summary before = dump_ok(&run, path, &options);
    ck_assert_int_eq(scratch_entries(folder), 1);
    ck_assert_int_eq(scratch_entries(path), 10);

    /* Nor touches what was there. */
    options.advance = stop_after_a_step;
    options.context = (void *)moments[0];
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INTERRUPTED, "interrupted");
    ls_golden *golden = open_ok(path);
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ls_golden_close(&golden);
    ck_assert_int_eq(scratch_entries(folder), 1);

    /* A new one takes its place, with what it has and no more. */
    stop = 0;
    options = dump_plainly();
    ck_assert_str_eq(dump_ok(&run, path, &options).digest, before.digest);
    ck_assert_int_eq(scratch_entries(path), 8);
    ck_assert_int_eq(scratch_entries(folder), 1);
}
END_TEST

START_TEST(full_disk)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof folder, "%s", scratch_path("full"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/golden", folder);
    ls_run run = small_run(GPT2, 1);
    ls_dump_options options = dump_plainly();
    ls_dump_summary summary;
    struct rlimit limit, before;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 1 << 18; /* enough for weights, masks and Check */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_IO,
                "full/golden/forward.safetensors: cannot be written: File too large");
    options.whole = false;
    options.per_rank = true;
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_IO, "what ranks hold",
                "File too large");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(scratch_entries(folder), 0);
}
END_TEST

/* JSON that there is no memory for, from its n-th piece on: what is written before the steps, or
 * after them. */
static size_t json_pieces, json_limit;
static bool json_limited, json_late;

static void *limited_malloc(size_t bytes)
{
    if (!json_limited) return malloc(bytes);
    return json_pieces++ < json_limit ? malloc(bytes) : NULL;
}

static void limit_memory(void *context, uint64_t done, uint64_t of, const char *what)
{
    (void)context;
    if (strcmp(what, "steps") == 0) json_limited = json_late && done == of;
}

/* It is said to be memory, and where; never a fault of a text, a name or a file. */
START_TEST(no_memory)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof folder, "%s", scratch_path(_i ? "memory late" : "memory"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/golden", folder);
    ls_run run = small_run(GPT2, 1);
    ls_dump_options options = dump_plainly();
    ls_dump_summary summary;
    options.per_rank = options.collectives = true;
    options.advance = limit_memory;
    json_set_alloc_funcs(limited_malloc, free);
    json_late = _i;
    ls_status status = LS_ERR_MEMORY;
    for (json_limit = 0; status != LS_OK; json_limit += 1 + json_limit / 8) {
        json_pieces = 0;
        json_limited = !json_late;
        status = ls_dump(&run, path, &options, &summary);
        json_limited = false;
        if (status == LS_OK) {
            ck_assert_msg(json_pieces <= json_limit, "%zu of %zu pieces", json_limit, json_pieces);
            break;
        }
        ck_assert_msg(status == LS_ERR_MEMORY && strstr(ls_error_text(), "memory") != NULL &&
                          strstr(ls_error_text(), ".lockstep-") == NULL,
                      "%zu pieces: %s", json_limit, ls_error_text());
        ck_assert_int_eq(scratch_entries(folder), 0);
        ls_error_clear();
    }
    ck_assert_uint_gt(json_limit, 1000);
}
END_TEST

START_TEST(places)
{
    ls_run run = small_run(GPT2, 1);
    ls_dump_options options = dump_plainly();
    ls_dump_summary summary;
    char path[1024];
    snprintf(path, sizeof path, "%s", scratch_path("place"));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    dump_ok(&run, path, &options); /* an empty folder will do */
    scratch_file("place/notes", "mine", 4);
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INPUT, "place", "has notes in it");
    ck_assert_int_eq(remove(scratch_path("place/notes")), 0);
    ck_assert_int_eq(mkdir(scratch_path("place/ranks"), 0755), 0);
    scratch_file("place/ranks/rank-000.safetensors.bak", "mine", 4);
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INPUT, "place",
                "has ranks/rank-000.safetensors.bak in it");
    ck_assert_int_eq(remove(scratch_path("place/ranks/rank-000.safetensors.bak")), 0);
    scratch_file("place/manifest.json", "{\"format\": \"other\"}", 19);
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INPUT, "place",
                "no golden directory");
    ck_assert_int_eq(remove(scratch_path("place/manifest.json")), 0);
    ASSERT_SAYS(ls_dump(&run, path, &options, &summary), LS_ERR_INPUT, "place",
                "no golden directory");
    scratch_file("plain", "x", 1);
    ASSERT_SAYS(ls_dump(&run, scratch_path("plain"), &options, &summary), LS_ERR_INPUT, "plain",
                "Not a directory");
    ASSERT_SAYS(ls_dump(&run, scratch_path("none/x"), &options, &summary), LS_ERR_INPUT, "none/x",
                "No such file");
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("dump_whole", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, ranks_that_disagree);
    tcase_add_test(tcase, views_that_are_none);
    tcase_add_test(tcase, blocks_that_overlap);
    tcase_add_test(tcase, failure_leaves_nothing);
    tcase_add_test(tcase, full_disk);
    tcase_add_loop_test(tcase, no_memory, 0, 2);
    tcase_add_test(tcase, places);
    return run_tests();
}
