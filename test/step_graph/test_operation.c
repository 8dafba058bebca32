/* Each operation computed again in binary64 from what the binary32 kernels had: their results lie
 * within the bound, a result a few bounds away does not, and a model that differs in one constant
 * or one rule is seen through it. */
#include "graph_evaluation.h"
#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/rotary.h"
#include "serial/serial_parts.h"
#include "run_tests.h"

/* Judges the kernels' tensor `name`, whose rows of the last dimension are ld apart (0: contiguous),
 * and keeps it as the operand of what follows. */
static void judge(whole_step *s, const char *name, const ls_real *got, size_t ld)
{
    const int place = ls_graph_find(s->graph, name);
    ck_assert_msg(place >= 0, "no node %s", name);
    const ls_graph_node *node = &s->graph->nodes[place];
    const size_t n = ls_graph_elements(s->graph, place);
    const size_t width = ld > 0 ? node->dims[node->n_dims - 1] : n;
    double *truth = malloc(n * sizeof *truth), *bound = malloc(n * sizeof *bound);
    double *values = malloc(n * sizeof *values), largest = 0, widest = 0;
    ck_assert(truth && bound && values);
    ck_assert_msg(ls_operation_evaluate(&s->operands, place, ls_precision_of(LS_F32, 1), truth,
                                        bound) == LS_OK,
                  "%s", ls_error_text());
    for (size_t i = 0; i < n; i++) {
        values[i] = (double)got[i / width * ld + i % width];
        largest = fmax(largest, fabs(truth[i]));
        widest = fmax(widest, bound[i]);
    }
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!!(fabs(values[i] - truth[i]) <= bound[i]),
                      "%s: %s[%zu] is %.9g, not %.9g within %.3g", s->graph->table->config.name,
                      name, i, values[i], truth[i], bound[i]);
    ck_assert_msg(!!(widest <= 2e-4 * (largest + 0.01)), "%s: bound of %s is %g where it is %g",
                  s->graph->table->config.name, name, widest, largest);

    /* A fault of a few bounds in one place, and no number. */
    const size_t at = n / 2;
    values[at] += 4 * bound[at] + 1e-30;
    ck_assert_uint_eq(count_outside(values, truth, bound, n), 1);
    values[at] = (double)NAN;
    ck_assert_uint_eq(count_outside(values, truth, bound, n), 1);
    values[at] = (double)got[at / width * ld + at % width];

    free(truth), free(bound);
    free(s->values[place]);
    s->values[place] = values;
}

static void judge_layer(whole_step *s, const char *before, size_t layer, const char *name,
                        const ls_real *got)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%slayers.%zu.%s", before, layer, name);
    judge(s, whole, got, 0);
}

static ls_real *room(size_t n)
{
    ls_real *x = malloc(n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)NAN;
    return x;
}

/* A node of binary64, as the kernels take it. */
static ls_real *operand(const whole_step *s, const char *name)
{
    const double *values = whole_step_values(s, name);
    const size_t n = ls_graph_elements(s->graph, ls_graph_find(s->graph, name));
    ls_real *x = room(n);
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)values[i];
    return x;
}

static ls_real *layer_operand(const whole_step *s, const char *before, size_t layer,
                              const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%slayers.%zu.%s", before, layer, name);
    return operand(s, whole);
}

/* ---- forward ---- */

