#include "golden/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden/bounds_moved.h"
#include "golden/bounds_start.h"
#include "golden/bounds_truth.h"
#include "model/view_rows.h"
#include "base/allocate.h"

enum { PROBES = 4 };
/* A bound is `margin` times the farthest that a tensor moved, and `roundings` of its largest value.
 * Over three models, forty seeds and up to a dozen steps right runs in binary32 and binary64 stay
 * below 3 times the largest of four probes, mostly below 1.5; sums of thousands of terms taken one
 * by one lose some times more than those of the contract. In a narrow format a last place is coarse
 * besides what sums in binary32 lose: rounding every tensor stays below half of the largest probe.
 *
 * A largest distance is that of one element, and in a narrow format that of the worst one is often
 * as large as the values themselves: of parameters, where AdamW turned a step round. A root mean
 * square hardly changes from run to run, so `spread` times the largest of the probes is enough:
 * with every tensor rounded to bf16 or f16 right runs stay below half of that. A run of rows has
 * fewer numbers, and a share of what the whole tensor moves by is added, as one element may turn
 * round in one run and not in another. */
typedef struct allowance {
    double margin, roundings, spread, row_spread, row_share;
} allowance;
static const allowance wide = {16, 16, 16, 16, 4}, narrow = {4, 4, 1.5, 3, 1};
/* Moved weights say next to nothing of a tensor whose rounding noise is so many times as large. */
static const double next_to_nothing = 256;

/* One run, looked at: the truth, which is kept, or another, compared with it. */
typedef struct observation {
    ls_truth *truth;
    ls_moved *moved;    /* distances per tensor; NULL: this is the truth */
    double scale;       /* of distances */
    const double *most; /* which are limited then: see most_of; NULL: they are not */
    /* What this run and the truth began with: of a parameter, what the steps changed is compared.
     * How far the weights were moved is no part of what a right step may differ by. */
    double *const *begun, *const *truth_begun;
    const ls_truth_options *options;
    uint64_t done, of;
    const char *what;
} observation;

static double value_at(const ls_view *view, const void *row, size_t i)
{
    return view->dtype == LS_F64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
}

/* |b - a|; infinity where only one of them is a number. */
static double distance_of(double a, double b)
{
    const double distance = isnan(a) && isnan(b) ? 0 : a == b ? 0 : fabs(b - a);
    return isnan(distance) ? (double)INFINITY : distance;
}

/* What noise may be scaled up to. A parameter goes as far as AdamW's steps; what the forward pass
 * makes of one that is moved by nothing else than noise (a key, by its bias) as far as the steps
 * before. */
static double most_of(const observation *l, uint64_t step, int node)
{
    const ls_graph_node *of = &l->truth->graph->nodes[node];
    const size_t s = (size_t)(step - l->truth->first);
    if (of->make == LS_MAKE_UPDATED) return l->most[s];
    if (of->phase == LS_GRAPH_FORWARD || of->make == LS_MAKE_RUNNING)
        return s > 0 ? l->most[s - 1] : 0;
    return ls_graph_zero_on_paper(l->truth->graph, node) ? HUGE_VAL : 0;
}

/* How far element i of a tensor is from the truth's. */
static double moved_by(const observation *l, const ls_graph_node *of, size_t i, double truth,
                       double value)
{
    if (of->make != LS_MAKE_UPDATED) return l->scale * distance_of(truth, value);
    const int param = of->params[0];
    const double moved = l->begun[param][i] - l->truth_begun[param][i];
    double distance = distance_of(truth + moved, value);
    /* Noise is scaled up, but not the last rounding of what is stored in binary32. */
    if (l->scale > 1) distance -= 2 * ls_unit_roundoff(LS_F32) * fabs(value);
    return l->scale * (distance < 0 ? 0 : distance);
}

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    ls_status status = LS_OK;
    observation *l = context;
    ls_truth *truth = l->truth;
    const int node = ls_graph_find_view(truth->graph, view);
    const size_t rows = ls_view_rows(view), count = ls_view_row_run(view).count;
    (void)rank; /* there is one */

    if (node < 0) return LS_OK;
    const size_t place = (size_t)(view->step - truth->first) * truth->graph->count + (size_t)node;
    double **values = &truth->values[place];
    if (!l->moved && !*values) {
        const size_t n = ls_graph_elements(truth->graph, node);
        if (truth->placed)
            *values = l->options->place(l->options->context, view->step, node);
        else
            LS_ROOM(*values, n);
        if (!*values) LS_NO_MEMORY("values in binary64");
    }
    const ls_graph_node *of = &truth->graph->nodes[node];
    const double most = l->most ? most_of(l, view->step, node) : HUGE_VAL;
    for (size_t r = 0; r < rows; r++) {
        const void *row = ls_view_row(view, r);
        const size_t first = ls_view_row_place(view, r);
        double *own = *values + first;
        for (size_t i = 0; i < count; i++) {
            const double value = value_at(view, row, i);
            if (l->moved)
                ls_moved_note(&l->moved[place], first + i,
                              fmin(moved_by(l, of, first + i, own[i], value), most));
            else
                own[i] = value;
        }
    }
