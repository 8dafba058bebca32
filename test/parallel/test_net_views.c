/* test_net_views.c - what a network over ranks shows: every view is a piece of what one rank shows,
 * bit by bit, also what goes into calls that cross ranks and comes out of them; and the parts of
 * dx finish to dx along their tree. */
#include "parallel/sharded_net_fixture.h"
#include "run_tests.h"

#include <pthread.h>

/* A chain, so that what a reader gives is the whole gradient. */
#define CHAIN                                                                                      \
    "{\"name\": \"chain\", \"batch\": 5, \"network\": {\"channels\": 3, \"height\": 8, "           \
    "\"width\": 7, \"classes\": 4, \"row_granules\": 4, \"column_granules\": 7, "                  \
    "\"channel_granules\": 12, \"layers\": ["                                                      \
    "{\"kind\": \"conv\", \"channels\": 12, \"kernel\": 3, \"padding\": 1},"                       \
    "{\"kind\": \"relu\"},"                                                                        \
    "{\"kind\": \"conv\", \"channels\": 24, \"kernel\": [5, 2], \"padding\": [2, 2, 0, 1], "       \
    "\"groups\": 2},"                                                                              \
    "{\"kind\": \"response_norm\", \"span\": 5, \"alpha\": 0.1, \"beta\": 0.75, \"k\": 1.5},"      \
    "{\"kind\": \"max_pool\", \"kernel\": 3, \"stride\": 2},"                                      \
    "{\"kind\": \"batch_norm\", \"eps\": 0.01},"                                                   \
    "{\"kind\": \"conv\", \"channels\": 12, \"kernel\": 2, \"bias\": false},"                      \
    "{\"kind\": \"dense\", \"channels\": 12},"                                                     \
    "{\"kind\": \"dense\", \"channels\": 4}]}}"

enum { LAYERS = 9, MOST_PARTS = 4096 };

/* A part of dx of layer `of`. */
typedef struct part {
    int of;
    ls_view view;
    ls_real *values;
} part;

typedef struct seen {
    const net_truth *truth;
    bool whole; /* one rank: what it shows is taken */
    ls_real *value[LAYERS][2];
    ls_real *losses;
    size_t count[LS_COMM_KINDS], gradients[LS_COMM_KINDS];
    part parts[MOST_PARTS];
    size_t n_parts;
    pthread_mutex_t lock;
} seen;

static size_t elements(const ls_view *view)
{
    size_t n = 1;
    for (int i = 0; i < view->n_dims; i++) n *= view->dims[i].count;
    return n;
}

/* Whether a block is the same piece of the whole. */
static bool equal_piece(const ls_view *v, const ls_real *whole)
{
    const ls_real *block = v->values;
    for (size_t a = 0; a < v->dims[0].count; a++)
        for (size_t b = 0; b < v->dims[1].count; b++)
            for (size_t c = 0; c < v->dims[2].count; c++) {
                const size_t row =
                    ((v->dims[0].first + a) * v->dims[1].whole + v->dims[1].first + b) *
                        v->dims[2].whole +
                    v->dims[2].first + c;
                if (memcmp(block, whole + row * v->dims[3].whole + v->dims[3].first,
                           v->dims[3].count * sizeof *block) != 0)
                    return false;
                block += v->dims[3].count;
            }
    return true;
}

static void look_at_output(seen *s, ls_rank *rank, const ls_view *view)
{
    ls_real **whole = &s->value[view->layer][view->gradient];
    if (s->whole) {
        EXPECT(view->comm == LS_COMM_NONE, "one rank shows something that crosses");
        *whole = realloc(*whole, elements(view) * sizeof **whole);
        memcpy(*whole, view->values, elements(view) * sizeof **whole);
        return;
    }
    if (view->comm != LS_COMM_PARTIAL)
        EXPECT(equal_piece(view, *whole), "rank %d: %s%s of layer %d differs", ls_rank_index(rank),
               view->gradient ? "gradient, " : "", ls_comm_kind_name(view->comm), view->layer);
    else if (s->n_parts < MOST_PARTS) {
        part *p = &s->parts[s->n_parts++];
        *p = (part){view->layer, *view, malloc(elements(view) * sizeof(ls_real))};
        memcpy(p->values, view->values, elements(view) * sizeof(ls_real));
    }
}

static void look_at_gradient(const seen *s, ls_rank *rank, const ls_view *view)
{
    const net_truth *t = s->truth;
    const ls_param *param = &t->table->params[view->param];
    const ls_real *whole =
        t->gradient[0] + (t->store->slots[view->param].grad[0] - t->store->gradient_slab);
    const ls_real *values = view->values;
    const size_t cols = param->n_dims == 1 ? param->dims[0] : param->dims[1];
    const ls_view_run rows = view->n_dims == 1 ? (ls_view_run){1, 0, 1} : view->dims[0];
    const ls_view_run run = view->dims[view->n_dims - 1];
    if (view->comm == LS_COMM_PARTIAL) {
        EXPECT(view->leaves > 0 && view->hi > view->lo, "a part of no node");
        return;
    }
    for (size_t r = 0; r < rows.count; r++)
        EXPECT(memcmp(values + r * view->stride, whole + (rows.first + r) * cols + run.first,
                      run.count * sizeof *values) == 0,
               "rank %d: the total of %s differs", ls_rank_index(rank), view->name);
}