static void judge_layer_forward(whole_step *s, const ls_serial *serial, size_t l)
{
    const ls_serial_layer *act = &serial->layers[l];
    const bool pre = serial->config->norm_place == LS_NORM_PRE;
    const ls_real *y = l + 1 < serial->config->layers ? serial->layers[l + 1].x : serial->x;
    ls_real *end = room(ls_axis_extent(serial->tokens) * serial->config->d_model);
    if (pre) judge_layer(s, "", l, "norm1", act->n1);
    judge_layer(s, "", l, "query", act->q);
    judge_layer(s, "", l, "key", act->k);
    judge_layer(s, "", l, "value", act->v);
    judge_layer(s, "", l, "probabilities", act->P);
    judge_layer(s, "", l, "heads", act->o);
    ck_assert_int_eq(ls_serial_attention_forward(serial, l, end), LS_OK); /* once more */
    judge_layer(s, "", l, "attention", end);
    judge_layer(s, "", l, "after_attention", act->x1);
    judge_layer(s, "", l, pre ? "norm2" : "norm1", act->n2);
    if (act->gate) judge_layer(s, "", l, "gate", act->gate);
    judge_layer(s, "", l, "up", act->h);
    judge_layer(s, "", l, "activation", act->u);
    ck_assert_int_eq(ls_serial_mlp_forward(serial, l, end), LS_OK);
    judge_layer(s, "", l, "mlp", end);
    if (!pre) judge_layer(s, "", l, "after_mlp", act->x2);
    judge_layer(s, "", l, "layer", y);
    free(end);
}

static void judge_forward(whole_step *s, ls_serial *serial)
{
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;
    ls_real *e = room(n);
    if (serial->config->embedding_norm) judge(s, "embedding_sum", serial->e, 0);
    serial->batch.training = false;
    ls_serial_embedding_forward(serial, e);
    serial->batch.training = true;
    judge(s, "embedding", e, 0);
    judge(s, "embedded", serial->layers[0].x, 0);
    for (size_t l = 0; l < serial->config->layers; l++) judge_layer_forward(s, serial, l);
    if (serial->config->norm_place == LS_NORM_PRE) judge(s, "final_norm", serial->xf, 0);
    if (serial->config->objective == LS_MASKED_TOKEN) {
        judge(s, "masked_dense", serial->masked.t, 0);
        judge(s, "masked_activation", serial->masked.u, 0);
        judge(s, "features", serial->masked.features, 0);
    }
    judge(s, "logits", serial->z, ls_axis_extent(serial->vocab));
    if (serial->config->sentence_order) {
        judge(s, "pooled", serial->order.p, 0);
        judge(s, "order_logits", serial->order.z, 0);
    }
    free(e);
}

/* The losses: those of the tokens in binary64 rounded once, their mean by the model. */
static void judge_loss(whole_step *s, ls_real loss, bool order)
{
    whole_step_node(s, ls_graph_find(s->graph, "token_loss"), true);
    if (order) whole_step_node(s, ls_graph_find(s->graph, "order_loss"), true);
    whole_step_node(s, ls_graph_find(s->graph, "loss"), false);
    const double truth = *whole_step_values(s, "loss");
    ck_assert(!!(fabs((double)loss - truth) <= 1e-5 * truth));
}

/* ---- backward: each kernel with operands that the graph gave, rounded to binary32 ---- */

static void judge_gradient(whole_step *s, const fixture *f, ls_role role, size_t layer)
{
    char name[128];
    const size_t p = ls_param_find(f->table, role, layer);
    if (p == (size_t)-1) return;
    snprintf(name, sizeof name, "grad.%s", f->table->params[p].name);
    ls_real *whole = room(ls_param_elements(&f->table->params[p]));
    ls_param_shard_out(&f->table->params[p], f->store->slots[p].shard, sizeof *whole, whole,
                       f->store->slots[p].grad[0]);
    judge(s, name, whole, 0);
    free(whole);
}

