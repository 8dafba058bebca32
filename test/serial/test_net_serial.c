/* test_net_serial.c - serial networks against the same written once more in loops: ORDERED with the
 * portable engine, TRUTH with the others; running statistics, evaluation, what an update leaves
 * alone, refusals. */
#include "serial/naive_net.h"

#include "lockstep/kernels/optimizer.h"
#include "run_tests.h"

static size_t images_of(size_t number)
{
    return number < NETS_TINY ? 3 + number : 2;
}

static void expect_same(const char *what, const char *name, const ls_real *got,
                        const ls_real *right, size_t n, double bound)
{
    double most = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)right[i]) <= most)) most = fabs((double)right[i]);
        if (!(fabs((double)(got[i] - right[i])) <= error))
            error = fabs((double)(got[i] - right[i]));
    }
    ck_assert_msg(isfinite(most) && (most > 0 || bound > 0), "%s, %s: nothing to compare", what,
                  name);
    if (bound == 0)
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(memcmp(&got[i], &right[i], sizeof got[i]) == 0,
                          "%s, %s: element %zu is %a, not %a", what, name, i, (double)got[i],
                          (double)right[i]);
    ck_assert_msg(error <= bound * (most + 1e-3), "%s, %s: off by %g, values to %g", what, name,
                  error, most);
}

/* Values that are no noise about 0: variances are positive. */
static fixture create(size_t number, ls_engine engine, ls_config *config)
{
    *config = net_config(number);
    fixture f = fixture_create(config, engine);
    if (number >= NETS_TINY) ls_store_init(f.store, 3);
    for (size_t i = 0; i < f.table->count; i++)
        for (size_t e = 0; f.table->params[i].state && e < fixture_slot_elements(&f, i); e++) {
            ls_real *value = &f.store->slots[i].value[e];
            *value = (ls_real)(0.02 * (double)e);
            if (f.table->params[i].role == LS_BATCH_NORM_VARIANCE) *value += (ls_real)0.5;
        }
    return f;
}

static const ls_real *naive_gradient(const naive_net *n, const ls_param *param)
{
    switch (param->role) {
    case LS_CONV_WEIGHT:
    case LS_DENSE_WEIGHT:
    case LS_BATCH_NORM_SCALE:
        return n->dweight[param->layer];
    default:
        return n->dbias[param->layer];
    }
}

static void compare(size_t number, ls_engine engine, bool training, double bound)
{
    ls_config config;
    fixture f = create(number, engine, &config);
    net_batch b = net_batch_of(&config, images_of(number));
    b.batch.training = training;
    naive_net *n = naive_net_run(&config, f.store, &b.batch);
    for (int twice = 0; twice < 2; twice++) {
        ls_real loss = fixture_forward(&f, &b.batch);
        expect_same(config.name, "loss", &loss, &n->loss, 1, bound);
        expect_same(config.name, "logits", ls_serial_logits(f.serial), n->y[config.net.count - 1],
                    b.batch.B * config.net.classes, bound);
        fixture_spoil_gradients(&f);
        ck_assert_int_eq(ls_serial_backward(f.serial), LS_OK);
        for (size_t i = 0; i < f.table->count; i++) {
            const ls_param *param = &f.table->params[i];
            if (param->state) continue;
            expect_same(config.name, param->name, f.store->slots[i].grad[0],
                        naive_gradient(n, param), fixture_slot_elements(&f, i), bound);
        }
    }
    naive_net_free(n);
    net_batch_free(&b);
    fixture_destroy(&f);
}

START_TEST(same_bits_as_loops)
{
    compare((size_t)_i % NETS, LS_ENGINE_PORTABLE, _i < NETS, 0);
}
END_TEST

START_TEST(other_engines_are_near)
{
    const ls_engine engines[] = {LS_ENGINE_OPENBLAS, LS_ENGINE_PLAIN};
    if (!ls_engine_available(engines[0])) SKIP_TEST("built without OpenBLAS");
    for (size_t e = 0; e < 2; e++)
        compare((size_t)_i, engines[e], true, LS_REAL_DTYPE == LS_F64 ? 2e-13 : 2e-4);
}
END_TEST

/* Once a pass in training, from the whole batch: the unbiased variance; never in evaluation, and
 * not when a pass fails. */
