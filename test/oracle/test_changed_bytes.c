/* Files with bytes changed at random: opened or refused in one line, and nothing else happens. */
#include "oracle/golden_small.h"

static uint32_t random_state;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* A changed byte, a run cut out, a run doubled, a digit that is another. */
static size_t mutate(unsigned char *bytes, size_t count, size_t room, size_t within)
{
    const uint32_t changes = 1 + any(3);
    for (uint32_t n = 0; n < changes && count > 1; n++) {
        if (within > count) within = count;
        const size_t at = any((uint32_t)within);
        size_t run = 1 + any(12);
        if (at + run > count) run = count - at;
        switch (any(5)) {
        case 0:
            bytes[at] = (unsigned char)any(256);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1u << any(8));
            break;
        case 2:
            memmove(bytes + at, bytes + at + run, count - at - run);
            count -= run;
            break;
        case 3:
            if (count + run > room) break;
            memmove(bytes + at + run, bytes + at, count - at);
            count += run;
            break;
        default:
            bytes[at] = (unsigned char)"0123456789-.eE\"{}[]:,"[any(21)];
        }
    }
    return count;
}

/* Thousands of changes of every file: each is opened or refused, and nothing else happens. */
START_TEST(of_a_golden_directory)
{
    static const char *const names[] = {"manifest.json", "forward.safetensors",
                                        "update.safetensors", "truth.safetensors",
                                        "weights.safetensors"};
    /* The last is bound by its SHA-256: a few are enough. */
    static const int rounds[] = {1200, 300, 300, 300, 50};
    const char *name = names[_i];
    size_t count;
    int opened = 0, refusals = 0;
    write_golden(1);
    unsigned char *original = scratch_read(in_golden(name), &count);
    const size_t room = count + 100;
    unsigned char *changed = malloc(room);
    for (int i = 0; i < rounds[_i]; i++) {
        char whole[64];
        ls_golden *golden = NULL;
        random_state = (uint32_t)(i + 1000 * _i);
        memcpy(changed, original, count);
        /* A header's first bytes now and then. */
        const size_t within = any(4) == 0 ? 40 : count;
        const size_t now = mutate(changed, count, room, within);
        snprintf(whole, sizeof whole, "golden/%s", name);
        scratch_file(whole, changed, now);
        const ls_status status = ls_golden_open(&golden, scratch_path("golden"));
        ck_assert_msg(status == LS_OK || (status == LS_ERR_INPUT && ls_error_text()[0]),
                      "%s, change %d: status %d: %s", name, i, (int)status, ls_error_text());
        if (status == LS_OK) {
            /* Every value can be read. */
            const ls_status verified = ls_golden_verify(golden, NULL, NULL);
            ck_assert(verified == LS_OK || verified == LS_ERR_INPUT);
            opened++;
        }
        refusals += status != LS_OK;
        ls_golden_close(&golden);
        ls_error_clear();
    }
    ck_assert_int_gt(refusals, 0);
    if (_i > 0 && _i < 4) ck_assert_int_gt(opened, 0);
    free(original);
    free(changed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("changed_bytes");
    TCase *tests = tcase_create("changed_bytes");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, of_a_golden_directory, 0, 5);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
