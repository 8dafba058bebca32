/* judge_collectives.c - the cases of barrier, broadcast and the collectives.
 *
 * Counts go up and down from case to case, so that a backend that keeps a buffer of the last call's
 * size, or a flag where the last call's data ended, is found out. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "lockstep/base/clock.h"
#include "conformance/judge_operations.h"
#include "base/append.h"

enum { COUNTS = 10, RANGE = 99 };

/* None, one, around the number of ranks, primes; large next to small. */
static size_t count_of(const judge_trial *trial, size_t which)
{
    const size_t P = (size_t)trial->ranks;
    const size_t counts[COUNTS] = {1, 4097, P, 0, 97, P + 1, 7, P - 1, 13, 2 * P};
    return counts[which % COUNTS];
}

static void note_count(judge_trial *trial, size_t n)
{
    if (n > 500) trial->traits |= JUDGE_LARGE;
    if (n % (size_t)trial->ranks != 0) trial->traits |= JUDGE_UNEVEN;
}

/* "shares 3 2 0" */
static void name_shares(const judge_trial *trial, const size_t *starts, char *text, size_t size)
{
    size_t at = ls_append(text, size, 0, "shares");
    for (int r = 0; r < trial->ranks; r++)
        at = ls_append(text, size, at, " %zu", starts[r + 1] - starts[r]);
}

/* What the calls read. */
typedef struct call_shape {
    size_t n, rows;
    int root;
    bool in_place;
    ls_backend_reduction reduction;
    const size_t *starts, *counts;
} call_shape;

static ls_status new_shape(judge_trial *trial, call_shape **ret_shape)
{
    ls_status status = LS_OK;
    LS_TRY(ls_trial_room(trial, 1, sizeof **ret_shape, ret_shape));
    trial->shape = *ret_shape;
exit:
    return status;
}

/* ---- barrier ---- */

typedef struct meeting {
    _Atomic size_t arrived; /* of all, since the case began */
    size_t calls[JUDGE_MAX_RANKS];
} meeting;

static ls_status prepare_barrier(judge_trial *trial)
{
    ls_status status = LS_OK;
    meeting *m = NULL;
    judge_tensor *arrived = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *m, &m));
    trial->shape = m;
    LS_TRY(ls_trial_add_own(trial, "ranks that have arrived", JUDGE_WANTED, 1, &arrived));
    for (size_t i = 0; i < arrived->n; i++) arrived->value[i] = trial->ranks;
    snprintf(trial->label, sizeof trial->label, "rank %zu late",
             trial->number % (size_t)trial->ranks);
exit:
    return status;
}

/* No rank leaves before all have come. The counter is relaxed: only the barrier makes the order. */
static int call_barrier(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    meeting *m = trial->shape;
    const size_t P = (size_t)me->ranks, mine = m->calls[me->rank]++;
    if ((size_t)me->rank == trial->number % P) ls_clock_sleep_ns(300000);
    atomic_fetch_add_explicit(&m->arrived, 1, memory_order_relaxed);
    const int result = ((const ls_backend *)backend)->barrier(me);
    const size_t seen = atomic_load_explicit(&m->arrived, memory_order_relaxed) - mine * P;
    *(ls_real *)b[0] = (ls_real)(seen < P ? seen : P);
    return result;
}

/* ---- broadcast ---- */

static ls_status prepare_broadcast(judge_trial *trial)
{
    ls_status status = LS_OK;
    const size_t n = count_of(trial, trial->number), P = (size_t)trial->ranks;
    call_shape *shape = NULL;
    judge_tensor *buffer = NULL;
    double *kept = NULL, *first = NULL;
    LS_TRY(new_shape(trial, &shape));
    *shape = (call_shape){.n = n, .root = (int)(trial->number * 2 % P)};
    if (shape->root != 0) trial->traits |= JUDGE_NOT_ROOT_0;
    note_count(trial, n);
    snprintf(trial->label, sizeof trial->label, "n %zu, root %d", n, shape->root);
    LS_TRY(ls_trial_add_own(trial, "buffer", JUDGE_CHANGED, n, &buffer));
    ls_trial_draw(trial, buffer, RANGE);
    for (size_t i = 0; i < buffer->n; i++)
        buffer->value[i] = buffer->before[(size_t)shape->root * n + i % n];
    LS_TRY(ls_trial_variant(trial, buffer, LS_CAUSE_NONE, "rank 0 taken for the root", &first));
    LS_TRY(
        ls_trial_variant(trial, buffer, LS_CAUSE_NONE, "the root's data does not arrive", &kept));
    for (size_t i = 0; i < buffer->n; i++) {
        first[i] = buffer->before[i % n];
        kept[i] = buffer->before[i];
    }
exit:
    return status;
}

