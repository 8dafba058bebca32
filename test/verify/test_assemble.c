/* What an observer sees of the ranks of a layout, put together, is what one rank shows: every point
 * that the model has, forward and backward, to the bit. ORDERED throughout. */
#include <pthread.h>
#include <stdlib.h>

#include "lockstep/numerics/tree.h"
#include "verify/assemble.h"
#include "verify/observed_models.h"
#include "run_tests.h"

enum { STEPS = 2 };

/* Whether a point is one of the model's, of its layers (or its ends), forward or backward. */
static bool has_point(const ls_config *c, ls_point point, bool in_layer, bool gradient)
{
    bool post = c->norm_place == LS_NORM_POST, masked = c->objective == LS_MASKED_TOKEN;
    if (in_layer != (point >= LS_POINT_NORM1 && point <= LS_POINT_LAYER)) return false;
    switch (point) {
    case LS_POINT_TOKEN_LOSS:
        return !gradient;
    case LS_POINT_ORDER_LOSS:
        return c->sentence_order && !gradient;
    case LS_POINT_EMBEDDING_SUM:
        return c->embedding_norm;
    case LS_POINT_POOLED:
    case LS_POINT_ORDER_LOGITS:
        return c->sentence_order;
    case LS_POINT_NORM2:
    case LS_POINT_FINAL_NORM:
        return !post;
    case LS_POINT_AFTER_MLP:
        return post;
    case LS_POINT_GATE:
        return c->activation == LS_SWIGLU;
    case LS_POINT_MASKED_DENSE:
    case LS_POINT_MASKED_ACTIVATION:
    case LS_POINT_FEATURES:
        return masked;
    default:
        return point < LS_POINT_LARGEST_LOGIT; /* the others cross ranks alone */
    }
}

/* ---- runs ---- */

static ls_assembly *assembly_of_dtype(const ls_config *config, const ls_layout *layout,
                                      ls_dtype dtype)
{
    ls_text text = fixture_text();
    ls_run run = fixture_run(config, &text, STEPS);
    ls_assembly *assembly;
    ls_train_result result;
    char where[256];
    ls_layout_describe(layout, where, sizeof where);
    ck_assert_int_eq(ls_assembly_create(&assembly), LS_OK);
    run.serial = false;
    run.layout = *layout;
    run.dtype = dtype;
    run.observer = ls_assembly_observer(assembly);
    ck_assert_msg(ls_train(&run, NULL, &result) == LS_OK, "%s, %s: %s", config->name, where,
                  ls_error_text());
    ls_train_result_free(&result);
    ck_assert_msg(ls_assembly_check(assembly) == LS_OK, "%s, %s: %s", config->name, where,
                  ls_error_text());
    return assembly;
}

static ls_assembly *assembly_of(const ls_config *config, const ls_layout *layout)
{
    return assembly_of_dtype(config, layout, LS_F32);
}

static void expect_same(const ls_assembly *one, const ls_assembly *many, const char *where)
{
    ck_assert_msg(ls_assembly_count(one) == ls_assembly_count(many), "%s: %zu tensors, not %zu",
                  where, ls_assembly_count(many), ls_assembly_count(one));
    for (size_t i = 0; i < ls_assembly_count(one); i++) {
        const ls_assembled *a = ls_assembly_get(one, i);
        const ls_assembled *b =
            a->kind == LS_VIEW_POINT
                ? ls_assembly_find(many, a->point, a->gradient, a->layer, a->step)
                : ls_assembly_find_other(many, a->kind, a->param, a->use, a->step);
        char name[LS_ASSEMBLED_NAME];
        ls_assembled_name(a, name);
        ck_assert_msg(b != NULL, "%s: %s is missing", where, name);
        ck_assert_msg(a->n_dims == b->n_dims && memcmp(a->dims, b->dims, sizeof a->dims) == 0,
                      "%s: %s has another shape", where, name);
        ck_assert_msg(memcmp(a->values, b->values, a->count * ls_dtype_bytes(a->dtype)) == 0,
                      "%s: %s differs", where, name);
    }
}

/* ---- tests ---- */

