/* bench_kernels.c - kernels that go over an array once or twice, next to copying it. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { ROWS = 256, WIDTH = 768, COUNT = ROWS * WIDTH };

typedef struct kernel_job {
    ls_real *x, *y, *other, *row;
} kernel_job;

static ls_status copy(void *context)
{
    const kernel_job *j = context;
    memcpy(j->y, j->x, COUNT * sizeof *j->y);
    return LS_OK;
}

static ls_status exponentials(void *context)
{
    const kernel_job *j = context;
    ls_exp_n(j->y, j->x, COUNT);
    return LS_OK;
}

static ls_status gelu(void *context)
{
    const kernel_job *j = context;
    ls_gelu_tanh_forward(j->y, j->x, COUNT);
    return LS_OK;
}

static ls_status gelu_backward(void *context)
{
    const kernel_job *j = context;
    ls_gelu_tanh_backward(j->y, j->other, j->x, COUNT);
    return LS_OK;
}

static ls_status layer_norm(void *context)
{
    const kernel_job *j = context;
    ls_layer_norm_forward(j->y, j->row, j->row + ROWS, j->x, j->other, j->other + WIDTH, ROWS,
                          WIDTH, 1e-5);
    return LS_OK;
}

static ls_status softmax(void *context)
{
    const kernel_job *j = context;
    for (size_t r = 0; r < ROWS; r++)
        ls_softmax_forward(j->y + r * WIDTH, j->x + r * WIDTH, NULL, WIDTH);
    return LS_OK;
}

/* An image of so many numbers: 48 channels of 64 x 64. */
static ls_status max_pool(void *context)
{
    const kernel_job *j = context;
    const ls_window window = {64, 64, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0};
    const ls_image_layout in = {ls_window_inputs(&window), COUNT};
    const ls_image_layout out = {ls_window_outputs(&window), COUNT / 4};
    ls_max_pool_forward(&window, 1, COUNT / 4096, j->y, (int32_t *)(void *)j->other, out, out.held,
                        j->x, in);
    return LS_OK;
}

static ls_status batch_norm(void *context)
{
    const kernel_job *j = context;
    const ls_image_layout image = {{0, 0, 64, 64}, COUNT};
    const size_t channels = COUNT / 4096;
    ls_batch_norm_forward(j->y, image, j->x, image, image.held, 1, channels, j->other,
                          j->other + channels, j->other + 2 * channels, j->other + 3 * channels);
    return LS_OK;
}

#define bench_kernels LS_TYPED(bench_kernels)
ls_status bench_kernels(bench *b)
{
    static const struct {
        const char *name;
        bench_call *call;
    } kernels[] = {{"exp", exponentials},
                   {"GELU", gelu},
                   {"GELU backward", gelu_backward},
                   {"layer norm, rows of 768", layer_norm},
                   {"softmax, rows of 768", softmax},
                   {"max pooling 2x2/2", max_pool},
                   {"batch norm, given statistics", batch_norm}};
    ls_status status = LS_OK;
    kernel_job j = {0};
    LS_TRY(bench_numbers(&j.x, COUNT));
    LS_TRY(bench_numbers(&j.y, COUNT));
    LS_TRY(bench_numbers(&j.other, COUNT));
    LS_TRY(bench_numbers(&j.row, (size_t)2 * ROWS));
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        bench_times t;
        LS_TRY(bench_compare(b, BENCH_CPU_TIME, kernels[i].call, copy, &j, &t));
        LS_TRY(bench_row(b, kernels[i].name, t.ns / COUNT, "ns a number", t.ratio,
                         "copying the array"));
    }
exit:
    free(j.x), free(j.y), free(j.other), free(j.row);
    return status;
}
