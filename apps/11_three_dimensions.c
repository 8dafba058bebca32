/* 11_three_dimensions.c - a whole small GPT on dp x pp x tp ranks: the grid of groups, and a few
 * training steps bit for bit.
 *
 * Source: PTD-P (arXiv 2104.04473), sections 2 and 3; sequence parallelism arXiv 2205.05198.
 *
 * Every rank is in a grid, tp fastest, then dp, then pp (as Megatron-LM numbers them), and so
 * in one group along each axis: the ranks that differ from it in that coordinate only.
 *
 *     tp   one layer's matrices      every layer, several times: neighbours, fast links
 *     pp   consecutive layers        a message per micro-batch and cut
 *     dp   the batch's sequences     gradients, once per step
 *
 * The ranks of one replica, all tp and pp, are a model group: the norm of the gradient is theirs.
 * A step, for every rank:
 *
 *     count the targets (dp); run the schedule, all micro-batches forward and backward (tp, pp);
 *     reduce the gradients (dp); the two ends of the pipeline add the two uses of a tied embedding
 *     (pp); the loss (dp, then pp); the norm (model); clip, update: nothing is sent
 *
 * Chapters 3 to 10 took the parts one by one; here the library's executor has them together. The
 * serial run has all layers, all sequences and all columns in one thread. */
#include <lockstep/parts.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 256, MAX_STEPS = 8, MAX_L = 16, MAX_B = 32, MAX_PARAMS = 8 + 16 * MAX_L };
enum { TP, DP, PP, MODEL, AXES };
static unsigned char words[] =
    "A rank is a thread that owns its shard of the weights. What it adds, and in which order, is a "
    "property of the model and not of the layout: the sum over the heads is one tree, whoever has "
    "which head, and the sum over the batch is one tree, whoever has which sequence. ";
static ls_config config;
static ls_layout layout;
static ls_param_table *table;
static size_t steps = 4, B;
static int engine = LS_ENGINE_PORTABLE;
static uint64_t seed = 1;
static ls_batch batches[MAX_STEPS]; /* the global batch of each step */
static size_t replica_bounds[MAX_RANKS + 1];
static const double clip = 1;

/* The serial run, kept to compare with: of each step, the loss, the squared norm, the gradients
 * before clipping, the parameters after the update. */
static struct {
    float loss[MAX_STEPS], *gradient[MAX_STEPS][MAX_PARAMS], *value[MAX_STEPS][MAX_PARAMS];
    double squares[MAX_STEPS];
} s;

static ls_update update_of(size_t step)
{
    /* learning rate, beta 1, beta 2, epsilon, weight decay, number of the update */
    return (ls_update){LS_ADAMW, 3e-3, 0.9, 0.95, 1e-8, 0.1, step + 1};
}

/* Batches from the text; every seventh target is left out, and all of the last sequence's, so that
 * parts of the batch have unequally many. */
static ls_status make_batches(ls_arena *arena)
{
    ls_status status = LS_OK;
    const ls_text text = {words, sizeof words - 1};
    size_t S = config.seq;
    for (size_t step = 0; step < steps; step++) {
        int32_t *tokens, *targets;
        LS_TRY(ls_arena_alloc(arena, B * S, sizeof *tokens, (void *)&tokens));
        LS_TRY(ls_arena_alloc(arena, B * S, sizeof *targets, (void *)&targets));
        ls_text_batch(&text, seed, (uint32_t)step, 0, B, S, tokens, targets);
        for (size_t t = 0; t < B * S; t++)
            if (t % 7 == 3 || (B > 1 && t / S == B - 1)) targets[t] = LS_IGNORE;
        batches[step] = (ls_batch){.B = B, .S = S, .tokens = tokens, .targets = targets};
        batches[step].seed = seed, batches[step].step = (uint32_t)step;
        batches[step].training = true;
    }
exit:
    return status;
}

/* Copies of all gradients, or all values, of parameters held whole. */
static ls_status keep(ls_arena *arena, const ls_store *store, bool gradients, float **ret_copies)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        size_t n = slot->rows * slot->cols;
        LS_TRY(ls_arena_alloc(arena, n, sizeof(float), (void *)&ret_copies[i]));
        memcpy(ret_copies[i], gradients ? slot->grad[0] : slot->value, n * sizeof(float));
    }
