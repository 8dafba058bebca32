/* Exchanges of pieces: random lists between all members, halos of a group that is not the world's
 * first ranks, memory and bytes, calls that do not fit. */
#include "comm/comm_test.h"
#include "lockstep/comm/exchange.h"
#include "lockstep/comm/trace.h"
#include "lockstep/partition/spatial.h"
#include "partition/reach.h"

/* ---- random pieces, the same list known to everybody */

enum { MOST_PIECES = 300, ROOM = 400 };

typedef struct listed {
    int from, to;
    size_t counts[4];
    size_t number; /* of its first element */
} listed;

typedef struct exchange_case {
    int pieces;
    uint64_t seed;
    ls_dtype dtype;
    int with_self, two_at_once;
} exchange_case;

static int list_all(listed *list, const exchange_case *c, int size, int round)
{
    int n = 0;
    for (int i = 0; i < c->pieces; i++) {
        uint64_t z = mix(c->seed + (uint64_t)(i * 31 + round * 7001) + 1);
        listed p = {(int)(z % (uint64_t)size), (int)(z / 64 % (uint64_t)size), {0}, (size_t)i * 50};
        if (p.from == p.to && !c->with_self) continue;
        for (int d = 0; d < 4; d++) p.counts[d] = (size_t)(z >> (20 + 4 * d)) % 3 + (d == 3);
        list[n++] = p;
    }
    return n;
}

/* Memory for a member's pieces of one kind, each with gaps: strides 2, then as dense as can be,
 * then with a column left out on either side. Returns the piece; *at: the first element not yet
 * used. */
static ls_piece lay_out(const listed *p, int peer, char *memory, size_t e, size_t *at, int dense)
{
    ls_piece piece = {peer, memory + *at * e, {0}, {0}};
    size_t step = dense ? 1 : 2, gap = dense ? 0 : 1;
    memcpy(piece.counts, p->counts, sizeof piece.counts);
    piece.strides[3] = step;
    piece.strides[2] = p->counts[3] * step + gap;
    piece.strides[1] = p->counts[2] * piece.strides[2] + gap;
    piece.strides[0] = p->counts[1] * piece.strides[1];
    *at += p->counts[0] * piece.strides[0] + 1;
    return piece;
}

/* Writes or checks the elements of a piece; counts those that are wrong. */
static size_t go_over(const ls_piece *piece, const listed *p, ls_dtype dtype, int write)
{
    size_t wrong = 0, i = p->number, e = ls_dtype_bytes(dtype);
    for (size_t a = 0; a < p->counts[0]; a++)
        for (size_t b = 0; b < p->counts[1]; b++)
            for (size_t c = 0; c < p->counts[2]; c++)
                for (size_t d = 0; d < p->counts[3]; d++, i++) {
                    char *at =
                        (char *)piece->start + (a * piece->strides[0] + b * piece->strides[1] +
                                                c * piece->strides[2] + d * piece->strides[3]) *
                                                   e;
                    if (write)
                        put(at, 0, dtype, small(p->from, i));
                    else
                        wrong += !equals(at, 0, dtype, small(p->from, i));
                    if (!write) memset(at, 0xff, e); /* what is beside it must still be so */
                }
    return wrong;
}

typedef struct one_exchange {
    listed list[MOST_PIECES];
    ls_piece sends[MOST_PIECES], receives[MOST_PIECES];
    const listed *received[MOST_PIECES];
    size_t n_sends, n_receives, sent; /* sent: elements to others */
    guarded out, in;
    ls_exchange *exchange;
} one_exchange;

static ls_status begin(one_exchange *x, ls_group *group, const exchange_case *c, int round)
{
    ls_status status = LS_OK;
    int own = ls_group_rank(group), n = list_all(x->list, c, ls_group_size(group), round);
    size_t e = ls_dtype_bytes(c->dtype), room = (size_t)n * ROOM + 1, out_at = 0, in_at = 0;
    x->n_sends = x->n_receives = x->sent = 0;
    x->out = guarded_new(room * e);
    x->in = guarded_new(room * e);
    for (int i = 0; i < n; i++) {
        const listed *p = &x->list[i];
        if (p->from == own) {
            ls_piece piece = lay_out(p, p->to, (char *)x->out.data, e, &out_at, i % 2);
            go_over(&piece, p, c->dtype, 1);
            x->sends[x->n_sends++] = piece;
            if (p->to != own) x->sent += p->counts[0] * p->counts[1] * p->counts[2] * p->counts[3];
        }
        if (p->to == own) {
            x->received[x->n_receives] = p;
            x->receives[x->n_receives++] =
                lay_out(p, p->from, (char *)x->in.data, e, &in_at, i % 3 == 0);
        }
    }
    uint64_t before = ls_group_count(group, LS_OP_SEND).bytes;
    LS_TRY(ls_exchange_begin(group, round, x->sends, x->n_sends, x->receives, x->n_receives,
                             c->dtype, &x->exchange));
    EXPECT(ls_group_count(group, LS_OP_SEND).bytes - before == x->sent * e, "bytes of an exchange");
    /* What was sent is the caller's again; the lists too. */
    memset(x->out.data, 0xee, x->out.bytes);
    memset(x->sends, 0xee, sizeof x->sends);
exit:
    return status;
}

