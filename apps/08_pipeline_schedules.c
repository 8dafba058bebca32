/* 08_pipeline_schedules.c - a model cut along its depth: in which order the ranks take up the
 * micro-batches, how long they stand idle, what they keep meanwhile.
 *
 * Sources: GPipe (arXiv 1811.06965), section 2.3; PipeDream-flush, called 1F1B (arXiv 2006.09503);
 * interleaved stages (arXiv 2104.04473), section 2.2.
 *
 * K ranks, L layers: with one chunk per rank, rank p has the p-th run of L / K layers. A batch goes
 * through all ranks forward, then back through all of them, so one rank works at a time: naive.
 * Cut into M micro-batches, it fills the pipeline:
 *
 *     GPipe         all forward, then all backward, last first   idle (K - 1) / (M + K - 1)
 *     1F1B          K - 1 - p forward, then one forward, one     the same, but at most K - p
 *                   backward in turn                             micro-batches are kept
 *     interleaved   V chunks per rank, each 1 / V as long:       idle (K - 1) / (V M + K - 1),
 *                   stage c K + p is chunk c of rank p           V times the messages
 *
 * (G below: how many micro-batches the first group has; interleaved, they go in groups, of K each
 * when K divides M, through chunk 0, then chunk 1, ...)
 *
 * A schedule is data: the list of tasks of each rank. Below, one small loop runs any of them: it
 * takes the tasks in turn, receives what a task needs, begins to send what it made, and goes on. It
 * must go on: in 1F1B a rank sends activations down while its neighbour sends a gradient up, and
 * if both stood still until the other has taken theirs, they would for ever.
 *
 * What is computed does not depend on the schedule: each sequence gives one leaf of dW, and T over
 * all sequences is the sum, in whatever order the leaves were made. (Here all leaves are kept until
 * the end; chapter 10 keeps no more than it must.) */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { S = 4, D = 8, ROW = S * D, MAX_B = 32, MAX_K = 16, MAX_V = 4, MAX_L = MAX_K * MAX_V };
enum { NAIVE, GPIPE, ONE_F_ONE_B, INTERLEAVED, KINDS, COLUMNS = 96 };
static const char *const names[] = {"naive", "gpipe", "1f1b", "interleaved", NULL};
static size_t B = 8, K = 4, M = 4, V = 2, L;
static int engine = LS_ENGINE_PORTABLE;
static const ls_schedule *schedule; /* the one that runs */

/* The serial run: a layer is y = gelu(x W) + x; x[l] goes into layer l, x[L] comes out. */
static struct {
    float W[MAX_L][D * D], x[MAX_L + 1][MAX_B * ROW], h[MAX_L][MAX_B * ROW];
    float dx[MAX_L + 1][MAX_B * ROW], dh[MAX_B * ROW], dW[MAX_L][D * D];
} s;

/* y = gelu(h) + x, h = x W; n sequences. */
static ls_status layer_forward(float *y, float *h, const float *x, const float *W, size_t n)
{
    ls_status status = LS_OK;
    ls_axis d = ls_axis_whole(D);
    LS_TRY(ls_gemm((ls_engine)engine, LS_NO_TRANS, LS_NO_TRANS, ls_axis_of(n, S), d, d, x, D, W, D,
                   h, D, false));
    ls_gelu_tanh_forward(y, h, n * ROW);
    ls_add(y, y, x, n * ROW);
exit:
    return status;
}

/* dh = gelu'(h) dy, dx = dh W^T + dy. */
static ls_status layer_backward(float *dx, float *dh, const float *dy, const float *h,
                                const float *W, size_t n)
{
    ls_status status = LS_OK;
    ls_axis d = ls_axis_whole(D);
    ls_gelu_tanh_backward(dh, dy, h, n * ROW);
    LS_TRY(ls_gemm((ls_engine)engine, LS_NO_TRANS, LS_TRANS, ls_axis_of(n, S), d, d, dh, D, W, D,
                   dx, D, false));
    ls_add(dx, dx, dy, n * ROW);
exit:
    return status;
}

