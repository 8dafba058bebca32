/* Which layouts a sweep goes through: all legal, none twice, every grid point and every pair of
 * values, always the same list. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/parallel/layout/sharding.h"
#include "verify/sweep.h"
#include "run_tests.h"

enum { NAME = 256 };

typedef struct model {
    const char *name;
    size_t layers, batch;
    int max_ranks;
} model;

static const model models[] = {{"gpt2-nano", 4, 8, 16},  {"llama-nano", 4, 8, 8},
                               {"gpt2-nano", 7, 11, 12}, {"gpt2-nano", 1, 3, 6},
                               {"gpt2-nano", 4, 1, 5},   {"gpt2-nano", 4, 8, 1},
                               {"gpt2-nano", 2, 8, 2}};
enum { MODELS = sizeof models / sizeof models[0] };

static ls_sweep sweep_of(const model *m, ls_config *ret_config)
{
    ls_sweep sweep = {NULL, 0, 0};
    ck_assert_int_eq(ls_config_named(m->name, ret_config), LS_OK);
    ret_config->layers = m->layers;
    ret_config->batch = m->batch;
    ck_assert_msg(ls_sweep_create(&sweep, ret_config, m->max_ranks) == LS_OK, "%s",
                  ls_error_text());
    return sweep;
}

START_TEST(legal_and_once)
{
    ls_config config;
    ls_sweep sweep = sweep_of(&models[_i], &config), again = sweep_of(&models[_i], &config);
    char(*names)[NAME] = malloc(sweep.count * sizeof *names);
    ck_assert_uint_gt(sweep.count, 0);
    ck_assert_uint_eq(sweep.count, again.count);
    for (size_t i = 0; i < sweep.count; i++) {
        const ls_layout *layout = &sweep.layouts[i];
        char other[NAME];
        ck_assert_msg(ls_layout_check(layout, &config) == LS_OK, "%s", ls_error_text());
        ck_assert_int_le(ls_layout_ranks(layout), models[_i].max_ranks);
        /* the naive pipeline goes once */
        ck_assert(layout->micro_batches > 1 || layout->schedule != LS_1F1B);
        if (i > 0) ck_assert_int_le(ls_layout_ranks(layout - 1), ls_layout_ranks(layout));
        ls_layout_describe(layout, names[i], NAME);
        ls_layout_describe(&again.layouts[i], other, NAME);
        ck_assert_str_eq(names[i], other);
        for (size_t j = 0; j < i; j++) ck_assert_str_ne(names[i], names[j]);
    }
    free(names);
    ls_sweep_free(&sweep);
    ls_sweep_free(&again);
}
END_TEST

/* Layouts of one grid point stand together, and every grid point is there. */
START_TEST(every_grid_point)
{
    ls_config config;
    const model *m = &models[_i];
    ls_sweep sweep = sweep_of(m, &config);
    size_t points = 1, expected = 0;
    for (size_t i = 1; i < sweep.count; i++)
        if (!ls_same_grid(&sweep.layouts[i - 1], &sweep.layouts[i])) points++;
    for (int tp = 1; tp <= m->max_ranks; tp++)
        for (int pp = 1; pp <= m->max_ranks; pp++)
            for (int dp = 1; dp <= m->max_ranks; dp++)
                if (12 % tp == 0 && pp <= (int)m->layers && dp <= (int)m->batch &&
                    tp * pp * dp <= m->max_ranks)
                    expected += tp > 1 ? 2 : 1;
    ck_assert_uint_eq(points, expected);
    ls_sweep_free(&sweep);
}
END_TEST

/* What a schedule may do with micro-batches: fewer than stages, as many, more, a number that does
 * not divide the sequences; and interleaving with 2 and more virtual stages. */
