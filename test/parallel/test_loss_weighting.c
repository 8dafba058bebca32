/* What a target weighs: every valid target of the global batch the same, at every degree and
 * however the batch is cut into micro-batches; ignored ones nothing. */
#include "stage_fixture.h"

/* A model whose loss is known beforehand: only head row v has an entry, z_v, that meets the final
 * norm's shift (1, 0, ...), so every token's logits are z. Five rows, spread over the ranks, have
 * z_v = -k for k = 1, 2, 3, 4, 7; z_0 makes the sum of exponentials 1; all else is far below. So a
 * target in row `row_of_loss[k]` costs k. */
enum { V = 300, MOST_TOKENS = 102 };

static const int32_t row_of_loss[8] = {-1, 40, 299, 130, 200, -1, -1, 75};

typedef struct known_loss {
    ls_param_table *table;
    double *values;
    double p[8]; /* e^-k: what softmax gives row_of_loss[k] */
} known_loss;

static known_loss known_loss_begin(void)
{
    ls_config config = tiny_base("known loss");
    known_loss k = {NULL, NULL, {0}};
    config.layers = 1;
    config.heads = config.kv_heads = config.d_model = config.d_ff = 12;
    config.seq = MOST_TOKENS;
    config.vocab = V;
    config.tied = false;
    config.dropout = 0;
    ck_assert_msg(ls_param_table_create(&k.table, &config) == LS_OK, "%s", ls_error_text());
    k.values = calloc(ls_param_table_elements(k.table), sizeof *k.values);
    double *shift =
        k.values + place_in_table(k.table, ls_param_find(k.table, LS_FINAL_NORM_SHIFT, 0));
    double *head = k.values + place_in_table(k.table, ls_param_find(k.table, LS_HEAD_WEIGHT, 0));
    double rest = 1;
    shift[0] = 1;
    for (size_t v = 0; v < V; v++) head[v * 12] = -1000;
    for (int cost = 1; cost < 8; cost++) {
        if (row_of_loss[cost] < 0) continue;
        head[row_of_loss[cost] * 12] = -cost;
        rest -= k.p[cost] = exp(-cost);
    }
    head[0] = log(rest);
    return k;
}

static void known_loss_end(known_loss *k)
{
    free(k->values);
    ls_param_table_destroy(&k->table);
}

/* ---- batches ---- */

enum { MOST_SEQUENCES = 4 };

/* Sequence b has counts[b] targets of cost costs[b]; they begin at place b, all others are ignored.
 */
typedef struct example {
    const char *what;
    size_t B, counts[MOST_SEQUENCES], costs[MOST_SEQUENCES];
    double loss;
} example;

static const example examples[] = {
    {"samples of 10 and 100 targets (mean of means: 1.5)", 2, {10, 100}, {1, 2}, 210.0 / 110},
    {"sums 1 of 1 and 9 of 3 (mean of means: 2, not divided: 10)", 2, {1, 3}, {1, 3}, 2.5},
    {"five targets of 1 and one of 7 (mean of means: 4)", 2, {5, 1}, {1, 7}, 2},
    {"1, 2, 3, 4 targets (in pairs: 2.62, alone: 2.5)", 4, {1, 2, 3, 4}, {1, 2, 3, 4}, 3},
    {"a sequence without targets (0 / 0: NaN; as a mean of 0: 1.5)", 2, {3, 0}, {3, 1}, 3},
    {"one of six tokens ignored (over all rows: 2.5)", 1, {5}, {3}, 3},
    {"no target at all", 3, {0, 0, 0}, {1, 2, 3}, 0},
};
enum { EXAMPLES = sizeof examples / sizeof examples[0] };

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

static void fill(job *j)
{
    j->S = 0;
    for (size_t b = 0; b < j->example->B; b++)
        if (j->S < b + j->example->counts[b] + 1) j->S = b + j->example->counts[b] + 1;
    ck_assert_uint_le(j->S, MOST_TOKENS);
    for (size_t t = 0; t < j->example->B * j->S; t++) {
        size_t b = t / j->S, s = t % j->S;
        bool counts = s >= b && s < b + j->example->counts[b];
        j->tokens[t] = (int32_t)(t * 7 % V);
        j->targets[t] = counts ? row_of_loss[j->example->costs[b]] : LS_IGNORE;
    }
}

/* Against what the weights 1 / valid say: the gradient of row v's entry is the sum over the targets
 * of (p_v - [target is v]) / valid, p_v - n_v / valid; a token of the short sample weighs 1/110,
 * not 0.05, one of the long sample not 0.005. */
static void ck_weights(const job *j, int tp)
{
    const example *e = j->example;
    size_t valid = 0;
    double dshift = 0;
    for (size_t b = 0; b < e->B; b++) valid += e->counts[b];
    for (int r = 0; r < tp; r++) {
        ck_assert_int_eq(j->valid[r], (int64_t)valid);
        ck_assert_msg(fabs((double)j->loss[r] - e->loss) <= 2e-6, "%s: %.9g at tp %d, rank %d",
                      e->what, (double)j->loss[r], tp, r);
    }
    for (size_t k = 1; k < 8; k++) {
        if (row_of_loss[k] < 0) continue;
        double right = valid > 0 ? j->known->p[k] : 0, found = j->dhead[row_of_loss[k]];
        for (size_t b = 0; b < e->B; b++)
            if (e->costs[b] == k && valid > 0) right -= (double)e->counts[b] / (double)valid;
        ck_assert_msg(fabs(found - right) <= 1e-6, "%s: row of %zu has %.9g, right is %.9g, tp %d",
                      e->what, k, found, right, tp);
        dshift -= right * (double)k;
    }
    if (valid > 0) { /* row 0, too: its share of the softmax */
        const double *head =
            j->known->values +
            place_in_table(j->known->table, ls_param_find(j->known->table, LS_HEAD_WEIGHT, 0));
        dshift += exp(head[0]) * head[0];
    }
    /* Reduced once over the ranks, and on all of them. */
    for (int r = 0; r < tp; r++)
        ck_assert_msg(fabs(j->dshift[r] - dshift) <= 1e-5, "%s: dshift %.9g, right is %.9g, tp %d",
                      e->what, j->dshift[r], dshift, tp);
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
            fill(&j);
            run_ranks(legal_degrees[i], weighting_rank, &j);
            ck_weights(&j, legal_degrees[i]);
        }
    known_loss_end(&known);
}
END_TEST

/* Models of every kind, all targets ignored: loss +0, every gradient exactly +0 on every rank, also
 * where a rank's part of a sum is no number at all, and a norm of 0; no 0 / 0. */
START_TEST(nothing_to_learn_from)
{
    static const ls_real zero = 0;
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    for (size_t t = 0; t < TINY_TOKENS; t++) ids.targets[t] = LS_IGNORE;
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
    Suite *suite = suite_create("weights of the targets");
    TCase *tests = tcase_create("loss weighting");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_target_weighs_the_same, 0, EXAMPLES);
    tcase_add_loop_test(tests, nothing_to_learn_from, 0, N_TINY);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
