/* Trace files: what is written is read back exactly, and what no trace can be is refused in one
 * line that names the file, the event and the key. */
#include <stdlib.h>
#include <unistd.h>

#include "base/json_memory.h"
#include "base/read_file.h"
#include "pipeline/event_rows.h"
#include "train/trace_file.h"
#include "run_tests.h"

static const char *const PATH = "trace_file_test.json";

static event_rows *every_kind(void)
{
    static char name[] = "a \"pair\"";
    static int pair[] = {2, 0};
    event_rows *rows = rows_new(4);
    rows->groups[1] = (ls_event_group){name, 2, pair};
    rows->log.n_groups = 2;
    for (int r = 0; r < 4; r++) collective(rows, r, LS_OP_COUNT, 0, 1, 0);
    rows->step = 3;
    rows->what = "forward";
    rows->micro_batch = 0;
    compute(rows, 1, 999999999999);
    append(rows, 1, LS_EVENT_COMPUTE)->stage = 7;
    rows->micro_batch = -1;
    rows->what = "up \"date\"";
    post(rows, 0, LS_EVENT_SEND, 1, 123456789012345);
    post(rows, 0, LS_EVENT_SEND_LEFT, 3, 1);
    rows->log.events[0][rows->log.n_events[0] - 1].tag = -2147483647 - 1;
    post(rows, 0, LS_EVENT_SEND_BEGIN, 2, 2);
    end_send(rows, 0, 2, 3);
    receive(rows, 1, 0, 1);
    rows->log.events[1][rows->log.n_events[1] - 1].part = "conv2";
    rows->log.events[1][rows->log.n_events[1] - 1].purpose = "halo";
    receive(rows, 3, 0, 2);
    rows->log.events[3][rows->log.n_events[3] - 1].part = "pool.1";
    rows->what = NULL;
    rows->step = -1;
    receive(rows, 2, 0, 3);
    for (int op = LS_OP_BARRIER; op <= LS_OP_ALL_TO_ALL; op++)
        for (int m = 0; m < 2; m++)
            collective(rows, pair[m], (ls_operation)op, 1, 2 + (uint64_t)op, 100 * (uint64_t)m);
    return rows; /* rank 3 ends with a receive, rank 1 with one */
}

static ls_trace_facts some_facts(void)
{
    ls_trace_facts facts = {.model = "gpt2-nano",
                            .layout = "pp 2 x tp 2, \"1f1b\"",
                            .schedule = "1f1b",
                            .pp = 2,
                            .micro_batches = 5,
                            .virtual_stages = 1,
                            .steps = 9,
                            .wall_ns = 77777777777,
                            .serial_step_ns = 1};
    return facts;
}

static void write_rows(const event_rows *rows)
{
    ls_layout layout = ls_layout_serial();
    layout.pp = layout.tp = 2;
    ls_trace_facts facts = some_facts();
    ls_error_clear();
    ls_status status = ls_trace_file_write(PATH, &facts, &layout, &rows->log);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
}

