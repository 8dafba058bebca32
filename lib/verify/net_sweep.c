#include "verify/net_sweep.h"

#include <string.h>

#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/layout/sharding.h"

/* What a strategy is made from: the network, the layout that it goes into. */
typedef struct maker {
    const ls_net *net;
    ls_layout *layout;
    int ranks;
} maker;

/* ---- layers ---- */

/* The k-th of n equally far layers of a kind, k from 0; -1 when there is none. The last layer is
 * none of them. */
static int layer_of_kind(const ls_net *net, ls_net_kind kind, int k, int n)
{
    int layers[LS_NET_LAYERS], found = 0;
    for (int l = 0; l + 1 < (int)net->count; l++)
        if (net->layers[l].kind == kind) layers[found++] = l;
    return found == 0 ? -1 : layers[n == 1 ? found / 2 : k * (found - 1) / (n - 1)];
}

/* The largest number of channel-parallel ranks that divides the ranks and that the layer allows. */
static int most_channels(const maker *m, int layer)
{
    ls_net_shapes shapes;
    ls_net_shapes_of(m->net, &shapes);
    int most = 1;
    for (int c = 2; c <= m->ranks; c++)
        if (m->ranks % c == 0 &&
            ls_net_channels_fit(&m->net->layers[layer], &shapes.layer[layer], (size_t)c))
            most = c;
    return most;
}

/* ---- strategies ---- */

/* Gives a layer a grid, unless it has one; layers come in ascending order. */
static void give(maker *m, int layer, ls_layer_grid grid)
{
    ls_layout *layout = m->layout;
    const int n = layout->n_strategies;
    if (layer < 0 || (n > 0 && layout->strategies[n - 1].layer >= layer)) return;
    layout->strategies[layout->n_strategies++] = (ls_strategy){layer, grid};
}

static void samples_alone(maker *m)
{
    give(m, layer_of_kind(m->net, LS_NET_CONV, 1, 3), (ls_layer_grid){m->ranks, 1, 1, 1});
}

static void rows_alone(maker *m)
{
    give(m, layer_of_kind(m->net, LS_NET_CONV, 1, 3), (ls_layer_grid){1, m->ranks, 1, 1});
}

static void columns_alone(maker *m)
{
    give(m, layer_of_kind(m->net, LS_NET_RELU, 1, 3), (ls_layer_grid){1, 1, m->ranks, 1});
}

static void channels(maker *m)
{
    const int layer = layer_of_kind(m->net, LS_NET_CONV, 1, 3);
    if (layer < 0) return;
    const int c = most_channels(m, layer);
    give(m, layer, (ls_layer_grid){m->ranks / c, 1, 1, c});
}

static void swapped(maker *m)
{
    const ls_layout *l = m->layout;
    give(m, layer_of_kind(m->net, LS_NET_CONV, 2, 3),
         (ls_layer_grid){l->dp, l->across, l->down, l->channels});
}

/* Three layers, each with another grid; the first as the second would have it. */
static void one_after_another(maker *m)
{
    const ls_layer_grid own = ls_net_grid_of(m->layout, m->net, LS_NET_IMAGE);
    const int middle = layer_of_kind(m->net, LS_NET_CONV, 1, 3);
    give(m, middle, (ls_layer_grid){1, m->ranks, 1, 1});
    give(m, middle + 1, (ls_layer_grid){m->ranks, 1, 1, 1});
    give(m, middle + 2, own);
}

/* Batch norm's sums, or those of a pooling, in a grid that no convolution has. */
static void norm_alone(maker *m)
{
    int layer = layer_of_kind(m->net, LS_NET_BATCH_NORM, 1, 3);
    if (layer < 0) layer = layer_of_kind(m->net, LS_NET_MAX_POOL, 1, 3);
    give(m, layer,
         m->ranks % 2 == 0 ? (ls_layer_grid){1, m->ranks / 2, 2, 1}
                           : (ls_layer_grid){m->ranks, 1, 1, 1});
}

