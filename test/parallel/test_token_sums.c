/* Sums over tokens that are cut over ranks, as the parameters of the norms need them: every degree,
 * sequences longer and shorter than the group, one target or one for each node of the batch,
 * against the kernels on whole sequences (ORDERED, EXACT); known mistakes with their right values;
 * and what is sent. */
#include "lockstep/kernels/norm.h"
#include "parallel/sequence/token_sums.h"
#include "parallel_fixture.h"
#include "run_tests.h"

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0], D = 19, MOST_B = 7 };

/* Two vectors, of different weight, from B sequences of S tokens: sum of dy * xhat, and of dy. */
typedef struct problem {
    size_t B, S;
    const ls_batch_sums *sums;
    size_t stride;        /* from a target to the next */
    ls_real *dy, *x;      /* B S x D */
    ls_real *mean, *rstd; /* B S */
    ls_real *dscale[12], *dshift[12];
    sent sent[12];
} problem;

static ls_status sums_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    problem *p = argument;
    member m = {0};
    ls_token_sums sums;
    ls_axis tokens = ls_axis_of(p->B, p->S);
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    m.tp.sequence_parallel = true;
    m.tp.sums = p->sums;
    ls_share own = ls_own_share(&m.tp, p->S);
    size_t mark = ls_arena_mark(m.tp.temporary);
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_token_sums_open(&sums, &m.tp, tokens, D, 2));
        size_t scale = 0, shift = 0;
        LS_TRY(ls_token_sums_add(&sums, p->dscale[m.rank], NULL, 0, &scale));
        LS_TRY(ls_token_sums_add(&sums, p->dshift[m.rank], NULL, 0, &shift));
        for (size_t j = 0; j < sums.n_nodes; j++)
            for (size_t b = 0; b < p->B; b++) {
                size_t row = b * p->S + own.first + sums.nodes[j].lo;
                ls_layer_norm_backward_parameters(
                    ls_token_sums_part(&sums, scale, j, b), ls_token_sums_part(&sums, shift, j, b),
                    p->dy + row * D, p->x + row * D, p->mean + row, p->rstd + row,
                    ls_axis_of(1, sums.nodes[j].hi - sums.nodes[j].lo), D);
            }
        LS_TRY(ls_token_sums_finish(&sums));
        ls_arena_release(m.tp.temporary, mark);
    }
    p->sent[m.rank] = sent_by(rank);
exit:
    member_end(&m);
    return status;
}

static problem problem_begin(size_t B, size_t S, int exact)
{
    problem p = {.B = B, .S = S, .stride = 3 * D};
    size_t n = B * S;
    p.dy = filled(n * D, 1, exact), p.x = filled(n * D, 2, exact);
    p.mean = filled(n, 3, exact), p.rstd = filled(n, 4, exact);
    for (int r = 0; r < 12; r++)
        p.dscale[r] = room(MOST_B * p.stride), p.dshift[r] = room(MOST_B * p.stride);
    return p;
}

static void problem_end(problem *p)
{
    free(p->dy), free(p->x), free(p->mean), free(p->rstd);
    for (int r = 0; r < 12; r++) free(p->dscale[r]), free(p->dshift[r]);
}

/* Every rank has the bits of the kernel over whole sequences lo .. hi, and NaN behind them. */
static void ck_target(const problem *p, ls_node sequences, size_t offset, int tp)
{
    ls_real dscale[D], dshift[D];
    size_t row = sequences.lo * p->S;
    ls_layer_norm_backward_parameters(dscale, dshift, p->dy + row * D, p->x + row * D,
                                      p->mean + row, p->rstd + row,
                                      ls_axis_of(sequences.hi - sequences.lo, p->S), D);
    for (int r = 0; r < tp; r++) {
        ck_same(p->dscale[r] + offset, dscale, D, "dscale", tp);
        ck_same(p->dshift[r] + offset, dshift, D, "dshift", tp);
        ck_assert(isnan(p->dscale[r][offset + D]) && isnan(p->dshift[r][offset + D]));
    }
}

static const size_t batches[] = {1, 2, 3, 5, 7};