START_TEST(what_is_written_is_read)
{
    event_rows *rows = every_kind();
    ls_trace_facts facts = some_facts();
    ls_trace_file *file = NULL;
    write_rows(rows);
    ls_error_clear();
    ck_assert_msg(ls_trace_file_read(PATH, &file) == LS_OK, "%s", ls_error_text());
    ck_assert_str_eq(file->facts.model, facts.model);
    ck_assert_str_eq(file->facts.layout, facts.layout);
    ck_assert_str_eq(file->facts.schedule, facts.schedule);
    ck_assert_int_eq(file->facts.pp, facts.pp);
    ck_assert_int_eq(file->facts.micro_batches, facts.micro_batches);
    ck_assert_int_eq(file->facts.virtual_stages, facts.virtual_stages);
    ck_assert_uint_eq(file->facts.steps, facts.steps);
    ck_assert_uint_eq(file->facts.wall_ns, facts.wall_ns);
    ck_assert_uint_eq(file->facts.serial_step_ns, facts.serial_step_ns);
    ck_assert_int_eq(file->log.ranks, 4);
    ck_assert(!file->facts.net);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(file->stage_of[r], r / 2);
    ck_assert_int_eq(file->log.n_groups, 2);
    for (int g = 0; g < 2; g++) {
        ck_assert_str_eq(file->log.groups[g].name, rows->groups[g].name);
        ck_assert_int_eq(file->log.groups[g].size, rows->groups[g].size);
        for (int m = 0; m < rows->groups[g].size; m++)
            ck_assert_int_eq(file->log.groups[g].world_ranks[m], rows->groups[g].world_ranks[m]);
    }
    for (int r = 0; r < 4; r++) {
        ck_assert_uint_eq(file->log.n_events[r], rows->log.n_events[r]);
        for (size_t i = 0; i < rows->log.n_events[r]; i++) {
            const ls_event *a = &file->log.events[r][i], *b = &rows->log.events[r][i];
            ck_assert_int_eq(a->kind, b->kind);
            ck_assert_uint_eq(a->begin_ns, b->begin_ns);
            ck_assert_uint_eq(a->end_ns, b->end_ns);
            ck_assert_uint_eq(a->cpu_ns, b->cpu_ns);
            ck_assert_pstr_eq(a->what, b->what);
            ck_assert_pstr_eq(a->part, b->part);
            ck_assert_pstr_eq(a->purpose, b->purpose);
            ck_assert_int_eq(a->step, b->step);
            ck_assert_int_eq(a->stage, b->stage);
            ck_assert_int_eq(a->micro_batch, b->micro_batch);
            ck_assert_pstr_eq(a->call, b->call);
            ck_assert_int_eq(a->operation, b->operation);
            ck_assert_int_eq(a->group, b->group);
            ck_assert_uint_eq(a->number, b->number);
            ck_assert_int_eq(a->peer, b->peer);
            ck_assert_int_eq(a->tag, b->tag);
            ck_assert_uint_eq(a->bytes, b->bytes);
        }
    }
    ls_trace_file_free(&file);
    ck_assert_ptr_null(file);
    ls_trace_file_free(&file);
    rows_free(&rows);
    unlink(PATH);
}
END_TEST

/* However many events there are, the JSON of one is in memory at a time. */
START_TEST(one_event_at_a_time)
{
    size_t peak[2];
    json_count_bytes();
    for (int many = 0; many < 2; many++) {
        event_rows *rows = every_kind();
        for (int i = 0; i < (many ? 1500 : 1); i++) compute(rows, 1, 5);
        write_rows(rows);
        rows_free(&rows);
        ls_trace_file *file = NULL;
        json_peak_bytes = 0;
        ck_assert_int_eq(ls_trace_file_read(PATH, &file), LS_OK);
        peak[many] = json_peak_bytes;
        ls_trace_file_free(&file);
    }
    ck_assert_uint_eq(json_live_bytes, 0);
    ck_assert_uint_le(peak[1], peak[0]);
    unlink(PATH);
}
END_TEST

/* ---- networks */

static void write_network(const event_rows *rows)
{
    ls_layout layout = ls_layout_serial();
    ls_trace_facts facts = some_facts();
    layout.dp = layout.down = 2;
    facts.net = true;
    facts.pp = facts.across = facts.channels = 1;
    facts.dp = facts.down = 2;
    ls_error_clear();
    ls_status status = ls_trace_file_write(PATH, &facts, &layout, &rows->log);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
}

/* The degrees are read back; replicas are the processes, and what is shown has the layers' names.
 */
START_TEST(networks)
{
    event_rows *rows = every_kind();
    unsigned char *bytes = NULL;
    size_t count = 0;
    ls_trace_file *file = NULL;
    write_network(rows);
    ck_assert_msg(ls_trace_file_read(PATH, &file) == LS_OK, "%s", ls_error_text());
    ck_assert(file->facts.net && file->facts.dp == 2 && file->facts.down == 2 &&
              file->facts.across == 1 && file->facts.channels == 1);
    ls_trace_file_free(&file);
    ck_assert_int_eq(ls_read_file(PATH, 1 << 20, &bytes, &count), LS_OK);
    static const char *const said[] = {
        "\"pid\": 1, \"tid\": 0, \"args\": {\"name\": \"replica 1\"}",
        "\"pid\": 1, \"tid\": 3, \"args\": {\"name\": \"rank 3 (row 1, column 0, channel 0)\"}",
        "\"name\": \"halo conv2 receive\"", "\"name\": \"pool.1 receive\""};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        ck_assert_msg(strstr((const char *)bytes, said[i]) != NULL, "no %s", said[i]);
    ck_assert_ptr_null(strstr((const char *)bytes, "pipeline rank"));
    free(bytes);
    unlink(PATH);
    rows_free(&rows);
}
END_TEST

