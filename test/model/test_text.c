/* test_text.c - texts of any bytes, and batches as a function of seed and step. */
#include <fcntl.h>
#include <stdint.h>

#include "base/read_file.h"
#include "io/scratch.h"
#include "lockstep/model/text.h"
#include "lockstep/numerics/random.h"
#include "run_tests.h"

START_TEST(reads_any_bytes)
{
    unsigned char all[256];
    for (int i = 0; i < 256; i++) all[i] = (unsigned char)(255 - i);
    ls_text text = {NULL, 0};
    ASSERT_OK(ls_text_read(scratch_file("all", all, 256), &text));
    ck_assert_uint_eq(text.count, 256);
    ck_assert_mem_eq(text.bytes, all, 256);
    ASSERT_OK(ls_text_check(&text, "all", 255, 256));
    ls_text_free(&text);
    ck_assert(text.bytes == NULL && text.count == 0);
    ls_text_free(&text);

    ASSERT_OK(ls_text_read(scratch_file("\xff\n name", "\0", 1), &text));
    ck_assert(text.count == 1 && text.bytes[0] == 0);
    ls_text_free(&text);
}
END_TEST

/* A pipe has no length, and gives its bytes in pieces. */
START_TEST(reads_a_pipe)
{
    const char *path = scratch_path("pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    pid_t child = fork();
    if (child == 0) {
        FILE *pipe = fopen(path, "wb");
        for (int i = 0; i < 100000; i++) fputc(i & 0xff, pipe);
        fclose(pipe);
        _exit(0);
    }
    ls_text text = {NULL, 0};
    ASSERT_OK(ls_text_read(path, &text));
    ck_assert_uint_eq(text.count, 100000);
    for (size_t i = 0; i < text.count; i++)
        if (text.bytes[i] != (i & 0xff)) ck_abort_msg("byte %zu", i);
    ls_text_free(&text);
}
END_TEST

/* A pipe that no process writes to, and one whose writer says nothing. */
START_TEST(silent_pipe)
{
    const char *path = scratch_path("silent");
    ls_text text = {NULL, 0};
    ls_read_file_patience_ms = 50;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ASSERT_SAYS(ls_text_read(path, &text), LS_ERR_INPUT, "silent: a pipe", "nothing came for");
    const int writer = open(path, O_RDWR);
    ck_assert_int_ge(writer, 0);
    ck_assert_int_eq(write(writer, "ab", 2), 2);
    ASSERT_SAYS(ls_text_read(path, &text), LS_ERR_INPUT, "silent: a pipe", "nothing came for");
    close(writer);
    ck_assert_ptr_null(text.bytes);
}
END_TEST

START_TEST(read_refuses)
{
    ls_text text = {(unsigned char *)&text, 77};
    ASSERT_SAYS(ls_text_read(scratch_path("missing"), &text), LS_ERR_INPUT,
                "missing: No such file");
    ASSERT_SAYS(ls_text_read(scratch_path("miss\xffing\x1b"), &text), LS_ERR_INPUT,
                "miss\\xffing\\x1b: No such file");
    ASSERT_SAYS(ls_text_read("", &text), LS_ERR_INPUT, "No such file");
    ASSERT_SAYS(ls_text_read(scratch_folder, &text), LS_ERR_INPUT, "is a folder");
    ASSERT_SAYS(ls_text_read(scratch_file("empty", "", 0), &text), LS_ERR_INPUT, "empty: empty");
    ASSERT_SAYS(ls_text_read("/dev/null", &text), LS_ERR_INPUT, "/dev/null: empty");
    const char *path = scratch_file("secret", "x", 1);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0) ck_assert_int_eq(setuid(65534), 0);
    ASSERT_SAYS(ls_text_read(path, &text), LS_ERR_IO, "secret: Permission denied");
    ck_assert(text.bytes == (unsigned char *)&text && text.count == 77);
}
END_TEST

START_TEST(check_of_length_and_vocabulary)
{
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i % 32);
    ls_text text = {bytes, 64};
    ASSERT_OK(ls_text_check(&text, "t", 63, 32)); /* exactly S + 1 */
    ASSERT_SAYS(ls_text_check(&text, "t\n", 64, 32), LS_ERR_INPUT, "t\\x0a: 64 bytes", "--seq 64",
                "at least 65");
    text.count = 1;
    ASSERT_SAYS(ls_text_check(&text, "t", 24, 256), LS_ERR_INPUT, "t: 1 byte long", "--seq 24",
                "at least 25");
    ASSERT_SAYS(ls_text_check(&text, "t", 1, 256), LS_ERR_INPUT, "at least 2");
    text.count = 64;
    ASSERT_SAYS(ls_text_check(&text, "t", 8, 31), LS_ERR_INPUT, "t: byte 31 at offset 31",
                "--vocab 31", "0 to 30");
    bytes[63] = 255; /* the last byte counts: it is some target */
    ASSERT_SAYS(ls_text_check(&text, "t", 8, 255), LS_ERR_INPUT, "byte 255 at offset 63",
                "--vocab 255");
    ASSERT_OK(ls_text_check(&text, "t", 8, 256));
    ASSERT_OK(ls_text_check(&text, "t", 8, 50257));
}
END_TEST

enum { COUNT = 997, S = 13, B = 8 };

