/* net_layout_check.c - which layouts a convolutional network allows, and why not another. */
#include <stdio.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "parallel/layout/legal_values.h"
#include "parallel/layout/net_strategy.h"

enum { GRID_TEXT = 64, OPTION_TEXT = LS_NET_NAME_BYTES + GRID_TEXT };

/* ---- options that networks do not have ---- */

static ls_status refuse_what_cuts_transformers(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    char option[64] = "";
    const struct {
        const char *option;
        int value;
    } numbers[] = {{"--virtual-stages", layout->virtual_stages},
                   {"--micro-batches", layout->micro_batches},
                   {"--pp", layout->pp},
                   {"--tp", layout->tp},
                   {"context parallelism: cp", layout->cp}};
    if (layout->given) snprintf(option, sizeof option, "--partition");
    if (layout->schedule != LS_GPIPE)
        snprintf(option, sizeof option, "--schedule %s", ls_schedule_kind_name(layout->schedule));
    if (layout->recompute != LS_RECOMPUTE_NONE)
        snprintf(option, sizeof option, "--recompute %s", ls_recompute_name(layout->recompute));
    if (layout->sp) snprintf(option, sizeof option, "--sp");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value != 1)
            snprintf(option, sizeof option, "%s %d", numbers[i].option, numbers[i].value);
    if (option[0] != '\0')
        LS_FAIL(LS_ERR_INPUT,
                "%s: %s is a convolutional network, which is not cut so; use --spatial, --channel, "
                "--dp, --overlap and --strategy",
                option, ls_show(config->name));
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status check_degrees(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    const ls_net *net = &config->net;
    char use[48];
    const struct {
        int ranks;
        size_t pixels;
        const char *what;
    } axes[] = {{layout->down, net->height, "row"}, {layout->across, net->width, "column"}};
    for (size_t i = 0; i < 2; i++)
        if (axes[i].ranks < 1 || (size_t)axes[i].ranks > axes[i].pixels)
            LS_FAIL(LS_ERR_INPUT, "--spatial %dx%d: the image has %zu %s%s; use %s for the %s",
                    layout->down, layout->across, axes[i].pixels, axes[i].what,
                    axes[i].pixels == 1 ? "" : "s", ls_legal_values_up_to(axes[i].pixels, use),
                    i == 0 ? "first number" : "second");
    if (layout->dp < 1) LS_FAIL(LS_ERR_INPUT, "--dp %d: use 1 or more", layout->dp);
    if (layout->channels < 1)
        LS_FAIL(LS_ERR_INPUT, "--channel %d: use 1 or more", layout->channels);
    if ((size_t)layout->dp > config->batch)
        LS_FAIL(LS_ERR_INPUT, "--batch %zu: dp %d needs %d images or more; with %zu, use --dp %s",
                config->batch, layout->dp, layout->dp, config->batch,
                ls_legal_values_up_to(config->batch, use));
    if (ls_layout_ranks(layout) < 1)
        LS_FAIL(LS_ERR_INPUT, "--dp %d, --spatial %dx%d, --channel %d: too many ranks to count",
                layout->dp, layout->down, layout->across, layout->channels);
exit:
    return status;
}

/* ---- strategies ---- */

static const char *grid_text(const ls_layer_grid *grid, char buffer[GRID_TEXT])
{
    snprintf(buffer, GRID_TEXT, "%dx%dx%dx%d", grid->samples, grid->down, grid->across,
             grid->channels);
    return buffer;
}

/* "--strategy conv2=4x1x1x2", as it was given. */
static const char *strategy_text(const ls_net *net, const ls_strategy *strategy,
                                 char buffer[OPTION_TEXT])
{
    char grid[GRID_TEXT];
    snprintf(buffer, OPTION_TEXT, "--strategy %s=%s", net->layers[strategy->layer].name,
             grid_text(&strategy->grid, grid));
    return buffer;
}

static ls_status check_strategy(const ls_layout *layout, const ls_config *config,
                                const ls_strategy *strategy)
{
    ls_status status = LS_OK;
    const ls_net *net = &config->net;
    const ls_layer_grid *grid = &strategy->grid;
    const int ranks = ls_layout_ranks(layout), own = ls_layer_grid_ranks(grid);
    const int last = (int)net->count - 1;
    char option[OPTION_TEXT], use[48];

    if (strategy->layer < 0 || strategy->layer > last)
        LS_FAIL(LS_ERR_INPUT, "--strategy: layer %d: %s has layers 0 to %d, %s to %s",
                strategy->layer, ls_show(config->name), last, net->layers[0].name,
                net->layers[last].name);
    strategy_text(net, strategy, option);
    if (own < 1)
        LS_FAIL(LS_ERR_INPUT,
                "%s: samples x down x across x channels; use 1 or more for each, %d ranks in all",
                option, ranks);
    if (own != ranks)
        LS_FAIL(LS_ERR_INPUT,
                "%s: a grid of %d rank%s; the run has %d (dp %d, spatial %dx%d, channel %d); use "
                "one of %d",
                option, own, own == 1 ? "" : "s", ranks, layout->dp, layout->down, layout->across,
                layout->channels, ranks);
    if (strategy->layer == last && grid->samples != ranks)
        LS_FAIL(LS_ERR_INPUT,
                "%s: the last layer's rows go into the loss whole, so it is cut by samples alone; "
                "use %dx1x1x1",
                option, ranks);
    if (ls_net_traits_of(net->layers[strategy->layer].kind)->channels == LS_NET_ALL_CHANNELS &&
        (grid->down > 1 || grid->across > 1))
        LS_FAIL(LS_ERR_INPUT,
                "%s: a dense layer's output is one pixel, which is not cut; use 1 for down and "
                "across",
                option);
    if ((size_t)grid->down > net->height)
        LS_FAIL(LS_ERR_INPUT, "%s: the image has %zu rows; use %s down", option, net->height,
                ls_legal_values_up_to(net->height, use));
    if ((size_t)grid->across > net->width)
        LS_FAIL(LS_ERR_INPUT, "%s: the image has %zu columns; use %s across", option, net->width,
                ls_legal_values_up_to(net->width, use));
exit:
    return status;
}

