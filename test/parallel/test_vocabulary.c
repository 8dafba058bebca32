/* The loss over a vocabulary cut by rows: known mistakes with their right values, and every degree
 * against the whole vocabulary. */
#include <math.h>
#include <stdio.h>

#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"
#include "parallel_fixture.h"
#include "run_tests.h"

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

/* One loss over n tokens and a vocabulary of `granules` x `granule` padded columns, V logical. */
typedef struct problem {
    size_t n, granules, granule, V;
    const ls_real *z; /* n x padded */
    const int32_t *targets;
    double smoothing;
    ls_real factor;
    bool gathered;
    ls_real *loss[12]; /* n each, per rank */
    ls_real *dz;       /* n x padded, put together */
} problem;

static ls_status loss_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    problem *p = argument;
    member m = {0};
    ls_cut vocab;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, p->granules, p->granule, &vocab));
    size_t padded = p->granules * p->granule, first = vocab.bounds[m.rank] * p->granule;
    size_t width = vocab.bounds[m.rank + 1] * p->granule - first;
    ls_real *z = columns_of(p->z, p->n, padded, first, width), *max = room(p->n), *sum = room(p->n);
    if (p->gathered)
        status = ls_gathered_cross_entropy_forward(&m.tp, p->loss[m.rank], max, sum, z, p->targets,
                                                   p->n, &vocab, p->V, p->smoothing);
    else
        status = ls_vocab_cross_entropy_forward(&m.tp, p->loss[m.rank], max, sum, z, p->targets,
                                                p->n, &vocab, p->V, p->smoothing);
    if (status == LS_OK) {
        ls_vocab_cross_entropy_backward(&m.tp, z, z, max, sum, p->targets, p->n, &vocab, p->V,
                                        p->smoothing, p->factor);
        put_columns(p->dz, z, p->n, padded, first, width);
    }
    free(z), free(max), free(sum);
exit:
    member_end(&m);
    return status;
}

static void solve(problem *p, int tp)
{
    for (int r = 0; r < 12; r++) p->loss[r] = room(p->n);
    p->dz = room(p->n * p->granules * p->granule);
    run_ranks(tp, loss_rank, p);
}

static void solved(problem *p)
{
    for (int r = 0; r < 12; r++) free(p->loss[r]);
    free(p->dz);
}

static void ck_near(ls_real found, double right, const char *what)
{
    double bound = 4e-7 * (1 + fabs(right));
    ck_assert_msg(fabs((double)found - right) <= bound, "%s: %.9g, right is %.9g", what,
                  (double)found, right);
}

/* Logits 0..3, label 3: loss log(sum exp) - 3 = 0.4401897 on both ranks; gathered logits taken for
 * a shard would give 1.1333369. */
START_TEST(four_logits)
{
    static const ls_real z[] = {0, 1, 2, 3};
    static const int32_t target = 3;
    for (int gathered = 0; gathered < 2; gathered++) {
        problem p = {.n = 1,
                     .granules = 2,
                     .granule = 2,
                     .V = 4,
                     .z = z,
                     .targets = &target,
                     .factor = 1,
                     .gathered = gathered};
        solve(&p, 2);
        for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], 0.4401897, "loss");
        /* the rank that does not own the target has the softmax itself, not zeros; the row sums to
         * 0 */
        ck_near(p.dz[0], 0.0320586, "dz[0]");
        ck_near(p.dz[1], 0.0871443, "dz[1]");
        ck_near(p.dz[3], 0.6439143 - 1, "dz[3]");
        ck_assert(fabs((double)(p.dz[0] + p.dz[1] + p.dz[2] + p.dz[3])) <= 1e-6);
        solved(&p);
    }
}
END_TEST

/* Label smoothing over the whole vocabulary, on every rank alike: 0.6401897 (with the local size
 * and mean: 0.9401897 and 0.5401897). Large logits stay finite. */
START_TEST(label_smoothing)
{
    static const ls_real z[] = {0, 1, 2, 3}, large[] = {0, 1000, 2000, 3000};
    static const int32_t target = 3;
    problem p = {.n = 1,
                 .granules = 2,
                 .granule = 2,
                 .V = 4,
                 .z = z,
                 .targets = &target,
                 .factor = 1,
                 .smoothing = 0.1 * 4 / 3};
    solve(&p, 2);
    for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], 0.6401897, "loss");
    solved(&p);
    p.z = large;
    solve(&p, 2);
    for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], 0.1 * 4 / 3 * 1500, "loss of large logits");
    solved(&p);
}
END_TEST

