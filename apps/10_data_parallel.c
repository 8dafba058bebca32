/* 10_data_parallel.c - replicas that share out a batch: weights by targets, one tree over all
 * sequences, one reduction per step, and what waits until then.
 *
 * Sources: Megatron-LM (arXiv 1909.08053), section 3, and PTD-P (arXiv 2104.04473), section 2.1:
 * replicas of the model with equal weights, gradients reduced once after the last micro-batch.
 *
 *     z = x W      loss = sum over all targets of cross-entropy(z) / number of all targets
 *     dW = sum over all sequences of x_b^T dz_b
 *
 * Weights. The loss is one mean over the targets of the global batch, however they are spread. A
 * replica that divides by its own number of targets, and then takes the mean of the replicas, gives
 * a token more weight the fewer others are next to it. So the first thing that replicas tell each
 * other is an integer: how many targets they have.
 *
 * Order. The sum over B sequences is the tree T(B), B sequences as leaves, whatever P and M are. A
 * replica has a run of them, cut into M micro-batches; each makes the nodes of T(B) that lie inside
 * it. Two siblings are added when both are there, else a node waits: the nodes that wait are the
 * digits of a binary counter, about log2 M of them. After the last micro-batch a replica is left
 * with the nodes of its run, and hands them in: one all-reduce finishes the tree. Micro-batches may
 * come in any order (GPipe's last comes first): the tree does not ask when.
 *
 * A running total, in order of arrival, needs no room but has other bits for every P and every M.
 */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { S = 6, D = 5, V = 11, DV = D * V, MAX_B = 64, MAX_P = 16, DRAWN = 32, MAX_DEPTH = 8 };
enum { FIRST_FIRST, LAST_FIRST, ORDERS };
static size_t B = 27, M, P, bounds[MAX_P + 1];
static int engine = LS_ENGINE_PORTABLE;
static float x[MAX_B * S * D], W[DV];
static int32_t targets[MAX_B * S];

/* The serial run: loss and gradient of the batch. */
static struct {
    float z[MAX_B * S * V], max[MAX_B * S], sum[MAX_B * S], losses[MAX_B * S], dz[MAX_B * S * V];
    float loss, dW[DV];
    size_t valid;
} s;

/* Forward: z, and what its loss needs, of n tokens from token t on. */
static ls_status forward(float *z, float *max, float *sum, float *losses, size_t t, size_t n)
{
    ls_status status = LS_OK;
    static const ls_vocab_shard whole = {{1, V}, 0, V};
    float sum_z[MAX_B * S], z_target[MAX_B * S];
    LS_TRY(ls_gemm((ls_engine)engine, LS_NO_TRANS, LS_NO_TRANS, ls_axis_of(n / S, S),
                   ls_axis_whole(V), ls_axis_whole(D), x + t * D, D, W, V, z, V, false));
    ls_cross_entropy_max(max, z, n, V, whole);
    ls_cross_entropy_sums(sum, sum_z, z_target, z, max, targets + t, n, V, whole);
    ls_cross_entropy_loss(losses, max, sum, sum_z, z_target, targets + t, n, V, 0);
exit:
    return status;
}

/* dz of n tokens; each target weighs 1 / valid. */
static void backward(float *dz, const float *z, const float *max, const float *sum, size_t t,
                     size_t n, size_t valid)
{
    static const ls_vocab_shard whole = {{1, V}, 0, V};
    ls_cross_entropy_backward(dz, z, max, sum, targets + t, n, V, whole, 0,
                              valid ? 1.0f / (float)valid : 0);
}

/* dW of the sequences lo .. hi: T over them. dz: from sequence `first` on. */
static ls_status gradient(float *dW, const float *dz, size_t first, size_t lo, size_t hi)
{
    return ls_gemm((ls_engine)engine, LS_TRANS, LS_NO_TRANS, ls_axis_whole(D), ls_axis_whole(V),
                   ls_axis_of(hi - lo, S), x + lo * S * D, D, dz + (lo - first) * S * V, V, dW, V,
                   false);
}