static void judge_mlp_backward(whole_step *s, const fixture *f, size_t l)
{
    const ls_serial *serial = f->serial;
    const ls_serial_layer *act = &serial->layers[l];
    const size_t n = ls_axis_extent(serial->tokens), F = serial->config->d_ff;
    const size_t D = serial->config->d_model;
    const ls_serial_linear down = ls_serial_linear_of(serial, LS_MLP_DOWN_WEIGHT, LS_MLP_DOWN_BIAS,
                                                      l, serial->ff, serial->model);
    ls_real *dm = layer_operand(s, "d.", l, "mlp"), *du = room(n * F), *dh = room(n * F);
    ls_real *dn = room(n * D), *dgate = room(n * F);
    ck_assert_int_eq(ls_serial_linear_backward_input(serial, down, du, dm), LS_OK);
    judge_layer(s, "d.", l, "activation", du);
    if (serial->config->activation == LS_SWIGLU) {
        ls_swiglu_backward(dgate, dh, du, act->gate, act->h, n * F);
        judge_layer(s, "d.", l, "gate", dgate);
    } else if (serial->config->activation == LS_GELU_TANH) {
        ls_gelu_tanh_backward(dh, du, act->h, n * F);
    } else {
        ls_gelu_erf_backward(dh, du, act->h, n * F);
    }
    judge_layer(s, "d.", l, "up", dh);
    ck_assert_int_eq(ls_serial_mlp_backward(serial, l, dn, dm), LS_OK); /* the same numbers again */
    if (serial->config->norm_place == LS_NORM_PRE) judge_layer(s, "d.", l, "norm2", dn);
    judge_gradient(s, f, LS_MLP_DOWN_WEIGHT, l);
    judge_gradient(s, f, LS_MLP_DOWN_BIAS, l);
    judge_gradient(s, f, LS_MLP_UP_WEIGHT, l);
    judge_gradient(s, f, LS_MLP_UP_BIAS, l);
    judge_gradient(s, f, LS_MLP_GATE_WEIGHT, l);
    free(dm), free(du), free(dh), free(dn), free(dgate);
}

/* One key head for each query head: the kernels' dq, dk, dv stand side by side. */
static void judge_cores_backward(whole_step *s, const fixture *f, size_t l, const ls_real *d_o)
{
    const ls_serial *serial = f->serial;
    const ls_serial_layer *act = &serial->layers[l];
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    const size_t S = serial->batch.S, H = serial->heads.granules, dh = serial->heads.granule;
    ls_real *dq = room(n * D), *dk = room(n * D), *dv = room(n * D), *scratch = room(2 * S * S);
    for (size_t i = 0; i < serial->batch.B * H; i++) {
        const size_t b = i / H, at = b * S * D + i % H * dh;
        const ls_attention_shape shape = {
            .S = S,
            .head_width = dh,
            .ld_q = D,
            .ld_kv = D,
            .scale = 1 / sqrt((double)dh),
            .causal = serial->config->causal,
            .keys = serial->seen ? serial->seen + b * S : NULL,
            .dropout = ls_serial_dropout_probability(serial),
            .stream = ls_serial_dropout_stream(serial, LS_RANDOM_DROPOUT_ATTENTION, l),
            .first_index = i * S * S,
        };
        ck_assert_int_eq(ls_attention_backward(serial->engine, &shape, dq + at, dk + at, dv + at,
                                               d_o + at, act->P + i * S * S, act->q + at,
                                               act->k + at, act->v + at, scratch),
                         LS_OK);
    }
    judge_layer(s, "d.", l, "query", dq);
    judge_layer(s, "d.", l, "key", dk);
    judge_layer(s, "d.", l, "value", dv);
    free(dq), free(dk), free(dv), free(scratch);
}

static void judge_attention_backward(whole_step *s, const fixture *f, size_t l)
{
    const ls_serial *serial = f->serial;
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    const ls_serial_linear out = ls_serial_linear_of(serial, LS_ATTN_OUT_WEIGHT, LS_ATTN_OUT_BIAS,
                                                     l, serial->heads, serial->model);
    ls_real *da = layer_operand(s, "d.", l, "attention"), *d_o = room(n * D), *dn = room(n * D);
    ck_assert_int_eq(ls_serial_linear_backward_input(serial, out, d_o, da), LS_OK);
    judge_layer(s, "d.", l, "heads", d_o);
    if (serial->config->heads == serial->config->kv_heads) judge_cores_backward(s, f, l, d_o);
    ck_assert_int_eq(ls_serial_attention_backward(serial, l, dn, da), LS_OK);
    judge_gradient(s, f, LS_ATTN_OUT_WEIGHT, l);
    judge_gradient(s, f, LS_ATTN_OUT_BIAS, l);
    /* With rotary the store's gradients are made of dq, dk turned back, as the graph has it. */
    if (serial->config->heads == serial->config->kv_heads) {
        judge_gradient(s, f, LS_QUERY_WEIGHT, l);
        judge_gradient(s, f, LS_KEY_WEIGHT, l);
        judge_gradient(s, f, LS_VALUE_WEIGHT, l);
        judge_gradient(s, f, LS_QUERY_BIAS, l);
        judge_gradient(s, f, LS_VALUE_BIAS, l);
        if (serial->config->norm_place == LS_NORM_PRE) judge_layer(s, "d.", l, "norm1", dn);
    }
    free(da), free(d_o), free(dn);
}

