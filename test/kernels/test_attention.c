/* test_attention.c - the core of attention: one sequence, one head. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/softmax.h"
#include "run_tests.h"

typedef struct head {
    ls_attention_shape shape;
    ls_real *q, *k, *v, *d_o; /* S rows */
    ls_real *P, *o, *scratch; /* scratch: 2 S x S */
    ls_real *dq, *dk, *dv;
} head;

enum { CAUSAL = 1, PADDING = 2, DROPOUT = 4, MODES = 8 };

/* A head whose rows stand `gap` elements further apart than they are wide. */
static head head_of(size_t S, size_t width, size_t gap, int mode, uint64_t seed)
{
    static unsigned char keys[512];
    head h;
    memset(&h, 0, sizeof h);
    h.shape.S = S, h.shape.head_width = width;
    h.shape.ld_q = width + gap, h.shape.ld_kv = width + 2 * gap;
    h.shape.scale = 1 / sqrt((double)width);
    h.shape.causal = (mode & CAUSAL) != 0;
    h.shape.dropout = mode & DROPOUT ? 0.3 : 0;
    h.shape.stream = (ls_stream){77, LS_RANDOM_DROPOUT_ATTENTION, 2, 5};
    h.shape.first_index = 1000003;
    for (size_t j = 0; j < S; j++) keys[j] = j % 3 != 0 || j + 2 > S; /* hides key 0 too */
    h.shape.keys = mode & PADDING ? keys : NULL;
    const size_t nq = S * h.shape.ld_q, nkv = S * h.shape.ld_kv;
    h.q = noise(nq, seed), h.k = noise(nkv, seed + 1), h.v = noise(nkv, seed + 2);
    h.d_o = noise(nq, seed + 3);
    h.P = fresh(S * S), h.o = fresh(nq), h.scratch = fresh(2 * S * S);
    h.dq = fresh(nq), h.dk = fresh(nkv), h.dv = fresh(nkv);
    return h;
}

static void forward(head *h)
{
    ck_assert(ls_attention_forward(LS_ENGINE_PORTABLE, &h->shape, h->o, h->P, h->q, h->k, h->v,
                                   h->scratch) == LS_OK);
}

static void backward(head *h)
{
    ck_assert(ls_attention_backward(LS_ENGINE_PORTABLE, &h->shape, h->dq, h->dk, h->dv, h->d_o,
                                    h->P, h->q, h->k, h->v, h->scratch) == LS_OK);
}

static int sees(const ls_attention_shape *s, size_t i, size_t j)
{
    return (!s->causal || j <= i) && (!s->keys || s->keys[j]);
}

/* ---- known values ---- */

/* q, k of one feature, two tokens, full mask: the values of a published ring-attention case. */
START_TEST(known_gradients)
{
    const ls_real q[2] = {1, 2}, k[2] = {1, -2}, v[2] = {3, 5}, d_o[2] = {1, 1};
    const double right[6] = {-0.27105995838547314, -0.014799055748160716, -0.1002193566272657,
                             0.10021935662726444,  1.9501015036657987,    0.049898496334201556};
    const ls_attention_shape shape = {.S = 2, .head_width = 1, .ld_q = 1, .ld_kv = 1, .scale = 1};
    ls_real o[2], P[4], scratch[8], dq[2], dk[2], dv[2];
    ck_assert(ls_attention_forward(LS_ENGINE_PORTABLE, &shape, o, P, q, k, v, scratch) == LS_OK);
    ck_assert(ls_attention_backward(LS_ENGINE_PORTABLE, &shape, dq, dk, dv, d_o, P, q, k, v,
                                    scratch) == LS_OK);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(near(dq[i], right[i], 1e-6) && near(dk[i], right[2 + i], 1e-6));
        ck_assert(near(dv[i], right[4 + i], 1e-6));
    }
}
END_TEST

