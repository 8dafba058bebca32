#include "job/job_check.h"

static const char *const computed_names[] = {"as-written", "f32", "tf32", "f16", "bf16", NULL};
static const ls_dtype computed_dtypes[] = {LS_F32, LS_F32, LS_F16, LS_F16, LS_BF16};

void ls_job_check_options(ls_job_check_settings *check, ls_job_option_table *table)
{
    *check = (ls_job_check_settings){0};
    ls_job_option_add(
        table, ls_option_string("map", &check->map, "NAMES",
                                "whose names and arrangement the candidate's parameters have: "
                                "hf, hf-gpt2, hf-llama, hf-bert, meta-llama, megatron, "
                                "megatron-core; when not given, the golden directory's"));
    ls_job_option_add(table,
                      ls_option_string("only", &check->only, "PATTERN",
                                       "judges the tensors of these names alone, with or without "
                                       "stepN/; * stands for any text, ? for one character"));
    ls_job_option_add(table, ls_option_flag("complete", &check->complete,
                                            "every tensor of the golden directory must be there"));
    ls_job_option_add(
        table, ls_option_choice("computed", &check->computed, computed_names,
                                "in which precision products were computed, if that is coarser "
                                "than what was written; overrules what the numbers seem to be. "
                                "With bf16 the rows of an embedding's gradient are taken to be "
                                "added up in bf16 too, other sums in f32. A tensor in f32 that "
                                "was computed from others in bf16 which the candidate does not "
                                "have shows it nowhere: it needs this"));
    ls_job_option_add(
        table, ls_option_flag("digests", &check->digests,
                              "first reads the whole golden directory and compares its digests; "
                              "without it those of tensors that differ alone"));
    ls_job_option_add(
        table, ls_option_flag("quick", &check->quick,
                              "computes an operation again only where its tensor lies outside "
                              "what whole runs allow; misses mistakes that are smaller than that"));
    ls_job_option_add(table,
                      ls_option_int("threads", &check->threads, 0, 64, "N",
                                    "threads that compute operations again; 0: one per core"));
}

ls_status ls_job_check_run(const ls_job_check_settings *check, const char *golden_path,
                           const char *candidate_path, const ls_check_options *more,
                           ls_golden **ret_golden, ls_candidate **ret_candidate,
                           ls_judgement **ret_judgement)
{
    ls_status status = LS_OK;
    ls_check_options options = *more;
    options.only = check->only;
    options.complete = check->complete;
    options.has_computed = check->computed > 0;
    options.computed = computed_dtypes[check->computed];
    options.quick = check->quick;
    options.threads = check->threads;
    LS_TRY(ls_golden_open(ret_golden, golden_path));
    if (check->digests) LS_TRY(ls_golden_verify(*ret_golden, NULL, NULL));
    LS_TRY(ls_candidate_open(ret_candidate, *ret_golden, candidate_path, check->map));
    LS_TRY(ls_check(ret_judgement, *ret_golden, *ret_candidate, &options));
exit:
    return status;
}

bool ls_job_nothing_judged(const ls_judgement *judgement)
{
    return judgement->unjudged > 0 && judgement->unjudged == judgement->count;
}