/* The final norm has one reader: what it sends back is the gradient of the last layer's output. */
static void judge_final_norm_backward(whole_step *s, const fixture *f)
{
    const ls_serial *serial = f->serial;
    ls_real *dy = operand(s, "d.final_norm"),
            *dx = room(ls_axis_extent(serial->tokens) * serial->config->d_model);
    ls_serial_norm_backward(serial, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0, dx, dy, serial->x,
                            serial->mean, serial->rstd);
    judge_layer(s, "d.", serial->config->layers - 1, "layer", dx);
    judge_gradient(s, f, LS_FINAL_NORM_SCALE, 0);
    judge_gradient(s, f, LS_FINAL_NORM_SHIFT, 0);
    free(dy), free(dx);
}

static void judge_backward(whole_step *s, const fixture *f)
{
    ls_serial *serial = f->serial;
    ls_serial_loss_backward(serial);
    judge(s, "d.logits", serial->z, ls_axis_extent(serial->vocab));
    for (int i = 0; i < (int)s->graph->count; i++)
        if (s->graph->nodes[i].phase != LS_GRAPH_FORWARD && !s->values[i])
            whole_step_node(s, i, true);
    if (serial->config->norm_place == LS_NORM_PRE) judge_final_norm_backward(s, f);
    for (size_t l = serial->config->layers; l-- > 0;) {
        judge_mlp_backward(s, f, l);
        judge_attention_backward(s, f, l);
    }
    if (!serial->config->embedding_norm) {
        ls_real *dx = operand(s, "d.embedded");
        ck_assert_int_eq(ls_serial_embedding_backward(serial, dx), LS_OK); /* dx: before dropout */
        judge(s, "d.embedding", dx, 0);
        judge_gradient(s, f, LS_POSITION_EMBEDDING, 0);
        if (!serial->config->tied) judge_gradient(s, f, LS_TOKEN_EMBEDDING, 0);
        judge_gradient(s, f, LS_TYPE_EMBEDDING, 0);
        free(dx);
    }
}

/* Every parameter updated by the kernel from the clipped gradients. */
static void judge_update(whole_step *s, const fixture *f, const ls_update *update)
{
    for (size_t p = 0; p < f->table->count; p++) {
        const ls_param *param = &f->table->params[p];
        const size_t n = ls_param_elements(param);
        char name[128];
        snprintf(name, sizeof name, "clipped.%s", param->name);
        ls_real *g = operand(s, name), *w = room(n), *m = room(n), *v = room(n);
        for (size_t i = 0; i < n; i++) {
            w[i] = (ls_real)s->params[p][i];
            m[i] = v[i] = 0;
        }
        ls_update_apply(update, param->decay, w, m, v, g, n);
        snprintf(name, sizeof name, "param.%s", param->name);
        judge(s, name, w, 0);
        free(g), free(w), free(m), free(v);
    }
}

START_TEST(kernels_lie_within_the_bounds)
{
    const ls_config config = tiny_config((size_t)_i / 2);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    const ls_update update = {.optimizer = _i % 4 == 1 ? LS_SGD : LS_ADAMW,
                              .lr = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-3,
                              .weight_decay = 0.1,
                              .t = 1};
    fixture f = fixture_create(&config, _i % 2 ? LS_ENGINE_PLAIN : LS_ENGINE_PORTABLE);
    whole_step s = whole_step_create(f.table, &batch, &update, 0.25);
    const ls_real loss = fixture_forward(&f, &batch);
    judge_forward(&s, f.serial);
    judge_loss(&s, loss, config.sentence_order);
    judge_backward(&s, &f);
    judge_update(&s, &f, &update);
    whole_step_destroy(&s);
    fixture_destroy(&f);
}
END_TEST

