/* test_golden_set.c - the committed golden directories are what this build makes: the same bits
 * from every machine, compiler, instruction set and layout. */
#include "lockstep/model/text.h"
#include "lockstep/numerics/isa.h"
#include "golden/dump_fixture.h"
#include "run_tests.h"

static const char *const kinds[] = {"gpt2", "llama", "bert", "net"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Where the source is: handed in by the build. */
static const char *committed(const char *name)
{
    static char paths[4][1024];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", GOLDEN_FOLDER, name);
    return path;
}

/* Names the first tensor that is not the same. */
static void expect_same(const ls_golden *golden, const char *made_path)
{
    ls_golden *made = open_ok(made_path);
    ck_assert_uint_eq(made->count, golden->count);
    for (size_t t = 0; t < golden->count; t++)
        if (strcmp(made->tensors[t].sha256, golden->tensors[t].sha256) != 0)
            ck_abort_msg("%s: %s has other bits than the committed one", golden->path,
                         golden->tensors[t].name);
    ls_golden_close(&made);
}

START_TEST(is_whole)
{
    ls_golden *golden = open_ok(committed(kinds[_i]));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ck_assert_uint_eq(golden->count, golden->graph->count * golden->steps);
    ls_golden_close(&golden);
}
END_TEST

/* From its weights and batch, with every instruction set, in layouts. */
START_TEST(is_made_again)
{
    static const grid_of grids[] = {
        {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
        {1, 1, 2, true, 1, 3, LS_GPIPE, LS_RECOMPUTE_LAYER},
        {3, 1, 2, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    };
    static const char *const of_nets[] = {"one rank", "dp 2 x spatial 1x3, overlap",
                                          "spatial 2x2 x channel 2"};
    ls_golden *golden = open_ok(committed(kinds[_i]));
    ls_dump_options options = dump_plainly();
    ls_run run = golden->run;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_available((ls_isa)isa)) continue;
        ls_isa_force((ls_isa)isa);
        for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
            if (run.config.kind == LS_MODEL_NET)
                ASSERT_OK(ls_layout_parse("--layouts", of_nets[g], &run.layout));
            else
                run.layout = fixture_layout(&grids[g]);
            dump_ok(&run, scratch_path("made"), &options);
            expect_same(golden, scratch_path("made"));
        }
    }
    ls_golden_close(&golden);
}
END_TEST

/* From the seed and the text, or the images that are drawn: what it begins with is the same too. */
START_TEST(is_made_anew)
{
    static const char *const files[] = {"weights.safetensors", "batch.safetensors",
                                        "masks.safetensors"};
    ls_golden *golden = open_ok(committed(kinds[_i]));
    ls_dump_options options = dump_plainly();
    ls_text text;
    char path[64];
    ls_run run = golden->run;
    ls_images images = {0};
    const ls_net *net = &run.config.net;
    ASSERT_OK(ls_text_read(committed("short_text.txt"), &text));
    run.load = NULL;
    run.given = NULL;
    run.text = &text;
    if (run.config.kind == LS_MODEL_NET)
        ASSERT_OK(ls_images_draw("the drawn images", 1, 20, net->channels, net->height, net->width,
                                 net->classes, &images));
    run.images = &images;
    dump_ok(&run, scratch_path("made"), &options);
    expect_same(golden, scratch_path("made"));
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        size_t ours, theirs;
        if (f == 2 && !(run.config.dropout > 0) && run.config.kind != LS_MODEL_NET) continue;
        snprintf(path, sizeof path, "made/%s", files[f]);
        unsigned char *a = scratch_read(scratch_path(path), &ours);
        snprintf(path, sizeof path, "%s/%s", kinds[_i], files[f]);
        unsigned char *b = scratch_read(committed(path), &theirs);
        ck_assert_uint_eq(ours, theirs);
        ck_assert_msg(memcmp(a, b, ours) == 0, "%s: %s", kinds[_i], files[f]);
        free(a);
        free(b);
    }
    ls_text_free(&text);
    ls_images_free(&images);
    ls_golden_close(&golden);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("golden_set", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, is_whole, 0, KINDS);
    tcase_add_loop_test(tcase, is_made_again, 0, KINDS);
    tcase_add_loop_test(tcase, is_made_anew, 0, KINDS);
    return run_tests();
}
