/* test_halo_groups.c - convolutions over some ranks of a world, from boxes, an exchange and the
 * kernels, in numbers: filters of ones over a line of pixels. Each case is one that some system has
 * had wrong. */
#include "comm/comm_test.h"

#include "lockstep/kernels/conv2d.h"
#include "lockstep/parallel/spatial/box_exchange.h"
#include "lockstep/partition/spatial.h"

enum { LONGEST = 8 };

typedef struct line_case {
    const char *name;
    size_t pixels, kernel, stride, before, after, outputs;
    ls_real y[2][LONGEST], dx[2][LONGEST]; /* of x = 1, 2, ... and of x backwards; of dy = 1 */
} line_case;

static const line_case lines[] = {
    {"stride 1",
     6,
     3,
     1,
     1,
     1,
     6,
     {{3, 6, 9, 12, 15, 11}, {11, 15, 12, 9, 6, 3}},
     {{2, 3, 3, 3, 3, 2}, {2, 3, 3, 3, 3, 2}}},
    {"stride 2",
     6,
     3,
     2,
     1,
     1,
     3,
     {{3, 9, 15}, {11, 12, 6}},
     {{1, 2, 1, 2, 1, 1}, {1, 2, 1, 2, 1, 1}}},
    {"a pad after alone",
     6,
     3,
     2,
     0,
     1,
     3,
     {{6, 12, 11}, {15, 9, 3}},
     {{1, 1, 2, 1, 2, 1}, {1, 1, 2, 1, 2, 1}}},
    {"kernel 7, stride 2, padding 3",
     8,
     7,
     2,
     3,
     3,
     4,
     {{10, 21, 35, 30}, {26, 33, 28, 15}},
     {{2, 3, 3, 4, 3, 3, 2, 2}, {2, 3, 3, 4, 3, 3, 2, 2}}},
};

/* Members of the world that share the lines; how: by pixels, by images, by channels. */
typedef enum cut { BY_PIXELS, BY_IMAGES, BY_CHANNELS } cut;

typedef struct arrangement {
    const line_case *line;
    int members[2];
    cut cut;
} arrangement;

static ls_window window_of(const line_case *l)
{
    return (ls_window){l->pixels, 1, l->kernel, 1, l->stride, 1, 1, 1, l->before, l->after, 0, 0};
}

static ls_share half(size_t n, bool whole, size_t member)
{
    return whole ? (ls_share){0, n} : ls_share_of(n, 2, member);
}

