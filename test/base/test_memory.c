/* Arenas: bytes to the byte, marks, alignment, no overlap; clock and threads, which are as small.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "run_tests.h"

/* Sanitizers end the program at a request that is too large, unless told that malloc may fail. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static ls_memory *memory;

static void setup(void)
{
    ls_error_clear();
    ck_assert_int_eq(ls_memory_create(&memory), LS_OK);
}

static void teardown(void)
{
    ls_memory_destroy(&memory);
    ck_assert_ptr_null(memory);
    ls_memory_destroy(&memory); /* NULL is allowed */
}

START_TEST(account_by_category)
{
    ls_arena *parameters = NULL, *activations = NULL;
    void *p = NULL;
    ck_assert_int_eq(ls_arena_create(&parameters, memory, LS_MEM_PARAMETERS), LS_OK);
    ck_assert_int_eq(ls_arena_create(&activations, memory, LS_MEM_ACTIVATIONS), LS_OK);
    ck_assert_int_eq(ls_arena_alloc(parameters, 3, 4, &p), LS_OK);
    ck_assert_int_eq(ls_arena_alloc(parameters, 7, 1, &p), LS_OK);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_PARAMETERS), 19);
    size_t mark = ls_arena_mark(activations);
    ck_assert_int_eq(ls_arena_alloc(activations, 1000, 8, &p), LS_OK);
    ck_assert_uint_eq(ls_memory_total_bytes(memory), 8019);
    ls_arena_release(activations, mark);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_ACTIVATIONS), 0);
    ck_assert_uint_eq(ls_memory_peak_bytes(memory, LS_MEM_ACTIVATIONS), 8000);
    ck_assert_int_eq(ls_arena_alloc(parameters, 100, 1, &p), LS_OK);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_PARAMETERS), 119);
    ck_assert_uint_eq(ls_memory_peak_bytes(memory, LS_MEM_PARAMETERS), 119);
    ck_assert_uint_eq(ls_memory_total_bytes(memory), 119);
    /* The peaks of the categories lie at different times: 8000 + 119 were never held at once. */
    ck_assert_uint_eq(ls_memory_total_peak_bytes(memory), 8019);
    ck_assert_uint_eq(ls_memory_peak_bytes(memory, LS_MEM_OPTIMIZER), 0);
    ls_arena_destroy(&activations);
    ls_arena_destroy(&parameters);
    ck_assert_ptr_null(parameters);
    ls_arena_destroy(&parameters);
    ck_assert_uint_eq(ls_memory_total_bytes(memory), 0);
    ck_assert_uint_eq(ls_memory_total_peak_bytes(memory), 8019);
}
END_TEST

enum { BLOCKS = 400 };
static unsigned char *block[BLOCKS];
static size_t block_bytes[BLOCKS];

static size_t draw(uint64_t *state, size_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*state >> 33) % below;
}

/* Fills `arena` from block `from` on; every block holds its number in every byte. */
static void fill(ls_arena *arena, int from, uint64_t seed)
{
    for (int i = from; i < BLOCKS; i++) {
        size_t largest[4] = {3, 300, 30000, 900000};
        block_bytes[i] = draw(&seed, largest[draw(&seed, i % 50 == 7 ? 4 : 3)]);
        ck_assert_int_eq(ls_arena_alloc(arena, block_bytes[i], 1, &block[i]), LS_OK);
        ck_assert_uint_eq((uintptr_t)block[i] % 64, 0);
        if (block_bytes[i] > 0) memset(block[i], i % 251, block_bytes[i]);
    }
}

static int holds_only(const unsigned char *bytes, size_t n, int value)
{
    size_t others = 0;
    for (size_t i = 0; i < n; i++) others += bytes[i] != value;
    return others == 0;
}

static size_t total_of(int n)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) total += block_bytes[i];
    return total;
}

START_TEST(blocks_stay_apart_and_marks_nest)
{
    ls_arena *arena = NULL;
    ck_assert_int_eq(ls_arena_create(&arena, memory, LS_MEM_TEMPORARY), LS_OK);
    for (uint64_t round = 0; round < 6; round++) {
        fill(arena, 0, round);
        ck_assert_uint_eq(ls_memory_total_bytes(memory), total_of(BLOCKS));
        ls_arena_release(arena, 0);
        ck_assert_uint_eq(ls_memory_total_bytes(memory), 0);
        /* Half, mark, the rest; back to the mark and other blocks there. */
        fill(arena, 0, round);
        for (int keep = BLOCKS - 1; keep > 0; keep -= 57) {
            size_t mark = 0;
            ls_arena_release(arena, 0);
            for (int i = 0; i < BLOCKS; i++) {
                if (i == keep) mark = ls_arena_mark(arena);
                ck_assert_int_eq(ls_arena_alloc(arena, block_bytes[i], 1, &block[i]), LS_OK);
                if (block_bytes[i] > 0) memset(block[i], i % 251, block_bytes[i]);
            }
            ls_arena_release(arena, mark);
            ck_assert_uint_eq(ls_memory_total_bytes(memory), total_of(keep));
            fill(arena, keep, round + 100);
            ck_assert_uint_eq(ls_memory_total_bytes(memory), total_of(BLOCKS));
            for (int i = 0; i < BLOCKS; i++)
                ck_assert(holds_only(block[i], block_bytes[i], i % 251));
        }
        ls_arena_release(arena, 0);
    }
    ls_arena_destroy(&arena);
}
END_TEST