exit:
    return status;
}

static ls_status advance(void *context, const ls_step *step)
{
    observation *l = context;
    (void)step;
    l->done++;
    if (l->options->advance) l->options->advance(l->options->context, l->done, l->of, l->what);
    return LS_OK;
}

/* ---- runs ---- */

/* A format that the library does not compute in. */
static bool is_narrow(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16;
}

/* `run` on one rank, begun with `values`. */
static ls_status run_once(observation *l, const ls_run *run, const ls_bounds_start *start,
                          double *const *values, ls_dtype dtype, ls_engine engine)
{
    ls_status status = LS_OK;
    ls_initial initial = start->initial;
    ls_run once = *run;
    ls_train_result result = {0};
    const ls_observer observer = {l, look};
    const ls_train_hooks watcher = {.context = l, .step = advance};

    initial.values = (const double *const *)values;
    l->begun = values;
    l->truth_begun = start->values;
    once.initial = &initial;
    once.load = once.save = once.trace = NULL;
    once.seed = start->seed;
    once.serial = false;
    once.layout = ls_layout_serial();
    once.engine = engine;
    once.dtype = dtype;
    once.gathered_loss = false;
    once.no_digest = true;
    once.observer = &observer;
    once.world = (ls_world_options){.stop = run->world.stop};
    LS_TRY(ls_train(&once, &watcher, &result));
    if (l->moved) ls_moved_end_run(l->moved, l->truth->steps * l->truth->graph->count);
exit:
    ls_train_result_free(&result);
    return status;
}

/* Runs moved by a unit in the last place, in the precision itself where the library computes in it:
 * then they have its rounding errors too. */
static ls_status probe(observation *l, const ls_run *run, ls_bounds_start *start, ls_dtype dtype,
                       int probes)
{
    ls_status status = LS_OK;
    const ls_dtype computed = is_narrow(dtype) ? LS_F64 : dtype;
    for (int i = 0; i < probes; i++) {
        ls_bounds_move(start, 2 * ls_unit_roundoff(dtype), (uint32_t)i);
        LS_TRY(run_once(l, run, start, start->moved, computed, LS_ENGINE_PORTABLE));
    }
exit:
    return status;
}

/* How far two runs' parameters can be apart by their AdamW steps only, whatever the gradients: 2
 * lr r per step, where |m c1| <= r sqrt(v c2) by Cauchy and Schwarz. With SGD there is no such
 * limit.
 */
static double steps_apart(const ls_run *run, uint64_t first, uint64_t last)
{
    double apart = 0;
    if (run->optimizer != LS_ADAMW) return (double)INFINITY;
    for (uint64_t step = first; step <= last; step++) {
        const double t = (double)(step + 1), b1 = run->beta1, b2 = run->beta2, q = b1 * b1 / b2;
        const double terms = q == 1 ? t : (1 - pow(q, t)) / (1 - q);
        const double square = (1 - b1) * (1 - b1) / (1 - b2) * (1 - pow(b2, t)) /
                              ((1 - pow(b1, t)) * (1 - pow(b1, t))) * terms;
        apart += 2 * ls_learning_rate(run->lr, run->lr_floor, run->warmup, run->lr_total, step) *
                 sqrt(square);
    }
    return isnan(apart) ? (double)INFINITY : apart;
}