static size_t count_valid(size_t lo, size_t hi)
{
    size_t valid = 0;
    for (size_t t = lo * S; t < hi * S; t++) valid += targets[t] != LS_IGNORE;
    return valid;
}

/* The batch as one thread computes it. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    float sum;
    s.valid = count_valid(0, B);
    LS_TRY(forward(s.z, s.max, s.sum, s.losses, 0, B * S));
    backward(s.dz, s.z, s.max, s.sum, 0, B * S, s.valid);
    LS_TRY(gradient(s.dW, s.dz, 0, 0, B));
    ls_tree_sum_rows(&sum, s.losses, ls_axis_of(B, S), 1, 1);
    s.loss = s.valid ? (sum + 0.0f) / (float)s.valid : 0;
exit:
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    float own_mean, mean_of_means;
    size_t most[ORDERS], bytes[ORDERS]; /* slots in use, and what they take */
    size_t valid, different, running_different;
    double off_weights,
        off_running; /* the largest difference from dW, against its largest number */
    ls_comm_count reduced;
    char waiting[ORDERS][MAX_B][80];
} slots[MAX_P];

/* Writes down which nodes wait. */
static void note(const ls_forest_sum *sum, ls_node arrived, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%2zu .. %-2zu ->", arrived.lo, arrived.hi);
    for (size_t lo = 0; lo < sum->leaves; lo++)
        for (size_t i = 0; i < sum->slots && used < size; i++)
            if (sum->held[i].lo == lo && sum->held[i].hi > lo)
                used +=
                    (size_t)snprintf(text + used, size - used, " %zu..%zu", lo, sum->held[i].hi);
}

/* dW of own sequences, micro-batch by micro-batch; then the nodes of the run, reduced into dW. */
static ls_status one_step(ls_group *dp, int order, const float *dz, float *dW, struct slot *slot)
{
    ls_status status = LS_OK;
    ls_arena *arena = NULL;
    ls_forest_sum *sum = NULL;
    size_t first = bounds[ls_group_rank(dp)], into, from, n, at[LS_FOREST_MAX];
    size_t own = bounds[ls_group_rank(dp) + 1] - first;
    ls_run_of_leaves runs[MAX_B];
    ls_node nodes[LS_FOREST_MAX];
    float *values, spare[DV];

    for (size_t i = 0; i < M; i++) {
        ls_share part = ls_share_of(own, M, order == LAST_FIRST ? M - 1 - i : i);
        runs[i] = (ls_run_of_leaves){first + part.first, first + part.first + part.count};
    }
    LS_TRY(ls_forest_sum_slots(B, runs, M, &slot->most[order]));
    LS_TRY(ls_forest_sum_create(&sum, B, slot->most[order]));
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(ls_group_owner(dp)), LS_MEM_GRADIENTS));
    LS_TRY(ls_arena_alloc(arena, slot->most[order] * DV, sizeof *values, (void *)&values));
    slot->bytes[order] = ls_memory_bytes(ls_rank_memory(ls_group_owner(dp)), LS_MEM_GRADIENTS);
    for (size_t i = 0; i < M; i++) {
        LS_TRY(ls_forest_sum_arrive(sum, runs[i], nodes, at, &n));
        for (size_t j = 0; j < n; j++)
            LS_TRY(gradient(values + at[j] * DV, dz, first, nodes[j].lo, nodes[j].hi));
        while (ls_forest_sum_next(sum, &into, &from))
            ls_add(values + into * DV, values + into * DV, values + from * DV, DV);
        note(sum, runs[i], slot->waiting[order][i], sizeof slot->waiting[order][i]);
    }
    while (ls_forest_sum_settle(sum, &into, &from)) { /* into ascending order */
        memcpy(spare, values + into * DV, sizeof spare);
        memcpy(values + into * DV, values + from * DV, sizeof spare);
        memcpy(values + from * DV, spare, sizeof spare);
    }
    LS_TRY(ls_all_reduce_forest(dp, dW, values, DV, LS_F32, &(ls_forest){B, bounds}));
