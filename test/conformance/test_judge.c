/* ls_judge finds nothing wrong with Lockstep's own functions, and each of the mistakes that others
 * made in theirs, with the right word for it. */
#include <stdatomic.h>

#include "judge_foreign_tokens.h"
#include "judge_mistakes.h"
#include "judge_own.h"
#include "judge_own_collectives.h"
#include "judge_own_layers.h"
#include "judge_own_tokens.h"
#include "run_tests.h"

static ls_backend own_table(void)
{
    ls_backend table = {.name = "Lockstep's own",
                        .context = &own,
                        .run = own_run,
                        .barrier = own_barrier,
                        .broadcast = own_broadcast,
                        .all_reduce = own_all_reduce,
                        .reduce_scatter = own_reduce_scatter,
                        .all_gather = own_all_gather,
                        .all_gather_columns = own_all_gather_columns,
                        .all_to_all = own_all_to_all,
                        .send = own_send,
                        .receive = own_receive,
                        .column_linear_forward = own_column,
                        .column_linear_backward = own_column_backward,
                        .row_linear_forward = own_row,
                        .row_linear_backward = own_row_backward,
                        .mlp_forward = own_mlp,
                        .mlp_backward = own_mlp_backward,
                        .attention_forward = own_attention,
                        .attention_backward = own_attention_backward,
                        .vocab_embedding_forward = own_embedding,
                        .vocab_embedding_backward = own_embedding_backward,
                        .vocab_cross_entropy_forward = own_loss,
                        .vocab_cross_entropy_backward = own_loss_backward,
                        .gather_tokens = own_gather_tokens,
                        .scatter_tokens = own_scatter_tokens,
                        .layer_norm_forward = own_layer_norm,
                        .layer_norm_backward = own_layer_norm_backward,
                        .rms_norm_forward = own_rms_norm,
                        .rms_norm_backward = own_rms_norm_backward,
                        .gelu_forward = own_gelu,
                        .gelu_backward = own_gelu_backward,
                        .softmax_forward = own_softmax,
                        .softmax_backward = own_softmax_backward,
                        .clip_gradient = own_clip,
                        .adamw = own_adamw};
    return table;
}

static ls_judge_report *judge(const ls_backend *table, ls_judge_options options)
{
    ls_judge_report *report = NULL;
    ls_error_clear();
    const ls_status status = ls_judge(table, &options, &report);
    ck_assert_msg(status == LS_OK, "status %d: %s", (int)status, ls_error_text());
    return report;
}

/* Everything right, and the order Lockstep's own; in every way that an operation has. */
START_TEST(own_functions_are_right)
{
    const ls_backend table = own_table();
    ls_judge_report *report =
        judge(&table, (ls_judge_options){.seed = 3 + 70 * (uint64_t)_i, .order_required = true});
    if (report->verdict != LS_JUDGE_RIGHT) ls_judge_print(stderr, report);
    ck_assert_int_eq(report->verdict, LS_JUDGE_RIGHT);
    for (size_t i = 0; i < report->n_lines; i++) {
        const ls_judge_line *line = &report->lines[i];
        ck_assert_msg(line->cases >= 14 && line->cases == line->passed && line->unsupported == 0,
                      "%s %s: %zu of %zu, %zu unsupported", line->operation,
                      ls_judge_kind_name(line->kind), line->passed, line->cases, line->unsupported);
        ck_assert_str_eq(line->first, "");
        ck_assert_str_eq(line->suspected, "");
    }
    ls_judge_report_destroy(&report);
    ck_assert_ptr_null(report);
}
END_TEST

/* Somebody else's, in other orders and with other functions: right, and not tree/v1. */
START_TEST(foreign_functions_are_right)
{
    const ls_backend table = foreign_table();
    ls_judge_report *report = judge(&table, (ls_judge_options){.seed = 11 + 50 * (uint64_t)_i});
    if (report->verdict != LS_JUDGE_RIGHT) ls_judge_print(stderr, report);
    ck_assert_int_eq(report->verdict, LS_JUDGE_RIGHT);
    const ls_judge_line *line = ls_judge_find(report, "all_reduce_sum", LS_JUDGE_ORDERED);
    ck_assert(line->passed < line->cases && strstr(line->first, "tree/v1 gives ") != NULL);
    ls_judge_report_destroy(&report);
    /* Who wants the order is told where it is another one. */
    char text[4096] = "";
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    report =
        judge(&table,
              (ls_judge_options){.max_ranks = 3, .only = "all_reduce_sum", .order_required = true});
    ck_assert_int_eq(report->verdict, LS_JUDGE_WRONG);
    ls_judge_print(file, report);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_msg(strstr(text, "ordered: 3 ranks, ") != NULL, "%s", text);
    ls_judge_report_destroy(&report);
}
END_TEST

