/* test_net_gradient.c - GRADIENT: networks by central differences of the loss in binary64: every
 * parameter of small ones that have every kind of layer, a few elements of each tensor of the
 * built-in ones. With batch statistics and dropout, whose masks seed and step hold fixed, and in
 * evaluation, where running statistics are constants. */
#define LS_REAL_IS_F64
#include "serial/net_fixture.h"
#include "run_tests.h"

static double loss_at(const fixture *f, const ls_batch *batch, ls_real *element, double value)
{
    double kept = *element;
    *element = value;
    double loss = fixture_forward(f, batch);
    *element = kept;
    return loss;
}

/* To fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h. */
static double difference_at(const fixture *f, const ls_batch *batch, ls_real *element, double h)
{
    const double x = *element;
    double near = loss_at(f, batch, element, x + h) - loss_at(f, batch, element, x - h);
    double far = loss_at(f, batch, element, x + 2 * h) - loss_at(f, batch, element, x - 2 * h);
    return (8 * near - far) / (12 * h);
}

/* Between the points of a difference a ReLU or a maximum may switch; then a smaller step decides. A
 * gradient that is wrong is wrong at every step. */
static void check_element(const fixture *f, const ls_batch *batch, size_t i, size_t e)
{
    static const double steps[] = {1e-4, 1e-5, 1e-6, 2e-7};
    const double bound = 2e-8;
    const ls_slot *slot = &f->store->slots[i];
    const double by_hand = slot->grad[0][e];
    double difference = (double)NAN;
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        difference = difference_at(f, batch, &slot->value[e], steps[s]);
        if (fabs(difference - by_hand) <= bound) return;
    }
    ck_abort_msg("%s, %s element %zu: %.12g by differences, %.12g by hand", f->table->config.name,
                 f->table->params[i].name, e, difference, by_hand);
}

static void check(size_t number, size_t B, size_t elements, bool training)
{
    ls_config config = net_config(number);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    net_batch b = net_batch_of(&config, B);
    if (number >= NETS_TINY) ls_store_init(f.store, 3); /* noise makes logits of hundreds */
    for (size_t i = 0; i < f.table->count; i++)         /* a variance is not negative */
        for (size_t e = 0;
             f.table->params[i].role == LS_BATCH_NORM_VARIANCE && e < fixture_slot_elements(&f, i);
             e++)
            f.store->slots[i].value[e] = fabs(f.store->slots[i].value[e]) + 0.1;
    b.batch.training = training;
    (void)fixture_gradients(&f, &b.batch);
    for (size_t i = 0; i < f.table->count; i++) {
        const size_t n = fixture_slot_elements(&f, i);
        const size_t stride = n <= elements ? 1 : n / elements;
        double largest = 0;
        if (f.table->params[i].state) continue;
        for (size_t e = stride / 2; e < n; e += stride) check_element(&f, &b.batch, i, e);
        for (size_t e = 0; e < n; e++)
            if (!(fabs(f.store->slots[i].grad[0][e]) <= largest))
                largest = fabs(f.store->slots[i].grad[0][e]);
        /* The bound means something: gradients are far above it. */
        ck_assert_msg(largest > 2e-5 && isfinite(largest), "%s, %s: all gradients are nothing",
                      config.name, f.table->params[i].name);
    }
    net_batch_free(&b);
    fixture_destroy(&f);
}

START_TEST(every_kind)
{
    check((size_t)_i, _i == 0 ? 3 : 4, 1000, true);
}
END_TEST

START_TEST(in_evaluation)
{
    check((size_t)_i, 2, _i < NETS_TINY ? 200 : 3, false);
}
END_TEST

START_TEST(built_in)
{
    check(NETS_TINY + (size_t)_i, 2, 3, true);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("net_gradient", 240);
    tcase_add_loop_test(tc, every_kind, 0, NETS_TINY);
    tcase_add_loop_test(tc, in_evaluation, 0, NETS);
    tcase_add_loop_test(tc, built_in, 0, NETS - NETS_TINY);
    return run_tests();
}
