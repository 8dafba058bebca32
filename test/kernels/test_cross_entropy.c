/* test_cross_entropy.c - the pieces of the loss over a vocabulary made of granules. */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/numerics/functions.h"
#include "run_tests.h"

/* One token over the granules of `axis`, in the way the serial loss does it. */
typedef struct loss_case {
    size_t n;
    ls_axis axis;
    size_t V;
    const int32_t *targets;
    double smoothing;
    ls_real factor;
    ls_real *z;
    ls_real *max, *parts, *parts_z, *sum_exp, *sum_z, *target, *loss, *dz;
} loss_case;

static loss_case case_of(size_t n, size_t granules, size_t granule, size_t V,
                         const int32_t *targets, double smoothing, ls_real factor)
{
    const size_t extent = granules * granule;
    loss_case c = {n,
                   ls_axis_of(granules, granule),
                   V,
                   targets,
                   smoothing,
                   factor,
                   fresh(n * extent),
                   fresh(n),
                   fresh(granules * n),
                   fresh(granules * n),
                   fresh(n),
                   fresh(n),
                   fresh(n),
                   fresh(n),
                   fresh(n * extent)};
    return c;
}

static double loss_of(void *context)
{
    loss_case *c = context;
    const size_t n = c->n, ld = ls_axis_extent(c->axis), G = c->axis.granules;
    const ls_vocab_shard whole = {c->axis, 0, c->V};
    ls_cross_entropy_max(c->max, c->z, n, ld, whole);
    ls_cross_entropy_sums(c->parts, c->parts_z, c->target, c->z, c->max, c->targets, n, ld, whole);
    double sum = 0;
    for (size_t t = 0; t < n; t++) {
        ls_real part[64], part_z[64];
        for (size_t g = 0; g < G; g++) {
            part[g] = c->parts[g * n + t];
            part_z[g] = c->parts_z[g * n + t];
        }
        c->sum_exp[t] = reference_tree(part, G);
        c->sum_z[t] = reference_tree(part_z, G);
    }
    ls_cross_entropy_loss(c->loss, c->max, c->sum_exp, c->sum_z, c->target, c->targets, n, c->V,
                          c->smoothing);
    for (size_t t = 0; t < n; t++) sum += (double)c->loss[t] * (double)c->factor;
    return sum;
}

static void gradient_of(loss_case *c)
{
    const ls_vocab_shard whole = {c->axis, 0, c->V};
    loss_of(c);
    ls_cross_entropy_backward(c->dz, c->z, c->max, c->sum_exp, c->targets, c->n,
                              ls_axis_extent(c->axis), whole, c->smoothing, c->factor);
}

/* Random logits, NaN in the padded columns: whoever looks at one is found out. */
static void fill_logits(loss_case *c, uint64_t seed)
{
    const size_t extent = ls_axis_extent(c->axis);
    reference_fill(c->z, c->n * extent, seed);
    for (size_t t = 0; t < c->n; t++)
        for (size_t v = c->V; v < extent; v++) c->z[t * extent + v] = (ls_real)NAN;
}

static const size_t shapes[][3] = {
    /* granules, granule, V */
    {1, 1, 1}, {1, 5, 5},   {2, 2, 4},     {2, 3, 5},     {3, 7, 20},    {4, 16, 50},
    {6, 5, 7}, {12, 3, 25}, {12, 33, 380}, {2, 300, 513}, {3, 256, 512}, {5, 17, 17},
};

static const int32_t *targets_for(size_t n, size_t V)
{
    static int32_t targets[64];
    for (size_t t = 0; t < n; t++)
        targets[t] = t % 4 == 2 ? LS_IGNORE : (int32_t)((t * 7 + V - 1) % V);
    return targets;
}

/* ---- known values ---- */

static loss_case logits_0_to_3(double smoothing, ls_real step, const int32_t *target)
{
    loss_case c = case_of(1, 2, 2, 4, target, smoothing, 1);
    for (size_t v = 0; v < 4; v++) c.z[v] = step * (ls_real)v;
    gradient_of(&c);
    return c;
}

/* Loss counted once per rank (+ ln 2), the -1 of the target lost, zero gradient on a shard that
 * does not own the target: all would show here. */
START_TEST(known_loss_and_gradient)
{
    static const int32_t target[1] = {3};
    static const double right[4] = {0.03205860328008499, 0.08714431874203257, 0.23688281808991013,
                                    -0.35608574011202765};
    loss_case c = logits_0_to_3(0, 1, target);
    ck_assert(near(c.loss[0], 0.4401896985611953, 2e-7));
    for (size_t v = 0; v < 4; v++) ck_assert(near(c.dz[v], right[v], 2e-7));
}
END_TEST