static void dense_by_channels(maker *m)
{
    const int layer = layer_of_kind(m->net, LS_NET_DENSE, 0, 2);
    if (layer < 0) return;
    const int c = most_channels(m, layer);
    give(m, layer, (ls_layer_grid){m->ranks / c, 1, 1, c});
}

/* An output of one pixel, which one rank of a row then has. */
static void pixel_in_rows(maker *m)
{
    give(m, layer_of_kind(m->net, LS_NET_GLOBAL_POOL, 0, 2), (ls_layer_grid){1, m->ranks, 1, 1});
}

static void (*const strategies[])(maker *) = {samples_alone,     rows_alone,        swapped,
                                              channels,          columns_alone,     norm_alone,
                                              one_after_another, dense_by_channels, pixel_in_rows};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* ---- layouts ---- */

static bool is_legal(const ls_layout *layout, const ls_config *config)
{
    const bool legal = ls_layout_check(layout, config) == LS_OK;
    ls_error_clear();
    return legal;
}

/* Whether the strategies change anything. */
static bool differs(const ls_layout *layout, const ls_net *net)
{
    ls_layout plain = *layout;
    plain.n_strategies = 0;
    for (int l = 0; l < (int)net->count; l++)
        if (!ls_layer_grid_equal(ls_net_grid_of(layout, net, l), ls_net_grid_of(&plain, net, l)))
            return true;
    return false;
}

static bool is_there(const ls_sweep *sweep, size_t first, const ls_layout *layout)
{
    for (size_t i = first; i < sweep->count; i++)
        if (sweep->layouts[i].overlap == layout->overlap &&
            sweep->layouts[i].n_strategies == layout->n_strategies &&
            memcmp(sweep->layouts[i].strategies, layout->strategies,
                   (size_t)layout->n_strategies * sizeof layout->strategies[0]) == 0)
            return true;
    return false;
}

/* The next strategy of the list that is one, from *turn on. first: the grid point's first layout.
 */
static ls_status add_strategy(ls_sweep *sweep, const ls_config *config, ls_layout plain,
                              size_t first, int *turn)
{
    ls_status status = LS_OK;
    for (int tries = 0; tries < STRATEGIES; tries++) {
        ls_layout layout = plain;
        maker m = {&config->net, &layout, ls_layout_ranks(&plain)};
        strategies[(*turn)++ % STRATEGIES](&m);
        if (layout.n_strategies == 0 || !is_legal(&layout, config) ||
            !differs(&layout, &config->net) || is_there(sweep, first, &layout))
            continue;
        LS_TRY(ls_sweep_add(sweep, &layout));
        break;
    }
exit:
    return status;
}

static ls_status add_grid_point(ls_sweep *sweep, const ls_config *config, ls_layout layout,
                                int *turn)
{
    ls_status status = LS_OK;
    const size_t first = sweep->count;
    LS_TRY(ls_sweep_add(sweep, &layout));
    layout.overlap = true;
    if (layout.down > 1 || layout.across > 1) LS_TRY(ls_sweep_add(sweep, &layout));
    for (int overlap = 0; overlap < 2 && ls_layout_ranks(&layout) > 1; overlap++) {
        layout.overlap = overlap != 0;
        LS_TRY(add_strategy(sweep, config, layout, first, turn));
    }
exit:
    return status;
}

ls_status ls_net_sweep_fill(ls_sweep *sweep, const ls_config *config, int max_ranks)
{
    ls_status status = LS_OK;
    int turn = 0;
    for (int dp = 1; dp <= max_ranks; dp++)
        for (int down = 1; dp * down <= max_ranks; down++)
            for (int across = 1; dp * down * across <= max_ranks; across++)
                for (int c = 1; dp * down * across * c <= max_ranks; c++) {
                    ls_layout layout = ls_layout_serial();
                    layout.dp = dp;
                    layout.down = down;
                    layout.across = across;
                    layout.channels = c;
                    if (is_legal(&layout, config))
                        LS_TRY(add_grid_point(sweep, config, layout, &turn));
                }
exit:
    return status;
}