/* EXACT: queries of zero see all their keys equally; row 2^m - 1 averages the first 2^m values. */
START_TEST(equal_weights)
{
    for (int mode = 0; mode < 2; mode++) {
        head h = head_of(16, 5, 1, mode, 1);
        for (size_t i = 0; i < 16 * h.shape.ld_q; i++) h.q[i] = 0;
        ls_real *v = integers(16 * h.shape.ld_kv, 2, 9);
        memcpy(h.v, v, 16 * h.shape.ld_kv * sizeof *v);
        forward(&h);
        for (size_t n = 1; n <= 16; n *= 2)
            for (size_t c = 0; c < 5; c++) {
                ls_real sum = 0;
                const size_t seen = mode == CAUSAL ? n : 16;
                for (size_t j = 0; j < seen; j++) sum += h.v[j * h.shape.ld_kv + c];
                ck_assert(h.o[(n - 1) * h.shape.ld_q + c] == sum / (ls_real)seen);
                ck_assert(h.P[(n - 1) * 16] == 1 / (ls_real)seen);
            }
    }
}
END_TEST

/* With the identity for V the output is dropout(P): the mask is the stream's, kept entries are
 * divided by 1 - p, and another part of the batch draws another part of the mask. */
START_TEST(dropout_of_the_weights)
{
    const size_t S = 17;
    for (int mode = DROPOUT; mode < MODES; mode++) {
        head h = head_of(S, S, 0, mode & ~PADDING, 3);
        for (size_t j = 0; j < S; j++)
            for (size_t c = 0; c < S; c++) h.v[j * S + c] = j == c;
        forward(&h);
        size_t dropped = 0;
        const ls_real factor = (ls_real)(1 / (1 - 0.3));
        for (size_t i = 0; i < S * S; i++) {
            const int keep = ls_random_keep(h.shape.stream, h.shape.first_index + i, 0.3);
            dropped += !keep && h.P[i] > 0;
            ck_assert(h.o[i] == (keep ? h.P[i] * factor : 0));
        }
        ck_assert(dropped > S);
    }
}
END_TEST

/* ---- the order of every sum ---- */

/* Rule 5: leaves of 256 fused multiply-adds, T over them. */
static ls_real product(const ls_real *a, size_t step_a, const ls_real *b, size_t step_b, size_t n)
{
    ls_real leaf[4];
    size_t leaves = 0;
    for (size_t lo = 0; lo < n; lo += 256, leaves++) {
        leaf[leaves] = 0;
        for (size_t i = lo; i < n && i < lo + 256; i++)
            leaf[leaves] = FMA(a[i * step_a], b[i * step_b], leaf[leaves]);
    }
    return reference_tree(leaf, leaves);
}

/* The whole operation from its words, one element at a time, whole rows of P in every sum. */
static void check_order(head *h)
{
    const ls_attention_shape *s = &h->shape;
    const size_t S = s->S, width = s->head_width;
    const ls_real scale = (ls_real)s->scale, factor = (ls_real)(1 / (1 - s->dropout));
    ls_real *P = fresh(S * S), *D = fresh(S * S), *dS = fresh(S * S), *row = fresh(S);
    for (size_t i = 0; i < S; i++) {
        unsigned char seen[512];
        for (size_t j = 0; j < S; j++) {
            seen[j] = (unsigned char)sees(s, i, j);
            row[j] = scale * product(h->q + i * s->ld_q, 1, h->k + j * s->ld_kv, 1, width);
        }
        ls_softmax_forward(P + i * S, row, seen, S);
        for (size_t j = 0; j < S; j++) {
            const size_t at = i * S + j;
            const int keep = ls_random_keep(s->stream, s->first_index + at, s->dropout);
            D[at] = s->dropout == 0 ? P[at] : keep ? P[at] * factor : 0;
            const ls_real d = product(h->d_o + i * s->ld_q, 1, h->v + j * s->ld_kv, 1, width);
            row[j] = s->dropout == 0 ? d : keep ? d * factor : 0;
        }
        ls_softmax_backward(dS + i * S, row, P + i * S, S);
        for (size_t j = 0; j < S; j++) dS[i * S + j] = scale * dS[i * S + j];
    }
    ck_assert(same(h->P, P, S * S));
    for (size_t t = 0; t < S; t++)
        for (size_t c = 0; c < width; c++) {
            const size_t q = t * s->ld_q + c, kv = t * s->ld_kv + c;
            ck_assert(same_value(h->o[q], product(D + t * S, 1, h->v + c, s->ld_kv, S)));
            ck_assert(same_value(h->dv[kv], product(D + t, S, h->d_o + c, s->ld_q, S)));
            ck_assert(same_value(h->dq[q], product(dS + t * S, 1, h->k + c, s->ld_kv, S)));
            ck_assert(same_value(h->dk[kv], product(dS + t, S, h->q + c, s->ld_q, S)));
        }
}

