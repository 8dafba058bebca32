/* layout_check.c - which layouts a model allows, and why not another. */
#include <stdio.h>

#include "lockstep/parallel/sharding.h"

/* Heads, feed-forward width and vocabulary are cut, and in the row-first MLP the model width: by
 * heads. */
static bool tp_fits(const ls_config *config, size_t tp)
{
    return tp >= 1 && config->heads % tp == 0 && ls_config_ff_axis(config).granules % tp == 0 &&
           ls_config_vocab_axis(config).granules % tp == 0;
}

size_t ls_legal_tp(const ls_config *config, int *ret_tp, size_t max)
{
    size_t found = 0;
    for (size_t tp = 1; tp <= config->heads; tp++) {
        if (!tp_fits(config, tp)) continue;
        if (found < max) ret_tp[found] = (int)tp;
        found++;
    }
    return found;
}

/* Why a degree that does not fit does not, and which would. */
static ls_status refuse_tp(const ls_config *config, int tp)
{
    ls_status status = LS_OK;
    enum { SHOWN = 32 };
    int legal[SHOWN];
    size_t n = ls_legal_tp(config, legal, SHOWN), used = 0;
    size_t granules = ls_config_ff_axis(config).granules;
    char list[SHOWN * 12 + 8] = "";

    for (size_t i = 0; i < n && i < SHOWN; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d",
                                 i == 0 ? "" : (i + 1 == n ? " or " : ", "), legal[i]);
    if (n > SHOWN) snprintf(list + used, sizeof list - used, ", ...");
    if (tp < 1 || config->heads % (size_t)tp)
        LS_FAIL(LS_ERR_INPUT, "--tp %d: %zu heads cannot be cut into %d equal parts; use %s", tp,
                config->heads, tp, list);
    LS_FAIL(
        LS_ERR_INPUT,
        "--tp %d: a feed-forward width of %zu is %zu granule%s (its greatest common divisor with "
        "%zu heads), which cannot be cut into %d equal parts; use %s",
        tp, config->d_ff, granules, granules == 1 ? "" : "s", config->heads, tp, list);
exit:
    return status;
}

static ls_status check_stages(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    long long stages = (long long)layout->pp * layout->virtual_stages, layers = 0;

    if (layout->virtual_stages > 1 && layout->schedule != LS_INTERLEAVED)
        LS_FAIL(LS_ERR_INPUT,
                "--virtual-stages %d: --schedule %s has one stage per rank; use --schedule "
                "interleaved, or 1",
                layout->virtual_stages, ls_schedule_kind_name(layout->schedule));
    if (stages > LS_MAX_STAGES)
        LS_FAIL(LS_ERR_INPUT, "--pp %d, --virtual-stages %d: %lld stages; at most %d", layout->pp,
                layout->virtual_stages, stages, LS_MAX_STAGES);
    if (layout->given != 0) {
        if (layout->given != stages)
            LS_FAIL(LS_ERR_INPUT,
                    "--partition: %d numbers of layers for %lld stages (pp %d x %d); "
                    "give one for each",
                    layout->given, stages, layout->pp, layout->virtual_stages);
        for (int s = 0; s < layout->given; s++) {
            if (layout->stage_layers[s] < 0)
                LS_FAIL(LS_ERR_INPUT, "--partition: stage %d of %d layers; use 0 or more", s,
                        layout->stage_layers[s]);
            layers += layout->stage_layers[s];
        }
        if (layers != (long long)config->layers)
            LS_FAIL(LS_ERR_INPUT,
                    "--partition: its stages have %lld layers together, the model %zu", layers,
                    config->layers);
    } else if ((size_t)stages > config->layers) {
        size_t most = config->layers / (size_t)layout->virtual_stages;
        if (layout->virtual_stages > 1)
            LS_FAIL(LS_ERR_INPUT,
                    "--pp %d, --virtual-stages %d: %zu layers make at most %zu stages, not %lld; "
                    "use --pp 1 to %zu with these virtual stages",
                    layout->pp, layout->virtual_stages, config->layers, config->layers, stages,
                    most > 0 ? most : 1);
        LS_FAIL(LS_ERR_INPUT, "--pp %d: %zu layers make at most %zu stages; use 1 to %zu",
                layout->pp, config->layers, config->layers, config->layers);
    }
exit:
    return status;
}

static ls_status check_batch(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    unsigned long long need =
        (unsigned long long)layout->dp * (unsigned long long)layout->micro_batches;
    if (config->batch < need)
        LS_FAIL(LS_ERR_INPUT, "--batch %zu: dp %d x %d micro-batch%s need %llu sequences or more",
                config->batch, layout->dp, layout->micro_batches,
                layout->micro_batches == 1 ? "" : "es", need);
exit:
    return status;
}

static ls_status check_numbers(const ls_layout *layout)
{
    ls_status status = LS_OK;
    const struct {
        const char *option;
        int value;
    } numbers[] = {{"--dp", layout->dp},
                   {"--pp", layout->pp},
                   {"--virtual-stages", layout->virtual_stages},
                   {"--micro-batches", layout->micro_batches}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value < 1)
            LS_FAIL(LS_ERR_INPUT, "%s %d: use 1 or more", numbers[i].option, numbers[i].value);
    if (layout->cp != 1)
        LS_FAIL(LS_ERR_INPUT, "context parallelism is not in this version: cp %d; use 1",
                layout->cp);
exit:
    return status;
}

ls_status ls_layout_check(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    LS_TRY(check_numbers(layout));
    if (layout->tp < 1 || !tp_fits(config, (size_t)layout->tp))
        LS_TRY(refuse_tp(config, layout->tp));
    if (layout->sp && config->mlp_cut == LS_MLP_ROW_FIRST)
        LS_FAIL(LS_ERR_INPUT,
                "--sp: the row-first MLP has no sequence parallelism; use it without --sp, or the "
                "column-first MLP");
    LS_TRY(check_stages(layout, config));
    LS_TRY(check_batch(layout, config));
exit:
    return status;
}
