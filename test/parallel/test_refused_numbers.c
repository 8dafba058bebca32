/* Numbers that public functions must refuse. Sizes that no memory has, to those that multiply or
 * add sizes: each product is one that wraps to 0 or to something small. Lengths of sequences that
 * are none. An error with a text, before anything is written. */
#include <stdint.h>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/comm/sum_plan.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/forest_sum.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"
#include "lockstep/parallel/tensor/vocab_embedding.h"
#include "lockstep/partition/image_box.h"
#include "parallel_fixture.h"
#include "run_tests.h"

enum { RANKS = 2 };

static const size_t HALF = (size_t)1 << 32, QUARTER = (size_t)1 << 62, VAST = SIZE_MAX;

/* What a call may use. */
typedef struct place {
    member m;
    ls_group *group;
    ls_real x[16], y[16];
    size_t starts[RANKS + 1], bounds[RANKS + 1];
    ls_forest forest;
} place;

typedef ls_status (*call)(place *p);

/* ---- comm */

static ls_status call_send(place *p)
{
    return ls_send(p->group, 1 - p->m.rank, 0, p->x, QUARTER, LS_F32);
}

static ls_status call_receive(place *p)
{
    return ls_receive(p->group, 1 - p->m.rank, 0, p->y, VAST, LS_F32);
}

static ls_status call_send_receive(place *p)
{
    return ls_send_receive(p->group, 1 - p->m.rank, 0, p->x, 1, 1 - p->m.rank, 0, p->y, QUARTER,
                           LS_F32);
}

static ls_status call_send_begin(place *p)
{
    ls_isend *sending = NULL;
    return ls_send_begin(p->group, 1 - p->m.rank, 0, p->x, QUARTER, LS_F32, &sending);
}

static ls_status call_broadcast(place *p)
{
    return ls_broadcast(p->group, p->x, QUARTER, LS_F32, 0);
}

static ls_status call_all_reduce(place *p)
{
    return ls_all_reduce(p->group, p->y, p->x, QUARTER, LS_F32, LS_REDUCE_MAX);
}

static ls_status call_all_reduce_forest(place *p)
{
    return ls_all_reduce_forest(p->group, p->y, p->x, QUARTER, LS_F32, &p->forest);
}

/* One partial fits, three do not. */
static ls_status call_many_partials(place *p)
{
    p->bounds[1] = p->m.rank == 0 ? 7 : 0;
    return ls_all_reduce_forest(p->group, p->y, p->x, QUARTER / 4, LS_F32, &p->forest);
}

static ls_status call_reduce_scatter(place *p)
{
    p->starts[1] = p->starts[2] = QUARTER;
    return ls_reduce_scatter_forest(p->group, p->y, p->x, p->starts, LS_F32, &p->forest);
}

static ls_status call_reduce_scatter_columns(place *p)
{
    p->starts[1] = p->starts[2] = HALF;
    return ls_reduce_scatter_columns_forest(p->group, p->y, p->x, HALF, p->starts, LS_F32,
                                            &p->forest);
}

static ls_status call_all_gather(place *p)
{
    p->starts[2] = QUARTER;
    return ls_all_gather(p->group, p->y, p->x, p->starts, LS_F32);
}

static ls_status call_all_gather_columns(place *p)
{
    p->starts[2] = HALF;
    return ls_all_gather_columns(p->group, p->y, p->x, HALF, p->starts, LS_F32);
}

static ls_status call_all_to_all(place *p)
{
    const size_t counts[] = {QUARTER / 2, QUARTER / 2, QUARTER / 2, QUARTER / 2};
    return ls_all_to_all(p->group, p->y, p->x, counts, LS_F32);
}

static const ls_pixel_tree vast_images = {(size_t)1 << 30, (size_t)1 << 20, (size_t)1 << 20};

static ls_status call_sum_plan(place *p)
{
    const ls_pixel_tree tree = {2, 1, 1};
    const ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const ls_node one = {0, 1}, *const nodes[] = {&one, &one};
    const size_t counts[] = {VAST, 2}; /* 1 together */
    ls_sum_plan *plan = NULL;
    (void)p;
    return ls_sum_plan_create(&plan, &numbered, 2, nodes, counts);
}

static ls_status call_sum_plan_pixels(place *p)
{
    const ls_pixel_area areas[] = {{0, 0, {0, 0, 0, 0}}, {0, 0, {0, 0, 0, 0}}};
    ls_sum_plan *plan = NULL;
    (void)p;
    return ls_sum_plan_create_pixels(&plan, &vast_images, 2, areas);
}

