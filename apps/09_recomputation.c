/* 09_recomputation.c - what the backward pass needs may be saved, or computed again: bytes against
 * work, and never other bits.
 *
 * Sources: Chen et al., Training Deep Nets with Sublinear Memory Cost (arXiv 1604.06174), section
 * 4; GPipe (arXiv 1811.06965), section 2.3; Korthikanti et al. (arXiv 2205.05198), section 5.
 *
 *     none        every layer keeps what its backward pass reads
 *     selective   but not the attention's probabilities, H S S per sequence: much memory, and
 *                 little work to make again from q and k
 *     segments    only the input of every g-th layer is saved. Before the backward pass of a
 *                 segment, its layers go forward again and keep everything, for this segment only
 *
 * g = 1 keeps each layer's input, g = L that of the whole stage, as GPipe does. With M
 * micro-batches alive, M L / g inputs of size i and the k bytes of each of g layers are in memory
 * at once: the least is near g = sqrt(M L i / k). Where a layer keeps no more than it is given, and
 * M = 1, that is the sqrt(L) of the first of these papers; a transformer's layer keeps some 20
 * times as much.
 *
 * A layer here is an ls_stage of its own, so that it can be seen when it is forgotten (its
 * micro-batch is destroyed) and made again. An executor does the same inside one stage, as its
 * layout says: --recompute none, selective, layer (g = 1) or stage (g = L).
 *
 * Computed again must mean the same bits. Dropout is where that goes wrong: a generator that goes
 * on from number to number gives another mask the second time. A mask that is a function of its
 * place (seed, step, layer, sequence, element; rule 4) can be drawn as often as one likes. */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_L = 16, MAX_B = 16, MAX_RANKS = 12, MAX_S = 64, MAX_TOKENS = MAX_B * MAX_S };
enum { MAX_PARAMS = 8 + 16 * MAX_L, COLUMNS = 100 };
enum { NONE = -2, SELECTIVE = -1 }; /* other modes: layers of a segment */
static ls_config config;
static ls_layout layout;
static ls_param_table *table;
static size_t L = 4, B = 4, M = 2;
static int mode, engine = LS_ENGINE_PORTABLE;
static int32_t ids[MAX_TOKENS], targets[MAX_TOKENS];
static ls_batch batch;
static ls_valid valid; /* targets of the batch */
static uint64_t seed = 1;
static ls_store *serial_store; /* the serial run's gradients */
static float serial_loss;

/* The model as one thread computes it, which keeps everything. */
static ls_status run_serial(void)
{
    ls_status status = LS_OK;
    ls_serial *serial = NULL;
    LS_TRY(ls_store_create(&serial_store, table, NULL, NULL));
    ls_store_init(serial_store, seed);
    LS_TRY(ls_serial_create(&serial, serial_store, (ls_engine)engine, NULL));
    LS_TRY(ls_serial_forward(serial, &batch, &serial_loss));
    LS_TRY(ls_serial_backward(serial));
exit:
    ls_serial_destroy(&serial);
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    size_t compared, different, kept_bytes, peak_bytes, again; /* again: layers computed again */
    ls_comm_count sent;
    size_t passes, bytes[COLUMNS]; /* kept after each pass */
    char kinds[COLUMNS + 1], layers[COLUMNS + 1];
} slots[MAX_RANKS];

/* One rank: a stage for the embedding, one for each layer, one for the head; and of each
 * micro-batch, what every stage was given and what it keeps. */
typedef struct trainer {
    ls_rank *rank;
    struct slot *slot;
    ls_store *store;
    ls_stage *stages[MAX_L + 2];
    ls_arena *inputs[MAX_B][MAX_L + 2];
    float *x[MAX_B][MAX_L + 2];
    ls_micro_batch *saved[MAX_B][MAX_L + 2]; /* NULL: forgotten, or not made yet */
    ls_arena *work;
    float *d, losses[MAX_B];
    size_t width; /* numbers of one sequence between two layers */
} trainer;

static ls_batch part(size_t m)
{
    ls_share own = ls_share_of(B, M, m);
    return ls_batch_part(&batch, own.first, own.count);
}

