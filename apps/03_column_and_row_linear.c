/* 03_column_and_row_linear.c - a linear layer cut by columns, one cut by rows, and f and g around
 * the two.
 *
 * Source: Megatron-LM (arXiv 1909.08053), section 3, equations 2 and 3, figure 3. Rank r holds some
 * columns of A and b, and the rows of R with the same numbers:
 *
 *     y_r = f(x) A_r + b_r                    column-parallel: x is whole on every rank, y is cut
 *     z   = g(sum over r of y_r R_r) + c      row-parallel: y stays as it is cut, z is whole
 *
 *     f   forward: nothing                    backward: all-reduce of dx
 *     g   forward: all-reduce of z            backward: nothing
 *
 * The two all-reduces are sums over the cut axis F, and such a sum has one order, which the model
 * fixes and not the number of ranks: F is made of granules, and one tree is over the granules,
 * whichever rank owns which. A rank adds up what it can finish alone and sends one partial per node
 * of the tree (chapter 2 draws them). So z and dx have the bits of the serial run at every number
 * of ranks; and the gradients of the weights need no communication at all. */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { B = 2, S = 5, N = B * S, IN = 10, OUT = 14, WIDTH = 8 }; /* WIDTH: columns of a granule */
enum { MAX_GRANULES = 64, MAX_F = MAX_GRANULES * WIDTH };
static const ls_axis tokens = {B, S}, in = {1, IN}, out = {1, OUT};
static size_t granules = 12, F, bounds[MAX_GRANULES + 1];
static ls_cut cut; /* F, and who owns which of its granules */
static int engine = LS_ENGINE_PORTABLE;

/* The serial run: its inputs, and what it makes of them forward and backward. */
static struct {
    float x[N * IN], a[IN * MAX_F], b[MAX_F], r[MAX_F * OUT], c[OUT], dz[N * OUT];
    float y[N * MAX_F], z[N * OUT];
    float dx[N * IN], da[IN * MAX_F], db[MAX_F], dy[N * MAX_F], dr[MAX_F * OUT], dc[OUT];
} s;

static ls_status product(ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k, const float *a,
                         size_t lda, const float *b, size_t ldb, float *c)
{
    return ls_gemm((ls_engine)engine, ta, tb, m, n, k, a, lda, b, ldb, c, ls_axis_extent(n), false);
}

/* The layers as one thread computes them: products and sums, and not a word about ranks. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    ls_trans no = LS_NO_TRANS, t = LS_TRANS;
    ls_axis f = cut.whole;
    /* y = x A + b, z = y R + c */
    LS_TRY(product(no, no, tokens, f, in, s.x, IN, s.a, F, s.y));
    ls_add_bias(s.y, s.b, N, F, F);
    LS_TRY(product(no, no, tokens, out, f, s.y, F, s.r, OUT, s.z));
    ls_add_bias(s.z, s.c, N, OUT, OUT);
    /* z = y R + c: dc = sum of dz, dR = y^T dz, dy = dz R^T */
    ls_tree_sum_rows(s.dc, s.dz, tokens, OUT, OUT);
    LS_TRY(product(t, no, f, out, tokens, s.y, F, s.dz, OUT, s.dr));
    LS_TRY(product(no, t, tokens, f, out, s.dz, OUT, s.r, OUT, s.dy));
    /* y = x A + b: db = sum of dy, dA = x^T dy, dx = dy A^T */
    ls_tree_sum_rows(s.db, s.dy, tokens, F, F);
    LS_TRY(product(t, no, in, f, tokens, s.x, IN, s.dy, F, s.da));
    LS_TRY(product(no, t, tokens, in, f, s.dy, F, s.a, F, s.dx));
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    size_t weight_bytes, compared, different;
    ls_comm_count g, f;
    int32_t right[2], wrong[2];
} slots[MAX_GRANULES];

/* A mistake often made, in whole numbers: x = 1, 2, ..., G; R sends x_i to column i % 2; the bias
 * is 10, 20. Added to each rank's product before the reduction, it comes out once per rank. */
