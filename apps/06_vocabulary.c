/* 06_vocabulary.c - the embedding and the loss over a vocabulary that is cut over ranks.
 *
 * Source: Megatron-LM (arXiv 1909.08053), section 3, on the input and output embedding. Rank r owns
 * some rows of E (V x D), which serves at both ends:
 *
 *     e    = E[ids]                        who lacks the row gives -0; all-reduce of N D
 *     z_r  = e E_r^T                       logits of own columns: nothing is sent
 *     loss = log(sum exp(z - max)) - (z_target - max)
 *
 * Gathered, all logits go to every rank: N V numbers. Fused, three numbers per token are enough:
 * the maximum, then the sum of exponentials and the target's logit (a fourth, the sum of logits,
 * with label smoothing). Backward, dz_r needs nothing more; de = sum over r of dz_r E_r is a sum
 * over the vocabulary, so f: an all-reduce of N D.
 *
 * Padding: E has H granules and a multiple of lcm(H, 128) rows, so that it can be cut at every
 * legal P. The rows from V on are in no softmax, and their gradient is +0.
 *
 * Nothing is -0: x + (-0) is x for every x, but -0 + (+0) is +0, and a bit is lost.
 *
 * Tied: E's gradient has two parts, one per use, each a sum of its own; they are added at the end,
 * the input's first. */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 6, N = B * S, D = 8, MAX_HEADS = 64, MAX_V = 2000, MAX_ROWS = 8192 };
static const ls_axis tokens = {B, S}, width = {1, D};
static size_t V = 250, rows, bounds[MAX_HEADS + 1]; /* rows: V padded */
static ls_cut vocab;                                /* the rows, and who owns which granules */
static int engine = LS_ENGINE_PORTABLE;
static double smoothing;
static int32_t ids[N], targets[N];
static float factor; /* 1 / number of valid targets */

/* The serial run: its input, and what it makes of it forward and backward. */
static struct {
    float E[MAX_ROWS * D], e[N * D], z[N * MAX_ROWS], max[N], sum_exp[N], loss[N];
    float dz[N * MAX_ROWS], de[N * D], dE_in[MAX_ROWS * D], dE[MAX_ROWS * D];
} s;

static ls_status product(ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k, const float *a,
                         size_t lda, const float *b, size_t ldb, float *c)
{
    return ls_gemm((ls_engine)engine, ta, tb, m, n, k, a, lda, b, ldb, c, ls_axis_extent(n), false);
}

/* Both ends as one thread computes them. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    static float per_granule[2][MAX_HEADS * N], sum_z[N], z_target[N];
    ls_axis v = vocab.whole, granules = ls_axis_whole(v.granules);
    ls_vocab_shard all = {v, 0, V};
    ls_embedding_forward(s.e, s.E, ids, N, D, 0, rows);
    LS_TRY(product(LS_NO_TRANS, LS_TRANS, tokens, v, width, s.e, D, s.E, D, s.z));
    ls_cross_entropy_max(s.max, s.z, N, rows, all);
    ls_cross_entropy_sums(per_granule[0], per_granule[1], z_target, s.z, s.max, targets, N, rows,
                          all);
    ls_tree_sum_rows(s.sum_exp, per_granule[0], granules, N, N);
    ls_tree_sum_rows(sum_z, per_granule[1], granules, N, N);
    ls_cross_entropy_loss(s.loss, s.max, s.sum_exp, sum_z, z_target, targets, N, V, smoothing);

    ls_cross_entropy_backward(s.dz, s.z, s.max, s.sum_exp, targets, N, rows, all, smoothing,
                              factor);
    /* z = e E^T: dE = dz^T e, de = dz E; e = E[ids]: dE = sum of de over the tokens of a row */
    LS_TRY(product(LS_TRANS, LS_NO_TRANS, v, width, tokens, s.dz, rows, s.e, D, s.dE));
    LS_TRY(product(LS_NO_TRANS, LS_NO_TRANS, tokens, width, v, s.dz, rows, s.E, D, s.de));
    LS_TRY(ls_embedding_backward(s.dE_in, s.de, ids, tokens, D, 0, rows));
    ls_normalize_zero(s.dE_in, rows * D);
    ls_add(s.dE, s.dE_in, s.dE, rows * D);
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
enum { EMBEDDING, FUSED, GATHERED, F, COUNTS };
static struct slot {
    ls_comm_count counts[COUNTS];
    size_t found, compared, different; /* found: tokens whose row it owns */
    float minus_zero[2];
} slots[MAX_HEADS];

/* The row of token 0 begins with -0. What arrives when the others put -0 there, what with +0? */
static ls_status show_zeros(ls_group *group, bool own_row, float result[2])
{
    ls_status status = LS_OK;
    size_t one_each[MAX_HEADS + 1], members = (size_t)ls_group_size(group);
    for (size_t r = 0; r <= members; r++) one_each[r] = r;
    ls_forest forest = {members, one_each};
    float part[2] = {-0.0f, own_row ? -0.0f : +0.0f};
    LS_TRY(ls_all_reduce_forest(group, result, part, 2, LS_F32, &forest));
exit:
    return status;
}