START_TEST(mistakes_are_found_and_named)
{
    const fault_row *row = &FAULTS[_i];
    const ls_backend table = own_table();
    mistake = row->mistake;
    ls_judge_report *report =
        judge(&table, (ls_judge_options){.seed = 5, .max_ranks = 4, .only = row->operation});
    const ls_judge_line *line = ls_judge_find(report, row->operation, row->kind);
    ck_assert_ptr_nonnull(line);
    ck_assert_msg(report->verdict == LS_JUDGE_WRONG && line->passed < line->cases,
                  "mistake %d of %s was not found", (int)row->mistake, row->operation);
    const ls_mistake *known = ls_mistake_of(row->cause);
    const char *suspected = row->suspected ? row->suspected : known->sentence;
    ck_assert_msg(strstr(line->suspected, suspected) != NULL,
                  "mistake %d of %s: %s\n  looks like '%s' (%zu of %zu), not '%s'",
                  (int)row->mistake, row->operation, line->first, line->suspected, line->explained,
                  line->cases - line->passed, suspected);
    ck_assert_pstr_eq(line->mistake, row->cause == LS_CAUSE_NONE ? NULL : known->key);
    ls_judge_report_destroy(&report);
}
END_TEST

/* What all failed cases have in common; one kind alone; progress; the text. */
static size_t told, told_total;

static void tell(void *argument, const char *operation, size_t done, size_t total)
{
    ck_assert_ptr_eq(argument, &told);
    ck_assert_ptr_nonnull(strstr(operation, "linear"));
    ck_assert_uint_eq(done, told);
    told++;
    told_total = total;
}

START_TEST(a_report_in_words)
{
    const ls_backend table = own_table();
    char text[4096] = "";
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    mistake = BIAS_EACH;
    ls_judge_report *report = judge(&table, (ls_judge_options){.max_ranks = 3,
                                                               .only = "linear",
                                                               .kinds = 1u << LS_JUDGE_EXACT,
                                                               .progress = tell,
                                                               .progress_argument = &told});
    ck_assert_uint_eq(told, 4);
    ck_assert_uint_eq(told_total, 4);
    ck_assert_ptr_null(ls_judge_find(report, "row_linear_forward", LS_JUDGE_BOUNDED));
    ck_assert_ptr_null(ls_judge_find(report, "row_linear_forward", LS_JUDGE_ORDERED));
    const ls_judge_line *line = ls_judge_find(report, "row_linear_forward", LS_JUDGE_EXACT);
    ck_assert_str_eq(line->only, "on several ranks, with a bias");
    ck_assert_uint_eq(line->explained, line->cases - line->passed);
    ls_judge_print(file, report);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    /* the key, the name and the remedy of the table of mistakes */
    const ls_mistake *known = ls_mistake_of(LS_CAUSE_BIAS_PER_RANK);
    char said[600];
    ck_assert_str_eq(line->suspected, known->sentence);
    ck_assert_str_eq(line->mistake, known->key);
    snprintf(said, sizeof said,
             "looks like: bias added once per rank (explains 16 of 16)\n"
             "      only on several ranks, with a bias\n      %s\n",
             known->remedy);
    ck_assert_msg(strstr(text, said) != NULL, "%s", text);
    ck_assert_msg(strstr(text, "verdict: WRONG: 92 of 108 cases of 4 operations passed\n") != NULL,
                  "%s", text);
    ls_judge_report_destroy(&report);
}
END_TEST

/* ---- tables that do not do what they should, beyond wrong numbers ---- */

static _Atomic int trouble; /* which; never negative */

static int hangs(ls_backend_rank *me)
{
    (void)me;
    while (trouble >= 0) ls_clock_sleep_ns(50000000);
    return LS_BACKEND_FAILED;
}

static int second_rank_hangs(ls_backend_rank *me)
{
    return me->ranks == 3 && me->rank == 1 ? hangs(me) : LS_BACKEND_DONE;
}

