/* bench_gemm.c - speed of the matrix product on the shapes of GPT-2 124M, one thread.
 *
 * Prints GFLOP/s of the three engines and, for the two that keep the contract, the ratio to plain
 * OpenBLAS, which may add in any order. Best of several rounds, the engines taking turns, so that a
 * busy machine hurts all alike. Arguments: a shape whose name contains any of them is measured;
 * none: all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "lockstep/numerics/gemm.h"

typedef struct shape {
    const char *name;
    ls_trans ta, tb;
    ls_axis m, n, k;
    bool accumulate;
} shape;

enum { S = 1024, D = 768, H = 12, F = 3072, V = 50304, HEAD = D / H };

/* x is S x D, stored weights are (in x out): y = x W, dx = dy W^T, dw = x^T dy. */
static const shape shapes[] = {
    {"qkv", 0, 0, {1, S}, {H, HEAD}, {1, D}, false},
    {"qkv dx", 0, 1, {1, S}, {1, D}, {H, HEAD}, false},
    {"qkv dw", 1, 0, {1, D}, {H, HEAD}, {1, S}, false},
    {"scores", 0, 1, {1, S}, {1, S}, {1, HEAD}, false},
    {"scores value", 0, 0, {1, S}, {1, HEAD}, {1, S}, false},
    {"scores dq", 0, 0, {1, S}, {1, HEAD}, {1, S}, false},
    {"scores dk", 1, 0, {1, S}, {1, HEAD}, {1, S}, false},
    {"attention out", 0, 0, {1, S}, {1, D}, {H, HEAD}, false},
    {"attention out dx", 0, 1, {1, S}, {H, HEAD}, {1, D}, false},
    {"attention out dw", 1, 0, {H, HEAD}, {1, D}, {4, S}, false},
    {"mlp up", 0, 0, {1, S}, {H, F / H}, {1, D}, false},
    {"mlp up dx", 0, 1, {1, S}, {1, D}, {H, F / H}, false},
    {"mlp up dw", 1, 0, {1, D}, {H, F / H}, {4, S}, false},
    {"mlp down", 0, 0, {1, S}, {1, D}, {H, F / H}, false},
    {"mlp down dx", 0, 1, {1, S}, {H, F / H}, {1, D}, false},
    {"mlp down dw", 1, 0, {H, F / H}, {1, D}, {4, S}, true},
    {"head", 0, 1, {1, S}, {H, V / H}, {1, D}, false},
    {"head dx", 0, 0, {1, S}, {1, D}, {H, V / H}, false},
    {"head dw", 1, 0, {H, V / H}, {1, D}, {1, S}, false},
    {"nano qkv", 0, 0, {1, 24}, {12, 4}, {1, 48}, false},
    {"nano scores", 0, 1, {1, 24}, {1, 24}, {1, 4}, false},
    {"nano attention out", 0, 0, {1, 24}, {1, 48}, {12, 4}, false},
    {"nano mlp up", 0, 0, {1, 24}, {12, 16}, {1, 48}, false},
    {"nano mlp down", 0, 0, {1, 24}, {1, 48}, {12, 16}, false},
    {"nano mlp down dx", 0, 1, {1, 24}, {12, 16}, {1, 48}, false},
    {"nano qkv dw", 1, 0, {1, 48}, {12, 4}, {8, 24}, false},
    {"nano head", 0, 1, {1, 24}, {12, 32}, {1, 48}, false},
};

/* CPU seconds of one call, averaged over enough calls to be measured. */
static double seconds(const shape *s, ls_engine engine, const ls_real *a, const ls_real *b,
                      ls_real *c, size_t times)
{
    size_t m = ls_axis_extent(s->m), n = ls_axis_extent(s->n), k = ls_axis_extent(s->k);
    uint64_t start = ls_clock_thread_cpu_ns();
    for (size_t t = 0; t < times; t++)
        if (ls_gemm(engine, s->ta, s->tb, s->m, s->n, s->k, a, s->ta ? m : k, b, s->tb ? k : n, c,
                    n, s->accumulate) != LS_OK)
            return 0;
    return (double)(ls_clock_thread_cpu_ns() - start) * 1e-9 / (double)times;
}

static ls_real *numbers(size_t count)
{
    ls_real *x = malloc(count * sizeof *x);
    if (!x) {
        fprintf(stderr, "bench_gemm: no memory for %zu numbers\n", count);
        exit(2);
    }
    for (size_t i = 0; i < count; i++) x[i] = (ls_real)((double)(i * 7919 % 1000) / 500.0 - 1.0);
    return x;
}

static void measure(const shape *s)
{
    size_t m = ls_axis_extent(s->m), n = ls_axis_extent(s->n), k = ls_axis_extent(s->k);
    ls_real *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    double flops = 2.0 * (double)m * (double)n * (double)k, best[3] = {0};
    size_t times = (size_t)(2e8 / flops) + 1, rounds = flops > 1e10 ? 3 : 9;
    for (size_t round = 0; round < rounds; round++)
        for (int e = 0; e < 3; e++) {
            double took = seconds(s, (ls_engine)e, a, b, c, times);
            if (took > 0 && flops / took > best[e]) best[e] = flops / took;
        }
    printf("%-20s %c%c %5zu %5zu %2zux%-5zu %9.1f %9.1f %9.1f %9.2f %9.2f\n", s->name,
           s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', m, n, s->k.granules, s->k.granule,
           best[LS_ENGINE_PORTABLE] * 1e-9, best[LS_ENGINE_OPENBLAS] * 1e-9,
           best[LS_ENGINE_PLAIN] * 1e-9, best[LS_ENGINE_PORTABLE] / best[LS_ENGINE_PLAIN],
           best[LS_ENGINE_OPENBLAS] / best[LS_ENGINE_PLAIN]);
    fflush(stdout);
    free(a), free(b), free(c);
}

int main(int argc, char **argv)
{
    char portable[64], blas[64];
    ls_engine_describe(LS_ENGINE_PORTABLE, portable, sizeof portable);
    ls_engine_describe(LS_ENGINE_OPENBLAS, blas, sizeof blas);
    printf("%s, %s, %s, one thread\n", portable, blas, ls_dtype_name(LS_REAL_DTYPE));
    if (ls_engine_warning(LS_ENGINE_OPENBLAS)[0])
        printf("warning: %s\n", ls_engine_warning(LS_ENGINE_OPENBLAS));
    printf("%-20s %2s %5s %5s %8s %9s %9s %9s %9s %9s\n", "GFLOP/s", "", "m", "n", "k", "portable",
           "openblas", "plain", "p/plain", "o/plain");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int wanted = argc == 1;
        for (int arg = 1; arg < argc; arg++) wanted |= strstr(shapes[i].name, argv[arg]) != NULL;
        if (wanted) measure(&shapes[i]);
    }
    return 0;
}
