/* bench_products.c - matrix products and convolutions under the contract, one thread. */
#include <stdlib.h>

#include "bench.h"
#include "base/allocate.h"

ls_status bench_numbers(ls_real **ret_numbers, size_t count)
{
    ls_status status = LS_OK;
    ls_real *x = NULL;
    LS_ROOM(x, count + 1);
    for (size_t i = 0; i < count; i++) x[i] = (ls_real)((double)(i * 7919 % 1000) / 500.0 - 1.0);
    *ret_numbers = x;
exit:
    return status;
}

/* ---- products */

typedef struct product {
    const char *name;
    ls_trans ta, tb;
    size_t m, n;
    ls_axis k;
} product;

typedef struct product_job {
    const product *shape;
    ls_real *a, *b, *c;
} product_job;

static ls_status multiply(const product_job *j, ls_engine engine)
{
    const product *p = j->shape;
    const size_t k = ls_axis_extent(p->k);
    return ls_gemm(engine, p->ta, p->tb, ls_axis_whole(p->m), ls_axis_whole(p->n), p->k, j->a,
                   p->ta ? p->m : k, j->b, p->tb ? k : p->n, j->c, p->n, false);
}

static ls_status multiply_portable(void *context)
{
    return multiply(context, LS_ENGINE_PORTABLE);
}

static ls_status multiply_plain(void *context)
{
    return multiply(context, LS_ENGINE_PLAIN);
}

/* Of a layer of GPT-2 124M, 512 tokens. */
#define bench_gemm LS_TYPED(bench_gemm)
ls_status bench_gemm(bench *b)
{
    static const product shapes[] = {
        {"qkv", LS_NO_TRANS, LS_NO_TRANS, 512, 2304, {1, 768}},
        {"scores", LS_NO_TRANS, LS_TRANS, 512, 512, {1, 64}},
        {"attention out", LS_NO_TRANS, LS_NO_TRANS, 512, 768, {12, 64}},
        {"mlp up", LS_NO_TRANS, LS_NO_TRANS, 512, 3072, {1, 768}},
        {"mlp down", LS_NO_TRANS, LS_NO_TRANS, 512, 768, {12, 256}},
        {"mlp down dx", LS_NO_TRANS, LS_TRANS, 512, 3072, {1, 768}},
        {"mlp up dw", LS_TRANS, LS_NO_TRANS, 768, 3072, {4, 128}},
    };
    ls_status status = LS_OK;
    product_job j = {0};
    const bool plain = ls_engine_available(LS_ENGINE_PLAIN);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const product *p = j.shape = &shapes[i];
        const size_t k = ls_axis_extent(p->k);
        bench_times t;
        char what[96];
        LS_TRY(bench_numbers(&j.a, p->m * k));
        LS_TRY(bench_numbers(&j.b, k * p->n));
        LS_TRY(bench_numbers(&j.c, p->m * p->n));
        LS_TRY(bench_compare(b, BENCH_CPU_TIME, multiply_portable, plain ? multiply_plain : NULL,
                             &j, &t));
        snprintf(what, sizeof what, "%s, %zu x %zu x %zu", p->name, p->m, p->n, k);
        LS_TRY(bench_row(b, what, 2.0 * (double)p->m * (double)p->n * (double)k / t.ns, "GFLOP/s",
                         t.ratio, "a plain product of OpenBLAS"));
        free(j.a), free(j.b), free(j.c);
        j = (product_job){0};
    }
exit:
    free(j.a), free(j.b), free(j.c);
    return status;
}

/* ---- convolutions */

typedef struct layer {
    const char *name;
    size_t image, kernel, stride, in, out;
} layer;

enum { GRID = 4, GRANULES = GRID * GRID }; /* of pixels: up to 4 x 4 ranks */

typedef struct layer_job {
    ls_conv2d conv;
    size_t images, n; /* n: pixels of all outputs */
    ls_image_layout x_layout, y_layout;
    ls_conv2d_piece pieces[GRANULES];
    ls_real *x, *y, *w, *dw, *scratch, *columns;
} layer_job;

static ls_status forward(void *context)
{
    const layer_job *j = context;
    return ls_conv2d_forward(LS_ENGINE_PORTABLE, &j->conv, j->images, j->y, j->y_layout,
                             j->y_layout.held, j->x, j->x_layout, j->w, ls_conv2d_depth(&j->conv),
                             NULL, j->scratch);
}

static ls_status backward(void *context)
{
    const layer_job *j = context;
    return ls_conv2d_backward(LS_ENGINE_PORTABLE, &j->conv, j->images, j->x, j->x_layout,
                              j->x_layout.held, j->y, j->y_layout, j->w, ls_conv2d_depth(&j->conv),
                              j->scratch);
}

