/* Candidates that do it another way and are right: what has been reported as a mistake elsewhere
 * and was none. All in binary32; nothing may be called different and no cause may be named. */
#include "check/check_fixture.h"
#include "run_tests.h"

typedef struct sizes {
    size_t B, S, D, H, dh, F;
} sizes;

static sizes sizes_of(const check_fixture *c)
{
    const ls_config *config = &c->f.run.config;
    const sizes n = {c->f.run.batch,
                     config->seq,
                     config->d_model,
                     config->heads,
                     config->d_model / config->heads,
                     config->d_ff};
    return n;
}

static const double *input(const check_fixture *c, int node, int slot, const ls_operands *o)
{
    return o->values[c->f.graph->nodes[node].inputs[slot]];
}

static bool is_named(const check_fixture *c, int node, const char *pattern)
{
    return ls_name_fits(pattern, c->f.graph->nodes[node].name);
}

/* x W of the inputs from .. to, the last first. */
static float part_of_product(const double *x, const double *w, size_t out, size_t from, size_t to,
                             size_t column)
{
    float sum = 0;
    for (size_t i = to; i-- > from;) sum += (float)x[i] * (float)w[i * out + column];
    return sum;
}

/* The bias of a row-parallel linear on rank 0 alone, before the sum over the ranks; these are added
 * the last first. */
static void bias_on_rank_0(check_fixture *c, size_t step, int node, const ls_operands *o,
                           double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    const sizes z = sizes_of(c);
    const bool mlp = is_named(c, node, "layers.?.mlp");
    (void)step;
    if (!mlp && !is_named(c, node, "layers.?.attention")) return;
    const double *x = input(c, node, 0, o), *w = o->params[n->params[0]];
    const double *b = o->params[n->params[1]];
    const size_t in = mlp ? z.F : z.D, ranks = 4;
    for (size_t t = 0; t < z.B * z.S; t++)
        for (size_t j = 0; j < z.D; j++) {
            float sum = 0;
            for (size_t r = ranks; r-- > 0;) {
                float part =
                    part_of_product(x + t * in, w, z.D, r * in / ranks, (r + 1) * in / ranks, j);
                if (r == 0) part += (float)b[j];
                sum += part;
            }
            values[t * z.D + j] = (double)sum;
        }
}

/* ---- attention ---- */

typedef struct query {
    const double *q, *k, *v; /* of this query; of key 0 of its head */
    size_t i, stride;
} query;

static query query_at(const check_fixture *c, const double *const qkv[3], size_t b, size_t h,
                      size_t i)
{
    const sizes z = sizes_of(c);
    const size_t row = b * z.S * z.D + h * z.dh;
    const query at = {qkv[0] + row + i * z.D, qkv[1] + row, qkv[2] + row, i, z.D};
    return at;
}

static float score(const query *at, size_t j, size_t dh, float times)
{
    float sum = 0;
    for (size_t d = 0; d < dh; d++)
        sum += (float)at->q[d] * times * (float)at->k[j * at->stride + d];
    return sum;
}

static void probabilities(const query *at, const sizes *z, float *P)
{
    const float scale = 1 / sqrtf((float)z->dh);
    float all = 0;
    for (size_t j = 0; j <= at->i; j++) all += P[j] = expf(score(at, j, z->dh, scale));
    for (size_t j = 0; j <= at->i; j++) P[j] /= all;
}

/* Scores scaled by 1 / layer, to keep them small, and multiplied back in the softmax. */
static void scaled_by_layer(check_fixture *c, size_t step, int node, const ls_operands *o,
                            double *values)
{
    const sizes z = sizes_of(c);
    (void)step;
    if (!is_named(c, node, "layers.?.heads")) return;
    const float layer = (float)c->f.graph->nodes[node].layer + 1;
    const double *const qkv[] = {input(c, node, 0, o), input(c, node, 1, o), input(c, node, 2, o)};
    for (size_t b = 0; b < z.B; b++)
        for (size_t h = 0; h < z.H; h++)
            for (size_t i = 0; i < z.S; i++) {
                const query at = query_at(c, qkv, b, h, i);
                const float scale = 1 / (sqrtf((float)z.dh) * layer);
                float all = 0, out[16] = {0};
                for (size_t j = 0; j <= i; j++) {
                    const float P = expf(score(&at, j, z.dh, scale) * layer);
                    all += P;
                    for (size_t d = 0; d < z.dh; d++) out[d] += P * (float)at.v[j * at.stride + d];
                }
                for (size_t d = 0; d < z.dh; d++)
                    values[(b * z.S + i) * z.D + h * z.dh + d] = (double)(out[d] / all);
            }
}

