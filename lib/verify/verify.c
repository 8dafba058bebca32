/* verify.c - a layout's run compared with the record of the serial one. */
#include "verify/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "verify/record.h"

/* In a step the loss comes first, then the gradients, the last layer's first, then the updates. */
enum { LOSS = 0, GRADIENT = 1, UPDATE = 2 };

typedef struct place {
    uint64_t step;
    int phase;
    size_t order;
} place;

typedef struct verifier {
    const ls_record *record;
    const ls_train_hooks *beside; /* further hooks */
    ls_departure departure;
    place at; /* of the departure, when there is one */
    bool departed;
    uint64_t steps_seen, tensors_seen;
} verifier;

static bool before(place a, place b)
{
    if (a.step != b.step) return a.step < b.step;
    if (a.phase != b.phase) return a.phase < b.phase;
    return a.order < b.order;
}

/* The logical index of an element: of a matrix row and column, of a vector as if it were a matrix
 * of one column; of a convolution's weight in its own shape. shape: n numbers. */
static void set_index(ls_departure *departure, const size_t *shape, int n, size_t element)
{
    departure->n_index = n;
    for (int i = n; i-- > 0;) {
        departure->index[i] = i > 0 ? element % shape[i] : element;
        element /= shape[i];
    }
}

/* Notes a difference; the earliest in order of execution is kept. */
static void note(verifier *v, place at, const char *phase, const char *tensor, const size_t *shape,
                 int n, const ls_difference *difference)
{
    v->departure.tensors++;
    if (v->departed && !before(at, v->at)) return;
    v->departed = true;
    v->at = at;
    v->departure.step = at.step;
    v->departure.phase = phase;
    snprintf(v->departure.tensor, sizeof v->departure.tensor, "%s", tensor);
    set_index(&v->departure, shape, n, difference->first);
    v->departure.difference = *difference;
}

static ls_status compare_tensor(void *context, uint64_t step, ls_phase phase, const ls_param *param,
                                ls_dtype dtype, const void *values)
{
    ls_status status = LS_OK;
    verifier *v = context;
    size_t i = ls_record_place(v->record, param);
    const ls_recorded_step *recorded = &v->record->step[step - v->record->first_step];
    const void *expected = phase == LS_PHASE_UPDATE ? recorded->value[i] : recorded->gradient[i];
    ls_difference difference;

    if (!ls_compare_bits(dtype, expected, values, ls_param_elements(param), &difference)) {
        place at = {step, phase == LS_PHASE_UPDATE ? UPDATE : GRADIENT,
                    phase == LS_PHASE_UPDATE ? i : v->record->table->count - i};
        const bool conv = param->n_shape == 4;
        note(v, at, phase == LS_PHASE_UPDATE ? "update" : "gradient", param->name,
             conv ? param->shape : param->dims, conv ? 4 : 2, &difference);
    }
    v->tensors_seen++;
    if (v->beside && v->beside->tensor)
        LS_TRY(v->beside->tensor(v->beside->context, step, phase, param, dtype, values));
exit:
    return status;
}

static ls_status compare_step(void *context, const ls_step *step)
{
    ls_status status = LS_OK;
    verifier *v = context;
    double expected = ls_record_loss(v->record, step->step);
    ls_difference difference;
    float narrow[2] = {(float)expected, (float)step->loss};
    bool f32 = v->record->dtype == LS_F32;

    if (!ls_compare_bits(v->record->dtype, f32 ? (void *)&narrow[0] : (void *)&expected,
                         f32 ? (const void *)&narrow[1] : (const void *)&step->loss, 1,
                         &difference)) {
        place at = {step->step, LOSS, 0};
        note(v, at, "loss", "loss", (const size_t[]){1, 1}, 2, &difference);
    }
    v->steps_seen++;
    if (v->beside && v->beside->step) LS_TRY(v->beside->step(v->beside->context, step));
exit:
    return status;
}

static ls_status compare_begin(void *context, const ls_run *run, const ls_param_table *table,
                               uint64_t first_step)
{
    ls_status status = LS_OK;
    verifier *v = context;
    if (run->dtype != v->record->dtype || first_step != v->record->first_step ||
        run->steps - first_step != v->record->steps || table->count != v->record->table->count)
        LS_FAIL(LS_ERR_INTERNAL, "a run is verified against the record of another run");
    if (v->beside && v->beside->begin)
        LS_TRY(v->beside->begin(v->beside->context, run, table, first_step));
exit:
    return status;
}

/* What a step shows: each parameter's gradient, but of states, and its value. */
static uint64_t tensors_of_step(const ls_param_table *table)
{
    uint64_t tensors = 0;
    for (size_t i = 0; i < table->count; i++) tensors += table->params[i].state ? 1 : 2;
    return tensors;
}

ls_status ls_verify_run(const ls_record *record, const ls_run *run, const ls_train_hooks *watcher,
                        ls_departure *ret_departure, ls_train_result *ret_result)
{
    ls_status status = LS_OK;
    verifier v = {.record = record, .beside = watcher};
    ls_train_hooks compare = {&v, compare_begin, compare_tensor, compare_step};
    ls_train_result result = {0};

    LS_TRY(ls_train(run, &compare, &result));
    /* Equal means that everything was there to be compared, not that nothing was seen. */
    const uint64_t tensors = record->steps * tensors_of_step(record->table);
    if (v.steps_seen != record->steps || v.tensors_seen != tensors)
        LS_FAIL(LS_ERR_INTERNAL,
                "%" PRIu64 " steps and %" PRIu64 " tensors were compared; the record has %" PRIu64
                " and %" PRIu64,
                v.steps_seen, v.tensors_seen, record->steps, tensors);
    if (ret_result) {
        *ret_result = result;
        result.rank = NULL;
    }
    if (v.departed) {
        if (ret_departure) *ret_departure = v.departure;
        status = LS_DIFFERENT;
    }
exit:
    ls_train_result_free(&result);
    return status;
}

void ls_departure_describe(const ls_departure *departure, ls_dtype dtype, char *buffer, size_t size)
{
    const ls_difference *d = &departure->difference;
    char one[40], most[40], index[128] = "";
    size_t used = 0;
    for (int i = 0; i < departure->n_index; i++)
        used = ls_append(index, sizeof index, used, "%s%zu", i ? ", " : "", departure->index[i]);
    if (d->ulps == UINT64_MAX)
        snprintf(one, sizeof one, "one is NaN");
    else
        snprintf(one, sizeof one, "%" PRIu64 " ulp apart", d->ulps);
    if (d->max_ulps == UINT64_MAX)
        snprintf(most, sizeof most, "some are NaN on one side");
    else
        snprintf(most, sizeof most, "at most %" PRIu64 " ulp", d->max_ulps);
    snprintf(buffer, size,
             "step %" PRIu64
             ", %s, tensor %s, index [%s]: serial %a, here %a (%s, %s); %zu elements of it "
             "differ, %s; %zu tensors differ in all",
             departure->step, departure->phase, departure->tensor, index, ls_shown(d->left),
             ls_shown(d->right), one, ls_dtype_name(dtype), d->count, most, departure->tensors);
}
