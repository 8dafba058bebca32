/* The token embedding cut by vocabulary rows: known mistakes with their right values, and every
 * degree against the whole table, with and without sequence parallelism. */
#include <stdio.h>

#include "lockstep/kernels/embedding.h"
#include "lockstep/parallel/tensor/vocab_embedding.h"
#include "parallel_fixture.h"
#include "run_tests.h"

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

enum { SEQUENCES = 3, S = 3, TOKENS = SEQUENCES * S, D = 4 };

typedef struct lookup {
    size_t granules, granule;
    const ls_real *table, *dy; /* padded rows x D; TOKENS x D */
    const int32_t *ids;
    ls_real *y[12], *dtable;
    bool sequence_parallel; /* y[r]: the rank's own tokens at their places */
    bool only_backward;
    sent sent[12];
} lookup;

static ls_status lookup_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    lookup *l = argument;
    member m = {0};
    ls_cut vocab;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, l->granules, l->granule, &vocab));
    m.tp.sequence_parallel = l->sequence_parallel;
    size_t first = vocab.bounds[m.rank] * l->granule * D;
    ls_axis tokens = ls_axis_of(SEQUENCES, S);
    ls_real *y = own_room(&m, SEQUENCES, S, D);
    ls_real *dy = own_tokens_of(&m, l->dy, SEQUENCES, S, D);
    if (!l->only_backward)
        status = ls_vocab_embedding_forward(&m.tp, y, l->table + first, l->ids, tokens, D, &vocab);
    if (status == LS_OK)
        status =
            ls_vocab_embedding_backward(&m.tp, l->dtable + first, dy, l->ids, tokens, D, &vocab);
    put_own_tokens(&m, l->y[m.rank], y, SEQUENCES, S, D);
    l->sent[m.rank] = sent_by(rank);
    free(y), free(dy);
exit:
    member_end(&m);
    return status;
}

/* Five rows, padded to six for two ranks: row 4 is 14, not the 0 of a row without an owner. */
START_TEST(last_row_of_an_odd_vocabulary)
{
    enum { G = 2, W = 3 };
    ls_real table[G * W * D], dy[TOKENS * D];
    static const int32_t ids[TOKENS] = {4, 0, 1, 2, 3, 4, 4, 0, 2};
    for (size_t i = 0; i < G * W * D; i++) table[i] = i / D < 5 ? (ls_real)(10 + i / D) : 1000;
    for (size_t i = 0; i < TOKENS * D; i++) dy[i] = 1;
    for (int tp = 1; tp <= 2; tp++) {
        lookup l = {.granules = G,
                    .granule = W,
                    .table = table,
                    .dy = dy,
                    .ids = ids,
                    .dtable = room(G * W * D)};
        for (int r = 0; r < tp; r++) l.y[r] = room(TOKENS * D);
        run_ranks(tp, lookup_rank, &l);
        for (int r = 0; r < tp; r++)
            for (size_t t = 0; t < TOKENS; t++) ck_assert(l.y[r][t * D] == (ls_real)(10 + ids[t]));
        ls_normalize_zero(l.dtable, G * W * D);
        static const ls_real read[G * W] = {2, 1, 2, 1, 3, 0};
        for (size_t v = 0; v < G * W; v++) ck_assert(l.dtable[v * D] == read[v]);
        for (int r = 0; r < tp; r++) free(l.y[r]);
        free(l.dtable);
    }
}
END_TEST

/* With sequence parallelism each rank gets the rows of its own tokens, and no others, from a
 * reduce-scatter. Rows come back as they stand, first and last included (a floor division would
 * lose the last of five), a -0 in a row stays -0; gradients go to the rows that were read and to no
 * other. */
