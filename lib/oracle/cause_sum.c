/* cause_sum.c - sums over ranks gone wrong: addends counted several times, left out, averaged,
 * partial sums that were never added. A node is taken apart into what each granule of the axis that
 * tensor parallelism cuts gives, and what stands beside that (bias, other readers); the factors of
 * the parts in the candidate say what happened. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "oracle/cause_parts.h"
#include "oracle/tensor_name.h"

enum { GROUPS = 8 };

/* An addend of the node: several parts when it is a sum over granules, else one. */
typedef struct addend {
    char name[LS_TENSOR_NAME];
    size_t first, count; /* of the parts */
    size_t granules;     /* of the axis; parts that are padding alone are none */
    bool is_bias;
} addend;

typedef struct sum {
    ls_parts parts;
    int groups;
    addend group[GROUPS];
} sum;

static addend *begin_addend(sum *s, const char *name)
{
    addend *a = &s->group[s->groups++];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->first = s->parts.count;
    a->is_bias = false;
    return a;
}

static void add_whole(sum *s, const ls_search *search, bool is_param, int index, const char *name,
                      bool is_bias)
{
    addend *a = begin_addend(s, name);
    ls_parts_add(&s->parts, search, is_param, index, 0, 0, 0, 0, s->groups - 1);
    a->count = a->granules = 1;
    a->is_bias = is_bias;
}

/* The last dimension of a node, `width` long, by granules of an axis. */
static void add_columns(sum *s, const ls_search *search, int node, size_t width, ls_axis axis,
                        const char *name)
{
    addend *a = begin_addend(s, name);
    const size_t most = (LS_PARTS - s->parts.count) / 2;
    size_t together = 1;
    while (axis.granules / together > most || axis.granules % together) together++;
    const size_t step = axis.granule * together;
    for (size_t from = 0; from < width; from += step) {
        const size_t to = from + step < width ? from + step : width;
        ls_parts_add(&s->parts, search, false, node, 1, width, from, to, s->groups - 1);
    }
    a->count = s->parts.count - a->first;
    a->granules = axis.granules / together;
}

static const ls_param *param_of_node(const ls_search *search, const ls_graph_node *node, int slot)
{
    return node->params[slot] < 0 ? NULL : &search->graph->table->params[node->params[slot]];
}

static size_t last_dim(const ls_search *search, int node)
{
    const ls_graph_node *n = &search->graph->nodes[node];
    return n->n_dims > 0 ? n->dims[n->n_dims - 1] : 1;
}

/* x0 w + b: parts by the rows of a weight that is cut by rows. */
static void take_linear(sum *s, const ls_search *search)
{
    const ls_graph_node *node = search->node;
    const ls_param *w = param_of_node(search, node, 0), *b = param_of_node(search, node, 1);
    const int x = node->inputs[0];
    if (w->cut == 0 && node->make != LS_MAKE_LOGITS)
        add_columns(s, search, x, last_dim(search, x), w->axis, "product");
    else
        add_whole(s, search, false, x, "product", false);
    if (b) add_whole(s, search, true, node->params[1], b->name, true);
}

static void take_embedding(sum *s, const ls_search *search)
{
    const ls_graph_node *node = search->node;
    for (int slot = 0; slot < LS_NODE_PARAMS; slot++) {
        const ls_param *p = param_of_node(search, node, slot);
        if (!p) continue;
        if (slot > 0) {
            add_whole(s, search, true, node->params[slot], p->name, false);
            continue;
        }
        addend *a = begin_addend(s, p->name);
        for (size_t from = 0; from < p->dims[0]; from += p->axis.granule) {
            const size_t to = from + p->axis.granule;
            ls_parts_add(&s->parts, search, true, node->params[0], p->dims[1], p->dims[0], from,
                         to < p->dims[0] ? to : p->dims[0], s->groups - 1);
        }
        a->count = s->parts.count - a->first;
        a->granules = p->axis.granules;
    }
}

/* What each reader sends back; through a weight that is cut by columns (the vocabulary's: by rows)
 * by granules of its outputs, of keys and values by the query heads that use them. */
