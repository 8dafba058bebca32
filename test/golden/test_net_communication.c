/* What crosses ranks, of convolutional networks: every call of a layout's run has in the list of
 * calls the tensors of what went in and what came out. Parts, added in the order of the tree over
 * images and granules, are to the bit what each rank got; every message is what was sent, and as
 * many bytes as its call counts; totals and pieces are those of the whole tensors of the run. EXACT
 * throughout, but for norms and powers, which are made again from their sums up to rounding.
 */
#include "golden/communication_fixture.h"
#include "golden/net_golden_fixture.h"
#include "run_tests.h"

/* Uneven images over samples, pixels and channels; a layer of a grid of its own. */
struct net_scene {
    size_t network, batch; /* number in net_fixture.h */
    const char *layout;
    bool messages, channels, norm_sum; /* pieces pass; dx is a sum over channels; its d passes */
};

static const struct net_scene scenes[] = {
    {0, 5, "spatial 2x2", true, false, false},
    {0, 5, "dp 2 x spatial 2x1, overlap", true, false, false},
    {0, 4, "channel 2", true, true, true},
    {0, 5, "dp 2 x spatial 1x2 x channel 2", true, true, true},
    {0, 3, "spatial 2x2, layer 3 4x1x1x1, layer 6 2x1x2x1", true, false, false},
    {1, 5, "dp 5", false, false, false},
    {1, 5, "dp 2 x spatial 2x1", true, false, false},
    {1, 4, "spatial 3x2, overlap", true, false, false},
    {3, 3, "spatial 2x1 x channel 2", true, true, false},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

/* Whether images or pixels of all layers lie on several ranks. */
static bool batch_is_cut(const struct net_scene *scene)
{
    return strstr(scene->layout, "spatial") || strstr(scene->layout, "dp");
}

/* What has no tensors: the end of a sending, the comparison of images by their digests, and what a
 * rank does alone. */
static bool has_tensors(const call *c)
{
    return strcmp(c->call, "send_end") != 0 &&
           !(strcmp(c->task, "batch") == 0 && strcmp(c->call, "all_gather") == 0) &&
           !(c->group && c->size == 1);
}

static const char *ending_of(const call *c)
{
    return c->group ? "partial" : "sent";
}

/* All that goes into a call is shown, and no more: as many bytes as it counts. */
static void expect_bytes(const seen *s, const call *c)
{
    json_int_t bytes = 0;
    const json_t *in = names(c, "in");
    for (size_t n = 0; n < json_array_size(in); n++) {
        const block b =
            block_of(s, c->rank, json_string_value(json_array_get(in, n)), ending_of(c));
        bytes += (json_int_t)(b.info->elements * ls_dtype_bytes(b.info->dtype));
    }
    if (bytes != c->bytes)
        ck_abort_msg("%d bytes are shown of %s", (int)bytes, json_dumps(c->line, 0));
}

static void every_call_has_its_tensors(const seen *s, const struct net_scene *scene)
{
    size_t sums = 0, messages = 0, elements = 0, pixels = 0;
    for (size_t i = 0; i < s->count; i++) {
        const call *c = &s->calls[i];
        const bool sends = strcmp(c->call, "send_begin") == 0;
        if (!has_tensors(c)) {
            ck_assert(!names(c, "in") && !names(c, "out"));
            continue;
        }
        if (is_reducing(c)) {
            if (json_array_size(names(c, "out")) == 0)
                ck_abort_msg("nothing comes out of %s", json_dumps(c->line, 0));
            elements += expect_sums(s, c);
            sums++;
        } else {
            const json_t *of = names(c, sends ? "in" : "out");
            ck_assert_ptr_null(c->group);
            if (json_array_size(of) != 1 || names(c, sends ? "out" : "in"))
                ck_abort_msg("not one tensor: %s", json_dumps(c->line, 0));
            if (!sends) expect_sent(s, c);
            messages++;
        }
        if (is_reducing(c) || sends) expect_bytes(s, c);
        for (size_t n = 0; is_reducing(c) && n < json_array_size(names(c, "in")); n++) {
            const char *name = json_string_value(json_array_get(names(c, "in"), n));
            pixels += block_of(s, c->rank, name, "partial").rows > 1;
        }
    }
    ck_assert_uint_gt(sums, 0);
    ck_assert_uint_gt(elements, 500);
    ck_assert((pixels > 0) == batch_is_cut(scene));
    ck_assert((messages > 0) == scene->messages);
}

/* ---- whole tensors of the run ---- */

static size_t readers_of(const ls_net *net, const char *name)
{
    size_t readers = 0;
    for (size_t l = 0; l < net->count; l++) {
        const ls_net_layer *layer = &net->layers[l];
        const int from[] = {layer->from, layer->kind == LS_NET_ADD ? layer->beside : LS_NET_IMAGE};
        for (int i = 0; i < 2; i++)
            readers += from[i] != LS_NET_IMAGE && strcmp(net->layers[from[i]].name, name) == 0;
    }
    return readers;
}

/* Whether what crosses under a name is the tensor that has it: what one of several readers of an
 * output gives back is a part of its gradient. */
static bool is_whole(const seen *s, const char *rest)
{
    return strncmp(rest, "d.", 2) != 0 || readers_of(&s->config.net, rest + 2) <= 1;
}

static const char *const endings[] = {"total", "sent", "received"};

/* Returns how many tensors were compared. -0 becomes +0 in the end. */
static size_t expect_whole(const seen *s, const struct net_scene *scene)
{
    size_t found = 0, gradients = 0;
    for (int r = 0; r < s->ranks; r++)
        for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
            const char *text = ls_safetensors_at(s->files[r], t)->name;
            const char *ending = strrchr(text, '.');
            for (int e = 0; ending && e < 3; e++) {
                if (strcmp(ending + 1, endings[e]) != 0) continue;
                const block b = block_of(s, r, text, endings[e]);
                const char *rest = ls_tensor_name_parse(b.base).rest;
                const int node = ls_graph_find(s->golden->graph, rest);
                if (node < 0 || !is_whole(s, rest)) continue;
                const ls_golden_tensor *whole = ls_golden_find(s->golden, 0, node);
                const size_t *dims = s->golden->graph->nodes[node].dims;
                ck_assert_int_eq(s->golden->graph->nodes[node].n_dims, b.info->n_dims);
                for (size_t i = 0; i < b.info->elements; i++) {
                    const float got = at(b.info, i).f32;
                    const float want = ((const float *)whole->values)[place_in(&b, i, NULL, dims)];
                    ck_assert_msg(got == want, "rank %d: element %zu of %s is %g, not %g", r, i,
                                  text, (double)got, (double)want);
                }
                found++;
                gradients += strncmp(rest, "grad.", 5) == 0;
            }
        }
    ck_assert_uint_gt(gradients, 0);
    ck_assert(found > gradients || !scene->messages);
    return found;
}

