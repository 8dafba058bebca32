/* Sums over data-parallel replicas: gradients and losses whose values are known (EXACT), and any
 * cut of any batch against the tree over all sequences (ORDERED). Gradients are set by hand: each
 * sequence has one of its own, and a replica holds the nodes that its run of them makes. */
#include "lockstep/parallel/data/data_parallel.h"

#include "stage_fixture.h"
#include "run_tests.h"

enum { MOST_SEQUENCES = 16 };

typedef struct replicas {
    const ls_param_table *table;
    size_t bounds[MOST_RANKS + 1], B;
    const ls_real *per_sequence; /* gradient of element i of the slab: sequence's + i % 3 times the
                                    sequence's of `slope` */
    const ls_real *slope;
    ls_real found[MOST_RANKS][3]; /* one element of each of the three kinds; NaN: they differ */

    ls_real loss[MOST_RANKS];
    int64_t valid;
} replicas;

static ls_real gradient_of(const replicas *x, size_t sequence, size_t kind)
{
    return x->per_sequence[sequence] + (ls_real)kind * x->slope[sequence];
}

/* T over the sequences lo .. hi. */
static ls_real node_of(const replicas *x, size_t lo, size_t hi, size_t kind)
{
    ls_real leaves[MOST_SEQUENCES];
    for (size_t b = lo; b < hi; b++) leaves[b - lo] = gradient_of(x, b, kind);
    return ls_tree_sum(leaves, hi - lo, 1);
}

static ls_status replica_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    replicas *x = argument;
    int r = ls_rank_index(rank);
    ls_group *dp = ls_rank_world_group(rank);
    ls_batch_cut cut = {x->B, x->bounds};
    size_t lo = x->bounds[r], hi = x->bounds[r + 1];
    ls_node nodes[LS_FOREST_MAX];
    ls_store *store = NULL;
    ls_real own[MOST_SEQUENCES];
    size_t n = ls_tree_forest(x->B, lo, hi, nodes);
    LS_TRY(ls_store_create(&store, x->table, NULL, NULL));
    LS_TRY(ls_store_gradient_slots(store, n > 0 ? n : 1));
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < store->gradient_count; i++)
            store->gradient_slab[j * store->gradient_count + i] =
                node_of(x, nodes[j].lo, nodes[j].hi, i % 3);
    LS_TRY(ls_reduce_gradients(dp, store, cut));
    for (size_t i = 0; i < store->gradient_count; i++) {
        ls_real value = store->gradient_slab[i], *found = &x->found[r][i % 3];
        *found = i < 3 || memcmp(found, &value, sizeof value) == 0 ? value : (ls_real)NAN;
    }
    for (size_t b = lo; b < hi; b++) own[b - lo] = gradient_of(x, b, 0);
    LS_TRY(ls_reduce_loss(dp, (ls_sequence_losses){own, NULL}, cut, (ls_valid){x->valid, 0},
                          &x->loss[r]));
exit:
    ls_store_destroy(&store);
    return status;
}

static ls_param_table *small_table(void)
{
    ls_config config = tiny_base("small");
    ls_param_table *table;
    config.layers = 1;
    config.heads = config.kv_heads = 1;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    return table;
}

/* Any number of sequences over any number of replicas, which may have none. */
START_TEST(any_cut_is_the_tree)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    ls_param_table *table = small_table();
    ls_real *noise = filled(MOST_SEQUENCES, 1, 0), *slope = filled(MOST_SEQUENCES, 2, 0);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        for (size_t B = 1; B <= MOST_SEQUENCES; B += 1 + B / 8) {
            replicas x = {.table = table, .B = B, .per_sequence = noise, .slope = slope};
            int P = ranks[i];
            x.valid = (int64_t)B;
            ls_share_bounds(B, (size_t)P, x.bounds);
            run_ranks(P, replica_rank, &x);
            ls_real loss = (node_of(&x, 0, B, 0) + 0) / (ls_real)B;
            for (int r = 0; r < P; r++) {
                for (size_t kind = 0; kind < 3; kind++) {
                    ls_real right = node_of(&x, 0, B, kind);
                    ck_same(&x.found[r][kind], &right, 1, "gradient", P);
                }
                ck_same(&x.loss[r], &loss, 1, "loss", P);
            }
        }
    free(noise), free(slope);
    ls_param_table_destroy(&table);
}
END_TEST

/* Sequences' gradients and losses as they come, already weighted by 1 / targets; `right` is their
 * sum, and the loss right / valid. */
