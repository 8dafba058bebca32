/* test_communication.c - every call of a layout that crosses ranks, with what goes in and what
 * comes out: the list of calls says in which tensors of the ranks' files. What was handed into a
 * reduction, added in the order of its tree, is to the bit what each rank got; a gather gives the
 * shares; what is received was sent; and totals are the whole tensors of the run. EXACT throughout.
 */
#include "lockstep/numerics/tree.h"
#include "golden/communication_fixture.h"
#include "run_tests.h"

static const struct scene scenes[] = {
    {GPT2, {2, 1, 3, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE}, false},
    {GPT2, {1, 2, 2, false, 2, 2, LS_INTERLEAVED, LS_RECOMPUTE_LAYER}, true},
    {LLAMA, {2, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_SELECTIVE}, false},
    {LLAMA, {1, 1, 6, true, 1, 2, LS_1F1B, LS_RECOMPUTE_STAGE}, false},
    {BERT_POST, {2, 2, 2, true, 1, 2, LS_1F1B, LS_RECOMPUTE_LAYER}, false},
    {BERT_PRE, {3, 1, 2, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE}, false},
    {ROW_FIRST, {2, 1, 3, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE}, false},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

/* Every share stands at its place in what was gathered, and all of that is somebody's. */
static void expect_gathered(const seen *s, const call *c)
{
    const json_t *out = names(c, "out");
    static parts p;
    ck_assert_uint_eq(json_array_size(out), 1);
    const block all = block_of(s, c->rank, json_string_value(json_array_get(out, 0)), "gathered");
    const size_t bytes = ls_dtype_bytes(all.info->dtype);
    collect(s, c, all.base, "share", &p);
    for (size_t i = 0; i < all.info->elements; i++) {
        size_t found = 0;
        for (size_t n = 0; n < p.count; n++) {
            const size_t place = place_in(&all, i, &p.of[n], NULL);
            if (place == SIZE_MAX) continue;
            const number x = at(all.info, i), y = at(p.of[n].info, place);
            ck_assert_msg(memcmp(&x, &y, bytes) == 0, "%s: element %zu", all.base, i);
            found++;
        }
        ck_assert_msg(found == 1, "%s: element %zu is in %zu shares", all.base, i, found);
    }
}

/* What has no tensors: the end of a sending, and the comparison of batches by their digests. */
static bool has_tensors(const call *c)
{
    return strcmp(c->call, "send_end") != 0 &&
           !(strcmp(c->task, "batch") == 0 && strcmp(c->call, "all_gather") == 0);
}

static void every_call_has_its_tensors(const seen *s, const struct scene *scene)
{
    size_t sums = 0, gathers = 0, messages = 0, elements = 0;
    for (size_t i = 0; i < s->count; i++) {
        const call *c = &s->calls[i];
        const bool out = strcmp(c->call, "send_begin") != 0, in = strcmp(c->call, "receive") != 0;
        if (!has_tensors(c)) continue;
        if (out && json_array_size(names(c, "out")) == 0)
            ck_abort_msg("nothing comes out of %s", json_dumps(c->line, 0));
        /* A broadcast has one root. */
        if (in && strcmp(c->call, "broadcast") != 0 && json_array_size(names(c, "in")) == 0)
            ck_abort_msg("nothing goes into %s", json_dumps(c->line, 0));
        if (is_reducing(c)) {
            elements += expect_sums(s, c);
            sums++;
        } else if (c->group) {
            expect_gathered(s, c);
            gathers++;
        } else if (!in) {
            expect_sent(s, c);
            messages++;
        }
    }
    const grid_of *grid = &scene->grid;
    ck_assert_uint_gt(sums, 0);
    ck_assert_uint_gt(elements, 1000);
    ck_assert(gathers > 0 || (!grid->sp && grid->pp == 1));
    ck_assert((messages > 0) == (grid->pp > 1));
}

/* All of what a call sums is there: as many bytes as it counts, but for padding of the vocabulary,
 * which is shown nowhere. */
static void nothing_is_left_out(const seen *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const call *c = &s->calls[i];
        const json_t *in = names(c, "in");
        json_int_t bytes = 0;
        if (!is_reducing(c) || strcmp(c->group, "dp") == 0) continue;
        for (size_t n = 0; n < json_array_size(in); n++) {
            const block b =
                block_of(s, c->rank, json_string_value(json_array_get(in, n)), "partial");
            bytes += (json_int_t)(b.info->elements * ls_dtype_bytes(b.info->dtype));
        }
        if (bytes != c->bytes)
            ck_abort_msg("%d bytes are shown of %s", (int)bytes, json_dumps(c->line, 0));
    }
}