/* dW = x^T dh: T over the n sequences, inside each a sum over its tokens. */
static ls_status weight_gradient(float *dW, const float *x, const float *dh, size_t n)
{
    ls_axis d = ls_axis_whole(D);
    return ls_gemm((ls_engine)engine, LS_TRANS, LS_NO_TRANS, d, d, ls_axis_of(n, S), x, D, dh, D,
                   dW, D, false);
}

static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    for (size_t l = 0; l < L; l++) LS_TRY(layer_forward(s.x[l + 1], s.h[l], s.x[l], s.W[l], B));
    for (size_t l = L; l-- > 0;) {
        LS_TRY(layer_backward(s.dx[l], s.dh, s.dx[l + 1], s.h[l], s.W[l], B));
        LS_TRY(weight_gradient(s.dW[l], s.x[l], s.dh, B));
    }
exit:
    return status;
}

/* ---- the pipeline */

/* A micro-batch between its forward and its backward pass through one chunk. */
typedef struct flight {
    ls_arena *saved, *outgoing;
    float *x, *h; /* of each layer of the chunk */
    float *out;   /* what the last pass made, until the receiver has taken it */
    ls_isend *sending;
} flight;

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    size_t compared, different, kept_bytes;
    ls_comm_count sent;
} slots[MAX_K];

/* Numbers of `own` that differ from the serial run's. */
static void compare(struct slot *slot, const float *own, const float *serial, size_t n)
{
    slot->compared += n;
    slot->different += ls_block_differ(LS_F32, own, serial, (ls_block){n, 0, 1, 0, n});
}

/* Gives f->out to `peer`: the receiver takes it when it comes to it. */
static ls_status give(ls_group *group, flight *f, int peer, int tag, size_t n)
{
    if (peer == ls_group_rank(group)) return LS_OK; /* one rank: the next chunk finds it there */
    return ls_send_begin(group, peer, tag, f->out, n * ROW, LS_F32, &f->sending);
}

