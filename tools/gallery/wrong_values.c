/* wrong_values.c - wrong sums, orders, masks and weights: what a wrapper does in place of what is
 * right. */
#include "wrong_values.h"

#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"

/* ---- sums over ranks ---- */

void ls_wrong_own_sum(ls_real *out, const ls_real *partials, size_t nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ls_real sum = nodes > 0 ? partials[i] : 0;
        for (size_t j = 1; j < nodes; j++) sum += partials[j * count + i];
        out[i] = sum;
    }
}

void ls_wrong_own_tokens(const ls_tensor_parallel *tp, ls_real *own, ls_real *partials,
                         size_t nodes, ls_axis tokens, size_t width)
{
    ls_share share = ls_own_share(tp, tokens.granule);
    size_t count = share.count * width;
    if (nodes == 0) {
        memset(own, 0, tokens.granules * count * sizeof *own);
        return;
    }
    ls_wrong_own_sum(partials, partials, nodes, ls_axis_extent(tokens) * width);
    for (size_t b = 0; b < tokens.granules; b++)
        memcpy(own + b * count, partials + (b * tokens.granule + share.first) * width,
               count * sizeof *own);
}

void ls_wrong_reduction(const ls_tensor_parallel *tp, bool forward, ls_real *own, ls_real *partials,
                        size_t nodes, ls_axis tokens, size_t width)
{
    size_t count = ls_axis_extent(ls_own_tokens(tp, tokens)) * width;
    ls_real members = (ls_real)ls_group_size(tp->group);
    if (ls_faulty(forward ? LS_FAULT_NOT_REDUCED : LS_FAULT_INPUT_GRADIENT_NOT_REDUCED))
        ls_wrong_own_tokens(tp, own, partials, nodes, tokens, width);
    if (ls_faulty(forward ? LS_FAULT_REDUCED_TWICE : LS_FAULT_INPUT_GRADIENT_TWICE))
        ls_scale(own, own, members, count);
    if (ls_faulty(LS_FAULT_AVERAGED_RANKS) && forward) ls_scale(own, own, 1 / members, count);
}

void ls_wrong_scale(ls_store *store, ls_real factor)
{
    ls_scale(store->gradient_slab, store->gradient_slab, factor, store->gradient_count);
}

/* ---- tokens of sequence parallelism ---- */

/* Every sequence begins with the second rank's share. starts: of a row of one sequence. */
static ls_status rotate(const ls_tensor_parallel *tp, ls_real *x, ls_axis tokens,
                        const size_t *starts)
{
    ls_status status = LS_OK;
    size_t first = starts[1], all = starts[ls_group_size(tp->group)];
    ls_real *row;
    LS_TRY(ls_arena_alloc(tp->temporary, all, sizeof *row, (void *)&row));
    for (size_t b = 0; b < tokens.granules; b++, x += all) {
        memcpy(row, x + first, (all - first) * sizeof *row);
        memcpy(row + all - first, x, first * sizeof *row);
        memcpy(x, row, all * sizeof *row);
    }
exit:
    return status;
}

ls_status ls_wrong_token_order(const ls_tensor_parallel *tp, ls_real *whole, const ls_real *own,
                               ls_axis tokens, size_t width)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(tp->temporary), members = (size_t)ls_group_size(tp->group);
    size_t *starts;
    LS_TRY(ls_arena_alloc(tp->temporary, members + 1, sizeof *starts, (void *)&starts));
    ls_share_bounds(tokens.granule, members, starts);
    for (size_t r = 0; r <= members; r++) starts[r] *= width;
    if (ls_faulty(LS_FAULT_TOKENS_ROTATED)) {
        LS_TRY(rotate(tp, whole, tokens, starts));
        goto exit;
    }
    for (size_t r = 0; r <= members; r++) starts[r] *= tokens.granules;
    LS_TRY(ls_all_gather(tp->group, whole, own, starts, LS_REAL_DTYPE));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

/* ---- attention ---- */

void ls_wrong_mask(const ls_attention_shape *shape, ls_real *o, ls_real *P, const ls_real *v)
{
    const size_t S = shape->S, width = shape->head_width;
    for (size_t i = 0; i < S; i++, P += S, o += shape->ld_q) {
        size_t seen = ls_faulty(LS_FAULT_CAUSAL_BEHIND) ? i : i + 2;
        ls_real sum = 0;
        if (seen > S) seen = S;
        for (size_t j = 0; j < seen; j++) sum += P[j];
        for (size_t j = 0; j < S; j++) P[j] = j < seen ? P[j] / sum : 0;
        for (size_t e = 0; e < width; e++) {
            o[e] = 0;
            for (size_t j = 0; j < seen; j++) o[e] += P[j] * v[j * shape->ld_kv + e];
        }
    }
}

void ls_wrong_rotary(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                     size_t head_width, size_t ld, ls_real sign)
{
    for (size_t s = 0; s < S; s++)
        for (size_t i = 0; i < heads * head_width; i += 2) {
            size_t pair = s * (head_width / 2) + i % head_width / 2;
            ls_real *at = x + s * ld + i, c = cos[pair], d = sign * sin[pair];
            ls_real first = at[0] * c - at[1] * d;
            at[1] = at[1] * c + at[0] * d;
            at[0] = first;
        }
}