/* What is zero on paper (the gradient of a key's bias: softmax does not see it) is rounding noise,
 * and binary64 has none to speak of. It is taken from a run in binary32, as many times larger as
 * the precision is coarser, for tensors of which moved weights say next to nothing, and for
 * parameters, since AdamW makes steps of it. */
static ls_status noise(observation *l, const ls_run *run, ls_bounds_start *start, ls_dtype dtype,
                       int probes)
{
    ls_status status = LS_OK;
    const ls_truth *truth = l->truth;
    const size_t nodes = truth->graph->count, n = truth->steps * nodes;
    ls_moved *moved = l->moved;
    double *apart = NULL;

    l->moved = NULL;
    LS_NEW(apart, truth->steps + 1);
    for (size_t s = 0; s < truth->steps; s++)
        apart[s] = steps_apart(run, truth->first, truth->first + s);
    LS_TRY(ls_moved_create(&l->moved, truth->graph, truth->steps));
    l->scale = ls_unit_roundoff(dtype) / ls_unit_roundoff(LS_F32);
    l->most = apart;
    ls_bounds_move(start, 2 * ls_unit_roundoff(LS_F32), (uint32_t)probes);
    LS_TRY(run_once(l, run, start, start->moved, LS_F32, LS_ENGINE_PORTABLE));
    for (size_t i = 0; i < n; i++) {
        const ls_moved *from = &l->moved[i];
        const double more = wide.margin / narrow.margin;
        double most = from->most * more;
        if (truth->graph->nodes[i % nodes].make == LS_MAKE_UPDATED) {
            /* A step that is next to nothing in the truth may turn round in any run. */
            moved[i].turned = isfinite(apart[i / nodes]) ? apart[i / nodes] : 0;
            most = moved[i].turned > 0 ? moved[i].turned / narrow.margin : most;
        } else if (most < next_to_nothing * moved[i].most)
            continue;
        moved[i].most = fmax(moved[i].most, most);
        for (size_t g = 0; g <= from->groups; g++)
            moved[i].squares[g] = fmax(moved[i].squares[g], from->squares[g]);
    }
exit:
    ls_moved_destroy(&l->moved, n);
    l->moved = moved;
    l->scale = 1;
    l->most = NULL;
    free(apart);
    return status;
}

/* ---- bounds ---- */

/* To two digits, upwards: it is an estimate, and reads as one. */
static double two_digits(double bound)
{
    if (!isfinite(bound) || bound <= 0) return bound;
    const double unit = pow(10, floor(log10(bound)) - 1);
    return ceil(bound / unit) * unit;
}

static ls_status set_rows(ls_truth *to, size_t i, const double *values, const ls_moved *moved,
                          allowance a, double unit)
{
    ls_status status = LS_OK;
    const double all = sqrt(moved->squares[moved->groups]);
    double *rows = NULL;
    LS_ROOM(rows, moved->groups);
    to->rows[i] = rows;
    for (size_t g = 0; g < moved->groups; g++) {
        const size_t first = g * moved->run, left = moved->elements - first;
        const double value =
            ls_root_mean_square(values + first, left < moved->run ? left : moved->run);
        rows[g] = a.row_spread * sqrt(moved->squares[g]) + a.row_share * all +
                  moved->turned / sqrt((double)moved->run) + a.roundings * unit * value;
    }
exit:
    return status;
}

/* The bounds of a tensor that is `values` in the truth, and stored in a format of roundoff `unit`
 * that allows `a`. */
static ls_status set_bound(ls_truth *to, size_t i, const double *values, const ls_moved *moved,
                           allowance a, double unit)
{
    ls_status status = LS_OK;
    const size_t n = moved->elements;
    to->bounds[i] = two_digits(a.margin * moved->most + a.roundings * unit * ls_largest(values, n));
    if (ls_graph_zero_on_paper(to->graph, (int)(i % to->graph->count))) goto exit; /* no size */
    to->spreads[i] = two_digits(a.spread * sqrt(moved->squares[moved->groups]) +
                                moved->turned / sqrt((double)n) +
                                a.roundings * unit * ls_root_mean_square(values, n));
    LS_TRY(set_rows(to, i, values, moved, a, unit));
exit:
    return status;
}

