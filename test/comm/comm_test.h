/* comm_test.h - what the tests of this folder share.
 *
 * Ranks never assert: a failed assertion must be seen by Check's own thread. A rank counts its
 * faults in `faults` and the first one leaves its words; the main thread asserts after the run. */
#ifndef LS_TEST_COMM_TEST_H
#define LS_TEST_COMM_TEST_H

#include <check.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/world.h"
#include "run_tests.h"

/* ThreadSanitizer makes every access some ten times slower, and finds what it looks for in fewer
 * rounds. */
#if defined(__SANITIZE_THREAD__)
enum { FEWER = 8 };
#else
enum { FEWER = 1 };
#endif

/* ---- faults seen by ranks */

static _Atomic int faults;
static char first_fault[256];

__attribute__((format(printf, 1, 2), unused)) static void fault(const char *format, ...)
{
    if (atomic_fetch_add(&faults, 1) > 0) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(first_fault, sizeof first_fault, format, arguments);
    va_end(arguments);
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) fault(__VA_ARGS__);                                                      \
    } while (0)

/* Runs and expects success on every rank, and no faults. */
__attribute__((unused)) static void run_well(int n_ranks, const ls_world_options *options,
                                             ls_rank_function function, void *argument)
{
    ls_error_clear();
    faults = 0;
    ls_status status = ls_world_run(n_ranks, options, function, argument);
    ck_assert_msg(status == LS_OK, "%d ranks: status %d: %s", n_ranks, (int)status,
                  ls_error_text());
    ck_assert_msg(faults == 0, "%d ranks: %d faults, first: %s", n_ranks, (int)faults, first_fault);
}

/* Runs and expects this failure. Returns its text. */
__attribute__((unused)) static const char *run_badly(int n_ranks, const ls_world_options *options,
                                                     ls_rank_function function, void *argument,
                                                     ls_status expected)
{
    ls_error_clear();
    faults = 0;
    ls_status status = ls_world_run(n_ranks, options, function, argument);
    ck_assert_msg(status == expected, "status %d, expected %d: %s", (int)status, (int)expected,
                  ls_error_text());
    ck_assert_msg(faults == 0, "%d faults, first: %s", (int)faults, first_fault);
    return ls_error_text();
}

#define ck_assert_has(text, part)                                                                  \
    ck_assert_msg(strstr((text), (part)) != NULL, "'%s' does not say '%s'", (text), (part))

/* ---- buffers between guard bands, filled with bytes that are NaN in every float type */

enum { GUARD_BYTES = 64 };

typedef struct guarded {
    unsigned char *all, *data;
    size_t bytes;
} guarded;

__attribute__((unused)) static guarded guarded_new(size_t bytes)
{
    guarded b = {malloc(bytes + 2 * GUARD_BYTES), NULL, bytes};
    b.data = b.all + GUARD_BYTES;
    memset(b.all, 0xa5, GUARD_BYTES);
    memset(b.data, 0xff, bytes);
    memset(b.data + bytes, 0xa5, GUARD_BYTES);
    return b;
}

/* Frees it; a fault when somebody has written beside it. */
__attribute__((unused)) static void guarded_free(guarded *b)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        EXPECT(b->all[i] == 0xa5 && b->data[b->bytes + (size_t)i] == 0xa5,
               "guard band of a buffer of %zu bytes", b->bytes);
    free(b->all);
    b->all = b->data = NULL;
}

/* ---- numbers */

__attribute__((unused)) static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Element i of what rank `rank` holds: a small integer of either sign, not the same for any two
 * near places, exact in every type (0 .. 200 for LS_U8). */
__attribute__((unused)) static int small(int rank, size_t i)
{
    return (int)(mix((uint64_t)i * 1315423911u + (uint64_t)rank * 2654435761u + 12345) % 201) - 100;
}

__attribute__((unused)) static void put(void *buffer, size_t i, ls_dtype dtype, int value)
{
    switch (dtype) {
    case LS_F32:
        ((float *)buffer)[i] = (float)value;
        break;
    case LS_F64:
        ((double *)buffer)[i] = (double)value;
        break;
    case LS_I32:
        ((int32_t *)buffer)[i] = value;
        break;
    case LS_I64:
        ((int64_t *)buffer)[i] = value;
        break;
    default:
        ((uint8_t *)buffer)[i] = (uint8_t)(value + 100);
        break;
    }
}

__attribute__((unused)) static int equals(const void *buffer, size_t i, ls_dtype dtype, int value)
{
    int64_t expected[1];
    put(expected, 0, dtype, value);
    size_t e = ls_dtype_bytes(dtype);
    return memcmp((const char *)buffer + i * e, expected, e) == 0;
}

static const int RANK_COUNTS[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { N_RANK_COUNTS = sizeof RANK_COUNTS / sizeof RANK_COUNTS[0], MAX_TEST_RANKS = 12 };

/* ---- main */

#define TEST_MAIN(name, ...)                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        TCase *all = test_case(name, 120);                                                         \
        for (int i = 0; i < COUNT(tests); i++) tcase_add_test(all, tests[i]);                      \
        return run_tests();                                                                        \
    }

#endif
