/* cause.c - which hypothesis explains a tensor. */
#include "causes/cause.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/append.h"
#include "causes/families.h"

enum { TRANSFORMER = 1, NET = 2 };

/* What looks at the node itself first: what looks before it may use up the work. */
static const struct {
    ls_cause_family *try;
    int models;
} families[] = {{ls_cause_norms, TRANSFORMER | NET},
                {ls_cause_clips, TRANSFORMER | NET},
                {ls_cause_two_updates, TRANSFORMER | NET},
                {ls_cause_net_halo, NET},
                {ls_cause_net_statistics, NET},
                {ls_cause_sums, TRANSFORMER},
                {ls_cause_uses, TRANSFORMER | NET},
                {ls_cause_factors, TRANSFORMER | NET},
                {ls_cause_net_sums, NET},
                {ls_cause_batch, TRANSFORMER | NET},
                {ls_cause_net_formula, NET},
                {ls_cause_target_shift, TRANSFORMER},
                {ls_cause_attention, TRANSFORMER},
                {ls_cause_formulas, TRANSFORMER},
                {ls_cause_rotary, TRANSFORMER},
                {ls_cause_targets, TRANSFORMER},
                {ls_cause_terms, TRANSFORMER},
                {ls_cause_interleaved, TRANSFORMER},
                {ls_cause_arrangement, TRANSFORMER},
                {ls_cause_pairing, TRANSFORMER},
                {ls_cause_dropout, TRANSFORMER | NET},
                {ls_cause_replicas, TRANSFORMER | NET},
                {ls_cause_residuals, TRANSFORMER},
                {ls_cause_every_sum, TRANSFORMER},
                {ls_cause_updates, TRANSFORMER | NET}};

static ls_status try_all(ls_search *search)
{
    ls_status status = LS_OK;
    const int model = search->config->kind == LS_MODEL_NET ? NET : TRANSFORMER;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].models & model) LS_TRY(families[i].try(search));
exit:
    return status;
}

/* Whether ranks have different tokens of it, as in sequence parallelism: what they left out of a
 * sum is then not the same in all of its parts. */
static bool is_cut_by_tokens(const ls_search *search)
{
    const ls_candidate_tensor *given = search->of->as_given;
    if (!strstr(search->node->dim_names, "S[sp]")) return false;
    for (size_t b = 0; b < given->n_blocks; b++)
        if (given->blocks[b].runs[1].count < search->node->dims[1]) return true;
    return false;
}

/* Ranks that hold something wrong where others do not, or otherwise: each is a candidate. */
static ls_status try_ranks(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_candidate_tensor *given = search->of->as_given;
    enum { MOST = 64 };
    bool wrong[MOST] = {false}, there[MOST] = {false};
    int ranks = 0, wrong_ranks = 0;
    double *values = NULL;
    unsigned char *held = NULL;
    if (!given || !(given->replicas_differ || is_cut_by_tokens(search))) goto exit;
    LS_ROOM(values, search->n);
    LS_ROOM(held, search->n);
    for (size_t b = 0; b < given->n_blocks; b++)
        if (given->blocks[b].rank >= 0 && given->blocks[b].rank < MOST)
            there[given->blocks[b].rank] = true;
    for (int rank = 0; rank < MOST; rank++) {
        if (!there[rank]) continue;
        ls_rank_tensor(search, rank, values, held, &wrong[rank]);
        ranks++, wrong_ranks += wrong[rank];
    }
    search->candidate = values;
    search->held = held;
    for (int rank = 0, tried = 0; rank < MOST && tried < 4 && !search->best.cause; rank++) {
        if (!wrong[rank]) continue;
        tried++;
        ls_rank_tensor(search, rank, values, held, &wrong[rank]);
        snprintf(search->whose, sizeof search->whose, "rank %d (%d of %d ranks wrong): ", rank,
                 wrong_ranks, ranks);
        LS_TRY(try_all(search));
    }
exit:
    search->candidate = search->of->candidate;
    search->held = NULL;
    search->whose[0] = 0; /* what is tried next is not about one rank */
    free(held);
    free(values);
    return status;
}

static size_t count_wrong(const ls_search *search)
{
    size_t wrong = 0;
    for (size_t i = 0; i < search->n; i++) wrong += ls_search_is_wrong(search, i);
    return wrong;
}

/* NaN and infinity explain nothing, and nothing explains them. */
static bool is_finite(const ls_search *search)
{
    for (size_t i = 0; i < search->n; i++)
        if (!isfinite(search->candidate[i]) || !isfinite(search->of->right[i])) return false;
    return true;
}

/* One number that several hypotheses explain chooses among none: they are listed. So is what one
 * explains that may lie anywhere before it, unless another tensor has that cause. The same holds of
 * a few wrong elements of a parameter. */