/* Keys in blocks, as ranks of context parallelism hold them: each block's output and the logarithm
 * of its sum of exponentials; merged by log(e^a + e^b), not by a + b. */
static void merged_blocks(check_fixture *c, size_t step, int node, const ls_operands *o,
                          double *values)
{
    const sizes z = sizes_of(c);
    (void)step;
    if (!is_named(c, node, "layers.?.heads")) return;
    const double *const qkv[] = {input(c, node, 0, o), input(c, node, 1, o), input(c, node, 2, o)};
    const float scale = 1 / sqrtf((float)z.dh);
    for (size_t b = 0; b < z.B; b++)
        for (size_t h = 0; h < z.H; h++)
            for (size_t i = 0; i < z.S; i++) {
                const query at = query_at(c, qkv, b, h, i);
                float out[16] = {0}, lse = -INFINITY;
                for (size_t first = 0; first <= i; first += 3) {
                    float all = 0, block[16] = {0};
                    for (size_t j = first; j <= i && j < first + 3; j++) {
                        const float P = expf(score(&at, j, z.dh, scale));
                        all += P;
                        for (size_t d = 0; d < z.dh; d++)
                            block[d] += P * (float)at.v[j * at.stride + d];
                    }
                    const float mine = logf(all), both = logf(expf(lse) + expf(mine));
                    for (size_t d = 0; d < z.dh; d++)
                        out[d] = out[d] * expf(lse - both) + block[d] / all * expf(mine - both);
                    lse = both;
                }
                for (size_t d = 0; d < z.dh; d++)
                    values[(b * z.S + i) * z.D + h * z.dh + d] = (double)out[d];
            }
}

/* Backward of attention with rowsum(dO * O), which is rowsum(P * dP) when O is the merged output.
 */
static void rowsum_of_outputs(check_fixture *c, size_t step, int node, const ls_operands *o,
                              double *values)
{
    const ls_graph *graph = c->f.graph;
    const sizes z = sizes_of(c);
    (void)step;
    if (!is_named(c, node, "d.layers.?.query")) return;
    const int layer = graph->nodes[node].layer;
    char name[64];
    snprintf(name, sizeof name, "layers.%d.heads", layer);
    const int heads = ls_graph_find(graph, name);
    const double *O = o->values[heads], *dO = o->values[ls_graph_gradient(graph, heads)];
    const double *const qkv[] = {input(c, heads, 0, o), input(c, heads, 1, o),
                                 input(c, heads, 2, o)};
    const float scale = 1 / sqrtf((float)z.dh);
    for (size_t b = 0; b < z.B; b++)
        for (size_t h = 0; h < z.H; h++)
            for (size_t i = 0; i < z.S; i++) {
                const query at = query_at(c, qkv, b, h, i);
                const size_t row = (b * z.S + i) * z.D + h * z.dh;
                float P[16], sum = 0, dq[16] = {0};
                probabilities(&at, &z, P);
                for (size_t d = 0; d < z.dh; d++) sum += (float)dO[row + d] * (float)O[row + d];
                for (size_t j = 0; j <= i; j++) {
                    float dP = 0;
                    for (size_t d = 0; d < z.dh; d++)
                        dP += (float)dO[row + d] * (float)at.v[j * at.stride + d];
                    const float dS = P[j] * (dP - sum) * scale;
                    for (size_t d = 0; d < z.dh; d++) dq[d] += dS * (float)at.k[j * at.stride + d];
                }
                for (size_t d = 0; d < z.dh; d++) values[row + d] = (double)dq[d];
            }
}

/* ---- sums over tokens ---- */

/* Bias gradients from token shards, as sequence parallelism leaves them, added at the end of the
 * step; the ranks the last first. */
