#include "lockstep/pipeline/plan.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/layout/sharding.h"
#include "lockstep/partition/share.h"
#include "pipeline/gradient_slots.h"
#include "pipeline/plan_net.h"
#include "pipeline/plan_parts.h"
#include "base/allocate.h"

/* Elements that a rank holds of the table. */
typedef struct held {
    uint64_t values;
    uint64_t trained;  /* of them: what has moments, two of each; states have none */
    uint64_t made;     /* gradients of its own stages */
    uint64_t received; /* gradients of a use that another stage makes */
} held;

static held held_by(const ls_plan *plan, const ls_param_table *table, int rank)
{
    held sum = {0, 0, 0, 0};
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        ls_holding holding = ls_holding_of(table, &plan->layout, rank, i);
        size_t rows, cols;
        if (!holding.held) continue;
        ls_param_shard_shape(param, holding.shard, &rows, &cols);
        sum.values += rows * cols;
        sum.trained += param->state ? 0 : rows * cols;
        for (int use = 0; use < param->uses; use++) {
            sum.made += holding.use_held[use] ? rows * cols : 0;
            sum.received += holding.use_received[use] ? rows * cols : 0;
        }
    }
    return sum;
}

/* The stages of a pipeline rank, pp * V of them in the model. */
static ls_stage_part stage_of(const ls_plan *plan, const size_t *bounds, int number)
{
    ls_stage_part stage = {.layers = bounds[number + 1] - bounds[number],
                           .embedding = number == 0,
                           .head = number == ls_layout_stages(&plan->layout) - 1};
    return stage;
}

/* What the tensor-parallel ranks of one pipeline rank and replica have in common. */
typedef struct shared {
    size_t slots;      /* of gradients */
    uint64_t messages; /* sequences in the buffers of messages */
    size_t sequences;  /* of the replica */
} shared;

static void plan_rank(ls_plan *plan, const ls_plan_setup *setup, size_t granules, const held *sum,
                      const shared *common, int rank)
{
    const ls_layout *layout = &plan->layout;
    ls_rank_plan *own = &plan->rank[rank];
    ls_coordinates at = ls_layout_coordinates(layout, rank);
    ls_own_axes axes = ls_own_axes_of(&plan->config, layout, at.tp);
    ls_share share = ls_share_of(setup->batch, (size_t)layout->dp, (size_t)at.dp);
    uint64_t e = ls_dtype_bytes(setup->dtype);
    size_t bounds[LS_MAX_STAGES + 1];
    ls_stage_elements chunks[LS_MAX_STAGES];
    ls_step_traffic step = {&axes, layout, setup->gathered_loss, e, share.count, own->comm};
    ls_step_ends ends = {
        .at = at, .gradients = sum->made, .tied = sum->received, .granules = granules};

    ls_layout_stage_bounds(layout, plan->config.layers, bounds);
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = c * layout->pp + at.pp;
        ls_stage_part stage = stage_of(plan, bounds, number);
        chunks[c] = ls_stage_elements_of(&axes, &stage, layout->recompute, number > 0);
        ls_count_stage(&step, &stage, number);
        own->layers += stage.layers;
    }
    ends.dp_nodes = ls_tree_forest(setup->batch, share.first, share.first + share.count, NULL);
    ls_count_step(&step, &ends);

    ls_schedule_peaks peaks =
        ls_schedule_peaks_of(plan->schedule, at.pp, chunks, share.count, (size_t)e);
    own->sequences = share.count;
    own->gradient_slots = common->slots;
    own->live = ls_schedule_live(plan->schedule, at.pp, -1);
    own->bytes[LS_MEM_PARAMETERS] = sum->values * e;
    own->bytes[LS_MEM_GRADIENTS] = (common->slots * sum->made + sum->received) * e;
    own->bytes[LS_MEM_OPTIMIZER] = 2 * sum->trained * e;
    own->bytes[LS_MEM_ACTIVATIONS] = peaks.activations;
    own->bytes[LS_MEM_COMMUNICATION] = common->messages * axes.tokens * axes.D * e;
    own->bytes[LS_MEM_TEMPORARY] = peaks.working;
    own->at_once = own->bytes[LS_MEM_PARAMETERS] + own->bytes[LS_MEM_GRADIENTS] +
                   own->bytes[LS_MEM_OPTIMIZER] + peaks.at_once;
}

