/* executor_fixture.h - a small model and ways to run a pipeline, for the tests of the executor. */
#ifndef TEST_PIPELINE_EXECUTOR_FIXTURE_H
#define TEST_PIPELINE_EXECUTOR_FIXTURE_H

#include "grid_fixture.h"

enum { SECOND = 1000000000 };

/* Two heads of width 4, F 6; as many layers as asked for. */
static inline ls_config small_config(size_t i, size_t layers)
{
    ls_config config = i % 2 ? tiny_llama("small llama") : tiny_base("small gpt2");
    config.layers = layers;
    config.d_model = 8;
    config.heads = 2;
    config.kv_heads = i % 2 ? 1 : 2;
    config.d_ff = 6;
    return config;
}

static inline void reference_of(reference *right, const ls_config *config, size_t B, size_t steps)
{
    static const size_t lengths[GRID_STEPS] = {3, 5, 1};
    static const grid_targets targets[GRID_STEPS] = {TARGETS_UNEVEN, TARGETS_HALF,
                                                     TARGETS_SEQUENCE};
    reference_begin(right, config, LS_ENGINE_PORTABLE, steps, B, lengths, targets, 0.5);
    ck_assert(right->step[0].squares > 0.25); /* there is something to clip */
}

/* World options number i: rendezvous or two messages left behind, with and without pauses. A run
 * that does not come to its end is stopped. */
static inline ls_world_options world_of(size_t i)
{
    ls_world_options world = {.channel_capacity = i % 2 ? 2 : 0,
                              .timeout_ns = (uint64_t)20 * SECOND,
                              .delay_seed = i / 2 % 2 ? i + 1 : 0,
                              .delay_max_ns = 20000};
    return world;
}

/* Every schedule. */
static const struct {
    ls_schedule_kind kind;
    int chunks;
} kinds[] = {
    {LS_GPIPE, 1}, {LS_1F1B, 1}, {LS_INTERLEAVED, 1}, {LS_INTERLEAVED, 2}, {LS_INTERLEAVED, 3}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

#endif
