/* What passes between members: moved for real, element by element, over random decompositions. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/image_box.h"
#include "run_tests.h"

enum { MOST_MEMBERS = 12, MOST_ELEMENTS = 1200 };

static uint64_t state;

static size_t below(size_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(state >> 33) % n;
}

static void cut(size_t *bounds, size_t n, size_t parts)
{
    bounds[0] = 0;
    for (size_t p = 1; p <= parts; p++) bounds[p] = bounds[p - 1] + below(n - bounds[p - 1] + 1);
    bounds[parts] = n;
}

/* The whole array: 2 images, 3 channels, 5 x 7 pixels, and a number for each element. */
static const ls_image_box ALL = {{0, 2}, {0, 3}, {0, 0, 5, 7}};

static int number_of(size_t n, size_t c, size_t h, size_t w)
{
    return (int)(((n * 3 + c) * 5 + h) * 7 + w) + 1;
}

/* Members as a random grid over all four axes. Returns how many. */
static size_t decompose(ls_image_box *boxes, size_t members)
{
    size_t by[4] = {1, 1, 1, 1}, left = members, at[4][MOST_MEMBERS + 1], m = 0;
    static const size_t extent[4] = {2, 3, 5, 7};
    for (size_t d = 2; left > 1;) {
        if (left % d != 0) {
            d++;
            continue;
        }
        by[below(4)] *= d;
        left /= d;
    }
    for (int a = 0; a < 4; a++) cut(at[a], extent[a], by[a]);
#define RUN(a, i) at[a][i], at[a][i + 1] - at[a][i]
    for (size_t n = 0; n < by[0]; n++)
        for (size_t c = 0; c < by[1]; c++)
            for (size_t h = 0; h < by[2]; h++)
                for (size_t w = 0; w < by[3]; w++)
                    boxes[m++] = (ls_image_box){
                        {RUN(0, n)},
                        {RUN(1, c)},
                        {at[2][h], at[3][w], at[2][h + 1] - at[2][h], at[3][w + 1] - at[3][w]}};
#undef RUN
    return m;
}

static void fill(int *memory, const ls_image_box *box)
{
    size_t i = 0;
    for (size_t n = 0; n < box->images.count; n++)
        for (size_t c = 0; c < box->channels.count; c++)
            for (size_t h = 0; h < box->area.height; h++)
                for (size_t w = 0; w < box->area.width; w++)
                    memory[i++] = number_of(box->images.first + n, box->channels.first + c,
                                            box->area.top + h, box->area.left + w);
}

static void move(int *to, const ls_image_box *to_block, const int *from,
                 const ls_image_box *from_block, const ls_image_box *piece)
{
    size_t counts[4], out[4], in[4];
    int *o = to + ls_image_box_place(to_block, piece, counts, out);
    const int *i = from + ls_image_box_place(from_block, piece, counts, in);
    for (size_t a = 0; a < counts[0]; a++)
        for (size_t b = 0; b < counts[1]; b++)
            for (size_t c = 0; c < counts[2]; c++)
                for (size_t d = 0; d < counts[3]; d++) {
                    int *place = o + a * out[0] + b * out[1] + c * out[2] + d * out[3];
                    ck_assert_int_eq(*place, 0); /* each element comes once */
                    *place = i[a * in[0] + b * in[1] + c * in[2] + d * in[3]];
                }
}

/* Runs the transfers and compares what each member then has with what it wanted. */
static void try_transfers(const ls_image_box *owned, const ls_image_box *wanted, size_t members)
{
    static int have[MOST_MEMBERS][MOST_ELEMENTS], got[MOST_MEMBERS][MOST_ELEMENTS];
    static int right[MOST_ELEMENTS];
    ls_transfer *list = NULL;
    size_t n = 0, sent = 0, received = 0, comm = 0;
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, members), LS_OK);
    memset(got, 0, sizeof got);
    for (size_t m = 0; m < members; m++) fill(have[m], &owned[m]);
    for (size_t i = 0; i < n; i++) {
        size_t from = list[i].from, to = list[i].to;
        ck_assert(i == 0 || list[i - 1].from < from ||
                  (list[i - 1].from == from && list[i - 1].to < to));
        move(got[to], &wanted[to], have[from], &owned[from], &list[i].box);
        if (from != to) comm += ls_image_box_count(&list[i].box);
    }
    for (size_t m = 0; m < members; m++) {
        fill(right, &wanted[m]);
        ck_assert(memcmp(got[m], right, ls_image_box_count(&wanted[m]) * sizeof *right) == 0);
        sent += ls_transfers_sent(list, n, m);
        received += ls_transfers_received(list, n, m);
    }
    ck_assert_uint_eq(sent, comm);
    ck_assert_uint_eq(received, comm);
    free(list);
}