START_TEST(a_missing_operand_is_named)
{
    const ls_config config = tiny_config(0);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    ls_param_table *table = NULL;
    double out[TINY_TOKENS * 12];
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, NULL, 0);
    const int place = ls_graph_find(s.graph, "layers.1.norm1");
    ck_assert_int_eq(
        ls_operation_evaluate(&s.operands, place, ls_precision_of(LS_F32, 1), out, NULL),
        LS_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "layers.0.layer"));
    ls_error_clear();
    s.params[ls_param_find(table, LS_TOKEN_EMBEDDING, 0)] = NULL;
    ck_assert_int_eq(ls_operation_evaluate(&s.operands, 0, ls_precision_of(LS_F32, 1), out, NULL),
                     LS_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "token_embedding"));
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

/* exp(800) is beyond binary64: of what comes of it nothing can be said, which is no NaN. */
START_TEST(a_bound_is_never_nan)
{
    const ls_config config = tiny_llama("llama");
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, NULL, 0);
    static const char *const names[] = {"layers.0.gate", "layers.0.up", "d.layers.0.activation"};
    for (int k = 0; k < 3; k++) {
        const int node = ls_graph_find(s.graph, names[k]);
        const size_t n = ls_graph_elements(s.graph, node);
        s.values[node] = malloc(n * sizeof **s.values);
        for (size_t i = 0; i < n; i++) s.values[node][i] = k == 0 ? -800 : 1;
    }
    const int place = ls_graph_find(s.graph, "d.layers.0.gate");
    const size_t n = ls_graph_elements(s.graph, place);
    double *values = malloc(n * sizeof *values), *bound = malloc(n * sizeof *bound);
    ck_assert_int_eq(
        ls_operation_evaluate(&s.operands, place, ls_precision_of(LS_F32, 1), values, bound),
        LS_OK);
    for (size_t i = 0; i < n; i++) ck_assert(values[i] == 0 && isinf(bound[i]));
    free(values), free(bound);
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

/* Roundings of a sum of 5 million squares: less than a replicated or forgotten parameter changes
 * the norm by, and more than none. */
START_TEST(a_large_norm_is_known_well)
{
    ls_config config = tiny_config(0);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    ls_param_table *table = NULL;
    double norm, bound, squares = 0;
    config.vocab = 5000000 / config.d_model;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, NULL, 0);
    for (size_t p = 0; p < table->count; p++) {
        const int gradient = ls_graph_param_gradient(s.graph, (int)p);
        const size_t n = ls_graph_elements(s.graph, gradient);
        s.values[gradient] = malloc(n * sizeof **s.values);
        ck_assert_ptr_nonnull(s.values[gradient]);
        for (size_t i = 0; i < n; i++) s.values[gradient][i] = 0x1p-10;
        squares += (double)n * 0x1p-20;
    }
    ck_assert_double_gt(squares, 5e6 * 0x1p-20 * 0.99);
    ck_assert_int_eq(ls_operation_evaluate(&s.operands, ls_graph_find(s.graph, "norm"),
                                           ls_precision_of(LS_F32, 1), &norm, &bound),
                     LS_OK);
    ck_assert_double_le(fabs(norm - sqrt(squares)), 1e-12 * norm);
    ck_assert_double_lt(bound, 0.005 * norm);
    ck_assert_double_gt(bound, 0x1p-24 * norm);
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("operation", 60);
    tcase_add_loop_test(tests, kernels_lie_within_the_bounds, 0, 2 * N_TINY_SERIAL);
    tcase_add_test(tests, a_missing_operand_is_named);
    tcase_add_test(tests, a_bound_is_never_nan);
    tcase_add_test(tests, a_large_norm_is_known_well);
    return run_tests();
}
