/* Every tensor of every model, from files: right in every format, and different once it is
 * multiplied, zeroed or has two rows exchanged; with everything given, and with itself and the
 * losses only. What is zero on paper is the only exception, and is listed. */
#include <math.h>

#include "lockstep/model/images.h"
#include "lockstep/model/text.h"
#include "golden/bounds.h"
#include "check/check_parts.h"
#include "golden/dump_fixture.h"
#include "run_tests.h"

/* A golden directory with its truth, and a candidate that is the truth in some format. */
typedef struct world {
    ls_config config;
    ls_text text;
    ls_images images;
    ls_golden *golden;
    ls_truth *truths[LS_CHECK_PRECISIONS]; /* found once per world */
    ls_dtype format;
    void **bytes;
    ls_candidate candidate;
    ls_judgement *judgement;
} world;

/* ---- models ---- */

enum { MODELS_HERE = 5 };
static const char *const names[MODELS_HERE] = {"gpt2-nano", "llama-nano", "bert-nano",
                                               "alexnet-nano", "resnet-nano"};

static bool is_net(int of)
{
    return fixture_config(names[of]).kind == LS_MODEL_NET;
}

static void dump_model(world *w, uint64_t seed, bool dropout, uint64_t steps)
{
    ls_dump_options options = dump_plainly();
    ls_run run = fixture_run(&w->config, &w->text, steps);
    const ls_net *net = &w->config.net;
    options.truth = true;
    run.seed = seed;
    run.serial = false;
    if (w->config.kind == LS_MODEL_NET) {
        ASSERT_OK(ls_images_draw("the drawn images", 1, 40, net->channels, net->height, net->width,
                                 net->classes, &w->images));
        run.images = &w->images;
    } else if (!dropout) {
        run.config.dropout = 0;
    }
    dump_ok(&run, scratch_path("golden"), &options);
    w->golden = open_ok(scratch_path("golden"));
}

static void world_begin(world *w, int of, uint64_t seed, bool dropout, uint64_t steps)
{
    memset(w, 0, sizeof *w);
    w->config = fixture_config(names[of]);
    w->text = fixture_text();
    if (w->config.kind == LS_MODEL_NET) {
        w->config.batch = 2;
    } else {
        w->config.layers = 2;
        w->config.heads = 4;
        w->config.kv_heads = of == 1 ? 2 : 4;
        w->config.d_model = 24;
        w->config.d_ff = 40;
        w->config.seq = 9;
        w->config.vocab = 263;
        w->config.batch = 3;
    }
    dump_model(w, seed, dropout, steps);
}

/* ---- candidates ---- */

static size_t bytes_of(ls_dtype dtype)
{
    return ls_dtype_bytes(dtype);
}

/* Numbers of the format into its bytes. */
static void write_numbers(ls_dtype dtype, const double *values, size_t count, void *into)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == LS_F64) {
            ((double *)into)[i] = values[i];
        } else if (dtype == LS_F32) {
            ((float *)into)[i] = (float)values[i];
        } else if (dtype == LS_BF16) {
            const float value = (float)values[i];
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            ((uint16_t *)into)[i] = (uint16_t)(bits >> 16);
        } else {
            const uint16_t sign = signbit(values[i]) ? 0x8000 : 0;
            const double size = fabs(values[i]);
            int exponent;
            const double fraction = frexp(size, &exponent);
            const int half = size < 0x1p-14 ? (int)(size * 0x1p24)
                             : isinf(size)
                                 ? 0x7c00
                                 : ((exponent + 14) << 10) + (int)((2 * fraction - 1) * 1024);
            ((uint16_t *)into)[i] = (uint16_t)(sign | (uint16_t)half);
        }
    }
}

/* What the candidate has of tensor i; values in binary64, rounded here. */
static void set_tensor(world *w, size_t i, double *values)
{
    const ls_golden_tensor *golden = &w->golden->tensors[i];
    ls_check_round(w->format, values, golden->count);
    write_numbers(w->format, values, golden->count, w->bytes[i]);
}

static double *copy_of_truth(const world *w, size_t i)
{
    const ls_golden_tensor *golden = &w->golden->tensors[i];
    double *copy = malloc((golden->count + 1) * sizeof *copy);
    memcpy(copy, golden->truth, golden->count * sizeof *copy);
    return copy;
}

static void candidate_begin(world *w, ls_dtype format)
{
    const size_t count = w->golden->count;
    w->format = format;
    w->bytes = calloc(count + 1, sizeof *w->bytes);
    w->candidate = (ls_candidate){.path = "candidate", .count = count};
    w->candidate.tensors = calloc(count + 1, sizeof *w->candidate.tensors);
    for (size_t i = 0; i < count; i++) {
        const ls_golden_tensor *golden = &w->golden->tensors[i];
        double *values = copy_of_truth(w, i);
        w->bytes[i] = malloc(golden->count * bytes_of(format) + 8);
        set_tensor(w, i, values);
        free(values);
        w->candidate.tensors[i] = (ls_candidate_tensor){.name = golden->name,
                                                        .golden = golden,
                                                        .dtype = format,
                                                        .values = w->bytes[i],
                                                        .ranks = 1};
    }
}