/* Where images or pixels are cut every gradient of a parameter is a total. */
static void every_gradient_is_summed(const seen *s, const struct net_scene *scene)
{
    for (size_t n = 0; batch_is_cut(scene) && n < s->golden->graph->count; n++) {
        const ls_graph_node *node = &s->golden->graph->nodes[n];
        char name[NAME];
        size_t holders = 0;
        if (strncmp(node->name, "grad.", 5) != 0) continue;
        snprintf(name, sizeof name, "step0/%s.0.total", node->name);
        for (int r = 0; r < s->ranks; r++)
            holders += ls_safetensors_find(s->files[r], name) != NULL;
        ck_assert_msg(holders == (size_t)s->ranks, "%zu ranks have %s", holders, name);
    }
}

/* ---- what is made of sums ---- */

/* Calls `make` for every total (or piece that was received) whose name ends so. */
typedef void from_sum(const seen *s, int rank, const block *sum, const char *layer);
static size_t each(const seen *s, const char *point, const char *ending, from_sum *make)
{
    size_t found = 0;
    for (int r = 0; r < s->ranks; r++)
        for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
            const char *text = ls_safetensors_at(s->files[r], t)->name;
            const char *dot = strrchr(text, '.');
            if (!dot || strcmp(dot + 1, ending) != 0) continue;
            const block b = block_of(s, r, text, ending);
            char layer[NAME];
            snprintf(layer, sizeof layer, "%s", ls_tensor_name_parse(b.base).rest);
            char *last = strrchr(layer, '.');
            if (strcmp(last ? last + 1 : layer, point) != 0) continue;
            if (last) *last = '\0';
            make(s, r, &b, layer);
            found++;
        }
    return found;
}

