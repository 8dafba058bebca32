/* judge_trial.c - a case's tensors: who holds what, data, buffers between guard bands. */
#include "conformance/judge_trial.h"

#include <stdatomic.h>
#include <string.h>

static const unsigned char GUARD = 0xa5;

ls_status ls_trial_create(judge_trial **ret_trial, ls_dtype dtype, int ranks, ls_judge_kind kind,
                          size_t number, uint64_t seed)
{
    ls_status status = LS_OK;
    ls_arena *arena = NULL;
    judge_trial *trial = NULL;
    LS_TRY(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_zalloc(arena, 1, sizeof *trial, &trial));
    trial->arena = arena;
    trial->dtype = dtype;
    trial->precision = ls_precision_of(dtype, (size_t)ranks);
    trial->ranks = ranks;
    trial->kind = kind;
    trial->number = number;
    trial->drawn = seed * 0xd1342543de82ef95u + (uint64_t)ranks * 0x10000u +
                   (uint64_t)number * 16u + (uint64_t)kind;
    atomic_init(&trial->failed_first, -1);
    if (ranks == 1) trial->traits |= JUDGE_ONE_RANK;
    if ((ranks & (ranks - 1)) != 0) trial->traits |= JUDGE_RANKS_NO_POWER;
    *ret_trial = trial;
exit:
    if (status != LS_OK) ls_arena_destroy(&arena);
    return status;
}

void ls_trial_destroy(judge_trial **trial)
{
    if (*trial == NULL) return;
    ls_arena *arena = (*trial)->arena;
    *trial = NULL;
    ls_arena_destroy(&arena);
}

ls_status ls_trial_room(judge_trial *trial, size_t count, size_t size, void *ret)
{
    return ls_arena_zalloc(trial->arena, count, size, ret);
}

ls_status ls_trial_numbers(judge_trial *trial, size_t n, double **ret_numbers)
{
    return ls_arena_zalloc(trial->arena, n, sizeof(double), ret_numbers);
}

/* ---- tensors ---- */

/* The places of one rank: its run of the middle axis, in every outer part. */
static ls_status place(judge_trial *trial, judge_tensor *tensor, int r, size_t first, size_t end)
{
    ls_status status = LS_OK;
    size_t at = 0;
    tensor->count[r] = tensor->outer * (end - first) * tensor->inner;
    LS_TRY(ls_trial_room(trial, tensor->count[r], sizeof(size_t), &tensor->where[r]));
    for (size_t o = 0; o < tensor->outer; o++)
        for (size_t i = first * tensor->inner; i < end * tensor->inner; i++)
            tensor->where[r][at++] = o * tensor->cut * tensor->inner + i;
exit:
    return status;
}

ls_status ls_trial_add(judge_trial *trial, const char *name, judge_role role, size_t outer,
                       size_t cut, size_t inner, const size_t *starts, judge_tensor **ret_tensor)
{
    ls_status status = LS_OK;
    judge_tensor *tensor = &trial->tensors[trial->n_tensors];
    if (trial->n_tensors == JUDGE_TENSORS)
        LS_FAIL(LS_ERR_INTERNAL, "a case of the judge has more than %d arrays", JUDGE_TENSORS);
    tensor->name = name;
    tensor->role = role;
    tensor->outer = outer, tensor->cut = cut, tensor->inner = inner;
    tensor->n = outer * cut * inner;
    for (int r = 0; r < trial->ranks; r++)
        LS_TRY(place(trial, tensor, r, starts ? starts[r] : 0, starts ? starts[r + 1] : cut));
    if (role != JUDGE_WANTED) LS_TRY(ls_trial_numbers(trial, tensor->n, &tensor->before));
    if (role != JUDGE_GIVEN) {
        LS_TRY(ls_trial_numbers(trial, tensor->n, &tensor->value));
        LS_TRY(ls_trial_numbers(trial, tensor->n, &tensor->bound));
    }
    trial->n_tensors++;
    *ret_tensor = tensor;
exit:
    return status;
}

