/* Drawings of timelines: every pass at its place, foreign text harmless, times that are no numbers
 * left out. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/drawing.h"
#include "run_tests.h"

static char text[1 << 20];

/* Everything of the drawing that `file` has received. */
static void finish(FILE *file)
{
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    ck_assert_uint_lt(length, sizeof text - 1);
    text[length] = '\0';
    fclose(file);
}

static void draw(const ls_drawing *drawing)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ls_svg_boxes(file, drawing);
    finish(file);
}

static int count_of(const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
    return count;
}

/* Each tag is closed, in order; attributes hold no angle brackets. */
static void check_well_formed(void)
{
    char open[16][16];
    int depth = 0;
    for (const char *at = strchr(text, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        ck_assert_ptr_nonnull(end);
        size_t letters = strcspn(at + 1 + (at[1] == '/'), " />");
        char name[16] = "";
        ck_assert_uint_lt(letters, sizeof name);
        memcpy(name, at + 1 + (at[1] == '/'), letters);
        if (at[1] == '/') {
            ck_assert_int_gt(depth, 0);
            ck_assert_str_eq(open[--depth], name);
        } else if (end[-1] != '/') {
            ck_assert_int_lt(depth, 16);
            memcpy(open[depth++], name, sizeof name);
        }
    }
    ck_assert_int_eq(depth, 0);
}

/* Two ranks, two micro-batches of 1F1B: six steps of time on 676 of 760 units, from 54 on. */
START_TEST(passes_stand_at_their_times)
{
    ls_schedule *schedule = NULL;
    ls_timeline *timeline = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, LS_1F1B, 2, 2, 1), LS_OK);
    ck_assert_int_eq(ls_timeline_create(&timeline, schedule, 1, 1), LS_OK);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(ls_svg_timeline(file, timeline, "two ranks"), LS_OK);
    finish(file);
    check_well_formed();
    const double left = 54.0, step = (760.0 - 8.0 - left) / 6.0;
    static const int starts[2][4] = {{0, 1, 3, 5}, {1, 2, 3, 4}};
    static const char *const notes[2][4] = {
        {"rank 0, forward of micro-batch 0", "rank 0, forward of micro-batch 1",
         "rank 0, backward of micro-batch 0", "rank 0, backward of micro-batch 1"},
        {"rank 1, forward of micro-batch 0", "rank 1, backward of micro-batch 0",
         "rank 1, forward of micro-batch 1", "rank 1, backward of micro-batch 1"}};
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < 4; i++) {
            char box[64], note[64];
            snprintf(box, sizeof box, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\"",
                     left + starts[p][i] * step, 48.0 + 26.0 * p, step);
            snprintf(note, sizeof note, "<title>%s</title>", notes[p][i]);
            const char *at = strstr(text, box);
            ck_assert_msg(at != NULL, "%s is not in %s", box, text);
            const char *said = strstr(at, note), *next = strchr(at, '\n');
            ck_assert_msg(said != NULL && said < next, "%s is not beside %s", note, box);
        }
    }
    ck_assert_int_eq(count_of("<title>"), 8);
    ck_assert_int_eq(count_of("class=\"number\""), 8);
    ck_assert_int_eq(count_of(">rank 0</text>"), 1);
    ck_assert_int_eq(count_of(">rank 1</text>"), 1);
    ck_assert_int_eq(count_of(">two ranks</text>"), 1);
    ck_assert_int_eq(count_of("later chunks"), 0);
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&schedule);
}
END_TEST

/* As many boxes as passes, each chunk in its shade. */
START_TEST(chunks_have_shades)
{
    ls_schedule *schedule = NULL;
    ls_timeline *timeline = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, LS_INTERLEAVED, 3, 6, 2), LS_OK);
    ck_assert_int_eq(ls_timeline_create(&timeline, schedule, 1, 2), LS_OK);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(ls_svg_timeline(file, timeline, NULL), LS_OK);
    finish(file);
    check_well_formed();
    ck_assert_int_eq(count_of("<title>"), 3 * 6 * 2 * 2);
    ck_assert_int_eq(count_of(", chunk 1</title>"), 3 * 6 * 2);
    ck_assert_int_eq(count_of("fill=\"#a9c6ee\" stroke"), 3 * 6); /* forward, chunk 0 */
    ck_assert_int_eq(count_of("fill=\"#7fa8df\" stroke"), 3 * 6); /* forward, chunk 1 */
    ck_assert_int_eq(count_of("darker: later chunks"), 1);
    ck_assert_int_eq(count_of("class=\"title\""), 0);
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&schedule);
}
END_TEST