START_TEST(every_schedule)
{
    ls_config config;
    ls_sweep sweep = sweep_of(&models[0], &config);
    static const char *const wanted[] = {"pp 4",
                                         "pp 4, gpipe, 3 micro-batches",
                                         "pp 4, gpipe, 4 micro-batches",
                                         "pp 4, 1f1b, 5 micro-batches",
                                         "pp 3, 1f1b, 3 micro-batches",
                                         "pp 2, interleaved, 2 virtual stages",
                                         "pp 2, interleaved, 2 virtual stages, 3 micro-batches",
                                         "interleaved, 4 virtual stages, 3 micro-batches",
                                         "dp 2 x pp 2 x tp 2, sp, 1f1b",
                                         "dp 3 x pp 2 x tp 2, sp, gpipe",
                                         "dp 8 x pp 2"};
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        size_t found = 0;
        for (size_t i = 0; i < sweep.count; i++) {
            char name[NAME];
            ls_layout_describe(&sweep.layouts[i], name, NAME);
            if (strncmp(name, wanted[w], strlen(wanted[w])) == 0) found++;
        }
        ck_assert_msg(found > 0, "%s is missing", wanted[w]);
    }
    ls_sweep_free(&sweep);
}
END_TEST

/* The value of axis a, a small number. */
static int value_of(const ls_layout *layout, int a)
{
    int M = layout->micro_batches, K = layout->pp;
    const int values[] = {layout->tp,
                          layout->sp,
                          layout->pp,
                          layout->dp,
                          (int)layout->schedule,
                          layout->virtual_stages,
                          M == 1   ? 0
                          : M < K  ? 1
                          : M == K ? 2
                                   : 3,
                          (int)layout->recompute,
                          layout->given > 0};
    return values[a];
}

/* Each way to recompute meets every value of every axis that occurs; each partition, too, where a
 * partition is possible. */
START_TEST(pairs)
{
    enum { AXES = 9, RECOMPUTE = 7, PARTITION = 8, VALUES = 20 };
    ls_config config;
    ls_sweep sweep = sweep_of(&models[_i], &config);
    bool occurs[AXES][VALUES] = {{false}}, cut[AXES][VALUES] = {{false}};
    bool met[AXES][VALUES][4] = {{{false}}}, uneven[AXES][VALUES] = {{false}};
    for (size_t i = 0; i < sweep.count; i++) {
        const ls_layout *layout = &sweep.layouts[i];
        for (int a = 0; a < AXES; a++) {
            int v = value_of(layout, a);
            occurs[a][v] = true;
            met[a][v][value_of(layout, RECOMPUTE)] = true;
            if (layout->given > 0) uneven[a][v] = true;
            if (ls_layout_stages(layout) > 1) cut[a][v] = true;
        }
    }
    for (int a = 0; a < AXES; a++) {
        for (int v = 0; v < VALUES; v++) {
            if (!occurs[a][v] || a == RECOMPUTE || a == PARTITION) continue;
            for (int r = 0; r < 4; r++)
                ck_assert_msg(met[a][v][r], "axis %d, value %d never meets recompute %d", a, v, r);
            ck_assert_msg(!cut[a][v] || uneven[a][v], "axis %d, value %d: no uneven cut", a, v);
        }
    }
    for (int r = 0; r < 4; r++) ck_assert(uneven[RECOMPUTE][r] || models[_i].layers == 1);
    ls_sweep_free(&sweep);
}
END_TEST

/* ---- convolutional networks ---- */

static const model nets[] = {{"alexnet-nano", 0, 8, 8},
                             {"resnet-nano", 0, 8, 8},
                             {"resnet-nano", 0, 3, 12},
                             {"alexnet-nano", 0, 1, 1}};
enum { NETS = sizeof nets / sizeof nets[0] };

/* Every grid point, each with and without overlap where pixels are cut; two strategies where there
 * are ranks for them; all legal, none twice. */
