/* test_batch_statistics.c - batch norm's statistics over ranks, with numbers that are known, and
 * its gradient by differences. What goes wrong elsewhere when a batch is cut is tried here by name.
 */
#include "net_runs.h"

/* A batch norm right at the image, of one channel; the logits are there because a network has some.
 */
#define ONE_NORM                                                                                   \
    "{\"name\": \"norm\", \"batch\": 2, \"network\": {\"channels\": 1, \"height\": %zu, "          \
    "\"width\": %zu, \"classes\": 2, \"row_granules\": %zu, \"column_granules\": %zu, "            \
    "\"channel_granules\": 1, \"layers\": ["                                                       \
    "{\"kind\": \"batch_norm\", \"name\": \"bn1\", \"eps\": 1e-30, \"momentum\": %g}, "            \
    "{\"kind\": \"global_pool\"}, {\"kind\": \"dense\", \"channels\": 2}]}}"

enum { MOST = 16 };

typedef struct known {
    ls_layout layout;
    ls_param_table *table;
    ls_batch batch;
    double start_mean, start_variance;
    /* found, by rank */
    ls_real mean[MOST], rstd[MOST], running_mean[MOST], running_variance[MOST];
} known;

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    known *k = context;
    const int r = ls_rank_index(rank);
    if (view->point == LS_POINT_BATCH_MEAN) k->mean[r] = *(const ls_real *)view->values;
    if (view->point == LS_POINT_BATCH_RSTD) k->rstd[r] = *(const ls_real *)view->values;
    return LS_OK;
}