/* ---- files that are no trace */

/* Replaces the first `from` of the written file by `to` (from NULL: the whole file) and expects the
 * refusal to say `text` behind the file's name. */
typedef struct spoiled {
    const char *from, *to, *text;
} spoiled;

static const spoiled SPOILED[] = {
    {NULL, "", ": not JSON: line 1: it is empty"},
    {NULL, "{", ": not JSON: line 1"},
    {NULL, "[1, 2]", ": found [1,2]; a trace is a JSON object with \"traceEvents\""},
    {NULL, "{}", ": otherData is missing: must be an object"},
    {NULL, "{\"otherData\": 3}", ": otherData 3: must be an object"},
    {NULL, "{\"traceEvents\": [], \"traceEvents\": []}", ": \"traceEvents\" is a duplicate"},
    {"lockstep trace 1", "lockstep trace 2",
     ": otherData.format \"lockstep trace 2\": must be one"},
    {"\"gpt2-nano\"", "\"\\u0000\"", ": not JSON"},
    {"\"gpt2-nano\"", "\"\\n\"", ": otherData.model \"\\\\n\": must be 1 to 63 printable bytes"},
    {"\"gpt2-nano\"", "17", ": otherData.model 17: must be 1 to 63 printable bytes"},
    {"\"pp\": 2", "\"pp\": 0", ": otherData.pp 0: must be a whole number from 1 to 256"},
    {"\"pp\": 2", "\"pp\": 2.0", ": otherData.pp 2.0: must be a whole number from 1 to 256"},
    {"\"pp\": 2, ", "", ": otherData.pp is missing: must be a whole number"},
    {"\"ranks\": 4", "\"ranks\": 4097",
     ": otherData.ranks 4097: must be a whole number from 1 to "},
    {"\"ranks\": 4", "\"ranks\": 3", ": otherData.stage_of [0,0,1,1]: must be a list of 3 numbers"},
    {"[0, 0, 1, 1]", "[0, 0, 1, 2]",
     ": otherData.stage_of[3] 2: must be a whole number from 0 to 1"},
    {"\"groups\": [", "\"groups\": [], \"no\": [", ": otherData.groups []: must be a list of 1 to"},
    {"[0, 1, 2, 3]", "[0, 1, 2, 2]",
     ": otherData.groups[0].ranks[3] 2: must be a rank from 0 to 3"},
    {"[0, 1, 2, 3]", "[]", ": otherData.groups[0].ranks []: must be a list of 1 to 4 ranks"},
    {"\"traceEvents\"", "\"events\"", ": traceEvents is missing: must be a list"},
    {"\"traceEvents\": [", "\"traceEvents\": [5, ",
     ": traceEvents[0] 5: must be an object with a string \"ph\""},
    {"\"ph\": \"X\"", "\"ph\": 1", ": traceEvents[6] {"},
    {"\"tid\": 0, \"ts\"", "\"tid\": 4, \"ts\"",
     ": traceEvents[6].tid 4: must be a whole number from 0 to 3"},
    {"\"args\": {\"event\": 0", "\"args\": 1, \"x\": {\"event\": 0",
     ": traceEvents[6].args 1: must be an object"},
    {"\"event\": 1", "\"event\": 2",
     ": traceEvents[7].args.event 2: the next one of rank 0 must be 1"},
    {"\"event\": 1", "\"event\": 0",
     ": traceEvents[7].args.event 0: the next one of rank 0 must be 1"},
    {"\"kind\": \"send_left\"", "\"kind\": \"sent\"",
     ".args.kind \"sent\": must be one of compute, collective, send, send_left, send_begin, "},
    {"\"cpu_ns\": 999999999999", "\"cpu_ns\": -1",
     ".args.cpu_ns -1: must be a whole number from 0 to 1000000000000000"},
    {"\"cpu_ns\": 999999999999", "\"cpu_ns\": 1000000000000001", ".args.cpu_ns 1000000000000001:"},
    {"\"cpu_ns\": 999999999999", "\"cpu_ns\": 1e400", ": not JSON"},
    {"\"begin_ns\": 1000000,", "\"begin_ns\": 1000000000000000,",
     ".args.end_ns 77000000999928: must "
     "be a whole number from 1000000000000000"},
    {"\"what\": \"forward\"", "\"what\": \"\"", ".args.what \"\": must be 1 to 63 printable bytes"},
    {"\"part\": \"conv2\"", "\"part\": 2", ".args.part 2: must be 1 to 63 printable bytes"},
    {"\"purpose\": \"halo\"", "\"purpose\": \"\"", ".args.purpose \"\": must be 1 to 63"},
    {"\"step\": 3", "\"step\": -1", ".args.step -1: must be a whole number from 0 to 2147483647"},
    {"\"stage\": 7", "\"stage\": \"7\"", ".args.stage \"7\": must be a whole number from 0 to"},
    {"\"micro_batch\": 0", "\"micro_batch\": 3000000000", ".args.micro_batch 3000000000: must be"},
    {"\"operation\": \"broadcast\"", "\"operation\": \"cast\"",
     ".args.operation \"cast\": must be one of barrier, broadcast, all_reduce"},
    {"\"operation\": \"broadcast\"", "\"operation\": \"send\"",
     ".args.operation \"send\": of kind collective must be a collective's"},
    {"\"operation\": \"receive\"", "\"operation\": \"send\"",
     ".args.operation \"send\": of kind receive must be receive"},
    {"\"group\": 0", "\"group\": 2", ".args.group 2: must be a whole number from 0 to 1"},
    {"\"group\": 0, \"number\": 2", "\"group\": 1, \"number\": 2",
     ".args.peer 3: must be another member of group 1"},
    {"\"number\": 3", "\"number\": 0", ".args.number 0: must be a whole number from 1 to"},
    {"\"bytes\": 123456789012345", "\"bytes\": 123456789012345678901", ": not JSON"},
    {"\"bytes\": 123456789012345", "\"bytes\": 12345678901234567",
     ".args.bytes 12345678901234567: "},
    {"\"peer\": 3", "\"peer\": 0", ".args.peer 0: must be another member of group 0"},
    {"\"peer\": 3", "\"peer\": 4", ".args.peer 4: must be a whole number from 0 to 3"},
    {"\"tag\": -2147483648", "\"tag\": 2147483648", ".args.tag 2147483648: must be a whole number"},
    {"\"call\": \"send_left\"", "\"call\": null", ".args.call null: must be 1 to 63 printable"},
};