START_TEST(in_the_stated_order)
{
    static const size_t lengths[] = {1, 2, 3, 5, 7, 16, 17, 33};
    static const size_t head_widths[] = {1, 4, 5};
    for (size_t a = 0; a < COUNT(lengths); a++)
        for (size_t b = 0; b < COUNT(head_widths); b++)
            for (int mode = 0; mode < MODES; mode++) {
                head h = head_of(lengths[a], head_widths[b], 2, mode, 5);
                for (int twice = 0; twice < 2; twice++) {
                    forward(&h);
                    backward(&h);
                }
                check_order(&h);
                /* between the rows nothing was written */
                for (size_t t = 0; t < h.shape.S; t++)
                    for (size_t c = h.shape.head_width; c < h.shape.ld_q; c++) {
                        ck_assert(isnan(h.o[t * h.shape.ld_q + c]));
                        ck_assert(isnan(h.dq[t * h.shape.ld_q + c]));
                        ck_assert(isnan(h.dk[t * h.shape.ld_kv + c]));
                        ck_assert(isnan(h.dv[t * h.shape.ld_kv + c]));
                    }
            }
}
END_TEST

START_TEST(more_than_one_leaf)
{
    for (int mode = 0; mode < MODES; mode += 3) {
        head h = head_of(300, 3, 0, mode, 6);
        forward(&h);
        backward(&h);
        check_order(&h);
    }
}
END_TEST

/* ORDERED: heads side by side in one array are the heads computed alone, and sequences further on
 * in the batch draw their own part of the mask. */
START_TEST(heads_are_slices)
{
    const size_t S = 7, width = 4, heads = 3, ld = heads * width;
    for (int mode = 0; mode < MODES; mode++) {
        head all = head_of(S, width, 0, mode, 7), alone = head_of(S, width, 0, mode, 8);
        ls_real *q = noise(S * ld, 9), *o = fresh(S * ld);
        all.shape.ld_q = ld;
        for (size_t h = 0; h < heads; h++) {
            all.shape.first_index = alone.shape.first_index = h * S * S;
            for (size_t t = 0; t < S; t++)
                memcpy(alone.q + t * width, q + t * ld + h * width, width * sizeof *q);
            memcpy(alone.k, all.k, S * width * sizeof *q);
            memcpy(alone.v, all.v, S * width * sizeof *q);
            forward(&alone);
            ck_assert(ls_attention_forward(LS_ENGINE_PORTABLE, &all.shape, o + h * width, all.P,
                                           q + h * width, all.k, all.v, all.scratch) == LS_OK);
            for (size_t t = 0; t < S; t++)
                ck_assert(same(o + t * ld + h * width, alone.o + t * width, width));
        }
    }
}
END_TEST

/* ---- masks ---- */

/* A causal query does not know what comes after it. */
START_TEST(the_future_does_not_matter)
{
    for (int mode = CAUSAL; mode < MODES; mode += 2) {
        head a = head_of(9, 3, 0, mode, 10), b = head_of(9, 3, 0, mode, 10);
        for (size_t cut = 1; cut < 9; cut++) {
            for (size_t c = 0; c < 3; c++) b.k[cut * 3 + c] += 5, b.v[cut * 3 + c] -= 7;
            forward(&a);
            forward(&b);
            ck_assert(same(a.o, b.o, cut * 3));
            if (mode == CAUSAL) ck_assert(!same(a.o + cut * 3, b.o + cut * 3, 3));
            memcpy(b.k, a.k, 27 * sizeof *b.k);
            memcpy(b.v, a.v, 27 * sizeof *b.v);
        }
    }
}
END_TEST