static void take_gradient(sum *s, const ls_search *search)
{
    const ls_graph *graph = search->graph;
    for (size_t r = 0; r < graph->count && s->groups < GROUPS; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        const int slot = ls_graph_slot(reader, search->node->of);
        const int gradient = ls_graph_gradient(graph, (int)r);
        if (slot < 0 || gradient < 0 || reader->make == LS_MAKE_PROBABILITIES) continue;
        const ls_param *w = param_of_node(search, reader, 0);
        const size_t width = last_dim(search, gradient);
        const bool logits = reader->make == LS_MAKE_LOGITS;
        const bool linear =
            reader->make == LS_MAKE_LINEAR || reader->make == LS_MAKE_LINEAR_TURNED || logits;
        if (linear && w->cut == (logits ? 0 : 1))
            add_columns(s, search, gradient, width, w->axis, reader->name);
        else if (reader->make == LS_MAKE_HEADS && slot > 0 &&
                 search->config->kv_heads < search->config->heads)
            add_columns(s, search, gradient, width, ls_config_heads_axis(search->config),
                        reader->name);
        else
            add_whole(s, search, false, gradient, reader->name, false);
    }
}

static void take_residual(sum *s, const ls_search *search)
{
    const ls_graph *graph = search->graph;
    for (int i = 0; i < 2; i++)
        add_whole(s, search, false, search->node->inputs[i],
                  graph->nodes[search->node->inputs[i]].name, false);
}

/* ---- what the factors say ---- */

/* The factor of all parts of an addend when they have the same; *ret_same false when not. Parts
 * that cannot be seen agree with all. */
static double common(const sum *s, const addend *a, bool *ret_same)
{
    double factor = NAN;
    *ret_same = true;
    for (size_t p = a->first; p < a->first + a->count; p++) {
        const ls_part *part = &s->parts.part[p];
        if (!part->known) continue;
        if (isnan(factor)) factor = part->factor;
        if (part->factor != factor) *ret_same = false;
    }
    return factor;
}

static void round_factors(ls_parts *parts)
{
    for (size_t p = 0; p < parts->count; p++)
        parts->part[p].factor = ls_round_factor(parts->part[p].factor);
}

static void set_factors(sum *s, const addend *a, double factor)
{
    for (size_t p = a->first; p < a->first + a->count; p++) s->parts.part[p].factor = factor;
}

static bool is_whole_number(double k)
{
    return k >= 2 && k <= 4096 && k == rint(k);
}

static bool is_reciprocal(double k)
{
    return k > 0 && k < 1 && fabs(1 / k - rint(1 / k)) < 1e-9;
}

/* All parts of every addend have one factor: addends counted several times, or divided. */
static ls_status explain_factors(sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64], number[16];
    int odd = -1, odds = 0;
    double factor[GROUPS];
    for (int g = 0; g < s->groups; g++) {
        bool same;
        factor[g] = common(s, &s->group[g], &same);
        if (!same) goto exit;
        if (isnan(factor[g])) factor[g] = 1;
        set_factors(s, &s->group[g], factor[g]);
        if (factor[g] != 1) odd = g, odds++;
    }
    if (odds == 0) goto exit;
    const double k = factor[odd];
    const addend *a = &s->group[odd];
    const bool twice = is_whole_number(k), part = is_reciprocal(k);
    bool others = true; /* the rest has the same factor or 1, and only a bias has 1 */
    for (int g = 0; g < s->groups; g++)
        if (factor[g] != k && !(factor[g] == 1 && s->group[g].is_bias)) others = false;
    ls_search_size(search, (size_t)rint(k >= 1 ? k : 1 / fmax(k, 1e-6)), size);
    if (odds == 1 && a->is_bias && twice) {
        snprintf(text, sizeof text, "candidate - right = %.0f x %s: it was added %.0f times%s",
                 k - 1, a->name, k, size);
        LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_BIAS_PER_RANK, text));
    } else if (odds == 1 && a->is_bias && k == 0) {
        snprintf(text, sizeof text, "right - candidate = %s: it was not added", a->name);
        LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_BIAS_MISSING, text));
    } else if (others && (twice || part)) {
        snprintf(text, sizeof text, "candidate = %s x right%s%s", ls_factor_text(k, number),
                 odds < s->groups ? ", the bias once" : "", size);
        LS_TRY(ls_parts_propose(&s->parts, search,
                                twice ? LS_CAUSE_REDUCED_TWICE : LS_CAUSE_AVERAGED, text));
    } else if (odds == 1 && (twice || part)) {
        snprintf(text, sizeof text, "what comes by way of %s counts %s times%s, the rest once",
                 a->name, ls_factor_text(k, number), size);
        LS_TRY(ls_parts_propose(&s->parts, search,
                                twice ? LS_CAUSE_REDUCED_TWICE : LS_CAUSE_AVERAGED, text));
    } else if (odds == 1 && k == 0 && strstr(a->name, "position")) {
        snprintf(text, sizeof text, "right - candidate = %s: it was not added", a->name);
        LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_POSITIONS, text));
    } else {
        /* several addends by the same factor: all that are sums over ranks */
        bool sums = true;
        for (int g = 0; g < s->groups; g++)
            if (factor[g] != (s->group[g].count > 1 ? k : 1)) sums = false;
        if (!sums || !(twice || part)) goto exit;
        snprintf(text, sizeof text,
                 "all that is summed over ranks counts %s times%s, the rest once",
                 ls_factor_text(k, number), size);
        LS_TRY(ls_parts_propose(&s->parts, search,
                                twice ? LS_CAUSE_REDUCED_TWICE : LS_CAUSE_AVERAGED, text));
    }