static ls_status forward(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    known *k = argument;
    const int r = ls_rank_index(rank);
    const ls_observer observer = {k, look};
    const ls_sharded_net_setup setup = {ls_rank_world_group(rank), &k->layout, LS_ENGINE_PORTABLE,
                                        k->batch.B, &observer};
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    ls_real loss;
    LS_TRY(ls_store_create(&store, k->table, NULL, NULL));
    ls_store_init(store, 1);
    ls_real *mean = ls_store_slot(store, LS_BATCH_NORM_MEAN, 0)->value;
    ls_real *variance = ls_store_slot(store, LS_BATCH_NORM_VARIANCE, 0)->value;
    *mean = (ls_real)k->start_mean;
    *variance = (ls_real)k->start_variance;
    LS_TRY(ls_sharded_net_create(&net, &setup, store));
    const ls_share samples = ls_sharded_net_samples(net);
    const ls_batch batch = ls_batch_part(&k->batch, samples.first, samples.count);
    LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
    k->running_mean[r] = *mean;
    k->running_variance[r] = *variance;
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

/* The statistics of `images` images of height x width, which `values` has one after another. */
static ls_status statistics(known *k, ls_layout layout, const float *values, size_t images,
                            size_t height, size_t width, double momentum)
{
    static const int32_t labels[MOST] = {0, 1, 1, 0};
    char text[1024];
    ls_config config;
    const int ranks = ls_layout_ranks(&layout);
    snprintf(text, sizeof text, ONE_NORM, height, width, height, width, momentum);
    ck_assert_msg(ls_config_from_json("norm", text, &config) == LS_OK, "%s", ls_error_text());
    ck_assert_int_eq(ls_param_table_create(&k->table, &config), LS_OK);
    k->layout = layout;
    k->batch = (ls_batch){
        .B = images, .pixels = height * width, .images = values, .labels = labels, .training = true};
    ls_error_clear();
    const ls_status status = ls_world_run(ranks, NULL, forward, k);
    ls_param_table_destroy(&k->table);
    for (int r = 1; status == LS_OK && r < ranks; r++) /* replicas stay equal */
        ck_assert(k->mean[r] == k->mean[0] && k->rstd[r] == k->rstd[0] &&
                  k->running_mean[r] == k->running_mean[0] &&
                  k->running_variance[r] == k->running_variance[0]);
    return status;
}

static bool near(ls_real found, double right)
{
    return fabs((double)found - right) <= 4e-7 * fabs(right);
}

/* Mean of means: {4, 4, 4, 4} on one rank and {0, 2} on the other have the mean 3, not 2.5. By
 * samples, by columns and by rows. */
START_TEST(unequal_counts)
{
    static const float values[] = {4, 4, 4, 4, 0, 2};
    const struct {
        ls_layout layout;
        size_t images, height, width;
    } cases[] = {{net_layout(1, 1, 1, 1), 3, 1, 2}, {net_layout(2, 1, 1, 1), 3, 1, 2},
                 {net_layout(1, 1, 4, 1), 1, 1, 6}, {net_layout(1, 4, 1, 1), 1, 6, 1},
                 {net_layout(2, 1, 2, 1), 3, 1, 2}, {net_layout(1, 2, 2, 1), 1, 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        known k = {0};
        ck_assert_msg(statistics(&k, cases[i].layout, values, cases[i].images, cases[i].height,
                                 cases[i].width, 0.5) == LS_OK,
                      "%s", ls_error_text());
        ck_assert_msg(k.mean[0] == 3 && k.running_mean[0] == (ls_real)1.5, "case %zu: mean %g", i,
                      (double)k.mean[0]);
        ck_assert(near(k.rstd[0], sqrt(6.0 / 14)) && near(k.running_variance[0], 0.5 * 14 / 5));
    }
}
END_TEST

/* E[x^2] - E[x]^2 gives 0 here, or less; the variance is 1.25. */
START_TEST(no_cancellation)
{
    static const float values[] = {10000, 10001, 10002, 10003};
    const ls_layout layouts[] = {net_layout(1, 1, 1, 1), net_layout(2, 1, 1, 1),
                                 net_layout(4, 1, 1, 1), net_layout(1, 1, 2, 1),
                                 net_layout(1, 2, 2, 1), net_layout(2, 1, 2, 1)};
    for (size_t i = 0; i < 6; i++) {
        known k = {0};
        const size_t images = (size_t)layouts[i].dp;
        const size_t height = (size_t)layouts[i].down, width = 4 / images / height;
        ck_assert_msg(statistics(&k, layouts[i], values, images, height, width, 0.5) == LS_OK, "%s",
                      ls_error_text());
        ck_assert(k.mean[0] == (ls_real)10001.5);
        ck_assert(near(k.rstd[0], 1 / sqrt(1.25)) && near(k.running_variance[0], 2.5 / 3));
    }
}
END_TEST

/* One value on each of two ranks is two values; one in the whole batch has no variance. */
START_TEST(one_value_on_each_rank)
{
    static const float values[] = {1, 5};
    known k = {0};
    ck_assert_int_eq(statistics(&k, net_layout(2, 1, 1, 1), values, 2, 1, 1, 0.5), LS_OK);
    ck_assert(k.mean[0] == 3 && k.rstd[0] == (ls_real)0.5 && k.running_variance[0] == 4);
    ck_assert_int_eq(statistics(&k, net_layout(1, 1, 2, 1), values, 1, 1, 2, 0.5), LS_OK);
    ck_assert(k.mean[0] == 3 && k.rstd[0] == (ls_real)0.5 && k.running_variance[0] == 4);
    ck_assert_int_eq(statistics(&k, net_layout(1, 1, 1, 1), values, 1, 1, 1, 0.5), LS_ERR_INPUT);
    ck_assert_has(ls_error_text(), "bn1: 1 values for each channel");
}
END_TEST

/* Statistics of the part that a rank has would change with the number of ranks: a chain of two
 * halves ends with another variance. In 1, 2 and 4 parts (0, 1) goes to (0.5, 2.7666...). */
START_TEST(parts_do_not_matter)
{
    static const float values[] = {1, 3, 5, 11};
    for (int parts = 1; parts <= 4; parts *= 2) {
        known k = {.start_variance = 1};
        ck_assert_int_eq(statistics(&k, net_layout(parts, 1, 1, 1), values, 4, 1, 1, 0.1), LS_OK);
        ck_assert(k.mean[0] == 5 && near(k.running_mean[0], 0.5));
        ck_assert(near(k.running_variance[0], 2.766666666666667));
    }
}
END_TEST

#ifdef LS_REAL_IS_F64

/* ---- differences */

#define SOME_NORMS                                                                                 \
    "{\"name\": \"norms\", \"batch\": 3, \"network\": {\"channels\": 2, \"height\": 5, "           \
    "\"width\": 4, \"classes\": 3, \"row_granules\": 3, \"column_granules\": 2, "                  \
    "\"channel_granules\": 2, \"layers\": ["                                                       \
    "{\"kind\": \"batch_norm\", \"eps\": 0.01}, "                                                  \
    "{\"kind\": \"conv\", \"channels\": 4, \"kernel\": 3, \"padding\": 1}, "                       \
    "{\"kind\": \"batch_norm\", \"eps\": 0.02}, {\"kind\": \"global_pool\"}, "                     \
    "{\"kind\": \"batch_norm\", \"eps\": 0.03}, {\"kind\": \"dense\", \"channels\": 3}]}}"

typedef struct differences {
    ls_layout layout;
    fixture f;
    net_batch b;
    double worst, largest; /* by rank 0 */
} differences;

static ls_status loss_at(ls_sharded_net *net, const ls_batch *batch, double *element, double value,
                         double *ret_loss)
{
    const double saved = *element;
    *element = value;
    const ls_status status = ls_sharded_net_forward(net, batch, ret_loss);
    *element = saved;
    return status;
}

/* All ranks hold all parameters, and move the same element at the same time. */
static ls_status differentiate(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    differences *d = argument;
    const double h = 1e-3;
    const ls_sharded_net_setup setup = {ls_rank_world_group(rank), &d->layout, LS_ENGINE_PORTABLE,
                                        d->b.batch.B, NULL};
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    double loss;
    LS_TRY(ls_store_create(&store, d->f.table, NULL, NULL));
    for (size_t i = 0; i < d->f.table->count; i++)
        memcpy(store->slots[i].value, d->f.store->slots[i].value,
               store->slots[i].rows * store->slots[i].cols * sizeof(double));
    LS_TRY(ls_sharded_net_create(&net, &setup, store));
    const ls_share samples = ls_sharded_net_samples(net);
    const ls_batch batch = ls_batch_part(&d->b.batch, samples.first, samples.count);
    LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
    LS_TRY(ls_sharded_net_backward(net));
    for (size_t i = 0; i < d->f.table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        for (size_t e = 0; slot->grad[0] != NULL && e < slot->rows * slot->cols; e++) {
            const double x = slot->value[e];
            double at[4];
            for (int p = 0; p < 4; p++)
                LS_TRY(loss_at(net, &batch, &slot->value[e], x + (p - 2 + (p > 1)) * h, &at[p]));
            const double by_difference = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h);
            const double error = fabs(by_difference - slot->grad[0][e]);
            if (ls_rank_index(rank) != 0) continue;
            if (!(error <= d->worst)) d->worst = error;
            if (fabs(by_difference) > d->largest) d->largest = fabs(by_difference);
        }
    }
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

/* The formula of dx, which takes both sums of the whole batch: a wrong one, or one of the rank's
 * part, is no gradient of the loss. */
START_TEST(gradient_by_differences)
{
    const ls_layout layouts[] = {net_layout(1, 1, 1, 1), net_layout(2, 1, 1, 1),
                                 net_layout(1, 2, 1, 1), net_layout(1, 1, 2, 1)};
    for (size_t i = 0; i < 4; i++) {
        differences d = {.layout = layouts[i]};
        ls_config config;
        ck_assert_msg(ls_config_from_json("norms", SOME_NORMS, &config) == LS_OK, "%s",
                      ls_error_text());
        d.f = fixture_create(&config, LS_ENGINE_PORTABLE);
        d.b = net_batch_of(&config, 3);
        run_well(ls_layout_ranks(&layouts[i]), NULL, differentiate, &d);
        ck_assert_msg(d.worst <= 1e-9 && d.largest > 0.05, "worst %g of at most %g", d.worst,
                      d.largest);
        net_batch_free(&d.b);
        fixture_destroy(&d.f);
    }
}
END_TEST

TEST_MAIN("batch_statistics", unequal_counts, no_cancellation, one_value_on_each_rank,
          parts_do_not_matter, gradient_by_differences)
#else
TEST_MAIN("batch_statistics", unequal_counts, no_cancellation, one_value_on_each_rank,
          parts_do_not_matter)
#endif
