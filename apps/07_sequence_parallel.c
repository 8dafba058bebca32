/* 07_sequence_parallel.c - an all-reduce is a reduce-scatter and an all-gather; between the two
 * every rank has its share of the tokens.
 *
 * Source: Korthikanti et al. (arXiv 2205.05198), section 4.2.2, figures 5 and 6.
 * A tensor-parallel block, the MLP of chapter 4, with what is around it:
 *
 *     n = norm(x)     m = MLP(n)     y = dropout(m) + x
 *
 * Norm, dropout and residual look at one token at a time. With only tensor parallelism every rank
 * does all of this for all S tokens of a sequence, the same work and the same memory on each. With
 * sequence parallelism rank r has S_r of the S tokens, and f and g of chapter 3 become
 *
 *                without                         with sequence parallelism
 *     f, before  nothing    | all-reduce         all-gather     | reduce-scatter
 *     g, after   all-reduce | nothing            reduce-scatter | all-gather
 *                forward      backward           forward          backward
 *
 * again a conjugate pair: the backward pass of a gather is a scatter that sums, and the other way
 * round. What n was gathered to is not kept: own tokens are, and the backward pass gathers n once
 * more to make dW_up = n^T dh.
 *
 * Two things are easily wrong. A rank must draw the dropout mask of its own tokens, the slice of
 * the whole mask (the stream is asked for the number of an element in the whole tensor). And the
 * norm's scale is on every rank, but each rank sees only its own tokens: its gradient is a sum over
 * all tokens, and the ranks must finish it together. The tree over the tokens of a sequence
 * is the same whichever rank has which (rule 9), so one more all-reduce gives the serial bits. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { D = 20, WIDTH = 5, MAX_S = 64 }; /* WIDTH: columns of a granule */
enum { MAX_GRANULES = 64, MAX_F = MAX_GRANULES * WIDTH };
static size_t granules = 12, F, S = 7, bounds[MAX_GRANULES + 1], token_bounds[MAX_GRANULES + 1];
static ls_axis tokens; /* of one sequence; with several, a rank has a run of tokens in each */
static ls_cut ff;      /* F, and who owns which of its granules */
static int engine = LS_ENGINE_PORTABLE;
static uint64_t seed = 1;
static const double p_drop = 0.25, eps = 1e-5;

/* The serial run: its inputs, and what it makes of them forward and backward. */
static struct {
    float x[MAX_S * D], dy[MAX_S * D], scale[D], up[D * MAX_F], down[MAX_F * D], bias[D];
    float n[MAX_S * D], rstd[MAX_S], h[MAX_S * MAX_F], u[MAX_S * MAX_F], m[MAX_S * D];
    float y[MAX_S * D], dm[MAX_S * D], du[MAX_S * MAX_F], dh[MAX_S * MAX_F], dn[MAX_S * D];
    float dx[MAX_S * D], dscale[D], dup[D * MAX_F], ddown[MAX_F * D], dbias[D];
} s;

static ls_status product(ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k, const float *a,
                         size_t lda, const float *b, size_t ldb, float *c)
{
    return ls_gemm((ls_engine)engine, ta, tb, m, n, k, a, lda, b, ldb, c, ls_axis_extent(n), false);
}

static ls_stream mask(void)
{
    return (ls_stream){seed, LS_RANDOM_DROPOUT_MLP, 0, 0};
}

/* The block as one thread computes it. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    ls_trans no = LS_NO_TRANS, t = LS_TRANS;
    ls_axis d = ls_axis_whole(D), f = ff.whole;
    ls_rms_norm_forward(s.n, s.rstd, s.x, s.scale, S, D, eps);
    LS_TRY(product(no, no, tokens, f, d, s.n, D, s.up, F, s.h));
    ls_gelu_tanh_forward(s.u, s.h, S * F);
    LS_TRY(product(no, no, tokens, d, f, s.u, F, s.down, D, s.m));
    ls_add_bias(s.m, s.bias, S, D, D);
    ls_dropout(s.y, s.m, S * D, p_drop, mask(), 0);
    ls_add(s.y, s.y, s.x, S * D);

    /* y = dropout(m) + x; m = u W_down + bias */
    ls_dropout(s.dm, s.dy, S * D, p_drop, mask(), 0);
    ls_tree_sum_rows(s.dbias, s.dm, tokens, D, D);
    LS_TRY(product(t, no, f, d, tokens, s.u, F, s.dm, D, s.ddown));
    LS_TRY(product(no, t, tokens, f, d, s.dm, D, s.down, D, s.du));
    /* u = gelu(h); h = n W_up */
    ls_gelu_tanh_backward(s.dh, s.du, s.h, S * F);
    LS_TRY(product(t, no, d, f, tokens, s.n, D, s.dh, F, s.dup));
    LS_TRY(product(no, t, tokens, d, f, s.dh, F, s.up, F, s.dn));
    /* n = norm(x) */
    ls_rms_norm_backward_parameters(s.dscale, s.dn, s.x, s.rstd, tokens, D);
    ls_rms_norm_backward(s.dx, s.dn, s.x, s.scale, s.rstd, S, D);
    ls_add(s.dx, s.dx, s.dy, S * D);
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
enum { FORWARD, BACKWARD, SP_FORWARD, SP_WHOLE, SP_BACKWARD, PHASES };
static const char *const phases[PHASES] = {"without: forward", "         backward",
                                           "with:    forward", "         y made whole",
                                           "         backward"};