ls_status ls_trial_add_own(judge_trial *trial, const char *name, judge_role role, size_t n,
                           judge_tensor **ret_tensor)
{
    size_t starts[JUDGE_MAX_RANKS + 1];
    for (int r = 0; r <= trial->ranks; r++) starts[r] = (size_t)r * n;
    return ls_trial_add(trial, name, role, 1, (size_t)trial->ranks * n, 1, starts, ret_tensor);
}

ls_status ls_trial_parts(judge_trial *trial, judge_tensor *tensor)
{
    ls_status status = LS_OK;
    LS_TRY(ls_trial_numbers(trial, (size_t)trial->ranks * tensor->n, &tensor->part));
    LS_TRY(ls_trial_numbers(trial, tensor->n, &tensor->once));
exit:
    return status;
}

static ls_status add_variant(judge_trial *trial, judge_tensor *tensor, ls_cause cause,
                             const char *text, size_t copies, double **ret_v)
{
    ls_status status = LS_OK;
    double *v = NULL;
    if (tensor->n_variants == JUDGE_VARIANTS)
        LS_FAIL(LS_ERR_INTERNAL, "an array of the judge has more than %d variants", JUDGE_VARIANTS);
    LS_TRY(ls_trial_numbers(trial, copies * tensor->n, &v));
    for (size_t c = 0; c < copies; c++)
        for (size_t i = 0; i < tensor->n; i++) v[c * tensor->n + i] = tensor->value[i];
    tensor->variants[tensor->n_variants++] = (judge_variant){
        cause, text ? text : ls_mistake_of(cause)->sentence, v, copies > 1 ? tensor->n : 0};
    *ret_v = v;
exit:
    return status;
}

ls_status ls_trial_variant(judge_trial *trial, judge_tensor *tensor, ls_cause cause,
                           const char *text, double **ret_v)
{
    return add_variant(trial, tensor, cause, text, 1, ret_v);
}

ls_status ls_trial_variant_by_rank(judge_trial *trial, judge_tensor *tensor, ls_cause cause,
                                   const char *text, double **ret_v)
{
    return add_variant(trial, tensor, cause, text, (size_t)trial->ranks, ret_v);
}

ls_status ls_trial_cut(judge_trial *trial, size_t n, size_t granule, int kind,
                       const size_t **ret_starts)
{
    ls_status status = LS_OK;
    const size_t ranks = (size_t)trial->ranks, each = (n + ranks - 1) / ranks;
    size_t *starts = NULL;
    LS_TRY(ls_trial_room(trial, ranks + 1, sizeof *starts, &starts));
    for (size_t r = 0, end = n; r < ranks; r++, end = n) {
        if (kind == 0) end = starts[r] + n / ranks + (r < n % ranks);
        if (kind == 1 && each * (r + 1) < n) end = each * (r + 1);
        if (kind == 2) end = r < ranks / 2 ? 0 : n;
        if (kind == 3 && r + 1 < ranks)
            end = r % 2 == 0 ? starts[r] : starts[r] + (n - starts[r]) / 2;
        starts[r + 1] = end;
    }
    for (size_t r = 0; r < ranks; r++) {
        if (starts[r + 1] == starts[r]) trial->traits |= JUDGE_EMPTY_SHARE;
        if (starts[r + 1] - starts[r] != starts[1]) trial->traits |= JUDGE_UNEVEN;
    }
    for (size_t r = 0; r <= ranks; r++) starts[r] *= granule;
    *ret_starts = starts;
exit:
    return status;
}

/* ---- data ---- */

