/* test_embedding.c - rows of a table by index, whole and in shards. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/embedding.h"
#include "run_tests.h"

static int32_t *ids_of(size_t n, size_t vocab, uint64_t seed)
{
    static int32_t ids[8][4096];
    static size_t next;
    int32_t *p = ids[next++ % 8];
    uint64_t state = seed * 12345 + 7;
    ck_assert(n <= 4096);
    for (size_t t = 0; t < n; t++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* the first quarter of the vocabulary three times as often as the rest */
        const size_t range = (state >> 20 & 1) ? (vocab + 3) / 4 : vocab;
        p[t] = (int32_t)((state >> 33) % range);
    }
    return p;
}

START_TEST(forward_copies_rows)
{
    static const size_t widths[] = {1, 3, 16, 257};
    for (size_t k = 0; k < COUNT(widths); k++) {
        const size_t D = widths[k], V = 11, n = 29;
        ls_real *table = noise(V * D, 1), *y = fresh(n * D);
        const int32_t *ids = ids_of(n, V, 2);
        ls_embedding_forward(y, table, ids, n, D, 0, V);
        for (size_t t = 0; t < n; t++) ck_assert(same(y + t * D, table + (size_t)ids[t] * D, D));
        /* a shard of the rows: its own tokens, -0 elsewhere; also the last, shorter shard, and one
         * that holds nothing */
        for (size_t first = 0; first <= V; first += 3) {
            const size_t rows = V - first < 3 ? V - first : 3;
            ls_real *part = fresh(n * D);
            ls_embedding_forward(part, table + first * D, ids, n, D, first, rows);
            for (size_t t = 0; t < n; t++) {
                const size_t id = (size_t)ids[t];
                const int held = id >= first && id < first + rows;
                for (size_t c = 0; c < D; c++)
                    ck_assert(same_value(part[t * D + c], held ? table[id * D + c] : NEG_ZERO));
            }
        }
        ls_embedding_forward(y, table, ids, 0, D, 0, V);
    }
}
END_TEST

/* A vocabulary of 5 on 2 ranks: every row has an owner, the last one too (14, not 0), and zeros
 * of either sign come through the sum of the shards. */
START_TEST(last_row_has_an_owner)
{
    const ls_real table[5] = {10, NEG_ZERO, 12, POS_ZERO, 14};
    const int32_t ids[3] = {4, 1, 3};
    ls_real low[3], high[3];
    ls_embedding_forward(low, table, ids, 3, 1, 0, 3);
    ls_embedding_forward(high, table + 3, ids, 3, 1, 3, 2);
    for (size_t t = 0; t < 3; t++) low[t] += high[t];
    ck_assert(low[0] == 14 && same_value(low[1], NEG_ZERO) && same_value(low[2], POS_ZERO));
}
END_TEST

/* EXACT: integers, against a plain scatter. */
START_TEST(backward_of_integers)
{
    for (size_t granules = 0; granules <= 8; granules++)
        for (size_t granule = 1; granule <= 17; granule += 4) {
            const size_t V = 13, D = 5, n = granules * granule;
            ls_real *dy = integers(n * D, 3, 9), *dtable = fresh(V * D);
            const int32_t *ids = ids_of(n, V, granules * 31 + granule);
            long right[13 * 5] = {0};
            for (size_t t = 0; t < n; t++)
                for (size_t c = 0; c < D; c++) right[(size_t)ids[t] * D + c] += (long)dy[t * D + c];
            ck_assert(ls_embedding_backward(dtable, dy, ids, ls_axis_of(granules, granule), D, 0,
                                            V) == LS_OK);
            ls_normalize_zero(dtable, V * D);
            for (size_t i = 0; i < V * D; i++) ck_assert(dtable[i] == (ls_real)right[i]);
        }
}
END_TEST

/* ORDERED: the dense tree of rule 9 over all tokens, those of other rows standing as -0; whole
 * table and every shard of it. */
START_TEST(backward_is_the_dense_tree)
{
    static const size_t batches[] = {1, 2, 3, 5, 7, 8, 12};
    static const size_t sequences[] = {1, 2, 3, 5, 7, 16, 24, 33};
    for (size_t b = 0; b < COUNT(batches); b++)
        for (size_t s = 0; s < COUNT(sequences); s++) {
            const size_t V = 10, D = 3, granules = batches[b], granule = sequences[s];
            const size_t n = granules * granule;
            const ls_axis tokens = ls_axis_of(granules, granule);
            ls_real *dy = noise(n * D, 4), *dtable = fresh(V * D), *term = fresh(n);
            const int32_t *ids = ids_of(n, V, b * 100 + s);
            for (int twice = 0; twice < 2; twice++)
                ck_assert(ls_embedding_backward(dtable, dy, ids, tokens, D, 0, V) == LS_OK);
            for (size_t v = 0; v < V; v++)
                for (size_t c = 0; c < D; c++) {
                    for (size_t t = 0; t < n; t++)
                        term[t] = (size_t)ids[t] == v ? dy[t * D + c] : NEG_ZERO;
                    const ls_real right = reference_token_sum(term, granules, granule);
                    ck_assert(same_value(dtable[v * D + c], right));
                }
            for (size_t first = 0; first <= V; first += 4) {
                const size_t rows = V - first < 4 ? V - first : 4;
                ls_real *part = fresh(rows * D);
                ck_assert(ls_embedding_backward(part, dy, ids, tokens, D, first, rows) == LS_OK);
                ck_assert(same(part, dtable + first * D, rows * D));
            }
        }
}
END_TEST

