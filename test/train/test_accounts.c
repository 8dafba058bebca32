/* What a rank holds and sends, to the byte, against formulas. */
#include "lockstep/numerics/tree.h"
#include "lockstep/partition/share.h"
#include "verify/verify.h"
#include "run_fixture.h"
#include "run_tests.h"

static ls_train_result train(const ls_run *run)
{
    ls_train_result result;
    ls_status status = ls_train(run, NULL, &result);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return result;
}

/* Elements of one layer that every rank holds whole, that are cut over tp, and of one kv head
 * (weight columns and biases of key and value). */
typedef struct sizes {
    size_t whole, cut, kv_head;
} sizes;

static sizes layer_sizes(const ls_config *c)
{
    size_t D = c->d_model, F = c->d_ff, w = D / c->heads, bias = c->bias ? 1 : 0;
    size_t norms = 2 * D * (c->norm == LS_LAYER_NORM && c->bias ? 2 : 1);
    sizes s;
    s.whole = norms + bias * (D + D); /* norms, output and down biases    */
    s.cut = D * D + bias * D + D * D; /* query, output                    */
    s.cut += (c->activation == LS_SWIGLU ? 3 : 2) * D * F + bias * F; /* gate, up, down */
    s.kv_head = 2 * (D * w + bias * w);
    return s;
}

/* A rank's parameters, gradients and optimizer state: 1/tp of what is cut, all of what is not. */
static void check_memory(const ls_config *config)
{
    ls_text text = fixture_text();
    ls_run run = fixture_run(config, &text, 1);
    sizes s = layer_sizes(config);
    size_t D = config->d_model, H = config->heads, G = H / config->kv_heads;
    size_t vocab = 384 * D; /* 256 bytes padded to lcm(12, 128) */
    size_t ends_whole = D * (config->norm == LS_LAYER_NORM && config->bias ? 2 : 1) +
                        (config->position == LS_LEARNED ? config->seq * D : 0);
    int tp[16];
    size_t n = ls_legal_tp(config, tp, 16);

    ck_assert_uint_eq(n, 6);
    run.serial = false;
    for (size_t i = 0; i < n; i++) {
        size_t T = (size_t)tp[i];
        run.layout.tp = tp[i];
        ls_train_result result = train(&run);
        ck_assert_int_eq(result.ranks, tp[i]);
        for (size_t r = 0; r < T; r++) {
            /* kv heads from the first to the last that the rank's H / T query heads use */
            size_t first = r * (H / T) / G, last = ((r + 1) * (H / T) - 1) / G;
            size_t held = config->layers * (s.whole + s.cut / T + (last - first + 1) * s.kv_head) +
                          ends_whole + vocab / T * (config->tied ? 1 : 2);
            const size_t *bytes = result.rank[r].peak_bytes;
            ck_assert_uint_eq(bytes[LS_MEM_PARAMETERS], held * 4);
            ck_assert_uint_eq(bytes[LS_MEM_OPTIMIZER], 2 * held * 4);
            /* a tied embedding has a gradient for each of its uses until they are added */
            ck_assert_uint_eq(bytes[LS_MEM_GRADIENTS], (held + (config->tied ? vocab / T : 0)) * 4);
            ck_assert_uint_gt(bytes[LS_MEM_ACTIVATIONS], 0);
        }
        ls_train_result_free(&result);
    }
}

START_TEST(memory_gpt2)
{
    ls_config config = fixture_config("gpt2-nano");
    check_memory(&config);
}
END_TEST

START_TEST(memory_llama)
{
    ls_config config = fixture_config("llama-nano");
    check_memory(&config);
}
END_TEST

/* Activations kept from forward to backward, every number of them. Whole tokens inside the blocks:
 * q and o, k and v, probabilities, the inputs and the output of the MLP's activation, logits and
 * three numbers a token of the loss. Outside them own tokens, which are all without sequence
 * parallelism: the embedding, and per layer both norms' outputs, what stands after the attention,
 * the output; the last norm's output; a mean and a 1 / deviation for each token and norm. */
