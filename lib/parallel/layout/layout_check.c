/* layout_check.c - which layouts a model allows, and why not another. */
#include <stdio.h>

#include "lockstep/base/show.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/layout/sharding.h"
#include "parallel/layout/legal_values.h"
#include "base/append.h"

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
    int legal[LS_CHOICES_SHOWN];
    size_t n = ls_legal_tp(config, legal, LS_CHOICES_SHOWN);
    size_t granules = ls_config_ff_axis(config).granules;
    char list[LS_LEGAL_VALUES_TEXT];

    ls_legal_values_text(legal, n, list);
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

static const char *plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

/* The stages when no option says which layers they have: each has at least one. */
static ls_status check_even_partition(const ls_layout *layout, size_t layers)
{
    ls_status status = LS_OK;
    char use[48], use_pp[48];
    const char *verb = layers == 1 ? " makes" : "s make";
    size_t pp = (size_t)layout->pp, V = (size_t)layout->virtual_stages;
    if (pp > layers)
        LS_FAIL(LS_ERR_INPUT, "--pp %zu: %zu layer%s at most %zu stage%s; use %s", pp, layers, verb,
                layers, plural(layers), ls_legal_values_up_to(layers, use));
    if (pp * V > layers)
        LS_FAIL(LS_ERR_INPUT,
                "--virtual-stages %zu: %zu layer%s at most %zu stage%s, not pp %zu x %zu; use "
                "%s%s%s",
                V, layers, verb, layers, plural(layers), pp, V,
                ls_legal_values_up_to(layers / pp, use), V <= layers ? ", or --pp " : "",
                V <= layers ? ls_legal_values_up_to(layers / V, use_pp) : "");
exit:
    return status;
}

/* A given partition as it was written; "..." after its first stages when there are many. */
static const char *partition_text(const ls_layout *layout, char buffer[128])
{
    size_t used = 0;
    for (int s = 0; s < layout->given; s++) {
        if (used > 100) {
            ls_append(buffer, 128, used, ",...");
            break;
        }
        used = ls_append(buffer, 128, used, "%s%d", s > 0 ? "," : "", layout->stage_layers[s]);
    }
    return buffer;
}

static ls_status check_given_partition(const ls_layout *layout, size_t model_layers)
{
    ls_status status = LS_OK;
    char text[128] = "";
    long long stages = (long long)layout->pp * layout->virtual_stages, layers = 0;
    partition_text(layout, text);
    if (layout->given != stages)
        LS_FAIL(LS_ERR_INPUT,
                "--partition %s: layers of %d stage%s; --pp %d x --virtual-stages %d %s %lld "
                "stage%s",
                text, layout->given, plural((unsigned)layout->given), layout->pp,
                layout->virtual_stages, stages == 1 ? "is" : "are", stages,
                plural((unsigned long long)stages));
    for (int s = 0; s < layout->given; s++) {
        if (layout->stage_layers[s] < 0)
            LS_FAIL(LS_ERR_INPUT, "--partition %s: stage %d has %d layers; use 0 or more", text, s,
                    layout->stage_layers[s]);
        layers += layout->stage_layers[s];
    }
    if (layers != (long long)model_layers)
        LS_FAIL(LS_ERR_INPUT, "--partition %s: %lld layer%s altogether, the model has %zu", text,
                layers, plural((unsigned long long)layers), model_layers);
exit:
    return status;
}

static ls_status check_stages(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    long long stages = (long long)layout->pp * layout->virtual_stages;

    if (layout->virtual_stages > 1 && layout->schedule != LS_INTERLEAVED)
        LS_FAIL(LS_ERR_INPUT,
                "--virtual-stages %d: --schedule %s has one stage per rank; use --schedule "
                "interleaved, or 1",
                layout->virtual_stages, ls_schedule_kind_name(layout->schedule));
    if (stages > LS_MAX_STAGES)
        LS_FAIL(LS_ERR_INPUT, "--pp %d, --virtual-stages %d: %lld stages; at most %d", layout->pp,
                layout->virtual_stages, stages, LS_MAX_STAGES);
    if (layout->given != 0)
        LS_TRY(check_given_partition(layout, config->layers));
    else
        LS_TRY(check_even_partition(layout, config->layers));
exit:
    return status;
}

/* Each micro-batch of each replica has at least one sequence. */
static ls_status check_batch(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    unsigned long long dp = (unsigned long long)layout->dp;
    unsigned long long M = (unsigned long long)layout->micro_batches, need = dp * M;
    char use[48];
    if (config->batch < dp)
        LS_FAIL(LS_ERR_INPUT,
                "--batch %zu: dp %llu x %llu micro-batch%s need %llu sequences or more; with %zu, "
                "use --dp %s",
                config->batch, dp, M, M == 1 ? "" : "es", need, config->batch,
                ls_legal_values_up_to(config->batch, use));
    if (config->batch < need)
        LS_FAIL(LS_ERR_INPUT,
                "--batch %zu: dp %llu x %llu micro-batches need %llu sequences or more; with %zu, "
                "use --micro-batches %s",
                config->batch, dp, M, need, config->batch,
                ls_legal_values_up_to(config->batch / (size_t)dp, use));
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

/* What cuts images has nothing to cut in a transformer. */
static ls_status refuse_pixels(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    char option[64] = "";
    if (layout->n_strategies) snprintf(option, sizeof option, "--strategy");
    if (layout->overlap) snprintf(option, sizeof option, "--overlap");
    if (layout->channels != 1) snprintf(option, sizeof option, "--channel %d", layout->channels);
    if (layout->down != 1 || layout->across != 1)
        snprintf(option, sizeof option, "--spatial %dx%d", layout->down, layout->across);
    if (option[0] != '\0')
        LS_FAIL(LS_ERR_INPUT,
                "%s: %s is a transformer, which has no images; use --tp, --sp, --pp and --dp, or a "
                "convolutional network such as --model resnet-nano",
                option, ls_show(config->name));
exit:
    return status;
}

ls_status ls_layout_check(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    if (config->kind == LS_MODEL_NET) return ls_net_layout_check(layout, config);
    LS_TRY(refuse_pixels(layout, config));
    LS_TRY(check_numbers(layout));
    if (layout->tp < 1 || !tp_fits(config, (size_t)layout->tp))
        LS_TRY(refuse_tp(config, layout->tp));
    if (layout->sp && config->mlp_cut == LS_MLP_ROW_FIRST)
        LS_FAIL(LS_ERR_INPUT,
                "--sp: the row-first MLP has no sequence parallelism; use --mlp-cut column_first, "
                "or no --sp");
    LS_TRY(check_stages(layout, config));
    LS_TRY(check_batch(layout, config));
exit:
    return status;
}