/* One rank shows each of the model's points, and no other. */
START_TEST(every_point)
{
    ls_config config = model_config((model)_i);
    ls_layout serial = ls_layout_serial();
    ls_assembly *assembly = assembly_of(&config, &serial);
    size_t expected = 0;
    for (uint32_t step = 0; step < STEPS; step++)
        for (int layer = -1; layer < (int)config.layers; layer++)
            for (int point = 0; point < LS_POINTS; point++)
                for (int gradient = 0; gradient < 2; gradient++) {
                    if (!has_point(&config, (ls_point)point, layer >= 0, gradient)) continue;
                    const ls_assembled *t =
                        ls_assembly_find(assembly, (ls_point)point, gradient, layer, step);
                    ck_assert_msg(t != NULL, "%s: step %u, layer %d, %s%s not seen", config.name,
                                  (unsigned)step, layer, gradient ? "gradient of " : "",
                                  ls_point_name((ls_point)point));
                    ck_assert_uint_eq(t->dims[0], config.batch);
                    expected++;
                }
    for (size_t i = 0; i < ls_assembly_count(assembly); i++)
        expected += ls_assembly_get(assembly, i)->kind != LS_VIEW_POINT; /* test_param_views */
    ck_assert_uint_eq(ls_assembly_count(assembly), expected);
    const ls_assembled *logits = ls_assembly_find(assembly, LS_POINT_LOGITS, false, -1, 0);
    ck_assert_int_eq(logits->n_dims, 3);
    ck_assert_uint_eq(logits->dims[2], config.vocab);
    ls_assembly_destroy(&assembly);
}
END_TEST

static const grid_of grids[] = {
    {1, 1, 2, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 2, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_SELECTIVE},
    {1, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_SELECTIVE},
    {1, 1, 3, true, 1, 3, LS_1F1B, LS_RECOMPUTE_STAGE},
    {1, 1, 6, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_LAYER},
    {1, 1, 6, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 2, 1, false, 1, 3, LS_GPIPE, LS_RECOMPUTE_LAYER},
    {1, 2, 2, true, 2, 2, LS_INTERLEAVED, LS_RECOMPUTE_NONE},
    {1, 2, 1, false, 2, 4, LS_INTERLEAVED, LS_RECOMPUTE_STAGE},
    {2, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {2, 2, 2, false, 1, 2, LS_1F1B, LS_RECOMPUTE_LAYER},
    {5, 1, 2, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_STAGE},
};

START_TEST(every_layout)
{
    ls_config config = model_config((model)_i);
    ls_layout serial = ls_layout_serial();
    ls_assembly *one = assembly_of(&config, &serial);
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        ls_layout layout = fixture_layout(&grids[g]);
        char where[256];
        if (_i == ROW_FIRST) layout.sp = false; /* it has none */
        ls_assembly *many = assembly_of(&config, &layout);
        ls_layout_describe(&layout, where, sizeof where);
        expect_same(one, many, where);
        ls_assembly_destroy(&many);
    }
    ls_assembly_destroy(&one);
}
END_TEST

START_TEST(binary64)
{
    ls_config config = model_config((model)_i);
    ls_layout serial = ls_layout_serial(), layout = fixture_layout(&grids[3]);
    if (_i == ROW_FIRST) layout.sp = false;
    ls_assembly *one = assembly_of_dtype(&config, &serial, LS_F64);
    ls_assembly *many = assembly_of_dtype(&config, &layout, LS_F64);
    ck_assert_int_eq(ls_assembly_get(one, 0)->dtype, LS_F64);
    expect_same(one, many, "binary64");
    ls_assembly_destroy(&one);
    ls_assembly_destroy(&many);
}
END_TEST

/* A run without an observer and one with it end in the same bits. */
START_TEST(looking_touches_nothing)
{
    ls_config config = model_config((model)_i);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, STEPS);
    ls_assembly *assembly;
    ls_train_result seen, unseen;
    ck_assert_int_eq(ls_assembly_create(&assembly), LS_OK);
    run.serial = false;
    run.layout.tp = 2;
    ck_assert_int_eq(ls_train(&run, NULL, &unseen), LS_OK);
    run.observer = ls_assembly_observer(assembly);
    ck_assert_int_eq(ls_train(&run, NULL, &seen), LS_OK);
    ck_assert_str_eq(seen.digest, unseen.digest);
    for (int op = 0; op < LS_OP_COUNT; op++)
        ck_assert_uint_eq(seen.rank[1].comm[op].bytes, unseen.rank[1].comm[op].bytes);
    ls_train_result_free(&seen);
    ls_train_result_free(&unseen);
    ls_assembly_destroy(&assembly);
}
END_TEST

/* ---- what goes into reductions ---- */

