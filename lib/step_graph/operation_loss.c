/* operation_loss.c - cross-entropy, its gradient, and the mean.
 *
 *     lse = log(sum of exp(z - max)),  loss = (1 - a) (lse - (z_t - max)) + a (lse - (mean z -
 * max)) dz = (softmax(z) - q) / valid,   q = a / V, + (1 - a) at the target
 *
 * A row without a target is 0 exactly, and so is its gradient. The padded vocabulary is no part of
 * any sum. Where the target is all but certain the loss is a difference of near numbers: the bound
 * is of the order u (1 + |z_t - max|), not u loss. */
#include <stdlib.h>

#include "step_graph/formula.h"
#include "step_graph/operation_parts.h"
#include "base/allocate.h"

typedef struct labels {
    const int32_t *of; /* NULL: none */
    size_t rows, choices;
    double smoothing;
    size_t valid;
    size_t padded;               /* further logits of 0 */
    double factor;               /* of the sum of exponentials */
    const double *weights;       /* per sequence; NULL: 1 */
    const double *token_weights; /* per token; NULL: 1 */
    size_t maximum_shards;       /* each with a maximum of its own; 0: one for all */
} labels;

static labels labels_of(const evaluation *e, const ls_graph_node *node)
{
    labels l = {.of = e->batch->targets,
                .rows = e->B * e->S,
                .choices = e->config->vocab,
                .smoothing = e->config->label_smoothing};
    if (node->make == LS_MAKE_ORDER_LOSS) {
        const labels order = {.of = e->batch->order, .rows = e->B, .choices = 2};
        l = order;
    }
    if (node->make == LS_MAKE_IMAGE_LOSS) {
        l.of = e->batch->labels;
        l.rows = e->B;
        l.choices = e->config->net.classes;
    }
    for (size_t t = 0; l.of && t < l.rows; t++)
        if (l.of[t] != LS_IGNORE) l.valid++;
    l.factor = e->variant.softmax_factor > 0 ? e->variant.softmax_factor : 1;
    l.weights = e->variant.weights;
    if (node->make != LS_MAKE_ORDER_LOSS) {
        l.padded = e->variant.padded_words;
        if (e->variant.valid && l.valid > 0) l.valid = e->variant.valid;
        l.token_weights = node->make == LS_MAKE_TOKEN_LOSS ? e->variant.token_weights : NULL;
        l.maximum_shards = e->variant.maximum_shards;
    }
    return l;
}

static bool is_valid(const labels *l, size_t t)
{
    return l->of && l->of[t] != LS_IGNORE;
}

/* The factor of row t's loss. */
static double weight_of(const labels *l, const evaluation *e, size_t t)
{
    if (l->token_weights) return l->token_weights[t];
    return l->weights ? l->weights[t / (l->rows / e->B)] : 1;
}

/* ---- a maximum for each shard of the vocabulary ---- */

/* Words in each of the shards, the last of which may have fewer. */
static size_t words_of_shard(const evaluation *e, const labels *l)
{
    return ls_axis_extent(ls_config_vocab_axis(e->config)) / l->maximum_shards;
}

/* exp(z - the largest of its shard) in place of z, and the sum of these; the label's shard's
 * largest. */
static approx shard_exponentials(const evaluation *e, const labels *l, approx *z, int32_t label,
                                 double *ret_largest)
{
    const size_t words = words_of_shard(e, l);
    approx_sum sum = {0};
    for (size_t first = 0; first < l->choices; first += words) {
        const size_t end = first + words < l->choices ? first + words : l->choices;
        double largest = -HUGE_VAL;
        for (size_t j = first; j < end; j++) largest = fmax(largest, z[j].value);
        if ((size_t)label >= first && (size_t)label < end) *ret_largest = largest;
        for (size_t j = first; j < end; j++) {
            z[j] = approx_exp(e->p, approx_subtract(e->p, z[j], approx_exact(largest)));
            approx_sum_add(&sum, z[j]);
        }
    }
    return approx_sum_end(e->p, &sum);
}

static approx sharded_loss(const evaluation *e, const labels *l, approx *row, int32_t label)
{
    const approx target = row[label];
    double largest = 0;
    const approx all = shard_exponentials(e, l, row, label, &largest);
    const approx own = approx_subtract(e->p, target, approx_exact(largest));
    return approx_subtract(e->p, approx_log(e->p, all), own);
}