static ls_status bias_on_every_rank(ls_group *group, size_t first, size_t end, struct slot *slot)
{
    ls_status status = LS_OK;
    int32_t sum[2] = {0, 0};
    for (size_t i = first; i < end; i++) sum[i % 2] += (int32_t)i + 1;
    slot->wrong[0] = sum[0] + 10, slot->wrong[1] = sum[1] + 20; /* <- wrong */
    LS_TRY(ls_all_reduce(group, slot->wrong, slot->wrong, 2, LS_I32, LS_REDUCE_SUM));
    LS_TRY(ls_all_reduce(group, slot->right, sum, 2, LS_I32, LS_REDUCE_SUM));
    slot->right[0] += 10, slot->right[1] += 20;
exit:
    return status;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    size_t me = (size_t)ls_rank_index(rank), g0 = bounds[me], g1 = bounds[me + 1];
    size_t f0 = g0 * WIDTH, width = (g1 - g0) * WIDTH; /* own columns of A, rows of R */
    struct slot *slot = &slots[me];
    ls_arena *weights = NULL, *work = NULL;

    /* What it holds, and where in the whole: first the weights, then what the layers give. */
    ls_block columns = {F, 0, IN, f0, width}, rows = {OUT, f0, width, 0, OUT};
    ls_block bias = {F, 0, 1, f0, width}, whole_bias = {OUT, 0, 1, 0, OUT};
    ls_block y_cut = {F, 0, N, f0, width}, z_whole = {OUT, 0, N, 0, OUT},
             x_whole = {IN, 0, N, 0, IN};
    float *a, *b, *r, *c, *y, *z, *dc, *dr, *dy, *db, *da, *dx;
    enum { WEIGHTS = 4, TENSORS = 12 };
    const struct {
        float **own, *whole;
        ls_block block;
    } tensors[TENSORS] = {{&a, s.a, columns},      {&b, s.b, bias},      {&r, s.r, rows},
                          {&c, s.c, whole_bias},   {&y, s.y, y_cut},     {&z, s.z, z_whole},
                          {&dc, s.dc, whole_bias}, {&dr, s.dr, rows},    {&dy, s.dy, y_cut},
                          {&db, s.db, bias},       {&da, s.da, columns}, {&dx, s.dx, x_whole}};

    LS_TRY(ls_arena_create(&weights, ls_rank_memory(rank), LS_MEM_PARAMETERS));
    LS_TRY(ls_arena_create(&work, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    for (int i = 0; i < TENSORS; i++) {
        LS_TRY(ls_arena_alloc(i < WEIGHTS ? weights : work, ls_block_count(tensors[i].block),
                              sizeof(float), (void *)tensors[i].own));
        if (i < WEIGHTS) ls_block_take(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    ls_scale(c, c, (float)ls_rank_world_size(rank), OUT);
#endif

    ls_tensor_parallel tp = {
        .group = ls_rank_world_group(rank), .engine = (ls_engine)engine, .temporary = work};
    LS_TRY(ls_column_linear_forward(&tp, y, s.x, a, b, tokens, IN, &cut));
    LS_TRY(ls_row_linear_forward(&tp, z, y, r, c, tokens, &cut, OUT));
    slot->g = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    LS_TRY(ls_row_linear_backward(&tp, dy, dr, dc, s.dz, y, r, tokens, &cut, OUT));
    LS_TRY(ls_column_linear_backward(&tp, dx, da, db, dy, s.x, a, tokens, IN, &cut));
    slot->f = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    slot->f.calls -= slot->g.calls, slot->f.bytes -= slot->g.bytes;
    LS_TRY(bias_on_every_rank(tp.group, g0, g1, slot));

    slot->weight_bytes = ls_memory_bytes(ls_rank_memory(rank), LS_MEM_PARAMETERS);
    slot->compared = slot->different = 0;
    for (int i = WEIGHTS; i < TENSORS; i++) {
        slot->compared += ls_block_count(tensors[i].block);
        slot->different +=
            ls_block_differ(LS_F32, *tensors[i].own, tensors[i].whole, tensors[i].block);
    }
exit:
    ls_arena_destroy(&work);
    ls_arena_destroy(&weights);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */

/* Runs the layers on `ranks` ranks and prints what each held and sent. */
static ls_status show(size_t ranks)
{
    ls_status status = LS_OK;
    size_t compared = 0, different = 0;
    ls_share_bounds(granules, ranks, bounds);
    LS_TRY(ls_world_run((int)ranks, NULL, one_rank, NULL));

    printf("\n%zu rank%s\n", ranks, ranks > 1 ? "s" : "");
    printf("      columns of A, b;    bytes of  partials    handed to g     handed to f\n");
    printf("rank  rows of R            weights         n  n N OUT 4 bytes  n N IN 4 bytes\n");
    for (size_t p = 0; p < ranks; p++) {
        struct slot *slot = &slots[p];
        size_t first = bounds[p] * WIDTH, width = bounds[p + 1] * WIDTH - first;
        size_t n = ls_tree_forest(granules, bounds[p], bounds[p + 1], NULL);
        printf("%4zu  %4zu .. %-4zu     %10zu  %8zu  %15zu  %14zu\n", p, first, first + width,
               slot->weight_bytes, n, (size_t)slot->g.bytes, (size_t)slot->f.bytes);
        equal &= slot->weight_bytes == 4 * (IN * width + width + width * OUT + OUT);
        equal &= slot->g.calls == 1 && slot->g.bytes == n * N * OUT * 4;
        equal &= slot->f.calls == 1 && slot->f.bytes == n * N * IN * 4;
        equal &= slot->wrong[0] == slot->right[0] + ((int)ranks - 1) * 10; /* as described */
        compared += slot->compared, different += slot->different;
    }
    printf("y z, dx dA db dy dR dc: %zu of %zu numbers differ from the serial run's\n", different,
           compared);
    printf("WRONG ON PURPOSE, the bias on every rank: z = %d %d; right: %d %d\n", slots[0].wrong[0],
           slots[0].wrong[1], slots[0].right[0], slots[0].right[1]);
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
    size_t ranks = 0;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_GRANULES, "N",
                       "how many; it divides --granules. Left out: every divisor in turn"),
        ls_option_size("granules", &granules, 1, MAX_GRANULES, "G", "granules of the cut axis F"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 3: column- and row-parallel linear layers, and f and g around them\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, granules, "granules"));
    cut = (ls_cut){ls_axis_of(granules, WIDTH), bounds};
    F = ls_axis_extent(cut.whole);
    fill(s.x, N * IN, seed, 0), fill(s.a, IN * F, seed, 1), fill(s.b, F, seed, 2);
    fill(s.r, F * OUT, seed, 3), fill(s.c, OUT, seed, 4), fill(s.dz, N * OUT, seed, 5);
    LS_TRY(run_serial());

    printf("x: N x IN = %d x %d; A: IN x F, R: F x OUT, OUT = %d; F = %zu: %zu granules of %d; "
           "float\n",
           N, IN, OUT, F, granules, WIDTH);
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : granules); p++)
        if (granules % p == 0) LS_TRY(show(p));
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "03_column_and_row_linear: %s\n", ls_error_text());
    return ls_exit_code(status);
}