/* A parameter that is kept in binary32: the weights as they were given, and the steps. */
static ls_status set_wide_param(ls_truth *to, size_t i, const double *values, const ls_moved *moved,
                                const ls_bounds_start *start)
{
    ls_status status = LS_OK;
    const size_t n = moved->elements;
    const int param = to->graph->nodes[i % to->graph->count].params[0];
    const double *rounded = start->values[param], *given = start->given[param];
    allowance a = narrow;
    a.roundings = wide.roundings;
    double *right = NULL;
    LS_ROOM(right, n);
    to->values[i] = right;
    for (size_t e = 0; e < n; e++) right[e] = given[e] + (values[e] - rounded[e]);
    LS_TRY(set_bound(to, i, right, moved, a, ls_unit_roundoff(LS_F32)));
exit:
    return status;
}

static ls_status set_bounds(ls_truth *truth, const ls_moved *moved, ls_dtype dtype,
                            const ls_bounds_start *start)
{
    ls_status status = LS_OK;
    const size_t nodes = truth->graph->count;
    const allowance a = is_narrow(dtype) ? narrow : wide;
    for (size_t i = 0; i < truth->steps * nodes; i++) {
        const double *values = truth->values[i];
        if (!values) continue;
        LS_TRY(set_bound(truth, i, values, &moved[i], a, ls_unit_roundoff(dtype)));
        if (!truth->wide_params || truth->graph->nodes[i % nodes].make != LS_MAKE_UPDATED) continue;
        LS_TRY(set_wide_param(truth->wide_params, i, values, &moved[i], start));
    }
exit:
    return status;
}

static ls_status hand_over(const ls_truth *truth, const ls_truth_options *options)
{
    ls_status status = LS_OK;
    const size_t nodes = truth->graph->count;
    for (size_t i = 0; options->take && i < truth->steps * nodes; i++)
        if (truth->values[i])
            LS_TRY(options->take(options->context, truth->first + i / nodes, (int)(i % nodes),
                                 truth->values[i],
                                 ls_graph_elements(truth->graph, (int)(i % nodes))));
exit:
    return status;
}

ls_status ls_truth_find(ls_truth **ret_truth, const ls_run *run, const ls_graph *graph,
                        const ls_truth_options *options)
{
    ls_status status = LS_OK;
    const int probes = options->probes > 0 ? options->probes : PROBES;
    ls_bounds_start start = {0};
    ls_moved *moved = NULL;
    size_t n = 0;
    ls_truth *truth = NULL;

    LS_TRY(ls_bounds_start_create(&start, run, graph->table, options->dtype));
    const uint64_t first = start.initial.step;
    const size_t steps = run->steps > first ? (size_t)(run->steps - first) : 0;
    n = steps * graph->count;
    LS_TRY(ls_truth_create(&truth, graph, first, steps));
    truth->placed = options->place != NULL;
    if (is_narrow(options->dtype))
        LS_TRY(ls_truth_create(&truth->wide_params, graph, first, steps));
    LS_TRY(ls_moved_create(&moved, graph, truth->steps));

    observation l = {.truth = truth, .options = options, .scale = 1, .what = "truth"};
    l.of = truth->steps * (1 + (uint64_t)probes + is_narrow(options->dtype));
    const ls_engine engine =
        ls_engine_available(LS_ENGINE_PLAIN) ? LS_ENGINE_PLAIN : LS_ENGINE_PORTABLE;
    LS_TRY(run_once(&l, run, &start, start.values, LS_F64, engine));
    l.what = "bounds";
    l.moved = moved;
    LS_TRY(probe(&l, run, &start, options->dtype, probes));
    if (is_narrow(options->dtype)) LS_TRY(noise(&l, run, &start, options->dtype, probes));
    LS_TRY(set_bounds(truth, moved, options->dtype, &start));
    LS_TRY(hand_over(truth, options));
    if (!options->keep) ls_truth_forget_values(truth);
    *ret_truth = truth;
    truth = NULL;
exit:
    ls_moved_destroy(&moved, n);
    ls_bounds_start_free(&start);
    ls_truth_destroy(&truth);
    return status;
}
