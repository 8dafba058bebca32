/* 02_collectives.c - the same sum over ranks made in four ways: what each costs, and which bits it
 * gives.
 *
 * Sources: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in
 * MPICH (IJHPCA 19(1), 2005): recursive halving and doubling; Patarasuk and Yuan, Bandwidth optimal
 * all-reduce algorithms for clusters of workstations (JPDC 69(2), 2009): the ring.
 *
 * An all-reduce gives every rank the sum of all ranks' vectors (n numbers of e bytes). A sum of
 * rounded numbers depends on its order: (a + b) + c is not a + (b + c). Which order does each make?
 *
 *   direct      every rank sends everything to every other, which adds in order of rank: one chain
 *   ring        the vector in P chunks; each goes round once and collects: chunk c is a chain that
 *               begins at rank c. No all-reduce sends fewer bytes; but the chunks of one vector are
 *               added in P different orders, so bits change with P and with the place in the vector
 *   recursive   at distance 1, 2, 4, ... exchange half of what is left and add, then collect the
 *   halving     halves: as few bytes, and a tree over the ranks, the same for every element. P is a
 *               power of two
 *   forest      Lockstep's: the terms are the leaves of one tree that P has no part in. T(n) is
 *               T(first half) + T(second half); for odd n the first part is the largest power of
 *               two below n. A rank sends the nodes that it can finish alone, the collective
 *               adds the rest
 *
 * The first three give a sum of P vectors, the last the sum of all leaves as one thread makes it,
 * whatever P is; halving gives that too where each rank's share is one whole node. (Bytes: of the
 * first three what is sent, of the forest what is sent for the other threads to read.) */
#include <lockstep/parts.h>

#include <stdio.h>
#include <string.h>

enum { COUNT = 1003, MAX_LEAVES = 64, MAX_RANKS = 64, E = sizeof(float) };
enum { DIRECT, RING, HALVING, FOREST, ALGORITHMS };

static size_t leaves = 12, ranks, bounds[MAX_RANKS + 1], starts[MAX_RANKS + 1];
static float leaf[MAX_LEAVES][COUNT];     /* the terms: rank r owns bounds[r] .. bounds[r + 1] */
static float expected[ALGORITHMS][COUNT]; /* what each must give: its own order, by one thread */

/* Written by each rank, read by the main thread after the join. */
static struct slot {
    ls_comm_count counts[ALGORITHMS];
    size_t from_serial[ALGORITHMS], from_own_order[ALGORITHMS]; /* numbers that differ */
} slots[MAX_RANKS];

/* ---- the orders, by one thread */

static size_t left_of(size_t n)
{
    size_t power = 1;
    if (n % 2 == 0) return n / 2;
    while (2 * power < n) power *= 2;
    return power;
}

/* T(n) at element i of the vectors from x on. */
static float tree(float (*x)[COUNT], size_t n, size_t i)
{
    if (n == 0) return 0;
    return n == 1 ? x[0][i] : tree(x, left_of(n), i) + tree(x + left_of(n), n - left_of(n), i);
}

static void run_serial(void)
{
    static float part[MAX_RANKS][COUNT]; /* of each rank: T over its own leaves */
    for (size_t i = 0, chunk = 0; i < COUNT; i++) {
        while (i >= starts[chunk + 1]) chunk++;
        for (size_t r = 0; r < ranks; r++)
            part[r][i] = tree(leaf + bounds[r], bounds[r + 1] - bounds[r], i);
        expected[FOREST][i] = tree(leaf, leaves, i);
        expected[HALVING][i] = tree(part, ranks, i);
        expected[DIRECT][i] = part[0][i], expected[RING][i] = part[chunk][i];
        for (size_t r = 1; r < ranks; r++) {
            expected[DIRECT][i] += part[r][i];
            expected[RING][i] += part[(chunk + r) % ranks][i];
        }
    }
}

/* ---- the algorithms: sum is the rank's own vector before, the sum of all after */

static ls_status direct(ls_group *group, float *sum, float (*inbox)[COUNT])
{
    ls_status status = LS_OK;
    size_t me = (size_t)ls_group_rank(group);
    memcpy(inbox[me], sum, COUNT * E);
    for (size_t step = 1; step < ranks; step++) {
        size_t to = (me + step) % ranks, from = (me + ranks - step) % ranks;
        LS_TRY(ls_send_receive(group, (int)to, DIRECT, sum, COUNT, (int)from, DIRECT, inbox[from],
                               COUNT, LS_F32));
    }
    memcpy(sum, inbox[0], COUNT * E);
    for (size_t r = 1; r < ranks; r++) ls_add(sum, sum, inbox[r], COUNT);
exit:
    return status;
}