/* Columns do not know each other, however they are grouped inside. */
START_TEST(backward_of_wide_rows)
{
    const size_t V = 4, D = 600, n = 3 * 7;
    ls_real *dy = noise(n * D, 5), *dtable = fresh(V * D), *column = fresh(n), *one = fresh(V);
    const int32_t *ids = ids_of(n, V, 6);
    ck_assert(ls_embedding_backward(dtable, dy, ids, ls_axis_of(3, 7), D, 0, V) == LS_OK);
    for (size_t c = 0; c < D; c++) {
        for (size_t t = 0; t < n; t++) column[t] = dy[t * D + c];
        ck_assert(ls_embedding_backward(one, column, ids, ls_axis_of(3, 7), 1, 0, V) == LS_OK);
        for (size_t v = 0; v < V; v++) ck_assert(same_value(one[v], dtable[v * D + c]));
    }
}
END_TEST

/* A row that no token names is -0 until the sum is ended, +0 after; other values pass through. */
START_TEST(sums_without_a_term)
{
    const size_t V = 3, D = 2;
    const int32_t ids[2] = {2, 2};
    const ls_real dy[4] = {NEG_ZERO, 1, NEG_ZERO, -1};
    ls_real *dtable = fresh(V * D);
    ck_assert(ls_embedding_backward(dtable, dy, ids, ls_axis_of(1, 2), D, 0, V) == LS_OK);
    for (size_t i = 0; i < 5; i++) ck_assert(same_value(dtable[i], NEG_ZERO));
    ck_assert(same_value(dtable[5], POS_ZERO));
    ls_normalize_zero(dtable, V * D);
    for (size_t i = 0; i < 6; i++) ck_assert(same_value(dtable[i], POS_ZERO));
    ls_real x[4] = {(ls_real)-1.5, INF, NEG_ZERO, (ls_real)NAN};
    ls_normalize_zero(x, 4);
    ck_assert(x[0] == (ls_real)-1.5 && x[1] == INF && same_value(x[2], POS_ZERO) && isnan(x[3]));
    ck_assert(ls_embedding_backward(NULL, dy, ids, ls_axis_of(1, 2), D, 0, 0) == LS_OK);
}
END_TEST

/* An id outside the vocabulary is an error with a name, never the last row or a silent zero. */
START_TEST(ids_outside_the_vocabulary)
{
    const int32_t good[3] = {0, 3, 1}, below[3] = {0, -1, 2}, above[3] = {0, 1, 4};
    const int32_t ignored[3] = {0, -100, 2};
    ck_assert(ls_ids_check(good, 3, 4, 0, "token") == LS_OK);
    ck_assert(ls_ids_check(good, 0, 0, 0, "token") == LS_OK);
    ck_assert(ls_ids_check(ignored, 3, 4, 1, "target") == LS_OK);

    ck_assert(ls_ids_check(below, 3, 4, 1, "target") == LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "target 1 is -1: allowed are 0 to 3 and -100 (ignored)");
    ls_error_clear();
    ck_assert(ls_ids_check(above, 3, 4, 0, "token") == LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "token 2 is 4: allowed are 0 to 3");
    ls_error_clear();
    ck_assert(ls_ids_check(ignored, 3, 4, 0, "token") == LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "token 1 is -100: allowed are 0 to 3");
    ls_error_clear();
    ck_assert(ls_ids_check(good, 3, 0, 0, "token") == LS_ERR_INPUT);
    ls_error_clear();
}
END_TEST

START_TEST(lengths_outside_a_sequence)
{
    const int32_t good[3] = {0, 4, 1}, below[3] = {0, 4, -1}, above[3] = {0, 5, 1};
    ck_assert(ls_lengths_check(NULL, 3, 4) == LS_OK);
    ck_assert(ls_lengths_check(good, 3, 4) == LS_OK);
    ck_assert(ls_lengths_check(below, 3, 4) == LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(),
                     "length 2 is -1: allowed are 0 to 4, the tokens of a sequence");
    ck_assert(ls_lengths_check(above, 3, 4) == LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(),
                     "length 1 is 5: allowed are 0 to 4, the tokens of a sequence");
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct embedding_case {
    double *table, *dy, *y;
    const int32_t *ids;
    size_t n, D, V;
} embedding_case;

static double embedding_objective(void *context)
{
    embedding_case *e = context;
    ls_embedding_forward(e->y, e->table, e->ids, e->n, e->D, 0, e->V);
    return weighted_sum(e->dy, e->y, e->n * e->D);
}

START_TEST(gradients)
{
    const size_t n = 15, D = 3, V = 7;
    embedding_case e = {noise(V * D, 7), noise(n * D, 8), fresh(n * D), ids_of(n, V, 9), n, D, V};
    double *dtable = fresh(V * D);
    ck_assert(ls_embedding_backward(dtable, e.dy, e.ids, ls_axis_of(3, 5), D, 0, V) == LS_OK);
    check_gradient(embedding_objective, &e, e.table, dtable, V * D, "dtable");
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {forward_copies_rows,
                                  last_row_has_an_owner,
                                  backward_of_integers,
                                  backward_is_the_dense_tree,
                                  backward_of_wide_rows,
                                  sums_without_a_term,
                                  ids_outside_the_vocabulary,
                                  lengths_outside_a_sequence,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("embedding", tests, COUNT(tests));
}
