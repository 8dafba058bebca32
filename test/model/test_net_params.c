/* test_net_params.c - the parameters of a network: the list, who holds them, how they begin. */
#include <math.h>
#include <stdio.h>

#include "model/store_grid.h"
#include "run_tests.h"

/* Everything that is not 0 in most entries. */
typedef struct expected {
    const char *name;
    ls_role role;
    size_t layer, rows, cols; /* cols 0: a vector */
    int cut;
    size_t granules, terms; /* terms: of the sum that makes an output; 0: no matrix */
} expected;

/* clang-format off */
static const expected alexnet[] = {
    {"conv1.weight",  LS_CONV_WEIGHT,   0, 16,  75, 0, 4,  75}, {"conv1.bias",  LS_CONV_BIAS,   0, 16, 0, 0, 4, 0},
    {"conv2.weight",  LS_CONV_WEIGHT,   4, 32, 200, 0, 4, 200}, {"conv2.bias",  LS_CONV_BIAS,   4, 32, 0, 0, 4, 0},
    {"conv3.weight",  LS_CONV_WEIGHT,   8, 48, 288, 0, 4, 288}, {"conv3.bias",  LS_CONV_BIAS,   8, 48, 0, 0, 4, 0},
    {"conv4.weight",  LS_CONV_WEIGHT,  10, 48, 216, 0, 4, 216}, {"conv4.bias",  LS_CONV_BIAS,  10, 48, 0, 0, 4, 0},
    {"conv5.weight",  LS_CONV_WEIGHT,  12, 32, 216, 0, 4, 216}, {"conv5.bias",  LS_CONV_BIAS,  12, 32, 0, 0, 4, 0},
    {"dense6.weight", LS_DENSE_WEIGHT, 15, 288, 64, 1, 4, 288}, {"dense6.bias", LS_DENSE_BIAS, 15, 64, 0, 0, 4, 0},
    {"dense7.weight", LS_DENSE_WEIGHT, 18,  64, 64, 1, 4,  64}, {"dense7.bias", LS_DENSE_BIAS, 18, 64, 0, 0, 4, 0},
    {"dense8.weight", LS_DENSE_WEIGHT, 21,  64, 10, 1, 2,  64}, {"dense8.bias", LS_DENSE_BIAS, 21, 10, 0, 0, 2, 0},
};
/* clang-format on */

static ls_param_table *table_named(const char *name)
{
    ls_config c;
    ASSERT_OK(ls_config_named(name, &c));
    return table_of(&c);
}

START_TEST(list_of_alexnet_nano)
{
    ls_param_table *table = table_named("alexnet-nano");
    size_t granules = 0, elements = 0;
    ck_assert_uint_eq(table->count, sizeof alexnet / sizeof alexnet[0]);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *p = &table->params[i];
        const expected *e = &alexnet[i];
        const size_t cols = e->cols ? e->cols : 1;
        ck_assert_str_eq(p->name, e->name);
        ck_assert_msg(p->role == e->role && p->layer == e->layer && p->dims[0] == e->rows &&
                          p->dims[1] == cols && p->n_dims == (e->cols ? 2 : 1) &&
                          p->cut == e->cut && p->axis.granules == e->granules &&
                          p->kind == LS_GRANULE_CHANNELS && p->uses == 1 && !p->state &&
                          !p->also_last && p->stage == LS_STAGE_LAYER,
                      "%s", p->name);
        ck_assert_uint_eq(ls_axis_extent(p->axis), e->cut == 1 ? e->cols : e->rows);
        ck_assert(p->decay == (e->terms > 0));
        ck_assert_int_eq(p->init, e->terms ? LS_INIT_NORMAL : LS_INIT_ZERO);
        if (e->terms) ck_assert_double_eq(p->std, sqrt(2 / (double)e->terms));
        ck_assert_uint_eq(ls_param_find(table, e->role, e->layer), i);
        ck_assert_uint_eq(ls_param_find_name(table, e->name), i);
        granules += e->granules;
        elements += e->rows * cols;
    }
    ck_assert_uint_eq(ls_param_table_granules(table), granules);
    ck_assert_uint_eq(ls_param_table_elements(table), elements);
    /* The field's shape of a filter, and of what is no filter. */
    const ls_param *conv2 = &table->params[2], *bias = &table->params[3];
    ck_assert(conv2->n_shape == 4 && conv2->shape[0] == 32 && conv2->shape[1] == 8);
    ck_assert(conv2->shape[2] == 5 && conv2->shape[3] == 5);
    ck_assert(bias->n_shape == 1 && bias->shape[0] == 32);
    ls_param_table_destroy(&table);
}
END_TEST

/* Running statistics stand beside scale and shift, and are of another sort. */
START_TEST(states_of_resnet_nano)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    ls_param_table *table = table_named("resnet-nano");
    size_t norms = 0, states = 0, granules = 0;
    for (size_t l = 0; l < table->config.net.count; l++) {
        const ls_net_layer *layer = &table->config.net.layers[l];
        if (layer->kind != LS_NET_BATCH_NORM) continue;
        norms++;
        for (int r = 0; r < 4; r++) {
            const size_t i = ls_param_find(table, (ls_role)(LS_BATCH_NORM_SCALE + r), l);
            ck_assert(i != (size_t)-1);
            const ls_param *p = &table->params[i];
            char name[96];
            snprintf(name, sizeof name, "%s.%s", layer->name, names[r]);
            ck_assert_str_eq(p->name, name);
            ck_assert(p->state == (r >= 2) && p->uses == (r < 2) && !p->decay && p->cut == 0);
            ck_assert_int_eq(p->init, r == 0 || r == 3 ? LS_INIT_ONE : LS_INIT_ZERO);
        }
    }
    ck_assert_uint_eq(norms, 9); /* 1 + 2 + 3 + 3 */
    for (size_t i = 0; i < table->count; i++) {
        states += table->params[i].state;
        granules += table->params[i].state ? 0 : table->params[i].axis.granules;
    }
    ck_assert_uint_eq(states, 2 * norms);
    ck_assert_uint_eq(ls_param_table_granules(table), granules);
    ls_param_table_destroy(&table);
}
END_TEST

