/* Operations of convolutional networks computed again in binary64 from what the kernels had: every
 * output, statistic and gradient of a serial pass lies within its bound, in both precisions; a
 * value a few bounds away does not; and the whole chain in binary64 gives the loss and the
 * gradients. */
#include "../serial/net_fixture.h"
#include "graph_evaluation.h"
#include "serial/serial_net.h"
#include "run_tests.h"

#ifdef LS_REAL_IS_F64
static const ls_dtype dtype = LS_F64;
#else
static const ls_dtype dtype = LS_F32;
#endif

/* A serial pass, and the operands of every node as it had them. */
typedef struct net_step {
    fixture f;
    net_batch b;
    whole_step s;
    ls_real loss;
    double *before; /* states before the pass, inside s.weights */
} net_step;

static void take(whole_step *s, int place, const ls_real *values, size_t n)
{
    double *own = malloc(n * sizeof *own);
    ck_assert_ptr_nonnull(own);
    ck_assert_uint_eq(n, ls_graph_elements(s->graph, place));
    for (size_t i = 0; i < n; i++) own[i] = (double)values[i];
    free(s->values[place]);
    s->values[place] = own;
}

static int find(const whole_step *s, const char *before, const char *name, const char *behind)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s%s%s", before, name, behind);
    const int place = ls_graph_find(s->graph, whole);
    ck_assert_msg(place >= 0, "no node %s", whole);
    return place;
}

static void take_gradient(net_step *n, size_t l)
{
    const ls_serial_net *net = n->f.serial->net;
    const size_t count = n->b.batch.B * ls_net_shape_elements(net->layer[l].out);
    ls_real *sum = NULL;
    for (size_t r = l + 1; r < net->net->count; r++)
        for (int i = 0; i < 2; i++) {
            const ls_net_layer *reader = net->layer[r].is;
            if (i == 0 ? reader->from != (int)l
                       : reader->kind != LS_NET_ADD || reader->beside != (int)l)
                continue;
            const ls_real *dx = net->layer[r].dx;
            if (!sum) {
                sum = malloc(count * sizeof *sum);
                ck_assert_ptr_nonnull(sum);
                memcpy(sum, dx, count * sizeof *sum);
            } else {
                for (size_t k = 0; k < count; k++) sum[k] += dx[k];
            }
        }
    ck_assert_ptr_nonnull(sum);
    take(&n->s, find(&n->s, "d.", net->net->layers[l].name, ""), sum, count);
    free(sum);
}

static net_step net_step_create(size_t number, size_t B)
{
    ls_config config = net_config(number);
    net_step n = {.f = fixture_create(&config, LS_ENGINE_PORTABLE), .b = net_batch_of(&config, B)};
    if (number >= NETS_TINY) ls_store_init(n.f.store, 3); /* noise makes logits of hundreds */
    for (size_t i = 0; i < n.f.table->count; i++)         /* a variance is not negative */
        for (size_t e = 0; n.f.table->params[i].role == LS_BATCH_NORM_VARIANCE &&
                           e < fixture_slot_elements(&n.f, i);
             e++)
            n.f.store->slots[i].value[e] =
                (ls_real)fabs((double)n.f.store->slots[i].value[e]) + (ls_real)0.1;
    n.s = whole_step_create(n.f.table, &n.b.batch, NULL, 0);
    double *next = n.s.weights;
    for (size_t i = 0; i < n.f.table->count; i++)
        for (size_t e = 0; e < fixture_slot_elements(&n.f, i); e++)
            *next++ = (double)n.f.store->slots[i].value[e];
    ck_assert_msg(ls_serial_forward(n.f.serial, &n.b.batch, &n.loss) == LS_OK, "%s",
                  ls_error_text());
    const ls_serial_net *net = n.f.serial->net;
    for (size_t l = 0; l < net->net->count; l++) {
        const ls_serial_net_layer *layer = &net->layer[l];
        take(&n.s, find(&n.s, "", layer->is->name, ""), layer->y,
             B * ls_net_shape_elements(layer->out));
        if (layer->is->kind != LS_NET_BATCH_NORM) continue;
        take(&n.s, find(&n.s, "", layer->is->name, ".batch_mean"), layer->mean,
             layer->out->channels);
        take(&n.s, find(&n.s, "", layer->is->name, ".batch_rstd"), layer->rstd,
             layer->out->channels);
    }
    take(&n.s, find(&n.s, "", "loss", ""), &n.loss, 1);
    const size_t choices = B * config.net.classes;
    ls_real *dlogits = malloc(choices * sizeof *dlogits);
    ck_assert_ptr_nonnull(dlogits);
    ls_serial_net_loss_backward(n.f.serial, dlogits);
    take(&n.s, find(&n.s, "d.", net->net->layers[net->net->count - 1].name, ""), dlogits, choices);
    free(dlogits);
    ck_assert_msg(ls_serial_backward(n.f.serial) == LS_OK, "%s", ls_error_text());
    for (size_t l = 0; l + 1 < net->net->count; l++) take_gradient(&n, l);
    for (size_t i = 0; i < n.f.table->count; i++) {
        const ls_param *param = &n.f.table->params[i];
        if (param->state)
            take(&n.s, find(&n.s, "param.", param->name, ""), n.f.store->slots[i].value,
                 ls_param_elements(param));
        else
            take(&n.s, find(&n.s, "grad.", param->name, ""), n.f.store->slots[i].grad[0],
                 ls_param_elements(param));
    }
    return n;
}

