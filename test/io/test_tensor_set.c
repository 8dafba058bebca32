/* test_tensor_set.c - one file, several files under an index, a folder; and indexes that lie. */
#include <stdint.h>

#include "io/scratch.h"
#include "lockstep/io/tensor_set.h"
#include "run_tests.h"

/* A safetensors file of byte vectors: "name:values" in one text, 4 bytes each. */
static void write_file(const char *name, const char *const *tensors)
{
    ls_safetensors_writer *writer;
    uint64_t four = 4;
    ASSERT_OK(ls_safetensors_create(&writer, scratch_path(name)));
    ASSERT_OK(ls_safetensors_add_metadata(writer, "from", name));
    for (int i = 0; tensors[i]; i++)
        ASSERT_OK(ls_safetensors_declare(writer, tensors[i], LS_U8, 1, &four));
    for (int i = 0; tensors[i]; i++) {
        char value[5] = "    ";
        snprintf(value, sizeof value, "%-4.4s", tensors[i]);
        ASSERT_OK(ls_safetensors_write(writer, value, 4));
    }
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

static const char *write_index(const char *name, const char *text)
{
    return scratch_file(name, text, strlen(text));
}

static void holds(const ls_tensor_set *set, const char *tensor)
{
    char value[5];
    snprintf(value, sizeof value, "%-4.4s", tensor);
    const ls_tensor_info *info = ls_tensor_set_find(set, tensor);
    ck_assert_msg(info != NULL, "%s is missing", tensor);
    ck_assert(memcmp(info->data, value, 4) == 0);
}

static void write_two(void)
{
    write_file("m-1.safetensors", (const char *const[]){"aa", "bb", NULL});
    write_file("m-2.safetensors", (const char *const[]){"cc", NULL});
}

START_TEST(one_file)
{
    ls_tensor_set *set;
    const char *file;
    write_two();
    ASSERT_OK(ls_tensor_set_open(&set, scratch_path("m-1.safetensors")));
    ck_assert_uint_eq(ls_tensor_set_count(set), 2);
    holds(set, "aa");
    holds(set, "bb");
    ck_assert_ptr_null(ls_tensor_set_find(set, "cc"));
    ck_assert_str_eq(ls_tensor_set_at(set, 1, &file)->name, "bb");
    ck_assert_str_eq(file, scratch_path("m-1.safetensors"));
    ck_assert_str_eq(ls_tensor_set_metadata(set, "from"), "m-1.safetensors");
    ls_tensor_set_close(&set);
    ck_assert_ptr_null(set);
    ls_tensor_set_close(&set);
}
END_TEST

START_TEST(several_files)
{
    ls_tensor_set *set;
    const char *file;
    write_two();
    write_file("m-0.safetensors", (const char *const[]){NULL}); /* empty */
    ASSERT_OK(ls_tensor_set_open(
        &set, write_index("m.index.json", "{\"metadata\": {\"total_size\": 12}, \"weight_map\": "
                                          "{\"cc\": \"m-2.safetensors\", \"bb\": "
                                          "\"m-1.safetensors\", \"aa\": \"m-1.safetensors\"}}")));
    ck_assert_uint_eq(ls_tensor_set_count(set), 3);
    holds(set, "aa");
    holds(set, "bb");
    holds(set, "cc");
    ck_assert_ptr_null(ls_tensor_set_find(set, "dd"));
    int seen = 0;
    for (size_t i = 0; i < 3; i++) {
        const char *name = ls_tensor_set_at(set, i, &file)->name;
        ck_assert_str_eq(file,
                         scratch_path(name[0] == 'c' ? "m-2.safetensors" : "m-1.safetensors"));
        ck_assert_str_eq(ls_tensor_set_at(set, i, NULL)->name, name);
        seen += 1 << (name[0] - 'a');
    }
    ck_assert_int_eq(seen, 7);
    ls_tensor_set_close(&set);
}
END_TEST

START_TEST(folders)
{
    ls_tensor_set *set = NULL;
    char folder[1024], slashed[1030];
    snprintf(folder, sizeof folder, "%s", scratch_path("model"));
    snprintf(slashed, sizeof slashed, "%s/", folder);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    ASSERT_SAYS(ls_tensor_set_open(&set, folder), LS_ERR_INPUT, "/model:", "model.safetensors");
    write_file("model/x.safetensors", (const char *const[]){"xx", NULL});
    write_index("model/model.safetensors.index.json",
                "{\"weight_map\": {\"xx\": \"x.safetensors\"}}");
    ASSERT_OK(ls_tensor_set_open(&set, folder));
    holds(set, "xx");
    ls_tensor_set_close(&set);
    write_file("model/model.safetensors", (const char *const[]){"yy", NULL});
    /* Both, and not the same: which one is meant? */
    ASSERT_SAYS(ls_tensor_set_open(&set, slashed), LS_ERR_INPUT, "model.safetensors and",
                "model.safetensors.index.json, which disagree", "tensor yy", "is not in the other");
    write_file("model/model.safetensors", (const char *const[]){"xx", NULL});
    ASSERT_OK(ls_tensor_set_open(&set, slashed)); /* the same once more */
    holds(set, "xx");
    ls_tensor_set_close(&set);
    write_file("model/x.safetensors", (const char *const[]){"xx", "zz", NULL});
    write_index("model/model.safetensors.index.json",
                "{\"weight_map\": {\"xx\": \"x.safetensors\", \"zz\": \"x.safetensors\"}}");
    ASSERT_SAYS(ls_tensor_set_open(&set, folder), LS_ERR_INPUT, "which disagree", "tensor zz of",
                "x.safetensors is not in the other");
    size_t count;
    unsigned char *bytes = scratch_read(scratch_path("model/x.safetensors"), &count);
    bytes[count - 1] ^= 1;
    scratch_file("model/model.safetensors", bytes, count);
    free(bytes);
    ASSERT_SAYS(ls_tensor_set_open(&set, folder), LS_ERR_INPUT, "which disagree", "tensor zz of",
                "has other values in the other");
    /* what is named is taken */
    ASSERT_OK(ls_tensor_set_open(&set, scratch_path("model/model.safetensors.index.json")));
    holds(set, "zz");
    ls_tensor_set_close(&set);
}
END_TEST

/* PyTorch's own files hold a program. */
START_TEST(pickles)
{
    ls_tensor_set *set = NULL;
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", scratch_path("pickled"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    const char *zip = "PK\3\4 and so on, and on", *old = "\x80\2 and so on, and on";
    scratch_file("pickled/pytorch_model.bin", zip, strlen(zip));
    ASSERT_SAYS(ls_tensor_set_open(&set, folder), LS_ERR_INPUT, "/pickled: has pytorch_model.bin",
                "only safetensors are read");
    ASSERT_SAYS(ls_tensor_set_open(&set, scratch_path("pickled/pytorch_model.bin")), LS_ERR_INPUT,
                "pytorch_model.bin: begins as a file of torch.save", "safetensors.torch.save_file");
    ASSERT_SAYS(ls_tensor_set_open(&set, scratch_file("old.pt", old, strlen(old))), LS_ERR_INPUT,
                "old.pt: begins as a file of torch.save");
}
END_TEST

/* A reader that knows how many there can be does not read more. */
START_TEST(at_most)
{
    ls_tensor_set *set = NULL;
    write_two();
    const char *file = scratch_path("m-1.safetensors"); /* two and the metadata */
    ASSERT_SAYS(ls_tensor_set_open_most(&set, file, 2), LS_ERR_INPUT, "m-1.safetensors",
                "has 3 tensors; at most 2");
    ASSERT_OK(ls_tensor_set_open_most(&set, file, 3));
    ls_tensor_set_close(&set);
    const char *index =
        write_index("m.index.json", "{\"weight_map\": {\"aa\": \"m-1.safetensors\", \"bb\": "
                                    "\"m-1.safetensors\", \"cc\": \"m-2.safetensors\"}}");
    ASSERT_SAYS(ls_tensor_set_open_most(&set, index, 2), LS_ERR_INPUT, "m.index.json",
                "has 3 tensors; at most 2");
    ASSERT_OK(ls_tensor_set_open_most(&set, index, 3));
    ls_tensor_set_close(&set);
}
END_TEST

/* Each refused in one line that names the index and what is wrong. */
START_TEST(hostile)
{
    static const struct {
        const char *text;
        const char *words[3];
    } cases[] = {
        {"", {"not JSON"}},
        {"{", {"not JSON"}},
        {"[]", {"weight_map"}},
        {"{}", {"weight_map"}},
        {"{\"weight_map\": []}", {"weight_map"}},
        {"{\"weight_map\": {}}", {"weight_map"}},
        {"{\"weight_map\": {\"aa\": 1}}", {"tensor aa", "is not a string"}},
        {"{\"weight_map\": {\"aa\": \"\"}}", {"tensor aa", "in the same folder"}},
        {"{\"weight_map\": {\"aa\": \"..\"}}", {"tensor aa", "in the same folder"}},
        {"{\"weight_map\": {\"aa\": \"../m-1.safetensors\"}}", {"../m-1", "in the same folder"}},
        {"{\"weight_map\": {\"aa\": \"/etc/passwd\"}}", {"/etc/passwd", "in the same folder"}},
        {"{\"weight_map\": {\"a\\u001b\": \"a/b\"}}", {"a\\x1b", "in the same folder"}},
        {"{\"weight_map\": {\"aa\": \"absent.safetensors\"}}", {"absent.safetensors"}},
        {"{\"weight_map\": {\"aa\": \"h.index.json\"}}", {"h.index.json"}},
        {"{\"weight_map\": {\"aa\": \"m-2.safetensors\"}}",
         {"tensor aa", "m-2.safetensors, which does not have it"}},
        {"{\"weight_map\": {\"aa\": \"m-1.safetensors\", \"cc\": \"m-2.safetensors\"}}",
         {"m-1.safetensors: has a tensor bb", "does not place there"}},
        {"{\"weight_map\": {\"aa\": \"m-1.safetensors\", \"aa\": \"m-1.safetensors\"}}",
         {"duplicate"}},
        /* bb is in two files, and the index knows of one */
        {"{\"weight_map\": {\"aa\": \"m-1.safetensors\", \"bb\": \"m-1.safetensors\", \"dd\": "
         "\"m-3.safetensors\"}}",
         {"m-3.safetensors: has a tensor bb"}},
    };
    write_two();
    write_file("m-3.safetensors", (const char *const[]){"bb", "dd", NULL});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_tensor_set *set = (ls_tensor_set *)&set, *before = set;
        ls_status status = ls_tensor_set_open(&set, write_index("h.index.json", cases[i].text));
        ck_assert_ptr_eq(set, before);
        assert_says(status, LS_ERR_INPUT, cases[i].words);
    }
    ls_tensor_set *set;
    ASSERT_SAYS(ls_tensor_set_open(&set, scratch_path("no.index.json")), LS_ERR_INPUT,
                "no.index.json");
    ASSERT_SAYS(ls_tensor_set_open(&set, ""), LS_ERR_INPUT, "");
}
END_TEST

int main(void)
{
    TCase *tests = test_case("tensor set", 0);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, one_file);
    tcase_add_test(tests, several_files);
    tcase_add_test(tests, folders);
    tcase_add_test(tests, pickles);
    tcase_add_test(tests, at_most);
    tcase_add_test(tests, hostile);
    return run_tests();
}