static int call_broadcast(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                          void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)->broadcast(me, b[0], s->n, s->root);
}

/* ---- all-reduce ---- */

static double largest(const judge_tensor *in, size_t ranks, size_t n, size_t i)
{
    double x = in->before[i];
    for (size_t r = 1; r < ranks; r++) x = fmax(x, in->before[r * n + i]);
    return x;
}

/* out: n elements, or in place ranks x n of which each rank has its row. */
static ls_status all_reduce_value(judge_trial *trial, const call_shape *shape,
                                  const judge_tensor *in, judge_tensor *out)
{
    ls_status status = LS_OK;
    const size_t P = (size_t)trial->ranks, n = shape->n;
    double *other = NULL;
    LS_TRY(ls_trial_parts(trial, out));
    for (size_t r = 0; r < P; r++)
        for (size_t i = 0; i < out->n; i++) out->part[r * out->n + i] = in->before[r * n + i % n];
    ls_judge_sum_parts(trial, out);
    if (shape->reduction == LS_BACKEND_SUM) {
        LS_TRY(ls_judge_order_parts(trial, out));
        LS_TRY(
            ls_trial_variant(trial, out, LS_CAUSE_NONE, "the largest instead of the sum", &other));
        for (size_t i = 0; i < out->n; i++) other[i] = largest(in, P, n, i % n);
    } else {
        LS_TRY(
            ls_trial_variant(trial, out, LS_CAUSE_NONE, "the sum instead of the largest", &other));
        LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_NONE, "the maximum begins at 0", &other));
        for (size_t i = 0; i < out->n; i++) {
            out->value[i] = largest(in, P, n, i % n);
            out->bound[i] = 0;
            other[i] = fmax(0, out->value[i]);
        }
    }
exit:
    return status;
}

static ls_status prepare_all_reduce(judge_trial *trial)
{
    ls_status status = LS_OK;
    call_shape *shape = NULL;
    judge_tensor *in = NULL, *out = NULL;
    LS_TRY(new_shape(trial, &shape));
    *shape = (call_shape){.n = count_of(trial, trial->number / 2),
                          .in_place = trial->number % 2 == 1,
                          .reduction = (ls_backend_reduction)trial->form};
    note_count(trial, shape->n);
    if (shape->in_place) trial->traits |= JUDGE_IN_PLACE;
    snprintf(trial->label, sizeof trial->label, "n %zu%s", shape->n,
             shape->in_place ? ", in place" : "");
    LS_TRY(ls_trial_add_own(trial, shape->in_place ? "buffer" : "in",
                            shape->in_place ? JUDGE_CHANGED : JUDGE_GIVEN, shape->n, &in));
    ls_trial_draw(trial, in, RANGE);
    out = in;
    if (!shape->in_place)
        LS_TRY(ls_trial_add(trial, "out", JUDGE_WANTED, 1, shape->n, 1, NULL, &out));
    LS_TRY(all_reduce_value(trial, shape, in, out));
exit:
    return status;
}

static int call_all_reduce(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                           void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)
        ->all_reduce(me, b[s->in_place ? 0 : 1], b[0], s->n, s->reduction);
}

/* ---- reduce-scatter ---- */

static ls_status prepare_shares(judge_trial *trial, call_shape **ret_shape)
{
    ls_status status = LS_OK;
    char shares[140];
    LS_TRY(new_shape(trial, ret_shape));
    (*ret_shape)->n = count_of(trial, trial->number);
    if ((*ret_shape)->n > 500) trial->traits |= JUDGE_LARGE;
    LS_TRY(ls_trial_cut(trial, (*ret_shape)->n, 1, (int)(trial->number / 2 % 4),
                        &(*ret_shape)->starts));
    name_shares(trial, (*ret_shape)->starts, shares, sizeof shares);
    snprintf(trial->label, sizeof trial->label, "n %zu, %s", (*ret_shape)->n, shares);
exit:
    return status;
}

