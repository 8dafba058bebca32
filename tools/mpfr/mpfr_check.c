/* mpfr_check.c - how far the functions are from the truth, at every binary32 argument. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "block_truth.h"
#include "check_blocks.h"
#include "lockstep/base/options.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"

/* Binary64 arguments: half of them drawn evenly from the function's own range, a quarter from there
 * but scaled down by up to 2^-60, a quarter random bit patterns. */
static double argument_f64(const tested_function *f, uint64_t i)
{
    const ls_stream stream = {2024, LS_RANDOM_TEST, 0, 0};
    uint32_t w[4];
    ls_random_words(stream, i, w);
    double u = (double)((uint64_t)w[0] << 21 | w[1] >> 11) * 0x1p-53;
    double x = f->low_f64 + u * (f->high_f64 - f->low_f64);
    if (i % 4 == 1) x = ldexp(x, -(int)(w[2] % 60));
    if (i % 4 == 3) {
        uint64_t bits = (uint64_t)w[2] << 32 | w[3];
        memcpy(&x, &bits, sizeof x);
    }
    return x;
}

static int check_f32(const tested_function *f, uint64_t stride, int threads)
{
    block_report r;
    check_blocks(f, stride, threads, &r);
    printf("%-5s f32: %llu arguments, worst error %.7f ULP at %a, %llu not correctly rounded "
           "(%llu asked of MPFR)\n",
           f->name, (unsigned long long)r.inputs, r.worst, (double)r.worst_at,
           (unsigned long long)r.not_rounded, (unsigned long long)r.by_mpfr);
    if (r.not_rounded <= LISTED) {
        for (uint64_t i = 0; i < r.not_rounded; i++) {
            printf("      not correctly rounded: %s(%a) = %a\n", f->name, (double)r.listed[i],
                   (double)f->one_f32(r.listed[i]));
        }
    }
    int faults = !(r.worst <= f->bound_f32);
    if (faults) printf("%s f32: above its bound of %.4f ULP\n", f->name, f->bound_f32);
    if (r.falls > 0) {
        printf("%s f32: falls at %llu arguments\n", f->name, (unsigned long long)r.falls);
        faults++;
    }
    if (r.array_differs > 0) {
        printf("%s f32: the array function differs from the single one at %llu arguments\n",
               f->name, (unsigned long long)r.array_differs);
        faults++;
    }
    if (r.bad_series > 0) {
        printf("%s f32: the check itself is wrong, %llu series disagree with MPFR\n", f->name,
               (unsigned long long)r.bad_series);
        faults++;
    }
    fflush(stdout);
    return faults;
}

static int check_f64(const tested_function *f, uint64_t count)
{
    double worst = 0.0, worst_at = 0.0;
    uint64_t not_rounded = 0;
    for (uint64_t i = 0; i < count; i++) {
        double x = argument_f64(f, i);
        double error = exact_error(f, x, f->one_f64(x), 53);
        not_rounded += error > 0.5;
        if (!(error <= worst)) {
            worst = error;
            worst_at = x;
        }
    }
    printf("%-5s f64: %llu arguments, worst error %.7f ULP at %a, %llu not correctly rounded\n",
           f->name, (unsigned long long)count, worst, worst_at, (unsigned long long)not_rounded);
    fflush(stdout);
    if (worst <= f->bound_f64) return 0;
    printf("%s f64: above its bound of %.4f ULP\n", f->name, f->bound_f64);
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"all", "exp", "log",   "tanh", "erf",
                                        "sin", "cos", "rsqrt", NULL};
    ls_status status = LS_OK;
    int which = 0, threads = ls_thread_cores(), faults = 0;
    uint64_t stride = 1, count = 1000000;
    bool help = false;
    ls_option options[] = {
        ls_option_choice("function", &which, names, "which function to check"),
        ls_option_u64(
            "stride", &stride, 1, 1 << 20, "N",
            "check every N-th block of 4096 neighbouring binary32 arguments; 1 checks all "
            "2^32 of them"),
        ls_option_u64("f64", &count, 0, UINT64_MAX, "N", "how many binary64 arguments to draw"),
        ls_option_int("threads", &threads, 1, 256, "N", "threads to start"),
        ls_option_flag("help", &help, "this text"),
    };
    const size_t option_count = sizeof options / sizeof options[0];
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf(
            "usage: mpfr_check [OPTIONS]\n\n"
            "Compares exp, log, tanh, erf, sin, cos and rsqrt with MPFR; ends with status 1 when "
            "a bound is broken.\n\n");
        ls_options_help(stdout, options, option_count);
        return 0;
    }
    LS_TRY(ls_options_parse(options, option_count, argc - 1, (const char *const *)argv + 1, NULL));
    LS_TRY(ls_isa_check());

    printf("array functions: %s\n", ls_isa_name(ls_isa_current()));
    block_truth_setup();
    for (int i = 0; i < TESTED_FUNCTIONS; i++) {
        if (which != 0 && which != i + 1) continue;
        faults += check_f32(&tested_functions[i], stride, threads);
        faults += check_f64(&tested_functions[i], count);
    }
    if (faults > 0) status = LS_DIFFERENT;

exit:
    if (status != LS_OK && status != LS_DIFFERENT) {
        fprintf(stderr, "mpfr_check: %s\n", ls_error_text());
    }
    return ls_exit_code(status);
}
