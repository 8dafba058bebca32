/* bench.h - what the parts of `lockstep bench` share: taking turns, and rows of a table. */
#ifndef LOCKSTEP_BENCH_H
#define LOCKSTEP_BENCH_H

#include <jansson.h>

#include "lockstep/parts.h"
#include "report/text_table.h"

typedef struct bench {
    int rounds;
    size_t images; /* of a convolution's batch */
    ls_dtype dtype;
    const char *part; /* the one at hand */
    ls_text_table *table;
    json_t *rows;
} bench;

/* Work to be timed. */
typedef ls_status bench_call(void *context);

typedef enum bench_clock { BENCH_CPU_TIME, BENCH_WALL_TIME } bench_clock;

typedef struct bench_times {
    double ns, beside_ns; /* of a call, the best of all rounds */
    double ratio;         /* beside / what of a round, the median of all rounds: what slows the
                             machine for a while slows both */
} bench_times;

/* `what` and `beside` take turns. beside NULL: the ratio is 0. */
ls_status bench_compare(const bench *b, bench_clock clock, bench_call *what, bench_call *beside,
                        void *context, bench_times *ret_times) LS_MUST_USE;

/* A row: what was done, how fast, and how fast that is next to `to`. ratio 0: compared with
 * nothing. */
ls_status bench_row(bench *b, const char *what, double figure, const char *unit, double ratio,
                    const char *to) LS_MUST_USE;

/* Numbers of either sign, none alike for a while. LS_ERR_MEMORY. */
#define bench_numbers LS_TYPED(bench_numbers)
ls_status bench_numbers(ls_real **ret_numbers, size_t count) LS_MUST_USE;

/* The parts; those that compute are compiled for each precision. */
ls_status bench_gemm_f32(bench *b) LS_MUST_USE;
ls_status bench_gemm_f64(bench *b) LS_MUST_USE;
ls_status bench_conv2d_f32(bench *b) LS_MUST_USE;
ls_status bench_conv2d_f64(bench *b) LS_MUST_USE;
ls_status bench_kernels_f32(bench *b) LS_MUST_USE;
ls_status bench_kernels_f64(bench *b) LS_MUST_USE;
ls_status bench_collectives(bench *b) LS_MUST_USE;
ls_status bench_step(bench *b) LS_MUST_USE;

#endif
