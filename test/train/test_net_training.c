/* Whole runs of convolutional networks, ORDERED: in layouts of every axis they have the bits of the
 * serial baseline - losses, every gradient, every parameter and running statistic after every step.
 * Checkpoints go from any layout to any other. */
#include "../io/scratch.h"
#include "../parallel/net_layouts.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/parallel/layout/placement.h"
#include "net_run.h"
#include "train/rank_model.h"
#include "train/trace_file.h"
#include "run_tests.h"

/* Dropout, response norms, groups; batch norm with its running statistics. Clipping is on, so the
 * norm takes part. */
START_TEST(every_axis)
{
    ls_config config = fixture_config(net_models[_i % 2]);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    ls_record *record;
    ls_train_result serial;
    run.clip = 0.5;
    run.dtype = _i / 2 ? LS_F64 : LS_F32;
    ASSERT_OK(ls_record_run(&record, &run, NULL, &serial));
    ck_assert(ls_record_loss(record, 0) > 1 && ls_record_loss(record, 0) < 10);
    for (int l = 0; l < NET_LAYOUTS; l++)
        if (run.dtype == LS_F32 || l % 4 == 2)
            ck_same_as(record, serial.digest, run, net_layouts[l]);
    ls_train_result_free(&serial);
    ls_record_destroy(&record);
    ls_images_free(&images);
}
END_TEST

/* Sixteen times and more as many ranks as there are cores here; most have nothing of some layer. */
START_TEST(many_ranks)
{
    static const char *const layouts[] = {"spatial 4x4 x channel 2, overlap", "dp 8 x spatial 2x2",
                                          "spatial 32x1, layer 4 2x1x4x4"};
    ls_config config = fixture_config(net_models[_i]);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 1);
    ls_record *record;
    ls_train_result serial;
    ASSERT_OK(ls_record_run(&record, &run, NULL, &serial));
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
        ck_same_as(record, serial.digest, run, layouts[l]);
    ls_train_result_free(&serial);
    ls_record_destroy(&record);
    ls_images_free(&images);
}
END_TEST

/* A batch that nothing divides, smaller than the ranks that the last layer has. */
START_TEST(uneven_batches)
{
    static const char *const layouts[] = {"dp 5", "dp 2 x spatial 2x2", "spatial 1x3 x channel 2",
                                          "dp 3 x channel 2, layer 4 1x6x1x1"};
    ls_config config = fixture_config(net_models[_i]);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    ls_record *record;
    ls_train_result serial;
    run.batch = 5;
    run.optimizer = LS_SGD;
    ASSERT_OK(ls_record_run(&record, &run, NULL, &serial));
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
        ck_same_as(record, serial.digest, run, layouts[l]);
    ls_train_result_free(&serial);
    ls_record_destroy(&record);
    ls_images_free(&images);
}
END_TEST

/* ---- checkpoints ---- */

static void train(const ls_run *run)
{
    ls_train_result result;
    ASSERT_OK(ls_train(run, NULL, &result));
    ck_assert_uint_eq(result.last_step, run->steps);
    ls_train_result_free(&result);
}

/* The same tensors with the same bits, running statistics and moments too. */
static void ck_same_file(const char *left, const char *right)
{
    ls_safetensors *a, *b;
    ASSERT_OK(ls_safetensors_open(&a, left));
    ASSERT_OK(ls_safetensors_open(&b, right));
    ck_assert_uint_gt(ls_safetensors_count(a), 16);
    ck_assert_uint_eq(ls_safetensors_count(a), ls_safetensors_count(b));
    for (size_t i = 0; i < ls_safetensors_count(a); i++) {
        const ls_tensor_info *x = ls_safetensors_at(a, i), *y = ls_safetensors_find(b, x->name);
        ck_assert_msg(y != NULL, "%s is missing", x->name);
        ck_assert_uint_eq(x->elements, y->elements);
        ck_assert_msg(memcmp(x->data, y->data, x->elements * ls_dtype_bytes(x->dtype)) == 0,
                      "%s differs", x->name);
    }
    ls_safetensors_close(&a);
    ls_safetensors_close(&b);
}

/* 2 steps in one layout, 2 more in another, against 4 serial ones. NULL: serial. */
START_TEST(any_layout_reads_what_any_wrote)
{
    static const char *const layouts[] = {NULL, "spatial 2x2, overlap", "dp 2 x channel 2",
                                          "dp 3, layer 4 1x3x1x1", "channel 4, layer 4 4x1x1x1"};
    enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };
    ls_config config = fixture_config(net_models[_i]);
    ls_images images = net_images(&config);
    ls_run whole = net_run(&config, &images, 4);
    const char *uninterrupted = scratch_path("whole.safetensors");
    const char *half = scratch_path("half.safetensors"), *end = scratch_path("end.safetensors");
    whole.seed = 99;
    whole.save = uninterrupted;
    train(&whole);
    for (int from = 0; from < LAYOUTS; from++) {
        ls_run first = whole;
        first.steps = 2;
        first.save = half;
        if (layouts[from]) set_layout(&first, layouts[from]);
        train(&first);
        for (int to = from % 2; to < LAYOUTS; to += 2) {
            ls_run rest = whole;
            rest.seed = 1234; /* not given: the checkpoint's own goes before it */
            rest.load = half;
            rest.save = end;
            if (layouts[to]) set_layout(&rest, layouts[to]);
            train(&rest);
            ck_same_file(uninterrupted, end);
        }
    }
    ls_images_free(&images);
}
END_TEST