static void spoil(const spoiled *s)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    ck_assert_int_eq(ls_read_file(PATH, 1 << 20, &bytes, &count), LS_OK);
    const char *old = (const char *)bytes, *at = old;
    size_t cut = count;
    if (s->from != NULL) {
        at = strstr(old, s->from);
        ck_assert_msg(at != NULL, "the file has no %s", s->from);
        cut = strlen(s->from);
    }
    FILE *file = fopen(PATH, "wb");
    fwrite(old, 1, (size_t)(at - old), file);
    fputs(s->to, file);
    fwrite(at + cut, 1, count - cut - (size_t)(at - old), file);
    fclose(file);
    free(bytes);
}

START_TEST(what_is_no_trace_is_refused)
{
    ls_trace_file *file = NULL;
    event_rows *rows = every_kind();
    for (size_t i = 0; i < sizeof SPOILED / sizeof SPOILED[0]; i++) {
        write_rows(rows);
        spoil(&SPOILED[i]);
        ls_error_clear();
        ls_status status = ls_trace_file_read(PATH, &file);
        ck_assert_msg(status == LS_ERR_INPUT, "%zu: %s: status %d", i, SPOILED[i].to, (int)status);
        const char *text = ls_error_text();
        ck_assert_msg(strncmp(text, PATH, strlen(PATH)) == 0, "%s", text);
        ck_assert_msg(strstr(text, SPOILED[i].text) != NULL, "%zu: '%s' does not say '%s'", i, text,
                      SPOILED[i].text);
        ck_assert_ptr_null(strchr(text, '\n'));
        ck_assert_ptr_null(file);
    }
    unlink(PATH);
    ls_error_clear();
    ck_assert_int_eq(ls_trace_file_read(PATH, &file), LS_ERR_INPUT);
    ck_assert_int_eq(ls_trace_file_read("/", &file), LS_ERR_INPUT);
    rows_free(&rows);
}
END_TEST

