/* 01_ranks_and_barriers.c - a world of ranks, groups of them, a barrier, and what an error does.
 *
 * Sources: Valiant, A bridging model for parallel computation (CACM 33(8), 1990): compute,
 * exchange, wait for all - a superstep; Mellor-Crummey and Scott, Algorithms for scalable
 * synchronization on shared-memory multiprocessors (ACM TOCS 9(1), 1991), section 3: barriers.
 * Groups are in a grid, neighbours in one row, as Megatron-LM places its tensor-parallel ranks.
 *
 * A rank is a thread that owns a part of the data. Here a rod of CELLS cells, closed to a ring, is
 * cut into as many parts as there are ranks, and warmth flows:
 *
 *     next[i] = now[i - 1] / 4 + now[i] / 2 + now[i + 1] / 4
 *
 * At its ends a rank reads cells of its neighbours. No rank may begin step t + 1 before every rank
 * has finished step t: one barrier. It is enough because there are two arrays, so that no rank
 * overwrites what a neighbour still reads. Each cell is computed by one rank, by the same
 * expression as in the serial run, and so has the same bits.
 *
 * Ranks may outnumber cores by far: who waits spins a little, then yields, then sleeps. When one
 * rank fails, the world is aborted: every call that waits returns, on every rank (--fail shows it).
 */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { CELLS = 60, STEPS = 25, MAX_RANKS = 256, FAIL_STEP = 7 };

static float rod[2][CELLS], expected[CELLS];
static size_t bounds[MAX_RANKS + 1];
static int failing = -1; /* the rank that fails in the middle; -1: none */

/* What a rank leaves for the main thread, which reads it after the join: a thread neither
 * prints nor judges. */
static struct slot {
    int row[2], column[2]; /* own number in two groups, and their sizes */
    int32_t root;          /* what was broadcast                        */
    uint64_t barriers, bytes, waited_ns;
    ls_status status;
    char text[160];
} slots[MAX_RANKS];

static void warm(float *cells)
{
    for (int i = 0; i < CELLS; i++) cells[i] = (float)(i * i % 17) / 3;
}

static void step(float *next, const float *now, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        next[i] =
            0.25f * now[(i + CELLS - 1) % CELLS] + 0.5f * now[i] + 0.25f * now[(i + 1) % CELLS];
}

/* The whole rod in one thread, with arrays of its own. */
static void run_serial(void)
{
    float next[CELLS];
    warm(expected);
    for (int t = 0; t < STEPS; t++) {
        step(next, expected, 0, CELLS);
        memcpy(expected, next, sizeof next);
    }
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    int me = ls_rank_index(rank);
    struct slot *slot = &slots[me];
    ls_group *world = ls_rank_world_group(rank), *row, *column;

    /* Groups: a grid two ranks wide. Who passes the same color is in the same group, which counts
     * its members from 0 again; a root is named by that number. The last of a column broadcasts. */
    LS_TRY(ls_group_split(world, me / 2, me, "row", &row));
    LS_TRY(ls_group_split(world, me % 2, me, "column", &column));
    slot->row[0] = ls_group_rank(row), slot->row[1] = ls_group_size(row);
    slot->column[0] = ls_group_rank(column), slot->column[1] = ls_group_size(column);
    slot->root = me;
    LS_TRY(ls_broadcast(column, &slot->root, 1, LS_I32, ls_group_size(column) - 1));

    for (int t = 0; t < STEPS; t++) {
        float *now = rod[t % 2], *next = rod[(t + 1) % 2];
#ifdef LS_APP_FAULT /* a test builds the chapter with this fault: it must notice, and end with 1   \
                     */
        next = now = rod[STEPS % 2];
#endif
        if (me == failing && t == FAIL_STEP)
            LS_FAIL(LS_ERR_RANK, "fire in cells %zu .. %zu at step %d", bounds[me], bounds[me + 1],
                    t);
        step(next, now, bounds[me], bounds[me + 1]);
        uint64_t begin = ls_clock_ns();
        LS_TRY(ls_barrier(world));
        slot->waited_ns += ls_clock_ns() - begin;
    }
exit:
    slot->barriers = ls_rank_count(rank, LS_OP_BARRIER).calls;
    slot->bytes = ls_rank_count(rank, LS_OP_BROADCAST).bytes;
    slot->status = status;
    snprintf(slot->text, sizeof slot->text, "%s", ls_error_text());
    return status;
}

