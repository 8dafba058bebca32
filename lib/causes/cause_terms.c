/* cause_terms.c - formulas with a part too many, too few or another number: means and weights of
 * norms, a gradient's term left out, GELU's constants, rows written where they should be added,
 * another parameter than the operation's own. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "causes/families.h"

#define ACTIVATIONS (LS_KIND(ACTIVATION) | LS_KIND(GELU))

/* ---- norms and terms of gradients ---- */

static ls_status try_norm(ls_search *search)
{
    ls_status status = LS_OK;
    const bool layer = search->config->norm == LS_LAYER_NORM;
    const ls_form forms[] = {
        LS_FORM(NORM_FORM, LS_KIND(NORM),
                layer ? "the mean is not subtracted: RMSNorm in the place of LayerNorm"
                      : "the mean is subtracted: LayerNorm in the place of RMSNorm",
                .centred_flipped = true),
        LS_FORM(NORM_FORM, LS_KIND(NORM), "the normalized values are multiplied by 1 + w",
                .weight_plus_one = true),
        LS_FORM(NORM_FORM, LS_KIND(NORM), "the normalized values are not multiplied by w",
                .unweighted = true),
        LS_FORM(LOST_TERM, LS_KIND(NORM), "the norm's gradient lacks its term - xhat mean(g xhat)",
                .lost_term = LS_TERM_NORM_ALONG),
        LS_FORM(LOST_TERM, LS_KIND(NORM), "the norm's gradient lacks its term - mean(g)",
                .lost_term = LS_TERM_NORM_MEAN)};
    LS_TRY_FORMS(search, forms);
exit:
    return status;
}

static ls_status fit_gelu(ls_search *search, size_t member, double right, const char *name)
{
    ls_status status = LS_OK;
    ls_variant variant = {0};
    char text[LS_EVIDENCE];
    double value;
    bool done;
    if (search->best.cause != LS_CAUSE_NONE) goto exit;
    LS_TRY(ls_search_fit(search, member, right, &value, &done));
    if (!done || fabs(value / right - 1) <= ls_search_fit_slack(search)) goto exit;
    memcpy((char *)&variant + member, &value, sizeof value);
    snprintf(text, sizeof text, "%s in GELU is %.5g, not %.6g", name, value, right);
    LS_TRY(ls_search_try_fitted(search, LS_CAUSE_GELU_VARIANT, ACTIVATIONS, &variant, 1, text));
exit:
    return status;
}

static ls_status try_activation(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_variant lost = {.lost_term = LS_TERM_ACTIVATION_SLOPE};
    if (!ls_search_can_concern(search, ACTIVATIONS)) goto exit;
    LS_TRY(ls_search_try_variant(
        search, LS_CAUSE_LOST_TERM, ACTIVATIONS, &lost,
        "the activation's derivative is f(x) / x, without x times the derivative of that"));
    if (search->n == 1 || !ls_search_concerns(search, LS_KIND(ACTIVATION))) goto exit;
    if (search->config->activation != LS_GELU_TANH) goto exit;
    LS_TRY(fit_gelu(search, offsetof(ls_variant, gelu_cubic), 0.044715, "the factor of x^3"));
    LS_TRY(fit_gelu(search, offsetof(ls_variant, gelu_root), sqrt(2 / acos(-1)),
                    "the factor sqrt(2 / pi)"));
exit:
    return status;
}

/* ---- rows of an embedding's gradient ---- */

static ls_status try_written(ls_search *search)
{
    ls_status status = LS_OK;
    static const ls_form forms[] = {
        LS_FORM(ASSIGNED, LS_KIND(EMBEDDING),
                "a row that several tokens took has the last one's part only: rows are written by "
                "= where "
                "+= should be",
                .row_written = LS_ROW_LAST),
        LS_FORM(ASSIGNED, LS_KIND(EMBEDDING),
                "a row that several tokens took has the first one's part only",
                .row_written = LS_ROW_FIRST)};
    if (search->node->make == LS_MAKE_PARAM_GRADIENT || !search->of->own_inputs)
        LS_TRY_FORMS(search, forms);
exit:
    return status;
}