static const float *whole_at(const seen *s, const char *layer, const char *point,
                             const size_t **ret_dims)
{
    char name[2 * NAME];
    snprintf(name, sizeof name, "%s%s%s", layer, *point ? "." : "", point);
    const int node = ls_graph_find(s->golden->graph, name);
    ck_assert_msg(node >= 0, "%s", name);
    *ret_dims = s->golden->graph->nodes[node].dims;
    return ls_golden_find(s->golden, 0, node)->values;
}

static const ls_net_layer *layer_named(const seen *s, const char *name, const char **ret_input)
{
    const ls_net *net = &s->config.net;
    for (size_t l = 0; l < net->count; l++)
        if (strcmp(net->layers[l].name, name) == 0) {
            const int from = net->layers[l].from;
            *ret_input = from == LS_NET_IMAGE ? NULL : net->layers[from].name;
            return &net->layers[l];
        }
    ck_abort_msg("no layer %s", name);
    return NULL;
}

/* Values of a channel in the whole batch. */
static float count_of(const seen *s, const char *layer)
{
    const size_t *dims;
    whole_at(s, layer, "", &dims);
    return (float)(dims[0] * dims[2] * dims[3]);
}

static void mean_from_sum(const seen *s, int rank, const block *sum, const char *layer)
{
    const size_t *dims;
    const float *mean = whole_at(s, layer, "batch_mean", &dims);
    (void)rank;
    for (size_t i = 0; i < sum->info->elements; i++)
        ck_assert(at(sum->info, i).f32 / count_of(s, layer) == mean[sum->lo[0] + i]);
}

static void rstd_from_squares(const seen *s, int rank, const block *sum, const char *layer)
{
    const size_t *dims;
    const char *input;
    const float *rstd = whole_at(s, layer, "batch_rstd", &dims);
    const double eps = layer_named(s, layer, &input)->eps;
    (void)rank;
    for (size_t i = 0; i < sum->info->elements; i++) {
        const double want = 1 / sqrt((double)(at(sum->info, i).f32 / count_of(s, layer)) + eps);
        ck_assert(fabs((double)rstd[sum->lo[0] + i] - want) <= 1e-6 * want);
    }
}

/* [N][C], and the output is [N][C][1][1]. */
static void pool_from_sum(const seen *s, int rank, const block *sum, const char *layer)
{
    const char *input;
    const size_t *dims, *in;
    const float *y = whole_at(s, layer, "", &dims);
    layer_named(s, layer, &input);
    whole_at(s, input, "", &in);
    (void)rank;
    for (size_t i = 0; i < sum->info->elements; i++)
        ck_assert(at(sum->info, i).f32 / (float)(in[2] * in[3]) == y[place_in(sum, i, NULL, dims)]);
}

static void loss_from_sum(const seen *s, int rank, const block *sum, const char *layer)
{
    (void)rank;
    (void)layer;
    const float loss = *(const float *)tensor_ok(s->golden, 0, "loss")->values;
    ck_assert_uint_eq(sum->info->elements, 1);
    ck_assert(at(sum->info, 0).f32 / (float)s->golden->run.batch == loss);
}