static ls_status check_strategies(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    char option[OPTION_TEXT];
    for (int s = 0; s < layout->n_strategies; s++) {
        LS_TRY(check_strategy(layout, config, &layout->strategies[s]));
        if (s > 0 && layout->strategies[s].layer <= layout->strategies[s - 1].layer)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: comes behind one of the same or a later layer; give each layer one, in "
                    "their order",
                    strategy_text(&config->net, &layout->strategies[s], option));
    }
exit:
    return status;
}

/* ---- channels ---- */

static size_t granules_of(const ls_net_shapes *shapes, size_t l)
{
    return shapes->layer[l].axis.granules;
}

static bool fits_layer(const ls_net *net, const ls_net_shapes *shapes, size_t l, size_t channels)
{
    return ls_net_channels_fit(&net->layers[l], &shapes->layer[l], channels);
}

static bool fits_all(const ls_net *net, const ls_net_shapes *shapes, size_t channels)
{
    for (size_t l = 0; l + 1 < net->count; l++)
        if (!fits_layer(net, shapes, l, channels)) return false;
    return true;
}

size_t ls_legal_channels(const ls_net *net, int *ret_channels, size_t max)
{
    size_t found = 0, most = 0;
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l + 1 < net->count; l++)
        if (most == 0 || granules_of(&shapes, l) < most) most = granules_of(&shapes, l);
    /* A network of one layer has none that channels would cut, and more than one rank no use. */
    if (most == 0) most = 1;
    for (size_t channels = 1; channels <= most; channels++) {
        if (!fits_all(net, &shapes, channels)) continue;
        if (found < max) ret_channels[found] = (int)channels;
        found++;
    }
    return found;
}

/* The legal ones of one layer. */
static size_t legal_of_layer(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                             int ret_channels[LS_CHOICES_SHOWN])
{
    size_t found = 0;
    for (size_t channels = 1; channels <= granules_of(shapes, l); channels++) {
        if (!fits_layer(net, shapes, l, channels)) continue;
        if (found < LS_CHOICES_SHOWN) ret_channels[found] = (int)channels;
        found++;
    }
    return found;
}

/* The strategy that a layer's grid comes from: its own, or that of what it reads. NULL: --channel.
 */
static const ls_strategy *source_of(const ls_layout *layout, const ls_net *net, int l)
{
    for (; l >= 0; l = net->layers[l].from) {
        const ls_strategy *strategy = ls_net_strategy(layout, l);
        if (strategy != NULL) return strategy;
        if (ls_net_traits_of(net->layers[l].kind)->channels == LS_NET_ALL_CHANNELS) return NULL;
    }
    return NULL;
}

/* Why a layer cannot be cut so, and how it could. */
static ls_status refuse_channels(const ls_layout *layout, const ls_net *net,
                                 const ls_net_shapes *shapes, size_t l, size_t channels)
{
    ls_status status = LS_OK;
    const ls_net_layer *layer = &net->layers[l];
    const ls_strategy *source = source_of(layout, net, (int)l);
    const size_t granules = granules_of(shapes, l);
    char option[OPTION_TEXT], list[LS_LEGAL_VALUES_TEXT + 16];
    int legal[LS_CHOICES_SHOWN];

    if (source != NULL) {
        strategy_text(net, source, option);
        ls_legal_values_text(legal, legal_of_layer(net, shapes, l, legal), list);
        strcat(list, " for channels");
    } else {
        snprintf(option, sizeof option, "--channel %d", layout->channels);
        ls_legal_values_text(legal, ls_legal_channels(net, legal, LS_CHOICES_SHOWN), list);
    }
    if (granules % channels != 0)
        LS_FAIL(LS_ERR_INPUT,
                "%s: layer %s's %zu channels are %zu granule%s, which cannot be cut into %zu equal "
                "parts; use %s",
                option, layer->name, shapes->layer[l].channels, granules, granules == 1 ? "" : "s",
                channels, list);
    LS_FAIL(LS_ERR_INPUT,
            "%s: of layer %s's %zu groups of channels some rank of %zu would have a part beside "
            "another's; use %s",
            option, layer->name, layer->groups, channels, list);
exit:
    return status;
}

static ls_status check_channels(const ls_layout *layout, const ls_net *net)
{
    ls_status status = LS_OK;
    ls_net_grids grids;
    ls_net_shapes shapes;
    ls_net_grids_of(layout, net, &grids);
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l + 1 < net->count; l++) {
        const size_t channels = (size_t)grids.layer[l].channels;
        if (!fits_layer(net, &shapes, l, channels))
            LS_TRY(refuse_channels(layout, net, &shapes, l, channels));
    }
exit:
    return status;
}

ls_status ls_net_layout_check(const ls_layout *layout, const ls_config *config)
{
    ls_status status = LS_OK;
    LS_TRY(ls_config_require(config, LS_MODEL_NET, "a layout of images"));
    LS_TRY(refuse_what_cuts_transformers(layout, config));
    LS_TRY(check_degrees(layout, config));
    LS_TRY(check_strategies(layout, config));
    LS_TRY(check_channels(layout, &config->net));
exit:
    return status;
}