static void check_activations(const ls_config *config, bool sp)
{
    ls_text text = fixture_text();
    ls_run run = fixture_run(config, &text, 1);
    size_t H = config->heads, G = H / config->kv_heads, D = config->d_model, w = D / H;
    size_t L = config->layers, S = config->seq, B = run.batch, n = B * S;
    size_t statistics = config->norm == LS_LAYER_NORM ? 2 : 1;
    int tp[16];
    size_t degrees = ls_legal_tp(config, tp, 16);
    run.serial = false;
    run.layout.sp = sp;
    for (size_t i = 0; i < degrees; i++) {
        size_t T = (size_t)tp[i];
        run.layout.tp = tp[i];
        ls_train_result result = train(&run);
        for (size_t r = 0; r < T; r++) {
            size_t kv = ((r + 1) * (H / T) - 1) / G - r * (H / T) / G + 1;
            size_t own = sp ? B * ls_share_of(S, T, r).count : n;
            size_t attention = 2 * n * (H / T) * w + 2 * n * kv * w + B * (H / T) * S * S;
            size_t mlp = (config->activation == LS_SWIGLU ? 3 : 2) * n * (config->d_ff / T);
            size_t outside = own * D * (1 + 4 * L + 1) + own * statistics * (2 * L + 1);
            size_t loss = n * (384 / T) + 3 * n + B;
            ck_assert_uint_eq(result.rank[r].peak_bytes[LS_MEM_ACTIVATIONS],
                              4 * (L * (attention + mlp) + outside + loss));
        }
        ls_train_result_free(&result);
    }
}

START_TEST(activations)
{
    ls_config gpt2 = fixture_config("gpt2-nano"), llama = fixture_config("llama-nano");
    check_activations(&gpt2, _i);
    check_activations(&llama, _i);
    gpt2.seq = llama.seq = 5; /* not even shares, and empty ones */
    check_activations(&gpt2, _i);
    check_activations(&llama, _i);
}
END_TEST

/* What a rank of tp shares of the kv heads: how many with others, and elements of one of the two
 * reductions of each (dK or dV). */
typedef struct kv_shared {
    size_t heads, elements;
} kv_shared;

static kv_shared shared_kv(const ls_config *c, size_t T, size_t rank, size_t n_tokens)
{
    size_t H = c->heads, G = H / c->kv_heads, lo = rank * (H / T), hi = lo + H / T;
    kv_shared shared = {0, 0};
    for (size_t j = lo / G; j <= (hi - 1) / G; j++) {
        size_t from = lo > j * G ? lo - j * G : 0, to = hi < (j + 1) * G ? hi - j * G : G;
        if (to - from == G) continue;
        shared.heads++;
        shared.elements += ls_tree_forest(G, from, to, NULL) * n_tokens * (c->d_model / H);
    }
    return shared;
}

/* Calls and bytes per step. Megatron-LM: 2 all-reduces forward and 2 backward per layer; beside
 * them per step 1 for the embedding, 1 for the head backward, 2 for the loss, 1 for the norm, and 2
 * (dK, dV) per layer for each kv head that a rank shares.
 *
 * With sequence parallelism each of the first six is a reduce-scatter; per layer 2 all-gathers
 * forward and 4 backward, and 3 for both ends: the final norm's output, forward and once more
 * backward, and the embedding's gradient. The parameters of the norms take 1 small all-reduce per
 * layer and 1 for the final norm. */