/* y = x d^-beta. */
static void output_from_norm_sum(const seen *s, int rank, const block *d, const char *layer)
{
    const char *input;
    const size_t *dims;
    const ls_net_layer *norm = layer_named(s, layer, &input);
    const float *y = whole_at(s, layer, "", &dims), *x = whole_at(s, input, "", &dims);
    (void)rank;
    for (size_t i = 0; i < d->info->elements; i++) {
        const size_t place = place_in(d, i, NULL, dims);
        const double want = (double)x[place] * pow((double)at(d->info, i).f32, -norm->beta);
        ck_assert(fabs((double)y[place] - want) <= 1e-6 * fabs(want));
    }
}

/* The output is the pixel at its place, of its image and channel. */
static void output_from_places(const seen *s, int rank, const block *places, const char *layer)
{
    const char *input;
    const size_t *dims, *in;
    const float *y = whole_at(s, layer, "", &dims);
    layer_named(s, layer, &input);
    const float *x = whole_at(s, input, "", &in);
    (void)rank;
    ck_assert_int_eq(places->info->dtype, LS_I32);
    for (size_t i = 0; i < places->info->elements; i++) {
        const size_t place = place_in(places, i, NULL, dims);
        const int32_t pixel = ((const int32_t *)places->info->data)[i];
        ck_assert(pixel >= 0 && (size_t)pixel < in[2] * in[3]);
        ck_assert(y[place] == x[place / (dims[2] * dims[3]) * (in[2] * in[3]) + (size_t)pixel]);
    }
}

static void norm_from_squares(const seen *s, int rank, const block *sum, const char *layer)
{
    const double norm = *(const double *)tensor_ok(s->golden, 0, "norm")->values;
    double squares = 0;
    (void)rank;
    (void)layer;
    for (size_t i = 0; i < sum->info->elements; i++) squares += at(sum->info, i).f64;
    ck_assert(fabs(sqrt(squares) - norm) <= 1e-12 * norm);
}

static void what_sums_make(const seen *s, const struct net_scene *scene)
{
    const bool global = scene->network != 0, spatial = strstr(scene->layout, "spatial") != NULL;
    ck_assert((each(s, "batch_sum", "total", mean_from_sum) > 0) == batch_is_cut(scene));
    ck_assert((each(s, "batch_squares", "total", rstd_from_squares) > 0) == batch_is_cut(scene));
    ck_assert((each(s, "pixel_sum", "total", pool_from_sum) > 0) == (global && spatial));
    ck_assert((each(s, "norm_sum", "received", output_from_norm_sum) > 0) == scene->norm_sum);
    ck_assert((each(s, "places", "received", output_from_places) > 0) ==
              (spatial && scene->network == 0));
    ck_assert_uint_gt(each(s, "loss_sums", "total", loss_from_sum), 0);
    ck_assert_uint_gt(each(s, "squares", "total", norm_from_squares), 0);
}

/* dx of a layer whose channels are cut. */
static void sums_over_channels(const seen *s, const struct net_scene *scene)
{
    size_t found = 0;
    for (int r = 0; r < s->ranks; r++)
        for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
            const char *text = ls_safetensors_at(s->files[r], t)->name;
            found += strncmp(text, "step0/d.", 8) == 0 && strstr(text, ".total") != NULL;
        }
    ck_assert((found > 0) == scene->channels);
}

START_TEST(crossings)
{
    const struct net_scene *scene = &scenes[_i];
    seen s;
    net_run r;
    memset(&s, 0, sizeof s);
    net_run_begin(&r, scene->network, scene->batch, 1);
    r.run.layout = net_layout_of(scene->layout);
    (void)net_dump(&r, scratch_path("golden"), false, true);
    s.config = r.config;
    read_run(&s, ls_layout_ranks(&r.run.layout));
    every_call_has_its_tensors(&s, scene);
    expect_whole(&s, scene);
    every_gradient_is_summed(&s, scene);
    what_sums_make(&s, scene);
    sums_over_channels(&s, scene);
    end(&s);
    net_run_end(&r);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_crossings", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, crossings, 0, SCENES);
    return run_tests();
}