/* A run as it was measured: names of rows, an axis with its unit, several kinds. */
START_TEST(measured_times_have_an_axis)
{
    static const char *const names[] = {"dp 0", "dp 1"};
    const ls_box boxes[] = {{0, 0.0, 40.5, LS_BOX_FORWARD, 0, "0", ""},
                            {1, 12.25, 80.0, LS_BOX_COMMUNICATION, 0, "all-reduce", "16 bytes"},
                            {1, 80.0, 80.0, LS_BOX_OTHER, 7, "never seen", ""}};
    const ls_drawing drawing = {"measured", "us", 2, names, boxes, 3};
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of(">us</text>"), 1);
    ck_assert_int_eq(count_of(">20</text>"), 1);
    ck_assert_int_eq(count_of(">dp 1</text>"), 1);
    ck_assert_int_eq(count_of(">all-reduce</text>"), 1);
    ck_assert_int_eq(count_of("<title>16 bytes</title>"), 1);
    ck_assert_int_eq(count_of("never seen"), 0); /* no room */
    ck_assert_int_eq(count_of(">communication</text>"), 1);
    ck_assert_int_eq(count_of(">backward</text>"), 0);
    ck_assert_int_eq(count_of(">other</text>"), 1);
}
END_TEST

START_TEST(foreign_text_is_harmless)
{
    static const char *const names[] = {"<b>\"'&\x01\xff"};
    const ls_box boxes[] = {{0, 0.0, 1.0, LS_BOX_FORWARD, 0, "<i>&", "</title><script>"}};
    const ls_drawing drawing = {"\"><script>", "<u>", 1, names, boxes, 1};
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of("<script>"), 0);
    ck_assert_int_eq(count_of("<i>"), 0);
    ck_assert_int_eq(count_of("<b>"), 0);
    ck_assert_int_eq(count_of("<u>"), 0);
    ck_assert_int_eq(count_of("&lt;b&gt;&quot;&#39;&amp;\\x01\\xff"), 1);
}
END_TEST

/* Times that are no numbers, end before start, rows and kinds that do not exist: left out. */
START_TEST(what_cannot_be_drawn_is_left_out)
{
    const double nan = (double)NAN, infinite = (double)INFINITY;
    const ls_box boxes[] = {
        {0, nan, 1.0, LS_BOX_FORWARD, 0, "bad", "bad"},
        {0, 0.0, nan, LS_BOX_FORWARD, 0, "bad", "bad"},
        {0, 0.0, infinite, LS_BOX_FORWARD, 0, "bad", "bad"},
        {0, -infinite, 0.0, LS_BOX_FORWARD, 0, "bad", "bad"},
        {0, 2.0, 1.0, LS_BOX_FORWARD, 0, "bad", "bad"},
        {2, 0.0, 1.0, LS_BOX_FORWARD, 0, "bad", "bad"},
        {-1, 0.0, 1.0, LS_BOX_FORWARD, 0, "bad", "bad"},
        {0, 0.0, 1.0, LS_BOX_KINDS, 0, "bad", "bad"},
        {0, 0.0, 1.0, LS_BOX_FORWARD, -1, "bad", "bad"},
        {1, -1.0, 3.0, LS_BOX_BACKWARD, 4, "good", "good"},
    };
    ls_drawing drawing = {NULL, "s", 2, NULL, boxes, sizeof boxes / sizeof boxes[0]};
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of("bad"), 0);
    ck_assert_int_eq(count_of("good"), 2);
    ck_assert_int_eq(count_of("nan"), 0);
    ck_assert_int_eq(count_of("inf"), 0);
    drawing.count = 0; /* nothing at all: rows that were idle */
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of(">rank 1</text>"), 1);
    drawing.rows = 0;
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of("nan"), 0);
}
END_TEST

/* Sixty-four ranks. */
START_TEST(many_ranks_are_drawn_lower)
{
    const ls_box boxes[] = {{63, 0.0, 1.0, LS_BOX_FORWARD, 0, "0", "last"}};
    const ls_drawing drawing = {NULL, NULL, 64, NULL, boxes, 1};
    draw(&drawing);
    check_well_formed();
    ck_assert_int_eq(count_of("viewBox=\"0 0 760 988\""), 1); /* 24 + 64 * 15 + 4 */
    ck_assert_int_eq(count_of(">rank 63</text>"), 1);
}
END_TEST

int main(void)
{
    TCase *cases = test_case("drawing", 0);
    tcase_add_test(cases, passes_stand_at_their_times);
    tcase_add_test(cases, chunks_have_shades);
    tcase_add_test(cases, measured_times_have_an_axis);
    tcase_add_test(cases, foreign_text_is_harmless);
    tcase_add_test(cases, what_cannot_be_drawn_is_left_out);
    tcase_add_test(cases, many_ranks_are_drawn_lower);
    return run_tests();
}