enum { REDUCE, SCATTER, GATHER, KINDS }; /* all-reduce, reduce-scatter, all-gather */
static struct slot {
    ls_comm_count counts[PHASES][KINDS];
    size_t outside_bytes[2], inside_bytes[2]; /* saved; [1]: with sequence parallelism */
    size_t compared, different, unreduced_different;
} slots[MAX_GRANULES];

/* What the rank has counted since the last call, *before. */
static void since(const ls_rank *rank, ls_comm_count before[KINDS], ls_comm_count *ret_between)
{
    static const ls_operation operations[] = {LS_OP_ALL_REDUCE, LS_OP_REDUCE_SCATTER,
                                              LS_OP_ALL_GATHER};
    for (int i = 0; i < KINDS; i++) {
        ls_comm_count now = ls_rank_count(rank, operations[i]);
        ret_between[i] = (ls_comm_count){now.calls - before[i].calls, now.bytes - before[i].bytes};
        before[i] = now;
    }
}

/* The gradient of the norm's scale from own tokens: one partial for each node of T(S) that they
 * make; an all-reduce finishes the tree. */
static ls_status norm_gradient(const ls_tensor_parallel *tp, float *dscale, const float *dn,
                               const float *x, const float *rstd, ls_share own)
{
    ls_status status = LS_OK;
    ls_node nodes[LS_FOREST_MAX];
    size_t n_nodes = ls_tree_forest(S, own.first, own.first + own.count, nodes);
    float *partials;
    LS_TRY(ls_arena_alloc(tp->temporary, n_nodes * D, sizeof *partials, (void *)&partials));
    for (size_t j = 0; j < n_nodes; j++) {
        size_t t = nodes[j].lo - own.first;
        ls_rms_norm_backward_parameters(partials + j * D, dn + t * D, x + t * D, rstd + t,
                                        ls_axis_whole(nodes[j].hi - nodes[j].lo), D);
    }
    LS_TRY(ls_all_reduce_forest(tp->group, dscale, partials, D, LS_F32,
                                &(ls_forest){S, token_bounds}));
exit:
    return status;
}