static void candidate_end(world *w)
{
    ls_judgement_destroy(&w->judgement);
    for (size_t i = 0; i < w->golden->count; i++) free(w->bytes[i]);
    free(w->bytes);
    free(w->candidate.tensors);
}

static void world_end(world *w)
{
    for (int i = 0; i < LS_CHECK_PRECISIONS; i++) ls_truth_destroy(&w->truths[i]);
    ls_golden_close(&w->golden);
    ls_images_free(&w->images);
}

/* only: NULL for all. */
static void judge(world *w, const ls_candidate *candidate, const char *only)
{
    const ls_check_options options = {.only = only, .truths = w->truths, .threads = 1};
    ls_judgement_destroy(&w->judgement);
    ASSERT_OK(ls_check(&w->judgement, w->golden, candidate, &options));
}

/* ---- right ---- */

static const ls_dtype formats[] = {LS_F32, LS_BF16, LS_F16, LS_F64};

START_TEST(the_truth_is_right_in_every_format)
{
    for (uint64_t seed = 1; seed <= (is_net(_i) ? 1 : 2); seed++)
        for (int dropout = is_net(_i); dropout < 2; dropout++) {
            world w;
            world_begin(&w, _i, seed, dropout, 2);
            for (size_t f = 0; f < 4; f++) {
                candidate_begin(&w, formats[f]);
                judge(&w, &w.candidate, NULL);
                for (size_t i = 0; i < w.judgement->count; i++) {
                    const ls_judged *j = &w.judgement->tensors[i];
                    ck_assert_msg(j->verdict != LS_DIFFERENT_TENSOR && !j->unjudged,
                                  "%s, seed %d, %s: %s: local %s, error %g of %g, rms %g of %g",
                                  names[_i], (int)seed, ls_dtype_name(formats[f]), j->golden->name,
                                  ls_local_name(j->local), j->error, j->bound, j->error_rms,
                                  j->bound_rms);
                }
                candidate_end(&w);
            }
            world_end(&w);
        }
}
END_TEST

/* ---- wrong ---- */

typedef enum change { TIMES_1_01, TIMES_1_1, ZERO, EXCHANGED, CHANGES } change;
static const char *const change_names[] = {"times 1.01", "times 1.1", "zero", "rows exchanged"};

static double distance(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* Two rows of the last dimension, those that differ most from the first; of a vector two elements.
 * false: they hardly differ, as do the scales of a norm. */
static bool exchange_rows(const ls_graph_node *node, double *values, size_t count)
{
    const size_t width = node->n_dims > 1 ? node->dims[node->n_dims - 1] : 1;
    size_t other = 0;
    double most = 0, size = 0;
    for (size_t r = 1; r < count / width; r++) {
        const double apart = distance(values, values + r * width, width);
        if (apart > most) most = apart, other = r;
    }
    for (size_t i = 0; i < width; i++) {
        const double value = values[i], with = values[other * width + i];
        size += value * value + with * with;
        values[i] = with;
        values[other * width + i] = value;
    }
    return most * most > 0.1 * size;
}

/* false: the tensor stays as it is. */
static bool change_values(change what, const ls_graph_node *node, double *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(values[i]));
    if (most == 0) return false;
    if (what == EXCHANGED) return exchange_rows(node, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] *= what == ZERO ? 0 : what == TIMES_1_1 ? 1.1 : 1.01;
    return true;
}

static bool is_loss(const char *name)
{
    return strstr(name, "loss") != NULL && strstr(name, "d.") == NULL;
}

/* The candidate's tensor i and its losses. */
static ls_candidate with_losses(const world *w, size_t i)
{
    ls_candidate few = w->candidate;
    few.tensors = calloc(w->golden->count + 1, sizeof *few.tensors);
    few.count = 0;
    for (size_t k = 0; k < w->golden->count; k++)
        if (k == i || is_loss(w->golden->tensors[k].name))
            few.tensors[few.count++] = w->candidate.tensors[k];
    return few;
}

/* In bf16 a whole run's rounding may change a gradient by a tenth, and of a deep network
 * everything: then a tensor whose inputs are not there is said to be not judged. Of a transformer
 * that holds for a tenth only; zeros and rows are seen. */
static bool is_seen(const world *w, const ls_judged *j, change what)
{
    const bool net = w->config.kind == LS_MODEL_NET;
    if (j->verdict == LS_DIFFERENT_TENSOR) return true;
    return w->format != LS_F32 && j->unjudged && (net || what == TIMES_1_1);
}

/* Changes that were to be seen and were not. */
static size_t failures;
static bool exempt[4096]; /* tensors that said that they are zero on paper */