static const struct {
    const char *what;
    int replicas;
    size_t B;
    ls_real g[9];
    ls_real right;
    int64_t valid;
    ls_real loss;
} known[] = {
    {"one replica, three sequences of 1 (added to itself: 7)", 1, 3, {1, 1, 1}, 3, 1, 3},
    {"only the last counts: 100, first: 1, mean: 37", 3, 3, {1, 10, 100}, 111, 1, 111},
    {"six parts in three replicas (any left out or doubled shows)",
     3,
     6,
     {1, 2, 4, 8, 16, 32},
     63,
     1,
     63},
    {"3 of 4 replicas have something (divided by 4: 0.75)", 4, 4, {1, 1, 1, 0}, 3, 3, 1},
    {"eight gradients of 1/8 the sample's (not reduced: 3.75 and 60; the last alone: 18.75, 45)",
     2,
     8,
     {0.125, 0.25, 0.5, 1, 2, 4, 8, 16},
     31.875,
     1,
     31.875},
    {"means of (1, 2) and (5, 8) over two replicas, added over two micro-batches (early one not "
     "reduced: 6, 10)",
     2,
     4,
     {0.5, 1, 2.5, 4},
     8,
     1,
     8},
    {"1 to 8, mean 4.5 (summed: 36; divided twice: 0.5625)",
     4,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     36,
     8,
     4.5},
    {"sums 1 of 1 target and 9 of 3 (mean of means: 2; not divided: 10; by ranks: 5)",
     2,
     2,
     {1, 9},
     10,
     4,
     2.5},
    {"5 targets of 1, one of 7 (mean of means: 4)", 2, 2, {5, 7}, 12, 6, 2},
    {"losses 2 + 4, and a replica with none (mean with 0: 1.5)", 2, 2, {6, 0}, 6, 2, 3},
    {"0 to 8 in two replicas of 5 and 4 (padded: 3.6 or 4.4; of means: 4.25)",
     2,
     9,
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     36,
     9,
     4},
    {"weighted 2 + 4 + 3 * 1 + 3 * 3 over weights 8 (mean of means: 2.5; by count: 4.5)",
     2,
     2,
     {6, 12},
     18,
     8,
     2.25},
    {"no target at all", 3, 3, {0, 0, 0}, 0, 0, 0},
};

START_TEST(known_sums)
{
    static const ls_real flat[MOST_SEQUENCES];
    ls_param_table *table = small_table();
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        replicas x = {.table = table, .B = known[i].B, .per_sequence = known[i].g, .slope = flat};
        int P = known[i].replicas;
        x.valid = known[i].valid;
        ls_share_bounds(x.B, (size_t)P, x.bounds);
        run_ranks(P, replica_rank, &x);
        for (int r = 0; r < P; r++) {
            ck_same(&x.found[r][0], &known[i].right, 1, known[i].what, P);
            ck_same(&x.loss[r], &known[i].loss, 1, known[i].what, P);
        }
    }
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- two losses ---- */

typedef struct two_losses {
    ls_real tokens[4], order[4];
    ls_valid valid;
    ls_real loss[MOST_RANKS];
} two_losses;

static ls_status two_losses_rank(ls_rank *rank, void *argument)
{
    two_losses *x = argument;
    int r = ls_rank_index(rank);
    ls_group *dp = ls_rank_world_group(rank);
    size_t bounds[MOST_RANKS + 1];
    ls_share_bounds(4, (size_t)ls_group_size(dp), bounds);
    ls_sequence_losses own = {x->tokens + bounds[r], x->order + bounds[r]};
    return ls_reduce_loss(dp, own, (ls_batch_cut){4, bounds}, x->valid, &x->loss[r]);
}

/* A second loss has a count of its own: 3 + 6 + 9 over its 3 labels is 6, not 4.5 over the 4
 * targets of the first; no label or no target is no 0 / 0, and a sum of nothing is +0. */
START_TEST(each_loss_has_its_own_count)
{
    static const ls_real N = (ls_real)-0.0;
    two_losses cases[] = {{{1, 2, 3, 6}, {3, N, 6, 9}, {4, 3}, {0}},
                          {{1, 2, 3, 6}, {N, N, N, N}, {4, 0}, {0}},
                          {{N, N, N, N}, {3, N, 6, 9}, {0, 3}, {0}},
                          {{N, N, N, N}, {N, N, N, N}, {0, 0}, {0}},
                          {{N, N, N, N}, {N, N, N, N}, {2, 1}, {0}}};
    static const ls_real right[] = {3 + 6, 3, 6, 0, 0};
    for (size_t i = 0; i < 5; i++)
        for (int dp = 1; dp <= 4; dp++) {
            run_ranks(dp, two_losses_rank, &cases[i]);
            for (int r = 0; r < dp; r++) ck_same(&cases[i].loss[r], &right[i], 1, "loss", dp);
        }
}
END_TEST

/* ---- counts ---- */

typedef struct counting {
    int32_t targets[MOST_RANKS][8];
    size_t held[MOST_RANKS]; /* sequences of one token; may be none */
    ls_valid valid[MOST_RANKS];
} counting;

static ls_status counting_rank(ls_rank *rank, void *argument)
{
    counting *x = argument;
    int r = ls_rank_index(rank);
    ls_config config = tiny_base("counting");
    ls_batch batch = {.B = x->held[r], .S = 1, .targets = x->targets[r]};
    return ls_count_valid(ls_rank_world_group(rank), &config, &batch, &x->valid[r]);
}

/* Counts of 5 and 1, with replicas whose targets are all ignored or that have no sequence: 6 on
 * all, not the own 5, 1 and 0; and none at all. */
START_TEST(counts_are_global)
{
    static const int32_t I = LS_IGNORE;
    counting x = {.targets = {{1, 2, I, 3, 4, 5}, {I, I, 7, I}, {I, I, I}, {0}},
                  .held = {6, 4, 3, 0}};
    run_ranks(4, counting_rank, &x);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(x.valid[r].targets, 6);
    run_ranks(1, counting_rank, &x);
    ck_assert_int_eq(x.valid[0].targets, 5);
    for (int r = 0; r < 4; r++) x.held[r] = r < 2 ? 0 : 3;
    memset(x.targets[3], 0xff, sizeof x.targets[3]);
    for (size_t t = 0; t < 3; t++) x.targets[3][t] = I;
    run_ranks(4, counting_rank, &x);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(x.valid[r].targets, 0);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("sums over replicas", 60);
    tcase_add_test(tests, any_cut_is_the_tree);
    tcase_add_test(tests, known_sums);
    tcase_add_test(tests, each_loss_has_its_own_count);
    tcase_add_test(tests, counts_are_global);
    return run_tests();
}