/* Five rows padded to six: a padded column holds anything and takes no part, at any degree,
 * wherever the label is; its gradient is +0. */
START_TEST(padding_takes_no_part)
{
    static const ls_real z[] = {0.5, -1, 2, 0.25, 1, (ls_real)1e30};
    const ls_real zero = 0;
    double sum = 0;
    for (int v = 0; v < 5; v++) sum += exp((double)z[v]);
    for (int32_t target = 0; target < 5; target++) {
        for (int tp = 1; tp <= 3; tp++) {
            problem p = {.n = 1,
                         .granules = tp == 2 ? 2 : 3,
                         .granule = tp == 2 ? 3 : 2,
                         .V = 5,
                         .z = z,
                         .targets = &target,
                         .factor = 1};
            solve(&p, tp);
            for (int r = 0; r < tp; r++)
                ck_near(p.loss[r][0], log(sum) - (double)z[target], "loss");
            ck_assert(memcmp(&p.dz[5], &zero, sizeof zero) == 0);
            solved(&p);
        }
    }
}
END_TEST

/* Five equal logits on up to six ranks: ln 5 wherever the label is, not ln 6 or ln 8, also where a
 * rank has padding alone and "not mine" may not be taken for a padded column. */
START_TEST(vocabulary_that_nothing_divides)
{
    static const ls_real z[12];
    for (int32_t target = 0; target < 5; target++)
        for (int tp = 1; tp <= 6; tp++) {
            size_t granule = tp == 1 ? 8 : tp == 2 ? 3 : 2;
            problem p = {.n = 1,
                         .granules = (size_t)tp,
                         .granule = granule,
                         .V = 5,
                         .z = z,
                         .targets = &target,
                         .factor = 1,
                         .gathered = tp % 2};
            solve(&p, tp);
            for (int r = 0; r < tp; r++) ck_near(p.loss[r][0], 1.6094379124341003, "loss");
            for (size_t v = 0; v < (size_t)tp * granule; v++)
                ck_near(p.dz[v], v >= 5 ? 0 : v == (size_t)target ? -0.8 : 0.2, "dz");
            solved(&p);
        }
}
END_TEST

/* Logits far apart, far down, or out of reach, on different ranks: nothing overflows on the way
 * (log(1 + exp(b - a)) would), no constant stands in for minus infinity, and a rank whose columns
 * are all -infinity brings no NaN. */
START_TEST(extreme_logits)
{
    const ls_real far = sizeof(ls_real) == 4 ? 100 : 1000, none = (ls_real)-INFINITY;
    const ls_real apart[2] = {0, far}, low[4] = {-60000, -60000, -60000, -60000},
                  out[4] = {none, none, 0, 0}, equal[2] = {3, 3};
    static const int32_t first = 0, third = 2;
    for (int gathered = 0; gathered < 2; gathered++) {
        problem p = {.n = 1,
                     .granules = 2,
                     .granule = 1,
                     .V = 2,
                     .z = apart,
                     .targets = &first,
                     .factor = 1,
                     .gathered = gathered};
        solve(&p, 2);
        for (int r = 0; r < 2; r++) ck_assert(p.loss[r][0] == far);
        ck_assert(p.dz[0] == -1 && p.dz[1] == 1);
        solved(&p);
        p.z = equal;
        solve(&p, 2);
        for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], log(2), "loss of equal logits");
        solved(&p);
        p.V = 4, p.granule = 2, p.z = low, p.targets = &third;
        solve(&p, 2);
        for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], log(4), "loss of low logits");
        for (int v = 0; v < 4; v++) ck_assert(p.dz[v] == (ls_real)(v == 2 ? -0.75 : 0.25));
        solved(&p);
        p.z = out;
        solve(&p, 2);
        for (int r = 0; r < 2; r++) ck_near(p.loss[r][0], log(2), "loss beside -infinity");
        for (int v = 0; v < 4; v++)
            ck_assert(p.dz[v] == (ls_real)(v == 2 ? -0.5 : v == 3 ? 0.5 : 0));
        solved(&p);
    }
}
END_TEST

/* Head and loss: z = h E^T, and the gradient of h. */
typedef struct head {
    ls_real dh[2], de[4];
} head;

