/* bench_conv2d.c - speed of convolution on the shapes of ResNet-50, one thread.
 *
 * Prints GFLOP/s of the convolution forward and backward and of the weight's gradient (all leaves
 * of 4 x 4 granules, image by image) under the portable engine, of the matrix product
 * that the forward pass amounts to (m = filters, n = pixels of all images, k = channels x kernel),
 * and the ratios: GFLOP/s the best of several rounds by CPU time, the candidates taking turns, a
 * ratio the median of the rounds' ratios. Backward and weight count the forward pass's flops.
 * Arguments: a shape whose name contains any of them is measured; none: all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "lockstep/kernels/conv2d.h"

typedef struct shape {
    const char *name;
    size_t image, kernel, stride, in, out;
} shape;

/* Every convolution of the network: "/2" is stride 2, which either the 1x1 or the 3x3 of a stage's
 * first block has (the paper and later implementations differ), and its shortcut. */
static const shape shapes[] = {
    {"conv1 7x7/2", 224, 7, 2, 3, 64},
    {"conv2 1x1", 56, 1, 1, 64, 64},
    {"conv2 3x3", 56, 3, 1, 64, 64},
    {"conv2 1x1 out", 56, 1, 1, 64, 256},
    {"conv2 1x1 in", 56, 1, 1, 256, 64},
    {"conv3 1x1 first", 56, 1, 1, 256, 128},
    {"conv3 1x1/2 first", 56, 1, 2, 256, 128},
    {"conv3 3x3/2", 56, 3, 2, 128, 128},
    {"conv3 3x3", 28, 3, 1, 128, 128},
    {"conv3 1x1/2 short", 56, 1, 2, 256, 512},
    {"conv3 1x1 out", 28, 1, 1, 128, 512},
    {"conv3 1x1 in", 28, 1, 1, 512, 128},
    {"conv4 1x1 first", 28, 1, 1, 512, 256},
    {"conv4 1x1/2 first", 28, 1, 2, 512, 256},
    {"conv4 3x3/2", 28, 3, 2, 256, 256},
    {"conv4 3x3", 14, 3, 1, 256, 256},
    {"conv4 1x1/2 short", 28, 1, 2, 512, 1024},
    {"conv4 1x1 out", 14, 1, 1, 256, 1024},
    {"conv4 1x1 in", 14, 1, 1, 1024, 256},
    {"conv5 1x1 first", 14, 1, 1, 1024, 512},
    {"conv5 1x1/2 first", 14, 1, 2, 1024, 512},
    {"conv5 3x3/2", 14, 3, 2, 512, 512},
    {"conv5 3x3", 7, 3, 1, 512, 512},
    {"conv5 1x1/2 short", 14, 1, 2, 1024, 2048},
    {"conv5 1x1 out", 7, 1, 1, 512, 2048},
    {"conv5 1x1 in", 7, 1, 1, 2048, 512},
};

enum { FORWARD, BACKWARD, WEIGHT, GEMM, CANDIDATES };
enum { ROUNDS = 5, GRID = 4 }; /* granules of pixels: up to 4 x 4 ranks */