static ls_status plan_ranks(ls_plan *plan, const ls_plan_setup *setup, const ls_param_table *table)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &plan->layout;
    ls_places *places = NULL;
    const size_t granules = ls_param_table_granules(table);
    held *sums = NULL;
    shared *commons = NULL;
    LS_ROOM(sums, (size_t)layout->tp);
    LS_NEW(commons, (size_t)layout->dp);
    LS_TRY(ls_places_create(&places, plan->schedule));
    for (int pp = 0; pp < layout->pp; pp++) {
        const bool same_order = pp > 0 && ls_same_backward_order(plan->schedule, pp - 1, pp);
        for (int tp = 0; tp < layout->tp; tp++) {
            ls_coordinates at = {.tp = tp, .pp = pp};
            sums[tp] = held_by(plan, table, ls_layout_rank(layout, at));
        }
        for (int dp = 0; dp < layout->dp; dp++) {
            ls_share own = ls_share_of(setup->batch, (size_t)layout->dp, (size_t)dp);
            shared *common = &commons[dp];
            /* What costs a walk through the schedule is asked once for all that share the answer.
             */
            if (!same_order)
                LS_TRY(ls_gradient_slots_of(plan->schedule, pp, setup->batch, own.first, own.count,
                                            &common->slots));
            common->sequences = own.count;
            if (dp > 0 && common[-1].sequences == own.count)
                common->messages = common[-1].messages;
            else
                LS_TRY(ls_schedule_messages(places, pp, own.count, &common->messages));
            for (int tp = 0; tp < layout->tp; tp++) {
                ls_coordinates at = {.tp = tp, .dp = dp, .pp = pp};
                plan_rank(plan, setup, granules, &sums[tp], common, ls_layout_rank(layout, at));
            }
        }
    }
exit:
    ls_places_destroy(&places);
    free(sums);
    free(commons);
    return status;
}

/* A network: parameters as held, the rest layer by layer. */
static ls_status plan_network(ls_plan *plan, const ls_param_table *table)
{
    ls_status status = LS_OK;
    const uint64_t e = ls_dtype_bytes(plan->dtype);
    LS_TRY(ls_plan_net(plan));
    for (int r = 0; r < plan->ranks; r++) {
        ls_rank_plan *own = &plan->rank[r];
        const held sum = held_by(plan, table, r);
        const int dp = ls_layout_coordinates(&plan->layout, r).dp;
        ls_comm_count *squares = &own->comm[LS_OP_ALL_REDUCE];
        squares->calls += 1;
        squares->bytes += ls_param_table_granules(table) * 8;
        own->bytes[LS_MEM_PARAMETERS] = sum.values * e;
        own->bytes[LS_MEM_GRADIENTS] = sum.made * e;
        own->bytes[LS_MEM_OPTIMIZER] = 2 * sum.trained * e;
        own->at_once = (sum.values + sum.made + 2 * sum.trained) * e +
                       own->bytes[LS_MEM_ACTIVATIONS] + own->bytes[LS_MEM_TEMPORARY];
        own->gradient_slots = 1;
        own->live = 1;
        own->layers = plan->config.net.count;
        own->sequences = ls_share_of(plan->config.batch, (size_t)plan->layout.dp, (size_t)dp).count;
    }
exit:
    return status;
}

/* What makes every product of plan_sizes.c and plan_counts.c fit into 64 bits. */
static ls_status check_size(const ls_plan *plan)
{
    ls_status status = LS_OK;
    const ls_config *c = &plan->config;
    const double most = (double)((uint64_t)1 << 53);
    if (c->kind == LS_MODEL_NET) { /* sizes of single layers are limited by ls_net_check */
        ls_net_shapes shapes;
        ls_net_shapes_of(&c->net, &shapes);
        double pixels = 0;
        for (size_t l = 0; l < c->net.count; l++)
            pixels += 8.0 * (double)c->batch * (double)ls_net_shape_elements(&shapes.layer[l]);
        if (!(pixels < most))
            LS_FAIL(LS_ERR_INPUT,
                    "--batch %zu: the activations of one step are about %.3g elements; a plan "
                    "counts up to %.3g",
                    c->batch, pixels, most);
        goto exit;
    }
    double wide = 10.0 * (double)c->d_model + 4.0 * (double)c->d_ff +
                  (double)c->heads * (double)c->seq +
                  (double)ls_axis_extent(ls_config_vocab_axis(c));
    double elements = (double)(c->layers + 1) * (double)c->batch * (double)c->seq * wide;
    if (!(elements < most))
        LS_FAIL(LS_ERR_INPUT,
                "--batch %zu: the activations of one step are about %.3g elements; a plan counts "
                "up to %.3g",
                c->batch, elements, most);
exit:
    return status;
}