approx ls_formula_cross_entropy(const ls_precision *p, const ls_loss_form *form, const approx *z,
                                size_t n, size_t label)
{
    double largest = -HUGE_VAL;
    approx_sum exps = {0}, plain = {0};
    for (size_t j = 0; j < n; j++) largest = fmax(largest, z[j].value);
    if (form->padded > 0) largest = fmax(largest, 0);
    const approx max = approx_exact(largest);
    for (size_t j = 0; j < n; j++) {
        approx_sum_add(&exps, approx_exp(p, approx_subtract(p, z[j], max)));
        approx_sum_add(&plain, z[j]);
    }
    if (form->padded > 0) {
        const approx one = approx_exp(p, approx_subtract(p, approx_exact(0), max));
        approx_sum_add(&exps, approx_product(approx_exact((double)form->padded), one));
    }
    approx all = approx_sum_end(p, &exps);
    if (form->factor != 1) all = approx_product(all, approx_exact(form->factor));
    const approx lse = approx_log(p, all);
    approx loss = approx_subtract(p, lse, approx_subtract(p, z[label], max));
    if (form->smoothing > 0) {
        const approx mean = approx_divide(p, approx_sum_end(p, &plain), approx_exact((double)n));
        const approx even = approx_subtract(p, lse, approx_subtract(p, mean, max));
        loss = approx_add(p, approx_multiply(p, approx_constant(p, 1 - form->smoothing), loss),
                          approx_multiply(p, approx_constant(p, form->smoothing), even));
    }
    /* log(sum) + max - z instead: rounded at the size of max */
    return approx_add_error(loss, 2 * p->u * fabs(largest));
}

/* P - q, of the n logits of a softmax P. */
static void take_targets(const ls_precision *p, const ls_loss_form *form, approx *P, size_t n,
                         size_t label)
{
    const double even = form->smoothing / (double)n;
    for (size_t j = 0; j < n; j++) {
        const double q = even + (label == j ? 1 - form->smoothing : 0);
        if (form->factor != 1) P[j] = approx_product(P[j], approx_exact(1 / form->factor));
        P[j] = approx_subtract(p, P[j], approx_constant(p, q));
    }
}

void ls_formula_cross_entropy_gradient(const ls_precision *p, const ls_loss_form *form, approx *z,
                                       size_t n, size_t label)
{
    for (size_t j = n; j < n + form->padded; j++) z[j] = approx_exact(0);
    ls_formula_softmax(p, z, n + form->padded);
    take_targets(p, form, z, n, label);
}

ls_status ls_evaluate_loss(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const labels l = labels_of(e, node);
    const ls_loss_form form = {l.smoothing, l.padded, l.factor};
    const double *z = value_of(e, node->inputs[0]);
    approx *row = NULL;
    LS_ROOM(row, l.choices);
    for (size_t t = 0; t < l.rows; t++) {
        if (!is_valid(&l, t)) continue;
        for (size_t j = 0; j < l.choices; j++) row[j] = approx_input(e->p, z[t * l.choices + j]);
        approx_sum_add(
            &out[t], l.maximum_shards
                         ? sharded_loss(e, &l, row, l.of[t])
                         : ls_formula_cross_entropy(e->p, &form, row, l.choices, (size_t)l.of[t]));
    }
exit:
    free(row);
    return status;
}

ls_status ls_evaluate_loss_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision *p = e->p;
    const labels l = labels_of(e, reader);
    const double *z = value_of(e, reader->inputs[0]);
    const ls_loss_form form = {l.smoothing, l.padded, l.factor};
    approx *row = NULL;
    (void)slot;
    LS_ROOM(row, l.choices + l.padded);
    for (size_t t = 0; t < l.rows; t++) {
        if (!is_valid(&l, t)) continue;
        for (size_t j = 0; j < l.choices; j++) row[j] = approx_input(p, z[t * l.choices + j]);
        if (l.maximum_shards) {
            double largest = 0;
            const approx all = shard_exponentials(e, &l, row, l.of[t], &largest);
            for (size_t j = 0; j < l.choices; j++) row[j] = approx_divide(p, row[j], all);
            take_targets(p, &form, row, l.choices, (size_t)l.of[t]);
        } else {
            ls_formula_cross_entropy_gradient(p, &form, row, l.choices, (size_t)l.of[t]);
        }
        const double share = weight_of(&l, e, t) / (double)l.valid;
        for (size_t j = 0; j < l.choices; j++)
            approx_sum_add(&out[t * l.choices + j],
                           approx_multiply(p, row[j], approx_constant(p, share)));
    }
exit:
    free(row);
    return status;
}

ls_status ls_evaluate_mean(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    for (int i = 0; i < 2 && node->inputs[i] >= 0; i++) {
        const labels l = labels_of(e, &e->graph->nodes[node->inputs[i]]);
        const double *losses = value_of(e, node->inputs[i]);
        approx_sum sum = {0};
        for (size_t t = 0; t < l.rows; t++)
            if (is_valid(&l, t))
                approx_sum_add(&sum, approx_product(approx_exact(weight_of(&l, e, t)),
                                                    approx_input(e->p, losses[t])));
        if (l.valid == 0) continue;
        approx_sum_add(
            out, approx_divide(e->p, approx_sum_end(e->p, &sum), approx_exact((double)l.valid)));
    }
    return LS_OK;
}