static ls_status head_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    head *p = argument;
    member m = {0};
    ls_cut vocab;
    static const ls_real h = 1, e[4] = {0, 1, 2, 3};
    static const int32_t target = 3;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 2, &vocab));
    ls_axis held = ls_cut_held(&vocab, m.rank), one = ls_axis_of(1, 1);
    size_t first = vocab.bounds[m.rank] * 2, width = ls_axis_extent(held);
    ls_real z[4], loss, max, sum;
    ls_gemm_term term = {z, width, e + first, 1, 2, 1, 0};
    LS_TRY(ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_TRANS, one, held, one, &h, 1, e + first, 1,
                   z, width, false));
    LS_TRY(ls_vocab_cross_entropy_forward(&m.tp, &loss, &max, &sum, z, &target, 1, &vocab, 4, 0));
    ls_vocab_cross_entropy_backward(&m.tp, z, z, &max, &sum, &target, 1, &vocab, 4, 0, 1);
    LS_TRY(ls_gemm(LS_ENGINE_PORTABLE, LS_TRANS, LS_NO_TRANS, held, one, one, z, width, &h, 1,
                   p->de + first, 1, false));
    LS_TRY(ls_reduced_product(&m.tp, LS_NO_TRANS, one, one, &vocab, &term, 1, &p->dh[m.rank]));
exit:
    member_end(&m);
    return status;
}

/* The gradient of the hidden state is the sum over both ranks' rows, the same on both: not 0.087 on
 * one and -0.594 on the other; that of the rows is the softmax, less the target, of each. */
START_TEST(gradient_of_the_hidden_state)
{
    static const double de[4] = {0.03205860328008499, 0.08714431874203257, 0.23688281808991013,
                                 -0.35608574011202765};
    for (int tp = 1; tp <= 2; tp++) {
        head p;
        run_ranks(tp, head_rank, &p);
        for (int r = 0; r < tp; r++) ck_near(p.dh[r], -0.5073472654142301, "dh");
        for (int v = 0; v < 4; v++) ck_near(p.de[v], de[v], "de");
    }
}
END_TEST

/* An ignored target: no loss, and a gradient of +0 in the whole row on every rank; -100 belongs to
 * nobody's slice. */
START_TEST(ignored_target)
{
    static const ls_real z[] = {0, 1, 2, 3, 3, 2, 1, 0};
    static const int32_t targets[] = {LS_IGNORE, 0};
    const ls_real zero = 0;
    problem p = {
        .n = 2, .granules = 2, .granule = 2, .V = 4, .z = z, .targets = targets, .factor = 1};
    solve(&p, 2);
    for (int r = 0; r < 2; r++) {
        ck_assert(p.loss[r][0] == 0);
        ck_near(p.loss[r][1], 0.4401897, "loss");
    }
    for (int v = 0; v < 4; v++) ck_assert(memcmp(&p.dz[v], &zero, sizeof zero) == 0);
    ck_assert(p.dz[4] != 0);
    solved(&p);
}
END_TEST

/* Every degree, fused and gathered, gives the bits of one rank; the last granules may hold padding
 * alone. */
START_TEST(every_degree)
{
    enum { N = 7, G = 12, W = 5, V = 43 };
    int32_t targets[N] = {0, 42, LS_IGNORE, 17, 5, 41, 20};
    ls_real *z = filled(N * G * W, 9, 0);
    for (size_t i = 0; i < N * G * W; i++) z[i] *= 8;
    problem one = {.n = N,
                   .granules = G,
                   .granule = W,
                   .V = V,
                   .z = z,
                   .targets = targets,
                   .smoothing = _i ? 0.1 : 0,
                   .factor = (ls_real)1 / 6};
    solve(&one, 1);
    /* the serial loss from the kernels, without ranks */
    ls_vocab_shard whole = {ls_axis_of(G, W), 0, V};
    ls_real max[N], sums[G * N], zs[G * N], target[N], sum[N], sum_z[N], loss[N];
    ls_cross_entropy_max(max, z, N, G * W, whole);
    ls_cross_entropy_sums(sums, zs, target, z, max, targets, N, G * W, whole);
    ls_tree_sum_rows(sum, sums, ls_axis_whole(G), N, N);
    ls_tree_sum_rows(sum_z, zs, ls_axis_whole(G), N, N);
    ls_cross_entropy_loss(loss, max, sum, sum_z, target, targets, N, V, one.smoothing);
    ck_same(one.loss[0], loss, N, "loss", 1);
    for (int gathered = 0; gathered < 2; gathered++) {
        for (int i = 0; i < DEGREES; i++) {
            problem p = one;
            p.gathered = gathered;
            solve(&p, degrees[i]);
            for (int r = 0; r < degrees[i]; r++) ck_same(p.loss[r], loss, N, "loss", degrees[i]);
            ck_same(p.dz, one.dz, N * G * W, "dz", degrees[i]);
            solved(&p);
        }
    }
    solved(&one);
    free(z);
}
END_TEST