/* Writes down that a pass is over. */
static void note(trainer *t, char kind, size_t stage)
{
    size_t i = t->slot->passes++;
    if (i >= COLUMNS) return;
    t->slot->kinds[i] = kind;
    t->slot->layers[i] = stage == 0 ? 'e' : stage > L ? 'h' : (char)('0' + stage % 10);
    t->slot->bytes[i] = ls_memory_bytes(ls_rank_memory(t->rank), LS_MEM_ACTIVATIONS);
}

/* Forward through one stage; its output becomes the next one's input, unless that is not wanted. */
static ls_status pass(trainer *t, size_t m, size_t stage, bool output)
{
    ls_status status = LS_OK;
    ls_batch own = part(m);
    const float *y;
#ifdef LS_APP_FAULT                       /* a test builds this in and expects exit status 1 */
    own.step = (uint32_t)t->slot->passes; /* a mask of its own for every pass */
#endif
    LS_TRY(ls_micro_batch_create(&t->saved[m][stage], t->stages[stage]));
    LS_TRY(ls_stage_forward(t->stages[stage], t->saved[m][stage], &own, t->x[m][stage], &y));
    if (output) {
        size_t n = own.B * t->width;
        LS_TRY(ls_arena_alloc(t->inputs[m][stage + 1], n, sizeof *y, (void *)&t->x[m][stage + 1]));
        memcpy(t->x[m][stage + 1], y, n * sizeof *y);
    }
    ls_micro_batch_sent(t->saved[m][stage]); /* y is not needed any more */
exit:
    return status;
}

static ls_status forward(trainer *t, size_t m)
{
    ls_status status = LS_OK;
    size_t g = mode > 0 ? (size_t)mode : 0;
    for (size_t stage = 0; stage <= L + 1; stage++) {
        LS_TRY(pass(t, m, stage, stage <= L));
        if (g && 1 <= stage && stage <= L) {
            ls_micro_batch_destroy(&t->saved[m][stage]);
            if ((stage - 1) % g) ls_arena_release(t->inputs[m][stage], 0);
        }
        note(t, 'F', stage);
    }
    ls_valid own_valid;
    ls_share own = ls_share_of(B, M, m);
    memcpy(t->losses + own.first, ls_micro_batch_losses(t->saved[m][L + 1], &own_valid).tokens,
           own.count * sizeof(float));
exit:
    return status;
}

static ls_status backward(trainer *t, size_t m)
{
    ls_status status = LS_OK;
    size_t n = part(m).B * t->width, g = mode > 0 ? (size_t)mode : 1;
    const float *dx;
    for (size_t stage = L + 2; stage-- > 0;) {
        if (!t->saved[m][stage]) /* forward again from the segment's input to here */
            for (size_t again = (stage - 1) / g * g + 1; again <= stage; again++) {
                LS_TRY(pass(t, m, again, again < stage));
                note(t, 'R', again);
                t->slot->again++;
            }
        LS_TRY(ls_stage_backward(t->stages[stage], t->saved[m][stage], t->d, valid, &dx));
        if (dx) memcpy(t->d, dx, n * sizeof *dx);
        ls_micro_batch_destroy(&t->saved[m][stage]);
        ls_arena_release(t->inputs[m][stage], 0);
        note(t, 'B', stage);
    }
exit:
    return status;
}

static ls_status set_up(trainer *t)
{
    ls_status status = LS_OK;
    ls_memory *memory = ls_rank_memory(t->rank);
    ls_group *world = ls_rank_world_group(t->rank);
    ls_run_of_leaves runs[MAX_B];
    size_t copies;
    ls_holding holdings[MAX_PARAMS];
    ls_holdings_of(table, &layout, ls_rank_index(t->rank), holdings);
    LS_TRY(ls_store_create(&t->store, table, holdings, memory));
    for (size_t m = 0; m < M; m++) { /* backward, the last micro-batch comes first */
        ls_share own = ls_share_of(B, M, M - 1 - m);
        runs[m] = (ls_run_of_leaves){own.first, own.first + own.count};
    }
    LS_TRY(ls_forest_sum_slots(B, runs, M, &copies));
    LS_TRY(ls_store_gradient_slots(t->store, copies));
    ls_store_init(t->store, seed);
    LS_TRY(ls_arena_create(&t->work, memory, LS_MEM_TEMPORARY));
    for (size_t i = 0; i <= L + 1; i++) {
        ls_stage_setup setup = {.tp = world,
                                .engine = (ls_engine)engine,
                                .first_layer = i == 0 ? 0 : i - 1,
                                .layers = 1 <= i && i <= L,
                                .embedding = i == 0,
                                .head = i == L + 1,
                                .sequence_parallel = layout.sp,
                                .batch = B};
        if (mode == SELECTIVE) setup.recompute = LS_RECOMPUTE_SELECTIVE;
        LS_TRY(ls_stage_create(&t->stages[i], &setup, t->store));
        for (size_t m = 0; m < M; m++)
            LS_TRY(ls_arena_create(&t->inputs[m][i], memory, LS_MEM_ACTIVATIONS));
    }
    t->width = ls_plan_layer(&config, &layout, LS_RECOMPUTE_NONE, ls_rank_index(t->rank)).input;
    LS_TRY(ls_arena_alloc(t->work, B * t->width, sizeof(float), (void *)&t->d));
exit:
    return status;
}