exit:
    return status;
}

/* The training as one thread does it. */
static ls_status run_serial(ls_arena *arena)
{
    ls_status status = LS_OK;
    ls_store *store = NULL;
    ls_serial *serial = NULL;
    LS_TRY(ls_store_create(&store, table, NULL, NULL));
    LS_TRY(ls_serial_create(&serial, store, (ls_engine)engine, NULL));
    ls_store_init(store, seed);
    for (size_t step = 0; step < steps; step++) {
        ls_update update = update_of(step);
        LS_TRY(ls_serial_forward(serial, &batches[step], &s.loss[step]));
        LS_TRY(ls_serial_backward(serial));
        LS_TRY(ls_serial_squares(serial, &s.squares[step]));
        LS_TRY(keep(arena, store, true, s.gradient[step]));
        ls_serial_update(serial, &update, s.squares[step], clip);
        LS_TRY(keep(arena, store, false, s.value[step]));
    }
exit:
    ls_serial_destroy(&serial);
    ls_store_destroy(&store);
    return status;
}

/* What a rank leaves for the main thread, which reads it after the join. */
static struct slot {
    int leader[AXES], place[AXES], size[AXES]; /* of its groups: first member, own number, size */
    bool stands_right;
    float loss[MAX_STEPS];
    double squares[MAX_STEPS];
    size_t compared, gradients[MAX_STEPS], values[MAX_STEPS]; /* that differ */
    size_t peak_bytes[LS_MEM_CATEGORIES];
    ls_comm_count step[LS_OP_COUNT]; /* of the last step */
} slots[MAX_RANKS];

/* One rank. */
typedef struct trainer {
    ls_rank *rank;
    ls_group *groups[AXES];
    ls_store *store;
    ls_schedule *schedule;
    ls_executor *executor;
    ls_arena *work;
    ls_share own; /* sequences */
    float losses[MAX_B];
} trainer;

/* Groups of equal color; each axis: whatever is equal but that coordinate. */
static ls_status make_groups(trainer *t, struct slot *slot)
{
    static const char *const names[AXES] = {"tp", "dp", "pp", "model"};
    ls_status status = LS_OK;
    ls_coordinates at = ls_layout_coordinates(&layout, ls_rank_index(t->rank));
    const int colors[AXES] = {at.pp * layout.dp + at.dp, at.pp * layout.tp + at.tp,
                              at.dp * layout.tp + at.tp, at.dp};
    const int keys[AXES] = {at.tp, at.dp, at.pp, at.pp * layout.tp + at.tp};
    for (int i = 0; i < AXES; i++) {
        LS_TRY(ls_group_split(ls_rank_world_group(t->rank), colors[i], keys[i], names[i],
                              &t->groups[i]));
        slot->leader[i] = ls_group_world_rank(t->groups[i], 0);
        slot->place[i] = ls_group_rank(t->groups[i]), slot->size[i] = ls_group_size(t->groups[i]);
    }
    const int sizes[AXES] = {layout.tp, layout.dp, layout.pp, layout.tp * layout.pp};
    slot->stands_right =
        memcmp(slot->place, keys, sizeof keys) == 0 && memcmp(slot->size, sizes, sizeof sizes) == 0;
exit:
    return status;
}

static ls_status set_up(trainer *t)
{
    ls_status status = LS_OK;
    ls_memory *memory = ls_rank_memory(t->rank);
    ls_holding holdings[MAX_PARAMS];
    t->own = ls_share_of(B, (size_t)layout.dp, (size_t)ls_group_rank(t->groups[DP]));
    LS_TRY(ls_arena_create(&t->work, memory, LS_MEM_TEMPORARY));
    ls_holdings_of(table, &layout, ls_rank_index(t->rank), holdings);
    LS_TRY(ls_store_create(&t->store, table, holdings, memory));
    LS_TRY(ls_schedule_create(&t->schedule, layout.schedule, layout.pp, layout.micro_batches,
                              layout.virtual_stages));
    ls_executor_setup setup = {.tp = t->groups[TP],
                               .pp = t->groups[PP],
                               .layout = &layout,
                               .schedule = t->schedule,
                               .engine = (ls_engine)engine,
                               .batch = B,
                               .first = t->own.first,
                               .sequences = t->own.count};
    LS_TRY(ls_executor_create(&t->executor, &setup, t->store));
    ls_store_init(t->store, seed);
exit:
    return status;
}