/* Of a state a store has the value and nothing else, and its norm leaves no hole. */
START_TEST(store_of_states)
{
    ls_param_table *table = table_named("resnet-nano");
    ls_memory *memory = NULL;
    ASSERT_OK(ls_memory_create(&memory));
    ls_store *store = store_of(table, NULL, memory);
    ls_store_init(store, 7);
    size_t all = 0, trained = 0, granules = ls_param_table_granules(table);
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        const size_t n = ls_param_elements(&table->params[i]);
        ck_assert(slot->value != NULL);
        ck_assert((slot->grad[0] == NULL) == table->params[i].state && slot->grad[1] == NULL);
        ck_assert((slot->m == NULL) == table->params[i].state);
        ck_assert((slot->v == NULL) == table->params[i].state);
        all += n;
        if (table->params[i].state) continue;
        trained += n;
        for (size_t e = 0; e < n; e++) slot->grad[0][e] = (ls_real)2;
    }
    ck_assert_uint_eq(store->gradient_count, trained);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_PARAMETERS), all * sizeof(ls_real));
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_GRADIENTS), trained * sizeof(ls_real));
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_OPTIMIZER), 2 * trained * sizeof(ls_real));

    double *squares = malloc((granules + 1) * sizeof *squares), sum = 0;
    for (size_t g = 0; g <= granules; g++) squares[g] = (double)NAN;
    ls_store_squares(store, squares);
    for (size_t g = 0; g < granules; g++) {
        ck_assert_msg(squares[g] > 0, "granule %zu: %g", g, squares[g]);
        sum += squares[g];
    }
    ck_assert_double_eq(sum, 4 * (double)trained);
    ck_assert(isnan(squares[granules]));
    free(squares);
    ls_store_destroy(&store);
    ls_memory_destroy(&memory);
    ls_param_table_destroy(&table);
}
END_TEST

/* A rank's run of channels begins as the slice of the whole, uneven and empty runs too. */
START_TEST(shards_begin_as_slices)
{
    ls_param_table *table = table_named(_i ? "resnet-nano" : "alexnet-nano");
    ls_store *whole = store_of(table, NULL, NULL);
    ls_store_init(whole, 3);
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    for (size_t ranks = 1; ranks <= 5; ranks++)
        for (size_t r = 0; r < ranks; r++) {
            for (size_t i = 0; i < table->count; i++) {
                const ls_param *p = &table->params[i];
                const size_t G = p->axis.granules, first = r * G / ranks;
                holdings[i] =
                    (ls_holding){.held = true, .shard = {first, (r + 1) * G / ranks - first}};
                holdings[i].use_held[0] = !p->state;
            }
            ls_store *store = store_of(table, holdings, NULL);
            ls_store_init(store, 3);
            for (size_t i = 0; i < table->count; i++) {
                const ls_param *p = &table->params[i];
                const ls_slot *slot = &store->slots[i];
                for (size_t e = 0; e < slot->rows * slot->cols; e++) {
                    const long place = grid_place(p, slot->shard, e / slot->cols, e % slot->cols);
                    ck_assert_msg(place >= 0 && !(slot->value[e] < whole->slots[i].value[place] ||
                                                  slot->value[e] > whole->slots[i].value[place]),
                                  "%s, element %zu", p->name, e);
                }
            }
            ls_store_destroy(&store);
        }
    /* A state has no use to ask for. */
    for (size_t i = 0; i < table->count; i++)
        holdings[i] = (ls_holding){
            .held = true, .use_held = {true}, .shard = {0, table->params[i].axis.granules}};
    ls_store *store = NULL;
    if (_i == 1) {
        ck_assert_int_eq(ls_store_create(&store, table, holdings, NULL), LS_ERR_INPUT);
        ck_assert(strstr(ls_error_text(), "stem.norm.running_mean: use 0 asked for, it has 0"));
    }
    free(holdings);
    ls_store_destroy(&whole);
    ls_param_table_destroy(&table);
}
END_TEST

START_TEST(spread_of_initial_values)
{
    ls_param_table *table = table_named("alexnet-nano");
    ls_store *store = store_of(table, NULL, NULL);
    ls_store_init(store, 1);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *p = &table->params[i];
        const double n = (double)ls_param_elements(p);
        double squares = 0;
        if (p->init != LS_INIT_NORMAL) continue;
        for (size_t e = 0; e < ls_param_elements(p); e++)
            squares += (double)store->slots[i].value[e] * (double)store->slots[i].value[e];
        /* Five standard errors. */
        ck_assert_msg(fabs(squares / n * (double)alexnet[i].terms / 2 - 1) < 5 * sqrt(2 / n), "%s",
                      p->name);
    }
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_params", 60);
    tcase_add_test(tcase, list_of_alexnet_nano);
    tcase_add_test(tcase, states_of_resnet_nano);
    tcase_add_test(tcase, store_of_states);
    tcase_add_loop_test(tcase, shards_begin_as_slices, 0, 2);
    tcase_add_test(tcase, spread_of_initial_values);
    return run_tests();
}