static void tear_down(trainer *t)
{
    for (size_t i = 0; i <= L + 1; i++) {
        for (size_t m = 0; m < M; m++) {
            ls_micro_batch_destroy(&t->saved[m][i]);
            ls_arena_destroy(&t->inputs[m][i]);
        }
        ls_stage_destroy(&t->stages[i]);
    }
    ls_store_destroy(&t->store);
    ls_arena_destroy(&t->work);
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    struct slot *slot = &slots[ls_rank_index(rank)];
    trainer t = {.rank = rank, .slot = slot};
    float loss, *expected;

    memset(slot, 0, sizeof *slot);
    LS_TRY(set_up(&t));
    for (size_t m = 0; m < M; m++) LS_TRY(forward(&t, m));
    slot->kept_bytes = ls_memory_bytes(ls_rank_memory(rank), LS_MEM_ACTIVATIONS);
    for (size_t m = M; m-- > 0;) LS_TRY(backward(&t, m));
    slot->peak_bytes = ls_memory_peak_bytes(ls_rank_memory(rank), LS_MEM_ACTIVATIONS);
    for (size_t i = 0; i <= L + 1; i++) ls_stage_settle_gradients(t.stages[i]);
    ls_stage_finish_gradients(t.stages[0]);
    ls_add_uses(t.store);
    loss = (ls_tree_sum(t.losses, B, 1) + 0.0f) / (float)valid.targets;
    for (int op = LS_OP_ALL_REDUCE; op <= LS_OP_ALL_GATHER; op++) {
        slot->sent.calls += ls_rank_count(rank, (ls_operation)op).calls;
        slot->sent.bytes += ls_rank_count(rank, (ls_operation)op).bytes;
    }

    slot->different = ls_block_differ(LS_F32, &loss, &serial_loss, (ls_block){1, 0, 1, 0, 1});
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *own = &t.store->slots[i];
        size_t n = own->rows * own->cols;
        LS_TRY(ls_arena_alloc(t.work, n, sizeof *expected, (void *)&expected));
        ls_param_shard_in(&table->params[i], own->shard, sizeof *expected, expected,
                          serial_store->slots[i].grad[0]);
        slot->compared += n;
        slot->different +=
            ls_block_differ(LS_F32, own->grad[0], expected, (ls_block){n, 0, 1, 0, n});
    }
exit:
    tear_down(&t);
    return status;
}

static bool equal = true; /* every bit and every count is as it must be */
static size_t none_bytes; /* the most that rank 0 keeps without recomputation */

/* What rank p must keep after all forward passes, and at most: while a layer goes forward for
 * the first time, or while a segment has gone forward again. In numbers of 4 bytes. */
static void formulas(size_t p, size_t *ret_kept, size_t *ret_peak)
{
    ls_recompute way = mode == SELECTIVE ? LS_RECOMPUTE_SELECTIVE : LS_RECOMPUTE_NONE;
    ls_layer_elements e = ls_plan_layer(&config, &layout, way, (int)p);
    size_t all = ls_layer_elements_sum(&e), in = e.input, g = mode > 0 ? (size_t)mode : 0;
    size_t S = config.seq, rows = ls_axis_extent(ls_config_vocab_axis(&config)), saved = 0,
           peak = 0;
    /* The head: its input and the last norm of own tokens; logits; loss, maximum, sum of each
     * token; the sequence's loss. */
    size_t head =
        in / config.d_model * (2 * config.d_model + 2) + S * rows / (size_t)layout.tp + 3 * S + 1;
    size_t waiting = g ? L / g * in : L * all;
    for (size_t m = 0; m < M; m++) {
        size_t b = ls_share_of(B, M, m).count;
        size_t once = saved + b * (waiting + all + (g > 1) * in),
               again = saved + b * (waiting + g * all - in);
        if (g && once > peak) peak = once;
        if (g && again > peak) peak = again;
        saved += b * (waiting + head);
    }
    *ret_kept = 4 * saved, *ret_peak = 4 * (peak > saved ? peak : saved);
}

