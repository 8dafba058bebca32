/* sharded_net_fixture.h - a network run in a layout beside the serial one: loss, gradients and
 * running statistics of three steps, bit by bit; the last step is an evaluation.
 *
 * Which part of a parameter a rank holds is worked out here from the grids alone. */
#ifndef LS_TEST_SHARDED_NET_FIXTURE_H
#define LS_TEST_SHARDED_NET_FIXTURE_H

#include "comm/comm_test.h"

#include "lockstep/parallel/spatial/sharded_net.h"
#include "lockstep/serial/serial.h"
#include "numerics/tree_reference.h"

enum { STEPS = 3 };

/* What the serial network gives, and from what. */
typedef struct net_truth {
    ls_config config;
    ls_param_table *table;
    ls_store *store; /* whole: the parameters at the beginning; running statistics after STEPS */
    ls_real *values[LS_NET_LAYERS * 4]; /* of each parameter, at the beginning */
    ls_engine engine;
    float *images;
    int32_t *labels;
    ls_batch batch[STEPS];
    ls_real loss[STEPS];
    ls_real *gradient[STEPS]; /* whole, as the store's slab */
} net_truth;

static inline size_t count_of(const ls_slot *slot)
{
    return slot->rows * slot->cols;
}

/* Different images and labels in every step. */
static inline void draw_batches(net_truth *t)
{
    const ls_net *net = &t->config.net;
    const size_t B = t->config.batch, pixels = net->channels * net->height * net->width;
    uint64_t state = 7;
    t->images = malloc(STEPS * B * pixels * sizeof *t->images);
    t->labels = malloc(STEPS * B * sizeof *t->labels);
    for (size_t i = 0; i < STEPS * B * pixels; i++) {
        state = mix(state + i + 1);
        t->images[i] = (float)((int64_t)(state >> 40) - (1 << 23)) / (float)(1 << 22);
    }
    for (size_t i = 0; i < STEPS * B; i++)
        t->labels[i] = (int32_t)((5 * i + i / 3 + 1) % net->classes);
    for (size_t s = 0; s < STEPS; s++)
        t->batch[s] = (ls_batch){.B = B,
                                 .pixels = pixels,
                                 .images = t->images + s * B * pixels,
                                 .labels = t->labels + s * B,
                                 .seed = 17,
                                 .step = 3 + (uint32_t)s,
                                 .training = s + 1 < STEPS};
}

/* Random weights of the usual size; biases, scales and shifts that are not all alike. */
static inline void draw_parameters(net_truth *t)
{
    ls_store_init(t->store, 23);
    for (size_t p = 0; p < t->table->count; p++) {
        ls_slot *slot = &t->store->slots[p];
        const size_t n = count_of(slot);
        ls_real *noise = malloc((n + 1) * sizeof *noise);
        reference_fill(noise, n, 100 + p);
        for (size_t i = 0; i < n && t->table->params[p].n_dims == 1; i++)
            slot->value[i] += (ls_real)0.25 * noise[i] / (1 + noise[i] * noise[i]);
        free(noise);
        t->values[p] = malloc((n + 1) * sizeof(ls_real));
        memcpy(t->values[p], slot->value, n * sizeof(ls_real));
    }
}

static inline void truth_of(net_truth *t, const ls_config *config, ls_engine engine)
{
    ls_serial *serial = NULL;
    *t = (net_truth){.config = *config, .engine = engine};
    ls_error_clear();
    ck_assert_msg(ls_param_table_create(&t->table, &t->config) == LS_OK, "%s", ls_error_text());
    ck_assert(ls_store_create(&t->store, t->table, NULL, NULL) == LS_OK);
    draw_parameters(t);
    draw_batches(t);
    ck_assert(ls_serial_create(&serial, t->store, engine, NULL) == LS_OK);
    for (size_t s = 0; s < STEPS; s++) {
        const size_t bytes = t->store->gradient_count * sizeof(ls_real);
        ck_assert_msg(ls_serial_forward(serial, &t->batch[s], &t->loss[s]) == LS_OK, "%s",
                      ls_error_text());
        ck_assert_msg(ls_serial_backward(serial) == LS_OK, "%s", ls_error_text());
        t->gradient[s] = malloc(bytes + 1);
        memcpy(t->gradient[s], t->store->gradient_slab, bytes);
    }
    ls_serial_destroy(&serial);
}

static inline void truth_free(net_truth *t)
{
    for (size_t p = 0; p < t->table->count; p++) free(t->values[p]);
    for (size_t s = 0; s < STEPS; s++) free(t->gradient[s]);
    free(t->images);
    free(t->labels);
    ls_store_destroy(&t->store);
    ls_param_table_destroy(&t->table);
}

/* ---- a rank */

typedef struct net_case {
    const net_truth *truth;
    ls_layout layout;
    const ls_observer *observer;
} net_case;

static inline void hold(const net_case *c, int rank, ls_holding *holdings)
{
    const net_truth *t = c->truth;
    ls_net_grids grids;
    ls_net_shapes shapes;
    ls_net_grids_of(&c->layout, &t->config.net, &grids);
    ls_net_shapes_of(&t->config.net, &shapes);
    for (size_t p = 0; p < t->table->count; p++) {
        const ls_param *param = &t->table->params[p];
        const ls_layer_grid *grid = &grids.layer[param->layer];
        const size_t channel = (size_t)rank % (size_t)grid->channels;
        const size_t granules = shapes.layer[param->layer].axis.granules;
        const ls_share share = ls_share_of(granules, (size_t)grid->channels, channel);
        holdings[p] = (ls_holding){.held = true, .shard = {share.first, share.count}};
        holdings[p].use_held[0] = !param->state;
    }
}

