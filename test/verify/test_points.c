/* What an observer says that it shows is what it shows: forward the serial model's own arrays,
 * backward that which a parameter's gradient is a sum of. A parallel pass against a serial one,
 * ORDERED. */
#include <stdlib.h>

#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/tree.h"
#include "verify/assemble.h"
#include "verify/observed_models.h"
#include "serial/serial_parts.h"
#include "train/checkpoint.h"
#include "train/training.h"
#include "run_tests.h"

/* The first step of a model, serial and seen by an observer. */
typedef struct pair {
    ls_config config;
    ls_run run;
    ls_text text;
    ls_param_table *table;
    ls_memory *memory;
    ls_store *store;
    ls_serial *serial;
    ls_step_batch batch;
    ls_assembly *seen;
} pair;

/* Both forward; the parallel one backward too. */
static void begin(pair *p, model m)
{
    ls_train_result result;
    uint64_t first;
    float loss;
    memset(p, 0, sizeof *p);
    p->config = model_config(m);
    p->text = fixture_text();
    p->run = fixture_run(&p->config, &p->text, 1);
    expect_ok(ls_assembly_create(&p->seen));
    p->run.serial = false;
    p->run.layout.tp = 2;
    p->run.layout.micro_batches = 2;
    p->run.observer = ls_assembly_observer(p->seen);
    expect_ok(ls_train(&p->run, NULL, &result));
    ls_train_result_free(&result);
    expect_ok(ls_assembly_check(p->seen));

    expect_ok(ls_param_table_create(&p->table, &p->config));
    expect_ok(ls_memory_create(&p->memory));
    expect_ok(ls_store_create(&p->store, p->table, NULL, p->memory));
    expect_ok(ls_serial_create(&p->serial, p->store, p->run.engine, p->memory));
    expect_ok(ls_step_batch_create(&p->batch, &p->run, 0, p->run.batch));
    expect_ok(ls_checkpoint_begin_f32(&p->run, p->store, &first));
    ls_step_batch_fill(&p->batch, &p->run, 0);
    expect_ok(ls_serial_forward_f32(p->serial, &p->batch.batch, &loss));
}

static void end(pair *p)
{
    ls_step_batch_free(&p->batch);
    ls_serial_destroy(&p->serial);
    ls_store_destroy(&p->store);
    ls_memory_destroy(&p->memory);
    ls_param_table_destroy(&p->table);
    ls_assembly_destroy(&p->seen);
}

static const ls_assembled *seen(const pair *p, ls_point point, bool gradient, int layer)
{
    const ls_assembled *t = ls_assembly_find(p->seen, point, gradient, layer, 0);
    ck_assert_msg(t != NULL, "layer %d: %s not seen", layer, ls_point_name(point));
    return t;
}

/* The serial model's array, rows of `stride` (0: as long as the tensor's); NULL: it has none. */
static void expect_forward(const pair *p, ls_point point, int layer, const float *serial,
                           size_t stride)
{
    if (!serial) return;
    const ls_assembled *t = seen(p, point, false, layer);
    size_t width = t->dims[t->n_dims - 1];
    for (size_t r = 0; r < t->count / width; r++)
        ck_assert_msg(memcmp((const float *)t->values + r * width,
                             serial + r * (stride ? stride : width), width * sizeof(float)) == 0,
                      "layer %d: %s, row %zu", layer, ls_point_name(point), r);
}

