#include "lockstep/comm/exchange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_account.h"
#include "base/size.h"
#include "comm/collective.h"
#include "comm/world_state.h"
#include "base/allocate.h"

struct ls_exchange {
    ls_group *group;
    int tag;
    ls_dtype dtype;
    ls_piece *receives;
    size_t n_receives;
    char *packed;   /* all that is sent, by peer; the own pieces first */
    char *incoming; /* room for one message */
    size_t bytes;   /* of both */
    ls_isend **sendings;
    int n_sendings;
};

static size_t elements_of(const ls_piece *piece)
{
    const size_t *n = piece->counts;
    return ls_size_product(n[0], n[1], n[2], n[3]);
}

/* Elements from the piece's first to its last, both included. */
static size_t span_of(const ls_piece *piece)
{
    size_t span = 1;
    for (int d = 0; d < 4; d++) {
        if (piece->counts[d] == 0) return 0;
        span = ls_size_plus(span, ls_size_product(piece->counts[d] - 1, piece->strides[d]));
    }
    return span;
}

/* Copies a piece to contiguous memory, or from there into the piece; returns where it ends. */
static char *copy_piece(const ls_piece *piece, char *packed, size_t e, bool pack)
{
    const size_t *n = piece->counts, *s = piece->strides;
    for (size_t a = 0; a < n[0]; a++)
        for (size_t b = 0; b < n[1]; b++)
            for (size_t c = 0; c < n[2]; c++) {
                char *row = (char *)piece->start + (a * s[0] + b * s[1] + c * s[2]) * e;
                /* Rows are mostly contiguous. */
                size_t run = s[3] == 1 ? n[3] : 1;
                for (size_t d = 0; d < n[3]; d += run, packed += run * e) {
                    char *at = row + d * s[3] * e;
                    if (pack)
                        memcpy(packed, at, run * e);
                    else
                        memcpy(at, packed, run * e);
                }
            }
    return packed;
}

/* The elements that go to, or come from, one member. */
static size_t elements_with(const ls_piece *pieces, size_t n, int peer)
{
    size_t elements = 0;
    for (size_t i = 0; i < n; i++)
        if (pieces[i].peer == peer) elements = ls_size_plus(elements, elements_of(&pieces[i]));
    return elements;
}

static ls_status check_pieces(const ls_group *group, const char *what, const ls_piece *pieces,
                              size_t n, ls_dtype dtype, size_t *ret_bytes)
{
    ls_status status = LS_OK;
    size_t elements = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t *counts = pieces[i].counts, *strides = pieces[i].strides;
        if (pieces[i].peer < 0 || pieces[i].peer >= group->team->size)
            LS_FAIL(LS_ERR_INPUT, "exchange, piece %zu %s member %d: group %s has members 0 to %d",
                    i, what, pieces[i].peer, group->team->name, group->team->size - 1);
        if (ls_bytes_of(elements_of(&pieces[i]), dtype, &bytes) != LS_OK ||
            ls_bytes_of(span_of(&pieces[i]), dtype, &bytes) != LS_OK)
            LS_FAIL(LS_ERR_INPUT,
                    "exchange, piece %zu %s member %d: %zu x %zu x %zu x %zu elements, %zu, %zu, "
                    "%zu and %zu apart, are more than can be addressed (dtype %d)",
                    i, what, pieces[i].peer, counts[0], counts[1], counts[2], counts[3], strides[0],
                    strides[1], strides[2], strides[3], (int)dtype);
        elements = ls_size_plus(elements, elements_of(&pieces[i]));
    }
    LS_TRY(ls_bytes_of(elements, dtype, ret_bytes));
exit:
    return status;
}

/* Frees everything; what is under way must have been ended or withdrawn. */
static void free_exchange(ls_exchange *exchange)
{
    ls_memory_discharge(exchange->group->rank->memory, LS_MEM_COMMUNICATION, exchange->bytes);
    free(exchange->receives);
    free(exchange->packed);
    free(exchange->incoming);
    free(exchange->sendings);
    free(exchange);
}