/* Label smoothing over the whole vocabulary, not the shard's: a = 0.1 * 4 / 3. And with logits a
 * thousand times as large, where the log of an underflowed probability would be infinite. */
START_TEST(label_smoothing)
{
    static const int32_t target[1] = {3};
    const double a = 0.1 * 4 / 3;
    loss_case c = logits_0_to_3(a, 1, target);
    ck_assert(near(c.loss[0], 0.6401896985611952, 2e-7));
    double sum = 0;
    for (size_t v = 0; v < 4; v++) sum += (double)c.dz[v];
    ck_assert(near(c.dz[0], 0.03205860328008499 - a / 4, 2e-7));
    ck_assert(near(c.dz[3], -0.35608574011202765 + a - a / 4, 2e-7) && fabs(sum) < 4e-7);
    c = logits_0_to_3(a, 1000, target);
    ck_assert(near(c.loss[0], 200, 5e-5));
    c = logits_0_to_3(0, 1000, target);
    ck_assert(c.loss[0] == 0);
}
END_TEST

/* V = 5 in granules of 3 and of 2: padded columns stay out of the softmax (ln 5, not ln 6 or ln
 * 8), and a padded column is never mistaken for "not mine". */
START_TEST(padded_columns_stay_out)
{
    for (int32_t label = 0; label < 5; label++)
        for (size_t granules = 1; granules <= 4; granules++) {
            const size_t granule = granules == 1 ? 8 : granules == 2 ? 3 : 2;
            loss_case c = case_of(1, granules, granule, 5, &label, 0, 1);
            for (size_t v = 0; v < granules * granule; v++) c.z[v] = v < 5 ? 0 : INF;
            gradient_of(&c);
            ck_assert(near(c.loss[0], 1.6094379124341003, 2e-7));
            for (size_t v = 0; v < granules * granule; v++)
                if (v >= 5)
                    ck_assert(same_value(c.dz[v], POS_ZERO));
                else
                    ck_assert(near(c.dz[v], v == (size_t)label ? -0.8 : 0.2, 2e-7));
        }
}
END_TEST

/* The ignored target: -0 loss and +0 gradient, also when the whole batch is ignored (no 0 / 0). */
START_TEST(ignored_targets)
{
    static const int32_t ignored[3] = {LS_IGNORE, LS_IGNORE, LS_IGNORE};
    static const double smoothing[2] = {0, 0.1};
    for (size_t s = 0; s < 2; s++) {
        loss_case c = case_of(3, 2, 2, 4, ignored, smoothing[s], 0);
        for (size_t i = 0; i < 12; i++) c.z[i] = i < 4 ? 0 : INF;
        gradient_of(&c);
        for (size_t t = 0; t < 3; t++) {
            ck_assert(same_value(c.loss[t], NEG_ZERO) && same_value(c.target[t], NEG_ZERO));
            for (size_t v = 0; v < 4; v++) ck_assert(same_value(c.dz[t * 4 + v], POS_ZERO));
        }
        ck_assert(reference_token_sum(c.loss, 1, 3) + POS_ZERO == 0);
    }
}
END_TEST

/* The weight of a token is 1 / 110 whether its micro-batch has 10 targets or 100: the gradient of a
 * micro-batch is the slice of the whole batch's. Ignored rows do not count. */
START_TEST(one_weight_for_every_token)
{
    static int32_t targets[112];
    for (size_t t = 0; t < 112; t++)
        targets[t] = t == 10 || t == 111 ? LS_IGNORE : (int32_t)(t % 5);
    loss_case whole = case_of(112, 1, 5, 5, targets, 0, (ls_real)(1.0 / 110));
    fill_logits(&whole, 1);
    gradient_of(&whole);
    const size_t sizes[2] = {11, 101};
    for (size_t m = 0, at = 0; m < 2; at += sizes[m], m++) {
        loss_case micro = case_of(sizes[m], 1, 5, 5, targets + at, 0, whole.factor);
        memcpy(micro.z, whole.z + at * 5, sizes[m] * 5 * sizeof *micro.z);
        gradient_of(&micro);
        ck_assert(same(micro.dz, whole.dz + at * 5, sizes[m] * 5));
        ck_assert(same(micro.loss, whole.loss + at, sizes[m]));
        for (size_t t = 0; t < sizes[m]; t++) {
            double weight = 0;
            for (size_t v = 0; v < 5; v++) weight += fabs((double)micro.dz[t * 5 + v]) / 2;
            const double p = exp(-(double)micro.loss[t]);
            const double right = targets[at + t] == LS_IGNORE ? 0 : (1 - p) * 0.00909090909090909;
            ck_assert(fabs(weight - right) < 1e-8);
        }
    }
}
END_TEST