static ls_status weight(void *context)
{
    const layer_job *j = context;
    ls_status status = LS_OK;
    for (size_t n = 0; n < j->images; n++)
        LS_TRY(ls_conv2d_weight_node(LS_ENGINE_PORTABLE, &j->conv, j->dw, ls_conv2d_depth(&j->conv),
                                     j->pieces, GRANULES, j->y + n * j->y_layout.stride,
                                     j->y_layout, j->x + n * j->x_layout.stride, j->x_layout,
                                     j->scratch));
exit:
    return status;
}

/* The product that a convolution comes to, its columns being there. */
static ls_status same_product(void *context)
{
    const layer_job *j = context;
    const size_t depth = ls_conv2d_depth(&j->conv), K = j->conv.in_granules;
    return ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS,
                   ls_axis_whole(j->conv.out_channels), ls_axis_whole(j->n),
                   ls_axis_of(K, depth / K), j->w, depth, j->columns, j->n, j->y, j->n, false);
}

static void free_layer(layer_job *j)
{
    free(j->x), free(j->y), free(j->w), free(j->dw), free(j->scratch), free(j->columns);
    *j = (layer_job){0};
}

static ls_status make_layer(layer_job *j, const layer *l, size_t images)
{
    ls_status status = LS_OK;
    const size_t pad = (l->kernel - 1) / 2, K = 4; /* granules of channels */
    j->conv = (ls_conv2d){
        {l->image, l->image, l->kernel, l->kernel, l->stride, l->stride, 1, 1, pad, pad, pad, pad},
        1,
        l->in,
        l->out,
        K,
        K,
        {GRID, GRID}};
    const ls_rectangle in = ls_window_inputs(&j->conv.window);
    const ls_rectangle out = ls_window_outputs(&j->conv.window);
    j->images = images;
    j->x_layout = (ls_image_layout){in, l->in * ls_rectangle_count(in)};
    j->y_layout = (ls_image_layout){out, l->out * ls_rectangle_count(out)};
    j->n = images * ls_rectangle_count(out);
    for (size_t g = 0; g < GRANULES; g++) { /* halves of halves: T(16) */
        j->pieces[g] = (ls_conv2d_piece){
            0, ls_pixel_granule(j->conv.grid, out.height, out.width, g / GRID, g % GRID), 0};
        for (size_t k = g + 1; k % 2 == 0; k /= 2) j->pieces[g].closes++;
    }
    const size_t depth = ls_conv2d_depth(&j->conv);
    const size_t one = ls_conv2d_scratch(&j->conv, images);
    const size_t other = ls_conv2d_node_scratch(&j->conv, j->pieces, GRANULES);
    LS_TRY(bench_numbers(&j->x, images * j->x_layout.stride));
    LS_TRY(bench_numbers(&j->y, images * j->y_layout.stride));
    LS_TRY(bench_numbers(&j->w, l->out * depth));
    LS_TRY(bench_numbers(&j->dw, l->out * depth));
    LS_TRY(bench_numbers(&j->scratch, one > other ? one : other));
    LS_TRY(bench_numbers(&j->columns, depth * j->n));
exit:
    return status;
}

/* Of ResNet-50: each stage's 3x3, with stride 2 too, and its 1x1. test/bench has all. */
#define bench_conv2d LS_TYPED(bench_conv2d)
ls_status bench_conv2d(bench *b)
{
    static const layer layers[] = {
        {"conv2 3x3", 56, 3, 1, 64, 64},     {"conv2 1x1", 56, 1, 1, 64, 256},
        {"conv3 3x3/2", 56, 3, 2, 128, 128}, {"conv3 3x3", 28, 3, 1, 128, 128},
        {"conv3 1x1/2", 56, 1, 2, 256, 512}, {"conv3 1x1", 28, 1, 1, 512, 128},
        {"conv4 3x3/2", 28, 3, 2, 256, 256}, {"conv4 3x3", 14, 3, 1, 256, 256},
        {"conv4 1x1", 14, 1, 1, 1024, 256},  {"conv5 3x3", 7, 3, 1, 512, 512},
        {"conv5 1x1", 7, 1, 1, 512, 2048},
    };
    static const struct {
        const char *name;
        bench_call *call;
    } ways[] = {{"forward", forward}, {"dx", backward}, {"dW", weight}};
    ls_status status = LS_OK;
    layer_job j = {0};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        const layer *l = &layers[i];
        LS_TRY(make_layer(&j, l, b->images));
        const double flops = 2.0 * (double)l->out * (double)ls_conv2d_depth(&j.conv) * (double)j.n;
        for (size_t w = 0; w < 3; w++) {
            bench_times t;
            char what[96];
            LS_TRY(bench_compare(b, BENCH_CPU_TIME, ways[w].call, same_product, &j, &t));
            snprintf(what, sizeof what, "%s %s, %zu to %zu channels, %zu image%s", l->name,
                     ways[w].name, l->in, l->out, b->images, b->images == 1 ? "" : "s");
            LS_TRY(
                bench_row(b, what, flops / t.ns, "GFLOP/s", t.ratio, "the same product by gemm"));
        }
        free_layer(&j);
    }
exit:
    free_layer(&j);
    return status;
}