/* A query that sees no key: zeros forward and backward, no NaN from an empty sum. */
START_TEST(rows_that_see_nothing)
{
    const size_t S = 6;
    for (int mode = 0; mode < MODES; mode++) {
        unsigned char keys[6] = {0, 0, 1, 0, 1, 1};
        head h = head_of(S, 3, 0, mode, 11);
        h.shape.keys = keys;
        forward(&h);
        backward(&h);
        for (size_t i = 0; i < S; i++)
            for (size_t c = 0; c < 3; c++) {
                if (!keys[i]) ck_assert(h.dk[i * 3 + c] == 0 && h.dv[i * 3 + c] == 0);
                if (h.shape.causal && i < 2) ck_assert(h.o[i * 3 + c] == 0 && h.dq[i * 3 + c] == 0);
            }
        memset(keys, 0, S);
        forward(&h);
        backward(&h);
        for (size_t i = 0; i < S * 3; i++) {
            ck_assert(same_value(h.o[i], POS_ZERO));
            ck_assert(h.dq[i] == 0 && h.dk[i] == 0 && h.dv[i] == 0);
        }
        for (size_t i = 0; i < S * S; i++) ck_assert(same_value(h.P[i], POS_ZERO));
    }
}
END_TEST

/* ---- truth, gradients ---- */

START_TEST(distance_to_truth)
{
    const size_t S = 24, width = 8;
    for (int mode = 0; mode < 4; mode++) {
        head h = head_of(S, width, 0, mode, 12);
        forward(&h);
        for (size_t i = 0; i < S; i++) {
            long double weight[24], sum = 0;
            for (size_t j = 0; j < S; j++) {
                long double score = 0;
                for (size_t c = 0; c < width; c++)
                    score += (long double)h.q[i * width + c] * (long double)h.k[j * width + c];
                weight[j] = sees(&h.shape, i, j) ? expl(score / sqrtl((long double)width)) : 0;
                sum += weight[j];
            }
            for (size_t c = 0; c < width; c++) {
                long double right = 0;
                for (size_t j = 0; j < S && sum > 0; j++)
                    right += weight[j] / sum * (long double)h.v[j * width + c];
                /* scores up to 20 in size, known to 10 ulp of that; |v| <= 4 */
                ck_assert(within(h.o + i * width + c, &right, 1, 4 * 32 * EPSILON));
            }
        }
    }
}
END_TEST

#ifdef LS_REAL_IS_F64
static double attention_objective(void *context)
{
    head *h = context;
    forward(h);
    return weighted_sum(h->d_o, h->o, h->shape.S * h->shape.ld_q);
}

START_TEST(gradients)
{
    static const size_t lengths[] = {1, 2, 5, 7};
    for (size_t a = 0; a < COUNT(lengths); a++)
        for (int mode = 0; mode < MODES; mode++) {
            head h = head_of(lengths[a], 3, 0, mode, 13);
            const size_t n = lengths[a] * 3;
            forward(&h);
            backward(&h);
            check_gradient(attention_objective, &h, h.q, h.dq, n, "dq");
            check_gradient(attention_objective, &h, h.k, h.dk, n, "dk");
            check_gradient(attention_objective, &h, h.v, h.dv, n, "dv");
        }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {
        known_gradients,    equal_weights,    dropout_of_the_weights,     in_the_stated_order,
        more_than_one_leaf, heads_are_slices, the_future_does_not_matter, rows_that_see_nothing,
        distance_to_truth,
#ifdef LS_REAL_IS_F64
        gradients
#endif
    };
    return run_kernel_tests("attention", tests, COUNT(tests));
}