static ls_text counting(unsigned char bytes[COUNT])
{
    for (int i = 0; i < COUNT; i++) bytes[i] = (unsigned char)(i * 7 + i / 256);
    return (ls_text){bytes, COUNT};
}

/* By the definition, from the same random numbers. */
START_TEST(batch_is_the_definition)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    int32_t tokens[B][S], targets[B][S];
    for (uint32_t step = 0; step < 50; step++) {
        memset(tokens, 0xff, sizeof tokens);
        memset(targets, 0xff, sizeof targets);
        ls_text_batch(&text, 1234, step, 0, B, S, &tokens[0][0], &targets[0][0]);
        for (uint64_t b = 0; b < B; b++) {
            double u = ls_random_uniform((ls_stream){1234, LS_RANDOM_DATA, 0, step}, b);
            size_t start = (size_t)(u * (COUNT - S));
            ck_assert_uint_le(start + S, COUNT - 1);
            for (size_t s = 0; s < S; s++) {
                ck_assert_int_eq(tokens[b][s], bytes[start + s]);
                ck_assert_int_eq(targets[b][s], bytes[start + s + 1]);
            }
        }
    }
}
END_TEST

/* Whoever asks for a part of a batch gets that part: micro-batches and data-parallel ranks agree.
 */
START_TEST(slices_of_a_batch)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    int32_t tokens[B][S], targets[B][S], part[B][S], part_targets[B + 1][S];
    ls_text_batch(&text, 5, 9, 0, B, S, &tokens[0][0], &targets[0][0]);
    for (size_t first = 0; first <= B; first++) {
        for (size_t n = 0; first + n <= B; n++) {
            memset(part, 0xff, sizeof part);
            memset(part_targets, 0xff, sizeof part_targets);
            ls_text_batch(&text, 5, 9, first, n, S, &part[0][0], &part_targets[0][0]);
            ck_assert(memcmp(part, tokens[first], n * sizeof part[0]) == 0);
            ck_assert(memcmp(part_targets, targets[first], n * sizeof part[0]) == 0);
            ck_assert_int_eq(part_targets[n][0], -1); /* nothing behind */
        }
    }
}
END_TEST

/* Targets are shifted once, also where a sequence shard would begin: pairs (s, s + 1) of one text.
 */
START_TEST(targets_are_shifted_once)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    int32_t tokens[B][S], targets[B][S];
    ls_text_batch(&text, 1, 0, 0, B, S, &tokens[0][0], &targets[0][0]);
    for (int b = 0; b < B; b++)
        for (int s = 0; s + 1 < S; s++) ck_assert_int_eq(targets[b][s], tokens[b][s + 1]);
}
END_TEST

START_TEST(seeds_and_steps_differ)
{
    unsigned char bytes[COUNT];
    ls_text text = counting(bytes);
    int32_t a[B][S], b[B][S], targets[B][S];
    ls_text_batch(&text, 1, 0, 0, B, S, &a[0][0], &targets[0][0]);
    ls_text_batch(&text, 1, 0, 0, B, S, &b[0][0], &targets[0][0]);
    ck_assert(memcmp(a, b, sizeof a) == 0);
    ls_text_batch(&text, 1, 1, 0, B, S, &b[0][0], &targets[0][0]);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    ls_text_batch(&text, 2, 0, 0, B, S, &b[0][0], &targets[0][0]);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    ls_text_batch(&text, (uint64_t)1 << 32 | 1, 0, 0, B, S, &b[0][0], &targets[0][0]);
    ck_assert(memcmp(a, b, sizeof a) != 0); /* all 64 bits of the seed count */
    ck_assert(memcmp(a[0], a[1], sizeof a[0]) != 0);
}
END_TEST

/* Every start is possible, the first and the last too, and none beyond. The text lies at the end of
 * its block, so that a step too far is seen by a sanitizer. */
START_TEST(shortest_texts)
{
    for (size_t extra = 1; extra <= 3; extra++) {
        ls_text text = {malloc(S + extra), S + extra};
        for (size_t i = 0; i < text.count; i++) text.bytes[i] = (unsigned char)(10 + i);
        int seen[4] = {0};
        for (uint32_t step = 0; step < 30; step++) {
            int32_t tokens[B][S], targets[B][S];
            ls_text_batch(&text, 3, step, 0, B, S, &tokens[0][0], &targets[0][0]);
            for (int b = 0; b < B; b++) {
                ck_assert_int_ge(tokens[b][0], 10);
                ck_assert_int_lt(tokens[b][0], 10 + (int)extra);
                ck_assert_int_eq(targets[b][S - 1], tokens[b][0] + S);
                seen[tokens[b][0] - 10] = 1;
            }
        }
        for (size_t i = 0; i < extra; i++) ck_assert(seen[i]);
        free(text.bytes);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("text", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, reads_any_bytes);
    tcase_add_test(tcase, reads_a_pipe);
    tcase_add_test(tcase, silent_pipe);
    tcase_add_test(tcase, read_refuses);
    tcase_add_test(tcase, check_of_length_and_vocabulary);
    tcase_add_test(tcase, batch_is_the_definition);
    tcase_add_test(tcase, slices_of_a_batch);
    tcase_add_test(tcase, targets_are_shifted_once);
    tcase_add_test(tcase, seeds_and_steps_differ);
    tcase_add_test(tcase, shortest_texts);
    return run_tests();
}