static ls_status end(one_exchange *x, const exchange_case *c)
{
    ls_status status = LS_OK;
    size_t wrong = 0;
    for (size_t i = 0; i < x->in.bytes; i++) wrong += x->in.data[i] != 0xff;
    EXPECT(wrong == 0, "something was received before the end");
    LS_TRY(ls_exchange_end(&x->exchange));
    EXPECT(x->exchange == NULL, "an ended exchange is gone");
    for (size_t i = 0; i < x->n_receives; i++)
        wrong += go_over(&x->receives[i], x->received[i], c->dtype, 0);
    EXPECT(wrong == 0, "%zu elements received wrong", wrong);
    for (size_t i = 0; i < x->in.bytes; i++) wrong += x->in.data[i] != 0xff;
    EXPECT(wrong == 0, "an exchange wrote beside its pieces");
    guarded_free(&x->out);
    guarded_free(&x->in);
exit:
    return status;
}

static ls_status exchange_twice(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const exchange_case *c = argument;
    ls_group *group = ls_rank_world_group(rank);
    one_exchange *x = calloc(2, sizeof *x);
    size_t held = ls_memory_bytes(ls_rank_memory(rank), LS_MEM_COMMUNICATION);
    if (c->two_at_once) {
        LS_TRY(begin(&x[0], group, c, 0));
        LS_TRY(begin(&x[1], group, c, 1));
        LS_TRY(ls_barrier(group)); /* others may communicate meanwhile */
        LS_TRY(end(&x[1], c));
        LS_TRY(end(&x[0], c));
    } else {
        for (int round = 0; round < 2; round++) {
            LS_TRY(begin(&x[0], group, c, round));
            LS_TRY(end(&x[0], c));
        }
    }
    if (ls_rank_world_size(rank) > 1) {
        LS_TRY(ls_barrier(group));
        EXPECT(ls_memory_bytes(ls_rank_memory(rank), LS_MEM_COMMUNICATION) == held,
               "an exchange kept memory");
    }
exit:
    free(x);
    return status;
}

START_TEST(random_lists)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_I32, LS_U8};
    for (int p = 0; p < N_RANK_COUNTS; p++)
        for (int v = 0; v < 8; v++) {
            exchange_case c = {v == 0 ? 0 : 3 * RANK_COUNTS[p] + v * 10, (uint64_t)(v + 10 * p),
                               dtypes[v % 4], v % 2, v / 4};
            run_well(RANK_COUNTS[p], NULL, exchange_twice, &c);
        }
}
END_TEST

START_TEST(delays_and_capacity)
{
    exchange_case c = {90, 5, LS_F32, 1, 1};
    ls_world_options options = {.delay_seed = 3, .delay_max_ns = 200000};
    run_well(6, &options, exchange_twice, &c);
    options.channel_capacity = 2;
    run_well(5, &options, exchange_twice, &c);
    c.two_at_once = 0;
    run_well(8, &options, exchange_twice, &c);
}
END_TEST

/* ---- halos within a group: 6 rows, kernel 3, stride 2, no pad before and one after */

typedef struct halo_case {
    int color_of[4], key_of[4];
    double y[4][3]; /* [world rank] */
} halo_case;

