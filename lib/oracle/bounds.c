#include "oracle/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/bounds_start.h"
#include "oracle/view_rows.h"

enum { PROBES = 4 };
/* A bound is `margin` times the farthest that a tensor moved, and `roundings` of its largest value.
 * Over three models, forty seeds and up to a dozen steps right runs in binary32 and binary64 stay
 * below 3 times the largest of four probes, mostly below 1.5; sums of thousands of terms taken one
 * by one lose some times more than those of the contract. In a narrow format a last place is coarse
 * beside what sums in binary32 lose: rounding every tensor stays below half of the largest probe.
 */
typedef struct allowance {
    double margin, roundings;
} allowance;
static const allowance wide = {16, 16}, narrow = {4, 4};
/* Moved weights say next to nothing of a tensor whose rounding noise is so many times as large. */
static const double next_to_nothing = 256;

struct ls_truth {
    const ls_graph *graph;
    uint64_t first; /* step */
    size_t steps;
    double **values; /* [step * nodes + node] */
    bool placed;     /* they stand in the caller's room */
    double *bounds;  /* the same */
};

/* One run, looked at: the truth, which is kept, or another, held against it. */
typedef struct looking {
    ls_truth *truth;
    double *moved; /* largest distance per tensor; NULL: this is the truth */
    const ls_truth_options *options;
    uint64_t done, of;
    const char *what;
} looking;

static double value_at(const ls_view *view, const void *row, size_t i)
{
    return view->dtype == LS_F64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
}

/* Largest |b - a|; infinity where one of them alone is no number. */
static double farther(double most, double a, double b)
{
    const double distance = isnan(a) && isnan(b) ? 0 : a == b ? 0 : fabs(b - a);
    if (isnan(distance)) return (double)INFINITY;
    return distance > most ? distance : most;
}

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    ls_status status = LS_OK;
    looking *l = context;
    ls_truth *truth = l->truth;
    const int node = ls_graph_find_view(truth->graph, view);
    const size_t rows = ls_view_rows(view), count = ls_view_row_run(view).count;
    (void)rank; /* there is one */

    if (node < 0) return LS_OK;
    const size_t place = (size_t)(view->step - truth->first) * truth->graph->count + (size_t)node;
    double **values = &truth->values[place];
    if (!l->moved && !*values) {
        const size_t n = ls_graph_elements(truth->graph, node);
        *values = truth->placed ? l->options->place(l->options->context, view->step, node)
                                : malloc((n + 1) * sizeof **values);
        if (!*values)
            LS_FAIL(LS_ERR_MEMORY, "no memory for %zu values of %s in binary64", n,
                    truth->graph->nodes[node].name);
    }
    for (size_t r = 0; r < rows; r++) {
        const void *row = ls_view_row(view, r);
        double *own = *values + ls_view_row_place(view, r);
        for (size_t i = 0; i < count; i++) {
            const double value = value_at(view, row, i);
            if (l->moved)
                l->moved[place] = farther(l->moved[place], own[i], value);
            else
                own[i] = value;
        }
    }
exit:
    return status;
}