/* ---- targets that are no words */

typedef struct refusal {
    bool gathered;
    int ranks, bad_rank; /* -1: all of them */
    int32_t bad;
    ls_status status[4];
    char text[4][200];
    ls_comm_count gathers[4], reduces[4];
} refusal;

enum { TARGETS = 3, BAD_PLACE = 1 };

static ls_status refusing_rank(ls_rank *rank, void *argument)
{
    static const ls_real zeros[TARGETS * 12];
    ls_status status = LS_OK;
    refusal *f = argument;
    member m = {0};
    ls_cut vocab;
    ls_real loss[TARGETS], max[TARGETS], sum[TARGETS];
    int32_t targets[TARGETS] = {3, 0, LS_IGNORE};
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 4, 3, &vocab));
    if (f->bad_rank < 0 || f->bad_rank == m.rank) targets[BAD_PLACE] = f->bad;
    LS_TRY((f->gathered ? ls_gathered_cross_entropy_forward : ls_vocab_cross_entropy_forward)(
        &m.tp, loss, max, sum, zeros, targets, TARGETS, &vocab, 10, 0));
exit:
    f->status[m.rank] = status;
    snprintf(f->text[m.rank], sizeof f->text[0], "%s", ls_error_text());
    f->gathers[m.rank] = ls_rank_count(rank, LS_OP_ALL_GATHER);
    f->reduces[m.rank] = ls_rank_count(rank, LS_OP_ALL_REDUCE);
    member_end(&m);
    return status;
}

/* Below, just above, in the padding, far above: an error on every rank that names the place, the
 * value and what is allowed. Where all ranks hold it, nothing is sent. Where one rank holds it, the
 * others learn of it when they would wait for that rank. */
START_TEST(target_outside_the_vocabulary)
{
    static const int32_t bad[] = {-1, -99, -101, 10, 11, 12, INT32_MAX, INT32_MIN};
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int bad_rank = -1; bad_rank < ranks; bad_rank++)
            for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                static refusal f;
                char right[200];
                f = (refusal){.gathered = _i, .ranks = ranks, .bad_rank = bad_rank, .bad = bad[i]};
                ls_status status = ls_world_run(ranks, NULL, refusing_rank, &f);
                snprintf(right, sizeof right,
                         "target %d is %d: allowed are 0 to 9 and -100 (ignored)", BAD_PLACE,
                         (int)bad[i]);
                ck_assert_int_eq(status, LS_ERR_INPUT);
                ck_assert_msg(strstr(ls_error_text(), right) != NULL, "%s", ls_error_text());
                for (int r = 0; r < ranks; r++) {
                    bool holds = bad_rank < 0 || bad_rank == r;
                    ck_assert_int_ne(f.status[r], LS_OK);
                    ck_assert_msg(strstr(f.text[r], right) != NULL, "rank %d: %s", r, f.text[r]);
                    if (holds)
                        ck_assert(f.status[r] == LS_ERR_INPUT && f.gathers[r].calls == 0 &&
                                  f.reduces[r].calls == 0);
                }
            }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("vocabulary", 60);
    tcase_add_test(tests, four_logits);
    tcase_add_test(tests, label_smoothing);
    tcase_add_test(tests, padding_takes_no_part);
    tcase_add_test(tests, vocabulary_that_nothing_divides);
    tcase_add_test(tests, extreme_logits);
    tcase_add_test(tests, gradient_of_the_hidden_state);
    tcase_add_test(tests, ignored_target);
    tcase_add_loop_test(tests, every_degree, 0, 2);
    tcase_add_loop_test(tests, target_outside_the_vocabulary, 0, 2);
    return run_tests();
}