static ls_status ring(ls_group *group, float *sum, float (*inbox)[COUNT])
{
    ls_status status = LS_OK;
    size_t me = (size_t)ls_group_rank(group);
    int right = (int)((me + 1) % ranks), left = (int)((me + ranks - 1) % ranks);
    for (size_t step = 0; step < 2 * (ranks - 1); step++) {
        bool collecting = step < ranks - 1; /* first the sums go round, then the finished chunks */
        size_t give = (me + 2 * ranks - step) % ranks, take = (give + ranks - 1) % ranks;
        size_t n = starts[take + 1] - starts[take];
        float *mine = sum + starts[take], *into = collecting ? inbox[0] : mine;
        LS_TRY(ls_send_receive(group, right, RING, sum + starts[give],
                               starts[give + 1] - starts[give], left, RING, into, n, LS_F32));
        if (collecting) ls_add(mine, into, mine, n);
    }
exit:
    return status;
}

static ls_status halving(ls_group *group, float *sum, float (*inbox)[COUNT])
{
    ls_status status = LS_OK;
    size_t me = (size_t)ls_group_rank(group), depth = 0;
    struct {
        size_t lo, hi;
    } keep[8] = {{0, COUNT}}, give; /* keep[d]: what is left of the vector after d steps */
    for (size_t distance = 1; distance < ranks; distance *= 2, depth++) {
        size_t lo = keep[depth].lo, hi = keep[depth].hi, middle = lo + (hi - lo) / 2;
        int peer = (int)(me ^ distance);
        bool first = (me & distance) == 0;
        keep[depth + 1].lo = first ? lo : middle, keep[depth + 1].hi = first ? middle : hi;
        give.lo = first ? middle : lo, give.hi = first ? hi : middle;
        size_t n = keep[depth + 1].hi - keep[depth + 1].lo;
        LS_TRY(ls_send_receive(group, peer, HALVING, sum + give.lo, give.hi - give.lo, peer,
                               HALVING, inbox[0], n, LS_F32));
        ls_add(sum + keep[depth + 1].lo, sum + keep[depth + 1].lo, inbox[0], n);
    }
    for (size_t distance = ranks / 2; distance > 0; distance /= 2, depth--) {
        size_t lo = keep[depth].lo, hi = keep[depth].hi;
        int peer = (int)(me ^ distance);
        bool first = (me & distance) == 0;
        size_t there = first ? hi : keep[depth - 1].lo, end = first ? keep[depth - 1].hi : lo;
        LS_TRY(ls_send_receive(group, peer, HALVING, sum + lo, hi - lo, peer, HALVING, sum + there,
                               end - there, LS_F32));
    }
exit:
    return status;
}

/* partials: room for every node of the forest. */
static ls_status forest(ls_group *group, float *sum, float (*partials)[COUNT])
{
    ls_status status = LS_OK;
    size_t me = (size_t)ls_group_rank(group);
    ls_node nodes[LS_FOREST_MAX];
    size_t n_nodes = ls_tree_forest(leaves, bounds[me], bounds[me + 1], nodes);
    ls_forest owners = {leaves, bounds};
    for (size_t j = 0; j < n_nodes; j++)
        ls_tree_sum_rows(partials[j], leaf[nodes[j].lo], ls_axis_whole(nodes[j].hi - nodes[j].lo),
                         COUNT, COUNT);
#ifdef LS_APP_FAULT /* a test builds this in and expects exit status 1 */
    if (me == 0) ls_scale(partials[0], partials[0], 2, COUNT); /* sent twice */
#endif
    LS_TRY(ls_all_reduce_forest(group, sum, partials, COUNT, LS_F32, &owners));
exit:
    return status;
}

static const struct {
    const char *name, *calls, *bytes;
    ls_status (*run)(ls_group *group, float *sum, float (*room)[COUNT]);
    ls_operation operation;
} algorithms[ALGORITHMS] = {{"direct", "P - 1", "P (P - 1) n e", direct, LS_OP_SEND},
                            {"ring", "2 (P - 1)", "2 (P - 1) n e", ring, LS_OP_SEND},
                            {"recursive halving", "2 log2 P", "2 (P - 1) n e", halving, LS_OP_SEND},
                            {"forest", "1", "nodes n e", forest, LS_OP_ALL_REDUCE}};