/* What the rank has counted under an operation since the last call, *before. */
static ls_comm_count since(const ls_rank *rank, ls_operation operation, ls_comm_count *before)
{
    ls_comm_count now = ls_rank_count(rank, operation);
    ls_comm_count between = {now.calls - before->calls, now.bytes - before->bytes};
    *before = now;
    return between;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    int me = ls_rank_index(rank);
    struct slot *slot = &slots[me];
    ls_axis held = ls_cut_held(&vocab, me);
    size_t v0 = bounds[me] * held.granule, v = ls_axis_extent(held), logical = V;
    ls_arena *arena = NULL;
    ls_comm_count seen[2] = {{0, 0}, {0, 0}};

    ls_block own_rows = {D, v0, v, 0, D}, columns = {rows, 0, N, v0, v};
    ls_block token_rows = {D, 0, N, 0, D}, per_token = {N, 0, 1, 0, N};
    float *E, *e, *z, *max, *sum_exp, *loss, *max_g, *sum_exp_g, *loss_g, *dz, *de, *dE, *dE_in;
    const struct {
        float **own, *whole;
        ls_block block;
    } tensors[] = {{&E, s.E, own_rows},
                   {&e, s.e, token_rows},
                   {&z, s.z, columns},
                   {&max, s.max, per_token},
                   {&sum_exp, s.sum_exp, per_token},
                   {&loss, s.loss, per_token},
                   {&max_g, s.max, per_token},
                   {&sum_exp_g, s.sum_exp, per_token},
                   {&loss_g, s.loss, per_token},
                   {&dz, s.dz, columns},
                   {&de, s.de, token_rows},
                   {&dE_in, s.dE_in, own_rows},
                   {&dE, s.dE, own_rows}};
    const size_t n_tensors = sizeof tensors / sizeof *tensors;
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    for (size_t i = 0; i < n_tensors; i++)
        LS_TRY(ls_arena_alloc(arena, ls_block_count(tensors[i].block), sizeof(float),
                              (void *)tensors[i].own));
    ls_block_take(LS_F32, E, s.E, own_rows);
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    logical = rows; /* padding in the softmax */
#endif

    ls_tensor_parallel tp = {
        .group = ls_rank_world_group(rank), .engine = (ls_engine)engine, .temporary = arena};
    LS_TRY(ls_vocab_embedding_forward(&tp, e, E, ids, tokens, D, &vocab));
    slot->counts[EMBEDDING] = since(rank, LS_OP_ALL_REDUCE, &seen[0]);
    LS_TRY(product(LS_NO_TRANS, LS_TRANS, tokens, held, width, e, D, E, D, z));
    LS_TRY(ls_vocab_cross_entropy_forward(&tp, loss, max, sum_exp, z, targets, N, &vocab, logical,
                                          smoothing));
    slot->counts[FUSED] = since(rank, LS_OP_ALL_REDUCE, &seen[0]);
    LS_TRY(ls_gathered_cross_entropy_forward(&tp, loss_g, max_g, sum_exp_g, z, targets, N, &vocab,
                                             logical, smoothing));
    slot->counts[GATHERED] = since(rank, LS_OP_ALL_GATHER, &seen[1]);

    ls_vocab_cross_entropy_backward(&tp, dz, z, max, sum_exp, targets, N, &vocab, logical,
                                    smoothing, factor);
    LS_TRY(product(LS_TRANS, LS_NO_TRANS, held, width, tokens, dz, v, e, D, dE));
    ls_gemm_term term = {dz, v, E, D, held.granule, 1, 0};
    LS_TRY(ls_reduced_product(&tp, LS_NO_TRANS, tokens, width, &vocab, &term, 1, de));
    slot->counts[F] = since(rank, LS_OP_ALL_REDUCE, &seen[0]);
    LS_TRY(ls_vocab_embedding_backward(&tp, dE_in, de, ids, tokens, D, &vocab));
    ls_normalize_zero(dE_in, v * D);
    ls_add(dE, dE_in, dE, v * D);

    slot->found = slot->compared = slot->different = 0;
    for (size_t t = 0; t < N; t++) slot->found += v0 <= (size_t)ids[t] && (size_t)ids[t] < v0 + v;
    for (size_t i = 0; i < n_tensors; i++) {
        slot->compared += ls_block_count(tensors[i].block);
        slot->different +=
            ls_block_differ(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
    bool own_row = v0 <= (size_t)ids[0] && (size_t)ids[0] < v0 + v;
    LS_TRY(show_zeros(tp.group, own_row, slot->minus_zero));
exit:
    ls_arena_destroy(&arena);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

/* Runs both ends on `ranks` ranks and prints what each held and sent. */
static ls_status show(size_t ranks)
{
    ls_status status = LS_OK;
    const size_t kinds = smoothing > 0 ? 3 : 2;
    static const int field[COUNTS] = {7, 14, 13, 7};
    size_t compared = 0, different = 0;
    ls_share_bounds(vocab.whole.granules, ranks, bounds);
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("\n%zu rank%s, label smoothing %g\n", ranks, ranks > 1 ? "s" : "", smoothing);
    printf("      rows of E     those  tokens  partials        e      fused loss  gathered loss    "
           "   de\n");
    printf("rank              below V   found         n    N D 4  N 4 + n %zu N 4     N rows_r 4  "
           "n N D 4\n",
           kinds);
    for (size_t p = 0; p < ranks; p++) {
        struct slot *slot = &slots[p];
        size_t v0 = bounds[p] * vocab.whole.granule, v1 = bounds[p + 1] * vocab.whole.granule;
        size_t below = v0 >= V ? 0 : (v1 < V ? v1 : V) - v0;
        size_t n = ls_tree_forest(vocab.whole.granules, bounds[p], bounds[p + 1], NULL);
        const ls_comm_count formula[COUNTS] = {{1, 4 * N * D},
                                               {2, 4 * N + 4 * n * kinds * N},
                                               {1, 4 * N * (v1 - v0)},
                                               {1, 4 * n * N * D}};
        printf("%4zu  %4zu .. %-4zu  %5zu  %6zu  %8zu", p, v0, v1, below, slot->found, n);
        for (int i = 0; i < COUNTS; i++) {
            printf("  %*zu", field[i], (size_t)slot->counts[i].bytes);
            equal &= slot->counts[i].calls == formula[i].calls;
            equal &= slot->counts[i].bytes == formula[i].bytes;
        }
        printf("\n");
        compared += slot->compared, different += slot->different;
        equal &= signbit(slot->minus_zero[0]) && (!signbit(slot->minus_zero[1]) == (ranks > 1));
    }
    printf("e z max sum, both losses, dz de dE: %zu of %zu numbers differ from the serial run's\n",
           different, compared);
    printf("the -0 in the row of token 0: %+g when the others give -0, %+g when they give +0\n",
           (double)slots[0].minus_zero[0], (double)slots[0].minus_zero[1]);
    equal &= different == 0;
exit:
    return status;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    size_t ranks = 0, heads = 12, valid = 0;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_HEADS, "N",
                       "how many; it divides --heads. Left out: every divisor in turn"),
        ls_option_size("heads", &heads, 1, MAX_HEADS, "H", "granules of the vocabulary"),
        ls_option_size("vocab", &V, 2, MAX_V, "V", "rows of the embedding, without padding"),
        ls_option_real("smoothing", &smoothing, 0, false, 0.5, "A",
                       "label smoothing; left out: 0, then 0.1"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 6: vocabulary-parallel embedding and loss\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, heads, "granules (--heads)"));
    ls_config sizes = {.heads = heads, .vocab = V};
    vocab = (ls_cut){ls_config_vocab_axis(&sizes), bounds};
    rows = ls_axis_extent(vocab.whole);
    ls_stream stream = {seed, LS_RANDOM_TEST, 0, 0};
    for (size_t i = 0; i < V * D; i++)
        s.E[i] = (float)ls_random_normal(stream, i); /* padding: +0 */
    for (size_t t = 0; t < N; t++)
        ids[t] = (int32_t)(ls_random_uniform(stream, V * D + t) * (double)V);
    for (size_t t = 0; t < N; t++) {
        targets[t] = t % 5 == 3 ? LS_IGNORE : ids[(t + 1) % N];
        valid += targets[t] != LS_IGNORE;
    }
    LS_TRY(ls_ids_check(ids, N, V, 0, "token")); /* what is outside is an error, never a zero */
    s.E[(size_t)ids[0] * D] = -0.0f;
    factor = 1.0f / (float)valid;

    printf("N = %d tokens, %zu with a target; D = %d; V = %zu, padded to %zu: %zu granules of %zu "
           "rows\n",
           N, valid, D, V, rows, heads, vocab.whole.granule);
    printf("At the size of GPT-2 124M, 8 x 1024 tokens, 4 ranks: gathered %.0f MB per rank, fused ",
           8192 * 50304.0 / 4 * 4 / 1e6);
    printf("%.1f MB\n", 8192 * 3.0 * 4 / 1e6);
    bool both = !ls_options_given(options, n_options, "smoothing");
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : heads); p++) {
        for (int i = 0; i < (both ? 2 : 1) && heads % p == 0; i++) {
            if (both) smoothing = 0.1 * i;
            LS_TRY(run_serial());
            for (size_t j = V * D; j < rows * D; j++) equal &= s.dE[j] == 0 && !signbit(s.dE[j]);
            LS_TRY(show(p));
        }
    }
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "06_vocabulary: %s\n", ls_error_text());
    return ls_exit_code(status);
}