/* From `owned` to what this member wants. */
static ls_status move(ls_group *group, const ls_image_box *owned, const ls_image_box *wanted,
                      size_t own, const ls_real *from, ls_real *to)
{
    ls_status status = LS_OK;
    ls_transfer *list = NULL;
    ls_exchange *exchange = NULL;
    size_t n = 0;
    LS_TRY(ls_transfers_create(&list, &n, owned, wanted, 2));
    LS_TRY(ls_image_boxes_begin(group, 1, list, n, &owned[own], from, &wanted[own], to,
                                LS_REAL_DTYPE, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
exit:
    free(list);
    return status;
}

/* Two images of two groups of one channel each; both channels have the same pixels. */
static ls_status convolve(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const arrangement *a = argument;
    const line_case *l = a->line;
    const ls_window w = window_of(l);
    const int me = ls_rank_index(rank);
    const bool taken = me == a->members[0] || me == a->members[1];
    ls_group *group = NULL;
    LS_TRY(ls_group_split(ls_rank_world_group(rank), taken ? 1 : 0, me, "halo", &group));
    if (!taken) goto exit; /* the others are no part of it */

    const size_t own = (size_t)ls_group_rank(group);
    const ls_share images = half(2, a->cut != BY_IMAGES, own);
    const ls_share channels = half(2, a->cut != BY_CHANNELS, own);
    ls_image_box x[2], y[2], x_wanted[2], dy_wanted[2];
    ls_rectangle x_made[2], y_made[2];
    for (size_t m = 0; m < 2; m++) {
        const ls_share rows = half(l->pixels, a->cut != BY_PIXELS, m);
        const ls_share out = half(l->outputs, a->cut != BY_PIXELS, m);
        x_made[m] = (ls_rectangle){rows.first, 0, rows.count, 1};
        y_made[m] = (ls_rectangle){out.first, 0, out.count, 1};
        x[m] = (ls_image_box){half(2, a->cut != BY_IMAGES, m), half(2, a->cut != BY_CHANNELS, m),
                              x_made[m]};
        y[m] = (ls_image_box){x[m].images, x[m].channels, y_made[m]};
        x_wanted[m] = x[m], x_wanted[m].area = ls_window_reads(&w, y_made[m]);
        dy_wanted[m] = y[m], dy_wanted[m].area = ls_window_read_by(&w, x_made[m]);
    }

    /* the groups that a rank holds are counted, not those of the whole layer */
    const ls_conv2d conv = {w, channels.count, channels.count, channels.count, 1, 1, {1, 1}};
    LS_TRY(ls_conv2d_check(l->name, &conv));
    const ls_real weight[2 * LONGEST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    ls_real from[4 * LONGEST], halo[4 * LONGEST], made[4 * LONGEST], grad[4 * LONGEST];
    ls_real dy[4 * LONGEST], dy_halo[4 * LONGEST];
    guarded scratch = guarded_new(ls_conv2d_scratch(&conv, 2) * sizeof(ls_real));
    size_t at = 0;
    for (size_t n = images.first; n < images.first + images.count; n++)
        for (size_t c = 0; c < channels.count; c++)
            for (size_t r = x_made[own].top; r < x_made[own].top + x_made[own].height; r++)
                from[at++] = (ls_real)(n == 0 ? r + 1 : l->pixels - r);
    for (size_t i = 0; i < 4 * LONGEST; i++) dy[i] = 1;

    LS_TRY(move(group, x, x_wanted, own, from, halo));
    LS_TRY(move(group, y, dy_wanted, own, dy, dy_halo));
    const ls_image_layout x_read = {x_wanted[own].area, channels.count * x_wanted[own].area.height};
    const ls_image_layout dy_read = {dy_wanted[own].area,
                                     channels.count * dy_wanted[own].area.height};
    const ls_image_layout y_layout = {y_made[own], channels.count * y_made[own].height};
    const ls_image_layout x_layout = {x_made[own], channels.count * x_made[own].height};
    LS_TRY(ls_conv2d_forward(LS_ENGINE_PORTABLE, &conv, images.count, made, y_layout, y_made[own],
                             halo, x_read, weight, l->kernel, NULL, (ls_real *)scratch.data));
    LS_TRY(ls_conv2d_backward(LS_ENGINE_PORTABLE, &conv, images.count, grad, x_layout, x_made[own],
                              dy_halo, dy_read, weight, l->kernel, (ls_real *)scratch.data));
    at = 0;
    for (size_t n = images.first; n < images.first + images.count; n++)
        for (size_t c = 0; c < channels.count; c++)
            for (size_t r = y_made[own].top; r < y_made[own].top + y_made[own].height; r++, at++)
                EXPECT(made[at] == l->y[n][r], "%s: rank %d: y[%zu] of image %zu is %g", l->name,
                       me, r, n, (double)made[at]);
    at = 0;
    for (size_t n = images.first; n < images.first + images.count; n++)
        for (size_t c = 0; c < channels.count; c++)
            for (size_t r = x_made[own].top; r < x_made[own].top + x_made[own].height; r++, at++)
                EXPECT(grad[at] == l->dx[n][r], "%s: rank %d: dx[%zu] of image %zu is %g", l->name,
                       me, r, n, (double)grad[at]);
    guarded_free(&scratch);
exit:
    return status;
}

/* Halos among ranks {2, 3} of four: a rank of the group is no rank of the world. x = 1 .. 6 gives
 * 3 6 9 on rank 2 and 12 15 11 on rank 3. {0, 2} are no neighbours in the world. Batch and channels
 * cut instead of pixels: stride 1 and 2 alike, and every window is taken; a layer of two groups is
 * one of one group on each of two ranks. Backward, x and dy have different halos. */
START_TEST(known_lines)
{
    static const int pairs[][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++)
        for (size_t p = 0; p < 4; p++)
            for (cut c = BY_PIXELS; c <= BY_CHANNELS; c++) {
                arrangement a = {&lines[l], {pairs[p][0], pairs[p][1]}, c};
                run_well(4, NULL, convolve, &a);
            }
}
END_TEST

TEST_MAIN("halo_groups", known_lines)