static ls_real *numbers(size_t count)
{
    ls_real *x = malloc(count * sizeof *x);
    if (!x) {
        fprintf(stderr, "bench_conv2d: no memory for %zu numbers\n", count);
        exit(2);
    }
    for (size_t i = 0; i < count; i++) x[i] = (ls_real)((double)(i * 7919 % 1000) / 500.0 - 1.0);
    return x;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle one of the rounds' ratios: what slows the machine for a while slows both. */
static double median_ratio(const double *rate, const double *gemm)
{
    double ratio[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) ratio[i] = rate[i] / gemm[i];
    qsort(ratio, ROUNDS, sizeof *ratio, ascending);
    return ratio[ROUNDS / 2];
}

static double least[GEMM] = {1e9, 1e9, 1e9}; /* of all 1x1 and 3x3 */

static void measure(const shape *s, size_t images)
{
    const size_t pad = (s->kernel - 1) / 2, K = 4; /* granules of channels */
    const ls_conv2d c = {
        {s->image, s->image, s->kernel, s->kernel, s->stride, s->stride, 1, 1, pad, pad, pad, pad},
        1,
        s->in,
        s->out,
        s->in % K == 0 ? K : 1,
        s->out % K == 0 ? K : 1,
        {GRID, GRID}};
    const ls_rectangle inputs = ls_window_inputs(&c.window), outputs = ls_window_outputs(&c.window);
    const ls_image_layout x_layout = {inputs, s->in * ls_rectangle_count(inputs)};
    const ls_image_layout y_layout = {outputs, s->out * ls_rectangle_count(outputs)};
    const size_t depth = ls_conv2d_depth(&c), n = images * ls_rectangle_count(outputs);
    ls_real *x = numbers(images * x_layout.stride), *y = numbers(images * y_layout.stride);
    ls_real *w = numbers(s->out * depth), *scratch = numbers(ls_conv2d_scratch(&c, images));
    ls_real *matrix = numbers(depth * n), *dw = numbers(s->out * depth);
    ls_conv2d_piece pieces[GRID * GRID];
    for (size_t g = 0; g < GRID * GRID;
         g++) { /* halves, quarters, ... : as many as g + 1 can be halved */
        pieces[g] = (ls_conv2d_piece){
            0, ls_pixel_granule(c.grid, outputs.height, outputs.width, g / GRID, g % GRID), 0};
        for (size_t k = g + 1; k % 2 == 0; k /= 2) pieces[g].closes++;
    }
    ls_real *space = numbers(ls_conv2d_node_scratch(&c, pieces, GRID * GRID));
    const double flops = 2.0 * (double)s->out * (double)depth * (double)n;
    const size_t times = (size_t)(2e8 / flops) + 1;
    double rate[CANDIDATES][ROUNDS], best[CANDIDATES] = {0};
    for (size_t round = 0; round < ROUNDS; round++)
        for (int what = 0; what < CANDIDATES; what++) {
            ls_status status = LS_OK;
            const uint64_t start = ls_clock_thread_cpu_ns();
            for (size_t t = 0; t < times && status == LS_OK; t++) switch (what) {
                case FORWARD:
                    status = ls_conv2d_forward(LS_ENGINE_PORTABLE, &c, images, y, y_layout, outputs,
                                               x, x_layout, w, depth, NULL, scratch);
                    break;
                case BACKWARD:
                    status = ls_conv2d_backward(LS_ENGINE_PORTABLE, &c, images, x, x_layout, inputs,
                                                y, y_layout, w, depth, scratch);
                    break;
                case WEIGHT: /* an image at a time, the granules in a row */
                    for (size_t i = 0; i < images && status == LS_OK; i++)
                        status =
                            ls_conv2d_weight_node(LS_ENGINE_PORTABLE, &c, dw, depth, pieces,
                                                  GRID * GRID, y + i * y_layout.stride, y_layout,
                                                  x + i * x_layout.stride, x_layout, space);
                    break;
                default:
                    status =
                        ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(s->out),
                                ls_axis_whole(n), ls_axis_of(c.in_granules, depth / c.in_granules),
                                w, depth, matrix, n, y, n, false);
                }
            const double took = (double)(ls_clock_thread_cpu_ns() - start) * 1e-9 / (double)times;
            if (status != LS_OK) {
                fprintf(stderr, "bench_conv2d: %s\n", ls_error_text());
                exit(2);
            }
            rate[what][round] = flops / took;
            if (flops / took > best[what]) best[what] = flops / took;
        }
    printf("%-18s %2zu %5zu %6zu %5zu %9.1f %9.1f %9.1f %9.1f", s->name, images, s->out, n, depth,
           best[FORWARD] * 1e-9, best[BACKWARD] * 1e-9, best[WEIGHT] * 1e-9, best[GEMM] * 1e-9);
    for (int what = 0; what < GEMM; what++) {
        const double ratio = median_ratio(rate[what], rate[GEMM]);
        printf(" %8.2f", ratio);
        if (s->kernel <= 3 && ratio < least[what]) least[what] = ratio;
    }
    printf("\n");
    fflush(stdout);
    free(x), free(y), free(w), free(scratch), free(matrix), free(dw), free(space);
}

int main(int argc, char **argv)
{
    char portable[GRID * GRID];
    ls_engine_describe(LS_ENGINE_PORTABLE, portable, sizeof portable);
    printf("%s, %s, one thread\n", portable, ls_dtype_name(LS_REAL_DTYPE));
    printf("%-18s %2s %5s %6s %5s %9s %9s %9s %9s %8s %8s %8s\n", "GFLOP/s", "B", "m", "n", "k",
           "forward", "backward", "weight", "gemm", "f/gemm", "b/gemm", "w/gemm");
    for (size_t images = 1; images <= 8; images *= 2)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            int wanted = argc == 1;
            for (int arg = 1; arg < argc; arg++)
                wanted |= strstr(shapes[i].name, argv[arg]) != NULL;
            if (wanted) measure(&shapes[i], images);
        }
    printf("least of 1x1 and 3x3: forward %.2f, backward %.2f, weight %.2f of gemm\n",
           least[FORWARD], least[BACKWARD], least[WEIGHT]);
    return 0;
}