/* ---- totals are the run's tensors ---- */

/* The dimensions of the whole tensor; NULL: a total is not it. Of blocks whose norms stand behind,
 * what they read goes by other names; before the bias it is no tensor. */
static const ls_golden_tensor *whole_of(const seen *s, const char *base)
{
    const ls_tensor_name name = ls_tensor_name_parse(base);
    const int node = ls_graph_find(s->golden->graph, name.rest);
    const bool of_block = strstr(name.rest, ".norm1") || strstr(name.rest, ".norm2");
    if (node < 0 || strncmp(name.rest, "d.", 2) != 0) return NULL;
    if (of_block && s->config.norm_place == LS_NORM_POST) return NULL;
    return ls_golden_find(s->golden, 0, node);
}

static void totals_are_the_gradients(const seen *s)
{
    size_t found = 0;
    for (size_t i = 0; i < s->count; i++) {
        const json_t *out = names(&s->calls[i], "out");
        for (size_t o = 0; is_reducing(&s->calls[i]) && o < json_array_size(out); o++) {
            const block total =
                block_of(s, s->calls[i].rank, json_string_value(json_array_get(out, o)), "total");
            const ls_golden_tensor *whole = whole_of(s, total.base);
            if (!whole) continue;
            const size_t *dims = s->golden->graph->nodes[whole->node].dims;
            for (size_t e = 0; e < total.info->elements; e++) {
                const float got = at(total.info, e).f32;
                ck_assert_msg(memcmp(&got,
                                     (const float *)whole->values + place_in(&total, e, NULL, dims),
                                     sizeof got) == 0,
                              "%s: element %zu", total.base, e);
            }
            found++;
        }
    }
    ck_assert_uint_gt(found, 0);
}

/* What data-parallel replicas get is the gradient; a tied one's, that of the use. -0 becomes +0 in
 * the end. */
static void totals_of_replicas_are_the_gradients(const seen *s, const struct scene *scene)
{
    size_t found = 0;
    for (int r = 0; r < s->ranks; r++)
        for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
            const char *text = ls_safetensors_at(s->files[r], t)->name;
            if (strncmp(text, "step0/grad.", 11) != 0 || !strstr(text, ".total")) continue;
            const block total = block_of(s, r, text, "total");
            const int node = ls_graph_find(s->golden->graph, total.base + strlen("step0/"));
            ck_assert_msg(node >= 0, "%s", total.base);
            const ls_golden_tensor *whole = ls_golden_find(s->golden, 0, node);
            const size_t *dims = s->golden->graph->nodes[node].dims;
            for (size_t e = 0; e < total.info->elements; e++) {
                const float got = at(total.info, e).f32;
                const float want = ((const float *)whole->values)[place_in(&total, e, NULL, dims)];
                ck_assert_msg(got == want, "%s: element %zu", total.base, e);
            }
            found++;
        }
    ck_assert((found > 0) == (scene->grid.dp > 1));
}

