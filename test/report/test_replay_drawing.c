/* Replays as text and as pictures. */
#include <stdio.h>
#include <unistd.h>

#include "pipeline/event_rows.h"
#include "base/read_file.h"
#include "report/replay_drawing.h"
#include "run_tests.h"

static void pass(event_rows *rows, int rank, const char *what, int micro_batch, uint64_t cpu_ns)
{
    rows->what = what;
    rows->micro_batch = micro_batch;
    compute(rows, rank, cpu_ns);
    rows->log.events[rank][rows->log.n_events[rank] - 1].stage = rank;
}

/* Two ranks, one step of 1F1B with 2 micro-batches after a step of nothing but an update. */
static event_rows *two_ranks(void)
{
    event_rows *rows = rows_new(2);
    rows->step = 0;
    for (int r = 0; r < 2; r++) pass(rows, r, "update", -1, 5000);
    rows->step = 1;
    pass(rows, 0, "forward", 0, 1000);
    post(rows, 0, LS_EVENT_SEND_BEGIN, 1, 0);
    pass(rows, 0, "forward", 1, 1000);
    post(rows, 0, LS_EVENT_SEND_BEGIN, 1, 0);
    receive(rows, 1, 0, 1);
    pass(rows, 1, "forward", 0, 1000);
    pass(rows, 1, "backward", 0, 2000);
    post(rows, 1, LS_EVENT_SEND_BEGIN, 0, 0);
    receive(rows, 1, 0, 2);
    pass(rows, 1, "forward", 1, 1000);
    pass(rows, 1, "backward", 1, 2000);
    post(rows, 1, LS_EVENT_SEND_BEGIN, 0, 0);
    rows->what = "backward";
    rows->micro_batch = 0;
    receive(rows, 0, 1, 1);
    pass(rows, 0, "backward", 0, 2000);
    receive(rows, 0, 1, 2);
    pass(rows, 0, "backward", 11, 2000); /* letters go on, digits begin again */
    for (int r = 0; r < 2; r++) {
        rows->what = "update";
        rows->micro_batch = -1;
        collective(rows, r, LS_OP_ALL_REDUCE, 0, 1, 1000);
        pass(rows, r, "update", -1, 1000);
    }
    return rows;
}

static void check_text(const event_rows *rows, ls_link link, int step, int width,
                       const char *expected)
{
    ls_replay *replay = NULL;
    char *text = NULL;
    size_t count = 0;
    ck_assert_int_eq(ls_replay_create(&replay, &rows->log, "t", &link), LS_OK);
    FILE *file = open_memstream(&text, &count);
    ck_assert_int_eq(ls_replay_text(file, &rows->log, replay, step, width), LS_OK);
    fclose(file);
    ck_assert_str_eq(text, expected);
    free(text);
    ls_replay_destroy(&replay);
}

START_TEST(text_is_the_picture)
{
    event_rows *rows = two_ranks();
    ck_assert_int_eq(ls_replay_last_step(&rows->log), 1);
    /* The step takes 10000 ns: one column each 1000, then 500. */
    check_text(rows, (ls_link){0.0, 0.0}, 1, 20,
               "rank 0    01..aa.ll+\n"
               "rank 1    .0aa1bb..+\n");
    check_text(rows, (ls_link){0.0, 0.0}, 1, 30,
               "rank 0    0011....aaaa..llll++\n"
               "rank 1    ..00aaaa11bbbb....++\n");
    /* All of it: 5 columns more. */
    check_text(rows, (ls_link){0.0, 0.0}, -1, 25,
               "rank 0    +++++01..aa.ll+\n"
               "rank 1    +++++.0aa1bb..+\n");
    /* A latency of 500: a hop costs half a column, the all-reduce 2. */
    check_text(rows, (ls_link){500.0, 0.0}, 1, 34,
               "rank 0    0011.....=aaaa.=llll==++\n"
               "rank 1    ..=00aaaa11bbbb.....==++\n");
    check_text(rows, (ls_link){0.0, 0.0}, 7, 34, ""); /* no such step */
    rows_free(&rows);
}
END_TEST

/* How often `part` stands in `text`. */
static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
    return n;
}