/* What a rank must have seen of its groups: its place and the sizes follow from its number only.
 */
static bool grid_is_right(const struct slot *slot, int me, int ranks)
{
    int last = ranks - 1, root = last - (last - me) % 2;
    return slot->row[0] == me % 2 && slot->row[1] == (me % 2 == 0 && me == last ? 1 : 2) &&
           slot->column[0] == me / 2 && slot->column[1] == (ranks + 1 - me % 2) / 2 &&
           slot->root == root;
}

/* Runs the rod on `ranks` ranks and prints what each owned and saw; *ret_equal: all as it must be.
 * The status of a world with a failing rank is that rank's. */
static ls_status show(int ranks, bool *ret_equal)
{
    bool equal = true;
    memset(slots, 0, sizeof slots);
    warm(rod[0]), warm(rod[1]);
    ls_share_bounds(CELLS, (size_t)ranks, bounds);
    ls_status status = ls_world_run(ranks, NULL, one_rank, NULL);

    printf(
        "\n%d rank%s\nrank  cells     row     column     broadcast: from, bytes  barriers  us each"
        "  ended with\n",
        ranks, ranks > 1 ? "s" : "");
    for (int p = 0; p < ranks; p++) {
        struct slot *slot = &slots[p];
        equal &= grid_is_right(slot, p, ranks);
        equal &= slot->bytes == (slot->root == p ? sizeof slot->root : 0);
        equal &= failing >= 0 ? slot->status == (p == failing ? LS_ERR_RANK : LS_ERR_ABORTED)
                              : slot->status == LS_OK && slot->barriers == STEPS;
        if (p >= 4 && p + 1 < ranks && ranks > 12 && p != failing) {
            if (p == 4) printf(" ...\n");
            continue;
        }
        printf("%4d  %2zu .. %-2zu  %d of %d  %3d of %-3d  %15d  %5zu  %8zu  %7.1f  %s\n", p,
               bounds[p], bounds[p + 1], slot->row[0], slot->row[1], slot->column[0],
               slot->column[1], slot->root, (size_t)slot->bytes, (size_t)slot->barriers,
               (double)slot->waited_ns / STEPS / 1000,
               slot->status == LS_OK ? "success" : slot->text);
    }
    if (failing < 0) {
        bool same = memcmp(rod[STEPS % 2], expected, sizeof expected) == 0;
        printf("after %d steps %s; the formulas: a barrier per step, 4 bytes on a root\n", STEPS,
               same ? "every cell has the bits of the serial run" : "some cell is DIFFERENT");
        equal &= same;
    }
    *ret_equal = equal;
    return status;
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 3, 4, 7, 64};
    ls_status status = LS_OK;
    size_t ranks = 0; /* not given */
    bool fail = false, help = false, equal = true, all_equal = true;
    ls_option options[] = {
        ls_option_size("ranks", &ranks, 1, MAX_RANKS, "N",
                       "how many. Left out: 1, 2, 3, 4, 7 and 64 in turn (with --fail: 4)"),
        ls_option_flag("fail", &fail, "rank N / 2 fails in the middle of the run"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 1: ranks, groups, barriers, and what an error on one rank does\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    run_serial();
    printf("A ring of %d cells in float, %d steps, a barrier after each. Two groups per rank: own "
           "number of how many.\n",
           CELLS, STEPS);
    if (fail && ranks == 0) ranks = 4;
    if (fail) failing = (int)ranks / 2;
    for (size_t i = 0; status == LS_OK && i < (ranks ? 1 : sizeof counts / sizeof *counts); i++) {
        status = show(ranks ? (int)ranks : counts[i], &equal);
        all_equal &= equal;
    }
    if (!all_equal) status = LS_DIFFERENT;
    if (status == LS_OK) printf("\nEvery cell, group and count is what it must be.\n");
    if (status == LS_DIFFERENT) printf("\nDIFFERENT: a cell, a group or a count is wrong.\n");
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "01_ranks_and_barriers: %s\n", ls_error_text());
    return ls_exit_code(status);
}
