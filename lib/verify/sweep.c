/* sweep.c - the layouts that a verification goes through: a covering of all that are legal. */
#include "verify/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/parallel/layout/sharding.h"
#include "verify/net_sweep.h"
#include "base/allocate.h"

/* What is dealt out: a way to recompute and a partition; option = 2 * recompute + partition. */
enum { RECOMPUTES = LS_RECOMPUTE_STAGE + 1, PARTITIONS = 2, OPTIONS = RECOMPUTES * PARTITIONS };

/* The axes whose values an option must meet, and how many values are told apart. */
enum axis { TP = 0, SP, PP, DP, SCHEDULE, VIRTUAL, MICRO_BATCHES, AXES };
enum { VALUES = 65 };

typedef struct cover {
    /* Whether a value of an axis has met a way to recompute, a partition; and these each other. */
    bool recompute[AXES][VALUES][RECOMPUTES], partition[AXES][VALUES][PARTITIONS];
    bool each_other[RECOMPUTES][PARTITIONS];
    size_t used[OPTIONS];
} cover;

/* ---- the cover ---- */

/* How a micro-batch count is to the stages: what matters to a schedule. */
static int kind_of_count(const ls_layout *layout)
{
    int M = layout->micro_batches, K = layout->pp;
    return M == 1 ? 0 : M < K ? 1 : M == K ? 2 : 3;
}

static void values_of(const ls_layout *layout, int ret_values[AXES])
{
    const int values[AXES] = {layout->tp,           layout->sp ? 1 : 0,    layout->pp,
                              layout->dp,           (int)layout->schedule, layout->virtual_stages,
                              kind_of_count(layout)};
    for (int a = 0; a < AXES; a++) ret_values[a] = values[a] < VALUES ? values[a] : VALUES - 1;
}

/* How many pairs an option would be the first to make. */
static int gain(const cover *c, const int values[AXES], int option)
{
    int recompute = option / PARTITIONS, partition = option % PARTITIONS, fresh = 0;
    for (int a = 0; a < AXES; a++)
        fresh += !c->recompute[a][values[a]][recompute] + !c->partition[a][values[a]][partition];
    return fresh + !c->each_other[recompute][partition];
}

static void note(cover *c, const int values[AXES], int option)
{
    int recompute = option / PARTITIONS, partition = option % PARTITIONS;
    for (int a = 0; a < AXES; a++) {
        c->recompute[a][values[a]][recompute] = true;
        c->partition[a][values[a]][partition] = true;
    }
    c->each_other[recompute][partition] = true;
    c->used[option]++;
}

/* One layer goes from the last stage that has one to the first. */
static void make_uneven(ls_layout *layout, size_t layers)
{
    size_t bounds[LS_MAX_STAGES + 1];
    int stages = ls_layout_stages(layout);
    ls_layout_stage_bounds(layout, layers, bounds);
    layout->given = stages;
    for (int s = 0; s < stages; s++) layout->stage_layers[s] = (int)(bounds[s + 1] - bounds[s]);
    layout->stage_layers[stages - 1]--;
    layout->stage_layers[0]++;
}

static void apply(ls_layout *layout, int option, size_t layers)
{
    layout->recompute = (ls_recompute)(option / PARTITIONS);
    if (option % PARTITIONS != 0) make_uneven(layout, layers);
}

/* The partition of one stage cannot be another. */
static bool may_have(const ls_layout *layout, int option)
{
    return option % PARTITIONS == 0 || ls_layout_stages(layout) > 1;
}

/* Adds a layout with the option that makes most new pairs; of several, the one used least. */
static ls_status deal(ls_sweep *sweep, cover *c, ls_layout layout, size_t layers)
{
    ls_status status = LS_OK;
    int values[AXES], best = 0;
    values_of(&layout, values);
    for (int option = 1; option < OPTIONS; option++) {
        if (!may_have(&layout, option)) continue;
        int more = gain(c, values, option) - gain(c, values, best);
        if (more > 0 || (more == 0 && c->used[option] < c->used[best])) best = option;
    }
    note(c, values, best);
    apply(&layout, best, layers);
    LS_TRY(ls_sweep_add(sweep, &layout));
exit:
    return status;
}

/* ---- the layouts ---- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* The micro-batch counts of a layout, ascending; room for 5. sequences: of the smallest replica. */
static int counts_of(int pp, int sequences, int *ret_counts)
{
    int uneven = 2, n = 0;
    while (uneven <= sequences && sequences % uneven == 0) uneven++;
    const int wanted[] = {1, pp - 1, pp, pp + 1, uneven};
    for (int count = 1; count <= sequences; count++) {
        bool is_wanted = false;
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            is_wanted |= wanted[i] == count;
        if (is_wanted) ret_counts[n++] = count;
    }
    return n;
}