static ls_status advance(void *context, const ls_step *step)
{
    looking *l = context;
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
static ls_status run_once(looking *l, const ls_run *run, const ls_bounds_start *start,
                          double *const *values, ls_dtype dtype, ls_engine engine)
{
    ls_status status = LS_OK;
    ls_initial initial = start->initial;
    ls_run once = *run;
    ls_train_result result = {0};
    const ls_tap tap = {l, look};
    const ls_watcher watcher = {.context = l, .step = advance};

    initial.values = (const double *const *)values;
    once.initial = &initial;
    once.load = once.save = once.trace = NULL;
    once.seed = start->seed;
    once.serial = false;
    once.layout = ls_layout_serial();
    once.engine = engine;
    once.dtype = dtype;
    once.gathered_loss = false;
    once.no_digest = true;
    once.tap = &tap;
    once.world = (ls_world_options){.stop = run->world.stop};
    LS_TRY(ls_train(&once, &watcher, &result));
exit:
    ls_train_result_free(&result);
    return status;
}

/* Runs moved by a unit in the last place, in the precision itself where the library computes in it:
 * then they have its rounding errors too. */
static ls_status probe(looking *l, const ls_run *run, ls_bounds_start *start, ls_dtype dtype,
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

/* How far two runs' parameters can be apart by their AdamW steps alone, whatever the gradients: 2
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
static ls_status noise(looking *l, const ls_run *run, ls_bounds_start *start, ls_dtype dtype,
                       int probes)
{
    ls_status status = LS_OK;
    const ls_truth *truth = l->truth;
    const size_t nodes = truth->graph->count, n = truth->steps * nodes;
    const double coarser = ls_unit_roundoff(dtype) / ls_unit_roundoff(LS_F32);
    double *moved = l->moved;

    l->moved = calloc(n + 1, sizeof *l->moved);
    if (!l->moved) LS_FAIL(LS_ERR_MEMORY, "no memory for a bound per tensor");
    ls_bounds_move(start, 2 * ls_unit_roundoff(LS_F32), (uint32_t)probes);
    LS_TRY(run_once(l, run, start, start->moved, LS_F32, LS_ENGINE_PORTABLE));
    for (size_t i = 0; i < n; i++) {
        double scaled = l->moved[i] * coarser * wide.margin / narrow.margin;
        if (truth->graph->nodes[i % nodes].make == LS_MAKE_UPDATED)
            scaled = fmin(scaled,
                          steps_apart(run, truth->first, truth->first + i / nodes) / narrow.margin);
        else if (scaled < next_to_nothing * moved[i])
            continue;
        moved[i] = fmax(moved[i], scaled);
    }
exit:
    free(l->moved);
    l->moved = moved;
    return status;
}

/* ---- bounds ---- */

static double largest(const double *values, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(values[i]) > most) most = fabs(values[i]);
    return most;
}

/* To two digits, upwards: it is an estimate, and reads as one. */
static double two_digits(double bound)
{
    if (!isfinite(bound) || bound <= 0) return bound;
    const double unit = pow(10, floor(log10(bound)) - 1);
    return ceil(bound / unit) * unit;
}

static void set_bounds(ls_truth *truth, const double *moved, ls_dtype dtype)
{
    const size_t nodes = truth->graph->count;
    const allowance a = is_narrow(dtype) ? narrow : wide;
    for (size_t i = 0; i < truth->steps * nodes; i++) {
        truth->bounds[i] = (double)INFINITY;
        if (!truth->values[i]) continue;
        const double most =
            largest(truth->values[i], ls_graph_elements(truth->graph, (int)(i % nodes)));
        truth->bounds[i] =
            two_digits(a.margin * moved[i] + a.roundings * ls_unit_roundoff(dtype) * most);
    }
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

static void forget_values(ls_truth *truth)
{
    for (size_t i = 0; truth->values && i < truth->steps * truth->graph->count; i++) {
        if (!truth->placed) free(truth->values[i]);
        truth->values[i] = NULL;
    }
}

ls_status ls_truth_find(ls_truth **ret_truth, const ls_run *run, const ls_graph *graph,
                        const ls_truth_options *options)
{
    ls_status status = LS_OK;
    const int probes = options->probes > 0 ? options->probes : PROBES;
    ls_bounds_start start = {0};
    double *moved = NULL;
    ls_truth *truth = calloc(1, sizeof *truth);

    if (!truth) LS_FAIL(LS_ERR_MEMORY, "no memory for the truth of a run");
    truth->graph = graph;
    truth->placed = options->place != NULL;
    LS_TRY(ls_bounds_start_create(&start, run, graph->table, options->dtype));
    truth->first = start.initial.step;
    truth->steps = run->steps > truth->first ? (size_t)(run->steps - truth->first) : 0;
    const size_t n = truth->steps * graph->count;
    truth->values = calloc(n + 1, sizeof *truth->values);
    truth->bounds = calloc(n + 1, sizeof *truth->bounds);
    moved = calloc(n + 1, sizeof *moved);
    if (!truth->values || !truth->bounds || !moved)
        LS_FAIL(LS_ERR_MEMORY, "no memory for the truth of %zu steps", truth->steps);

    looking l = {.truth = truth, .options = options, .what = "truth"};
    l.of = truth->steps * (1 + (uint64_t)probes + is_narrow(options->dtype));
    const ls_engine engine =
        ls_engine_available(LS_ENGINE_PLAIN) ? LS_ENGINE_PLAIN : LS_ENGINE_PORTABLE;
    LS_TRY(run_once(&l, run, &start, start.values, LS_F64, engine));
    l.what = "bounds";
    l.moved = moved;
    LS_TRY(probe(&l, run, &start, options->dtype, probes));
    if (is_narrow(options->dtype)) LS_TRY(noise(&l, run, &start, options->dtype, probes));
    set_bounds(truth, moved, options->dtype);
    LS_TRY(hand_over(truth, options));
    if (!options->keep) forget_values(truth);
    *ret_truth = truth;
    truth = NULL;
exit:
    free(moved);
    ls_bounds_start_free(&start);
    ls_truth_destroy(&truth);
    return status;
}

void ls_truth_destroy(ls_truth **truth)
{
    if (!truth || !*truth) return;
    forget_values(*truth);
    free((*truth)->values);
    free((*truth)->bounds);
    free(*truth);
    *truth = NULL;
}

double ls_truth_bound(const ls_truth *truth, uint64_t step, int node)
{
    if (step < truth->first || step - truth->first >= truth->steps || node < 0)
        return (double)INFINITY;
    return truth->bounds[(step - truth->first) * truth->graph->count + (size_t)node];
}

const double *ls_truth_values(const ls_truth *truth, uint64_t step, int node)
{
    if (step < truth->first || step - truth->first >= truth->steps || node < 0) return NULL;
    return truth->values[(step - truth->first) * truth->graph->count + (size_t)node];
}