/* Takes what `from` made, sent by `peer`, or from where it lies. */
static ls_status take(ls_group *group, float *x, const flight *from, int peer, int tag, size_t n)
{
    if (peer != ls_group_rank(group)) return ls_receive(group, peer, tag, x, n * ROW, LS_F32);
    memcpy(x, from->out, n * ROW * sizeof *x);
    return LS_OK;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    ls_group *group = ls_rank_world_group(rank);
    ls_memory *memory = ls_rank_memory(rank);
    struct slot *slot = &slots[ls_rank_index(rank)];
    int p = ls_rank_index(rank), k = schedule->stages, m = schedule->micro_batches;
    int last = k * schedule->chunks - 1, down = (p + 1) % k, up = (p + k - 1) % k;
    size_t layers = L / (size_t)(last + 1), flights = (size_t)(schedule->chunks * m);
    ls_arena *work = NULL;
    flight *all = NULL;
    float *leaves, *dh, *d[2]; /* leaves: [own layers][B], D x D each */

    memset(slot, 0, sizeof *slot);
    LS_TRY(ls_arena_create(&work, memory, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_zalloc(work, flights, sizeof *all, (void *)&all));
    LS_TRY(ls_arena_alloc(work, layers * (size_t)schedule->chunks * B * D * D, sizeof(float),
                          (void *)&leaves));
    LS_TRY(ls_arena_alloc(work, B * ROW, sizeof(float), (void *)&dh));
    for (int i = 0; i < 2; i++) LS_TRY(ls_arena_alloc(work, B * ROW, sizeof(float), (void *)&d[i]));
    for (size_t i = 0; i < flights; i++) {
        LS_TRY(ls_arena_create(&all[i].saved, memory, LS_MEM_ACTIVATIONS));
        LS_TRY(ls_arena_create(&all[i].outgoing, memory, LS_MEM_COMMUNICATION));
    }

    for (int i = 0; i < schedule->n_tasks; i++) {
        ls_task task = ls_schedule_of(schedule, p)[i];
        int stage = task.chunk * k + p, tag = task.micro_batch * 2 + (int)task.pass;
        flight *f = &all[task.chunk * m + task.micro_batch];
        ls_share own = ls_share_of(B, (size_t)m, (size_t)task.micro_batch);
        size_t n = own.count, first = own.first * ROW, layer0 = (size_t)stage * layers;
        if (task.pass == LS_FORWARD) {
            LS_TRY(ls_arena_alloc(f->saved, layers * n * ROW, sizeof(float), (void *)&f->x));
            LS_TRY(ls_arena_alloc(f->saved, layers * n * ROW, sizeof(float), (void *)&f->h));
            LS_TRY(ls_arena_alloc(f->outgoing, n * ROW, sizeof(float), (void *)&f->out));
            if (stage == 0)
                memcpy(f->x, s.x[0] + first, n * ROW * sizeof(float));
            else
                LS_TRY(take(group, f->x, f - m, up, tag, n));
            for (size_t l = 0; l < layers; l++)
                LS_TRY(layer_forward(l + 1 < layers ? f->x + (l + 1) * n * ROW : f->out,
                                     f->h + l * n * ROW, f->x + l * n * ROW, s.W[layer0 + l], n));
            if (stage < last)
                LS_TRY(give(group, f, down, tag, n));
            else
                compare(slot, f->out, s.x[L] + first, n * ROW);
            continue;
        }
        if (stage < last)
            LS_TRY(take(group, d[0], f + m, down, tag, n));
        else
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
            memcpy(d[0], s.dx[L], n * ROW * sizeof(float)); /* always of the first micro-batch */
#else
            memcpy(d[0], s.dx[L] + first, n * ROW * sizeof(float));
#endif
        LS_TRY(ls_send_end(&f->sending)); /* who sent that gradient had taken the activations */
        for (size_t l = layers; l-- > 0;) {
            const float *x = f->x + l * n * ROW;
            size_t leaf = ((size_t)task.chunk * layers + l) * B + own.first;
            LS_TRY(layer_backward(d[1], dh, d[0], f->h + l * n * ROW, s.W[layer0 + l], n));
            for (size_t b = 0; b < n; b++)
                LS_TRY(weight_gradient(leaves + (leaf + b) * D * D, x + b * ROW, dh + b * ROW, 1));
            float *swap = d[0];
            d[0] = d[1], d[1] = swap;
        }
        ls_arena_release(f->saved, 0);
        memcpy(f->out, d[0], n * ROW * sizeof(float));
        if (stage > 0)
            LS_TRY(give(group, f, up, tag, n));
        else
            compare(slot, f->out, s.dx[0] + first, n * ROW);
    }
    for (size_t i = 0; i < flights; i++) LS_TRY(ls_send_end(&all[i].sending));
    for (size_t i = 0; i < layers * (size_t)schedule->chunks; i++) {
        size_t layer = (i / layers * (size_t)k + (size_t)p) * layers + i % layers;
        ls_tree_sum_rows(dh, leaves + i * B * D * D, ls_axis_whole(B), D * D, D * D);
        compare(slot, dh, s.dW[layer], D * D);
    }
    slot->kept_bytes = ls_memory_peak_bytes(memory, LS_MEM_ACTIVATIONS);
    slot->sent = ls_rank_count(rank, LS_OP_SEND);
exit:
    for (size_t i = 0; all && i < flights; i++) {
        ls_send_cancel(&all[i].sending);
        ls_arena_destroy(&all[i].saved);
        ls_arena_destroy(&all[i].outgoing);
    }
    ls_arena_destroy(&work);
    return status;
}

/* ---- what is printed */

static bool equal = true; /* every bit and every count is as it must be */

/* A column is the time of one layer forward and one of the M micro-batches: a number where a
 * forward pass of that micro-batch begins, a letter where a backward pass does. */
static void draw(const ls_timeline *timeline)
{
    if (timeline->makespan > COLUMNS) {
        printf("   (%d columns: too wide to draw; --schedule with --svg FILE draws it)\n",
               (int)timeline->makespan);
        return;
    }
    for (int p = 0; p < schedule->stages; p++) {
        char row[COLUMNS + 1] = "";
        memset(row, '.', (size_t)timeline->makespan);
        for (int i = 0; i < schedule->n_tasks; i++) {
            ls_interval at = ls_timeline_of(timeline, p)[i];
            ls_task task = ls_schedule_of(schedule, p)[i];
            bool forward = task.pass == LS_FORWARD;
            memset(row + at.start, forward ? '-' : '=', (size_t)(at.end - at.start));
            row[at.start] =
                (char)(forward ? '0' + task.micro_batch % 10 : 'a' + task.micro_batch % 26);
        }
        printf("%2d %s\n", p, row);
    }
}

/* Lays one schedule out in time, then runs it on real ranks. */
static ls_status show(int which, FILE *svg)
{
    static const ls_schedule_kind kinds[KINDS] = {LS_GPIPE, LS_GPIPE, LS_1F1B, LS_INTERLEAVED};
    static const char *const live_formulas[] = {"1            ", "M            ", "min(M, K - p)",
                                                "min(V M, (V - 1) G + 2 (K - 1 - p) + 1)",
                                                "V M          "};
    ls_status status = LS_OK;
    ls_schedule *made = NULL;
    ls_timeline *timeline = NULL;
    int k = (int)K, v = which == INTERLEAVED ? (int)V : 1, m = which == NAIVE ? 1 : (int)M;
    int unit = (int)(L / (K * (size_t)v)) * (which == NAIVE ? (int)M : 1);
    size_t bytes[MAX_V * MAX_B], compared = 0, different = 0, messages = 0, sent_bytes = 0;

    LS_TRY(ls_schedule_create(&made, kinds[which], k, m, v));
    LS_TRY(ls_timeline_create(&timeline, made, unit, 2 * unit));
    schedule = made;
    LS_TRY(ls_world_run(k, NULL, one_rank, NULL));

    ls_ratio bubble = ls_timeline_bubble(timeline), formula = ls_bubble_formula(k, m, v);
    equal &= bubble.over == formula.over && bubble.under == formula.under;
    printf("\n%s: M = %d, V = %d; a pass takes %d forward, %d backward\n", names[which], m, v, unit,
           2 * unit);
    draw(timeline);
    printf("time %d, idle %d/%d of it; the formula %s: %d/%d\n", (int)timeline->makespan,
           (int)bubble.over, (int)bubble.under,
           which == NAIVE   ? "(K - 1) / K"
           : m < k && v > 1 ? "1 - V M / (V K + M - 1)"
                            : "(K - 1) / (V M + K - 1)",
           (int)formula.over, (int)formula.under);
    printf("rank  at most alive: %s  bytes kept  messages  bytes sent  layers\n",
           m <= k && v > 1 ? live_formulas[KINDS] : live_formulas[which]);
    for (int p = 0; p < k; p++) {
        const struct slot *slot = &slots[p];
        int live = ls_schedule_live(schedule, p, -1);
        size_t per_chunk = L / (size_t)(k * v);
        for (int i = 0; i < v * m; i++)
            bytes[i] = 2 * per_chunk * ls_share_of(B, (size_t)m, (size_t)(i % m)).count * ROW * 4;
        size_t expected = ls_schedule_live_bytes(schedule, p, bytes);
        size_t calls = k == 1 ? 0 : (size_t)m * (size_t)(2 * v - (p == 0) - (p == k - 1));
        printf("%4d  %9d %*s  %10zu  %8zu  %10zu ", p, live, m > k && v > 1 ? 44 : 18, "",
               slot->kept_bytes, (size_t)slot->sent.calls, (size_t)slot->sent.bytes);
        for (int c = 0; c < v; c++)
            printf(" %zu..%zu", (size_t)(c * k + p) * per_chunk,
                   (size_t)(c * k + p + 1) * per_chunk);
        printf("\n");
        equal &= live == ls_live_formula(kinds[which], k, m, v, p);
        equal &= slot->kept_bytes == expected && slot->sent.calls == calls;
        messages += (size_t)slot->sent.calls, sent_bytes += (size_t)slot->sent.bytes;
        compared += slot->compared, different += slot->different;
    }
    size_t cuts = k == 1 ? 0 : (size_t)(k * v - 1);
    equal &= messages == 2 * cuts * (size_t)m && sent_bytes == 2 * cuts * B * ROW * 4;
    printf("all: %zu messages = 2 M (K V - 1), %zu bytes; ", messages, sent_bytes);
    printf("y dx dW: %zu of %zu numbers differ from the serial run's\n", different, compared);
    equal &= different == 0;
    if (svg) LS_TRY(ls_svg_timeline(svg, timeline, names[which]));
exit:
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&made);
    return status;
}

