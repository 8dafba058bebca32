/* 05_attention_by_heads.c - attention on several ranks: whole heads for each, and key/value heads
 * that several ranks must share.
 *
 * Sources: Megatron-LM (arXiv 1909.08053), section 3, figure 3b; Ainslie et al., GQA (arXiv
 * 2305.13245), section 2.2: g query heads use one key/value head.
 *
 *     q, k, v = x W_q, x W_k, x W_v (+ biases)     by columns, a granule per head; f before them
 *     o_h     = softmax(q_h k_j^T / sqrt(w)) v_j   j = h / g; heads never meet, nothing is sent
 *     y       = o W_o + b_o                        by rows, a granule per head; g after it
 *
 * H query heads, K key/value heads. A rank owns H / P query heads and holds every key/value head
 * that they use. Where P divides K, each of these has one owner; where P is larger than K, or does
 * not divide it, some are held by several ranks, with equal weights.
 *
 * Backward, dk_j is the sum of what comes through the g query heads of its group (rule 12: a tree
 * over them, finished before use). When they live on several ranks, those ranks finish dk_j and
 * dv_j together, in a small group of their own; then each computes the same dW_k, dW_v. And x has
 * fed three matrices: dx is one sum over the query heads, in which dk_j and dv_j stand with the
 * first query head of their group, so that they come in once, whichever ranks hold them too (rule
 * 11). */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 7, N = B * S, W = 4, MAX_HEADS = 64, MAX_D = MAX_HEADS * W }; /* W: of a head */
static const ls_axis tokens = {B, S};
static size_t H = 12, K = 4, D, group, bounds[MAX_HEADS + 1];
static int engine = LS_ENGINE_PORTABLE;

/* The serial run: its inputs, and what it makes of them forward and backward. */
static struct {
    float x[N * MAX_D], dy[N * MAX_D], w[4][MAX_D * MAX_D], b[4][MAX_D]; /* of q, k, v, o */
    float q[N * MAX_D], k[N * MAX_D], v[N * MAX_D], P[B * MAX_HEADS * S * S], o[N * MAX_D];
    float y[N * MAX_D], dx[N * MAX_D], dw[4][MAX_D * MAX_D], db[4][MAX_D];
} s;
static float d_o[N * MAX_D], dq[N * MAX_D], dk[N * MAX_D], dv[N * MAX_D];
static float through[2]
                    [MAX_HEADS * N * MAX_D]; /* dk, dv through query head 0, 1, ... of its group */
enum { Q, KEY, V, O };

static ls_status product(ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k, const float *a,
                         size_t lda, const float *b, size_t ldb, float *c)
{
    return ls_gemm((ls_engine)engine, ta, tb, m, n, k, a, lda, b, ldb, c, ls_axis_extent(n), false);
}