static ls_status halo(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    halo_case *h = argument;
    ls_group *group = NULL;
    int r = ls_rank_index(rank);
    LS_TRY(ls_group_split(ls_rank_world_group(rank), h->color_of[r], h->key_of[r], "halo", &group));
    if (group == NULL) return LS_OK;
    size_t own = (size_t)ls_group_rank(group), n = 0, n_sends = 0, n_receives = 0;
    stencil both = {{6, 3, 2, 1, 0, 1}, {1, 1, 1, 1, 0, 0}};
    ls_rectangle made[2];
    ls_image_box owned[2], wanted[2];
    for (size_t m = 0; m < 2; m++) {
        ls_share x = ls_share_of(6, 2, m), y = ls_share_of(3, 2, m);
        owned[m] = (ls_image_box){{0, 1}, {0, 1}, {x.first, 0, x.count, 1}};
        made[m] = (ls_rectangle){y.first, 0, y.count, 1};
    }
    halo_wanted(wanted, made, 2, false, &both, (ls_share){0, 1}, (ls_share){0, 1});
    ls_transfer *list = NULL;
    LS_TRY(ls_transfers_create(&list, &n, owned, wanted, 2));
    ls_piece sends[4], receives[4];
    double x[3], have[6];
    for (size_t i = 0; i < 3; i++) x[i] = (double)(owned[own].area.top + i + 1);
    for (size_t t = 0; t < n; t++) {
        ls_piece piece;
        if (list[t].from == own) {
            piece.peer = (int)list[t].to;
            piece.start =
                x + ls_image_box_place(&owned[own], &list[t].box, piece.counts, piece.strides);
            sends[n_sends++] = piece;
        }
        if (list[t].to == own) {
            piece.peer = (int)list[t].from;
            piece.start =
                have + ls_image_box_place(&wanted[own], &list[t].box, piece.counts, piece.strides);
            receives[n_receives++] = piece;
        }
    }
    free(list);
    ls_exchange *exchange = NULL;
    LS_TRY(ls_exchange_begin(group, 9, sends, n_sends, receives, n_receives, LS_F64, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
    for (size_t o = made[own].top; o < made[own].top + made[own].height; o++)
        for (size_t k = 0; k < 3; k++)
            if (2 * o + k < 6) h->y[r][o] += have[2 * o + k - wanted[own].area.top];
exit:
    return status;
}

/* Peers are members of the group, not ranks of the world: groups {2, 3}, {0, 2} and one in the
 * opposite order. */
START_TEST(halo_of_a_group)
{
    static const struct {
        int color[4], key[4], first, second;
    } groups[] = {{{-1, -1, 0, 0}, {0, 0, 0, 0}, 2, 3},
                  {{0, -1, 0, -1}, {0, 0, 0, 0}, 0, 2},
                  {{-1, -1, 5, 5}, {0, 0, 2, 1}, 3, 2}};
    for (int g = 0; g < 3; g++) {
        halo_case h = {0};
        memcpy(h.color_of, groups[g].color, sizeof h.color_of);
        memcpy(h.key_of, groups[g].key, sizeof h.key_of);
        run_well(4, NULL, halo, &h);
        const double *a = h.y[groups[g].first], *b = h.y[groups[g].second];
        ck_assert(a[0] == 6 && a[1] == 12 && a[2] == 0);
        ck_assert(b[0] == 0 && b[1] == 0 && b[2] == 11);
    }
}
END_TEST

/* ---- the trace */

START_TEST(traced)
{
    exchange_case c = {40, 5, LS_F32, 1, 0};
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    ls_world_options options = {.trace = trace};
    run_well(3, &options, exchange_twice, &c);
    size_t begun = 0, received = 0, messages = 0;
    uint64_t bytes = 0, expected = 0;
    for (int r = 0; r < 3; r++) {
        size_t n = 0;
        const ls_event *events = ls_trace_events(trace, r, &n);
        for (size_t i = 0; i < n; i++) {
            begun += events[i].kind == LS_EVENT_SEND_BEGIN;
            received += events[i].kind == LS_EVENT_RECEIVE;
            if (events[i].kind == LS_EVENT_SEND_BEGIN) bytes += events[i].bytes;
        }
    }
    for (int round = 0; round < 2; round++) {
        listed list[MOST_PIECES];
        size_t passes[3][3] = {{0}};
        int n = list_all(list, &c, 3, round);
        for (int i = 0; i < n; i++)
            passes[list[i].from][list[i].to] +=
                4 * list[i].counts[0] * list[i].counts[1] * list[i].counts[2] * list[i].counts[3];
        for (int from = 0; from < 3; from++)
            for (int to = 0; to < 3; to++) {
                if (from == to) continue;
                expected += passes[from][to];
                messages += passes[from][to] > 0;
            }
    }
    ck_assert_uint_eq(begun, messages); /* one for each pair that has something to pass */
    ck_assert_uint_eq(received, begun);
    ck_assert_uint_eq(bytes, expected);
    ls_trace_destroy(&trace);
}
END_TEST

/* ---- calls that do not fit */

static ls_status call_oddly(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *what = argument;
    int own = ls_rank_index(rank);
    float out[4] = {1, 2, 3, 4}, in[4];
    ls_piece send = {1 - own, out, {1, 1, 1, 4}, {4, 4, 4, 1}},
             receive = {1 - own, in, {1, 1, 1, 4}, {4, 4, 4, 1}};
    size_t n_receives = 1;
    ls_exchange *exchange = NULL;
    if (*what == 0 && own == 1) receive.counts[3] = 3; /* another count */
    if (*what == 1 && own == 0) send.peer = 2;
    if (*what == 2 && own == 1) n_receives = 0; /* never taken */
    if (*what == 3) send.peer = own;
    if (*what == 4 && own == 1) return LS_OK; /* does not come */
    LS_TRY(ls_exchange_begin(ls_rank_world_group(rank), 3, &send, 1, &receive, n_receives, LS_F32,
                             &exchange));
    if (*what == 2 && own == 1) {
        ls_exchange_cancel(&exchange);
        return LS_OK;
    }
    LS_TRY(ls_exchange_end(&exchange));
exit:
    ls_exchange_cancel(&exchange);
    return status;
}

START_TEST(misfits)
{
    int what = 0;
    ck_assert_has(run_badly(2, NULL, call_oddly, &what, LS_ERR_RANK),
                  "tag 3: rank 0 sends 4 F32, rank 1 expects 3 F32");
    what = 1;
    ck_assert_has(run_badly(2, NULL, call_oddly, &what, LS_ERR_INPUT),
                  "exchange, piece 0 to member 2: group world has members 0 to 1");
    what = 2;
    run_badly(2, NULL, call_oddly, &what, LS_ERR_RANK);
    what = 3;
    ck_assert_has(run_badly(2, NULL, call_oddly, &what, LS_ERR_INPUT), "sends itself 4 elements");
    what = 4;
    ck_assert_has(run_badly(2, NULL, call_oddly, &what, LS_ERR_RANK), "rank 1, which has ended");
}
END_TEST

/* ---- sizes that no memory has */

typedef struct vast {
    size_t counts[4], strides[4];
    int self; /* to and from the caller */
} vast;

static ls_status exchange_vastly(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const vast *v = argument;
    static float memory[2][8];
    int own = ls_rank_index(rank);
    ls_piece send = {v->self ? own : 1 - own, memory[own], {0}, {0}};
    memcpy(send.counts, v->counts, sizeof send.counts);
    memcpy(send.strides, v->strides, sizeof send.strides);
    ls_piece sends[2] = {send, send}, receives[2] = {send, send};
    ls_exchange *exchange = NULL;
    LS_TRY(
        ls_exchange_begin(ls_rank_world_group(rank), 1, sends, 2, receives, 2, LS_F32, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
exit:
    ls_exchange_cancel(&exchange);
    return status;
}

START_TEST(sizes_that_no_memory_has)
{
    const size_t half = (size_t)1 << 32, top = (size_t)1 << 63;
    const vast vasts[] = {
        {{half, half, 1, 4}, {0, 0, 0, 0}, 0},      /* the product wraps to 0                 */
        {{half, half, 1, 4}, {0, 0, 0, 0}, 1},      /* ... in what a rank sends itself        */
        {{half + 1, half, 1, 1}, {0, 0, 0, 0}, 0},  /* to 2^32                                */
        {{1, 1, 1, SIZE_MAX}, {1, 1, 1, 1}, 0},     /* a row                                  */
        {{1, 1, 1, SIZE_MAX / 4}, {1, 1, 1, 1}, 0}, /* bytes wrap in the sum of two pieces    */
        {{1, 1, 2, 1}, {1, 1, top, 1}, 0},          /* few elements, far apart                */
        {{2, 2, 1, 1}, {top, top, 1, 1}, 0},        /* ... whose distances wrap to 0          */
    };
    for (size_t i = 0; i < sizeof vasts / sizeof vasts[0]; i++) {
        vast v = vasts[i];
        ck_assert_has(run_badly(2, NULL, exchange_vastly, &v, LS_ERR_INPUT), "can be addressed");
    }
}
END_TEST

TEST_MAIN("exchange", sizes_that_no_memory_has, random_lists, delays_and_capacity, halo_of_a_group,
          traced, misfits)