exit:
    return status;
}

/* Which of `ranks` ranks part p of an addend is summed on. Of key/value heads that several ranks
 * hold: on the first. */
static size_t rank_of(const addend *a, size_t p, size_t ranks)
{
    return p * ranks / a->granules;
}

static bool can_cut(const sum *s, size_t ranks)
{
    bool any = false;
    for (int g = 0; g < s->groups; g++) {
        const size_t granules = s->group[g].granules;
        if (granules > 1 && granules % ranks && ranks % granules) return false;
        any |= granules >= ranks;
    }
    return any;
}

/* Whether the parts that can be seen are those of rank `rank` of `ranks` (there 1), or all others
 * (there 0), in every addend that is a sum over ranks. */
static bool is_share(const sum *s, size_t ranks, size_t rank, double there)
{
    bool seen[2] = {false, false};
    if (!can_cut(s, ranks)) return false;
    for (int g = 0; g < s->groups; g++) {
        const addend *a = &s->group[g];
        if (a->granules < 2 && !a->is_bias && s->parts.part[a->first].factor != 1) return false;
        if (a->granules < 2) continue;
        for (size_t p = 0; p < a->count; p++) {
            const ls_part *part = &s->parts.part[a->first + p];
            const bool own = rank_of(a, p, ranks) == rank;
            if (part->known && part->factor != (own ? there : 1 - there)) return false;
            if (part->known) seen[own] = true;
        }
    }
    return seen[0] && seen[1];
}

static ls_status propose_share(sum *s, ls_search *search, size_t ranks, size_t rank, double there)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    size_t granules = 0;
    for (int g = 0; g < s->groups; g++) {
        const addend *a = &s->group[g];
        if (a->granules > granules) granules = a->granules;
        for (size_t p = 0; a->granules > 1 && p < a->count; p++)
            s->parts.part[a->first + p].factor = rank_of(a, p, ranks) == rank ? there : 1 - there;
    }
    const size_t from = rank * granules / ranks, to = (rank + 1) * granules / ranks - 1;
    if (there == 1)
        snprintf(text, sizeof text,
                 "candidate is the part of granules %zu to %zu of %zu alone, that of rank %zu of "
                 "tp %zu",
                 from, to, granules, rank, ranks);
    else
        snprintf(text, sizeof text,
                 "the part of granules %zu to %zu of %zu, that of rank %zu of tp %zu, is missing",
                 from, to, granules, rank, ranks);
    for (int bias = 0; bias < 3; bias++) { /* as it was fitted, then 1, then 0 */
        for (int g = 0; g < s->groups; g++)
            if (s->group[g].is_bias && bias > 0) set_factors(s, &s->group[g], bias == 1);
        LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_NOT_REDUCED, text));
        if (search->fits[LS_CAUSE_NOT_REDUCED]) break;
    }
