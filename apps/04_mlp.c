/* 04_mlp.c - the feed-forward block on several ranks: one all-reduce each way, or the cut that
 * Megatron rejects and what it costs.
 *
 * Source: Megatron-LM (arXiv 1909.08053), section 3, equations 1 to 3, figure 3a; SwiGLU: Shazeer,
 * GLU Variants Improve Transformer (arXiv 2002.05202), section 2.
 *
 *     GELU      u = gelu(x W_up + b_up)             y = u W_down + b_down
 *     SwiGLU    u = silu(x W_gate) * (x W_up)       y = u W_down + b_down
 *
 * Columns first (equation 3): W_up by columns, so each rank has whole numbers of its own part of
 * x W_up, and gelu, which takes one number at a time, needs no other rank. W_down by rows takes u
 * as it is cut. One all-reduce forward (g, of y), one backward (f, of dx); SwiGLU the same, because
 * gate and up are cut alike and their two parts of dx are added at each granule before the
 * reduction.
 *
 * Rows first (equation 2): W_up by rows, x by columns. Each rank has one summand of every number,
 * and gelu(a + b) is not gelu(a) + gelu(b): an all-reduce of N F numbers must finish the sums
 * before gelu. Backward, the gradients of x W_up + b_up and of x come out cut and are gathered.
 *
 * Its first product adds over the model width D cut into a granule per head, where columns first
 * adds over D uncut: another order, other bits. So each block has a serial run of its own. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { B = 2, S = 5, N = B * S, HEAD_WIDTH = 2, MAX_HEADS = 64, MAX_D = MAX_HEADS * HEAD_WIDTH };
enum { MAX_F = 512, MAX_RANKS = MAX_HEADS };
enum { GELU, SWIGLU, ROWS_FIRST, BLOCKS };
static const ls_axis tokens = {B, S};
static size_t D, F = 60, block, ff_bounds[MAX_RANKS + 1], model_bounds[MAX_RANKS + 1];
static ls_cut ff, model; /* F and D, and who owns which of their granules */
static int engine = LS_ENGINE_PORTABLE;

/* The serial run: its inputs, and what it makes of them forward and backward. */
static struct {
    float x[N * MAX_D], dy[N * MAX_D], gate[MAX_D * MAX_F], up[MAX_D * MAX_F], b_up[MAX_F];
    float down[MAX_F * MAX_D], b_down[MAX_D];
    float hg[N * MAX_F], h[N * MAX_F], u[N * MAX_F],
        y[N * MAX_D]; /* hg = x W_gate, h = x W_up + b */
    float dhg[N * MAX_F], dh[N * MAX_F], du[N * MAX_F], dx[N * MAX_D], dgate[MAX_D * MAX_F];
    float dup[MAX_D * MAX_F], db_up[MAX_F], ddown[MAX_F * MAX_D], db_down[MAX_D];
} s;

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
    ls_axis f = ff.whole, d = ls_axis_whole(D), d_in = block == ROWS_FIRST ? model.whole : d;

    LS_TRY(product(no, no, tokens, f, d_in, s.x, D, s.up, F, s.h));
    ls_add_bias(s.h, s.b_up, N, F, F);
    if (block == SWIGLU) {
        LS_TRY(product(no, no, tokens, f, d, s.x, D, s.gate, F, s.hg));
        ls_swiglu_forward(s.u, s.hg, s.h, N * F);
    } else {
        ls_gelu_tanh_forward(s.u, s.h, N * F);
    }
    LS_TRY(product(no, no, tokens, d, f, s.u, F, s.down, D, s.y));
    ls_add_bias(s.y, s.b_down, N, D, D);

    /* y = u W_down + b_down */
    ls_tree_sum_rows(s.db_down, s.dy, tokens, D, D);
    LS_TRY(product(t, no, f, d, tokens, s.u, F, s.dy, D, s.ddown));
    LS_TRY(product(no, t, tokens, f, d, s.dy, D, s.down, D, s.du));
    /* u = silu(hg) * h, or gelu(h); hg = x W_gate, h = x W_up + b_up */
    if (block == SWIGLU) {
        ls_swiglu_backward(s.dhg, s.dh, s.du, s.hg, s.h, N * F);
        LS_TRY(product(t, no, d, f, tokens, s.x, D, s.dhg, F, s.dgate));
    } else {
        ls_gelu_tanh_backward(s.dh, s.du, s.h, N * F);
    }
    LS_TRY(product(t, no, d_in, f, tokens, s.x, D, s.dh, F, s.dup));
    ls_tree_sum_rows(s.db_up, s.dh, tokens, F, F);
    /* dx: one sum over the granules of F; at each, the part through the gate, then the other */
    ls_gemm_term terms[2] = {{s.dhg, F, s.gate, F, f.granule, 1, 0},
                             {s.dh, F, s.up, F, f.granule, 1, 0}};
    if (block == SWIGLU)
        LS_TRY(ls_gemm_fused((ls_engine)engine, no, t, tokens, d, f.granules, terms, 2, s.dx, D));
    else
        LS_TRY(product(no, t, tokens, d_in, f, s.dh, F, s.up, F, s.dx));
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
enum { REDUCE_FORWARD, GATHER_FORWARD, REDUCE_BACKWARD, GATHER_BACKWARD, COUNTS };
static struct slot {
    ls_comm_count counts[COUNTS];
    size_t up_rows, up_columns, compared, different;
} slots[MAX_RANKS];