/* All schedules and micro-batch counts of one grid point. */
static ls_status add_grid_point(ls_sweep *sweep, cover *c, ls_layout layout,
                                const ls_config *config)
{
    ls_status status = LS_OK;
    int counts[5], sequences = smaller((int)(config->batch / (size_t)layout.dp), 1 << 20);
    int n = counts_of(layout.pp, sequences, counts);
    int most = smaller((int)config->layers, LS_MAX_STAGES) / layout.pp;
    for (int i = 0; i < n; i++) {
        layout.micro_batches = counts[i];
        layout.virtual_stages = 1;
        layout.schedule = LS_GPIPE;
        LS_TRY(deal(sweep, c, layout, config->layers));
        layout.schedule = LS_1F1B;
        if (counts[i] > 1) LS_TRY(deal(sweep, c, layout, config->layers));
        layout.schedule = LS_INTERLEAVED;
        layout.virtual_stages = 2;
        if (most >= 2) LS_TRY(deal(sweep, c, layout, config->layers));
        layout.virtual_stages = most;
        if (most > 2) LS_TRY(deal(sweep, c, layout, config->layers));
    }
exit:
    return status;
}

/* The pairs that the dealing left out: each with the first layout that can have it. */
static ls_status add_missing(ls_sweep *sweep, cover *c, size_t layers)
{
    ls_status status = LS_OK;
    size_t dealt = sweep->count;
    for (size_t i = 0; i < dealt; i++) {
        ls_layout plain = sweep->layouts[i];
        int values[AXES];
        plain.given = 0;
        values_of(&plain, values);
        for (;;) {
            int best = -1;
            for (int option = 0; option < OPTIONS; option++)
                if (may_have(&plain, option) && gain(c, values, option) > 0 &&
                    (best < 0 || gain(c, values, option) > gain(c, values, best)))
                    best = option;
            if (best < 0) break;
            ls_layout more = plain;
            note(c, values, best);
            apply(&more, best, layers);
            LS_TRY(ls_sweep_add(sweep, &more));
        }
    }
exit:
    return status;
}

/* ---- their order ---- */

/* Fewest ranks first, then by grid point, then as they were made. */
typedef struct ranked {
    int ranks;
    size_t place;
    const ls_layout *layout;
} ranked;

static int compare(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    const int keys[][2] = {{a->ranks, b->ranks},
                           {a->layout->dp, b->layout->dp},
                           {a->layout->pp, b->layout->pp},
                           {a->layout->tp, b->layout->tp},
                           {a->layout->sp, b->layout->sp},
                           {a->layout->down, b->layout->down},
                           {a->layout->across, b->layout->across},
                           {a->layout->channels, b->layout->channels}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static ls_status put_in_order(ls_sweep *sweep)
{
    ls_status status = LS_OK;
    ls_layout *sorted = NULL;
    ranked *order = NULL;
    LS_ROOM(sorted, sweep->count + 1);
    LS_ROOM(order, sweep->count + 1);
    for (size_t i = 0; i < sweep->count; i++)
        order[i] = (ranked){ls_layout_ranks(&sweep->layouts[i]), i, &sweep->layouts[i]};
    qsort(order, sweep->count, sizeof *order, compare);
    for (size_t i = 0; i < sweep->count; i++) sorted[i] = *order[i].layout;
    free(sweep->layouts);
    sweep->layouts = sorted;
    sweep->room = sweep->count;
    sorted = NULL;
exit:
    free(sorted);
    free(order);
    return status;
}

/* Every (dp, pp, tp, sp) with its schedules, and what is dealt out over these. */
static ls_status fill(ls_sweep *sweep, const ls_config *config, int max_ranks)
{
    ls_status status = LS_OK;
    size_t room = config->heads;
    cover *c = NULL;
    int *tp = NULL;
    LS_NEW(c, 1);
    LS_ROOM(tp, room);
    size_t n_tp = ls_legal_tp(config, tp, room);
    int most_pp = smaller((int)config->layers, LS_MAX_STAGES);
    int most_dp = config->batch < (size_t)max_ranks ? (int)config->batch : max_ranks;
    for (int pp = 1; pp <= most_pp && pp <= max_ranks; pp++) {
        for (int dp = 1; dp <= most_dp && dp * pp <= max_ranks; dp++) {
            for (size_t t = 0; t < n_tp && dp * pp * tp[t] <= max_ranks; t++) {
                for (int sp = 0; sp <= (tp[t] > 1 ? 1 : 0); sp++) {
                    ls_layout layout = ls_layout_serial();
                    layout.tp = tp[t];
                    layout.pp = pp;
                    layout.dp = dp;
                    layout.sp = sp != 0;
                    if (ls_layout_check(&layout, config) != LS_OK) {
                        ls_error_clear(); /* not with this model, such as sp */
                        continue;
                    }
                    LS_TRY(add_grid_point(sweep, c, layout, config));
                }
            }
        }
    }
    LS_TRY(add_missing(sweep, c, config->layers));
exit:
    free(c);
    free(tp);
    return status;
}

ls_status ls_sweep_create(ls_sweep *ret_sweep, const ls_config *config, int max_ranks)
{
    ls_status status = LS_OK;
    ls_sweep sweep = {NULL, 0, 0};
    const bool net = config->kind == LS_MODEL_NET;
    LS_TRY((net ? ls_net_sweep_fill : fill)(&sweep, config, max_ranks));
    if (sweep.count == 0) { /* whatever is wrong with one rank is wrong with all */
        ls_layout one = ls_layout_serial();
        LS_TRY(ls_layout_check(&one, config));
    }
    LS_TRY(put_in_order(&sweep));
    *ret_sweep = sweep;
    sweep.layouts = NULL;
exit:
    free(sweep.layouts);
    return status;
}