/* How many numbers of own shards differ from the serial run's whole arrays. */
static ls_status compare(trainer *t, float *const *whole, bool gradients, size_t *ret_different,
                         size_t *ret_compared)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(t->work);
    float *expected;
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &t->store->slots[i];
        const float *own = gradients ? slot->grad[0] : slot->value;
        size_t n = slot->rows * slot->cols;
        if (!own) continue; /* held by another stage */
        LS_TRY(ls_arena_alloc(t->work, n, sizeof *expected, (void *)&expected));
        ls_param_shard_in(&table->params[i], slot->shard, sizeof *expected, expected, whole[i]);
        *ret_different += ls_block_differ(LS_F32, own, expected, (ls_block){n, 0, 1, 0, n});
        *ret_compared += n;
        ls_arena_release(t->work, mark);
    }
exit:
    return status;
}

static ls_status train_step(trainer *t, size_t step, struct slot *slot)
{
    ls_status status = LS_OK;
    ls_group *dp = t->groups[DP], *pp = t->groups[PP];
    ls_batch batch = ls_batch_part(&batches[step], t->own.first, t->own.count);
    ls_batch_cut cut = {B, replica_bounds};
    ls_sequence_losses losses = {t->losses, NULL};
    ls_update update = update_of(step);
    ls_valid valid;
    int last = layout.pp - 1;
    for (int op = 0; op < LS_OP_COUNT; op++)
        slot->step[op] = ls_rank_count(t->rank, (ls_operation)op);

    LS_TRY(ls_count_valid(dp, &config, &batch, &valid));
    LS_TRY(ls_executor_run(t->executor, &batch, valid, losses));
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    if (step == 0)  /* replicas that go apart */
#endif
        LS_TRY(ls_reduce_gradients(dp, t->store, cut));
    LS_TRY(ls_executor_finish(t->executor));
    if (ls_group_rank(pp) == last)
        LS_TRY(ls_reduce_loss(dp, losses, cut, valid, &slot->loss[step]));
    if (last > 0) LS_TRY(ls_broadcast(pp, &slot->loss[step], 1, LS_F32, last));
    LS_TRY(ls_shared_squares(t->groups[MODEL], &layout, t->store, t->work, &slot->squares[step]));
    LS_TRY(compare(t, s.gradient[step], true, &slot->gradients[step], &slot->compared));
    ls_shard_update(t->store, &update, slot->squares[step], clip);
    LS_TRY(compare(t, s.value[step], false, &slot->values[step], &slot->compared));
    for (int op = 0; op < LS_OP_COUNT; op++) {
        ls_comm_count now = ls_rank_count(t->rank, (ls_operation)op);
        slot->step[op].calls = now.calls - slot->step[op].calls;
        slot->step[op].bytes = now.bytes - slot->step[op].bytes;
    }
exit:
    return status;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    trainer t = {.rank = rank};
    struct slot *slot = &slots[ls_rank_index(rank)];
    LS_TRY(make_groups(&t, slot));
    LS_TRY(set_up(&t));
    for (size_t step = 0; step < steps; step++) LS_TRY(train_step(&t, step, slot));
    for (int i = 0; i < LS_MEM_CATEGORIES; i++)
        slot->peak_bytes[i] = ls_memory_peak_bytes(ls_rank_memory(rank), (ls_memory_category)i);
exit:
    ls_executor_destroy(&t.executor);
    ls_schedule_destroy(&t.schedule);
    ls_store_destroy(&t.store);
    ls_arena_destroy(&t.work);
    return status;
}

/* ---- what is printed */

static bool equal = true; /* every bit and every count is as it must be */