START_TEST(running_statistics)
{
    ls_config config;
    fixture f = create(0, LS_ENGINE_PORTABLE, &config);
    net_batch b = net_batch_of(&config, 3);
    const size_t l = 4; /* the batch norm, momentum 0.3 */
    const size_t C = config.net.layers[3].channels;
    ck_assert_int_eq(config.net.layers[l].kind, LS_NET_BATCH_NORM);
    naive_net *n = naive_net_run(&config, f.store, &b.batch);
    const ls_net_shape *shape = &n->shapes.layer[l];
    const ls_real N = (ls_real)(3 * shape->height * shape->width);
    ls_real *mean = ls_store_slot(f.store, LS_BATCH_NORM_MEAN, l)->value;
    ls_real *variance = ls_store_slot(f.store, LS_BATCH_NORM_VARIANCE, l)->value;
    ls_real expected[2][8];
    volatile int stop = 1;
    for (size_t c = 0; c < C; c++) {
        expected[0][c] = (ls_real)0.7 * mean[c] + (ls_real)0.3 * n->mean[l][c];
        expected[1][c] = (ls_real)0.7 * variance[c] + (ls_real)0.3 * (n->squares[l][c] / (N - 1));
    }
    ls_real before[2][8], loss;
    memcpy(before[0], mean, C * sizeof *mean);
    memcpy(before[1], variance, C * sizeof *mean);

    b.batch.training = false;
    (void)fixture_gradients(&f, &b.batch);
    ls_serial_stop_when(f.serial, &stop);
    b.batch.training = true;
    ck_assert_int_eq(ls_serial_forward(f.serial, &b.batch, &loss), LS_ERR_INTERRUPTED);
    ls_error_clear();
    ls_serial_stop_when(f.serial, NULL);
    ck_assert_mem_eq(before[0], mean, C * sizeof *mean);
    ck_assert_mem_eq(before[1], variance, C * sizeof *mean);

    (void)fixture_gradients(&f, &b.batch);
    ck_assert_mem_eq(expected[0], mean, C * sizeof *mean);
    ck_assert_mem_eq(expected[1], variance, C * sizeof *mean);
    naive_net_free(n);
    net_batch_free(&b);
    fixture_destroy(&f);
}
END_TEST

/* The optimizer does not touch them, whatever the weight decay, and they have no share in the
 * gradient's norm. */
START_TEST(states_are_not_trained)
{
    ls_config config;
    fixture f = create(3, LS_ENGINE_PORTABLE, &config);
    net_batch b = net_batch_of(&config, 2);
    const ls_update update = {.optimizer = LS_ADAMW,
                              .lr = 0.1,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.5,
                              .t = 1};
    double squares = 0, by_hand = 0;
    (void)fixture_gradients(&f, &b.batch);
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    for (size_t i = 0; i < f.table->count; i++)
        for (size_t e = 0; !f.table->params[i].state && e < fixture_slot_elements(&f, i); e++)
            by_hand += pow((double)f.store->slots[i].grad[0][e], 2);
    ck_assert(fabs(squares - by_hand) <= 1e-12 * by_hand && by_hand > 0);
    ls_real *states[64], *copies[64];
    size_t count = 0;
    for (size_t i = 0; i < f.table->count; i++) {
        if (!f.table->params[i].state) continue;
        const size_t bytes = fixture_slot_elements(&f, i) * sizeof(ls_real);
        states[count] = f.store->slots[i].value;
        copies[count] = malloc(bytes);
        memcpy(copies[count++], f.store->slots[i].value, bytes);
    }
    ck_assert_uint_eq(count, 2 * 9);
    ls_serial_update(f.serial, &update, squares, 1);
    for (size_t i = 0, k = 0; i < f.table->count; i++) {
        if (!f.table->params[i].state) continue;
        ck_assert_mem_eq(states[k], copies[k], fixture_slot_elements(&f, i) * sizeof(ls_real));
        free(copies[k++]);
    }
    net_batch_free(&b);
    fixture_destroy(&f);
}
END_TEST

static void expect_refused(const fixture *f, const ls_batch *batch, const char *says)
{
    ls_real loss = 7;
    ck_assert_int_eq(ls_serial_forward(f->serial, batch, &loss), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), says) != NULL, "%s", ls_error_text());
    ck_assert(loss == 7 && ls_serial_logits(f->serial) == NULL);
    ls_error_clear();
}

START_TEST(bad_batches_are_refused)
{
    ls_config config;
    fixture f = create(1, LS_ENGINE_PORTABLE, &config);
    net_batch b = net_batch_of(&config, 4);
    ls_batch bad = b.batch;
    bad.B = 0;
    expect_refused(&f, &bad, "batch of 0 images");
    bad = b.batch;
    bad.first = 1;
    expect_refused(&f, &bad, "image 1");
    bad = b.batch;
    bad.images = NULL;
    expect_refused(&f, &bad, "without images");
    bad = b.batch;
    bad.labels = NULL;
    expect_refused(&f, &bad, "without labels");
    bad = b.batch;
    bad.pixels = 59;
    expect_refused(&f, &bad, "images of 59 numbers: the network reads 60 (2 x 5 x 6)");
    b.labels[2] = 3;
    expect_refused(&f, &b.batch, "label");
    b.labels[2] = -1;
    expect_refused(&f, &b.batch, "label");
    b.labels[2] = 0;
    /* The last batch norm sees one value of a channel for each image. */
    bad = b.batch;
    bad.B = 1;
    expect_refused(&f, &bad, "last");
    bad.training = false; /* in evaluation it needs no variance */
    (void)fixture_gradients(&f, &bad);
    (void)fixture_gradients(&f, &b.batch);
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_ERR_INPUT); /* once */
    ls_error_clear();
    net_batch_free(&b);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("net_serial", 240);
    tcase_add_loop_test(tc, same_bits_as_loops, 0, 2 * NETS);
    tcase_add_loop_test(tc, other_engines_are_near, 0, NETS);
    tcase_add_test(tc, running_statistics);
    tcase_add_test(tc, states_are_not_trained);
    tcase_add_test(tc, bad_batches_are_refused);
    return run_tests();
}