/* SplitMix64: fast, and nothing that is judged depends on which numbers these are. */
uint64_t ls_trial_word(judge_trial *trial)
{
    uint64_t x = trial->drawn += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double ls_trial_round(const judge_trial *trial, double x)
{
    return trial->dtype == LS_F32 ? (double)(float)x : x;
}

void ls_trial_draw(judge_trial *trial, judge_tensor *tensor, int range)
{
    for (size_t i = 0; i < tensor->n; i++) {
        const uint64_t word = ls_trial_word(trial);
        if (trial->kind == LS_JUDGE_EXACT) {
            tensor->before[i] = (double)(word % (2 * (uint64_t)range + 1)) - (double)range;
            continue;
        }
        /* Four even numbers of 0 .. 65535 added: near enough to a normal one. */
        double sum = 0;
        for (int part = 0; part < 4; part++) sum += (double)(word >> (16 * part) & 0xffff);
        tensor->before[i] = ls_trial_round(trial, (sum - 131070) / 37837.2);
    }
}

/* ---- buffers ---- */

static size_t element_bytes(const judge_trial *trial, const judge_tensor *tensor)
{
    return tensor->integer ? sizeof(int32_t) : ls_dtype_bytes(trial->dtype);
}

static void write_element(const judge_trial *trial, const judge_tensor *tensor, void *buffer,
                          size_t i, double x)
{
    if (tensor->integer)
        ((int32_t *)buffer)[i] = (int32_t)x;
    else if (trial->dtype == LS_F32)
        ((float *)buffer)[i] = (float)x;
    else
        ((double *)buffer)[i] = x;
}

double ls_trial_read(const judge_trial *trial, const void *buffer, size_t i)
{
    return trial->dtype == LS_F32 ? (double)((const float *)buffer)[i]
                                  : ((const double *)buffer)[i];
}

/* Bytes of all ones are NaN in every floating-point type. */
static void fill(const judge_trial *trial, const judge_tensor *tensor, int rank, void *data)
{
    if (tensor->role == JUDGE_WANTED) {
        memset(data, 0xff, tensor->count[rank] * element_bytes(trial, tensor));
        return;
    }
    for (size_t i = 0; i < tensor->count[rank]; i++)
        write_element(trial, tensor, data, i, tensor->before[tensor->where[rank][i]]);
}

/* What is only read is one buffer for both calls, whatever is written has one for each. */
ls_status ls_trial_lay_out(judge_trial *trial)
{
    ls_status status = LS_OK;
    for (int c = 0; c < JUDGE_CALLS; c++)
        for (int r = 0; r < trial->ranks; r++) {
            void **row = NULL;
            LS_TRY(ls_trial_room(trial, trial->n_tensors, sizeof *row, &row));
            for (size_t k = 0; k < trial->n_tensors; k++) {
                const judge_tensor *tensor = &trial->tensors[k];
                const size_t bytes = tensor->count[r] * element_bytes(trial, tensor);
                unsigned char *all = NULL;
                if (c > 0 && tensor->role == JUDGE_GIVEN) {
                    row[k] = trial->buffers[0][r][k];
                    continue;
                }
                LS_TRY(ls_arena_alloc(trial->arena, bytes + 2 * JUDGE_GUARD_BYTES, 1, &all));
                memset(all, GUARD, JUDGE_GUARD_BYTES);
                memset(all + JUDGE_GUARD_BYTES + bytes, GUARD, JUDGE_GUARD_BYTES);
                row[k] = all + JUDGE_GUARD_BYTES;
                fill(trial, tensor, r, row[k]);
            }
            trial->buffers[c][r] = row;
        }
exit:
    return status;
}

bool ls_trial_guard_whole(const judge_trial *trial, int call, int rank, size_t k)
{
    const judge_tensor *tensor = &trial->tensors[k];
    const unsigned char *data = trial->buffers[call][rank][k];
    const size_t bytes = tensor->count[rank] * element_bytes(trial, tensor);
    for (size_t i = 0; i < JUDGE_GUARD_BYTES; i++)
        if (data[bytes + i] != GUARD || data[(ptrdiff_t)i - JUDGE_GUARD_BYTES] != GUARD)
            return false;
    return true;
}

bool ls_trial_unchanged(const judge_trial *trial, int rank, size_t k, size_t *ret_place)
{
    const judge_tensor *tensor = &trial->tensors[k];
    const size_t bytes = element_bytes(trial, tensor);
    for (size_t i = 0; i < tensor->count[rank]; i++) {
        double was[1];
        write_element(trial, tensor, was, 0, tensor->before[tensor->where[rank][i]]);
        if (memcmp(was, (const char *)trial->buffers[0][rank][k] + i * bytes, bytes) != 0) {
            *ret_place = i;
            return false;
        }
    }
    return true;
}