/* The nodes of one sum of one layer, whole batch in one micro-batch. */
typedef struct partials {
    ls_point point;
    bool gradient;
    int layer;
    size_t count, leaves;
    float *values[64];
    ls_node nodes[64];
    unsigned seen[2][LS_POINTS]; /* how often, by point */
    pthread_mutex_t lock;
} partials;

static ls_status keep_partials(void *context, ls_rank *rank, const ls_view *view)
{
    partials *p = context;
    size_t n = 1;
    (void)rank;
    if (view->comm != LS_COMM_PARTIAL || view->kind != LS_VIEW_POINT || view->step > 0)
        return LS_OK;
    pthread_mutex_lock(&p->lock);
    p->seen[view->gradient][view->point]++;
    if (view->point != p->point || view->gradient != p->gradient || view->layer != p->layer)
        goto exit;
    for (int d = 0; d < view->n_dims; d++) n *= view->dims[d].count;
    p->leaves = view->leaves;
    size_t at = p->count++;
    for (; at > 0 && p->nodes[at - 1].lo > view->lo; at--) { /* ascending */
        p->nodes[at] = p->nodes[at - 1];
        p->values[at] = p->values[at - 1];
    }
    p->nodes[at] = (ls_node){view->lo, view->hi};
    p->values[at] = malloc(n * sizeof(float));
    memcpy(p->values[at], view->values, n * sizeof(float));
exit:
    pthread_mutex_unlock(&p->lock);
    return LS_OK;
}

/* Partial sums, finished in the order of the tree, are what is shown after the reduction: Llama's
 * projections have no bias. "Partial sums not reduced" begins here. */
START_TEST(partials_make_the_sum)
{
    static const struct {
        ls_point point;
        bool gradient;
        int layer;
    } sums[] = {{LS_POINT_EMBEDDING, false, -1}, {LS_POINT_ATTENTION, false, 2},
                {LS_POINT_MLP, false, 2},        {LS_POINT_NORM1, true, 2},
                {LS_POINT_NORM2, true, 2},       {LS_POINT_FINAL_NORM, true, -1}};
    ls_config config = model_config(LLAMA);
    ls_layout serial = ls_layout_serial();
    ls_text text = fixture_text();
    ls_assembly *assembly = assembly_of(&config, &serial);
    for (size_t i = 0; i < 3 * sizeof sums / sizeof sums[0]; i++) {
        size_t k = i / 3;
        partials *p = calloc(1, sizeof *p);
        ls_observer observer = {p, keep_partials};
        ls_run run = fixture_run(&config, &text, 1);
        ls_train_result result;
        const float *parts[64];
        pthread_mutex_init(&p->lock, NULL);
        p->point = sums[k].point;
        p->gradient = sums[k].gradient;
        p->layer = sums[k].layer;
        run.layout.tp = (int)(i % 3) + 1;
        run.layout.sp = run.layout.tp == 3;
        run.serial = false;
        run.observer = &observer;
        ck_assert_int_eq(ls_train(&run, NULL, &result), LS_OK);
        const ls_assembled *whole = ls_assembly_find(assembly, p->point, p->gradient, p->layer, 0);
        float *sum = malloc(whole->count * sizeof *sum);
        for (size_t j = 0; j < p->count; j++) parts[j] = p->values[j];
        ck_assert_uint_ge(p->count, (size_t)run.layout.tp);
        ls_tree_finish_f32(sum, parts, p->nodes, p->count, p->leaves, whole->count);
        ck_assert_msg(memcmp(sum, whole->values, whole->count * sizeof *sum) == 0, "%s",
                      ls_point_name(p->point));
        if (run.layout.tp == 1) {
            ck_assert_uint_eq(p->seen[0][LS_POINT_ATTENTION], config.layers);
            ck_assert_uint_eq(p->seen[0][LS_POINT_MLP], config.layers);
            ck_assert_uint_eq(p->seen[1][LS_POINT_NORM1], config.layers);
            ck_assert_uint_eq(p->seen[1][LS_POINT_NORM2], config.layers);
            ck_assert_uint_eq(p->seen[1][LS_POINT_FINAL_NORM], 1);
        }
        for (size_t j = 0; j < p->count; j++) free(p->values[j]);
        pthread_mutex_destroy(&p->lock);
        free(p);
        free(sum);
        ls_train_result_free(&result);
    }
    ls_assembly_destroy(&assembly);
}
END_TEST

/* ---- what must not pass ---- */