static void net_step_destroy(net_step *n)
{
    whole_step_destroy(&n->s);
    net_batch_free(&n->b);
    fixture_destroy(&n->f);
}

/* The node as the kernels gave it, against its own operation. */
static void judge(net_step *n, int place, double *ret_widest)
{
    whole_step *s = &n->s;
    const ls_graph_node *node = &s->graph->nodes[place];
    const size_t count = ls_graph_elements(s->graph, place);
    double *truth = malloc(count * sizeof *truth), *bound = malloc(count * sizeof *bound);
    double largest = 0, widest = 0;
    ck_assert(truth && bound);
    for (size_t i = 0; i < count; i++) truth[i] = bound[i] = (double)NAN;
    ck_assert_msg(ls_operation_evaluate(&s->operands, place, ls_precision_of(dtype, 1), truth,
                                        bound) == LS_OK,
                  "%s", ls_error_text());
    double *values = s->values[place];
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(!!(fabs(values[i] - truth[i]) <= bound[i]),
                      "%s: %s[%zu] is %.17g, not %.17g within %.3g", s->graph->table->config.name,
                      node->name, i, values[i], truth[i], bound[i]);
        largest = fmax(largest, fabs(truth[i]));
        widest = fmax(widest, bound[i]);
    }
    *ret_widest = fmax(*ret_widest, widest / (largest + 1e-3));
    ck_assert_msg(!!(widest <= (dtype == LS_F64 ? 1e-10 : 5e-3) * (largest + 0.01)),
                  "%s: bound of %s is %g where it is %g", s->graph->table->config.name, node->name,
                  widest, largest);
    const size_t at = count / 2;
    const double right = values[at];
    values[at] += 4 * bound[at] + 1e-300;
    ck_assert_msg(count_outside(values, truth, bound, count) == 1, "%s: a fault is not seen",
                  node->name);
    values[at] = right;
    free(truth), free(bound);
}

START_TEST(kernels_lie_within_their_bounds)
{
    net_step n = net_step_create((size_t)_i, (size_t)_i < NETS_TINY ? 3 : 2);
    double widest = 0;
    size_t judged = 0;
    for (size_t place = 0; place < n.s.graph->count; place++) {
        const ls_graph_node *node = &n.s.graph->nodes[place];
        /* What the serial pass does not keep is computed here, rounded as it would be. */
        if (!n.s.values[place] && node->phase != LS_GRAPH_UPDATE)
            whole_step_node(&n.s, (int)place, dtype == LS_F32);
        else if (n.s.values[place]) {
            judge(&n, (int)place, &widest);
            judged++;
        }
    }
    ck_assert_uint_gt(judged, 2 * n.f.table->config.net.count + 2);
    net_step_destroy(&n);
}
END_TEST

/* The graph alone, from weights and images to gradients. */
START_TEST(the_chain_gives_loss_and_gradients)
{
    net_step n = net_step_create((size_t)_i, (size_t)_i < NETS_TINY ? 3 : 2);
    const double close = dtype == LS_F64 ? 1e-10 : 2e-3;
    double **had = calloc(n.s.graph->count, sizeof *had);
    ck_assert_ptr_nonnull(had);
    for (size_t place = 0; place < n.s.graph->count; place++) {
        had[place] = n.s.values[place];
        n.s.values[place] = NULL;
    }
    for (size_t place = 0; place < n.s.graph->count; place++) {
        const ls_graph_node *node = &n.s.graph->nodes[place];
        if (node->phase == LS_GRAPH_UPDATE && node->make != LS_MAKE_RUNNING) continue;
        whole_step_node(&n.s, (int)place, false);
        const size_t count = ls_graph_elements(n.s.graph, (int)place);
        double largest = 0, worst = 0;
        for (size_t i = 0; had[place] && i < count; i++) {
            largest = fmax(largest, fabs(had[place][i]));
            worst = fmax(worst, fabs(had[place][i] - n.s.values[place][i]));
        }
        ck_assert_msg(!!(worst <= close * (largest + 1e-3)), "%s: %s is %g off where it is %g",
                      n.f.table->config.name, node->name, worst, largest);
    }
    for (size_t place = 0; place < n.s.graph->count; place++) free(had[place]);
    free(had);
    net_step_destroy(&n);
}
END_TEST

