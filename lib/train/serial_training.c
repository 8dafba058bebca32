#include <math.h>

#include "lockstep/base/clock.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/serial/serial.h"
#include "train/checkpoint.h"
#include "train/training.h"

/* Shows the gradients or the values of every parameter. */
static ls_status show(const ls_train_hooks *watcher, const ls_store *store, uint64_t step,
                      ls_phase phase)
{
    ls_status status = LS_OK;
    for (size_t i = 0; watcher->tensor && i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        const ls_slot *slot = &store->slots[i];
        if (param->state && phase != LS_PHASE_UPDATE) continue; /* it has no gradient */
        /* Held whole, a parameter differs from its logical form only by padded rows at its end. */
        LS_TRY(watcher->tensor(watcher->context, step, phase, param, LS_REAL_DTYPE,
                               phase == LS_PHASE_UPDATE ? slot->value : slot->grad[0]));
    }
exit:
    return status;
}

ls_status ls_train_serial(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result)
{
    ls_status status = LS_OK;
    ls_train_result result = {0};
    ls_memory *memory = NULL;
    ls_store *store = NULL;
    ls_serial *serial = NULL;
    ls_step_batch batch = {0};
    ls_digest *digest = NULL;
    ls_arena *temporary = NULL;

    LS_TRY(ls_train_result_begin(&result, 1));
    LS_TRY(ls_memory_create(&memory));
    LS_TRY(ls_store_create(&store, table, NULL, memory));
    LS_TRY(ls_serial_create(&serial, store, run->engine, memory));
    ls_serial_stop_when(serial, run->world.stop);
    LS_TRY(ls_step_batch_create(&batch, run, 0, run->batch));
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(ls_arena_create(&temporary, memory, LS_MEM_TEMPORARY));
    LS_TRY(ls_checkpoint_begin(run, store, &result.first_step));
    LS_TRY(ls_run_check_given(run, result.first_step));
    result.last_step = result.first_step;
    if (watcher->begin) LS_TRY(watcher->begin(watcher->context, run, table, result.first_step));

    for (uint64_t step = result.first_step; step < run->steps; step++) {
        ls_step now = {.step = step, .tokens = ls_run_tokens(run)};
        ls_update update = ls_step_update(run, step);
        double squares;
        ls_real loss;
        uint64_t begin = ls_clock_ns(), shown;

        ls_step_batch_fill(&batch, run, step);
        LS_TRY(ls_serial_forward(serial, &batch.batch, &loss));
        LS_TRY(ls_serial_backward(serial));
        LS_TRY(ls_serial_squares(serial, &squares));
        shown = ls_clock_ns();
        LS_TRY(show(watcher, store, step, LS_PHASE_GRADIENT));
        shown = ls_clock_ns() - shown;
        ls_serial_update(serial, &update, squares, run->clip);

        now.ns = ls_clock_ns() - begin - shown;
        now.loss = (double)loss;
        now.norm = sqrt(squares);
        now.lr = update.lr;
        ls_train_result_step(&result, &now);
        LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, &loss, 1));
        if (watcher->step) LS_TRY(watcher->step(watcher->context, &now));
        LS_TRY(show(watcher, store, step, LS_PHASE_UPDATE));
    }
    for (size_t i = 0; i < table->count; i++)
        LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, store->slots[i].value,
                             ls_param_elements(&table->params[i])));
    LS_TRY(ls_digest_finish(digest, result.digest));
    if (run->no_digest) result.digest[0] = 0;
    ls_rank_report_memory(&result.rank[0], memory);
    if (run->save) LS_TRY(ls_checkpoint_save(run, NULL, store, run->steps, temporary));
    *ret_result = result;
    result.rank = NULL;
exit:
    ls_train_result_free(&result);
    ls_digest_destroy(&digest);
    ls_step_batch_free(&batch);
    ls_serial_destroy(&serial);
    ls_store_destroy(&store);
    ls_arena_destroy(&temporary);
    ls_memory_destroy(&memory);
    return status;
}