static ls_status make_room(ls_exchange *exchange, size_t n_receives, size_t sent_bytes,
                           size_t incoming_bytes)
{
    ls_status status = LS_OK;
    size_t size = (size_t)exchange->group->team->size;
    LS_NEW(exchange->receives, n_receives);
    LS_NEW(exchange->sendings, size);
    LS_BYTES(exchange->packed, sent_bytes);
    LS_BYTES(exchange->incoming, incoming_bytes);
    exchange->bytes = sent_bytes + incoming_bytes;
    ls_memory_charge(exchange->group->rank->memory, LS_MEM_COMMUNICATION, exchange->bytes);
exit:
    return status;
}

ls_status ls_exchange_begin(ls_group *group, int tag, const ls_piece *sends, size_t n_sends,
                            const ls_piece *receives, size_t n_receives, ls_dtype dtype,
                            ls_exchange **ret_exchange)
{
    ls_status status = LS_OK;
    size_t sent_bytes = 0, received_bytes = 0, largest = 0, e = ls_dtype_bytes(dtype);
    int size = group->team->size, own = group->member;
    ls_exchange *exchange = NULL;
    LS_NEW(exchange, 1);
    exchange->group = group;
    exchange->tag = tag;
    exchange->dtype = dtype;
    LS_TRY(check_pieces(group, "to", sends, n_sends, dtype, &sent_bytes));
    LS_TRY(check_pieces(group, "from", receives, n_receives, dtype, &received_bytes));
    for (int peer = 0; peer < size; peer++) {
        size_t elements = elements_with(receives, n_receives, peer);
        if (peer != own && elements > largest) largest = elements;
    }
    size_t kept = elements_with(sends, n_sends, own);
    size_t kept_wanted = elements_with(receives, n_receives, own);
    if (kept != kept_wanted)
        LS_FAIL(LS_ERR_INPUT,
                "exchange: member %d of group %s sends itself %zu elements and "
                "expects %zu",
                own, group->team->name, kept, kept_wanted);
    LS_TRY(make_room(exchange, n_receives, sent_bytes, largest * e));
    if (n_receives > 0) memcpy(exchange->receives, receives, n_receives * sizeof *receives);
    exchange->n_receives = n_receives;
    /* Peers after the own number first, so that not all send to the same one at once. */
    char *at = exchange->packed;
    for (int k = 0; k < size; k++) {
        int peer = (own + k) % size;
        char *message = at;
        for (size_t i = 0; i < n_sends; i++)
            if (sends[i].peer == peer) at = copy_piece(&sends[i], at, e, true);
        if (peer == own || at == message) continue;
        LS_TRY(ls_send_begin(group, peer, tag, message, (size_t)(at - message) / e, dtype,
                             &exchange->sendings[exchange->n_sendings]));
        exchange->n_sendings++;
    }
    *ret_exchange = exchange;
    exchange = NULL;
exit:
    ls_exchange_cancel(&exchange);
    return ls_collective_end(group, status);
}

ls_status ls_exchange_end(ls_exchange **exchange)
{
    ls_status status = LS_OK;
    ls_exchange *x = *exchange;
    if (x == NULL) return LS_OK;
    int size = x->group->team->size, own = x->group->member;
    size_t e = ls_dtype_bytes(x->dtype);
    for (int k = 0; k < size; k++) {
        /* The other way round than they are sent: what was posted first is taken first. */
        int peer = (own - k + size) % size;
        size_t elements = elements_with(x->receives, x->n_receives, peer);
        char *at = peer == own ? x->packed : x->incoming;
        if (elements == 0) continue;
        if (peer != own) LS_TRY(ls_receive(x->group, peer, x->tag, at, elements, x->dtype));
        for (size_t i = 0; i < x->n_receives; i++)
            if (x->receives[i].peer == peer) at = copy_piece(&x->receives[i], at, e, false);
    }
    for (int i = 0; i < x->n_sendings; i++) LS_TRY(ls_send_end(&x->sendings[i]));
exit:
    ls_exchange_cancel(exchange);
    return status;
}

void ls_exchange_cancel(ls_exchange **exchange)
{
    ls_exchange *x = *exchange;
    if (x == NULL) return;
    *exchange = NULL;
    for (int i = 0; i < x->n_sendings; i++) ls_send_cancel(&x->sendings[i]);
    free_exchange(x);
}
