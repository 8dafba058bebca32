/* Blocks of a matrix: every block of a small one, element by element. */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "lockstep/numerics/block.h"
#include "run_tests.h"

enum { ROWS = 5, COLS = 7 };
static const ls_block all = {COLS, 0, ROWS, 0, COLS};

/* Calls check for every block of ROWS x COLS, empty ones among them. */
static void for_every_block(void (*check)(ls_block block))
{
    for (size_t row = 0; row <= ROWS; row++)
        for (size_t rows = 0; row + rows <= ROWS; rows++)
            for (size_t col = 0; col <= COLS; col++)
                for (size_t width = 0; col + width <= COLS; width++)
                    check((ls_block){COLS, row, rows, col, width});
}

static int inside(ls_block b, size_t i)
{
    size_t r = i / COLS, c = i % COLS;
    return b.row <= r && r < b.row + b.rows && b.col <= c && c < b.col + b.width;
}

static void take_and_put(ls_block b)
{
    float whole[ROWS * COLS], back[ROWS * COLS], own[ROWS * COLS + 1];
    for (size_t i = 0; i < ROWS * COLS; i++) whole[i] = (float)i, back[i] = -1, own[i] = -2;
    own[ls_block_count(b)] = -2; /* guard */
    ls_block_take(LS_F32, own, whole, b);
    for (size_t i = 0; i < ls_block_count(b); i++)
        ck_assert(own[i] == (float)((b.row + i / b.width) * COLS + b.col + i % b.width));
    ck_assert(own[ls_block_count(b)] == -2);
    ls_block_put(LS_F32, back, own, b);
    for (size_t i = 0; i < ROWS * COLS; i++) ck_assert(back[i] == (inside(b, i) ? whole[i] : -1));
    ck_assert_uint_eq(ls_block_differ(LS_F32, own, whole, b), 0);
}

START_TEST(blocks_are_taken_and_put_back)
{
    for_every_block(take_and_put);
    /* Other sizes of elements. */
    double d[2 * 3] = {0, 1, 2, 3, 4, 5}, own_d[2];
    ls_block column = {3, 0, 2, 1, 1};
    ls_block_take(LS_F64, own_d, d, column);
    ck_assert(own_d[0] == 1 && own_d[1] == 4);
    uint8_t u[2 * 3] = {0, 1, 2, 3, 4, 5}, own_u[2];
    ls_block_take(LS_U8, own_u, u, column);
    ck_assert(own_u[0] == 1 && own_u[1] == 4);
}
END_TEST

/* One element of the whole changes by one bit: seen exactly where it is inside the block. */
static void one_bit(ls_block b)
{
    float whole[ROWS * COLS], own[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++) whole[i] = (float)i;
    ls_block_take(LS_F32, own, whole, b);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        uint32_t bits;
        memcpy(&bits, &whole[i], sizeof bits);
        bits ^= 1;
        memcpy(&whole[i], &bits, sizeof bits);
        ck_assert_uint_eq(ls_block_differ(LS_F32, own, whole, b), (size_t)inside(b, i));
        bits ^= 1;
        memcpy(&whole[i], &bits, sizeof bits);
    }
}

START_TEST(one_bit_is_seen)
{
    for_every_block(one_bit);
    double zeros[2] = {0.0, 0.0}, other[2] = {-0.0, 0.0};
    ls_block pair = {2, 0, 1, 0, 2};
    ck_assert_uint_eq(ls_block_differ(LS_F64, zeros, other, pair), 1); /* the sign of zero counts */
}
END_TEST

START_TEST(every_element_is_counted)
{
    float whole[ROWS * COLS], own[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++) whole[i] = 1, own[i] = 2;
    ck_assert_uint_eq(ls_block_differ(LS_F32, own, whole, all), ROWS * COLS);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("block", 0);
    tcase_add_test(tests, blocks_are_taken_and_put_back);
    tcase_add_test(tests, one_bit_is_seen);
    tcase_add_test(tests, every_element_is_counted);
    return run_tests();
}