/* The block as one thread computes it. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    ls_trans no = LS_NO_TRANS, t = LS_TRANS;
    ls_engine e = (ls_engine)engine;
    ls_axis d = ls_axis_whole(D), h_axis = ls_axis_of(H, W), k_axis = ls_axis_of(K, W);
    size_t kv = K * W;
    static float scratch[2 * S * S];
    ls_attention_shape shape = {.S = S,
                                .head_width = W,
                                .ld_q = D,
                                .ld_kv = kv,
                                .scale = 1 / sqrt((double)W),
                                .causal = true};
    const struct {
        ls_axis n;
        float *y, *dy;
    } column[3] = {{h_axis, s.q, dq}, {k_axis, s.k, dk}, {k_axis, s.v, dv}};

    for (int i = Q; i <= V; i++) { /* q = x W_q + b_q, ... */
        size_t n = ls_axis_extent(column[i].n);
        LS_TRY(product(no, no, tokens, column[i].n, d, s.x, D, s.w[i], n, column[i].y));
        ls_add_bias(column[i].y, s.b[i], N, n, n);
    }
    for (size_t i = 0; i < B * H; i++) {
        size_t b = i / H, h = i % H, at = b * S * D + h * W, kv_at = b * S * kv + h / group * W;
        LS_TRY(ls_attention_forward(e, &shape, s.o + at, s.P + i * S * S, s.q + at, s.k + kv_at,
                                    s.v + kv_at, scratch));
    }
    LS_TRY(product(no, no, tokens, d, h_axis, s.o, D, s.w[O], D, s.y));
    ls_add_bias(s.y, s.b[O], N, D, D);

    /* y = o W_o + b_o */
    ls_tree_sum_rows(s.db[O], s.dy, tokens, D, D);
    LS_TRY(product(t, no, h_axis, d, tokens, s.o, D, s.dy, D, s.dw[O]));
    LS_TRY(product(no, t, tokens, h_axis, d, s.dy, D, s.w[O], D, d_o));
    /* the heads; then dk_j, dv_j over the query heads of group j */
    for (size_t i = 0; i < B * H; i++) {
        size_t b = i / H, h = i % H, at = b * S * D + h * W, kv_at = b * S * kv + h / group * W;
        size_t leaf = h % group * N * kv;
        LS_TRY(ls_attention_backward(e, &shape, dq + at, through[0] + leaf + kv_at,
                                     through[1] + leaf + kv_at, d_o + at, s.P + i * S * S, s.q + at,
                                     s.k + kv_at, s.v + kv_at, scratch));
    }
    ls_tree_sum_rows(dk, through[0], ls_axis_whole(group), N * kv, N * kv);
    ls_tree_sum_rows(dv, through[1], ls_axis_whole(group), N * kv, N * kv);
    for (int i = Q; i <= V; i++) { /* q = x W_q + b_q, ... */
        size_t n = ls_axis_extent(column[i].n);
        ls_tree_sum_rows(s.db[i], column[i].dy, tokens, n, n);
        LS_TRY(product(t, no, d, column[i].n, tokens, s.x, D, column[i].dy, n, s.dw[i]));
    }
    ls_gemm_term terms[3] = {{dq, D, s.w[Q], D, W, 1, 0},
                             {dk, kv, s.w[KEY], kv, W, group, 0},
                             {dv, kv, s.w[V], kv, W, group, 0}};
    LS_TRY(ls_gemm_fused(e, no, t, tokens, d, H, terms, 3, s.dx, D));
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    ls_share kv;               /* kv heads held                       */
    size_t holders[MAX_HEADS]; /* of each, how many ranks hold it     */
    size_t compared, different;
    ls_comm_count g, f, shared; /* shared: in the groups of kv holders */
} slots[MAX_HEADS];

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    size_t me = (size_t)ls_rank_index(rank), kv_width = K * W;
    struct slot *slot = &slots[me];
    ls_arena *arena = NULL;
    ls_kv_sharing kv;
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    ls_tensor_parallel tp = {
        .group = ls_rank_world_group(rank), .engine = (ls_engine)engine, .temporary = arena};
    ls_attention_block block = {.D = D, .head_width = W, .kv_heads = K, .causal = true, .kv = &kv};
    block.heads = (ls_cut){ls_axis_of(H, W), bounds};
    LS_TRY(ls_kv_sharing_create(tp.group, &block.heads, K, arena, &kv));

    /* What it holds, and where in the whole: first the weights, then what the block gives. */
    size_t q0 = bounds[me] * W, q_w = bounds[me + 1] * W - q0;
    size_t k0 = kv.held.first * W, k_w = kv.held.count * W;
    ls_block q_columns = {D, 0, D, q0, q_w}, q_bias = {D, 0, 1, q0, q_w};
    ls_block kv_columns = {kv_width, 0, D, k0, k_w}, kv_bias = {kv_width, 0, 1, k0, k_w};
    ls_block rows = {D, q0, q_w, 0, D}, o_bias = {D, 0, 1, 0, D}, x_whole = {D, 0, N, 0, D};
    enum { WEIGHTS = 8, TENSORS = 18 };
    float *w[WEIGHTS], *y, *dx;
    const struct {
        float **own, *whole;
        ls_block block;
    } tensors[TENSORS] = {{&w[0], s.w[Q], q_columns},
                          {&w[1], s.b[Q], q_bias},
                          {&w[2], s.w[KEY], kv_columns},
                          {&w[3], s.b[KEY], kv_bias},
                          {&w[4], s.w[V], kv_columns},
                          {&w[5], s.b[V], kv_bias},
                          {&w[6], s.w[O], rows},
                          {&w[7], s.b[O], o_bias},
                          {&block.dw_q, s.dw[Q], q_columns},
                          {&block.db_q, s.db[Q], q_bias},
                          {&block.dw_k, s.dw[KEY], kv_columns},
                          {&block.db_k, s.db[KEY], kv_bias},
                          {&block.dw_v, s.dw[V], kv_columns},
                          {&block.db_v, s.db[V], kv_bias},
                          {&block.dw_o, s.dw[O], rows},
                          {&block.db_o, s.db[O], o_bias},
                          {&y, s.y, x_whole},
                          {&dx, s.dx, x_whole}};
    for (int i = 0; i < TENSORS; i++) {
        size_t count = ls_block_count(tensors[i].block);
        LS_TRY(ls_arena_alloc(arena, count, sizeof(float), (void *)tensors[i].own));
        if (i < WEIGHTS) ls_block_take(LS_F32, w[i], tensors[i].whole, tensors[i].block);
    }
    block.w_q = w[0], block.b_q = w[1], block.w_k = w[2], block.b_k = w[3];
    block.w_v = w[4], block.b_v = w[5], block.w_o = w[6], block.b_o = w[7];
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    block.causal = false;
#endif

    ls_attention_saved saved;
    ls_batch batch = {.B = B, .S = S};
    LS_TRY(ls_attention_keep(&tp, &block, B, S, arena, &saved));
    LS_TRY(ls_attention_block_forward(&tp, &block, y, &saved, s.x, &batch));
    slot->g = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    LS_TRY(ls_attention_block_backward(&tp, &block, dx, s.dy, &saved, s.x, &batch));
    ls_comm_count all = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    slot->f = ls_group_count(tp.group, LS_OP_ALL_REDUCE); /* of the tp group only */
    slot->shared = (ls_comm_count){all.calls - slot->f.calls, all.bytes - slot->f.bytes};
    slot->f.calls -= slot->g.calls, slot->f.bytes -= slot->g.bytes;

    slot->kv = kv.held;
    for (size_t j = 0; j < kv.held.count; j++)
        slot->holders[j] = kv.sharers[j] ? (size_t)ls_group_size(kv.sharers[j]) : 1;
    slot->compared = slot->different = 0;
    for (int i = WEIGHTS; i < TENSORS; i++) {
        slot->compared += ls_block_count(tensors[i].block);
        slot->different +=
            ls_block_differ(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
exit:
    ls_arena_destroy(&arena);
    return status;
}

/* What the sources say of kv head j: how many of `ranks` use it, and how many partials of its dk_j
 * rank p sends: nodes of the tree over the g query heads of its group. */
static size_t holders_of(size_t j, size_t ranks, size_t p, size_t *ret_partials)
{
    size_t holders = 0;
    for (size_t r = 0; r < ranks; r++) {
        size_t lo = bounds[r] > j * group ? bounds[r] : j * group;
        size_t hi = bounds[r + 1] < (j + 1) * group ? bounds[r + 1] : (j + 1) * group;
        if (lo >= hi) continue;
        holders++;
        if (r == p) *ret_partials = ls_tree_forest(group, lo - j * group, hi - j * group, NULL);
    }
    return holders;
}

static bool equal = true; /* every bit and every count is as it must be */

/* Runs the block on `ranks` ranks and prints what each held and sent. */
static ls_status show(size_t ranks)
{
    ls_status status = LS_OK;
    size_t compared = 0, different = 0;
    ls_share_bounds(H, ranks, bounds);
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("\n%zu rank%s\n", ranks, ranks > 1 ? "s" : "");
    printf("      query        columns of     partials     g: y    f: dx   dk, dv of shared  kv "
           "heads\n");
    printf("rank  heads       W_q  W_k, W_v          n  n N D 4  n N D 4  calls  m  m N w 4  "
           "(holders)\n");
    for (size_t p = 0; p < ranks; p++) {
        struct slot *slot = &slots[p];
        size_t n = ls_tree_forest(H, bounds[p], bounds[p + 1], NULL), m = 0, calls = 0;
        for (size_t i = 0; i < slot->kv.count; i++) {
            size_t partials = 0, holders = holders_of(slot->kv.first + i, ranks, p, &partials);
            equal &= slot->holders[i] == holders;
            if (holders > 1) calls += 2, m += 2 * partials; /* dk_j and dv_j */
        }
        printf("%4zu  %2zu .. %-2zu  %6zu  %8zu  %9zu  %7zu  %7zu  %5zu %2zu  %7zu ", p, bounds[p],
               bounds[p + 1], (bounds[p + 1] - bounds[p]) * W, slot->kv.count * W, n,
               (size_t)slot->g.bytes, (size_t)slot->f.bytes, (size_t)slot->shared.calls, m,
               (size_t)slot->shared.bytes);
        for (size_t i = 0; i < slot->kv.count; i++)
            printf(" %zu (%zu)", slot->kv.first + i, slot->holders[i]);
        printf("\n");
        equal &= slot->g.calls == 1 && slot->g.bytes == n * N * D * 4;
        equal &= slot->f.calls == 1 && slot->f.bytes == n * N * D * 4;
        equal &= slot->shared.calls == calls && slot->shared.bytes == m * N * W * 4;
        compared += slot->compared, different += slot->different;
    }
    printf("y, dx, dW and db of q, k, v, o: %zu of %zu numbers differ from the serial run's\n",
           different, compared);
    equal &= different == 0;
exit:
    return status;
}

static void fill(float *x, size_t n, uint64_t seed, uint32_t which)
{
    ls_stream stream = {seed, LS_RANDOM_TEST, which, 0};
    for (size_t i = 0; i < n; i++) x[i] = (float)ls_random_normal(stream, i) / 2;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    size_t ranks = 0;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_HEADS, "N",
                       "how many; it divides --heads. Left out: every divisor in turn"),
        ls_option_size("heads", &H, 1, MAX_HEADS, "H", "query heads"),
        ls_option_size("kv-heads", &K, 1, MAX_HEADS, "K", "key/value heads; it divides --heads"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 5: attention by heads, and key/value heads that ranks share\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    LS_TRY(ls_share_check_equal("--kv-heads", K, H, "query heads"));
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, H, "query heads"));
    D = H * W, group = H / K;
    fill(s.x, N * D, seed, 0), fill(s.dy, N * D, seed, 1);
    for (uint32_t i = Q; i <= O; i++)
        fill(s.w[i], D * D, seed, 2 + i), fill(s.b[i], D, seed, 6 + i);
    LS_TRY(run_serial());

    printf("N = %d x %d tokens; D = %zu: H = %zu query heads of w = %d\n", B, S, D, H, W);
    printf("K = %zu key/value heads, each used by g = %zu query heads; float\n", K, group);
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : H); p++)
        if (H % p == 0) LS_TRY(show(p));
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "05_attention_by_heads: %s\n", ls_error_text());
    return ls_exit_code(status);
}