/* ---- base, numerics, kernels, partition */

static ls_status call_arena(place *p)
{
    void *block = NULL;
    return ls_arena_zalloc(p->m.lasting, QUARTER, 4, &block);
}

static ls_status call_forest_sum(place *p)
{
    ls_forest_sum *sum = NULL;
    (void)p;
    return ls_forest_sum_create(&sum, 4, QUARTER);
}

static ls_status call_embedding_rows(place *p)
{
    static const int32_t id;
    return ls_embedding_backward(p->y, p->x, &id, ls_axis_of(1, 1), 1, 0, VAST - 1);
}

static ls_status call_embedding_tokens(place *p)
{
    static const int32_t id;
    return ls_embedding_backward(p->y, p->x, &id, ls_axis_of(HALF, HALF), 1, 0, 1);
}

/* 2^64 elements are owned and as many wanted: none, counted in 64 bits. */
static ls_status call_transfers(place *p)
{
    const ls_image_box all = {{0, HALF}, {0, 1}, {0, 0, HALF, 1}}, none = {{0, 0}, {0, 0}, {0}};
    const ls_image_box owned[] = {all, none}, wanted[] = {none, all};
    ls_transfer *list = NULL;
    size_t n = 0;
    (void)p;
    return ls_transfers_create(&list, &n, owned, wanted, 2);
}

/* The end of a box wraps: it would have nothing in common with any other. */
static ls_status call_transfers_ends(place *p)
{
    const ls_image_box box = {{VAST, 2}, {0, 1}, {0, 0, 1, 1}}, none = {{0, 0}, {0, 0}, {0}};
    const ls_image_box owned[] = {box, none}, wanted[] = {none, none};
    ls_transfer *list = NULL;
    size_t n = 0;
    (void)p;
    return ls_transfers_create(&list, &n, owned, wanted, 2);
}

/* ---- parallel */

static ls_status call_gathered_loss(place *p)
{
    static const int32_t targets[8];
    ls_cut vocab = {ls_axis_of(2, QUARTER / 2), p->bounds};
    p->bounds[1] = 1, p->bounds[2] = 2;
    return ls_gathered_cross_entropy_forward(&p->m.tp, p->y, p->y, p->y, p->x, targets, 8, &vocab,
                                             4, 0);
}

static ls_status call_gather_tokens(place *p)
{
    const ls_real *whole = NULL;
    p->m.tp.sequence_parallel = true;
    return ls_gather_tokens(&p->m.tp, p->x, ls_axis_of(HALF, HALF / 2), 2, &whole);
}

static ls_status call_sum_to_own_tokens(place *p)
{
    return ls_sum_to_own_tokens(&p->m.tp, p->y, p->x, ls_axis_of(HALF, HALF / 2), 2, &p->forest);
}

static ls_status call_sum_to_own_tokens_scattered(place *p)
{
    p->m.tp.sequence_parallel = true;
    return ls_sum_to_own_tokens(&p->m.tp, p->y, p->x, ls_axis_of(1, HALF), HALF, &p->forest);
}

static ls_status call_embedding(place *p)
{
    static const int32_t ids[2];
    ls_cut vocab = {ls_axis_of(2, 1), p->bounds};
    return ls_vocab_embedding_forward(&p->m.tp, p->y, p->x, ids, ls_axis_of(1, 2), VAST / 2 + 1,
                                      &vocab);
}

static ls_status call_row_linear(place *p)
{
    ls_cut in = {ls_axis_of(2, 1), p->bounds};
    return ls_row_linear_forward(&p->m.tp, p->y, p->x, p->x, NULL, ls_axis_of(1, HALF), &in, HALF);
}

static ls_status call_mlp(place *p)
{
    ls_mlp_saved saved;
    ls_mlp mlp = {.D = 1, .ff = {ls_axis_of(2, HALF), p->bounds}};
    return ls_mlp_keep(&p->m.tp, &mlp, HALF, p->m.lasting, &saved);
}

static ls_status call_attention(place *p)
{
    ls_attention_saved saved;
    const ls_kv_sharing kv = {.held = {(size_t)p->m.rank, 1}};
    /* Heads without width: all but P take no memory. */
    ls_attention_block block = {.kv_heads = 2, .kv = &kv, .heads = {ls_axis_of(2, 0), p->bounds}};
    return ls_attention_keep(&p->m.tp, &block, 1, HALF, p->m.lasting, &saved); /* S^2 of P */
}