/* The log of a sum of exponentials of 0 and b, merged across granules: b exactly, without exp(b).
 */
START_TEST(merge_of_far_logits)
{
    const ls_real b = sizeof(ls_real) == 4 ? (ls_real)100 : (ls_real)1000;
    static const int32_t low[1] = {0}, high[1] = {1};
    loss_case c = case_of(1, 2, 1, 2, low, 0, 1);
    c.z[0] = 0, c.z[1] = b;
    gradient_of(&c);
    ck_assert(ls_log(c.sum_exp[0]) + c.max[0] == b);
    ck_assert(c.loss[0] == b && c.dz[0] == -1 && c.dz[1] == 1);
    c.targets = high;
    gradient_of(&c);
    ck_assert(c.loss[0] == 0 && c.dz[1] == 0);
    c.z[0] = 3, c.z[1] = 3;
    loss_of(&c);
    ck_assert(near(ls_log(c.sum_exp[0]) + c.max[0], 3.6931471805599454, 3e-7));
    c.z[0] = -INF; /* a = -inf: b */
    loss_of(&c);
    ck_assert(ls_log(c.sum_exp[0]) + c.max[0] == 3 && c.loss[0] == 0);
}
END_TEST

/* ---- order, slices ---- */

START_TEST(in_the_stated_order)
{
    static const double smoothings[2] = {0, 0.1};
    for (size_t k = 0; k < COUNT(shapes) * 2; k++) {
        const size_t G = shapes[k / 2][0], granule = shapes[k / 2][1], V = shapes[k / 2][2], n = 7;
        const size_t extent = G * granule;
        const double a = smoothings[k % 2];
        const ls_real factor = (ls_real)(1.0 / 5);
        loss_case c = case_of(n, G, granule, V, targets_for(n, V), a, factor);
        fill_logits(&c, k);
        gradient_of(&c);
        const ls_real share = (ls_real)(a / (double)V), rest = (ls_real)(1.0 - a);
        const ls_real at_target = (ls_real)(a / (double)V + (1.0 - a));
        ls_real *e = fresh(extent);
        for (size_t t = 0; t < n; t++) {
            const ls_real *z = c.z + t * extent;
            ls_real max = z[0], sum_exp[64], sum_z[64];
            for (size_t v = 0; v < V; v++) max = z[v] > max ? z[v] : max;
            for (size_t v = 0; v < V; v++) e[v] = ls_exp(z[v] - max);
            for (size_t g = 0; g < G; g++) {
                const size_t first = g * granule, left = first < V ? V - first : 0;
                const size_t width = left < granule ? left : granule;
                sum_exp[g] = width ? reference_row_sum(e + first, width) : NEG_ZERO;
                sum_z[g] = width ? reference_row_sum(z + first, width) : NEG_ZERO;
                ck_assert(same_value(c.parts[g * n + t], sum_exp[g]));
                ck_assert(same_value(c.parts_z[g * n + t], sum_z[g]));
            }
            const ls_real sum = reference_tree(sum_exp, G), lse = ls_log(sum), inverse = 1 / sum;
            const int32_t label = c.targets[t];
            ck_assert(same_value(c.max[t], max));
            for (size_t v = 0; v < extent; v++) {
                ls_real right = POS_ZERO;
                if (label != LS_IGNORE && v < V)
                    right = (e[v] * inverse - (v == (size_t)label ? at_target : share)) * factor;
                ck_assert(same_value(c.dz[t * extent + v], right));
            }
            if (label == LS_IGNORE) continue;
            ls_real loss = lse - (z[label] - max);
            if (a != 0)
                loss = rest * loss +
                       (ls_real)a * (lse - (reference_tree(sum_z, G) / (ls_real)V - max));
            ck_assert(same_value(c.target[t], z[label]) && same_value(c.loss[t], loss));
        }
    }
}
END_TEST

/* ORDERED: a shard of the vocabulary computes the slice of the whole's pieces, for every run of
 * granules; a shard of padding alone posts -infinity, -0 and +0. Rows may stand further apart. */