static void expect_different(world *w, size_t i, change what, bool all)
{
    const char *name = w->golden->tensors[i].name;
    ls_candidate few = with_losses(w, i);
    judge(w, all ? &w->candidate : &few, name);
    const ls_judged *j = ls_judgement_find(w->judgement, name);
    exempt[i] = j->zero_on_paper;
    if (!j->zero_on_paper && (!is_seen(w, j, what) || j->local == LS_LOCAL_WITHIN)) {
        failures++;
        fprintf(stderr,
                "%s %s, %s, %s, %s: %s, local %s (%g of %g), error %g of %g, rms %g of %g, %g\n",
                w->config.name, ls_dtype_name(w->format), name, change_names[what],
                all ? "all given" : "with losses", ls_verdict_name(j->verdict),
                ls_local_name(j->local), j->local_error, j->local_bound, j->error, j->bound,
                j->error_rms, j->bound_rms, j->size);
    }
    free(few.tensors);
}

static void change_every_tensor(world *w, ls_dtype format, bool (*wanted)(const char *name))
{
    candidate_begin(w, format);
    for (size_t i = 0; i < w->golden->count; i++) {
        const ls_golden_tensor *golden = &w->golden->tensors[i];
        if (wanted && !wanted(golden->name)) continue;
        for (int what = format == LS_F32 ? TIMES_1_01 : TIMES_1_1; what < CHANGES; what++) {
            double *values = copy_of_truth(w, i);
            if (change_values((change)what, &w->golden->graph->nodes[golden->node], values,
                              golden->count)) {
                set_tensor(w, i, values);
                expect_different(w, i, (change)what, true);
                expect_different(w, i, (change)what, false);
            }
            free(values);
        }
        double *values = copy_of_truth(w, i);
        set_tensor(w, i, values);
        free(values);
    }
    candidate_end(w);
}

/* What is zero on paper: softmax does not see a bias of keys that are not turned by position (Llama
 * has none), and a batch norm not the bias before it, which these networks do not have. */
static bool is_zero_on_paper(const world *w, const char *name)
{
    const char *bare = strchr(name, '/') + 1;
    if (w->config.kind == LS_MODEL_NET) return false;
    return strstr(bare, "attention.key.bias") != NULL && strncmp(bare, "d.", 2) != 0;
}

START_TEST(a_changed_tensor_is_different)
{
    world w;
    failures = 0;
    world_begin(&w, _i / 2, 3, true, 2);
    ck_assert_uint_lt(w.golden->count, sizeof exempt / sizeof *exempt);
    memset(exempt, 0, sizeof exempt);
    change_every_tensor(&w, _i % 2 ? LS_BF16 : LS_F32, NULL);
    ck_assert_uint_eq(failures, 0);
    for (size_t i = 0; i < w.golden->count; i++)
        ck_assert_msg(exempt[i] == is_zero_on_paper(&w, w.golden->tensors[i].name), "%s: %d",
                      w.golden->tensors[i].name, exempt[i]);
    world_end(&w);
}
END_TEST

/* ---- five million parameters ---- */

/* One tensor of each kind, and the norm, which is a sum over all of them. */
static bool is_of_each_kind(const char *name)
{
    static const char *const of[] = {"step0/layers.0.query",
                                     "step0/layers.0.probabilities",
                                     "step0/layers.0.after_attention",
                                     "step0/layers.1.activation",
                                     "step0/final_norm",
                                     "step0/loss",
                                     "step0/d.layers.0.norm1",
                                     "step0/grad.layers.0.mlp.up.weight",
                                     "step0/grad.token_embedding.weight",
                                     "step0/norm",
                                     "step0/clipped.layers.1.mlp.down.bias",
                                     "step0/param.layers.1.norm2.weight",
                                     "step0/param.layers.0.attention.value.weight"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(name, of[i]) == 0) return true;
    return false;
}

START_TEST(a_changed_tensor_of_a_large_model_is_different)
{
    world w;
    failures = 0;
    memset(&w, 0, sizeof w);
    w.config = fixture_config("gpt2-nano");
    w.text = fixture_text();
    w.config.layers = 2;
    w.config.heads = 8;
    w.config.kv_heads = 8;
    w.config.d_model = 448;
    w.config.d_ff = 1792;
    w.config.seq = 12;
    w.config.batch = 1;
    w.config.vocab = 512;
    dump_model(&w, 3, true, 1);
    ck_assert_uint_gt(ls_param_table_elements(w.golden->table), 5000000);
    change_every_tensor(&w, _i % 2 ? LS_BF16 : LS_F32, is_of_each_kind);
    ck_assert_uint_eq(failures, 0);
    world_end(&w);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("every_tensor", 600);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, the_truth_is_right_in_every_format, 0, MODELS_HERE);
    tcase_add_loop_test(tests, a_changed_tensor_of_a_large_model_is_different, 0, 2);
    tcase_add_loop_test(tests, a_changed_tensor_is_different, 0, 2 * MODELS_HERE);
    return run_tests();
}