START_TEST(networks)
{
    const model *m = &nets[_i];
    ls_config config;
    ls_sweep sweep = {NULL, 0, 0};
    size_t expected = 0, points = 1, with[2][2] = {{0, 0}, {0, 0}};
    ck_assert_int_eq(ls_config_named(m->name, &config), LS_OK);
    config.batch = m->batch;
    ck_assert_msg(ls_sweep_create(&sweep, &config, m->max_ranks) == LS_OK, "%s", ls_error_text());
    for (int dp = 1; dp <= (int)m->batch; dp++)
        for (int down = 1; down <= m->max_ranks; down++)
            for (int across = 1; across <= m->max_ranks; across++)
                for (int channels = 1; channels <= 4; channels *= 2)
                    expected += dp * down * across * channels <= m->max_ranks;
    char(*names)[NAME] = malloc(sweep.count * sizeof *names);
    for (size_t i = 0; i < sweep.count; i++) {
        const ls_layout *layout = &sweep.layouts[i];
        const bool starts = i == 0 || !ls_same_grid(layout - 1, layout);
        const bool cut = layout->down > 1 || layout->across > 1;
        ck_assert_msg(ls_layout_check(layout, &config) == LS_OK, "%s", ls_error_text());
        ck_assert_int_le(ls_layout_ranks(layout), m->max_ranks);
        if (i > 0) {
            points += starts;
            ck_assert_int_le(ls_layout_ranks(layout - 1), ls_layout_ranks(layout));
        }
        if (starts) {
            ck_assert(!layout->overlap && layout->n_strategies == 0);
            const size_t wanted = (cut ? 2u : 1u) + (ls_layout_ranks(layout) > 1 ? 2u : 0u);
            ck_assert_uint_ge(sweep.count - i, wanted);
            ck_assert(ls_same_grid(layout, layout + wanted - 1));
        }
        ls_layout_describe(layout, names[i], NAME);
        for (size_t j = 0; j < i; j++) ck_assert_str_ne(names[i], names[j]);
        with[layout->overlap][layout->n_strategies > 0]++;
    }
    ck_assert_uint_eq(points, expected);
    if (m->max_ranks > 1) ck_assert_uint_eq(with[0][1], with[1][1]);
    if (m->max_ranks > 1) ck_assert_uint_eq(with[0][1], points - 1);
    free(names);
    ls_sweep_free(&sweep);
}
END_TEST

/* Each kind of strategy occurs, with all ranks: samples, rows, columns, channels and one after
 * another in the middle, sums in a grid of their own, rows and columns swapped, a dense layer by
 * channels, one pixel. */
START_TEST(strategies_of_networks)
{
    static const struct {
        int net;
        const char *text;
    } wanted[] = {{0, ", layer 8 8x1x1x1"},
                  {0, ", layer 8 1x8x1x1"},
                  {0, ", layer 11 1x1x8x1"},
                  {0, ", layer 8 2x1x1x4"},
                  {0, ", layer 7 1x4x2x1"},
                  {0, "spatial 1x2 x channel 4, layer 12 1x2x1x4"},
                  {0, "layer 8 1x8x1x1, layer 9 8x1x1x1, layer 10 2x2x2x1"},
                  {0, ", layer 15 2x1x1x4"},
                  {1, ", layer 13 8x1x1x1"},
                  {1, ", layer 12 1x1x8x1"},
                  {1, ", layer 13 2x1x1x4"},
                  {1, ", layer 14 1x4x2x1"},
                  {1, "layer 13 1x8x1x1, layer 14 8x1x1x1, layer 15 "},
                  {1, ", layer 28 1x8x1x1"}};
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        ls_config config;
        ls_sweep sweep = {NULL, 0, 0};
        size_t found = 0;
        ck_assert_int_eq(ls_config_named(nets[wanted[w].net].name, &config), LS_OK);
        ck_assert_int_eq(ls_sweep_create(&sweep, &config, 8), LS_OK);
        for (size_t i = 0; i < sweep.count; i++) {
            char name[NAME];
            ls_layout_describe(&sweep.layouts[i], name, NAME);
            found += strstr(name, wanted[w].text) != NULL;
        }
        ck_assert_msg(found > 0, "%s: %s is missing", config.name, wanted[w].text);
        ls_sweep_free(&sweep);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("sweep", 0);
    tcase_add_loop_test(tests, legal_and_once, 0, MODELS);
    tcase_add_loop_test(tests, every_grid_point, 0, MODELS);
    tcase_add_test(tests, every_schedule);
    tcase_add_loop_test(tests, pairs, 0, MODELS);
    tcase_add_loop_test(tests, networks, 0, NETS);
    tcase_add_test(tests, strategies_of_networks);
    return run_tests();
}