/* Hands views by hand to an assembly, as ranks of a world of two. */
typedef struct hands {
    ls_assembly *assembly;
    const ls_view *view[2][2]; /* by rank, in order */
} hands;

static ls_status hand_in(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const hands *h = argument;
    const ls_observer *observer = ls_assembly_observer(h->assembly);
    for (int i = 0; i < 2; i++)
        if (h->view[ls_rank_index(rank)][i])
            LS_TRY(observer->look(observer->context, rank, h->view[ls_rank_index(rank)][i]));
exit:
    return status;
}

START_TEST(what_must_not_pass)
{
    static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8}, other[] = {1, 2, 3, 9, 5, 6, 7, 8};
    ls_view half = {.point = LS_POINT_UP,
                    .layer = 3,
                    .n_dims = 3,
                    .dims = {{2, 0, 2}, {1, 0, 1}, {4, 0, 2}},
                    .dtype = LS_F32,
                    .values = values,
                    .stride = 2};
    ls_view right = half, overlap = half, wrong = half, beyond = half, otherwise = half;
    right.dims[2].first = 2;
    overlap.dims[2] = (ls_view_run){4, 1, 3}; /* kv heads are held so */
    overlap.values = (const float[]){2, 5, 6, 4, 7, 8};
    overlap.stride = 3;
    wrong.values = other;
    beyond.dims[2].first = 3;
    otherwise.dims[1] = (ls_view_run){2, 0, 1};
    const struct {
        hands hands;
        ls_status run, check;
        const char *text;
    } cases[] = {
        {{NULL, {{&half, NULL}, {&right, NULL}}}, LS_OK, LS_OK, NULL},
        {{NULL, {{&half, NULL}, {&overlap, NULL}}}, LS_OK, LS_OK, NULL},
        {{NULL, {{&half, NULL}, {&half, &right}}}, LS_OK, LS_OK, NULL},
        {{NULL, {{&half, NULL}, {NULL, NULL}}}, LS_OK, LS_ERR_INTERNAL, "element 2 of 8"},
        {{NULL, {{&half, &half}, {&right, NULL}}}, LS_ERR_INTERNAL, LS_OK, "a second time"},
        {{NULL, {{&half, NULL}, {&wrong, NULL}}}, LS_DIFFERENT, LS_OK, "layer 3, up, element 5"},
        {{NULL, {{&half, &beyond}, {NULL, NULL}}}, LS_ERR_INTERNAL, LS_OK, "dimension 2"},
        {{NULL, {{&half, &otherwise}, {NULL, NULL}}}, LS_ERR_INTERNAL, LS_OK, "dimension 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hands h = cases[i].hands;
        ls_world_options options = {0};
        ls_error_clear();
        ck_assert_int_eq(ls_assembly_create(&h.assembly), LS_OK);
        ls_status status = ls_world_run(2, &options, hand_in, &h);
        ck_assert_msg(status == cases[i].run, "case %zu: %d, %s", i, (int)status, ls_error_text());
        if (status == LS_OK)
            ck_assert_msg(ls_assembly_check(h.assembly) == cases[i].check, "case %zu", i);
        if (cases[i].text)
            ck_assert_msg(strstr(ls_error_text(), cases[i].text) != NULL, "case %zu: %s", i,
                          ls_error_text());
        if (i == 1)
            ck_assert(memcmp(ls_assembly_get(h.assembly, 0)->values,
                             (const float[]){1, 2, 5, 6, 3, 4, 7, 8}, sizeof values) == 0);
        ls_assembly_destroy(&h.assembly);
    }
}
END_TEST

START_TEST(names)
{
    for (int a = 0; a < LS_POINTS; a++) {
        ck_assert_ptr_nonnull(ls_point_name((ls_point)a));
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(ls_point_name((ls_point)a), ls_point_name((ls_point)b));
    }
    ck_assert_str_eq(ls_point_name(LS_POINT_AFTER_ATTENTION), "after_attention");
}
END_TEST

int main(void)
{
    TCase *tests = test_case("assemble", 120);
    tcase_add_loop_test(tests, every_point, 0, MODELS);
    tcase_add_loop_test(tests, every_layout, 0, MODELS);
    tcase_add_loop_test(tests, binary64, 0, MODELS);
    tcase_add_loop_test(tests, looking_touches_nothing, 0, MODELS);
    tcase_add_test(tests, partials_make_the_sum);
    tcase_add_test(tests, what_must_not_pass);
    tcase_add_test(tests, names);
    return run_tests();
}