START_TEST(pictures)
{
    static const char *const path = "replay_drawing_test.svg";
    event_rows *rows = two_ranks();
    ls_replay *replay = NULL;
    ls_link link = {500.0, 0.0};
    unsigned char *bytes = NULL;
    size_t count = 0;
    const int stage_of[] = {0, 1};
    static const char names[2][LS_REPLAY_NAME] = {"rank 0 (pp 0)", "rank 1 (pp 1)"};
    ck_assert_int_eq(ls_replay_create(&replay, &rows->log, "t", &link), LS_OK);
    ck_assert_int_eq(ls_replay_svg(path, &rows->log, replay, 1, stage_of, names, "a < b"), LS_OK);
    ck_assert_int_eq(ls_read_file(path, 1 << 20, &bytes, &count), LS_OK);
    const char *svg = (const char *)bytes;
    ck_assert(strncmp(svg, "<svg", 4) == 0);
    ck_assert_ptr_nonnull(strstr(svg, "a &lt; b"));
    ck_assert_ptr_nonnull(strstr(svg, "rank 1 (pp 1)"));
    static const struct {
        const char *note;
        int times;
    } notes[] = {{"forward, stage 0, micro-batch 0", 1},
                 {"forward, stage 1, micro-batch 1", 1},
                 {"backward, stage 0, micro-batch 11", 1},
                 {"all_reduce", 2},
                 {"receive", 3}};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        ck_assert_msg(count_of(svg, notes[i].note) == notes[i].times, "%s: %d times", notes[i].note,
                      count_of(svg, notes[i].note));
    free(bytes);
    unlink(path);
    ck_assert_int_eq(ls_replay_svg("no/such/x.svg", &rows->log, replay, 1, stage_of, names, NULL),
                     LS_ERR_INPUT);
    ls_replay_destroy(&replay);
    rows_free(&rows);
}
END_TEST

/* A step of a network: layers in place of micro-batches. */
static event_rows *two_layers(void)
{
    static const struct {
        const char *what, *part;
        uint64_t cpu_ns;
    } tasks[] = {{"forward", "conv1", 3000},
                 {"forward", "a.layer.of.a.long.name", 2000},
                 {"forward", "dense", 1000},
                 {"backward", "dense", 2000},
                 {"backward", "conv1", 2000}};
    event_rows *rows = rows_new(1);
    rows->step = 0;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        pass(rows, 0, tasks[i].what, 0, tasks[i].cpu_ns);
        rows->log.events[0][i].part = tasks[i].part;
    }
    return rows;
}

START_TEST(layers)
{
    static const char *const path = "replay_layers_test.svg";
    static const char names[1][LS_REPLAY_NAME] = {"rank 0 (row 0)"};
    const int stage_of[] = {0};
    event_rows *rows = two_layers();
    ls_replay *replay = NULL;
    unsigned char *bytes = NULL;
    size_t count = 0;
    ls_link link = {0.0, 0.0};
    check_text(rows, link, 0, 20, "rank 0    000112ccaa\n");
    ck_assert_int_eq(ls_replay_create(&replay, &rows->log, "t", &link), LS_OK);
    ck_assert_int_eq(ls_replay_svg(path, &rows->log, replay, 0, stage_of, names, "t"), LS_OK);
    ck_assert_int_eq(ls_read_file(path, 1 << 20, &bytes, &count), LS_OK);
    const char *svg = (const char *)bytes;
    ck_assert_ptr_nonnull(strstr(svg, "rank 0 (row 0)"));
    ck_assert_int_eq(count_of(svg, ">forward conv1<"), 1);
    ck_assert_int_eq(count_of(svg, ">backward dense<"), 1);
    ck_assert_int_eq(count_of(svg, ">forward a.layer.of.a.long.name<"), 1);
    ck_assert_int_eq(count_of(svg, ">conv1<"), 2); /* written into its boxes */
    ck_assert_int_eq(count_of(svg, "micro-batch"), 0);
    free(bytes);
    unlink(path);
    ls_replay_destroy(&replay);
    rows_free(&rows);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("replay_drawing", 0);
    tcase_add_test(tcase, text_is_the_picture);
    tcase_add_test(tcase, pictures);
    tcase_add_test(tcase, layers);
    return run_tests();
}
