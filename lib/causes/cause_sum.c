/* cause_sum.c - sums over ranks gone wrong: addends counted several times, left out, averaged,
 * partial sums that were never added. A node is taken apart into what each granule of the axis that
 * tensor parallelism cuts gives, and what is next to that (bias, other readers); the factors of
 * the parts in the candidate say what happened. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "base/append.h"
#include "causes/cause_sum.h"

/* ---- what the factors say ---- */

static bool is_whole_number(double k)
{
    return k >= 2 && k <= 4096 && k == rint(k);
}

static bool is_reciprocal(double k)
{
    return k > 0 && k < 1 && fabs(1 / k - rint(1 / k)) < 1e-9;
}

/* All parts of every addend have one factor: addends counted several times, or divided. */
static ls_status explain_factors(ls_sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64], number[16];
    int odd = -1, odds = 0;
    double factor[LS_ADDENDS];
    for (int g = 0; g < s->groups; g++) {
        bool same;
        factor[g] = ls_parts_common(&s->parts, s->group[g].first, s->group[g].count, &same);
        if (!same) goto exit;
        if (isnan(factor[g])) factor[g] = 1;
        ls_parts_set(&s->parts, s->group[g].first, s->group[g].count, factor[g]);
        if (factor[g] != 1) odd = g, odds++;
    }
    if (odds == 0) goto exit;
    const double k = factor[odd];
    const ls_addend *a = &s->group[odd];
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
        LS_TRY(ls_parts_propose(&s->parts, search, ls_search_factor(search, k), text));
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
static size_t rank_of(const ls_addend *a, size_t p, size_t ranks)
{
    return p * ranks / a->granules;
}

static bool can_cut(const ls_sum *s, size_t ranks)
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
 * (there 0), in every addend that is a sum over ranks. alone: of what one rank holds, whose own
 * parts may give nothing: words that no token is. */
static bool is_share(const ls_sum *s, size_t ranks, size_t rank, double there, bool alone)
{
    bool seen[2] = {false, false};
    if (!can_cut(s, ranks)) return false;
    for (int g = 0; g < s->groups; g++) {
        const ls_addend *a = &s->group[g];
        if (a->granules < 2 && !a->is_bias && s->parts.part[a->first].factor != 1) return false;
        if (a->granules < 2) continue;
        for (size_t p = 0; p < a->count; p++) {
            const ls_part *part = &s->parts.part[a->first + p];
            const bool own = rank_of(a, p, ranks) == rank;
            if (part->known && part->factor != (own ? there : 1 - there)) return false;
            if (part->known) seen[own] = true;
        }
    }
    return seen[0] && (seen[1] || (alone && there == 1));
}

static ls_status propose_share(ls_sum *s, ls_search *search, size_t ranks, size_t rank,
                               double there)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    size_t granules = 0;
    for (int g = 0; g < s->groups; g++) {
        const ls_addend *a = &s->group[g];
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
            if (s->group[g].is_bias && bias > 0)
                ls_parts_set(&s->parts, s->group[g].first, s->group[g].count, bias == 1);
        LS_TRY(ls_parts_propose(&s->parts, search, LS_CAUSE_NOT_REDUCED, text));
        if (search->fits[LS_CAUSE_NOT_REDUCED]) break;
    }
exit:
    return status;
}

/* Only the parts of some granules are there, a rank's own; or a rank's own are missing. All addends
 * that are sums over ranks are cut at the same places. */
static ls_status explain_part(ls_sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    for (int there = 1; there >= 0; there--)
        for (size_t ranks = 2; ranks <= 64; ranks++)
            for (size_t rank = 0; rank < ranks; rank++)
                if (is_share(s, ranks, rank, there, search->held != NULL)) {
                    LS_TRY(propose_share(s, search, ranks, rank, there));
                    goto exit;
                }
exit:
    return status;
}

/* Any small whole factors, granule by granule: parts left out or counted several times, as when one
 * rank's part is where another's should. */
static ls_status explain_counts(const ls_sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], number[16];
    bool missing = false, other = false;
    size_t length = ls_append(text, sizeof text, 0, "granules count");
    for (int g = 0; g < s->groups; g++) {
        const ls_addend *a = &s->group[g];
        if (a->granules < 2 && a->is_bias) continue;
        for (size_t p = 0; p < a->count; p++) {
            const ls_part *part = &s->parts.part[a->first + p];
            if (!part->known) continue;
            if (part->factor != rint(part->factor) || part->factor > 16) goto exit;
            if (a->granules < 2 && part->factor != 1) goto exit;
            if (part->factor == 0) missing = true;
            if (part->factor != 1) other = true;
        }
        for (size_t p = 0; a->granules > 1 && p < a->count && length < sizeof text - 40; p++)
            length = ls_append(text, sizeof text, length, " %s",
                               ls_factor_text(s->parts.part[a->first + p].factor, number));
        if (a->granules > 1 && length < sizeof text - 40)
            length = ls_append(text, sizeof text, length, " times%s", g + 1 < s->groups ? ";" : "");
    }
    if (other)
        LS_TRY(ls_parts_propose(&s->parts, search,
                                missing ? LS_CAUSE_NOT_REDUCED : LS_CAUSE_REDUCED_TWICE, text));
exit:
    return status;
}

/* Every rank keeps its own part of the sum, for its own tokens: the reduction and the cut into
 * shares of the sequence are one operation in sequence parallelism. */
static ls_status explain_token_shares(const ls_sum *s, ls_search *search)
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
            const ls_addend *a = &s->group[g];
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

/* Keys and values of grouped heads: each has its gradient from one rank's query heads only. */
static ls_status explain_groups(ls_sum *s, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t H = search->config->heads, group = H / search->config->kv_heads;
    const ls_addend *a = &s->group[0];
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
    ls_sum s, fitted;
    ls_sum_take(&s, search);
    if (s.groups == 0) goto exit;
    LS_TRY(ls_parts_fit(&s.parts, search, &done));
    if (!done) goto exit;
    ls_parts_round(&s.parts);
    fitted = s;
    LS_TRY(explain_factors(&s, search));
    s = fitted;
    LS_TRY(explain_part(&s, search));
    s = fitted;
    LS_TRY(explain_groups(&s, search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(explain_counts(&fitted, search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(explain_token_shares(&fitted, search));
exit:
    return status;
}
