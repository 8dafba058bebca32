/* test_serial_gradient.c - GRADIENT: every parameter of every kind of model, by central differences
 * of the loss in binary64; dropout on, its masks held fixed by seed and step. */
#define LS_REAL_IS_F64
#include "serial/serial_fixture.h"
#include "run_tests.h"

/* The loss as a function of one element of one parameter. */
static double loss_at(const fixture *f, const ls_batch *batch, ls_real *element, double value)
{
    double kept = *element;
    *element = value;
    double loss = fixture_forward(f, batch);
    *element = kept;
    return loss;
}

/* Where logical element e of a parameter lies in its slot. */
static size_t place_of(const ls_param *param, const ls_slot *slot, size_t e)
{
    return param->n_dims == 1 ? e : e / param->dims[1] * slot->cols + e % param->dims[1];
}

/* Its derivative to fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h. */
static double difference_at(const fixture *f, const ls_batch *batch, ls_real *element)
{
    const double h = 1e-4, x = *element;
    double near = loss_at(f, batch, element, x + h) - loss_at(f, batch, element, x - h);
    double far = loss_at(f, batch, element, x + 2 * h) - loss_at(f, batch, element, x - 2 * h);
    return (8 * near - far) / (12 * h);
}

static void check_parameter(const fixture *f, const ls_batch *batch, size_t i)
{
    const double bound = 1e-9;
    const ls_param *param = &f->table->params[i];
    const ls_slot *slot = &f->store->slots[i];
    size_t n = ls_param_elements(param);
    double largest = 0;
    for (size_t e = 0; e < n; e++) {
        size_t at = place_of(param, slot, e);
        double difference = difference_at(f, batch, &slot->value[at]);
        double error = fabs(difference - slot->grad[0][at]);
        ck_assert_msg(error <= bound, "%s, %s element %zu: %.12g by differences, %.12g by hand",
                      f->table->config.name, param->name, e, difference, slot->grad[0][at]);
        if (fabs(difference) > largest) largest = fabs(difference);
    }
    /* The bound means something: gradients are far above it. A key bias moves all scores of a query
     * alike, which softmax does not see, unless positions turn it. */
    bool none = param->role == LS_KEY_BIAS && f->table->config.position == LS_LEARNED;
    ck_assert_msg(none || largest > 1e5 * bound, "%s, %s: all gradients are nothing",
                  f->table->config.name, param->name);
}

START_TEST(every_parameter)
{
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    (void)fixture_gradients(&f, &batch);
    for (size_t i = 0; i < f.table->count; i++) check_parameter(&f, &batch, i);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_gradient", 240);
    tcase_add_loop_test(tc, every_parameter, 0, N_TINY_SERIAL);
    return run_tests();
}