static ls_status prepare_reduce_scatter(judge_trial *trial)
{
    ls_status status = LS_OK;
    call_shape *shape = NULL;
    judge_tensor *in = NULL, *out = NULL;
    LS_TRY(prepare_shares(trial, &shape));
    LS_TRY(ls_trial_add_own(trial, "in", JUDGE_GIVEN, shape->n, &in));
    ls_trial_draw(trial, in, RANGE);
    LS_TRY(ls_trial_add(trial, "out", JUDGE_WANTED, 1, shape->n, 1, shape->starts, &out));
    LS_TRY(ls_trial_parts(trial, out));
    for (size_t i = 0; i < in->n; i++) out->part[i] = in->before[i];
    ls_judge_sum_parts(trial, out);
    LS_TRY(ls_judge_order_parts(trial, out));
exit:
    return status;
}

static int call_reduce_scatter(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                               void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)->reduce_scatter(me, b[1], b[0], s->starts);
}

/* ---- all-gather ---- */

/* Mistakes of a gather: shares in reverse, own share first, places as if all shares were equal. */
static ls_status gather_variants(judge_trial *trial, const judge_tensor *in, judge_tensor *out)
{
    ls_status status = LS_OK;
    const size_t P = (size_t)trial->ranks, n = out->n;
    double *reversed = NULL, *turned = NULL, *equal = NULL;
    size_t at = 0;
    LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_SHARD_ORDER, NULL, &reversed));
    LS_TRY(ls_trial_variant_by_rank(trial, out, LS_CAUSE_SHARD_ORDER, NULL, &turned));
    LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_NONE, "shares taken to be equal", &equal));
    for (size_t q = P; q-- > 0;)
        for (size_t i = 0; i < in->count[q]; i++) reversed[at++] = in->before[in->where[q][i]];
    for (size_t r = 0; r < P; r++) {
        at = r * n;
        for (size_t q = 0; q < P; q++)
            for (size_t i = 0; i < in->count[(r + q) % P]; i++)
                turned[at++] = in->before[in->where[(r + q) % P][i]];
    }
    for (size_t i = 0; i < n; i++) equal[i] = (double)NAN;
    for (size_t q = 0; q < P; q++)
        for (size_t i = 0; i < in->count[q]; i++)
            if (q * in->count[0] + i < n) equal[q * in->count[0] + i] = in->before[in->where[q][i]];
exit:
    return status;
}

static ls_status prepare_all_gather(judge_trial *trial)
{
    ls_status status = LS_OK;
    call_shape *shape = NULL;
    judge_tensor *in = NULL, *out = NULL;
    LS_TRY(prepare_shares(trial, &shape));
    LS_TRY(ls_trial_add(trial, "in", JUDGE_GIVEN, 1, shape->n, 1, shape->starts, &in));
    ls_trial_draw(trial, in, RANGE);
    LS_TRY(ls_trial_add(trial, "out", JUDGE_WANTED, 1, shape->n, 1, NULL, &out));
    for (size_t i = 0; i < out->n; i++) out->value[i] = in->before[i];
    LS_TRY(gather_variants(trial, in, out));
exit:
    return status;
}

static int call_all_gather(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                           void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)->all_gather(me, b[1], b[0], s->starts);
}

static ls_status prepare_all_gather_columns(judge_trial *trial)
{
    ls_status status = LS_OK;
    static const size_t rows[4] = {2, 5, 3, 1};
    call_shape *shape = NULL;
    judge_tensor *in = NULL, *out = NULL;
    double *joined = NULL;
    size_t at = 0;
    LS_TRY(prepare_shares(trial, &shape));
    shape->rows = rows[trial->number % 4];
    size_t used = 0;
    while (trial->label[used]) used++;
    ls_append(trial->label, sizeof trial->label, used, ", rows %zu", shape->rows);
    LS_TRY(ls_trial_add(trial, "in", JUDGE_GIVEN, shape->rows, shape->n, 1, shape->starts, &in));
    ls_trial_draw(trial, in, RANGE);
    LS_TRY(ls_trial_add(trial, "out", JUDGE_WANTED, shape->rows, shape->n, 1, NULL, &out));
    for (size_t i = 0; i < out->n; i++) out->value[i] = in->before[i];
    LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_SHARD_ORDER,
                            "joined along the first dimension instead of the last", &joined));
    for (int q = 0; q < trial->ranks; q++)
        for (size_t i = 0; i < in->count[q]; i++) joined[at++] = in->before[in->where[q][i]];