/* A rank whose all-reduce waits for nobody that comes, because another has failed. */
static int fails_on_one(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n,
                        ls_backend_reduction reduction)
{
    (void)reduction;
    if (n > 0) memcpy(out, in, n * sizeof *out);
    if (me->ranks == 1) return LS_BACKEND_DONE;
    if (me->rank == 1) {
        snprintf(me->error, sizeof me->error, "no room on\nthe device");
        return LS_BACKEND_FAILED;
    }
    return trouble == 1 ? hangs(me) : LS_BACKEND_DONE;
}

/* Says that it cannot do odd numbers of ranks, or on one rank alone that it cannot do anything. */
static int not_supported(ls_backend_rank *me, ls_real *buffer, size_t n, int root)
{
    if (trouble == 0 && me->ranks % 2 == 1) return LS_BACKEND_UNSUPPORTED;
    if (trouble == 1 && me->rank == 1) return LS_BACKEND_UNSUPPORTED;
    return trouble == 0 ? own_broadcast(me, buffer, n, root) : LS_BACKEND_DONE;
}

/* Long enough on a busy machine for those that do not hang. Tables are static: what hangs is left
 * behind and may still read them. */
static const uint64_t SHORT_NS = 2000000000;

START_TEST(a_call_that_hangs)
{
    static const ls_backend table = {.barrier = second_rank_hangs, .broadcast = not_supported};
    ls_judge_report *report = judge(&table, (ls_judge_options){.timeout_ns = SHORT_NS});
    ck_assert_int_eq(report->verdict, LS_JUDGE_STOPPED);
    ck_assert_str_eq(report->stopped,
                     "barrier, 3 ranks, rank 0 late, call 1: rank 1 did not come back; "
                     "ranks 0, 2 went on");
    ck_assert_ptr_null(ls_judge_find(report, "broadcast", LS_JUDGE_EXACT));
    ls_judge_report_destroy(&report);
}
END_TEST

START_TEST(a_rank_that_fails)
{
    static const ls_backend table = {.all_reduce = fails_on_one};
    trouble = 0;
    ls_judge_report *report = judge(&table, (ls_judge_options){0});
    ck_assert_int_eq(report->verdict, LS_JUDGE_WRONG);
    const ls_judge_line *line = ls_judge_find(report, "all_reduce_sum", LS_JUDGE_EXACT);
    ck_assert_str_eq(line->first, "2 ranks, n 1: rank 1 failed: no room on\\x0athe device");
    ls_judge_report_destroy(&report);
    trouble = 1;
    report = judge(&table, (ls_judge_options){.timeout_ns = SHORT_NS});
    ck_assert_int_eq(report->verdict, LS_JUDGE_STOPPED);
    ck_assert_str_eq(report->stopped, "all_reduce_sum, 2 ranks, n 1, call 1: rank 0 did not come "
                                      "back; rank 1 failed: no room on\\x0athe device");
    ls_judge_report_destroy(&report);
}
END_TEST

START_TEST(what_is_not_supported)
{
    const ls_backend table = {.context = &own, .run = own_run, .broadcast = not_supported};
    trouble = 0;
    ls_judge_report *report = judge(&table, (ls_judge_options){.max_ranks = 5});
    const ls_judge_line *line = ls_judge_find(report, "broadcast", LS_JUDGE_EXACT);
    ck_assert_int_eq(report->verdict, LS_JUDGE_RIGHT);
    ck_assert_uint_eq(line->cases, 20);
    ck_assert_uint_eq(line->unsupported, 30);
    ls_judge_report_destroy(&report);
    trouble = 1;
    report = judge(&table, (ls_judge_options){.max_ranks = 2});
    line = ls_judge_find(report, "broadcast", LS_JUDGE_EXACT);
    ck_assert_int_eq(report->verdict, LS_JUDGE_WRONG);
    ck_assert_msg(strstr(line->first, "2 of 4 calls say that the case is not supported") != NULL,
                  "%s", line->first);
    ls_judge_report_destroy(&report);
}
END_TEST

static int run_in_order(void *context, int ranks, ls_backend_function function, void *argument)
{
    (void)context;
    for (int r = 0; r < ranks - (trouble == 1); r++) function(trouble == 2 ? 0 : r, argument);
    return trouble == 3 ? LS_BACKEND_FAILED : LS_BACKEND_DONE;
}