/* ---- the list itself ---- */

START_TEST(names_and_shapes)
{
    ls_config config = net_config(3);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_graph *graph = NULL;
    ck_assert_int_eq(ls_graph_create(&graph, f.table, 5, 0), LS_OK);
    static const struct {
        const char *name, *dims;
        size_t n_dims, first, last;
    } rows[] = {
        {"stem.conv", "N[dp] C[channel] H[down] W[across]", 4, 5, 32},
        {"stem.norm.batch_mean", "C[channel]", 1, 8, 8},
        {"stem.norm.batch_rstd", "C[channel]", 1, 8, 8},
        {"d.block2.add", "N[dp] C[channel] H[down] W[across]", 4, 5, 16},
        {"grad.stem.conv.weight", "C[channel] I KH KW", 4, 8, 3},
        {"clipped.block3.norm1.bias", "C[channel]", 1, 32, 32},
        {"grad.dense.weight", "I C[channel]", 2, 32, 16},
        {"param.stem.norm.running_mean", "C[channel]", 1, 8, 8},
        {"image_loss", "N[dp]", 1, 5, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int place = ls_graph_find(graph, rows[i].name);
        ck_assert_msg(place >= 0, "no %s", rows[i].name);
        const ls_graph_node *node = &graph->nodes[place];
        ck_assert_str_eq(node->dim_names, rows[i].dims);
        ck_assert_int_eq(node->n_dims, (int)rows[i].n_dims);
        ck_assert_uint_eq(node->dims[0], rows[i].first);
        ck_assert_uint_eq(node->dims[node->n_dims - 1], rows[i].last);
    }
    /* States have neither gradient nor clipped gradient; statistics no gradient. */
    ck_assert_int_eq(ls_graph_find(graph, "grad.stem.norm.running_var"), -1);
    ck_assert_int_eq(ls_graph_find(graph, "clipped.stem.norm.running_var"), -1);
    ck_assert_int_eq(ls_graph_find(graph, "d.stem.norm.batch_mean"), -1);
    for (int p = 0; p < (int)f.table->count; p++) {
        ck_assert_int_ge(ls_graph_updated(graph, p), 0);
        ck_assert_int_eq(ls_graph_param_gradient(graph, p) < 0, f.table->params[p].state);
    }
    /* Every input stands before. */
    for (size_t i = 0; i < graph->count; i++)
        for (int k = 0; k < LS_NODE_INPUTS && graph->nodes[i].inputs[k] >= 0; k++)
            ck_assert_int_lt(graph->nodes[i].inputs[k], (int)i);
    const ls_view view = {.kind = LS_VIEW_POINT,
                          .point = LS_POINT_OUTPUT,
                          .gradient = true,
                          .param = -1,
                          .use = -1,
                          .layer = 0};
    ck_assert_int_eq(ls_graph_find_view(graph, &view), ls_graph_find(graph, "d.stem.conv"));
    ls_graph_destroy(&graph);
    fixture_destroy(&f);
}
END_TEST

START_TEST(a_name_for_two_tensors_is_refused)
{
    static const char *const names[] = {
        "loss",    "image_loss",        "norm",         "first.batch_mean",
        "d.first", "grad.first.weight", "first.weight", "first.partial"};
    char json[1024];
    ls_config config;
    ls_param_table *table = NULL;
    ls_graph *graph = NULL;
    snprintf(json, sizeof json,
             "{\"name\": \"n\", \"batch\": 2, \"network\": {\"channels\": 2, \"height\": 4, "
             "\"width\": 4, \"classes\": 3, \"row_granules\": 2, \"column_granules\": 2, "
             "\"channel_granules\": 1, \"layers\": [{\"kind\": \"batch_norm\", \"name\": "
             "\"first\"}, {\"kind\": \"relu\", \"name\": \"%s\"}, {\"kind\": \"dense\", "
             "\"channels\": 3}]}}",
             names[_i]);
    ck_assert_msg(ls_config_from_json("net", json, &config) == LS_OK, "%s", ls_error_text());
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    ck_assert_int_eq(ls_graph_create(&graph, table, 2, 0), LS_ERR_INPUT);
    ck_assert_ptr_null(graph);
    ck_assert_msg(strstr(ls_error_text(), names[_i]) != NULL, "%s", ls_error_text());
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("operation_net", 120);
    tcase_add_loop_test(tc, kernels_lie_within_their_bounds, 0, NETS);
    tcase_add_loop_test(tc, the_chain_gives_loss_and_gradients, 0, NETS);
    tcase_add_test(tc, names_and_shapes);
    tcase_add_loop_test(tc, a_name_for_two_tensors_is_refused, 0, 8);
    return run_tests();
}
