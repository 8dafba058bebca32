/* GRADIENT: a whole model on three ranks - embedding, blocks, norms, head, loss - by central
 * differences of the loss in binary64: elements of every parameter, with dropout and ignored
 * targets, fused and gathered loss. */
#define LS_REAL_IS_F64
#include "stage_fixture.h"
#include "run_tests.h"

enum { TP = 3, SAMPLES = 2, MOST_CASES = 256 };

/* One element of one parameter, and what each rank found. */
typedef struct sample {
    size_t param, element;
    double gradient[TP], measured[TP]; /* gradient: where it is held */
    bool held[TP];
} sample;

typedef struct job {
    const ls_param_table *table;
    ls_stage_setup setup;
    const double *values;
    const ls_batch *batch;
    sample samples[MOST_CASES];
    size_t n;
} job;

/* Where the element lies in the slot of a rank; NULL when the rank does not hold it. */
static ls_real *place_of(const ls_param *param, const ls_slot *slot, ls_real *array, size_t element)
{
    size_t row = param->n_dims == 2 ? element / param->dims[1] : 0;
    size_t col = param->n_dims == 2 ? element % param->dims[1] : element;
    size_t skipped = param->cut < 0 ? 0 : slot->shard.first * param->axis.granule;
    size_t *along = param->n_dims == 2 && param->cut == 0 ? &row : &col;
    if (*along < skipped) return NULL;
    *along -= skipped;
    return row < slot->rows && col < slot->cols ? &array[row * slot->cols + col] : NULL;
}

static ls_status loss_at(model *m, const ls_batch *batch, ls_real *element, double value,
                         double *ret_loss)
{
    ls_status status = LS_OK;
    double saved = element ? *element : 0;
    ls_valid valid;
    ls_sequence_losses sequences;
    if (element) *element = value;
    LS_TRY(ls_stage_forward(m->stage, m->micro_batch, batch, NULL, NULL));
    sequences = ls_micro_batch_losses(m->micro_batch, &valid);
    *ret_loss = loss_of(sequences, batch->B, valid);
    if (element) *element = saved;
exit:
    return status;
}

static ls_status differences_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    int r = ls_rank_index(rank);
    const double h = 1e-4, step[4] = {h, -h, 2 * h, -2 * h};
    double f[4];
    model m = {NULL, NULL, NULL, NULL};
    ls_real loss;
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), j->table, j->setup, j->values));
    LS_TRY(model_gradients(&m, j->batch, &loss));
    for (size_t i = 0; i < j->n; i++) {
        sample *s = &j->samples[i];
        ls_slot *slot = &m.store->slots[s->param];
        const ls_param *param = &j->table->params[s->param];
        ls_real *x = place_of(param, slot, slot->value, s->element);
        double at = j->values[place_in_table(j->table, s->param) + s->element];
        /* All ranks move together, each the copy that it has. To fourth order. */
        for (int k = 0; k < 4; k++) LS_TRY(loss_at(&m, j->batch, x, at + step[k], &f[k]));
        s->measured[r] = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h);
        s->held[r] = x != NULL;
        if (x) s->gradient[r] = *place_of(param, slot, slot->grad[0], s->element);
    }
exit:
    model_end(&m, NULL);
    return status;
}

START_TEST(every_parameter)
{
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i);
    static job j;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE); /* for its noise */
    ls_batch batch = tiny_batch_of(&ids, &config);
    double *values = fixture_noise(f.table), *largest = calloc(f.table->count, sizeof *largest);
    j = (job){f.table, whole_model(&config), values, &batch, {{0}}, 0};
    j.setup.gathered_loss = _i % 2;
    for (size_t i = 0; i < f.table->count; i++)
        for (size_t k = 0; k < SAMPLES; k++) {
            size_t n = ls_param_elements(&f.table->params[i]);
            sample s = {.param = i, .element = (k * n + n / 2) / SAMPLES};
            /* a row of the token embedding that is read */
            if (i == 0) s.element = (size_t)ids.tokens[7 * k] * config.d_model + 5;
            ck_assert_uint_lt(j.n, MOST_CASES);
            j.samples[j.n++] = s;
        }
    run_ranks(TP, differences_rank, &j);
    for (size_t i = 0; i < j.n; i++) {
        const sample *s = &j.samples[i];
        const ls_param *param = &f.table->params[s->param];
        int holders = 0;
        for (int r = 0; r < TP; r++) {
            if (!s->held[r]) continue;
            holders++;
            ck_assert_msg(fabs(s->measured[r] - s->gradient[r]) <= 2e-9,
                          "%s, %s element %zu: %.12g by differences, %.12g by hand", config.name,
                          param->name, s->element, s->measured[r], s->gradient[r]);
            if (fabs(s->gradient[r]) > largest[s->param]) largest[s->param] = fabs(s->gradient[r]);
        }
        ck_assert_msg(holders > 0, "%s, element %zu: nobody holds it", param->name, s->element);
    }
    for (size_t i = 0; i < f.table->count; i++) /* a key bias moves all scores alike */
        ck_assert_msg(largest[i] > 1e-5 ||
                          (f.table->params[i].role == LS_KEY_BIAS && config.position == LS_LEARNED),
                      "%s, %s: nothing to measure", config.name, f.table->params[i].name);
    free(values), free(largest);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("gradient", 120);
    tcase_add_loop_test(tests, every_parameter, 0, N_TINY_SERIAL);
    return run_tests();
}