/* The grid, a row for each pipeline rank; then every group, by its members. */
static void show_grid(const ls_plan *plan)
{
    static const char *const names[AXES] = {"tp", "dp", "pp", "model"};
    static const char *const uses[AXES] = {"sums of every layer", "gradients, once a step",
                                           "micro-batches", "gradient norm"};
    int ranks = plan->ranks;
    size_t bounds[LS_MAX_STAGES + 1];
    ls_layout_stage_bounds(&layout, config.layers, bounds);
    printf("\nreplica ");
    for (int d = 0; d < layout.dp; d++) printf("%-*d", 4 * layout.tp + 3, d);
    printf("\ntp      ");
    for (int c = 0; c < layout.dp * layout.tp; c++)
        printf("%-4d%s", c % layout.tp, c % layout.tp == layout.tp - 1 ? "   " : "");
    for (int p = 0; p < layout.pp; p++) {
        printf("\nstage %d ", p);
        for (int c = 0; c < layout.dp * layout.tp; c++) {
            ls_coordinates at = {.tp = c % layout.tp, .dp = c / layout.tp, .pp = p};
            printf("%-4d%s", ls_layout_rank(&layout, at),
                   c % layout.tp == layout.tp - 1 ? "   " : "");
        }
        for (int v = 0; v < layout.virtual_stages; v++)
            printf("%s%zu .. %zu", v ? ", " : " layers ", bounds[v * layout.pp + p],
                   bounds[v * layout.pp + p + 1]);
    }
    printf("\n");
    for (int i = 0; i < AXES; i++) {
        printf("%-6s ", names[i]);
        for (int r = 0, shown = 0; r < ranks; r++) {
            if (slots[r].leader[i] != r) continue;
            if (shown >= 32) {
                printf("...");
                break;
            }
            for (int place = 0; place < slots[r].size[i]; place++)
                for (int q = 0; q < ranks; q++)
                    if (slots[q].leader[i] == r && slots[q].place[i] == place)
                        printf("%s%d", place ? " " : "{", q), shown++;
            printf("} ");
        }
        printf("  %s\n", uses[i]);
    }
    for (int r = 0; r < ranks; r++) equal &= slots[r].stands_right;
}

static void show_steps(int ranks)
{
    printf("\nstep  serial loss          dp x pp x tp         norm      gradients, parameters that "
           "differ\n");
    for (size_t step = 0; step < steps; step++) {
        size_t gradients = 0, values = 0;
        for (int r = 0; r < ranks; r++) {
            gradients += slots[r].gradients[step], values += slots[r].values[step];
            equal &= memcmp(&slots[r].loss[step], &s.loss[step], sizeof(float)) == 0;
            equal &= memcmp(&slots[r].squares[step], &s.squares[step], sizeof(double)) == 0;
        }
        equal &= gradients == 0 && values == 0;
        printf("%4zu  %.6f %-11a  %.6f %-11a  %.6f  %zu, %zu\n", step, (double)s.loss[step],
               (double)s.loss[step], (double)slots[0].loss[step], (double)slots[0].loss[step],
               sqrt(slots[0].squares[step]), gradients, values);
    }
}

