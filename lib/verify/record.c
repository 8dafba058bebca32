/* record.c - a run's losses, gradients and parameters, kept step by step. */
#include "verify/record.h"
#include "base/allocate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status remember_begin(void *context, const ls_run *run, const ls_param_table *table,
                                uint64_t first_step)
{
    ls_status status = LS_OK;
    ls_record *record = context;
    LS_TRY(ls_param_table_create(&record->table, &table->config));
    record->dtype = run->dtype;
    record->first_step = first_step;
    record->steps = run->steps - first_step;
    if (record->steps == 0)
        LS_FAIL(LS_ERR_INPUT, "--steps %" PRIu64 ": %s; nothing is left to compare", run->steps,
                run->load ? "the loaded checkpoint stands at that step" : "no step at all");
    LS_NEW(record->step, record->steps + 1);
    for (uint64_t s = 0; s < record->steps; s++) {
        LS_NEW(record->step[s].gradient, table->count);
        LS_NEW(record->step[s].value, table->count);
    }
    if (record->beside && record->beside->begin)
        LS_TRY(record->beside->begin(record->beside->context, run, table, first_step));
exit:
    return status;
}

static ls_status remember_tensor(void *context, uint64_t step, ls_phase phase,
                                 const ls_param *param, ls_dtype dtype, const void *values)
{
    ls_status status = LS_OK;
    ls_record *record = context;
    ls_recorded_step *into = &record->step[step - record->first_step];
    size_t bytes = ls_param_elements(param) * ls_dtype_bytes(dtype);
    void *copy = NULL;
    LS_BYTES(copy, bytes);
    memcpy(copy, values, bytes);
    (phase == LS_PHASE_UPDATE ? into->value : into->gradient)[ls_record_place(record, param)] =
        copy;
    if (record->beside && record->beside->tensor)
        LS_TRY(record->beside->tensor(record->beside->context, step, phase, param, dtype, values));
exit:
    return status;
}

static ls_status remember_step(void *context, const ls_step *step)
{
    ls_status status = LS_OK;
    ls_record *record = context;
    record->step[step->step - record->first_step].loss = step->loss;
    if (record->beside && record->beside->step)
        LS_TRY(record->beside->step(record->beside->context, step));
exit:
    return status;
}

size_t ls_record_place(const ls_record *record, const ls_param *param)
{
    return ls_param_find(record->table, param->role, param->layer);
}

ls_status ls_record_run(ls_record **ret_record, const ls_run *run, const ls_train_hooks *watcher,
                        ls_train_result *ret_result)
{
    ls_status status = LS_OK;
    ls_train_result result;
    ls_record *record = NULL;

    LS_NEW(record, 1);
    const ls_train_hooks remember = {record, remember_begin, remember_tensor, remember_step};
    record->beside = watcher;
    LS_TRY(ls_train(run, &remember, &result));
    record->beside = NULL;
    if (ret_result)
        *ret_result = result;
    else
        ls_train_result_free(&result);
    *ret_record = record;
    record = NULL;
exit:
    ls_record_destroy(&record);
    return status;
}

void ls_record_destroy(ls_record **record)
{
    ls_record *r = record ? *record : NULL;
    if (!r) return;
    for (uint64_t s = 0; r->step && s < r->steps; s++) {
        for (size_t i = 0; i < r->table->count; i++) {
            if (r->step[s].gradient) free(r->step[s].gradient[i]);
            if (r->step[s].value) free(r->step[s].value[i]);
        }
        free(r->step[s].gradient);
        free(r->step[s].value);
    }
    free(r->step);
    ls_param_table_destroy(&r->table);
    free(r);
    *record = NULL;
}

double ls_record_loss(const ls_record *record, uint64_t step)
{
    return record->step[step - record->first_step].loss;
}

static bool holds_nan(ls_dtype dtype, const void *values, size_t count)
{
    const float *f32 = values;
    const double *f64 = values;
    bool found = false;
    for (size_t i = 0; values && i < count && !found; i++)
        found = dtype == LS_F32 ? isnan(f32[i]) : isnan(f64[i]);
    return found;
}

static void set_undefined(ls_undefined *undefined, uint64_t step, const char *phase,
                          const char *tensor)
{
    undefined->found = true;
    undefined->step = step;
    undefined->phase = phase;
    snprintf(undefined->tensor, sizeof undefined->tensor, "%s", tensor);
}

void ls_record_undefined(const ls_record *record, ls_undefined *ret_undefined)
{
    const ls_param *params = record->table->params;
    const size_t count = record->table->count;
    ls_undefined found = {0};
    for (uint64_t s = 0; s < record->steps && !found.found; s++) {
        const ls_recorded_step *step = &record->step[s];
        const uint64_t number = record->first_step + s;
        if (isnan(step->loss)) set_undefined(&found, number, "loss", "loss");
        for (size_t i = count; i-- > 0 && !found.found;)
            if (holds_nan(record->dtype, step->gradient[i], ls_param_elements(&params[i])))
                set_undefined(&found, number, "gradient", params[i].name);
        for (size_t i = 0; i < count && !found.found; i++)
            if (holds_nan(record->dtype, step->value[i], ls_param_elements(&params[i])))
                set_undefined(&found, number, "update", params[i].name);
    }
    *ret_undefined = found;
}

void ls_undefined_describe(const ls_undefined *undefined, char *buffer, size_t size)
{
    const bool loss = strcmp(undefined->phase, "loss") == 0;
    snprintf(buffer, size, "nothing is compared from step %" PRIu64 " on: %s%s%s is not a number",
             undefined->step, loss ? "the loss" : undefined->tensor, loss ? "" : ", ",
             loss ? "" : undefined->phase);
}

double ls_shown(double value)
{
    return isnan(value) ? (double)NAN : value;
}