static bool runs(int a)
{
    return a != HALVING || (ranks & (ranks - 1)) == 0;
}

static ls_status one_rank(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_status status = LS_OK;
    size_t me = (size_t)ls_rank_index(rank);
    ls_arena *arena = NULL;
    float *sum, (*room)[COUNT];
    LS_TRY(ls_arena_create(&arena, ls_rank_memory(rank), LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_alloc(arena, COUNT, E, (void *)&sum));
    LS_TRY(ls_arena_alloc(arena, MAX_RANKS, COUNT * E, (void *)&room));
    memset(&slots[me], 0, sizeof slots[me]);
    for (int a = 0; a < ALGORITHMS; a++) {
        if (!runs(a)) continue;
        ls_comm_count before = ls_rank_count(rank, algorithms[a].operation);
        ls_tree_sum_rows(sum, leaf[bounds[me]], ls_axis_whole(bounds[me + 1] - bounds[me]), COUNT,
                         COUNT);
        LS_TRY(algorithms[a].run(ls_rank_world_group(rank), sum, room));
        ls_comm_count after = ls_rank_count(rank, algorithms[a].operation);
        ls_block all = {COUNT, 0, 1, 0, COUNT};
        slots[me].counts[a] =
            (ls_comm_count){after.calls - before.calls, after.bytes - before.bytes};
        slots[me].from_serial[a] = ls_block_differ(LS_F32, sum, expected[FOREST], all);
        slots[me].from_own_order[a] = ls_block_differ(LS_F32, sum, expected[a], all);
    }
exit:
    ls_arena_destroy(&arena);
    return status;
}

/* Fills the leaves with real numbers, or with whole ones, whose sums are exact in any order, and
 * runs everything. */
static ls_status run(uint64_t seed, bool whole_numbers)
{
    ls_stream stream = {seed, LS_RANDOM_TEST, whole_numbers, 0};
    for (size_t i = 0; i < leaves * COUNT; i++) {
        double x = ls_random_normal(stream, i);
        leaf[i / COUNT][i % COUNT] = (float)(whole_numbers ? (int)(4 * x) : x);
    }
    run_serial();
    return ls_world_run((int)ranks, NULL, one_rank, NULL);
}

/* ---- what is printed */

enum { DRAWN = 24, DEPTH = 8 }; /* leaves and levels of a tree that is drawn */

/* Draws T over the leaves lo .. hi: a node is marked with the rank that finishes it only, and with
 * * where the collective adds. */
static void draw(char (*rows)[4 * DRAWN], size_t lo, size_t hi)
{
    size_t width = 4 * (hi - lo), owner = 0;
    char *node = rows[0] + 4 * lo, label[24] = "*";
    while (bounds[owner + 1] <= lo) owner++;
    bool alone = hi <= bounds[owner + 1];
    if (alone) snprintf(label, sizeof label, "%zu", owner);
    memset(node, '-', width);
    node[0] = '[', node[width - 1] = ']';
    memcpy(node + (width - strlen(label)) / 2, label, strlen(label));
    if (alone) return;
    draw(rows + 1, lo, lo + left_of(hi - lo));
    draw(rows + 1, lo + left_of(hi - lo), hi);
}

/* What each rank owns and sends; the number of partials of all. */
static size_t show_forests(void)
{
    char rows[DEPTH][4 * DRAWN];
    size_t total = 0;
    for (size_t r = 0; r < ranks; r++) {
        ls_node nodes[LS_FOREST_MAX];
        size_t n = ls_tree_forest(leaves, bounds[r], bounds[r + 1], nodes);
        printf("rank %2zu owns leaves %2zu .. %2zu, hands in", r, bounds[r], bounds[r + 1]);
        for (size_t j = 0; j < n; j++)
            printf("%s %zu .. %zu", j ? "," : "", nodes[j].lo, nodes[j].hi);
        printf(n ? "\n" : " nothing\n");
        total += n;
    }
    if (leaves > DRAWN) return total;
    memset(rows, ' ', sizeof rows);
    draw(rows, 0, leaves);
    printf("\nT(%zu): a number is the rank that finishes a node alone, * where the collective adds",
           leaves);
    for (size_t i = 0; i < leaves; i++) printf("%s%3zu ", i ? "" : "\nleaf  ", i);
    for (int d = 0; d < DEPTH && memchr(rows[d], '[', 4 * leaves); d++)
        printf("\n      %.*s", (int)(4 * leaves), rows[d]);
    printf("\n\n");
    return total;
}

static bool equal = true; /* every bit and every count is as it must be */

static ls_status show(uint64_t seed)
{
    ls_status status = LS_OK;
    size_t log2 = 0, whole_numbers = 0;
    while ((size_t)1 << (log2 + 1) <= ranks) log2++;
    LS_TRY(run(seed, true));
    for (size_t i = 0; i < ranks * ALGORITHMS; i++)
        whole_numbers += slots[i / ALGORITHMS].from_serial[i % ALGORITHMS];
    LS_TRY(run(seed, false));

    printf("\n%zu rank%s\n", ranks, ranks > 1 ? "s" : "");
    const size_t n_nodes = show_forests(), p = ranks - 1;
    const size_t calls[] = {p, 2 * p, 2 * log2, 1}, units[] = {ranks * p, 2 * p, 2 * p, n_nodes};
    printf("                    calls of a rank  bytes of all ranks      differ from T(%zu)\n",
           leaves);
    for (int a = 0; a < ALGORITHMS; a++) {
        size_t bytes = 0, different = slots[0].from_serial[a];
        for (size_t r = 0; r < ranks; r++) {
            bytes += slots[r].counts[a].bytes;
            equal &= slots[r].from_own_order[a] == 0;
            equal &= !runs(a) || slots[r].counts[a].calls == calls[a];
        }
        equal &= !runs(a) || bytes == units[a] * COUNT * E;
        equal &= a != FOREST || different == 0;
        equal &= a != HALVING || n_nodes != ranks || different == 0;
        if (runs(a))
            printf("%-18s  %2zu = %-10s  %7zu = %-14s  %4zu of %d\n", algorithms[a].name,
                   (size_t)slots[0].counts[a].calls, algorithms[a].calls, bytes,
                   algorithms[a].bytes, different, COUNT);
        else
            printf("%-18s  a power of two of ranks is needed\n", algorithms[a].name);
    }
    printf("the same with whole numbers as data: %zu numbers differ\n", whole_numbers);
    equal &= whole_numbers == 0;
exit:
    return status;
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    ls_status status = LS_OK;
    size_t given = 0;
    uint64_t seed = 1;
    bool help = false;
    ls_option options[] = {
        ls_option_size("ranks", &given, 1, MAX_RANKS, "N",
                       "how many. Left out: 1 to 8 and 12 in turn"),
        ls_option_size("leaves", &leaves, 1, MAX_LEAVES, "G",
                       "terms of the sum, shared out as evenly as can be"),
        ls_option_u64("seed", &seed, 0, UINT64_MAX, "N", "of the random numbers"),
        ls_option_flag("help", &help, "this text")};
    const size_t n_options = sizeof options / sizeof *options;

    LS_TRY(ls_isa_check());
    LS_TRY(ls_options_parse(options, n_options, argc - 1, (const char *const *)argv + 1, NULL));
    if (help) {
        printf("Chapter 2: all-reduce: direct, as a ring, by recursive halving, as a forest\n\n");
        ls_options_help(stdout, options, n_options);
        goto exit;
    }
    printf("The sum of %zu vectors of n = %d numbers of e = %d bytes; T(%zu): by one thread\n",
           leaves, COUNT, (int)E, leaves);
    for (size_t i = 0; i < (given ? 1 : sizeof counts / sizeof *counts); i++) {
        ranks = given ? given : counts[i];
        ls_share_bounds(leaves, ranks, bounds);
        ls_share_bounds(COUNT, ranks, starts);
        LS_TRY(show(seed));
    }
    printf("\n%s\n", equal
                         ? "Each has the bits of its own order, and the forest those of one thread."
                         : "DIFFERENT: a bit or a count is not what it must be.");
    if (!equal) status = LS_DIFFERENT;
exit:
    if (status != LS_OK && status != LS_DIFFERENT)
        fprintf(stderr, "02_collectives: %s\n", ls_error_text());
    return ls_exit_code(status);
}
