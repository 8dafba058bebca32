/* bench_functions.c - speed of the functions, one thread.
 *
 * Prints nanoseconds per value: the array functions on each instruction set of this machine, the
 * single ones, and the C library's beside them, which promises neither bits nor a bound. Best of
 * several rounds. */
#include <math.h>
#include <stdio.h>

#include "lockstep/base/clock.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"

enum { N = 4096, ROUNDS = 30, TIMES = 20 };

typedef ls_real function(ls_real x);
typedef void array_function(ls_real *y, const ls_real *x, size_t n);

#ifdef LS_REAL_IS_F64
#define LIBM(name) name
#else
#define LIBM(name) name##f
#endif

static const struct named_function {
    const char *name;
    function *one, *libm;
    array_function *array;
    double low, high;
} functions[] = {
    {"exp", ls_exp, LIBM(exp), ls_exp_n, -20, 10}, {"tanh", ls_tanh, LIBM(tanh), ls_tanh_n, -5, 5},
    {"erf", ls_erf, LIBM(erf), ls_erf_n, -4, 4},   {"log", ls_log, LIBM(log), NULL, 0, 100},
    {"sin", ls_sin, LIBM(sin), NULL, -1000, 1000}, {"cos", ls_cos, LIBM(cos), NULL, -1000, 1000},
};

static ls_real x[N], y[N];

static void run(const struct named_function *f, function *one)
{
    if (one == NULL) {
        f->array(y, x, N);
    } else {
        for (int i = 0; i < N; i++) y[i] = one(x[i]);
    }
}

/* Nanoseconds per value; one NULL: the array function. */
static double nanoseconds(const struct named_function *f, function *one)
{
    double best = (double)INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t start = ls_clock_thread_cpu_ns();
        for (int t = 0; t < TIMES; t++) run(f, one);
        double ns = (double)(ls_clock_thread_cpu_ns() - start) / TIMES / N;
        if (ns < best) best = ns;
    }
    return best;
}

int main(void)
{
    const ls_stream stream = {1, LS_RANDOM_TEST, 0, 0};
    for (size_t k = 0; k < sizeof functions / sizeof functions[0]; k++) {
        const struct named_function *f = &functions[k];
        for (uint64_t i = 0; i < N; i++) {
            x[i] = (ls_real)(f->low + (f->high - f->low) * ls_random_uniform(stream, i));
        }
        printf("%-5s C library %5.1f  single %5.1f", f->name, nanoseconds(f, f->libm),
               nanoseconds(f, f->one));
        for (int isa = 0; f->array != NULL && isa < LS_ISA_COUNT; isa++) {
            if (!ls_isa_available((ls_isa)isa)) continue;
            ls_isa_force((ls_isa)isa);
            printf("  %s %5.2f", ls_isa_name((ls_isa)isa), nanoseconds(f, NULL));
        }
        printf("  ns per value\n");
    }
    return 0;
}