START_TEST(forward_points)
{
    pair p;
    begin(&p, (model)_i);
    const ls_serial *s = p.serial;
    bool post = p.config.norm_place == LS_NORM_POST;
    bool masked = p.config.objective == LS_MASKED_TOKEN;
    if (p.config.embedding_norm) expect_forward(&p, LS_POINT_EMBEDDING_SUM, -1, s->e, 0);
    expect_forward(&p, LS_POINT_EMBEDDED, -1, s->layers[0].x, 0);
    for (int l = 0; l < (int)p.config.layers; l++) {
        const ls_serial_layer *k = &s->layers[l];
        bool last = l + 1 == (int)p.config.layers;
        expect_forward(&p, LS_POINT_NORM1, l, post ? k->n2 : k->n1, 0);
        expect_forward(&p, LS_POINT_QUERY, l, k->q, 0);
        expect_forward(&p, LS_POINT_KEY, l, k->k, 0);
        expect_forward(&p, LS_POINT_VALUE, l, k->v, 0);
        expect_forward(&p, LS_POINT_PROBABILITIES, l, k->P, 0);
        expect_forward(&p, LS_POINT_HEADS, l, k->o, 0);
        expect_forward(&p, LS_POINT_AFTER_ATTENTION, l, k->x1, 0);
        if (!post) expect_forward(&p, LS_POINT_NORM2, l, k->n2, 0);
        if (post) expect_forward(&p, LS_POINT_AFTER_MLP, l, k->x2, 0);
        if (p.config.activation == LS_SWIGLU) expect_forward(&p, LS_POINT_GATE, l, k->gate, 0);
        expect_forward(&p, LS_POINT_UP, l, k->h, 0);
        expect_forward(&p, LS_POINT_ACTIVATION, l, k->u, 0);
        expect_forward(&p, LS_POINT_LAYER, l, last ? s->x : s->layers[l + 1].x, 0);
    }
    if (!post) expect_forward(&p, LS_POINT_FINAL_NORM, -1, s->xf, 0);
    if (masked) {
        expect_forward(&p, LS_POINT_MASKED_DENSE, -1, s->masked.t, 0);
        expect_forward(&p, LS_POINT_MASKED_ACTIVATION, -1, s->masked.u, 0);
        expect_forward(&p, LS_POINT_FEATURES, -1, s->masked.features, 0);
        expect_forward(&p, LS_POINT_POOLED, -1, s->order.p, 0);
        expect_forward(&p, LS_POINT_ORDER_LOGITS, -1, s->order.z, 0);
    }
    expect_forward(&p, LS_POINT_LOGITS, -1, s->z, ls_axis_extent(s->vocab));
    end(&p);
}
END_TEST

/* Without dropout what follows a reduction is it + the residual: ATTENTION and MLP, which the
 * serial model does not keep, and EMBEDDING before dropout. */
START_TEST(sums_with_the_residual)
{
    pair p;
    begin(&p, LLAMA);
    ls_assembly *dry;
    ls_config config = p.config;
    ls_train_result result;
    config.dropout = 0;
    p.run.config = config;
    expect_ok(ls_assembly_create(&dry));
    p.run.observer = ls_assembly_observer(dry);
    expect_ok(ls_train(&p.run, NULL, &result));
    ls_train_result_free(&result);
    static const ls_point sums[][3] = {
        {LS_POINT_ATTENTION, LS_POINT_EMBEDDED, LS_POINT_AFTER_ATTENTION},
        {LS_POINT_MLP, LS_POINT_AFTER_ATTENTION, LS_POINT_LAYER}};
    for (int i = 0; i < 2; i++) {
        const ls_assembled *a = ls_assembly_find(dry, sums[i][0], false, 0, 0);
        const ls_assembled *b = ls_assembly_find(dry, sums[i][1], false, i == 0 ? -1 : 0, 0);
        const ls_assembled *c = ls_assembly_find(dry, sums[i][2], false, 0, 0);
        for (size_t e = 0; e < a->count; e++)
            ck_assert(((float *)a->values)[e] + ((float *)b->values)[e] == ((float *)c->values)[e]);
    }
    const ls_assembled *before = ls_assembly_find(dry, LS_POINT_EMBEDDING, false, -1, 0);
    const ls_assembled *after = ls_assembly_find(dry, LS_POINT_EMBEDDED, false, -1, 0);
    const ls_assembled *dropped = seen(&p, LS_POINT_EMBEDDING, false, -1);
    ck_assert(memcmp(before->values, after->values, before->count * sizeof(float)) == 0);
    ck_assert(memcmp(before->values, dropped->values, before->count * sizeof(float)) == 0);
    ls_assembly_destroy(&dry);
    end(&p);
}
END_TEST

/* The gradient of a bias or shift is the sum over the tokens of the gradient at its point. */
static void expect_sum(const pair *p, ls_point point, int layer, ls_role role)
{
    const ls_slot *slot = ls_store_slot(p->store, role, layer < 0 ? 0 : (size_t)layer);
    if (!slot) return;
    const ls_assembled *t = seen(p, point, true, layer);
    size_t width = t->dims[t->n_dims - 1];
    ls_axis tokens = ls_axis_of(t->dims[0], t->n_dims == 3 ? t->dims[1] : 1);
    float *sum = malloc(width * sizeof *sum);
    bool any = false;
    ls_tree_sum_rows_f32(sum, t->values, tokens, width, width);
    ck_assert_msg(memcmp(sum, slot->grad[0], width * sizeof *sum) == 0, "layer %d: gradient of %s",
                  layer, ls_point_name(point));
    for (size_t i = 0; i < width; i++) any |= sum[i] != 0;
    ck_assert(any);
    free(sum);
}

