/* cause_net_statistics.c - batch normalisation by other numbers: statistics of a part of the images
 * or pixels, or means of such; another epsilon; the running statistics moved by another rule. */
#include <math.h>

#include "causes/cause_net.h"

#define NORMS (LS_KIND(BATCH_NORM) | LS_KIND(BATCH_MEAN) | LS_KIND(BATCH_RSTD) | LS_KIND(RUNNING))

static const struct {
    ls_statistics_form form;
    ls_cause cause;
    const char *text;
} forms[] = {
    {LS_STATISTICS_LOCAL, LS_CAUSE_LOCAL_STATISTICS, "each part has its own mean and variance"},
    {LS_STATISTICS_ABOUT_MEAN, LS_CAUSE_AVERAGED_STATISTICS,
     "the mean is that of the parts' means, and the variance that of their mean squares about it, "
     "however many values each has"},
    {LS_STATISTICS_AVERAGED, LS_CAUSE_AVERAGED_STATISTICS,
     "mean and variance are means of the parts' own"},
    {LS_STATISTICS_MOMENTS, LS_CAUSE_AVERAGED_STATISTICS,
     "mean and mean square are means of the parts' own"},
    {LS_STATISTICS_UNREDUCED, LS_CAUSE_NOT_REDUCED,
     "the sums behind mean and variance are those of a part, divided by the number of all values"},
};

/* One number for all channels' blocks: which block's it is cannot be told but by trying. */
static bool is_shown_once(const ls_search *search, ls_statistics_form form)
{
    const ls_operation_kind make = search->node->make;
    return (form == LS_STATISTICS_LOCAL || form == LS_STATISTICS_UNREDUCED) &&
           (make == LS_MAKE_BATCH_MEAN || make == LS_MAKE_BATCH_RSTD || make == LS_MAKE_RUNNING);
}

static ls_status try_form(ls_search *search, size_t f, const ls_variant_grid *grid)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], blocks[64];
    const size_t parts = grid->samples * grid->down * grid->across;
    ls_variant variant = {.grid = *grid, .statistics = forms[f].form};
    ls_grid_text(grid, blocks);
    if (is_shown_once(search, forms[f].form)) {
        for (size_t b = 0; b < parts; b++) {
            variant.statistics_block = b;
            snprintf(text, sizeof text, "%s: those of part %zu of %zu (%s)", forms[f].text, b,
                     parts, blocks);
            LS_TRY(ls_search_try_variant(search, forms[f].cause, NORMS, &variant, text));
        }
        goto exit;
    }
    snprintf(text, sizeof text, "%s (%s)", forms[f].text, blocks);
    LS_TRY(ls_search_try_variant(search, forms[f].cause, NORMS, &variant, text));
    if (search->node->phase == LS_GRAPH_BACKWARD && forms[f].form == LS_STATISTICS_LOCAL) {
        variant.statistics_back_whole = true;
        LS_TRY(ls_search_try_variant(search, forms[f].cause, NORMS, &variant, text));
    }
    if (search->node->make == LS_MAKE_GRADIENT && f == 0) {
        const ls_variant means = {.grid = *grid, .statistics_back_means = true};
        snprintf(text, sizeof text,
                 "the gradient's means are means of the parts' own, however many values each has "
                 "(%s)",
                 blocks);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_AVERAGED_STATISTICS, NORMS, &means, text));
    }
exit:
    return status;
}

static bool has_any(const ls_search *search)
{
    return search->fits[LS_CAUSE_LOCAL_STATISTICS] || search->fits[LS_CAUSE_AVERAGED_STATISTICS];
}

/* The batch norm's layer that a node belongs to; LS_NET_IMAGE: none that is known. */
static int layer_of(const ls_search *search)
{
    const ls_graph_node *node = search->node;
    if (node->make != LS_MAKE_GRADIENT) return node->layer;
    for (size_t r = 0; r < search->graph->count; r++)
        if (search->graph->nodes[r].make == LS_MAKE_BATCH_NORM &&
            ls_graph_slot(&search->graph->nodes[r], node->of) >= 0)
            return search->graph->nodes[r].layer;
    return node->layer;
}

static ls_status try_parts(ls_search *search)
{
    ls_status status = LS_OK;
    const net_cutting cutting = {true, true};
    ls_variant_grid grids[LS_SEARCH_GRIDS];
    size_t known, n = ls_search_grids(search, layer_of(search), &cutting, grids, &known);
    if (!search->of->own_inputs) n = known ? known : n < 4 ? n : 4;
    for (size_t g = 0; g < n && !has_any(search); g++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms && !has_any(search); f++)
            LS_TRY(try_form(search, f, &grids[g]));
exit:
    return status;
}

static ls_status try_epsilon(ls_search *search)
{
    ls_status status = LS_OK;
    static const double list[] = {1e-3, 1e-5, 1e-6, 1e-4, 1e-8, 1e-12, -1};
    const int layer = layer_of(search);
    const double right = layer >= 0 ? search->config->net.layers[layer].eps : 0;
    char text[LS_EVIDENCE];
    for (int outside = 0; outside < 2; outside++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            const ls_variant variant = {.norm_eps = list[i], .eps_outside = outside};
            if (right > 0 && fabs(list[i] - right) < 1e-3 * right && !outside) continue;
            snprintf(text, sizeof text, "epsilon %g%s, not %g", fmax(0, list[i]),
                     outside ? " added to the root" : "", right);
            LS_TRY(ls_search_try_variant(search, LS_CAUSE_NORM_EPSILON, NORMS & ~LS_KIND(RUNNING),
                                         &variant, text));
        }
    const ls_variant unbiased = {.unbiased = true};
    LS_TRY(ls_search_try_variant(search, LS_CAUSE_VARIANCE_UNBIASED, NORMS & ~LS_KIND(RUNNING),
                                 &unbiased,
                                 "the variance that divides is that over N - 1 values, not N"));
exit:
    return status;
}

static ls_status try_running(ls_search *search)
{
    ls_status status = LS_OK;
    const double *before = search->of->operands.params[search->node->params[0]];
    static const ls_form rules[] = {
        LS_FORM(RUNNING, LS_KIND(RUNNING), "the variance is that over N values, not N - 1",
                .biased_running = true),
        LS_FORM(RUNNING, LS_KIND(RUNNING), "the two factors of momentum have changed places",
                .momentum_turned = true),
        LS_FORM(RUNNING, LS_KIND(RUNNING),
                "the two factors of momentum have changed places, and the variance is that over N "
                "values",
                .momentum_turned = true, .biased_running = true),
        LS_FORM(RUNNING, LS_KIND(RUNNING), "moved twice in one step", .running_times = 2),
        LS_FORM(RUNNING, LS_KIND(RUNNING), "moved three times in one step", .running_times = 3),
        LS_FORM(RUNNING, LS_KIND(RUNNING), "moved four times in one step", .running_times = 4),
    };
    if (search->node->make != LS_MAKE_RUNNING) goto exit;
    if (before)
        ls_search_propose(search, LS_CAUSE_RUNNING, before, NULL,
                          "candidate is what stood before the step");
    LS_TRY_FORMS(search, rules);
exit:
    return status;
}

ls_status ls_cause_net_statistics(ls_search *search)
{
    ls_status status = LS_OK;
    if (!ls_search_can_concern(search, NORMS)) goto exit;
    if (search->node->phase == LS_GRAPH_UPDATE && search->node->make != LS_MAKE_RUNNING) goto exit;
    LS_TRY(try_running(search));
    LS_TRY(try_epsilon(search));
    LS_TRY(try_parts(search));
exit:
    return status;
}