/* A schedule with two tasks exchanged cannot be executed; the check says why. */
static ls_status show_swapped(void)
{
    ls_status status = LS_OK;
    ls_schedule *made = NULL;
    LS_TRY(ls_schedule_create(&made, LS_1F1B, (int)K, (int)M, 1));
    ls_task *of_last = made->tasks + (size_t)(made->n_tasks) * (K - 1), first = of_last[0];
    of_last[0] = of_last[1], of_last[1] = first;
    equal &= ls_schedule_check(made) == LS_ERR_INPUT;
    printf("\nWRONG ON PURPOSE, the last rank of 1f1b begins with B0 F0; the check says:\n  %s\n",
           ls_error_text());
    ls_error_clear();
exit:
    ls_schedule_destroy(&made);
    return status;
}

static void fill(float *x, size_t n, uint64_t seed, uint32_t which, float scale)
{
    ls_stream stream = {seed, LS_RANDOM_TEST, which, 0};
    for (size_t i = 0; i < n; i++) x[i] = scale * (float)ls_random_normal(stream, i);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    uint64_t seed = 1;
    int which = INTERLEAVED;
    const char *svg = NULL;
    FILE *file = NULL;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &K, 1, MAX_K, "K", "ranks of the pipeline"),
        ls_option_size("micro-batches", &M, 1, MAX_B, "M", "parts of the batch"),
        ls_option_size("virtual-stages", &V, 1, MAX_V, "V",
                       "chunks per rank when interleaved; the model has L = K V layers"),
        ls_option_size("batch", &B, 1, MAX_B, "B", "sequences; at least M"),
        ls_option_choice("schedule", &which, names, "this one alone. Left out: all, in turn"),
        ls_option_string("svg", &svg, "FILE", "draw the last schedule shown into FILE"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 8: pipeline schedules: naive, GPipe, 1F1B, interleaved\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    if (M > B) LS_FAIL(LS_ERR_INPUT, "--micro-batches %zu: %zu sequences make 1 to %zu", M, B, B);
    if (svg && !(file = fopen(svg, "w")))
        LS_FAIL(LS_ERR_INPUT, "--svg %s: cannot be opened for writing", ls_show(svg));
    L = K * V;
    for (uint32_t l = 0; l < L; l++) fill(s.W[l], D * D, seed, l, 0.2f);
    fill(s.x[0], B * ROW, seed, MAX_L, 1), fill(s.dx[L], B * ROW, seed, MAX_L + 1, 1);
    LS_TRY(run_serial());

    printf("K = %zu ranks, L = K V = %zu layers, B = %zu sequences of %d x %d numbers; float\n", K,
           L, B, S, D);
    printf("Time: a layer, one of %zu micro-batches, forward 1, backward 2; a message 0\n", M);
    printf("Kept: 2 arrays per layer, from a micro-batch's forward to its backward pass\n");
    bool all = !ls_options_given(options, n_options, "schedule");
    for (int i = all ? NAIVE : which; i <= which; i++) LS_TRY(show(i, i == which ? file : NULL));
    LS_TRY(show_swapped());
    if (file && fflush(file) != 0) LS_FAIL(LS_ERR_IO, "--svg %s: cannot be written", ls_show(svg));
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (file) fclose(file);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "08_pipeline_schedules: %s\n", ls_error_text());
    return ls_exit_code(status);
}