START_TEST(gradients_of_biases)
{
    pair p;
    begin(&p, (model)_i);
    expect_ok(ls_serial_backward(p.serial));
    bool post = p.config.norm_place == LS_NORM_POST;
    for (int l = 0; l < (int)p.config.layers; l++) {
        expect_sum(&p, LS_POINT_NORM1, l, LS_NORM1_SHIFT);
        expect_sum(&p, LS_POINT_QUERY, l, LS_QUERY_BIAS);
        expect_sum(&p, LS_POINT_VALUE, l, LS_VALUE_BIAS);
        expect_sum(&p, LS_POINT_ATTENTION, l, LS_ATTN_OUT_BIAS);
        expect_sum(&p, post ? LS_POINT_LAYER : LS_POINT_NORM2, l, LS_NORM2_SHIFT);
        expect_sum(&p, LS_POINT_UP, l, LS_MLP_UP_BIAS);
        expect_sum(&p, LS_POINT_MLP, l, LS_MLP_DOWN_BIAS);
    }
    if (p.config.embedding_norm) expect_sum(&p, LS_POINT_EMBEDDING, -1, LS_EMBEDDING_NORM_SHIFT);
    if (!post) expect_sum(&p, LS_POINT_FINAL_NORM, -1, LS_FINAL_NORM_SHIFT);
    expect_sum(&p, LS_POINT_MASKED_DENSE, -1, LS_MASKED_DENSE_BIAS);
    expect_sum(&p, LS_POINT_FEATURES, -1, LS_MASKED_NORM_SHIFT);
    expect_sum(&p, LS_POINT_ORDER_LOGITS, -1, LS_ORDER_BIAS);
    if (p.config.objective == LS_MASKED_TOKEN) expect_sum(&p, LS_POINT_LOGITS, -1, LS_VOCAB_BIAS);
    end(&p);
}
END_TEST

/* That of a matrix is its input times the gradient at its output: Llama's, which has no biases. */
static void expect_product(const pair *p, ls_point in, ls_point out, int layer, ls_role role,
                           ls_axis held)
{
    const ls_slot *slot = ls_store_slot(p->store, role, (size_t)layer);
    const ls_assembled *x = seen(p, in, false, layer), *dy = seen(p, out, true, layer);
    size_t rows = x->dims[2], cols = dy->dims[2];
    float *dw = malloc(rows * cols * sizeof *dw);
    expect_ok(ls_gemm_f32(p->run.engine, LS_TRANS, LS_NO_TRANS, ls_axis_whole(rows), held,
                          ls_axis_of(x->dims[0], x->dims[1]), x->values, rows, dy->values, cols, dw,
                          cols, false));
    ck_assert_msg(memcmp(dw, slot->grad[0], rows * cols * sizeof *dw) == 0,
                  "layer %d: gradient of %s", layer, ls_point_name(out));
    free(dw);
}

START_TEST(gradients_of_matrices)
{
    pair p;
    begin(&p, LLAMA);
    expect_ok(ls_serial_backward(p.serial));
    for (int l = 0; l < (int)p.config.layers; l++) {
        expect_product(&p, LS_POINT_NORM1, LS_POINT_VALUE, l, LS_VALUE_WEIGHT, p.serial->kv);
        expect_product(&p, LS_POINT_NORM2, LS_POINT_GATE, l, LS_MLP_GATE_WEIGHT, p.serial->ff);
        expect_product(&p, LS_POINT_NORM2, LS_POINT_UP, l, LS_MLP_UP_WEIGHT, p.serial->ff);
        expect_product(&p, LS_POINT_ACTIVATION, LS_POINT_MLP, l, LS_MLP_DOWN_WEIGHT,
                       p.serial->model);
    }
    end(&p);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("points", 60);
    tcase_add_loop_test(tests, forward_points, 0, MODELS);
    tcase_add_test(tests, sums_with_the_residual);
    tcase_add_loop_test(tests, gradients_of_biases, 0, MODELS);
    tcase_add_test(tests, gradients_of_matrices);
    return run_tests();
}