/* Attention over one sequence of 2 tokens of which `length` are none of padding. */
static ls_status attend(place *p, int32_t length)
{
    ls_status status = LS_OK;
    ls_attention_saved saved;
    const ls_kv_sharing kv = {.held = {(size_t)p->m.rank, 1}};
    ls_attention_block block = {.D = 2,
                                .head_width = 1,
                                .kv_heads = 2,
                                .kv = &kv,
                                .heads = {ls_axis_of(2, 1), p->bounds},
                                .w_q = p->x,
                                .w_k = p->x,
                                .w_v = p->x,
                                .w_o = p->x};
    const ls_batch batch = {.B = 1, .S = 2, .lengths = &length};
    LS_TRY(ls_attention_keep(&p->m.tp, &block, 1, 2, p->m.lasting, &saved));
    LS_TRY(ls_attention_block_forward(&p->m.tp, &block, p->y, &saved, p->x, &batch));
exit:
    return status;
}

static ls_status call_length_below(place *p)
{
    return attend(p, -1);
}

static ls_status call_length_above(place *p)
{
    return attend(p, 3);
}

static ls_status call_length_right(place *p)
{
    ls_status status = LS_OK;
    LS_TRY(attend(p, 2));
    LS_FAIL(LS_ERR_INPUT, "a length that is right was taken");
exit:
    return status;
}

static const struct {
    const char *name;
    call call;
    const char *text; /* part of the error's; NULL: any */
} calls[] = {{"send", call_send, NULL},
             {"receive", call_receive, NULL},
             {"send_receive", call_send_receive, NULL},
             {"send_begin", call_send_begin, NULL},
             {"broadcast", call_broadcast, NULL},
             {"all_reduce", call_all_reduce, NULL},
             {"all_reduce_forest", call_all_reduce_forest, NULL},
             {"all_reduce_forest of many partials", call_many_partials, NULL},
             {"reduce_scatter", call_reduce_scatter, NULL},
             {"reduce_scatter_columns", call_reduce_scatter_columns, NULL},
             {"all_gather", call_all_gather, NULL},
             {"all_gather_columns", call_all_gather_columns, NULL},
             {"all_to_all", call_all_to_all, NULL},
             {"sum_plan", call_sum_plan, NULL},
             {"sum_plan of pixels", call_sum_plan_pixels, NULL},
             {"arena", call_arena, NULL},
             {"forest_sum", call_forest_sum, NULL},
             {"embedding, rows", call_embedding_rows, NULL},
             {"embedding, tokens", call_embedding_tokens, NULL},
             {"transfers", call_transfers, NULL},
             {"transfers, ends", call_transfers_ends, NULL},
             {"gathered_cross_entropy", call_gathered_loss, NULL},
             {"gather_tokens", call_gather_tokens, NULL},
             {"sum_to_own_tokens", call_sum_to_own_tokens, NULL},
             {"sum_to_own_tokens, scattered", call_sum_to_own_tokens_scattered, NULL},
             {"vocab_embedding", call_embedding, NULL},
             {"row_linear", call_row_linear, NULL},
             {"mlp", call_mlp, NULL},
             {"attention", call_attention, NULL},
             {"length below", call_length_below, "length 0 is -1: allowed are 0 to 2"},
             {"length above", call_length_above, "length 0 is 3: allowed are 0 to 2"},
             {"length", call_length_right, "was taken"}};
enum { CALLS = sizeof calls / sizeof calls[0] };

static ls_status make_call(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const size_t *i = argument;
    place p = {.bounds = {0, 1, 2}};
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &p.m));
    p.group = ls_rank_world_group(rank);
    p.forest = (ls_forest){2, p.bounds};
    LS_TRY(calls[*i].call(&p));
exit:
    member_end(&p.m);
    return status;
}

START_TEST(refused_on_every_rank)
{
    size_t i = (size_t)_i;
    ls_status status = ls_world_run(RANKS, NULL, make_call, &i);
    ck_assert_msg(status == LS_ERR_INPUT || status == LS_ERR_MEMORY, "%s: status %d, %s",
                  calls[i].name, (int)status, ls_error_text());
    ck_assert_msg(strstr(ls_error_text(), calls[i].text ? calls[i].text : " "), "%s: %s",
                  calls[i].name, ls_error_text());
}
END_TEST

int main(void)
{
    TCase *tests = test_case("numbers", 60);
    tcase_add_loop_test(tests, refused_on_every_rank, 0, CALLS);
    return run_tests();
}