static void draw(const char *name)
{
    const struct slot *slot = &slots[0];
    if (slot->passes > COLUMNS) return;
    printf("%-14s%s\n  of layer    %s\n  bytes kept  ", name, slot->kinds, slot->layers);
    for (size_t i = 0; i < slot->passes; i++) printf("%zu", slot->bytes[i] * 9 / none_bytes);
    printf("\n");
}

/* Runs one mode and prints what it kept and did again, or draws it. */
static ls_status show(bool drawn)
{
    ls_status status = LS_OK;
    char name[32];
    size_t T = (size_t)layout.tp, compared = 0, different = 0;
    LS_TRY(ls_world_run(layout.tp, NULL, one_rank, NULL));
    snprintf(name, sizeof name, "g = %d%s", mode,
             mode == 1        ? ", layer"
             : mode == (int)L ? ", stage"
                              : "");
    if (mode < 0) snprintf(name, sizeof name, "%s", mode == NONE ? "none" : "selective");
    if (mode == NONE) none_bytes = slots[0].peak_bytes;
    for (size_t p = 0; p < T; p++) {
        size_t saved, peak;
        formulas(p, &saved, &peak);
        equal &= slots[p].kept_bytes == saved && slots[p].peak_bytes == peak;
        equal &= slots[p].again == (mode > 0 ? M * L : 0);
        compared += slots[p].compared, different += slots[p].different;
    }
    equal &= different == 0;
    if (drawn) {
        draw(name);
        goto exit;
    }
    printf("%-14s %10zu %10zu %8.1f%% %10zu %8zu: %-9zu %6zu of %zu\n", name, slots[0].kept_bytes,
           slots[0].peak_bytes, 100.0 * (double)slots[0].peak_bytes / (double)none_bytes,
           slots[0].again, (size_t)slots[0].sent.calls, (size_t)slots[0].sent.bytes, different,
           compared);
exit:
    return status;
}

static ls_status show_modes(bool drawn)
{
    ls_status status = LS_OK;
    for (mode = NONE; mode <= (int)L; mode++)
        if (mode < 0 || (mode > 0 && L % (size_t)mode == 0)) LS_TRY(show(drawn));
exit:
    return status;
}

/* One layout: what a layer keeps, then every mode. */
static ls_status show_layout(size_t ranks, bool sp)
{
    ls_status status = LS_OK;
    layout.tp = (int)ranks, layout.sp = sp;
    ls_layer_elements e = ls_plan_layer(&config, &layout, LS_RECOMPUTE_NONE, 0);
    printf("\n%zu rank%s%s. A layer keeps of one sequence, in bytes on rank 0: input %zu, norms "
           "%zu,\n",
           ranks, ranks > 1 ? "s" : "", sp ? ", sequence parallel" : "", 4 * (size_t)e.input,
           4 * (size_t)(e.norms + e.statistics));
    printf("q k v %zu, probabilities %zu, their o %zu, x + attention %zu, MLP %zu: together %zu\n",
           4 * (size_t)e.projections, 4 * (size_t)e.probabilities, 4 * (size_t)e.context,
           4 * (size_t)e.residual, 4 * (size_t)e.mlp, 4 * (size_t)ls_layer_elements_sum(&e));
    printf("The least is to be near g = sqrt(M L i / k) = %.1f\n",
           sqrt((double)(M * L * e.input) / (double)ls_layer_elements_sum(&e)));
    printf(
        "mode           saved, then at most   of none   layers   collectives of      differ from\n"
        "                  (bytes, rank 0)    at most    again   rank 0: bytes       serial run\n");
    LS_TRY(show_modes(false));
exit:
    return status;
}