static int begin_some(void *context, int ranks)
{
    *(int *)context += 1;
    return ranks == 2 ? LS_BACKEND_UNSUPPORTED : LS_BACKEND_DONE;
}

static void end_some(void *context, int ranks)
{
    (void)ranks;
    *(int *)context += 100;
}

static int waits_for_the_other(ls_backend_rank *me)
{
    return me->ranks == 1 ? LS_BACKEND_DONE : hangs(me);
}

START_TEST(the_table_s_own_run)
{
    static const char *const said[] = {
        "barrier, 2 ranks: the table's run did not start rank 1 beside the others",
        "1 rank: the table's run did not call rank 0",
        "2 ranks: the table's run called rank 0, which does not exist or was already started",
        "barrier, 1 rank: the table's run failed"};
    static ls_backend tables[4];
    for (int t = 0; t < 4; t++) {
        tables[t] = (ls_backend){.run = run_in_order,
                                 .barrier = t == 2 ? second_rank_hangs : waits_for_the_other};
        trouble = t;
        ls_judge_report *report = judge(&tables[t], (ls_judge_options){.timeout_ns = SHORT_NS});
        ck_assert_int_eq(report->verdict, LS_JUDGE_STOPPED);
        ck_assert_str_eq(report->stopped, said[t]);
        ls_judge_report_destroy(&report);
    }
    int calls = 0;
    trouble = 9;
    const ls_backend table = {.context = &calls,
                              .run = run_in_order,
                              .begin = begin_some,
                              .end = end_some,
                              .max_ranks = 2,
                              .barrier = second_rank_hangs};
    ls_judge_report *report = judge(&table, (ls_judge_options){0});
    ck_assert_int_eq(report->verdict, LS_JUDGE_RIGHT);
    ck_assert_int_eq(calls, 102);
    ls_judge_report_destroy(&report);
}
END_TEST

/* own_run, and then a rank that was not asked for. */
static int run_and_one_more(void *context, int ranks, ls_backend_function function, void *argument)
{
    const int result = own_run(context, ranks, function, argument);
    function(trouble == 9 ? ranks : -trouble, argument);
    return result;
}

START_TEST(a_rank_that_does_not_exist)
{
    static const struct {
        int trouble;
        const char *said;
    } cases[] = {
        {1, "1 rank: the table's run called rank -1, which does not exist or was already started"},
        {2, "1 rank: the table's run called rank -2, which does not exist or was already started"},
        {0, "1 rank: the table's run called rank 0, which does not exist or was already started"},
        {9, "1 rank: the table's run called rank 1, which does not exist or was already started"}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const ls_backend table = {
            .context = &own, .run = run_and_one_more, .broadcast = own_broadcast};
        trouble = cases[c].trouble;
        ls_judge_report *report = judge(&table, (ls_judge_options){.max_ranks = 4});
        ck_assert_int_eq(report->verdict, LS_JUDGE_STOPPED);
        ck_assert_str_eq(report->stopped, cases[c].said);
        ls_judge_report_destroy(&report);
    }
}
END_TEST

START_TEST(nothing_to_judge_and_bad_options)
{
    const ls_backend table = {0};
    ls_judge_report *report = NULL;
    report = judge(&table, (ls_judge_options){0});
    ck_assert_int_eq(report->verdict, LS_JUDGE_NOTHING);
    ck_assert_uint_gt(report->missing, 8);
    ls_judge_report_destroy(&report);
    const ls_judge_options many = {.max_ranks = 65};
    ck_assert_int_eq(ls_judge(&table, &many, &report), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "max_ranks 65: the judge runs 1 to 64 ranks");
    ck_assert_ptr_null(report);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("judge", 120);
    tcase_add_loop_test(tcase, own_functions_are_right, 0, 2);
    tcase_add_loop_test(tcase, foreign_functions_are_right, 0, 2);
    tcase_add_loop_test(tcase, mistakes_are_found_and_named, 0, N_FAULTS);
    tcase_add_test(tcase, a_report_in_words);
    tcase_add_test(tcase, a_call_that_hangs);
    tcase_add_test(tcase, a_rank_that_fails);
    tcase_add_test(tcase, what_is_not_supported);
    tcase_add_test(tcase, the_table_s_own_run);
    tcase_add_test(tcase, a_rank_that_does_not_exist);
    tcase_add_test(tcase, nothing_to_judge_and_bad_options);
    return run_tests();
}
