/* Golden directories of convolutional networks: every layout gives one digest, the directory opens,
 * judges itself equal, whole and per rank, and one element that is wrong is found. */
#include "lockstep/io/safetensors.h"
#include "golden/net_golden_fixture.h"
#include "run_tests.h"

/* ---- dump ---- */

START_TEST(every_layout_has_one_digest)
{
    static const char *const layouts[][4] = {
        {"spatial 2x2", "dp 3", "dp 3 x spatial 1x2 x channel 2", "spatial 3x1, overlap"},
        {"spatial 1x2", "spatial 5x2", "spatial 2x2", "dp 4"},
        {"channel 2", "spatial 2x3", "dp 2 x spatial 2x1 x channel 2", "channel 4"},
        {"spatial 2x2", "dp 2 x spatial 1x2", "spatial 4x2, overlap", "dp 2 x channel 2"}};
    net_run r;
    net_run_begin(&r, (size_t)_i, (size_t)_i == 1 ? 4 : 3, 2);
    const ls_dump_summary serial = net_dump(&r, scratch_path("golden"), false, false);
    for (int l = 0; l < 4; l++) {
        r.run.layout = net_layout_of(layouts[_i][l]);
        const ls_dump_summary summary = net_dump(&r, scratch_path("golden"), false, true);
        ck_assert_msg(strcmp(summary.digest, serial.digest) == 0, "%s: another digest in %s",
                      r.config.name, layouts[_i][l]);
        ck_assert_uint_eq(summary.tensors, serial.tensors);
        ls_golden *golden = NULL;
        ck_assert_msg(ls_golden_open(&golden, scratch_path("golden")) == LS_OK, "%s",
                      ls_error_text());
        char text[LS_LAYOUT_TEXT], wanted[LS_LAYOUT_TEXT];
        ls_layout_describe(&golden->run.layout, text, sizeof text);
        ls_layout_describe(&r.run.layout, wanted, sizeof wanted);
        ck_assert_str_eq(text, wanted);
        ls_golden_close(&golden);
    }
    net_run_end(&r);
}
END_TEST

/* ---- check ---- */

static ls_judgement *judge(const ls_golden *golden, const char *path, ls_candidate **ret_candidate)
{
    ls_judgement *judgement = NULL;
    ck_assert_msg(ls_candidate_open(ret_candidate, golden, path, NULL) == LS_OK, "%s",
                  ls_error_text());
    ck_assert_msg(ls_check(&judgement, golden, *ret_candidate, NULL) == LS_OK, "%s",
                  ls_error_text());
    return judgement;
}

START_TEST(a_directory_is_equal_to_itself)
{
    net_run r;
    net_run_begin(&r, (size_t)_i, 4, 2);
    const ls_dump_summary summary = net_dump(&r, scratch_path("golden"), true, false);
    ck_assert_msg(!!(summary.worst_ratio <= 1), "%s is %g of its bound", summary.worst_tensor,
                  summary.worst_ratio);
    ls_golden *golden = NULL;
    ls_candidate *candidate = NULL;
    ck_assert_msg(ls_golden_open(&golden, scratch_path("golden")) == LS_OK, "%s", ls_error_text());
    ck_assert_msg(ls_golden_verify(golden, NULL, NULL) == LS_OK, "%s", ls_error_text());
    ls_judgement *judgement = judge(golden, scratch_path("golden"), &candidate);
    ck_assert_uint_eq(judgement->equal, summary.tensors);
    ck_assert_uint_eq(judgement->different, 0);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    ls_golden_close(&golden);
    net_run_end(&r);
}
END_TEST

START_TEST(what_ranks_held_is_equal)
{
    static const char *const layouts[] = {"dp 2 x spatial 1x2 x channel 2", "dp 2 x spatial 3x1",
                                          "spatial 2x2", "spatial 5x2"};
    net_run r;
    net_run_begin(&r, (size_t)_i % NETS_TINY, 4, 1);
    r.run.layout = net_layout_of(layouts[_i]);
    const ls_dump_summary summary = net_dump(&r, scratch_path("golden"), false, true);
    ls_golden *golden = NULL;
    ls_candidate *candidate = NULL;
    ck_assert_msg(ls_golden_open(&golden, scratch_path("golden")) == LS_OK, "%s", ls_error_text());
    ls_judgement *judgement = judge(golden, scratch_path("golden/ranks"), &candidate);
    ck_assert_uint_eq(judgement->equal, summary.tensors);
    ck_assert_uint_eq(judgement->different, 0);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    ls_golden_close(&golden);
    net_run_end(&r);
}
END_TEST

/* One element of one tensor: found, and named by its place. */
START_TEST(one_element_is_found)
{
    static const struct {
        const char *file, *name;
    } rows[] = {{"forward", "step1/f"},
                {"forward", "step0/a"},
                {"backward", "step1/d.r"},
                {"backward", "step0/grad.b.weight"},
                {"update", "step1/param.c.bias"}};
    net_run r;
    net_run_begin(&r, 0, 3, 2);
    (void)net_dump(&r, scratch_path("golden"), true, false);
    ls_golden *golden = NULL;
    ls_candidate *candidate = NULL;
    ck_assert_msg(ls_golden_open(&golden, scratch_path("golden")) == LS_OK, "%s", ls_error_text());
    /* The candidate is that file alone, with a bit flipped. */
    char from[64];
    size_t bytes;
    snprintf(from, sizeof from, "golden/%s.safetensors", rows[_i].file);
    unsigned char *file = scratch_read(scratch_path(from), &bytes);
    ls_safetensors *opened = NULL;
    ck_assert_int_eq(ls_safetensors_open(&opened, scratch_path(from)), LS_OK);
    const ls_tensor_info *info = ls_safetensors_find(opened, rows[_i].name);
    ck_assert_ptr_nonnull(info);
    const ls_tensor_info *first = ls_safetensors_at(opened, 0);
    for (size_t i = 1; i < ls_safetensors_count(opened); i++)
        if (ls_safetensors_at(opened, i)->data < first->data) first = ls_safetensors_at(opened, i);
    size_t data = 0;
    for (size_t i = 0; i < ls_safetensors_count(opened); i++)
        data += (size_t)ls_safetensors_at(opened, i)->elements *
                ls_dtype_bytes(ls_safetensors_at(opened, i)->dtype);
    const size_t at = bytes - data +
                      (size_t)((const char *)info->data - (const char *)first->data) +
                      (size_t)(info->elements / 2) * 4;
    file[at + 2] ^= 0x40; /* of the fraction */
    ls_safetensors_close(&opened);
    const char *mine = scratch_file("mine.safetensors", file, bytes);
    ls_judgement *judgement = judge(golden, mine, &candidate);
    ck_assert_uint_ge(judgement->different, 1);
    const ls_judged *judged = ls_judgement_find(judgement, rows[_i].name);
    ck_assert_ptr_nonnull(judged);
    ck_assert_int_eq(judged->verdict, LS_DIFFERENT_TENSOR);
    ck_assert_uint_eq(judged->differing, 1);
    ck_assert_uint_eq(judged->first, judged->golden->count / 2);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    ls_golden_close(&golden);
    free(file);
    net_run_end(&r);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("dump_net", 240);
    tcase_add_unchecked_fixture(tc, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tc, every_layout_has_one_digest, 0, NETS);
    tcase_add_loop_test(tc, a_directory_is_equal_to_itself, 0, NETS);
    tcase_add_loop_test(tc, what_ranks_held_is_equal, 0, 2 * NETS_TINY);
    tcase_add_loop_test(tc, one_element_is_found, 0, 5);
    return run_tests();
}