exit:
    ls_forest_sum_destroy(&sum);
    ls_arena_destroy(&arena);
    return status;
}

/* The largest |wrong - right| against the largest |right|. */
static double off(const float *wrong, const float *right)
{
    double difference = 0, largest = 0;
    for (size_t i = 0; i < DV; i++) {
        difference = fmax(difference, fabs((double)wrong[i] - (double)right[i]));
        largest = fmax(largest, fabs((double)right[i]));
    }
    return largest > 0 ? difference / largest : 0;
}

/* Two mistakes: own numbers of targets as weights; a running total of what arrives. */
static ls_status mistakes(ls_group *dp, const float *dz_right, float *dz, const float *z,
                          const float *max, const float *sum, struct slot *slot)
{
    ls_status status = LS_OK;
    size_t one_each[MAX_P + 1], first = bounds[ls_group_rank(dp)], members = P;
    size_t own = bounds[ls_group_rank(dp) + 1] - first;
    ls_forest ranks = {members, one_each};
    ls_block all = {DV, 0, 1, 0, DV};
    float total[DV] = {0}, part[DV], mean[DV];
    for (size_t p = 0; p <= members; p++) one_each[p] = p;

    backward(dz, z, max, sum, first * S, own * S, slot->valid); /* <- wrong */
    LS_TRY(gradient(part, dz, first, first, first + own));
    LS_TRY(ls_all_reduce_forest(dp, mean, part, DV, LS_F32, &ranks));
    ls_scale(mean, mean, 1.0f / (float)P, DV);
    slot->off_weights = off(mean, s.dW);
    LS_TRY(ls_all_reduce_forest(dp, &slot->mean_of_means, &slot->own_mean, 1, LS_F32, &ranks));
    slot->mean_of_means /= (float)P;

    for (size_t m = 0; m < M; m++) {
        ls_share run = ls_share_of(own, M, m);
        size_t lo = first + run.first;
        LS_TRY(gradient(part, dz_right, first, lo, lo + run.count));
        ls_add(total, total, part, DV); /* <- wrong */
    }
    LS_TRY(ls_all_reduce_forest(dp, mean, total, DV, LS_F32, &ranks));
    slot->running_different = ls_block_differ(LS_F32, mean, s.dW, all);
    slot->off_running = off(mean, s.dW);
exit:
    return status;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    ls_group *dp = ls_rank_world_group(rank);
    size_t me = (size_t)ls_rank_index(rank), first = bounds[me], own = bounds[me + 1] - first;
    struct slot *slot = &slots[me];
    static const ls_config config = {.vocab = V}; /* a loss of tokens only */
    ls_batch batch = {.B = own, .S = S, .first = first, .targets = targets + first * S};
    ls_arena *work = NULL;
    ls_valid valid;
    float *z, *max, *sum, *losses, *dz, *of_sequences, loss, dW[DV];
    const struct {
        float **array;
        size_t width;
    } arrays[] = {{&z, V}, {&max, 1}, {&sum, 1}, {&losses, 1}, {&dz, V}, {&of_sequences, 1}};
    memset(slot, 0, sizeof *slot);
    LS_TRY(ls_arena_create(&work, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        LS_TRY(ls_arena_alloc(work, own * S * arrays[i].width, sizeof(float),
                              (void *)arrays[i].array));

    LS_TRY(ls_count_valid(dp, &config, &batch, &valid)); /* before the first backward pass */
    slot->valid = count_valid(first, first + own);
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    valid.targets = (int64_t)(slot->valid * P);
#endif
    LS_TRY(forward(z, max, sum, losses, first * S, own * S));
    backward(dz, z, max, sum, first * S, own * S, (size_t)valid.targets);
    for (size_t b = 0; b < own; b++) of_sequences[b] = ls_tree_sum(losses + b * S, S, 1);
    LS_TRY(ls_reduce_loss(dp, (ls_sequence_losses){of_sequences, NULL}, (ls_batch_cut){B, bounds},
                          valid, &loss));
    slot->different = ls_block_differ(LS_F32, &loss, &s.loss, (ls_block){1, 0, 1, 0, 1});
    for (int order = 0; order < ORDERS; order++) {
        LS_TRY(one_step(dp, order, dz, dW, slot));
        if (order == 0) slot->reduced = ls_rank_count(rank, LS_OP_ALL_REDUCE);
        slot->different += ls_block_differ(LS_F32, dW, s.dW, (ls_block){DV, 0, 1, 0, DV});
    }
    if (slot->valid)
        slot->own_mean = (ls_tree_sum(of_sequences, own, 1) + 0.0f) / (float)slot->valid;
    float *other;
    LS_TRY(ls_arena_alloc(work, own * S * V, sizeof *other, (void *)&other));
    LS_TRY(mistakes(dp, dz, other, z, max, sum, slot));
exit:
    ls_arena_destroy(&work);
    return status;
}

/* ---- what is printed */

static bool equal = true; /* every bit and every count is as it must be */

/* Draws T over the sequences lo .. hi: a node is marked with the rank that finishes it only, and
 * with * where the all-reduce adds. */
static void draw(char (*rows)[3 * DRAWN], size_t lo, size_t hi)
{
    size_t width = 3 * (hi - lo), owner = 0, left = hi - lo > 1 ? ls_tree_split(hi - lo) : 0;
    char *node = rows[0] + 3 * lo, label[24] = "*";
    while (bounds[owner + 1] <= lo) owner++;
    bool alone = hi <= bounds[owner + 1];
    if (alone) snprintf(label, sizeof label, "%zu", owner);
    memset(node, '-', width);
    node[0] = '[', node[width - 1] = ']';
    memcpy(node + (width - strlen(label)) / 2, label, strlen(label));
    if (alone) return;
    draw(rows + 1, lo, lo + left);
    draw(rows + 1, lo + left, hi);
}

static void show_tree(void)
{
    char rows[MAX_DEPTH][3 * DRAWN];
    if (B > DRAWN) return;
    memset(rows, ' ', sizeof rows);
    draw(rows, 0, B);
    for (size_t b = 0; b < B; b++) printf("%s%3zu", b ? "" : "sequence ", b);
    for (int d = 0; d < MAX_DEPTH && memchr(rows[d], '[', 3 * B); d++)
        printf("\n         %.*s", (int)(3 * B), rows[d]);
    printf("\n");
}

/* Runs a step on P replicas and prints what each had and sent. */
static ls_status show(void)
{
    ls_status status = LS_OK;
    size_t different = 0, handed = 0, every_time = 0;
    const struct slot *of_middle = &slots[P / 2];
    LS_TRY(ls_world_run((int)P, NULL, one_rank, NULL));

    printf("\n%zu replica%s, %zu micro-batch%s each\n", P, P > 1 ? "s" : "", M, M > 1 ? "es" : "");
    show_tree();
    printf("rank  sequences  targets  their mean   slots  bytes, 4 D V each  all-reduces  bytes  "
           "nodes\n");
    for (size_t p = 0; p < P; p++) {
        const struct slot *slot = &slots[p];
        ls_node nodes[LS_FOREST_MAX];
        size_t n = ls_tree_forest(B, bounds[p], bounds[p + 1], nodes);
        printf("%4zu   %2zu .. %-2zu  %7zu  %10.6f  %2zu, %2zu  %17zu  %11zu  %5zu ", p, bounds[p],
               bounds[p + 1], slot->valid, (double)slot->own_mean, slot->most[0], slot->most[1],
               slot->bytes[0], (size_t)slot->reduced.calls, (size_t)slot->reduced.bytes);
        for (size_t j = 0; j < n; j++) printf(" %zu..%zu", nodes[j].lo, nodes[j].hi);
        printf("\n");
        /* the targets, the loss, the gradients; with one replica the last only */
        equal &= slot->reduced.calls == (P > 1 ? 3 : 1);
        equal &= slot->reduced.bytes == (P > 1 ? 8 + 4 * n : 0) + n * 4 * DV;
        for (int i = 0; i < ORDERS; i++) equal &= slot->bytes[i] == slot->most[i] * 4 * DV;
        different += slot->different, handed += n;
        for (size_t m = 0; m < M; m++) {
            ls_share run = ls_share_of(bounds[p + 1] - bounds[p], M, m);
            size_t lo = bounds[p] + run.first;
            every_time += ls_tree_forest(B, lo, lo + run.count, NULL);
        }
    }
    printf(
        "gradients handed in: %zu bytes, 1 call; reduced after every micro-batch: %zu, %zu calls\n",
        handed * 4 * DV, every_time * 4 * DV, M);
    printf("what waits on rank %zu: a micro-batch arrives -> nodes afterwards\n", P / 2);
    for (size_t m = 0; m < M; m++)
        printf("  first first  %-38s  last first  %s\n", of_middle->waiting[FIRST_FIRST][m],
               of_middle->waiting[LAST_FIRST][m]);
    printf("loss and dW, in either order: %zu of %zu numbers differ from the serial run's\n",
           different, P * (2 * DV + 1));
    printf(
        "WRONG ON PURPOSE, the mean of the means: loss %.6f in place of %.6f; dW off by %.1f%%\n",
        (double)slots[0].mean_of_means, (double)s.loss, 100 * slots[0].off_weights);
    printf(
        "WRONG ON PURPOSE, a running total: %zu of %d numbers of dW differ, by up to %.1g of the "
        "largest\n",
        slots[0].running_different, DV, slots[0].off_running);
    equal &= different == 0 && slots[0].off_running < 1e-5;
exit:
    return status;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    static const size_t counts[] = {1, 2, 3, 4};
    ls_status status = LS_OK;
    size_t given = 0, parts = 0;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &given, 1, MAX_P, "P", "replicas. Left out: 1, 2, 3 and 4 in turn"),
        ls_option_size("batch", &B, 1, MAX_B, "B", "sequences of the global batch"),
        ls_option_size("micro-batches", &parts, 1, MAX_B, "M",
                       "of each replica. Left out: 6, or as many as its sequences make"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 10: data parallelism: weights, the tree over the batch, what waits\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    size_t most = given ? given : 1;
    if (most * (parts ? parts : 1) > B)
        LS_FAIL(LS_ERR_INPUT,
                "--batch %zu: %zu replicas x %zu micro-batches need %zu sequences or "
                "more",
                B, most, parts ? parts : 1, most * (parts ? parts : 1));
    ls_stream stream = {seed, LS_RANDOM_TEST, 0, 0};
    for (size_t i = 0; i < DV; i++) W[i] = (float)ls_random_normal(stream, i);
    for (size_t i = 0; i < B * S * D; i++) x[i] = (float)ls_random_normal(stream, DV + i);
    for (size_t t = 0; t < B * S; t++) { /* the later a sequence, the fewer targets; S at first */
        bool ignored = t % S >= (S * (B - t / S) + B - 1) / B;
        targets[t] = ignored ? LS_IGNORE : (int32_t)(t * t % V);
    }
    LS_TRY(run_serial());

    printf("B = %zu sequences of %d tokens, %zu targets; W: D x V = %d x %d; float\n", B, S,
           s.valid, D, V);
    printf("slots: gradients that wait or are being made, at the most; micro-batches first first, "
           "last first\n");
    printf("all-reduces: targets 8, loss 4 n, gradients 4 n D V bytes, n nodes handed in\n");
    for (size_t i = 0; i < (given ? 1 : sizeof counts / sizeof *counts); i++) {
        P = given ? given : counts[i];
        M = parts ? parts : B / P < 6 ? B / P : 6;
        if (P * M > B || M == 0) continue;
        ls_share_bounds(B, P, bounds);
        LS_TRY(show());
    }
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "10_data_parallel: %s\n", ls_error_text());
    return ls_exit_code(status);
}