exit:
    return status;
}

static int call_all_gather_columns(const void *backend, ls_backend_rank *me,
                                   const judge_trial *trial, void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)->all_gather_columns(me, b[1], b[0], s->rows, s->starts);
}

/* ---- all-to-all ---- */

/* About `n` for each pair, none for some, different for each direction. */
static size_t pair_count(size_t n, size_t s, size_t r)
{
    return (s + 2 * r) % 5 == 3 ? 0 : n + (3 * s + r) % 4;
}

static ls_status prepare_all_to_all(judge_trial *trial)
{
    ls_status status = LS_OK;
    const size_t P = (size_t)trial->ranks;
    const size_t about = count_of(trial, trial->number) / P;
    call_shape *shape = NULL;
    judge_tensor *in = NULL, *out = NULL;
    size_t *counts = NULL, to[JUDGE_MAX_RANKS + 1] = {0}, from[JUDGE_MAX_RANKS + 1] = {0}, at = 0;
    double *reversed = NULL;
    LS_TRY(new_shape(trial, &shape));
    LS_TRY(ls_trial_room(trial, P * P, sizeof *counts, &counts));
    for (size_t s = 0; s < P; s++) {
        to[s + 1] = to[s], from[s + 1] = from[s];
        for (size_t r = 0; r < P; r++) {
            counts[s * P + r] = trial->number % 3 == 0 ? about : pair_count(about, s, r);
            to[s + 1] += counts[s * P + r];
            from[s + 1] += trial->number % 3 == 0 ? about : pair_count(about, r, s);
        }
    }
    *shape = (call_shape){.n = to[P], .counts = counts};
    if (trial->number % 3 != 0) trial->traits |= JUDGE_UNEVEN;
    snprintf(trial->label, sizeof trial->label, "%s %zu elements for each pair",
             trial->number % 3 ? "about" : "exactly", about);
    LS_TRY(ls_trial_add(trial, "in", JUDGE_GIVEN, 1, to[P], 1, to, &in));
    ls_trial_draw(trial, in, RANGE);
    LS_TRY(ls_trial_add(trial, "out", JUDGE_WANTED, 1, from[P], 1, from, &out));
    LS_TRY(
        ls_trial_variant(trial, out, LS_CAUSE_SHARD_ORDER, "blocks in the wrong order", &reversed));
    for (int order = 0; order < 2; order++, at = 0)
        for (size_t r = 0; r < P; r++)
            for (size_t k = 0; k < P; k++) {
                const size_t s = order ? P - 1 - k : k;
                size_t first = to[s];
                for (size_t q = 0; q < r; q++) first += counts[s * P + q];
                for (size_t i = 0; i < counts[s * P + r]; i++)
                    (order ? reversed : out->value)[at++] = in->before[first + i];
            }
exit:
    return status;
}

static int call_all_to_all(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                           void *const *b)
{
    const call_shape *s = trial->shape;
    return ((const ls_backend *)backend)->all_to_all(me, b[1], b[0], s->counts);
}

static const judge_operation operations[] = {
    {.name = "barrier",
     .function = JUDGE_AT(barrier),
     .exact = true,
     .shapes = 8,
     .prepare = prepare_barrier,
     .call = call_barrier,
     .otherwise = "a rank leaves before all have come"},
    JUDGE_BOTH(broadcast, COUNTS, prepare_broadcast, call_broadcast),
    JUDGE_ROW("all_reduce_sum", all_reduce, true, true, 2 * COUNTS, prepare_all_reduce,
              call_all_reduce, LS_BACKEND_SUM),
    JUDGE_ROW("all_reduce_max", all_reduce, true, true, 2 * COUNTS, prepare_all_reduce,
              call_all_reduce, LS_BACKEND_MAX),
    JUDGE_BOTH(reduce_scatter, 2 * COUNTS, prepare_reduce_scatter, call_reduce_scatter),
    JUDGE_BOTH(all_gather, 2 * COUNTS, prepare_all_gather, call_all_gather),
    JUDGE_BOTH(all_gather_columns, 2 * COUNTS, prepare_all_gather_columns, call_all_gather_columns),
    JUDGE_BOTH(all_to_all, COUNTS, prepare_all_to_all, call_all_to_all),
};

const judge_chapter ls_judge_collectives = JUDGE_CHAPTER(operations);