exit:
    return status;
}

/* Only the parts of some granules are there, a rank's own; or a rank's own are missing. All addends
 * that are sums over ranks are cut at the same places. */
static ls_status explain_part(sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    for (int there = 1; there >= 0; there--)
        for (size_t ranks = 2; ranks <= 64; ranks++)
            for (size_t rank = 0; rank < ranks; rank++)
                if (is_share(s, ranks, rank, there)) {
                    LS_TRY(propose_share(s, search, ranks, rank, there));
                    goto exit;
                }
exit:
    return status;
}

/* Every rank keeps its own part of the sum, for its own tokens: the reduction and the cut into
 * shares of the sequence are one operation in sequence parallelism. */
static ls_status explain_token_shares(const sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t S = search->graph->S;
    ls_change change = {0};
    if (search->node->n_dims != 3) goto exit;
    for (size_t ranks = 2; ranks <= 64 && ranks <= S; ranks++) {
        size_t bounds[65];
        if (!can_cut(s, ranks)) continue;
        ls_share_bounds(S, ranks, bounds);
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        for (int g = 0; g < s->groups; g++) {
            const addend *a = &s->group[g];
            for (size_t p = 0; a->granules > 1 && p < a->count; p++) {
                const ls_part *part = &s->parts.part[a->first + p];
                const size_t own = rank_of(a, p, ranks), width = part->extent;
                double *values;
                if (part->is_param) goto exit; /* rows of an embedding have no tokens */
                LS_TRY(ls_change_value(&change, part->index, &values));
                for (size_t t = 0; t < search->graph->B * S; t++)
                    for (size_t c = part->from; c < part->to; c++)
                        if (t % S < bounds[own] || t % S >= bounds[own + 1])
                            values[t * width + c] = 0;
            }
        }
        snprintf(text, sizeof text,
                 "each of %zu shares of the tokens has the part of its own rank alone, rank 0 that "
                 "of tokens 0 to %zu",
                 ranks, bounds[1] - 1);
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_NOT_REDUCED, &change.operands, text));
        ls_change_end(&change);
    }
exit:
    ls_change_end(&change);
    return status;
}

/* Keys and values of grouped heads: each has its gradient from one rank's query heads alone. */
static ls_status explain_groups(sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t H = search->config->heads, group = H / search->config->kv_heads;
    const addend *a = &s->group[0];
    if (s->groups != 1 || group < 2 || a->count != H) goto exit;
    size_t own = 0;
    for (size_t h = 0; h < group; h++) own += s->parts.part[h].factor == 1;
    if (own == 0 || own == group || group % own) goto exit;
    for (size_t h = 0; h < H; h++)
        if (s->parts.part[h].factor != 0 && s->parts.part[h].factor != 1) goto exit;
    snprintf(text, sizeof text,
             "each key/value head has the part of %zu of the %zu query heads that use it, as with "
             "tp %zu",
             own, group, H / own);
    LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_NOT_REDUCED, text));
exit:
    return status;
}

ls_status ls_cause_sums(ls_search *search)
{
    ls_status status = LS_OK;
    bool done;
    sum s = {.groups = 0}, fitted;
    switch (search->node->make) {
    case LS_MAKE_LINEAR:
    case LS_MAKE_LINEAR_TURNED:
    case LS_MAKE_LOGITS:
        take_linear(&s, search);
        break;
    case LS_MAKE_EMBEDDING:
        take_embedding(&s, search);
        break;
    case LS_MAKE_GRADIENT:
        take_gradient(&s, search);
        break;
    case LS_MAKE_RESIDUAL:
        take_residual(&s, search);
        break;
    default:
        goto exit;
    }
    if (s.groups == 0) goto exit;
    LS_TRY(ls_parts_fit(&s.parts, search, &done));
    if (!done) goto exit;
    round_factors(&s.parts);
    fitted = s;
    LS_TRY(explain_factors(&s, search));
    s = fitted;
    LS_TRY(explain_part(&s, search));
    s = fitted;
    LS_TRY(explain_groups(&s, search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(explain_token_shares(&fitted, search));
exit:
    return status;
}