/* ---- weights ---- */

/* A parameter in equal shards of columns (of rows: `by_rows`), whole on every member. */
static ls_status whole_of(ls_group *tp, const ls_slot *slot, bool by_rows, ls_arena *arena,
                          ls_real **ret_whole)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(tp), *starts;
    LS_TRY(ls_arena_alloc(arena, members + 1, sizeof *starts, (void *)&starts));
    for (size_t r = 0; r <= members; r++) starts[r] = r * slot->cols * (by_rows ? slot->rows : 1);
    LS_TRY(ls_arena_alloc(arena, slot->rows * slot->cols * members, sizeof(ls_real),
                          (void *)ret_whole));
    if (by_rows)
        LS_TRY(ls_all_gather(tp, *ret_whole, slot->value, starts, LS_REAL_DTYPE));
    else
        LS_TRY(
            ls_all_gather_columns(tp, *ret_whole, slot->value, slot->rows, starts, LS_REAL_DTYPE));
exit:
    return status;
}

/* Own columns to .. to + n := columns from .. from + n of a whole matrix. */
static void put_columns(ls_slot *slot, size_t to, const ls_real *whole, size_t columns, size_t from,
                        size_t n)
{
    for (size_t r = 0; r < slot->rows; r++)
        memcpy(slot->value + r * slot->cols + to, whole + r * columns + from,
               n * sizeof *slot->value);
}

static ls_status reverse_shards(ls_group *tp, ls_slot *slot, ls_arena *arena)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(tp), rank = (size_t)ls_group_rank(tp);
    ls_real *whole;
    LS_TRY(whole_of(tp, slot, false, arena, &whole));
    put_columns(slot, 0, whole, members * slot->cols, (members - 1 - rank) * slot->cols,
                slot->cols);
exit:
    return status;
}

/* A square matrix in shards of rows. */
static ls_status transpose(ls_group *tp, ls_slot *slot, ls_arena *arena)
{
    ls_status status = LS_OK;
    size_t first = (size_t)ls_group_rank(tp) * slot->rows;
    ls_real *whole;
    LS_TRY(whole_of(tp, slot, true, arena, &whole));
    for (size_t r = 0; r < slot->rows; r++)
        for (size_t c = 0; c < slot->cols; c++)
            slot->value[r * slot->cols + c] = whole[c * slot->cols + first + r];
exit:
    return status;
}

/* n matrices side by side, read as if piece i of `width` columns belonged to matrix i mod n. */
static ls_status interleave(ls_group *tp, ls_slot *const *slots, size_t n, size_t width,
                            ls_arena *arena)
{
    ls_status status = LS_OK;
    size_t own = slots[0]->cols / width, pieces = own * (size_t)ls_group_size(tp);
    size_t first = own * (size_t)ls_group_rank(tp);
    ls_real *whole[3];
    for (size_t m = 0; m < n; m++) LS_TRY(whole_of(tp, slots[m], false, arena, &whole[m]));
    for (size_t m = 0; m < n; m++)
        for (size_t i = 0; i < own; i++) {
            size_t from = (first + i) * n + m;
            put_columns(slots[m], i * width, whole[from / pieces], pieces * width,
                        from % pieces * width, width);
        }
exit:
    return status;
}

ls_status ls_wrong_weights(ls_group *tp, ls_store *store, ls_arena *temporary)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(temporary), head = ls_config_head_width(&store->table->config);
    for (size_t l = 0; l < store->table->config.layers; l++)
        for (int bias = 0; bias < 2; bias++) {
            ls_slot *q = ls_store_slot(store, bias ? LS_QUERY_BIAS : LS_QUERY_WEIGHT, l);
            ls_slot *k = ls_store_slot(store, bias ? LS_KEY_BIAS : LS_KEY_WEIGHT, l);
            ls_slot *v = ls_store_slot(store, bias ? LS_VALUE_BIAS : LS_VALUE_WEIGHT, l);
            ls_slot *gate = bias ? NULL : ls_store_slot(store, LS_MLP_GATE_WEIGHT, l);
            ls_slot *up = bias ? NULL : ls_store_slot(store, LS_MLP_UP_WEIGHT, l);
            ls_slot *out = bias ? NULL : ls_store_slot(store, LS_ATTN_OUT_WEIGHT, l);
            ls_slot *const qkv[] = {q, k, v}, *const both[] = {gate, up};
            if (ls_faulty(LS_FAULT_SHARDS_REVERSED) && q) LS_TRY(reverse_shards(tp, q, temporary));
            if (ls_faulty(LS_FAULT_TRANSPOSED) && out) LS_TRY(transpose(tp, out, temporary));
            if (ls_faulty(LS_FAULT_QKV_INTERLEAVED) && q)
                LS_TRY(interleave(tp, qkv, 3, head, temporary));
            if (ls_faulty(LS_FAULT_GATE_UP_INTERLEAVED) && gate)
                LS_TRY(interleave(tp, both, 2, up->cols, temporary));
        }
exit:
    ls_arena_release(temporary, mark);
    return status;
}