/* ---- what a rank holds, says and reads ---- */

/* Parameters, gradients and the optimizer's two arrays: exactly the shards, states a value alone. A
 * rank of 4 rows of pixels keeps far less than one that has all. */
START_TEST(memory_of_ranks)
{
    ls_config config = fixture_config("resnet-nano");
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 1);
    ls_param_table *table;
    size_t activations[2] = {0, 0};
    static const char *const layouts[] = {"one rank", "spatial 4x1 x channel 2"};
    ASSERT_OK(ls_param_table_create(&table, &config));
    for (int l = 0; l < 2; l++) {
        ls_train_result result;
        set_layout(&run, layouts[l]);
        ASSERT_OK(ls_train(&run, NULL, &result));
        ck_assert_int_eq(result.ranks, ls_layout_ranks(&run.layout));
        for (int r = 0; r < result.ranks; r++) {
            size_t values = 0, trained = 0;
            for (size_t i = 0; i < table->count; i++) {
                const ls_holding h = ls_holding_of(table, &run.layout, r, i);
                size_t rows, cols;
                ls_param_shard_shape(&table->params[i], h.shard, &rows, &cols);
                values += rows * cols;
                trained += table->params[i].state ? 0 : rows * cols;
            }
            const size_t *peak = result.rank[r].peak_bytes;
            ck_assert_uint_eq(peak[LS_MEM_PARAMETERS], 4 * values);
            ck_assert_uint_eq(peak[LS_MEM_GRADIENTS], 4 * trained);
            ck_assert_uint_eq(peak[LS_MEM_OPTIMIZER], 8 * trained);
            ck_assert_uint_gt(peak[LS_MEM_TEMPORARY], 0);
            if (peak[LS_MEM_ACTIVATIONS] > activations[l])
                activations[l] = peak[LS_MEM_ACTIVATIONS];
        }
        ls_train_result_free(&result);
    }
    ck_assert_uint_gt(activations[1], 0);
    ck_assert_uint_lt(4 * activations[1], activations[0]);
    ls_param_table_destroy(&table);
    ls_images_free(&images);
}
END_TEST

/* Every rank's time is forward, backward and update of each step, and the rest. */
START_TEST(trace)
{
    ls_config config = fixture_config("alexnet-nano");
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    ls_trace_file *file;
    run.trace = scratch_path("trace.json");
    set_layout(&run, "spatial 2x1 x channel 2, overlap");
    train(&run);
    ASSERT_OK(ls_trace_file_read(run.trace, &file));
    ck_assert_int_eq(file->log.ranks, 4);
    ck_assert_str_eq(file->facts.layout, "spatial 2x1 x channel 2, overlap");
    for (int r = 0; r < 4; r++) {
        static const char *const tasks[] = {"batch", "forward", "backward", "reduce", "update"};
        size_t found[5][2] = {{0}};
        for (size_t e = 0; e < file->log.n_events[r]; e++) {
            const ls_event *event = &file->log.events[r][e];
            for (int t = 0; t < 5; t++)
                if (event->what && strcmp(event->what, tasks[t]) == 0 && event->step >= 0)
                    found[t][event->step]++;
        }
        for (int t = 0; t < 5; t++)
            ck_assert_msg(found[t][0] && found[t][1], "rank %d: %s", r, tasks[t]);
        ck_assert_uint_gt(found[1][0], 10); /* halos and channels of many layers */
    }
    ls_trace_file_free(&file);
    ls_images_free(&images);
}
END_TEST

/* ---- who looks on at every rank ---- */

enum { RANKS = 4, VIEWS = LS_VIEW_NORM + 1 };

typedef struct seen {
    size_t views[RANKS][VIEWS];    /* of each kind */
    size_t elements[RANKS][VIEWS]; /* in them      */
    double norm[RANKS], loss[RANKS];
} seen;

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    seen *s = context;
    const int r = ls_rank_index(rank);
    size_t elements = 1;
    if ((int)view->kind >= VIEWS || view->comm != LS_COMM_NONE) return LS_OK;
    for (int d = 0; d < view->n_dims; d++) elements *= view->dims[d].count;
    s->views[r][view->kind]++;
    s->elements[r][view->kind] += elements;
    if (view->kind == LS_VIEW_NORM) s->norm[r] = *(const double *)view->values;
    if (view->kind == LS_VIEW_LOSS) s->loss[r] = (double)*(const float *)view->values;
    return LS_OK;
}