START_TEST(embedding_every_degree)
{
    enum { G = 12, W = 3 };
    static const int32_t ids[TOKENS] = {0, 35, 4, 4, 17, 4, 35, 11, 0};
    ls_real *table = filled(G * W * D, 5, 0), *dy = filled(TOKENS * D, 6, 0),
            *expected = room(G * W * D);
    table[4 * D] = (ls_real)-0.0;
    ck_assert_int_eq(ls_embedding_backward(expected, dy, ids, ls_axis_of(3, 3), D, 0, G * W),
                     LS_OK);
    for (int i = 0; i < DEGREES; i++) {
        lookup l = {.granules = G,
                    .granule = W,
                    .table = table,
                    .dy = dy,
                    .ids = ids,
                    .dtable = room(G * W * D),
                    .sequence_parallel = _i};
        for (int r = 0; r < 12; r++) l.y[r] = room(TOKENS * D);
        run_ranks(degrees[i], lookup_rank, &l);
        for (int r = 0; r < degrees[i]; r++) {
            ls_share own = {0, S};
            if (l.sequence_parallel) own = ls_share_of(S, (size_t)degrees[i], (size_t)r);
            for (size_t t = 0; t < TOKENS; t++)
                if (t % S - own.first < own.count)
                    ck_same(l.y[r] + t * D, table + (size_t)ids[t] * D, D, "row", degrees[i]);
                else
                    ck_assert(isnan(l.y[r][t * D]));
            /* one reduction, of which a member gets all tokens or its own; then a gather of dy */
            size_t sp = l.sequence_parallel, one = !sp;
            ck_sent(l.sent[r].reduces, one, one * TOKENS * D, "all-reduces", degrees[i], r);
            ck_sent(l.sent[r].scatters, sp, sp * TOKENS * D, "reduce-scatters", degrees[i], r);
            ck_sent(l.sent[r].gathers, sp, sp * SEQUENCES * own.count * D, "all-gathers",
                    degrees[i], r);
        }
        ck_same(l.dtable, expected, G * W * D, "dtable", degrees[i]);
        ls_normalize_zero(l.dtable, G * W * D);
        for (size_t v = 0; v < G * W; v++) {
            bool read = false;
            for (size_t t = 0; t < TOKENS; t++) read |= (size_t)ids[t] == v;
            for (size_t c = 0; c < D && !read; c++)
                ck_assert(l.dtable[v * D + c] == 0 && !signbit(l.dtable[v * D + c]));
        }
        for (int r = 0; r < 12; r++) free(l.y[r]);
        free(l.dtable);
    }
    free(table), free(dy), free(expected);
}
END_TEST

/* An id that is no row of the padded table is an error on every rank, forward and backward. */
START_TEST(id_outside_the_table)
{
    enum { G = 3, W = 2 };
    static const int32_t bad[] = {-1, -100, G * W, INT32_MAX};
    ls_real table[G * W * D] = {0}, dy[TOKENS * D] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int tp = 1; tp <= 3; tp++) {
            int32_t ids[TOKENS] = {0};
            char right[100];
            ids[4] = bad[i];
            lookup l = {.granules = G,
                        .granule = W,
                        .table = table,
                        .dy = dy,
                        .ids = ids,
                        .dtable = room(G * W * D),
                        .only_backward = _i};
            for (int r = 0; r < tp; r++) l.y[r] = room(TOKENS * D);
            ck_assert_int_eq(ls_world_run(tp, NULL, lookup_rank, &l), LS_ERR_INPUT);
            snprintf(right, sizeof right, "token 4 is %d: allowed are 0 to 5", (int)bad[i]);
            ck_assert_msg(strstr(ls_error_text(), right) != NULL, "%s", ls_error_text());
            for (int r = 0; r < tp; r++) free(l.y[r]);
            free(l.dtable);
        }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("embedding", 60);
    tcase_add_test(tests, last_row_of_an_odd_vocabulary);
    tcase_add_loop_test(tests, embedding_every_degree, 0, 2);
    tcase_add_loop_test(tests, id_outside_the_table, 0, 2);
    return run_tests();
}