static ls_status look(void *context, ls_rank *rank, const ls_view *view)
{
    seen *s = context;
    pthread_mutex_lock(&s->lock);
    s->count[view->comm]++;
    if (view->kind == LS_VIEW_POINT && view->point == LS_POINT_OUTPUT) {
        look_at_output(s, rank, view);
    } else if (view->kind == LS_VIEW_POINT && view->point == LS_POINT_IMAGE_LOSS) {
        if (s->whole) memcpy(s->losses, view->values, elements(view) * sizeof(ls_real));
        EXPECT(memcmp(s->losses + view->dims[0].first, view->values,
                      elements(view) * sizeof(ls_real)) == 0,
               "rank %d: losses of images differ", ls_rank_index(rank));
    } else if (view->kind == LS_VIEW_PARAM_GRADIENT) {
        s->gradients[view->comm]++;
        look_at_gradient(s, rank, view);
    }
    pthread_mutex_unlock(&s->lock);
    return LS_OK;
}

/* ---- parts of dx */

static bool same_block(const ls_view *a, const ls_view *b)
{
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static int by_node(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->view.lo < y->view.lo ? -1 : x->view.lo > y->view.lo;
}

/* The parts of one block, in order of nodes, are the whole tree, and finish to dx. */
static void finish_parts(seen *s)
{
    for (size_t first = 0; first < s->n_parts; first++) {
        part all[64];
        size_t n = 0;
        const ls_real *values[64];
        ls_node nodes[64];
        part *one = &s->parts[first];
        if (one->values == NULL) continue;
        for (size_t i = first; i < s->n_parts && n < 64; i++) {
            part *p = &s->parts[i];
            if (p->values == NULL || p->of != one->of || !same_block(&p->view, &one->view))
                continue;
            all[n++] = *p;
            if (i > first) p->values = NULL;
        }
        qsort(all, n, sizeof *all, by_node);
        size_t next = 0;
        for (size_t i = 0; i < n; i++) {
            ck_assert_msg(all[i].view.lo == next, "layer %d: a part is missing", one->of);
            nodes[i] = (ls_node){all[i].view.lo, all[i].view.hi};
            values[i] = all[i].values;
            next = all[i].view.hi;
        }
        ck_assert(next == one->view.leaves);
        ls_view sum = one->view;
        ls_real *dx = malloc(elements(&sum) * sizeof *dx);
        ls_tree_finish(dx, values, nodes, n, next, elements(&sum));
        sum.values = dx;
        ck_assert_msg(equal_piece(&sum, s->value[one->of][1]), "layer %d: parts of dx", one->of);
        free(dx);
        for (size_t i = 0; i < n; i++) free(all[i].values);
        one->values = NULL;
    }
    s->n_parts = 0;
}

static ls_status first_step(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const net_case *c = argument;
    ls_store *store = NULL;
    ls_sharded_net *net = NULL;
    ls_real loss = 0;
    net_begin(c, rank, &store, &net, &status);
    if (status != LS_OK) goto exit;
    const ls_share samples = ls_sharded_net_samples(net);
    const ls_batch batch = ls_batch_part(&c->truth->batch[0], samples.first, samples.count);
    LS_TRY(ls_sharded_net_forward(net, &batch, &loss));
    LS_TRY(ls_sharded_net_backward(net));
exit:
    ls_sharded_net_destroy(&net);
    ls_store_destroy(&store);
    return status;
}

static void run(seen *s, const char *layout)
{
    const ls_observer observer = {s, look};
    net_case c = {.truth = s->truth, .layout = layout_of(layout), .observer = &observer};
    memset(s->count, 0, sizeof s->count);
    memset(s->gradients, 0, sizeof s->gradients);
    s->n_parts = 0;
    run_well(ls_layout_ranks(&c.layout), NULL, first_step, &c);
}

/* What crosses ranks in a layout: halos, parts of dx, parts of gradients. */
typedef struct view_case {
    const char *layout;
    bool halos, parts, sums;
} view_case;

static const view_case cases[] = {
    {"spatial 2x1", true, false, true},
    {"spatial 4x3, overlap", true, false, true},
    {"dp 3", false, false, true},
    {"channel 2", true, true, true},
    {"dp 3, layer 6 1x1x1x3, layer 7 1x1x1x3", true, true, true},
    {"channel 6", true, true, true},
    {"dp 2 x spatial 1x2 x channel 2, overlap", true, true, true},
    {"spatial 2x2, layer 2 1x1x1x4, layer 4 4x1x1x1", true, true, true}};

START_TEST(views)
{
    static net_truth truth;
    static ls_config config;
    static seen s;
    const view_case *c = &cases[_i];
    ls_error_clear();
    ck_assert_msg(ls_config_from_json("net", CHAIN, &config) == LS_OK, "%s", ls_error_text());
    truth_of(&truth, &config, LS_ENGINE_PORTABLE);
    s = (seen){.truth = &truth, .whole = true, .losses = malloc(16 * sizeof(ls_real))};
    pthread_mutex_init(&s.lock, NULL);
    run(&s, "one rank");
    s.whole = false;
    for (size_t comm = 1; comm < LS_COMM_KINDS; comm++) ck_assert(s.count[comm] == 0);
    run(&s, c->layout);
    const size_t parts = s.n_parts;
    ck_assert(parts < MOST_PARTS);
    finish_parts(&s);
    ck_assert((s.count[LS_COMM_SENT] > 0) == c->halos);
    ck_assert((s.count[LS_COMM_RECEIVED] > 0) == c->halos);
    ck_assert((parts > 0) == c->parts);
    ck_assert((s.gradients[LS_COMM_PARTIAL] > 0) == c->sums);
    ck_assert((s.gradients[LS_COMM_TOTAL] > 0) == c->sums);
    for (size_t l = 0; l < LAYERS; l++) free(s.value[l][0]), free(s.value[l][1]);
    free(s.losses);
    truth_free(&truth);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 60);
    tcase_add_loop_test(all, views, 0, sizeof cases / sizeof cases[0]);
    return run_tests();
}