/* What the rank has counted under an operation beyond `before`. */
static ls_comm_count since(const ls_rank *rank, ls_operation operation, ls_comm_count before)
{
    ls_comm_count now = ls_rank_count(rank, operation);
    return (ls_comm_count){now.calls - before.calls, now.bytes - before.bytes};
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    int me = ls_rank_index(rank);
    struct slot *slot = &slots[me];
    size_t f0 = ff_bounds[me] * ff.whole.granule, f_r = ls_axis_extent(ls_cut_held(&ff, me));
    size_t d0 = model_bounds[me] * HEAD_WIDTH, d_r = ls_axis_extent(ls_cut_held(&model, me));
    ls_arena *arena = NULL;

    /* What it holds, and where in the whole: first the weights, then what the block gives. */
    ls_block columns = {F, 0, D, f0, f_r}, rows = {D, f0, f_r, 0, D}, up = columns;
    ls_block x_whole = {D, 0, N, 0, D}, out_bias = {D, 0, 1, 0, D}, up_bias = {F, 0, 1, f0, f_r};
    if (block == ROWS_FIRST) {
        up = (ls_block){F, d0, d_r, 0, F};
        up_bias = (ls_block){F, 0, 1, 0, F};
    }
    enum { WEIGHTS = 5, TENSORS = 12 };
    ls_mlp mlp = {.D = D, .ff = ff, .model = model};
    float *w[WEIGHTS], *y, *dx;
    const struct {
        float **own, *whole;
        ls_block block;
    } tensors[TENSORS] = {{&w[0], s.gate, columns},
                          {&w[1], s.up, up},
                          {&w[2], s.b_up, up_bias},
                          {&w[3], s.down, rows},
                          {&w[4], s.b_down, out_bias},
                          {&mlp.dw_gate, s.dgate, columns},
                          {&mlp.dw_up, s.dup, up},
                          {&mlp.db_up, s.db_up, up_bias},
                          {&mlp.dw_down, s.ddown, rows},
                          {&mlp.db_down, s.db_down, out_bias},
                          {&y, s.y, x_whole},
                          {&dx, s.dx, x_whole}};
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    for (int i = 0; i < TENSORS; i++) {
        size_t count = ls_block_count(tensors[i].block);
        LS_TRY(ls_arena_alloc(arena, count, sizeof(float), (void *)tensors[i].own));
        if (i < WEIGHTS) ls_block_take(LS_F32, w[i], tensors[i].whole, tensors[i].block);
    }
    mlp.activation = block == SWIGLU ? LS_SWIGLU : LS_GELU_TANH;
    mlp.cut = block == ROWS_FIRST ? LS_MLP_ROW_FIRST : LS_MLP_COLUMN_FIRST;
    mlp.w_gate = w[0], mlp.w_up = w[1], mlp.b_up = w[2], mlp.w_down = w[3], mlp.b_down = w[4];
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    if (block == GELU) mlp.activation = LS_GELU_ERF;
#endif

    ls_tensor_parallel tp = {
        .group = ls_rank_world_group(rank), .engine = (ls_engine)engine, .temporary = arena};
    ls_mlp_saved saved;
    LS_TRY(ls_mlp_keep(&tp, &mlp, N, arena, &saved));
    LS_TRY(ls_mlp_forward(&tp, &mlp, y, &saved, s.x, tokens));
    ls_comm_count reduced = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    ls_comm_count gathered = ls_rank_count(rank, LS_OP_ALL_GATHER);
    LS_TRY(ls_mlp_backward(&tp, &mlp, dx, s.dy, &saved, s.x, tokens));
    slot->counts[REDUCE_FORWARD] = reduced, slot->counts[GATHER_FORWARD] = gathered;
    slot->counts[REDUCE_BACKWARD] = since(rank, LS_OP_ALL_REDUCE, reduced);
    slot->counts[GATHER_BACKWARD] = since(rank, LS_OP_ALL_GATHER, gathered);

    slot->up_rows = up.rows, slot->up_columns = up.width;
    slot->compared = slot->different = 0;
    for (int i = WEIGHTS; i < TENSORS; i++) {
        if (i == WEIGHTS && block != SWIGLU) continue; /* no gate, no gradient of it */
        slot->compared += ls_block_count(tensors[i].block);
        slot->different +=
            ls_block_differ(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
exit:
    ls_arena_destroy(&arena);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

/* Runs one block on `ranks` ranks and prints what a rank holds and what all hand in. */
static ls_status show(size_t ranks)
{
    static const char *const names[] = {"GELU, columns first", "SwiGLU, columns first",
                                        "GELU, rows first"};
    ls_status status = LS_OK;
    size_t n = 0, n_D = 0, compared = 0, different = 0;
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    for (size_t p = 0; p < ranks; p++) { /* partials: nodes of the tree that a rank can finish */
        n += ls_tree_forest(ff.whole.granules, ff_bounds[p], ff_bounds[p + 1], NULL);
        n_D += ls_tree_forest(model.whole.granules, model_bounds[p], model_bounds[p + 1], NULL);
        compared += slots[p].compared, different += slots[p].different;
    }
    ls_comm_count formula[COUNTS] = {{1, 4 * n * N * D}, {0, 0}, {1, 4 * n * N * D}, {0, 0}};
    if (block == ROWS_FIRST) {
        formula[REDUCE_FORWARD] = (ls_comm_count){2, 4 * n_D * N * F + 4 * n * N * D};
        formula[REDUCE_BACKWARD] = (ls_comm_count){0, 0};
        formula[GATHER_BACKWARD] = (ls_comm_count){2, 4 * N * F + 4 * N * D};
    }
    printf("%-22s %3zu x %-3zu", names[block], slots[0].up_rows, slots[0].up_columns);
    for (int i = 0; i < COUNTS; i++) {
        size_t calls = (size_t)slots[0].counts[i].calls, bytes = 0;
        for (size_t p = 0; p < ranks; p++) bytes += slots[p].counts[i].bytes;
        equal &= calls == formula[i].calls && bytes == formula[i].bytes;
        printf("  %zu: %7zu", calls, bytes);
    }
    printf("  %5zu of %zu\n", different, compared);
    equal &= different == 0;
exit:
    return status;
}

static void fill(float *x, size_t n, uint64_t seed, uint32_t which)
{
    ls_stream stream = {seed, LS_RANDOM_TEST, which, 0};
    for (size_t i = 0; i < n; i++) x[i] = (float)ls_random_normal(stream, i);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    size_t ranks = 0, heads = 12;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_RANKS, "N",
                       "how many; it divides the granules of F. Left out: every divisor in turn"),
        ls_option_size("heads", &heads, 1, MAX_HEADS, "H", "granules of the model width D"),
        ls_option_size(
            "d-ff", &F, 1, MAX_F, "F",
            "feed-forward width; its granules: the greatest common divisor with --heads"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 4: the feed-forward block: GELU, SwiGLU, and the cut that is rejected\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    D = heads * HEAD_WIDTH;
    ls_config sizes = {.heads = heads, .d_model = D, .d_ff = F};
    ff = (ls_cut){ls_config_ff_axis(&sizes), ff_bounds};
    model = (ls_cut){ls_config_heads_axis(&sizes), model_bounds};
    size_t granules = ff.whole.granules;
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, granules, "granules of F"));
    fill(s.x, N * D, seed, 0), fill(s.dy, N * D, seed, 1), fill(s.gate, D * F, seed, 2);
    fill(s.up, D * F, seed, 3), fill(s.b_up, F, seed, 4), fill(s.down, F * D, seed, 5);
    fill(s.b_down, D, seed, 6);

    printf("N = %d tokens; D = %zu: %zu granules (heads); F = %zu: %zu granules; float\n", N, D,
           heads, F, granules);
    printf("\nBytes of all ranks; n, n_D: their partials for a sum over F, over D:\n");
    printf("  columns first  all-reduce of y 4 n N D forward, of dx 4 n N D backward\n");
    printf("  rows first     all-reduce of x W_up 4 n_D N F and of y 4 n N D forward,\n");
    printf("                 all-gather of d(x W_up) 4 N F and of dx 4 N D backward,\n");
    float g[3] = {1, -2, 1 + -2};
    ls_gelu_tanh_forward(g, g, 3);
    printf("                 because gelu(1) + gelu(-2) = %.4f, but gelu(1 + -2) = %.4f\n",
           (double)(g[0] + g[1]), (double)g[2]);
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : granules); p++) {
        if (granules % p) continue;
        ls_share_bounds(granules, p, ff_bounds);
        ls_share_bounds(heads, p, model_bounds);
        printf("\n%2zu rank%s               a rank's    forward, calls: bytes   ", p,
               p > 1 ? "s" : " ");
        printf("backward, calls: bytes  differ from\n%29s  %11s  %10s  %11s  %10s  serial run\n",
               "W_up", "all-reduce", "all-gather", "all-reduce", "all-gather");
        for (block = 0; block < BLOCKS; block++) {
            LS_TRY(run_serial());
            LS_TRY(show(p));
        }
    }
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT) fprintf(stderr, "04_mlp: %s\n", ls_error_text());
    return ls_exit_code(status);
}
