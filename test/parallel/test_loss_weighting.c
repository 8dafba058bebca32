/* What a target weighs: every valid target of the global batch the same, at every degree and
 * however the batch is cut into micro-batches; ignored ones nothing. */
#include "known_loss.h"
#include "run_tests.h"

typedef struct job {
    const known_loss *known;
    const example *example;
    size_t S, micro; /* tokens of a sequence, sequences of a micro-batch */
    bool gathered;
    int32_t tokens[MOST_SEQUENCES * MOST_TOKENS], targets[MOST_SEQUENCES * MOST_TOKENS];
    ls_real loss[MOST_RANKS];
    int64_t valid[MOST_RANKS];
    double dhead[V];           /* gradient of the entries that meet the shift, put together */
    double dshift[MOST_RANKS]; /* of the shift itself */
} job;

static ls_batch micro_batch(const job *j, size_t first)
{
    ls_batch batch = {.B = j->micro,
                      .S = j->S,
                      .first = first,
                      .tokens = j->tokens + first * j->S,
                      .targets = j->targets + first * j->S};
    return batch;
}

/* Adds this micro-batch's gradients to the job's. */
static void add_gradients(job *j, const model *m, int rank)
{
    const ls_slot *head = ls_store_slot(m->store, LS_HEAD_WEIGHT, 0);
    const ls_slot *shift = ls_store_slot(m->store, LS_FINAL_NORM_SHIFT, 0);
    const ls_param *param =
        &j->known->table->params[ls_param_find(j->known->table, LS_HEAD_WEIGHT, 0)];
    size_t first = head->shard.first * param->axis.granule;
    for (size_t row = 0; row < head->rows && first + row < V; row++)
        j->dhead[first + row] += (double)head->grad[0][row * 12];
    j->dshift[rank] += (double)shift->grad[0][0];
}

static ls_status weighting_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    int r = ls_rank_index(rank);
    ls_stage_setup setup = whole_model(&j->known->table->config);
    model m = {NULL, NULL, NULL, NULL};
    ls_real token_losses[MOST_SEQUENCES];
    ls_sequence_losses losses = {token_losses, NULL};
    ls_valid valid, all = {0, 0};

    setup.gathered_loss = j->gathered;
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), j->known->table, setup, j->known->values));
    for (size_t first = 0; first < j->example->B; first += j->micro) {
        ls_batch batch = micro_batch(j, first);
        LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &batch, NULL, NULL));
        losses_put(losses, first, ls_micro_batch_losses(m.micro_batch, &valid), j->micro);
        all = ls_valid_add(all, valid);
    }
    j->valid[r] = all.targets;
    j->loss[r] = loss_of(losses, j->example->B, all);
    for (size_t first = 0; first < j->example->B; first += j->micro) {
        ls_batch batch = micro_batch(j, first);
        LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &batch, NULL, NULL));
        LS_TRY(ls_stage_backward(m.stage, m.micro_batch, NULL, all, NULL));
        ls_stage_finish_gradients(m.stage);
        ls_add_uses(m.store);
        add_gradients(j, &m, r);
    }
exit:
    model_end(&m, NULL);
    return status;
}

static void ck_weights(const job *j, int tp)
{
    const example *e = j->example;
    double dshift = example_shift_gradient(e, j->known);
    for (int r = 0; r < tp; r++) {
        ck_assert_int_eq(j->valid[r], (int64_t)example_targets(e));
        ck_assert_msg(fabs((double)j->loss[r] - e->loss) <= 2e-6, "%s: %.9g at tp %d, rank %d",
                      e->what, (double)j->loss[r], tp, r);
        /* Reduced once over the ranks, and on all of them. */
        ck_assert_msg(fabs(j->dshift[r] - dshift) <= 1e-5, "%s: dshift %.9g, right is %.9g, tp %d",
                      e->what, j->dshift[r], dshift, tp);
    }
    for (size_t k = 1; k < 8; k++) {
        if (row_of_loss[k] < 0) continue;
        double right = example_row_gradient(e, j->known, k), found = j->dhead[row_of_loss[k]];
        ck_assert_msg(fabs(found - right) <= 1e-6, "%s: row of %zu has %.9g, right is %.9g, tp %d",
                      e->what, k, found, right, tp);
    }
}

START_TEST(every_target_weighs_the_same)
{
    known_loss known = known_loss_begin();
    for (int i = 0; i < LEGAL_DEGREES; i++)
        for (size_t micro = 1; micro <= examples[_i].B; micro++) {
            if (examples[_i].B % micro) continue;
            static job j;
            memset(&j, 0, sizeof j);
            j.known = &known;
            j.example = &examples[_i];
            j.micro = micro;
            j.gathered = (size_t)i % 2 == micro % 2;
            example_fill(j.example, &j.S, j.tokens, j.targets);
            run_ranks(legal_degrees[i], weighting_rank, &j);
            ck_weights(&j, legal_degrees[i]);
        }
    known_loss_end(&known);
}
END_TEST

/* Models of every kind, all targets ignored, and all labels: loss +0, every gradient exactly +0 on
 * every rank, also where a rank's part of a sum is no number at all, and a norm of 0; no 0 / 0. */
START_TEST(nothing_to_learn_from)
{
    static const ls_real zero = 0;
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = tiny_batch_of(&ids, &config);
    for (size_t t = 0; t < TINY_TOKENS; t++) ids.targets[t] = LS_IGNORE;
    for (size_t b = 0; b < TINY_B; b++) ids.order[b] = LS_IGNORE;
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i];
        pass p = {.table = table, .setup = whole_model(&config), .values = values, .batch = &batch};
        p.setup.gathered_loss = i % 2;
        run_ranks(tp, pass_rank, &p);
        for (int r = 0; r < tp; r++) {
            ck_same(&p.loss[r], &zero, 1, "loss", tp);
            ck_assert(p.squares[r] == 0);
            for (size_t k = 0; k < table->count; k++) {
                const ls_slot *slot = &p.store[r]->slots[k];
                for (int use = 0; use < table->params[k].uses; use++)
                    for (size_t e = 0; e < slot->rows * slot->cols; e++)
                        if (memcmp(&slot->grad[use][e], &zero, sizeof zero) != 0)
                            ck_abort_msg("%s, tp %d, rank %d, element %zu: %a",
                                         table->params[k].name, tp, r, e,
                                         (double)slot->grad[use][e]);
            }
        }
        pass_end(&p);
    }
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("loss weighting", 60);
    tcase_add_loop_test(tests, every_target_weighs_the_same, 0, EXAMPLES);
    tcase_add_loop_test(tests, nothing_to_learn_from, 0, N_TINY_SERIAL);
    return run_tests();
}