static const spoiled SPOILED_NETWORKS[] = {
    {"\"network\": {", "\"network\": 3, \"no\": {", ": otherData.network.dp is missing: must be"},
    {"{\"dp\": 2", "{\"dp\": 0", ": otherData.network.dp 0: must be a whole number from 1 to 4"},
    {"\"down\": 2", "\"down\": 3", ": otherData.network {\"dp\":2,\"down\":3,"},
    {"\"across\": 1", "\"across\": \"1\"", ": otherData.network.across \"1\": must be a whole"},
    {"\"channel\": 1", "\"channel\": 5", ": otherData.network.channel 5: must be a whole number"},
};

START_TEST(networks_that_are_none_are_refused)
{
    event_rows *rows = every_kind();
    for (size_t i = 0; i < sizeof SPOILED_NETWORKS / sizeof SPOILED_NETWORKS[0]; i++) {
        ls_trace_file *file = NULL;
        write_network(rows);
        spoil(&SPOILED_NETWORKS[i]);
        ls_error_clear();
        ck_assert_int_eq(ls_trace_file_read(PATH, &file), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), SPOILED_NETWORKS[i].text) != NULL, "%s",
                      ls_error_text());
    }
    unlink(PATH);
    rows_free(&rows);
}
END_TEST

/* Any byte of the file changed: read or refused, but nothing else. */
START_TEST(any_byte_changed)
{
    event_rows *rows = every_kind();
    unsigned char *bytes = NULL;
    size_t count = 0, refused = 0;
    write_rows(rows);
    ck_assert_int_eq(ls_read_file(PATH, 1 << 20, &bytes, &count), LS_OK);
    for (size_t i = 0; i < count; i += 5) {
        static const unsigned char others[] = {'0', '"', '}', '9', 0, 0xff, '-', ','};
        unsigned char kept = bytes[i];
        bytes[i] = others[(i / 5) % sizeof others];
        FILE *out = fopen(PATH, "wb");
        fwrite(bytes, 1, count, out);
        fclose(out);
        bytes[i] = kept;
        ls_trace_file *file = NULL;
        ls_replay *replay = NULL;
        ls_link link = {3.0, 2.0};
        ls_error_clear();
        ls_status status = ls_trace_file_read(PATH, &file);
        if (status == LS_OK) status = ls_replay_create(&replay, &file->log, PATH, &link);
        ck_assert(status == LS_OK || status == LS_ERR_INPUT);
        refused += status != LS_OK;
        ls_replay_destroy(&replay);
        ls_trace_file_free(&file);
    }
    ck_assert(refused > count / 20);
    free(bytes);
    unlink(PATH);
    rows_free(&rows);
}
END_TEST

START_TEST(files_that_cannot_be_written)
{
    event_rows *rows = every_kind();
    ls_layout layout = ls_layout_serial();
    ls_trace_facts facts = some_facts();
    layout.pp = layout.tp = 2;
    ck_assert_int_eq(ls_trace_file_write("no/such/folder.json", &facts, &layout, &rows->log),
                     LS_ERR_INPUT);
    rows_free(&rows);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("trace_file", 60);
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, one_event_at_a_time);
    tcase_add_test(tcase, what_is_no_trace_is_refused);
    tcase_add_test(tcase, networks);
    tcase_add_test(tcase, networks_that_are_none_are_refused);
    tcase_add_test(tcase, any_byte_changed);
    tcase_add_test(tcase, files_that_cannot_be_written);
    return run_tests();
}