/* What the rank holds of a whole parameter. */
static inline ls_real *part_of(const ls_param *param, const ls_slot *slot, const ls_real *whole)
{
    ls_real *part = malloc((count_of(slot) + 1) * sizeof *part);
    ls_param_shard_in(param, slot->shard, sizeof *part, part, whole);
    return part;
}

static inline void compare_step(const net_case *c, const ls_store *store, size_t s, int rank)
{
    const net_truth *t = c->truth;
    for (size_t p = 0; p < t->table->count; p++) {
        const ls_param *param = &t->table->params[p];
        const ls_slot *slot = &store->slots[p];
        if (param->state) continue;
        const ptrdiff_t at = t->store->slots[p].grad[0] - t->store->gradient_slab;
        ls_real *right = part_of(param, slot, t->gradient[s] + at);
        size_t wrong = 0, first = 0;
        for (size_t i = count_of(slot); i-- > 0;)
            if (memcmp(&right[i], &slot->grad[0][i], sizeof *right) != 0) {
                wrong++;
                first = i;
            }
        EXPECT(wrong == 0,
               "step %zu, rank %d: gradient of %s: %zu of %zu differ, first %zu: %a, not %a", s,
               rank, param->name, wrong, count_of(slot), first, (double)slot->grad[0][first],
               (double)right[first]);
        free(right);
    }
}

static inline void compare_states(const net_case *c, const ls_store *store, int rank)
{
    const net_truth *t = c->truth;
    for (size_t p = 0; p < t->table->count; p++) {
        const ls_slot *slot = &store->slots[p];
        ls_real *right = part_of(&t->table->params[p], slot, t->store->slots[p].value);
        EXPECT(memcmp(right, slot->value, count_of(slot) * sizeof *right) == 0,
               "rank %d: %s differs after the steps", rank, t->table->params[p].name);
        free(right);
    }
}

/* The network of a rank on the parameters that layout `held` gives it. Either may be NULL when
 * *ret_status says so. */
static inline void net_begin_as(const net_case *c, const net_case *held, ls_rank *rank,
                                ls_store **ret_store, ls_sharded_net **ret_net,
                                ls_status *ret_status)
{
    ls_status status = LS_OK;
    const net_truth *t = c->truth;
    const ls_sharded_net_setup setup = {ls_rank_world_group(rank), &c->layout, t->engine,
                                        t->config.batch, c->observer};
    ls_holding *holdings = calloc(t->table->count, sizeof *holdings);
    hold(held, ls_rank_index(rank), holdings);
    LS_TRY(ls_store_create(ret_store, t->table, holdings, ls_rank_memory(rank)));
    for (size_t p = 0; p < t->table->count; p++) {
        ls_slot *slot = &(*ret_store)->slots[p];
        ls_param_shard_in(&t->table->params[p], slot->shard, sizeof(ls_real), slot->value,
                          t->values[p]);
    }
    LS_TRY(ls_sharded_net_create(ret_net, &setup, *ret_store));
exit:
    free(holdings);
    *ret_status = status;
}

static inline void net_begin(const net_case *c, ls_rank *rank, ls_store **ret_store,
                             ls_sharded_net **ret_net, ls_status *ret_status)
{
    net_begin_as(c, c, rank, ret_store, ret_net, ret_status);
}

static inline ls_status run_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const net_case *c = argument;
    const net_truth *t = c->truth;
    const int own = ls_rank_index(rank);
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    net_begin(c, rank, &store, &net, &status);
    if (status != LS_OK) goto exit;
    for (size_t s = 0; s < STEPS; s++) {
        const ls_share samples = ls_sharded_net_samples(net);
        const ls_batch batch = ls_batch_part(&t->batch[s], samples.first, samples.count);
        ls_real loss = 0;
        memset(store->gradient_slab, 0xff, store->gradient_count * sizeof(ls_real));
        LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
        EXPECT(memcmp(&loss, &t->loss[s], sizeof loss) == 0, "step %zu, rank %d: loss %a, not %a",
               s, own, (double)loss, (double)t->loss[s]);
        LS_TRY(ls_sharded_net_backward(net));
        compare_step(c, store, s, own);
    }
    compare_states(c, store, own);
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

/* Runs the network in a layout; options may be NULL. */
static inline void run_in(const net_truth *truth, const ls_layout *layout,
                          const ls_world_options *options)
{
    net_case c = {.truth = truth, .layout = *layout};
    char text[LS_LAYOUT_TEXT];
    ls_layout_describe(layout, text, sizeof text);
    ls_error_clear();
    faults = 0;
    const ls_status status = ls_world_run(ls_layout_ranks(layout), options, run_rank, &c);
    ck_assert_msg(status == LS_OK, "%s: %s: status %d: %s", truth->config.name, text, (int)status,
                  ls_error_text());
    ck_assert_msg(faults == 0, "%s: %s: %d faults, first: %s", truth->config.name, text,
                  (int)faults, first_fault);
}

/* A layout as ls_layout_describe writes it. */
static inline ls_layout layout_of(const char *text)
{
    ls_layout layout;
    ls_error_clear();
    ck_assert_msg(ls_layout_parse("layout", text, &layout) == LS_OK, "%s", ls_error_text());
    return layout;
}

#endif