/* A norm's gradient under sequence parallelism: T over the sequences of what their tokens gave. */
static void sums_over_token_shares_make_the_gradient(const seen *s, const struct scene *scene)
{
    size_t found = 0;
    const size_t B = 7, D = s->config.d_model;
    float *sequences = malloc(B * D * sizeof *sequences), *sum = malloc(D * sizeof *sum);
    for (size_t n = 0; n < s->golden->graph->count; n++) {
        const ls_graph_node *node = &s->golden->graph->nodes[n];
        size_t rows = 0;
        if (strncmp(node->name, "grad.", 5) != 0 || node->n_dims != 1) continue;
        for (int r = 0; r < s->ranks; r++)
            for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
                const ls_tensor_info *info = ls_safetensors_at(s->files[r], t);
                if (strncmp(info->name, "step0/mb", 8) != 0 || !strstr(info->name, "/grad.") ||
                    !strstr(info->name, ".0.total"))
                    continue;
                const block total = block_of(s, r, info->name, "total");
                if (strcmp(ls_tensor_name_parse(total.base).rest, node->name) != 0) continue;
                ck_assert_uint_le(total.lo[0] + info->dims[0], B);
                memcpy(sequences + total.lo[0] * D, info->data, info->elements * sizeof *sequences);
                rows += info->dims[0];
            }
        if (rows == 0) continue;
        ck_assert_uint_eq(rows, B * (size_t)scene->grid.tp); /* every member has the total */
        ls_tree_sum_rows_f32(sum, sequences, ls_axis_whole(B), D, D);
        ck_assert_mem_eq(sum, ls_golden_find(s->golden, 0, (int)n)->values, D * sizeof *sum);
        found++;
    }
    ck_assert((found > 0) == scene->grid.sp);
    free(sequences);
    free(sum);
}

static float number_of(const seen *s, int rank, const char *name, size_t i)
{
    const ls_tensor_info *info = ls_safetensors_find(s->files[rank], name);
    ck_assert_msg(info != NULL, "%s", name);
    return info->dtype == LS_I64 ? (float)at(info, i).i64 : at(info, i).f32;
}

/* The numbers of the loss fit together: per token log(sum) + largest - target, up to rounding; of
 * the step the sum over the count. */
static void the_loss_from_its_parts(const seen *s, const struct scene *scene)
{
    size_t tokens = 0;
    for (int r = 0; r < s->ranks; r++)
        for (size_t t = 0; t < ls_safetensors_count(s->files[r]); t++) {
            const char *name = ls_safetensors_at(s->files[r], t)->name;
            char other[NAME];
            const char *base = strstr(name, "sum_exp.0.total");
            if (!base) continue;
            const block sum = block_of(s, r, name, "total");
            const ls_golden_tensor *losses = tensor_ok(s->golden, 0, "token_loss");
            for (size_t i = 0; i < sum.info->elements; i++, tokens++) {
                snprintf(other, sizeof other, "%.*slargest_logit.0.total", (int)(base - name),
                         name);
                const float most = number_of(s, r, other, i);
                snprintf(other, sizeof other, "%.*starget_logit.0.total", (int)(base - name), name);
                const float target = number_of(s, r, other, i);
                const float loss =
                    ((const float *)losses
                         ->values)[place_in(&sum, i, NULL, (const size_t[]){7, s->config.seq})];
                if (loss == 0) continue; /* no target */
                const double want =
                    log((double)at(sum.info, i).f32) + (double)most - (double)target;
                ck_assert_msg(fabs((double)loss - want) <= 1e-5, "token %zu: %g, %g", i,
                              (double)loss, want);
            }
        }
    ck_assert((tokens > 0) != scene->gathered_loss);
    if (scene->grid.dp > 1) { /* the last rank is of the last stage */
        const float loss = *(const float *)tensor_ok(s->golden, 0, "loss")->values;
        float mean = number_of(s, s->ranks - 1, "step0/loss_sums.0.total", 0) /
                     number_of(s, s->ranks - 1, "step0/target_counts.0.total", 0);
        if (s->config.sentence_order)
            mean += number_of(s, s->ranks - 1, "step0/loss_sums.0.total", 1) /
                    number_of(s, s->ranks - 1, "step0/target_counts.0.total", 1);
        ck_assert_msg(mean == loss, "%a, %a", (double)mean, (double)loss);
    }
}

START_TEST(crossings)
{
    const struct scene *scene = &scenes[_i];
    seen s;
    begin(&s, scene);
    every_call_has_its_tensors(&s, scene);
    nothing_is_left_out(&s);
    totals_are_the_gradients(&s);
    totals_of_replicas_are_the_gradients(&s, scene);
    sums_over_token_shares_make_the_gradient(&s, scene);
    the_loss_from_its_parts(&s, scene);
    end(&s);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("crossings", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, crossings, 0, SCENES);
    return run_tests();
}
