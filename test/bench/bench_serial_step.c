/* bench_serial_step.c - CPU time of a training step of the serial model, by its four parts.
 *
 * Arguments: model (gpt2-nano), sequences (the model's batch), tokens of each (its seq). Prints the
 * best of several steps for the engines portable and openblas, with and without dropout. */
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/base/clock.h"
#include "lockstep/numerics/random.h"
#include "lockstep/serial/serial.h"

enum { PARTS = 4, STEPS = 20 };
static const char *const part_names[PARTS] = {"forward", "backward", "norm", "update"};

/* Times of one step, by parts, in ns of CPU. */
static ls_status step(ls_serial *serial, const ls_batch *batch, uint64_t ns[PARTS])
{
    ls_status status = LS_OK;
    const ls_update update = {LS_ADAMW, 1e-3, 0.9, 0.95, 1e-8, 0.1, batch->step + 1};
    ls_real loss;
    double squares;
    uint64_t clock[PARTS + 1];
    clock[0] = ls_clock_thread_cpu_ns();
    LS_TRY(ls_serial_forward(serial, batch, &loss));
    clock[1] = ls_clock_thread_cpu_ns();
    LS_TRY(ls_serial_backward(serial));
    clock[2] = ls_clock_thread_cpu_ns();
    LS_TRY(ls_serial_squares(serial, &squares));
    clock[3] = ls_clock_thread_cpu_ns();
    ls_serial_update(serial, &update, squares, 1);
    clock[4] = ls_clock_thread_cpu_ns();
    for (int i = 0; i < PARTS; i++) ns[i] = clock[i + 1] - clock[i];
exit:
    return status;
}

static ls_status measure(ls_store *store, ls_engine engine, ls_batch batch)
{
    ls_status status = LS_OK;
    ls_serial *serial = NULL;
    uint64_t best[PARTS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, ns[PARTS], total = 0;
    LS_TRY(ls_serial_create(&serial, store, engine, NULL));
    for (batch.step = 0; batch.step < STEPS; batch.step++) {
        LS_TRY(step(serial, &batch, ns));
        for (int i = 0; i < PARTS; i++)
            if (ns[i] < best[i]) best[i] = ns[i];
    }
    printf("%-8s dropout %-3s  ", ls_engine_name(engine), batch.training ? "on" : "off");
    for (int i = 0; i < PARTS; i++) {
        total += best[i];
        printf("  %s %.3f", part_names[i], (double)best[i] / 1e6);
    }
    printf("  all %.3f ms, %.0f tokens/s\n", (double)total / 1e6,
           (double)(batch.B * batch.S) * 1e9 / (double)total);
exit:
    ls_serial_destroy(&serial);
    return status;
}

/* Four lines; tokens and targets from Philox. */
static ls_status run(const char *model, size_t B, size_t S)
{
    ls_status status = LS_OK;
    ls_config config;
    ls_param_table *table = NULL;
    ls_store *store = NULL;
    int32_t *ids = NULL;
    LS_TRY(ls_config_named(model, &config));
    if (config.dropout == 0) config.dropout = 0.1;
    if (B == 0) B = config.batch;
    if (S == 0) S = config.seq;
    LS_TRY(ls_param_table_create(&table, &config));
    LS_TRY(ls_store_create(&store, table, NULL, NULL));
    ls_store_init(store, 1);
    ids = malloc(2 * B * S * sizeof *ids);
    if (ids == NULL) LS_FAIL(LS_ERR_MEMORY, "no memory for %zu tokens", B * S);
    for (size_t i = 0; i < 2 * B * S; i++) {
        ls_stream stream = {1, LS_RANDOM_TEST, 0, 0};
        ids[i] = (int32_t)(ls_random_uniform(stream, i) * (double)config.vocab);
    }
    printf("%s, %zu sequences of %zu, best of %d steps, ms of CPU\n", model, B, S, STEPS);
    for (int k = 0; k < 4; k++) {
        ls_engine engine = k < 2 ? LS_ENGINE_PORTABLE : LS_ENGINE_OPENBLAS;
        ls_batch batch = {
            .B = B, .S = S, .tokens = ids, .targets = ids + B * S, .seed = 1, .training = k % 2};
        LS_TRY(measure(store, engine, batch));
    }
exit:
    free(ids);
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
    return status;
}

int main(int count, char **words)
{
    ls_status status =
        run(count > 1 ? words[1] : "gpt2-nano", count > 2 ? strtoul(words[2], NULL, 10) : 0,
            count > 3 ? strtoul(words[3], NULL, 10) : 0);
    if (status != LS_OK) fprintf(stderr, "bench_serial_step: %s\n", ls_error_text());
    return ls_exit_code(status);
}