static void biases_added_late(check_fixture *c, size_t step, int node, const ls_operands *o,
                              double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    const sizes z = sizes_of(c);
    (void)step;
    if (!is_named(c, node, "grad.layers.?.attention.output.bias") &&
        !is_named(c, node, "grad.layers.?.mlp.down.bias"))
        return;
    const double *dy = o->values[n->inputs[0]];
    for (size_t j = 0; j < z.D; j++) {
        float sum = 0;
        for (size_t r = 3; r-- > 0;) {
            float shard = 0;
            for (size_t b = 0; b < z.B; b++)
                for (size_t s = r * z.S / 3; s < (r + 1) * z.S / 3; s++)
                    shard += (float)dy[(b * z.S + s) * z.D + j];
            sum += shard;
        }
        values[j] = (double)sum;
    }
}

/* Weight gradients accumulated sequence by sequence, the last first, tokens in any order. */
static void accumulated(check_fixture *c, size_t step, int node, const ls_operands *o,
                        double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    const sizes z = sizes_of(c);
    (void)step;
    if (!is_named(c, node, "grad.layers.?.mlp.up.weight")) return;
    const double *dy = o->values[n->inputs[0]], *x = o->values[n->inputs[1]];
    for (size_t i = 0; i < z.D; i++)
        for (size_t j = 0; j < z.F; j++) {
            float sum = 0;
            for (size_t b = z.B; b-- > 0;) {
                float part = 0;
                for (size_t s = 0; s < z.S; s++) {
                    const size_t t = b * z.S + (5 * s + 3) % z.S;
                    part += (float)x[t * z.D + i] * (float)dy[t * z.F + j];
                }
                sum += part;
            }
            values[i * z.F + j] = (double)sum;
        }
}

/* The loss from each rank's sum and count. */
static void loss_by_ranks(check_fixture *c, size_t step, int node, const ls_operands *o,
                          double *values)
{
    const sizes z = sizes_of(c);
    if (!is_named(c, node, "loss")) return;
    const double *tokens = input(c, node, 0, o);
    const int32_t *targets = ls_golden_batch(c->golden, step)->targets;
    float sum = 0;
    int count = 0;
    for (size_t b = z.B; b-- > 0;) {
        float part = 0;
        for (size_t s = 0; s < z.S; s++) {
            part += (float)tokens[b * z.S + s];
            count += targets[b * z.S + s] != LS_IGNORE;
        }
        sum += part;
    }
    values[0] = (double)(sum / (float)count);
}

/* Where other ways meet: all at once. */
static void everything(check_fixture *c, size_t step, int node, const ls_operands *o,
                       double *values)
{
    mistake *const all[] = {bias_on_rank_0,    merged_blocks, rowsum_of_outputs,
                            biases_added_late, accumulated,   loss_by_ranks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i](c, step, node, o, values);
}

static mistake *const ways[] = {bias_on_rank_0,    scaled_by_layer,   merged_blocks,
                                rowsum_of_outputs, biases_added_late, accumulated,
                                loss_by_ranks,     everything};

START_TEST(another_way_is_no_mistake)
{
    check_fixture c;
    ls_config config = check_config("gpt2-nano");
    config.dropout = 0;
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, NULL);
    double ***plain = calloc(c.f.steps, sizeof *plain);
    size_t changed = 0;
    for (size_t s = 0; s < c.f.steps; s++) {
        plain[s] = c.mine[s];
        c.mine[s] = calloc(c.f.graph->count, sizeof *c.mine[s]);
    }
    candidate_computed(&c, LS_F32, ways[_i]);
    for (size_t s = 0; s < c.f.steps; s++) {
        for (size_t n = 0; n < c.f.graph->count; n++) {
            const size_t count = ls_graph_elements(c.f.graph, (int)n);
            if (memcmp(plain[s][n], c.mine[s][n], count * sizeof(double)) != 0) changed++;
            free(plain[s][n]);
        }
        free(plain[s]);
    }
    free(plain);
    ck_assert_uint_gt(changed, 0); /* it is another way */
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    for (size_t i = 0; i < c.judgement->count; i++)
        ck_assert_int_ne(c.judgement->tensors[i].local, LS_LOCAL_OUTSIDE);
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_orders", 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, another_way_is_no_mistake, 0, (int)(sizeof ways / sizeof *ways));
    return run_tests();
}
