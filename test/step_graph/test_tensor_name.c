/* Names of tensors, taken apart and written. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step_graph/tensor_name.h"
#include "run_tests.h"

/* "step.mb.partial:rest", - for what is not said. */
static void expect(const char *text, const char *wanted)
{
    char found[512], step[32] = "-";
    const ls_tensor_name name = ls_tensor_name_parse(text);
    if (name.has_step) snprintf(step, sizeof step, "%llu", (unsigned long long)name.step);
    snprintf(found, sizeof found, "%s %d %d %s", step, name.micro_batch, (int)name.comm, name.rest);
    ck_assert_str_eq(found, wanted);
    ck_assert(name.rest >= text && name.rest <= text + strlen(text));
}

START_TEST(taken_apart)
{
    expect("step0/layers.0.query", "0 -1 0 layers.0.query");
    expect("step12/mb3/d.layers.0.query", "12 3 0 d.layers.0.query");
    expect("loss", "- -1 0 loss");
    expect("mb0/loss", "- 0 0 loss");
    expect("step0/mb1/layers.0.mlp.partial", "0 1 1 layers.0.mlp.partial");
    expect(".partial", "- -1 1 .partial");
    expect("partial", "- -1 0 partial");
    expect("step18446744073709551615/x", "18446744073709551615 -1 0 x");
    expect("mb2147483647/x", "- 2147483647 0 x");
}
END_TEST

/* What is no prefix stays in the rest: nothing is half read. */
START_TEST(no_prefixes)
{
    static const char *const texts[] = {"",
                                        "step",
                                        "step/x",
                                        "step0",
                                        "step 0/x",
                                        "step-1/x",
                                        "step01/x",
                                        "step00/x",
                                        "stepx/y",
                                        "mb/x",
                                        "mb0",
                                        "mb1x/y",
                                        "STEP0/x",
                                        "xstep0/y",
                                        "/x",
                                        "mb00/x",
                                        "step18446744073709551616/x",
                                        "mb2147483648/x",
                                        "step99999999999999999999999/x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const ls_tensor_name name = ls_tensor_name_parse(texts[i]);
        ck_assert_msg(!name.has_step && name.micro_batch == -1 && name.rest == texts[i],
                      "%s: read as %s", texts[i], name.rest);
    }
    expect("step0/step1/x", "0 -1 0 step1/x");
    expect("mb0/mb1/x", "- 0 0 mb1/x");
    expect("mb0/step1/x", "- 0 0 step1/x");
    expect("step0/mb01/x", "0 -1 0 mb01/x");
}
END_TEST

START_TEST(written_and_read_back)
{
    char name[LS_TENSOR_NAME];
    ls_tensor_name_write(name, 3, -1, "loss");
    ck_assert_str_eq(name, "step3/loss");
    ls_tensor_name_write(name, 3, 0, "layers.1.key");
    ck_assert_str_eq(name, "step3/mb0/layers.1.key");
    expect(name, "3 0 0 layers.1.key");
    /* The longest: a node's name and all numbers at their largest. */
    char longest[128];
    memset(longest, 'x', sizeof longest - 1);
    longest[127] = '\0';
    ls_tensor_name_write(name, UINT64_MAX, INT32_MAX, longest);
    ck_assert_str_eq(ls_tensor_name_parse(name).rest, longest);
}
END_TEST

int main(void)
{
    TCase *names = test_case("names", 0);
    tcase_add_test(names, taken_apart);
    tcase_add_test(names, no_prefixes);
    tcase_add_test(names, written_and_read_back);
    return run_tests();
}