/* The masks of two micro-batches, then both again, last first: from places, and from a generator
 * that goes on with every number. */
static void show_masks(void)
{
    enum { N = 1000 };
    ls_stream stream = {seed, LS_RANDOM_DROPOUT_MLP, 0, 0};
    size_t drawn = 0, from_places = 0, from_generator = 0;
    int mask[2][N];
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < N; i++) mask[m][i] = ls_random_keep(stream, drawn++, config.dropout);
    for (size_t m = 2; m-- > 0;)
        for (size_t i = 0; i < N; i++) {
            from_places += mask[m][i] != ls_random_keep(stream, m * N + i, config.dropout);
            from_generator += mask[m][i] != ls_random_keep(stream, drawn++, config.dropout);
        }
    printf("\nDrawn a second time, %zu of %d numbers of two masks differ.\n", from_places, 2 * N);
    printf("WRONG ON PURPOSE, a generator that goes on from number to number: %zu differ\n",
           from_generator);
    equal &= from_places == 0 && from_generator > 0;
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    ls_status status = LS_OK;
    size_t ranks = 0;
    bool help = false, sp = false;
    LS_TRY(ls_config_named("gpt2-nano", &config));
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_RANKS, "T",
                       "tensor parallel; it divides the 12 heads. Left out: 1, 2 and 4"),
        ls_option_flag("sp", &sp, "sequence parallel; left out without --ranks: off and on"),
        ls_option_size("layers", &L, 1, MAX_L, "L", "layers; g goes through the divisors of L"),
        ls_option_size("seq", &config.seq, 1, MAX_S, "S", "tokens of a sequence"),
        ls_option_size("batch", &B, 1, MAX_B, "B", "sequences"),
        ls_option_size("micro-batches", &M, 1, MAX_B, "M",
                       "parts of the batch; all go forward, then all backward, last first"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 9: recomputation: bytes against work, the same bits\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    if (ranks) LS_TRY(ls_share_check_equal("--ranks", ranks, config.heads, "heads"));
    if (M > B) LS_FAIL(LS_ERR_INPUT, "--micro-batches %zu: %zu sequences make 1 to %zu", M, B, B);
    config.layers = L, config.batch = B;
    layout = ls_layout_serial();
    LS_TRY(ls_param_table_create(&table, &config));
    size_t S = config.seq, D = config.d_model, F = config.d_ff;
    ls_stream stream = {seed, LS_RANDOM_TEST, 0, 0};
    for (size_t t = 0; t < B * S; t++)
        ids[t] = (int32_t)(ls_random_uniform(stream, t) * (double)config.vocab);
    for (size_t t = 0; t < B * S; t++) {
        targets[t] = t % 7 == 3 ? LS_IGNORE : ids[(t + 1) % (B * S)];
        valid.targets += targets[t] != LS_IGNORE;
    }
    batch = (ls_batch){
        .B = B, .S = S, .tokens = ids, .targets = targets, .seed = seed, .training = true};
    LS_TRY(run_serial());

    double multiplications = 2.0 * (double)(4 * D + 2 * F) + 4.0 * (double)S;
    printf(
        "L = %zu layers of width %zu, %zu heads; B = %zu sequences of S = %zu, %zu targets, in M = "
        "%zu parts\n",
        L, D, config.heads, B, S, (size_t)valid.targets, M);
    printf("Again costs, in multiplications of a layer's forward pass: selective %.1f%% (q k^T), a "
           "segment 100%%\n",
           100 * 2.0 * (double)S / multiplications);
    printf("\nF forward, R forward again, B backward; bytes kept in ninths of what none keeps\n");
    layout.tp = ranks ? (int)ranks : 1, layout.sp = sp;
    LS_TRY(show_modes(true));
    for (size_t p = ranks ? ranks : 1; p <= (ranks ? ranks : 4); p++) {
        if (config.heads % p || (!ranks && p == 3)) continue;
        for (int on = 0; on < 2; on++)
            if (ranks ? sp == (bool)on : p > 1 || !on) LS_TRY(show_layout(p, on));
    }
    show_masks();
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    ls_store_destroy(&serial_store);
    ls_param_table_destroy(&table);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "09_recomputation: %s\n", ls_error_text());
    return ls_exit_code(status);
}