/* Each rank shows what it holds of each parameter: of a state its value alone. */
START_TEST(views_of_parameters)
{
    ls_config config = fixture_config("resnet-nano");
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 1);
    ls_param_table *table;
    seen s;
    const ls_observer observer = {&s, look};
    size_t trained = 0;
    memset(&s, 0, sizeof s);
    ASSERT_OK(ls_param_table_create(&table, &config));
    run.observer = &observer;
    set_layout(&run, "dp 2 x channel 2");
    train(&run);
    for (size_t i = 0; i < table->count; i++) trained += !table->params[i].state;
    ck_assert_uint_lt(trained, table->count);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_uint_eq(s.views[r][LS_VIEW_PARAM], table->count);
        ck_assert_uint_eq(s.views[r][LS_VIEW_PARAM_GRADIENT], trained);
        ck_assert_uint_eq(s.views[r][LS_VIEW_CLIPPED], trained);
        ck_assert_uint_eq(s.views[r][LS_VIEW_LOSS], 1);
        ck_assert_uint_eq(s.views[r][LS_VIEW_NORM], 1);
        ck_assert(s.norm[r] > 0 && s.loss[r] > 0);
        ck_assert(memcmp(&s.norm[r], &s.norm[0], sizeof s.norm[0]) == 0);
        ck_assert(memcmp(&s.loss[r], &s.loss[0], sizeof s.loss[0]) == 0);
        ck_assert_uint_eq(s.elements[r][LS_VIEW_CLIPPED], s.elements[r][LS_VIEW_PARAM_GRADIENT]);
        /* Half of each, but of the last layer, which is whole. */
        const ls_param *last = &table->params[table->count - 2];
        const size_t whole = ls_param_elements(last) + last->dims[1];
        ck_assert_uint_eq(2 * (s.elements[r][LS_VIEW_PARAM] - whole),
                          ls_param_table_elements(table) - whole);
    }
    ls_param_table_destroy(&table);
    ls_images_free(&images);
}
END_TEST

/* ---- images that several ranks read ---- */

typedef struct fed {
    const ls_run *run;
    const ls_param_table *table;
    int what;                /* 0: all alike, 1: a pixel, 2: a label is another on rank 1 */
    ls_status status[RANKS]; /* of the check */
} fed;

static ls_status feed(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    fed *f = argument;
    const int r = ls_rank_index(rank);
    const ls_rank_model_setup setup = {rank, f->run, NULL};
    ls_holding *holdings = calloc(f->table->count, sizeof *holdings);
    ls_store *store = NULL;
    ls_rank_model *model = NULL;
    ls_step_batch batch = {0};
    ls_holdings_of(f->table, &f->run->layout, r, holdings);
    LS_TRY(ls_store_create(&store, f->table, holdings, NULL));
    LS_TRY(ls_rank_net_create(&model, &setup, store));
    LS_TRY(ls_step_batch_create(&batch, f->run, model->samples.first, model->samples.count));
    ls_step_batch_fill(&batch, f->run, 0);
    if (r == 1 && f->what == 1) batch.images[3 * batch.batch.pixels + 7] += 1;
    if (r == 1 && f->what == 2) batch.labels[2] ^= 1;
    LS_TRY(model->operations->check_batch(model, &batch));
exit:
    ls_step_batch_free(&batch);
    ls_rank_model_destroy(&model);
    ls_store_destroy(&store);
    free(holdings);
    return status;
}

/* Ranks that share images must have the same; what nobody shares nobody can compare. */
START_TEST(another_image_on_one_rank)
{
    static const struct {
        const char *layout;
        int ranks, what;
        const char *says; /* NULL: all is well */
    } cases[] = {
        {"spatial 2x1", 2, 0, NULL},
        {"spatial 2x1", 2, 1,
         "image 3 of the batch of step 0, or its label, is not the same on "
         "ranks 0 and 1"},
        {"channel 2", 2, 2, "image 2 of the batch of step 0, or its label"},
        {"dp 2 x channel 2", 4, 0, NULL},
        {"dp 2 x channel 2", 4, 1, "image 3 of the batch"},
        {"dp 2", 2, 1, NULL},
    };
    ls_config config = fixture_config("alexnet-nano");
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 1);
    ls_param_table *table;
    ASSERT_OK(ls_param_table_create(&table, &config));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fed f = {.run = &run, .table = table, .what = cases[i].what};
        set_layout(&run, cases[i].layout);
        ls_status status = ls_world_run(cases[i].ranks, NULL, feed, &f);
        if (cases[i].says)
            ASSERT_SAYS(status, LS_ERR_RANK, cases[i].says);
        else
            ck_assert_msg(status == LS_OK, "%s: %s", cases[i].layout, ls_error_text());
    }
    ls_param_table_destroy(&table);
    ls_images_free(&images);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("net_training", 240);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, every_axis, 0, 4);
    tcase_add_loop_test(tests, many_ranks, 0, 2);
    tcase_add_loop_test(tests, uneven_batches, 0, 2);
    tcase_add_loop_test(tests, any_layout_reads_what_any_wrote, 0, 2);
    tcase_add_test(tests, memory_of_ranks);
    tcase_add_test(tests, trace);
    tcase_add_test(tests, views_of_parameters);
    tcase_add_test(tests, another_image_on_one_rank);
    return run_tests();
}