static ls_status check(const ls_plan *plan, const ls_plan_setup *setup)
{
    ls_status status = LS_OK;
    const ls_config *config = &plan->config;
    if (setup->dtype != LS_F32 && setup->dtype != LS_F64)
        LS_FAIL(LS_ERR_INPUT, "--dtype %s: use f32 or f64", ls_dtype_name(setup->dtype));
    LS_TRY(ls_config_check(config));
    LS_TRY(ls_layout_check(&plan->layout, config));
    if (config->kind == LS_MODEL_NET && plan->ranks > LS_PLAN_MAX_NET_RANKS)
        LS_FAIL(LS_ERR_INPUT,
                "--spatial, --channel, --dp: a network's plan has at most %d ranks, "
                "not %d",
                LS_PLAN_MAX_NET_RANKS, plan->ranks);
    if (plan->ranks < 1 || plan->ranks > LS_PLAN_MAX_RANKS)
        LS_FAIL(LS_ERR_INPUT, "--tp %d, --pp %d, --dp %d: a plan has at most %d ranks",
                plan->layout.tp, plan->layout.pp, plan->layout.dp, LS_PLAN_MAX_RANKS);
    LS_TRY(check_size(plan));
exit:
    return status;
}

static ls_status find_bubble(ls_plan *plan)
{
    ls_status status = LS_OK;
    ls_timeline *timeline = NULL;
    LS_TRY(ls_timeline_create(&timeline, plan->schedule, 1, 2));
    plan->bubble = ls_timeline_bubble(timeline);
exit:
    ls_timeline_destroy(&timeline);
    return status;
}

ls_status ls_plan_create(ls_plan **ret_plan, const ls_plan_setup *setup)
{
    ls_status status = LS_OK;
    ls_param_table *table = NULL;
    ls_plan *plan = NULL;

    LS_NEW(plan, 1);
    plan->config = *setup->config;
    plan->config.batch = setup->batch;
    plan->layout = *setup->layout;
    plan->dtype = setup->dtype;
    plan->ranks = ls_layout_ranks(setup->layout);
    LS_TRY(check(plan, setup));
    LS_TRY(ls_param_table_create(&table, &plan->config));
    plan->parameters = ls_param_table_elements(table);
    LS_NEW(plan->rank, (size_t)plan->ranks);
    LS_TRY(ls_schedule_create(&plan->schedule, plan->layout.schedule, plan->layout.pp,
                              plan->layout.micro_batches, plan->layout.virtual_stages));
    LS_TRY(find_bubble(plan));
    if (plan->config.kind == LS_MODEL_NET)
        LS_TRY(plan_network(plan, table));
    else
        LS_TRY(plan_ranks(plan, setup, table));
    *ret_plan = plan;
    plan = NULL;
exit:
    ls_param_table_destroy(&table);
    ls_plan_destroy(&plan);
    return status;
}

void ls_plan_destroy(ls_plan **plan)
{
    if (!plan || !*plan) return;
    ls_schedule_destroy(&(*plan)->schedule);
    free((*plan)->rank);
    free((*plan)->net_layers);
    free(*plan);
    *plan = NULL;
}

bool ls_plan_alike(const ls_rank_plan *a, const ls_rank_plan *b)
{
    bool alike = a->gradient_slots == b->gradient_slots && a->layers == b->layers &&
                 a->sequences == b->sequences && a->live == b->live && a->at_once == b->at_once;
    for (int c = 0; c < LS_MEM_CATEGORIES; c++) alike = alike && a->bytes[c] == b->bytes[c];
    for (int op = 0; op < LS_OP_COUNT; op++)
        alike = alike && a->comm[op].calls == b->comm[op].calls &&
                a->comm[op].bytes == b->comm[op].bytes;
    return alike;
}

double ls_plan_bytes(const ls_plan *plan)
{
    double sum = 0;
    for (int r = 0; r < plan->ranks; r++) sum += (double)plan->rank[r].at_once;
    return sum;
}