START_TEST(shards_are_slices)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const size_t G = shapes[k][0], granule = shapes[k][1], V = shapes[k][2], n = 5;
        const size_t extent = G * granule;
        loss_case c = case_of(n, G, granule, V, targets_for(n, V), 0.1, (ls_real)0.25);
        fill_logits(&c, k + 50);
        gradient_of(&c);
        for (size_t lo = 0; lo <= G; lo++)
            for (size_t hi = lo; hi <= G; hi++) {
                const size_t held = hi - lo, width = held * granule, ld = width + 3;
                const ls_vocab_shard shard = {ls_axis_of(held, granule), lo, V};
                ls_real *z = fresh(n * ld), *max = fresh(n), *target = fresh(n), *right = fresh(n);
                ls_real *sums = fresh(held * n), *sums_z = fresh(held * n), *dz = fresh(n * ld);
                for (size_t t = 0; t < n && width > 0; t++)
                    memcpy(z + t * ld, c.z + t * extent + lo * granule, width * sizeof *z);
                for (int twice = 0; twice < 2; twice++) {
                    ls_cross_entropy_max(max, z, n, ld, shard);
                    ls_cross_entropy_sums(sums, twice ? sums_z : NULL, target, z, c.max, c.targets,
                                          n, ld, shard);
                }
                ck_assert(same(sums, c.parts + lo * n, held * n));
                ck_assert(same(sums_z, c.parts_z + lo * n, held * n));
                for (size_t t = 0; t < n; t++) {
                    const int32_t label = c.targets[t];
                    const size_t first = lo * granule;
                    const int mine =
                        label >= 0 && (size_t)label >= first && (size_t)label < first + width;
                    right[t] = -INF;
                    for (size_t v = first; v < first + width && v < V; v++)
                        right[t] = c.z[t * extent + v] > right[t] ? c.z[t * extent + v] : right[t];
                    ck_assert(same_value(max[t], right[t]));
                    ck_assert(
                        same_value(target[t], mine ? c.z[t * extent + (size_t)label] : NEG_ZERO));
                }
                ls_cross_entropy_backward(dz, z, c.max, c.sum_exp, c.targets, n, ld, shard, 0.1,
                                          (ls_real)0.25);
                ls_cross_entropy_backward(z, z, c.max, c.sum_exp, c.targets, n, ld, shard, 0.1,
                                          (ls_real)0.25); /* dz is z */
                for (size_t t = 0; t < n; t++) {
                    ck_assert(same(dz + t * ld, c.dz + t * extent + lo * granule, width));
                    ck_assert(same(z + t * ld, dz + t * ld, width));
                    for (size_t v = width; v < ld; v++) ck_assert(isnan(dz[t * ld + v]));
                }
            }
    }
}
END_TEST

/* TRUTH: logits up to 4, log of up to 512 terms. */
START_TEST(distance_to_truth)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const size_t G = shapes[k][0], granule = shapes[k][1], V = shapes[k][2], n = 5;
        loss_case c = case_of(n, G, granule, V, targets_for(n, V), 0.1, 1);
        fill_logits(&c, k + 90);
        gradient_of(&c);
        for (size_t t = 0; t < n; t++) {
            const ls_real *z = c.z + t * G * granule;
            if (c.targets[t] == LS_IGNORE) continue;
            long double sum = 0, mean = 0;
            for (size_t v = 0; v < V; v++)
                sum += expl((long double)z[v]), mean += (long double)z[v];
            const long double lse = logl(sum), to_target = lse - (long double)z[c.targets[t]];
            const long double loss = 0.9L * to_target + 0.1L * (lse - mean / (long double)V);
            ck_assert(within(c.loss + t, &loss, 1, 24 * EPSILON * 8));
            for (size_t v = 0; v < V; v++) {
                const long double p = expl((long double)z[v]) / sum;
                const long double q =
                    0.1L / (long double)V + ((int32_t)v == c.targets[t] ? 0.9L : 0);
                const long double dz = p - q;
                ck_assert(
                    within(c.dz + t * G * granule + v, &dz, 1, 16 * EPSILON * (double)(p + q)));
            }
        }
    }
}
END_TEST

#ifdef LS_REAL_IS_F64
START_TEST(gradients)
{
    static const double smoothings[2] = {0, 0.13};
    for (size_t k = 0; k < 8; k++)
        for (size_t s = 0; s < 2; s++) {
            const size_t G = shapes[k][0], granule = shapes[k][1], V = shapes[k][2], n = 5;
            loss_case c = case_of(n, G, granule, V, targets_for(n, V), smoothings[s], 0.37);
            reference_fill(c.z, n * G * granule, k + 20); /* padded columns too: gradient 0 */
            gradient_of(&c);
            check_gradient(loss_of, &c, c.z, c.dz, n * G * granule, "dz");
        }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {known_loss_and_gradient,
                                  label_smoothing,
                                  padded_columns_stay_out,
                                  ignored_targets,
                                  one_weight_for_every_token,
                                  merge_of_far_logits,
                                  in_the_stated_order,
                                  shards_are_slices,
                                  distance_to_truth,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("cross_entropy", tests, COUNT(tests));
}