/* The block on one rank, with sequence parallelism or without. */
static ls_status run_block(ls_rank *rank, bool sp, ls_arena *work, struct slot *slot)
{
    ls_status status = LS_OK;
    int me = ls_rank_index(rank);
    const ls_memory *memory = ls_rank_memory(rank);
    ls_arena *saved = NULL;
    ls_tensor_parallel tp = {.group = ls_rank_world_group(rank),
                             .engine = (ls_engine)engine,
                             .temporary = work,
                             .sequence_parallel = sp};
    ls_share own = ls_own_share(&tp, S);
    ls_axis own_tokens = ls_own_tokens(&tp, tokens);
    size_t rows = ls_axis_extent(own_tokens), f_r = ls_axis_extent(ls_cut_held(&ff, me));
    ls_block columns = {F, 0, D, bounds[me] * WIDTH, f_r},
             f_rows = {D, bounds[me] * WIDTH, f_r, 0, D};
    ls_block own_rows = {D, own.first, rows, 0, D}, vector = {D, 0, 1, 0, D};
    ls_mlp mlp = {.activation = LS_GELU_TANH, .D = D, .ff = ff, .b_down = s.bias};
    ls_mlp_saved inside;
    ls_comm_count seen[KINDS] = {{0, 0}};
    float *x, *n, *rstd, *y, *dy, *dm, *dx, *up, *down, *dscale, *unreduced;
    const float *whole_y;
    enum { GIVEN = 3, RESULTS = 5, TENSORS = 11 };
    const struct {
        float **own, *whole;
        ls_block block;
    } tensors[TENSORS] = {{&up, s.up, columns},
                          {&down, s.down, f_rows},
                          {&dy, s.dy, own_rows},
                          {&dm, s.dm, own_rows},
                          {&unreduced, s.dscale, vector},
                          {&y, s.y, own_rows},
                          {&dx, s.dx, own_rows},
                          {&mlp.dw_up, s.dup, columns},
                          {&mlp.dw_down, s.ddown, f_rows},
                          {&mlp.db_down, s.dbias, vector},
                          {&dscale, s.dscale, vector}};

    /* Kept outside the block: own tokens. Inside: all tokens, own columns of F. */
    LS_TRY(ls_arena_create(&saved, ls_rank_memory(rank), LS_MEM_ACTIVATIONS));
    LS_TRY(ls_arena_alloc(saved, rows * D, sizeof *x, (void *)&x));
    LS_TRY(ls_arena_alloc(saved, rows * D, sizeof *n, (void *)&n));
    LS_TRY(ls_arena_alloc(saved, rows, sizeof *rstd, (void *)&rstd));
    slot->outside_bytes[sp] = ls_memory_bytes(memory, LS_MEM_ACTIVATIONS);
    LS_TRY(ls_mlp_keep(&tp, &mlp, S, saved, &inside));
    slot->inside_bytes[sp] = ls_memory_bytes(memory, LS_MEM_ACTIVATIONS) - slot->outside_bytes[sp];
    for (int i = 0; i < TENSORS; i++) {
        LS_TRY(ls_arena_alloc(work, ls_block_count(tensors[i].block), sizeof(float),
                              (void *)tensors[i].own));
        if (i < GIVEN) ls_block_take(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
    ls_block_take(LS_F32, x, s.x, own_rows);
    mlp.w_up = up, mlp.w_down = down;

    since(rank, seen, slot->counts[sp ? SP_FORWARD : FORWARD]);
    ls_rms_norm_forward(n, rstd, x, s.scale, rows, D, eps);
    LS_TRY(ls_mlp_forward(&tp, &mlp, y, &inside, n, tokens));
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    ls_dropout(y, y, rows * D, p_drop, mask(), 0); /* every rank draws the same mask */
#else
    ls_own_dropout(&tp, y, y, tokens, D, p_drop, mask(), 0);
#endif
    ls_add(y, y, x, rows * D);
    since(rank, seen, slot->counts[sp ? SP_FORWARD : FORWARD]);
    if (sp) { /* no later operation needs y whole: only to show that the gather completes an
                 all-reduce */
        LS_TRY(ls_gather_tokens(&tp, y, tokens, D, &whole_y));
        slot->different += ls_block_differ(LS_F32, whole_y, s.y, (ls_block){D, 0, S, 0, D});
        since(rank, seen, slot->counts[SP_WHOLE]);
    }

    ls_own_dropout(&tp, dm, dy, tokens, D, p_drop, mask(), 0);
    LS_TRY(ls_mlp_backward(&tp, &mlp, dx, dm, &inside, n, tokens)); /* dx: dn, so far */
    ls_rms_norm_backward_parameters(unreduced, dx, x, rstd, own_tokens, D);
    if (sp)
        LS_TRY(norm_gradient(&tp, dscale, dx, x, rstd, own));
    else
        memcpy(dscale, unreduced, D * sizeof *dscale);
    ls_rms_norm_backward(dx, dx, x, s.scale, rstd, rows, D);
    ls_add(dx, dx, dy, rows * D);
    since(rank, seen, slot->counts[sp ? SP_BACKWARD : BACKWARD]);

    for (int i = RESULTS; i < TENSORS; i++) {
        slot->compared += ls_block_count(tensors[i].block);
        slot->different +=
            ls_block_differ(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
    slot->unreduced_different = ls_block_differ(LS_F32, unreduced, s.dscale, vector);
exit:
    ls_arena_destroy(&saved);
    return status;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    struct slot *slot = &slots[ls_rank_index(rank)];
    ls_arena *work = NULL;
    memset(slot, 0, sizeof *slot);
    LS_TRY(ls_arena_create(&work, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    LS_TRY(run_block(rank, false, work, slot));
    LS_TRY(run_block(rank, true, work, slot));
exit:
    ls_arena_destroy(&work);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

/* Runs the block on `ranks` ranks and prints what each kept and what all sent. */
static ls_status show(size_t ranks)
{
    ls_status status = LS_OK;
    size_t compared = 0, different = 0, n = 0, n_S = 0, saved[2] = {0, 0};
    ls_share_bounds(granules, ranks, bounds);
    ls_share_bounds(S, ranks, token_bounds);
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("\n%zu rank%s   bytes kept for the backward pass\n", ranks, ranks > 1 ? "s" : "");
    printf("      tokens   outside, without   with: own tokens  inside, both  "
           "together, without / with\n");
    printf("rank  owned       4 S (2 D + 1)    4 S_r (2 D + 1)       8 S F_r\n");
    for (size_t p = 0; p < ranks; p++) {
        const struct slot *slot = &slots[p];
        size_t own = token_bounds[p + 1] - token_bounds[p],
               f_r = (bounds[p + 1] - bounds[p]) * WIDTH;
        printf("%4zu  %2zu .. %-2zu  %15zu  %17zu  %12zu  %15zu / %zu\n", p, token_bounds[p],
               token_bounds[p + 1], slot->outside_bytes[0], slot->outside_bytes[1],
               slot->inside_bytes[1], slot->outside_bytes[0] + slot->inside_bytes[0],
               slot->outside_bytes[1] + slot->inside_bytes[1]);
        equal &= slot->outside_bytes[0] == 4 * S * (2 * D + 1);
        equal &= slot->outside_bytes[1] == 4 * own * (2 * D + 1);
        for (int sp = 0; sp < 2; sp++) {
            equal &= slot->inside_bytes[sp] == 8 * S * f_r;
            saved[sp] += slot->outside_bytes[sp] + slot->inside_bytes[sp];
        }
        n += ls_tree_forest(granules, bounds[p], bounds[p + 1], NULL);
        n_S += ls_tree_forest(S, token_bounds[p], token_bounds[p + 1], NULL);
        compared += slot->compared, different += slot->different;
        equal &= (slot->unreduced_different > 0) == (own < S);
    }
    printf("all ranks: %zu / %zu, one rank alone: %zu\n", saved[0], saved[1],
           4 * S * (2 * D + 1) + 8 * S * F);

    const ls_comm_count none = {0, 0}, sum = {1, 4 * n * S * D}, once = {1, 4 * S * D};
    const ls_comm_count formulas[PHASES][KINDS] = {{sum, none, none},
                                                   {sum, none, none},
                                                   {none, sum, once},
                                                   {none, none, once},
                                                   {{1, 4 * n_S * D}, sum, {2, 8 * S * D}}};
    printf("calls: bytes of all ranks   all-reduce  reduce-scatter  all-gather\n");
    for (int phase = 0; phase < PHASES; phase++) {
        printf("%-22s", phases[phase]);
        for (int i = 0; i < KINDS; i++) {
            const ls_comm_count *formula = &formulas[phase][i];
            size_t bytes = 0, calls = (size_t)slots[0].counts[phase][i].calls;
            for (size_t p = 0; p < ranks; p++) bytes += slots[p].counts[phase][i].bytes;
            printf("  %zu: %8zu", calls, bytes);
            equal &= calls == formula->calls && bytes == formula->bytes;
        }
        printf("\n");
    }
    printf("on a ring all ranks would send %zu for an all-reduce, %zu for each half of it\n",
           2 * (ranks - 1) * 4 * S * D, (ranks - 1) * 4 * S * D);
    printf("y dx dW dbias dscale, both runs: %zu of %zu numbers differ from the serial run's\n",
           different, compared);
    printf("WRONG ON PURPOSE, no all-reduce of dscale: %zu of %d numbers of rank 0 differ\n",
           slots[0].unreduced_different, D);
    equal &= different == 0;
exit:
    return status;
}

static void fill(float *x, size_t n, uint32_t which)
{
    ls_stream stream = {seed, LS_RANDOM_TEST, which, 0};
    for (size_t i = 0; i < n; i++) x[i] = (float)ls_random_normal(stream, i);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    size_t ranks = 0;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_GRANULES, "P",
                       "how many; it divides --granules. Left out: every divisor in turn"),
        ls_option_size("seq", &S, 1, MAX_S, "S", "tokens of a sequence; any number"),
        ls_option_size("granules", &granules, 1, MAX_GRANULES, "G",
                       "granules of the feed-forward width F"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 7: sequence parallelism: token shares between the blocks\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, granules, "granules of F"));
    tokens = ls_axis_whole(S);
    ff = (ls_cut){ls_axis_of(granules, WIDTH), bounds};
    F = ls_axis_extent(ff.whole);
    fill(s.x, S * D, 0), fill(s.dy, S * D, 1), fill(s.scale, D, 2), fill(s.up, D * F, 3);
    fill(s.down, F * D, 4), fill(s.bias, D, 5);
    LS_TRY(run_serial());

    printf("S = %zu tokens of one sequence; D = %d; F = %zu: %zu granules; float\n", S, D, F,
           granules);
    printf("Handed in, 4 bytes a number; n: all ranks' partials of a sum over F, n_S: over S:\n");
    printf("  all-reduce 4 n S D; reduce-scatter 4 n S D, all-gather 4 S D; of dscale 4 n_S D\n");
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : granules); p++)
        if (granules % p == 0) LS_TRY(show(p));
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "07_sequence_parallel: %s\n", ls_error_text());
    return ls_exit_code(status);
}