/* From any decomposition to any other one: sample, channel, grid, empty shares. */
START_TEST(redistributions)
{
    ls_image_box owned[MOST_MEMBERS], wanted[MOST_MEMBERS];
    state = 5;
    for (size_t members = 1; members <= MOST_MEMBERS; members++)
        for (int i = 0; i < 40; i++) {
            ck_assert_uint_eq(decompose(owned, members), members);
            ck_assert_uint_eq(decompose(wanted, members), members);
            try_transfers(owned, wanted, members);
        }
}
END_TEST

/* Wanted boxes that overlap each other, as halos do. */
START_TEST(overlapping_wants)
{
    ls_image_box owned[MOST_MEMBERS], wanted[MOST_MEMBERS];
    state = 77;
    for (int i = 0; i < 200; i++) {
        size_t members = 1 + below(MOST_MEMBERS);
        ck_assert_uint_eq(decompose(owned, members), members);
        for (size_t m = 0; m < members; m++) {
            size_t at[4] = {below(2), below(3), below(5), below(7)};
            wanted[m] = (ls_image_box){{at[0], below(3 - at[0])},
                                       {at[1], below(4 - at[1])},
                                       {at[2], at[3], below(6 - at[2]), below(8 - at[3])}};
        }
        try_transfers(owned, wanted, members);
    }
}
END_TEST

/* 2 x 2 grid to channels in fours: by hand. 4 channels of 4 x 4 pixels; each rank gives three of
 * its four channels away, 4 elements each. */
START_TEST(grid_to_channels)
{
    ls_image_box owned[4], wanted[4];
    for (size_t m = 0; m < 4; m++) {
        owned[m] = (ls_image_box){{0, 1}, {0, 4}, {m / 2 * 2, m % 2 * 2, 2, 2}};
        wanted[m] = (ls_image_box){{0, 1}, {m, 1}, {0, 0, 4, 4}};
    }
    ls_transfer *list = NULL;
    size_t n = 0;
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, 4), LS_OK);
    ck_assert_uint_eq(n, 16);
    for (size_t m = 0; m < 4; m++) {
        ck_assert_uint_eq(ls_transfers_sent(list, n, m), 12);
        ck_assert_uint_eq(ls_transfers_received(list, n, m), 12);
    }
    ls_image_box piece = {{0, 1}, {3, 1}, {0, 2, 2, 2}}; /* from 1 to 3 */
    ck_assert(list[7].from == 1 && list[7].to == 3 && ls_image_box_equal(&list[7].box, &piece));
    size_t counts[4], strides[4];
    ck_assert_uint_eq(ls_image_box_place(&wanted[3], &piece, counts, strides), 2);
    ck_assert(counts[0] == 1 && counts[1] == 1 && counts[2] == 2 && counts[3] == 2);
    ck_assert(strides[0] == 16 && strides[1] == 16 && strides[2] == 4 && strides[3] == 1);
    free(list);
}
END_TEST

START_TEST(refusals)
{
    ls_image_box owned[2] = {{{0, 2}, {0, 3}, {0, 0, 3, 7}}, {{0, 2}, {0, 3}, {2, 0, 3, 7}}};
    ls_image_box wanted[2] = {ALL, ALL};
    ls_transfer *list = NULL;
    size_t n = 9;
    ls_error_clear();
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, 2), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(),
                     "members 0 and 1 both own image 0, channel 0, row 2, column 0");
    owned[1].area.top = 4;
    owned[1].area.height = 1;
    ls_error_clear();
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, 2), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(),
                     "member 0 wants 210 elements of which 42 are owned by nobody");
    ck_assert(list == NULL && n == 9);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("image_box", 0);
    tcase_add_test(tcase, redistributions);
    tcase_add_test(tcase, overlapping_wants);
    tcase_add_test(tcase, grid_to_channels);
    tcase_add_test(tcase, refusals);
    return run_tests();
}