static void check_counts(const ls_config *config, bool sp)
{
    ls_text text = fixture_text();
    ls_run run = fixture_run(config, &text, 3);
    size_t H = config->heads, D = config->d_model, L = config->layers, S = config->seq;
    size_t n_tokens = run.batch * S;
    size_t vectors = config->norm == LS_LAYER_NORM && config->bias ? 2 : 1;
    int tp[16];
    size_t n = ls_legal_tp(config, tp, 16);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, config), LS_OK);
    size_t granules = ls_param_table_granules(table);

    run.serial = false;
    run.layout.sp = sp;
    for (size_t i = 0; i < n; i++) {
        size_t T = (size_t)tp[i];
        run.layout.tp = tp[i];
        ls_train_result result = train(&run);
        for (size_t r = 0; r < T; r++) {
            size_t nodes = ls_tree_forest(H, r * (H / T), (r + 1) * (H / T), NULL);
            kv_shared shared = shared_kv(config, T, r, n_tokens);
            ls_share own = ls_share_of(S, T, r);
            size_t own_nodes = ls_tree_forest(S, own.first, own.first + own.count, NULL);
            /* what sums over a cut axis: four in a layer, the embedding, the head */
            size_t sums = 4 * L + 1 + 1;
            size_t sum_bytes = 4 * (4 * L * nodes + 1 + nodes) * n_tokens * D;
            size_t calls = L * 2 * shared.heads + 2 + 1;
            size_t bytes = 4 * L * 2 * shared.elements             /* kv heads */
                           + 4 * (n_tokens + nodes * 2 * n_tokens) /* loss     */
                           + 8 * granules;                         /* norm     */
            size_t norm_bytes = 4 * (2 * L + 1) * own_nodes * run.batch * vectors * D;
            size_t gathers = sp ? 6 * L + 3 : 0;
            const ls_comm_count *comm = result.rank[r].comm;
            calls += sp ? L + 1 : sums;
            bytes += sp ? norm_bytes : sum_bytes;
            ck_assert_uint_eq(comm[LS_OP_ALL_REDUCE].calls, 3 * calls);
            ck_assert_uint_eq(comm[LS_OP_ALL_REDUCE].bytes, 3 * bytes);
            ck_assert_uint_eq(comm[LS_OP_REDUCE_SCATTER].calls, sp ? 3 * sums : 0);
            ck_assert_uint_eq(comm[LS_OP_REDUCE_SCATTER].bytes, sp ? 3 * sum_bytes : 0);
            ck_assert_uint_eq(comm[LS_OP_ALL_GATHER].calls, 3 * gathers);
            ck_assert_uint_eq(comm[LS_OP_ALL_GATHER].bytes,
                              3 * gathers * 4 * run.batch * own.count * D);
            for (int op = 0; op < LS_OP_COUNT; op++)
                if (op != LS_OP_ALL_REDUCE && op != LS_OP_REDUCE_SCATTER && op != LS_OP_ALL_GATHER)
                    ck_assert_uint_eq(comm[op].calls, 0);
        }
        ls_train_result_free(&result);
    }
    ls_param_table_destroy(&table);
}

START_TEST(counts_gpt2)
{
    ls_config config = fixture_config("gpt2-nano");
    check_counts(&config, _i);
    config.seq = 13; /* token shares that are not equal */
    check_counts(&config, _i);
}
END_TEST

START_TEST(counts_llama)
{
    ls_config config = fixture_config("llama-nano");
    check_counts(&config, _i);
    config.seq = 13; /* token shares that are not equal */
    check_counts(&config, _i);
}
END_TEST

/* Row-first: one more all-reduce forward, and two all-gathers in place of one all-reduce backward.
 */
START_TEST(counts_row_first)
{
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    config.mlp_cut = LS_MLP_ROW_FIRST;
    ls_run run = fixture_run(&config, &text, 1);
    run.serial = false;
    run.layout.tp = 4;
    ls_train_result result = train(&run);
    size_t L = config.layers, n_tokens = run.batch * config.seq;
    for (int r = 0; r < 4; r++) {
        const ls_comm_count *comm = result.rank[r].comm;
        ck_assert_uint_eq(comm[LS_OP_ALL_REDUCE].calls, L * (2 + 1 + 1) + 5);
        ck_assert_uint_eq(comm[LS_OP_ALL_GATHER].calls, L * 2);
        ck_assert_uint_eq(comm[LS_OP_ALL_GATHER].bytes,
                          L * 4 * n_tokens * (config.d_ff + config.d_model) / 4);
    }
    ls_train_result_free(&result);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("memory and communication", 120);
    tcase_add_test(tests, memory_gpt2);
    tcase_add_test(tests, memory_llama);
    tcase_add_loop_test(tests, activations, 0, 2);
    tcase_add_loop_test(tests, counts_gpt2, 0, 2);
    tcase_add_loop_test(tests, counts_llama, 0, 2);
    tcase_add_test(tests, counts_row_first);
    return run_tests();
}