static void weigh_one_number(ls_search *search, size_t wrong)
{
    ls_suspicion *best = &search->best;
    size_t causes_that_fit = 0, length;
    for (int c = 1; c < LS_CAUSES; c++) causes_that_fit += search->fits[c];
    if ((search->n > 1 && !search->scant) || best->cause == LS_CAUSE_NONE) return;
    if (search->n > 1 && best->cause == search->of->hint) return;
    if (search->n > 1 && causes_that_fit == 1 && wrong > 1) return;
    if (causes_that_fit == 1 && (search->of->own_inputs || best->cause == search->of->hint)) return;
    best->cause = LS_CAUSE_NONE;
    char *text = best->evidence;
    if (wrong > 1)
        length = ls_append(
            text, LS_EVIDENCE, 0,
            "%zu wrong elements choose among no mistakes; they are consistent with:", wrong);
    else
        length = ls_append(text, LS_EVIDENCE, 0,
                           "one number chooses among no mistakes; it is consistent with:");
    for (int c = 1; c < LS_CAUSES; c++)
        if (search->fits[c])
            length =
                ls_append(text, LS_EVIDENCE, length, " %s;", ls_mistake_of((ls_cause)c)->sentence);
    if (length < LS_EVIDENCE - 1) text[length - 1] = 0;
    memset(search->fits, 0, sizeof search->fits);
}

static ls_status search_all(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_case *of = search->of;
    const size_t wrong = count_wrong(search);
    enum { FEW = 4 };
    search->scant =
        search->node->make == LS_MAKE_UPDATED && !of->own_inputs && wrong > 0 && wrong < FEW;
    if (wrong > 0) {
        LS_TRY(try_all(search));
        if (search->best.cause == LS_CAUSE_NONE && search->only_hint && !of->brief &&
            !of->own_inputs) {
            search->only_hint = false;
            LS_TRY(try_all(search));
        }
    }
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(try_ranks(search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(ls_cause_replicas(search));
    if (search->best.cause == LS_CAUSE_NONE) LS_TRY(ls_cause_corrupted(search));
    if (search->best.cause == LS_CAUSE_NONE && search->cut_short)
        snprintf(search->best.evidence, sizeof search->best.evidence,
                 "not every hypothesis was tried: there is a limit to the work");
    weigh_one_number(search, wrong);
exit:
    return status;
}

/* Whether the candidate, or else the golden run, has several ranks or micro-batches. */
static bool states_ranks(const ls_case *of)
{
    const ls_layout *stated = of->whole && of->whole->has_layout ? &of->whole->layout
                              : of->golden                       ? &of->golden->run.layout
                                                                 : NULL;
    return stated && (ls_layout_ranks(stated) > 1 || stated->micro_batches > 1);
}

/* Work of a search: some seconds. */
#define WORK 4e9

ls_status ls_cause_find(const ls_case *of, ls_suspicion *ret_suspicion)
{
    ls_status status = LS_OK;
    const ls_graph *graph = of->operands.graph;
    ls_case mine = *of;
    ls_search search = {.of = &mine,
                        .graph = graph,
                        .node = &graph->nodes[of->node],
                        .config = &graph->table->config,
                        .n = ls_graph_elements(graph, of->node),
                        .candidate = of->candidate,
                        .work = of->budget ? fmin(*of->budget, WORK) : WORK};
    const double begun = search.work;
    if (!is_finite(&search)) {
        memset(ret_suspicion, 0, sizeof *ret_suspicion);
        return LS_OK;
    }
    LS_ROOM(search.trial, 2 * search.n);
    search.trial_bound = search.trial + search.n;
    LS_NEW(search.values, graph->count);
    LS_NEW(search.loaded, graph->count);
    memcpy(search.values, of->operands.values, graph->count * sizeof *search.values);
    mine.operands.values = search.values;
    search.only_hint = of->brief || of->hint != LS_CAUSE_NONE;
    LS_TRY(search_all(&search));
    for (int c = 1; c < LS_CAUSES; c++) {
        if (!search.fits[c] || c == (int)search.best.cause || c == LS_CAUSE_FACTOR) continue;
        if (ls_mistake_of((ls_cause)c)->needs_ranks && !states_ranks(of)) continue;
        if (search.best.also < LS_ALSO) search.best.others[search.best.also] = (ls_cause)c;
        search.best.also++;
    }
    search.best.cut_short = search.cut_short && search.best.cause == LS_CAUSE_NONE;
    *ret_suspicion = search.best;
exit:
    if (of->budget) *of->budget -= begun - search.work;
    for (size_t i = 0; search.loaded && i < graph->count; i++) free(search.loaded[i]);
    free(search.loaded);
    free(search.values);
    free(search.trial);
    ls_squares_destroy(&search.squares);
    return status;
}