START_TEST(same_round_finds_same_places)
{
    ls_arena *arena = NULL;
    static unsigned char *first[BLOCKS];
    ck_assert_int_eq(ls_arena_create(&arena, memory, LS_MEM_ACTIVATIONS), LS_OK);
    fill(arena, 0, 5);
    memcpy(first, block, sizeof first);
    ls_arena_release(arena, 0);
    fill(arena, 0, 5);
    ck_assert_mem_eq(first, block, sizeof first);
    ls_arena_destroy(&arena);
}
END_TEST

START_TEST(zero_bytes_and_zeroed_bytes)
{
    ls_arena *arena = NULL;
    void *p = NULL;
    unsigned char *z = NULL;
    ck_assert_int_eq(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY), LS_OK); /* nobody counts */
    ck_assert_int_eq(ls_arena_alloc(arena, 0, 8, &p), LS_OK);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(ls_arena_zalloc(arena, 8, 0, &p), LS_OK);
    ck_assert_ptr_nonnull(p);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(ls_arena_zalloc(arena, 1000, 3, &z), LS_OK);
        for (int i = 0; i < 3000; i++) ck_assert_uint_eq(z[i], 0);
        memset(z, 7, 3000);
        ls_arena_release(arena, 0);
    }
    ls_arena_destroy(&arena);
}
END_TEST

START_TEST(too_much_is_refused)
{
    ls_arena *arena = NULL;
    void *p = &arena;
    ck_assert_int_eq(ls_arena_create(&arena, memory, LS_MEM_GRADIENTS), LS_OK);
    ck_assert_int_eq(ls_arena_alloc(arena, SIZE_MAX / 2, 4, &p), LS_ERR_MEMORY);
    ck_assert_ptr_eq(p, &arena); /* untouched */
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "gradients"));
    ls_error_clear();
    ck_assert_int_eq(ls_arena_alloc(arena, SIZE_MAX / 2 - 100, 1, &p), LS_ERR_MEMORY);
    ck_assert_ptr_eq(p, &arena);
    ck_assert_uint_eq(ls_memory_total_peak_bytes(memory), 0);
    ck_assert_int_eq(ls_arena_alloc(arena, 5, 1, &p), LS_OK); /* and it still works */
    ck_assert_uint_eq(ls_memory_total_bytes(memory), 5);
    ls_arena_destroy(&arena);
}
END_TEST

START_TEST(names)
{
    ck_assert_str_eq(ls_memory_category_name(LS_MEM_PARAMETERS), "parameters");
    ck_assert_str_eq(ls_memory_category_name(LS_MEM_COMMUNICATION), "communication");
    ck_assert_uint_eq(ls_dtype_bytes(LS_F64), sizeof(double));
    ck_assert_str_eq(ls_dtype_name(LS_U8), "U8");
}
END_TEST

START_TEST(clock_runs)
{
    uint64_t before = ls_clock_ns(), cpu_before = ls_clock_thread_cpu_ns();
    ls_clock_sleep_ns(2000000);
    ck_assert_uint_ge(ls_clock_ns() - before, 2000000);
    ck_assert_uint_ge(ls_clock_thread_cpu_ns(), cpu_before);
}
END_TEST

/* Needs far more stack than the 128 KiB that a thread gets from musl. */
static void *use_stack(void *ret_sum)
{
    volatile unsigned char bytes[6 * 1024 * 1024];
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof bytes; i += 4096) bytes[i] = 1;
    for (size_t i = 0; i < sizeof bytes; i += 4096) sum += bytes[i];
    *(unsigned *)ret_sum = sum;
    return NULL;
}

START_TEST(thread_has_its_stack)
{
    unsigned sum = 0;
    ls_thread thread;
    ck_assert_int_eq(ls_thread_start(&thread, (size_t)8 << 20, use_stack, &sum), LS_OK);
    ls_thread_join(&thread);
    ck_assert_uint_eq(sum, 6 * 256);
    ck_assert_int_ge(ls_thread_cores(), 1);
    ls_error_clear();
    ck_assert_int_eq(ls_thread_start(&thread, SIZE_MAX / 2 / 65536 * 65536, use_stack, &sum),
                     LS_ERR_MEMORY);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("arenas", 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, account_by_category);
    tcase_add_test(tcase, blocks_stay_apart_and_marks_nest);
    tcase_add_test(tcase, same_round_finds_same_places);
    tcase_add_test(tcase, zero_bytes_and_zeroed_bytes);
    tcase_add_test(tcase, too_much_is_refused);
    tcase = test_case("rest", 0);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, clock_runs);
    tcase_add_test(tcase, thread_has_its_stack);
    return run_tests();
}