/* What each rank held and sent, against what follows from model and layout. */
static void show_ranks(const ls_plan *plan)
{
    static const ls_operation shown[] = {LS_OP_ALL_REDUCE, LS_OP_REDUCE_SCATTER, LS_OP_ALL_GATHER,
                                         LS_OP_SEND};
    static const ls_memory_category exact[] = {LS_MEM_PARAMETERS, LS_MEM_GRADIENTS,
                                               LS_MEM_OPTIMIZER, LS_MEM_ACTIVATIONS};
    size_t compared = 0;
    printf("\n      bytes at the most                                   calls: bytes of a step\n"
           "rank   parameters    gradients    optimizer  activations     all-reduce  reduce-scatter"
           "   all-gather           send\n");
    for (int r = 0; r < plan->ranks; r++) {
        const ls_rank_plan *planned = &plan->rank[r];
        for (int i = 0; i < 4; i++)
            equal &= slots[r].peak_bytes[exact[i]] == planned->bytes[exact[i]];
        for (int op = 0; op < LS_OP_COUNT; op++)
            equal &= slots[r].step[op].calls == planned->comm[op].calls &&
                     slots[r].step[op].bytes == planned->comm[op].bytes;
        compared += slots[r].compared;
        if (plan->ranks > 16 && r >= 8 && r + 1 < plan->ranks) {
            if (r == 8) printf(" ...\n");
            continue;
        }
        printf("%4d", r);
        for (int i = 0; i < 4; i++) printf("  %11zu", slots[r].peak_bytes[exact[i]]);
        for (int i = 0; i < 4; i++)
            printf("  %3zu:%9zu", (size_t)slots[r].step[shown[i]].calls,
                   (size_t)slots[r].step[shown[i]].bytes);
        printf("\n");
    }
    printf("as planned from model and layout alone; %zu numbers were compared\n", compared);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"portable", "openblas", NULL};
    static const char *const models[] = {"gpt2-nano", "llama-nano", NULL};
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", NULL};
    static const char *const ways[] = {"none", "selective", "layer", "stage", NULL};
    ls_status status = LS_OK;
    ls_plan *plan = NULL;
    ls_timeline *timeline = NULL;
    ls_arena *arena = NULL;
    int model = 0, schedule = LS_1F1B, recompute = LS_RECOMPUTE_NONE;
    size_t layers = 4;
    bool help = false, no_sp = false;
    char text[128];
    B = 8, layout = ls_layout_serial();
    layout.dp = layout.pp = layout.tp = layout.micro_batches = 2;
    ls_option options[] = {
        ls_option_int("tp", &layout.tp, 1, 64, "T", "tensor parallel"),
        ls_option_int("pp", &layout.pp, 1, 64, "K", "pipeline stages"),
        ls_option_int("dp", &layout.dp, 1, 64, "P", "data-parallel replicas"),
        ls_option_flag("no-sp", &no_sp, "without sequence parallelism in the tp groups"),
        ls_option_int("micro-batches", &layout.micro_batches, 1, 64, "M", "of each replica"),
        ls_option_choice("schedule", &schedule, schedules, "of the pipelines"),
        ls_option_int("virtual-stages", &layout.virtual_stages, 1, 64, "V",
                      "per pipeline rank; more than 1 with --schedule interleaved alone"),
        ls_option_choice("recompute", &recompute, ways, "what the backward pass computes again"),
        ls_option_choice("model", &model, models, "which one"),
        ls_option_size("layers", &layers, 1, MAX_L, "L", "of the model"),
        ls_option_size("batch", &B, 1, MAX_B, "B", "sequences of the global batch"),
        ls_option_size("steps", &steps, 1, MAX_STEPS, "N", "training steps"),
        ls_option_choice("gemm", &engine, engines, "who computes the products"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 11: a whole GPT on dp x pp x tp ranks, bit for bit\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    if (!ls_engine_available((ls_engine)engine))
        LS_FAIL(LS_ERR_INPUT, "--gemm openblas: this build has no OpenBLAS; use portable");
    LS_TRY(ls_config_named(models[model], &config));
    config.layers = layers, config.batch = B;
    layout.sp = !no_sp && layout.tp > 1;
    layout.schedule = (ls_schedule_kind)schedule, layout.recompute = (ls_recompute)recompute;
    LS_TRY(ls_layout_check(&layout, &config));
    int ranks = ls_layout_ranks(&layout);
    if (ranks > MAX_RANKS)
        LS_FAIL(LS_ERR_INPUT, "--dp x --pp x --tp: %d ranks; at most %d", ranks, MAX_RANKS);
    ls_share_bounds(B, (size_t)layout.dp, replica_bounds);
    LS_TRY(
        ls_plan_create(&plan, &(ls_plan_setup){.config = &config, .layout = &layout, .batch = B}));
    LS_TRY(ls_timeline_create(&timeline, plan->schedule, 1, 2));
    LS_TRY(ls_param_table_create(&table, &config));
    LS_TRY(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY));
    LS_TRY(make_batches(arena));
    LS_TRY(run_serial(arena));
    LS_TRY(ls_world_run(ranks, NULL, one_rank, NULL));

    ls_layout_describe(&layout, text, sizeof text);
    printf("%s, %zu layers, %zu parameters; %zu sequences of %zu tokens; %s: %d ranks\n",
           config.name, config.layers, (size_t)plan->parameters, B, config.seq, text, ranks);
    show_grid(plan);
    printf("\neach pipeline, in turn of its schedule; idle %d/%d of the time\n",
           (int)plan->bubble.over, (int)plan->bubble.under);
    ls_timeline_text(stdout, timeline, true);
    show_steps(ranks);
    show_ranks(plan);
    printf("\n%s\n", equal ? "Every bit is the serial run's, every count what its formula says."
                           : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    ls_arena_destroy(&arena);
    ls_param_table_destroy(&table);
    ls_timeline_destroy(&timeline);
    ls_plan_destroy(&plan);
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "11_three_dimensions: %s\n", ls_error_text());
    return ls_exit_code(status);
}