START_TEST(every_degree)
{
    int exact = _i % 2;
    for (size_t i = 0; i < SEQUENCE_LENGTHS; i++)
        for (int d = 0; d < DEGREES; d++) {
            int tp = degrees[d];
            problem p = problem_begin(batches[_i / 2], sequence_lengths[i], exact);
            run_ranks(tp, sums_rank, &p);
            ck_target(&p, (ls_node){0, p.B}, 0, tp);
            for (int r = 0; r < tp; r++) {
                size_t partials = nodes_of(p.S, tp, r) * p.B * 2 * D;
                ck_sent(p.sent[r].reduces, 2, 2 * partials, "all-reduces", tp, r);
                ck_sent(p.sent[r].scatters, 0, 0, "reduce-scatters", tp, r);
                ck_sent(p.sent[r].gathers, 0, 0, "all-gathers", tp, r);
            }
            problem_end(&p);
        }
}
END_TEST

/* A micro-batch whose sequences are several nodes of the batch: a target for each. */
START_TEST(nodes_of_the_batch)
{
    static const ls_node nodes[] = {{0, 1}, {1, 3}, {3, 7}};
    static const size_t offsets[] = {0, 3 * D, 6 * D};
    const ls_batch_sums sums = {3, nodes, offsets};
    for (int d = 0; d < DEGREES; d++) {
        problem p = problem_begin(7, 13, 0);
        p.sums = &sums;
        run_ranks(degrees[d], sums_rank, &p);
        for (int j = 0; j < 3; j++) ck_target(&p, nodes[j], offsets[j], degrees[d]);
        problem_end(&p);
    }
}
END_TEST

/* A gradient that is left as each rank's part, or summed twice over, has other values: parts 0.12
 * and 0.0197 of one number, 0.04 and -0.0077 of another, are 0.1397 and 0.0323 on both ranks. Parts
 * [1, 2, 4] and [8, 16, 32] are 63, not 126 or 189. */
START_TEST(known_values)
{
    problem p = problem_begin(1, 2, 0);
    const double parts[2][2] = {{0.12, 0.04}, {0.0197, -0.0077}};
    for (size_t t = 0; t < 2; t++) {
        p.mean[t] = 0, p.rstd[t] = 1;
        for (size_t c = 0; c < D; c++)
            p.dy[t * D + c] = (ls_real)parts[t][c % 2], p.x[t * D + c] = 1;
    }
    run_ranks(2, sums_rank, &p);
    for (int r = 0; r < 2; r++)
        for (size_t c = 0; c < D; c++) {
            double right = c % 2 ? 0.0323 : 0.1397;
            ck_assert(fabs((double)p.dshift[r][c] - right) <= 1e-7);
            ck_assert(fabs((double)p.dscale[r][c] - right) <= 1e-7);
        }
    problem_end(&p);

    p = problem_begin(1, 6, 0);
    for (size_t t = 0; t < 6; t++)
        for (size_t c = 0; c < D; c++) p.dy[t * D + c] = (ls_real)(1 << t);
    run_ranks(2, sums_rank, &p);
    for (int r = 0; r < 2; r++)
        for (size_t c = 0; c < D; c++) ck_assert(p.dshift[r][c] == 63);
    problem_end(&p);
}
END_TEST

/* ---- more sums than were announced */

static ls_status one_more_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    member m = {0};
    ls_token_sums sums;
    ls_real target[D];
    size_t vector = 99;
    (void)argument;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    m.tp.sequence_parallel = true;
    LS_TRY(ls_token_sums_open(&sums, &m.tp, ls_axis_of(1, 4), D, LS_TOKEN_SUMS_MAX));
    for (size_t i = 0; i < LS_TOKEN_SUMS_MAX; i++)
        LS_TRY(ls_token_sums_add(&sums, target, NULL, 0, &vector));
    LS_TRY(ls_token_sums_add(&sums, target, NULL, 0, &vector));
exit:
    member_end(&m);
    return status;
}

START_TEST(one_sum_too_many)
{
    ck_assert_int_eq(ls_world_run(2, NULL, one_more_rank, NULL), LS_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "one more sum over tokens than the 8"));
}
END_TEST

int main(void)
{
    TCase *tests = test_case("token sums", 60);
    tcase_add_loop_test(tests, every_degree, 0, 2 * sizeof batches / sizeof batches[0]);
    tcase_add_test(tests, nodes_of_the_batch);
    tcase_add_test(tests, known_values);
    tcase_add_test(tests, one_sum_too_many);
    return run_tests();
}
