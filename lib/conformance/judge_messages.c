/* judge_messages.c - the cases of send and receive: every rank to every other, pair by pair in one
 * order that all know, so that a send may wait for its receive. */
#include <stdio.h>

#include "conformance/judge_operations.h"

enum { SHAPES = 8, RANGE = 99 };

typedef struct exchange {
    size_t counts[JUDGE_MAX_RANKS][JUDGE_MAX_RANKS]; /* [sender][receiver] */
} exchange;

static size_t message_count(const judge_trial *trial, size_t s, size_t r)
{
    static const size_t about[SHAPES] = {1, 1009, 0, 7, 97, 3, 13, 2};
    return s == r ? 0 : about[trial->number % SHAPES] + (3 * s + r) % 4;
}

static ls_status prepare_messages(judge_trial *trial)
{
    ls_status status = LS_OK;
    const size_t P = (size_t)trial->ranks;
    exchange *e = NULL;
    judge_tensor *in = NULL, *out = NULL;
    double *swapped = NULL;
    size_t to[JUDGE_MAX_RANKS + 1] = {0}, from[JUDGE_MAX_RANKS + 1] = {0}, at = 0;
    LS_TRY(ls_trial_room(trial, 1, sizeof *e, &e));
    trial->shape = e;
    for (size_t s = 0; s < P; s++) {
        to[s + 1] = to[s], from[s + 1] = from[s];
        for (size_t r = 0; r < P; r++) {
            e->counts[s][r] = message_count(trial, s, r);
            to[s + 1] += message_count(trial, s, r);
            from[s + 1] += message_count(trial, r, s);
        }
    }
    snprintf(trial->label, sizeof trial->label, "messages of %zu elements and a few more",
             e->counts[0][P - 1]);
    LS_TRY(ls_trial_add(trial, "sent", JUDGE_GIVEN, 1, to[P], 1, to, &in));
    ls_trial_draw(trial, in, RANGE);
    LS_TRY(ls_trial_add(trial, "received", JUDGE_WANTED, 1, from[P], 1, from, &out));
    LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_NONE, "the messages of another sender", &swapped));
    for (size_t r = 0; r < P; r++)
        for (size_t s = 0; s < P; s++) {
            const size_t other = (s + 1) % P;
            size_t first = to[s], wrong = to[other];
            for (size_t q = 0; q < r; q++) {
                first += e->counts[s][q];
                wrong += e->counts[other][q];
            }
            for (size_t i = 0; i < e->counts[s][r]; i++, at++) {
                out->value[at] = in->before[first + i];
                if (i < e->counts[other][r]) swapped[at] = in->before[wrong + i];
            }
        }
exit:
    return status;
}

static size_t before_peer(const exchange *e, bool sending, size_t me, size_t peer)
{
    size_t first = 0;
    for (size_t q = 0; q < peer; q++) first += sending ? e->counts[me][q] : e->counts[q][me];
    return first;
}

/* For i < j in order: i sends to j, then j to i. */
static int call_messages(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const ls_backend *table = backend;
    const exchange *e = trial->shape;
    const size_t P = (size_t)me->ranks, own = (size_t)me->rank;
    for (size_t i = 0; i < P; i++)
        for (size_t j = i + 1; j < P; j++) {
            if (own != i && own != j) continue;
            const size_t peer = own == i ? j : i;
            const ls_real *out = (const ls_real *)b[0] + before_peer(e, true, own, peer);
            ls_real *in = (ls_real *)b[1] + before_peer(e, false, own, peer);
            int result = LS_BACKEND_DONE;
            for (int turn = 0; turn < 2 && result == LS_BACKEND_DONE; turn++)
                result = (turn == 0) == (own == i)
                             ? table->send(me, (int)peer, out, e->counts[own][peer])
                             : table->receive(me, (int)peer, in, e->counts[peer][own]);
            if (result != LS_BACKEND_DONE) return result;
        }
    return LS_BACKEND_DONE;
}

static const judge_operation operations[] = {
    {.name = "send_receive",
     .function = JUDGE_AT(send),
     .and_function = JUDGE_AT(receive),
     .exact = true,
     .least_ranks = 2,
     .shapes = SHAPES,
     .prepare = prepare_messages,
     .call = call_messages},
};

const judge_chapter ls_judge_messages = JUDGE_CHAPTER(operations);
