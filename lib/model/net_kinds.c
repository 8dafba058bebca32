/* net_kinds.c - what the model knows of each kind of layer: one row a kind. */
#include "model/net_parts.h"

/* Pixels and channels that one output reads, inputs, statistics of the batch; fields; parameters.
 */
/* clang-format off */
#define HAS(KEY) (1u << LS_NET_KEY_##KEY)
#define WINDOW (HAS(KERNEL) | HAS(STRIDE) | HAS(DILATION) | HAS(PADDING))

static const ls_net_kind_row conv = {
    {LS_NET_WINDOW, LS_NET_GROUP, 1, false},
    HAS(CHANNELS) | HAS(GROUPS) | WINDOW | HAS(BIAS),
    {{LS_NET_WEIGHT_ROWS, LS_CONV_WEIGHT, "weight", LS_INIT_NORMAL},
     {LS_NET_BIAS,        LS_CONV_BIAS,   "bias",   LS_INIT_ZERO}}};

static const ls_net_kind_row max_pool = {
    {LS_NET_WINDOW, LS_NET_SAME_CHANNEL, 1, false}, WINDOW, {{0}}};

static const ls_net_kind_row avg_pool = {
    {LS_NET_WINDOW, LS_NET_SAME_CHANNEL, 1, false},
    WINDOW | HAS(COUNT_PADDING), {{0}}};

static const ls_net_kind_row global_pool = {
    {LS_NET_ALL_PIXELS, LS_NET_SAME_CHANNEL, 1, false}, 0, {{0}}};

static const ls_net_kind_row batch_norm = {
    {LS_NET_SAME_PIXEL, LS_NET_SAME_CHANNEL, 1, true},
    HAS(EPS) | HAS(MOMENTUM),
    {{LS_NET_VECTOR, LS_BATCH_NORM_SCALE,    "weight",       LS_INIT_ONE},
     {LS_NET_VECTOR, LS_BATCH_NORM_SHIFT,    "bias",         LS_INIT_ZERO},
     {LS_NET_STATE,  LS_BATCH_NORM_MEAN,     "running_mean", LS_INIT_ZERO},
     {LS_NET_STATE,  LS_BATCH_NORM_VARIANCE, "running_var",  LS_INIT_ONE}}};

static const ls_net_kind_row relu = {
    {LS_NET_SAME_PIXEL, LS_NET_SAME_CHANNEL, 1, false}, 0, {{0}}};

static const ls_net_kind_row response_norm = {
    {LS_NET_SAME_PIXEL, LS_NET_NEIGHBOURS, 1, false},
    HAS(SPAN) | HAS(ALPHA) | HAS(BETA) | HAS(K), {{0}}};

static const ls_net_kind_row dropout = {
    {LS_NET_SAME_PIXEL, LS_NET_SAME_CHANNEL, 1, false}, HAS(P), {{0}}};

static const ls_net_kind_row dense = {
    {LS_NET_ALL_PIXELS, LS_NET_ALL_CHANNELS, 1, false},
    HAS(CHANNELS) | HAS(BIAS),
    {{LS_NET_WEIGHT_COLUMNS, LS_DENSE_WEIGHT, "weight", LS_INIT_NORMAL},
     {LS_NET_BIAS,           LS_DENSE_BIAS,   "bias",   LS_INIT_ZERO}}};

static const ls_net_kind_row add = {
    {LS_NET_SAME_PIXEL, LS_NET_SAME_CHANNEL, 2, false}, 0, {{0}}};
/* clang-format on */

#define ROW(KIND, name) [LS_NET_##KIND] = &name,
static const ls_net_kind_row *const rows[LS_NET_KINDS] = {LS_NET_EACH_KIND(ROW)};

#define NAME(KIND, name) #name,
static const char *const names[LS_NET_KINDS] = {LS_NET_EACH_KIND(NAME)};

const char *ls_net_kind_name(ls_net_kind kind)
{
    return (size_t)kind < LS_NET_KINDS ? names[kind] : "?";
}

const ls_net_kind_row *ls_net_kind_row_of(ls_net_kind kind)
{
    return rows[kind];
}

const ls_net_traits *ls_net_traits_of(ls_net_kind kind)
{
    return &rows[kind]->traits;
}