/* ---- another parameter ---- */

/* The head reads the embedding's matrix, though it has its own. */
static ls_status try_tied(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    const ls_param_table *table = graph->table;
    ls_change change = {0};
    int embedding = -1, head = -1;
    double *values;
    for (size_t r = 0; r < graph->count; r++) {
        if (graph->nodes[r].make == LS_MAKE_EMBEDDING) embedding = graph->nodes[r].params[0];
        if (graph->nodes[r].make == LS_MAKE_LOGITS) head = graph->nodes[r].params[0];
    }
    if (embedding < 0 || head < 0 || head == embedding) goto exit;
    const double *from = search->of->operands.params[embedding];
    if (!from || !search->of->operands.params[head]) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_param(&change, head, &values));
    memcpy(values, from, ls_param_elements(&table->params[head]) * sizeof *values);
    LS_TRY(ls_search_try(search, LS_CAUSE_WRONG_PARAM, 0, &change,
                         "logits are products with the token embedding: the head is tied, where "
                         "the model has a matrix of its own"));
exit:
    ls_change_end(&change);
    return status;
}

typedef struct bias_shards {
    const double *bias;
    size_t width, share, count; /* elements, of each shard, shards */
} bias_shards;

/* Whether the candidate's shard `at` has the bias of shard `from`. */
static bool has_shard(const ls_search *search, const bias_shards *of, size_t at, size_t from)
{
    for (size_t t = 0; t < search->n / of->width; t++)
        for (size_t e = 0; e < of->share; e++) {
            const size_t to = at * of->share + e, source = from * of->share + e;
            if (to >= of->width) break;
            const size_t i = t * of->width + to;
            const double moved = (source < of->width ? of->bias[source] : 0) - of->bias[to];
            if (!(fabs(search->candidate[i] - search->of->right[i] - moved) <=
                  2 * search->of->bound[i]))
                return false;
        }
    return true;
}

static ls_status try_bias_shards(ls_search *search, int param, bias_shards *of)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    char text[LS_EVIDENCE];
    double *values;
    size_t from[16];
    bool moved = false;
    for (size_t at = 0; at < of->count; at++) {
        from[at] = at;
        if (has_shard(search, of, at, at)) continue;
        for (from[at] = 0; from[at] < of->count; from[at]++)
            if (has_shard(search, of, at, from[at])) break;
        if (from[at] == of->count) goto exit;
        moved = true;
    }
    if (!moved) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_param(&change, param, &values));
    for (size_t e = 0; e < of->width; e++) {
        const size_t source = from[e / of->share] * of->share + e % of->share;
        values[e] = source < of->width ? of->bias[source] : 0;
    }
    size_t length =
        ls_append(text, sizeof text, 0, "of %zu ranks' shards of %s those are added:", of->count,
                  search->graph->table->params[param].name);
    for (size_t k = 0; k < of->count && length < sizeof text - 8; k++)
        length = ls_append(text, sizeof text, length, " %zu", from[k]);
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_WRONG_PARAM, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

static ls_status try_bias(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    const int param = node->params[1];
    if (node->make != LS_MAKE_LINEAR || param < 0 || !search->of->operands.params[param]) goto exit;
    const ls_param *p = &search->graph->table->params[param];
    if (p->cut < 0 || p->n_dims != 1) goto exit;
    for (size_t T = 2; T <= 16 && !search->fits[LS_CAUSE_WRONG_PARAM]; T++) {
        bias_shards of = {search->of->operands.params[param], p->dims[0],
                          ls_axis_extent(p->axis) / T, T};
        if (p->axis.granules % T == 0) LS_TRY(try_bias_shards(search, param, &of));
    }
exit:
    return status;
}

ls_status ls_cause_terms(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    LS_TRY(try_norm(search));
    LS_TRY(try_activation(search));
    LS_TRY(try_written(search));
    LS_TRY(try_tied(search));
    LS_TRY(try_bias(search));
exit:
    return status;
}
