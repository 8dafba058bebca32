/* bench_command.c - how fast this machine is at what a training does, next to something known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "facts.h"

enum { OPTIONS = 6, COLUMNS = 5 };

typedef struct bench_settings {
    const char *only, *dtype;
    int rounds, images;
    bool json, help;
} bench_settings;

typedef struct bench_part {
    const char *name;
    const char *summary;
    ls_status (*run[2])(bench *b); /* in binary32, in binary64 */
} bench_part;

static const bench_part parts[] = {
    {"gemm",
     "matrix products under the contract, beside OpenBLAS without one",
     {bench_gemm_f32, bench_gemm_f64}},
    {"conv2d",
     "convolutions of ResNet-50, beside the same products by gemm",
     {bench_conv2d_f32, bench_conv2d_f64}},
    {"kernels",
     "functions, norms and pooling, beside copying the array",
     {bench_kernels_f32, bench_kernels_f64}},
    {"collectives",
     "barrier, all-reduce and all-gather, beside a thread that copies",
     {bench_collectives, bench_collectives}},
    {"step",
     "training steps in some layouts, beside the serial baseline",
     {bench_step, bench_step}},
};

enum { PARTS = sizeof parts / sizeof parts[0] };

static void make_options(bench_settings *s, ls_option *options)
{
    *s = (bench_settings){.dtype = "f32", .rounds = 5, .images = 1};
    options[0] = ls_option_string("only", &s->only, "PART[,PART]",
                                  "gemm, conv2d, kernels, collectives, step; without it all");
    options[1] = ls_option_string("dtype", &s->dtype, "f32|f64", "the precision");
    options[2] = ls_option_int("rounds", &s->rounds, 1, 100, "N",
                               "timings of each; the best is shown, and the median of the ratios");
    options[3] = ls_option_int("images", &s->images, 1, 64, "N", "the batch of a convolution");
    options[4] = ls_option_flag("json", &s->json,
                                "one JSON object on standard output, words on standard error");
    options[5] = ls_option_flag("help", &s->help, "this text");
}

/* Whether a list of names with commas between them has this one. */
static bool has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Each name of --only is a part's. */
static ls_status check_only(const char *list)
{
    ls_status status = LS_OK;
    for (const char *at = list; at != NULL;) {
        const size_t length = strcspn(at, ",");
        char name[32];
        bool known = false;
        snprintf(name, sizeof name, "%.*s", length < 31 ? (int)length : 31, at);
        for (size_t p = 0; p < PARTS; p++) known |= strcmp(name, parts[p].name) == 0;
        if (!known)
            LS_FAIL(LS_ERR_INPUT,
                    "--only %s: there is no part %s; gemm, conv2d, kernels, collectives and step",
                    ls_show(list), *name == '\0' ? "\"\"" : ls_show(name));
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
exit:
    return status;
}

static void print_help(const command_spec *command, const ls_option *options)
{
    print_help_head(command);
    ls_options_help(stdout, options, OPTIONS);
    printf("\nParts:\n");
    for (size_t p = 0; p < PARTS; p++) printf("  %-13s%s\n", parts[p].name, parts[p].summary);
    print_help_end(command);
}

ls_status bench_row(bench *b, const char *what, double figure, const char *unit, double ratio,
                    const char *to)
{
    ls_status status = LS_OK;
    const int digits = figure >= 100 ? 0 : figure >= 10 ? 1 : 2;
    LS_TRY(ls_text_table_add(b->table, "%s", what));
    LS_TRY(ls_text_table_add(b->table, "%.*f", digits, figure));
    LS_TRY(ls_text_table_add(b->table, "%s", unit));
    LS_TRY(ratio > 0 ? ls_text_table_add(b->table, "%.2f", ratio)
                     : ls_text_table_add(b->table, "-"));
    LS_TRY(ls_text_table_add(b->table, "%s", ratio > 0 ? to : ""));
    json_t *row =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:s}", "part", b->part, "what", what, "figure",
                  json_number(figure), "unit", unit, "ratio",
                  ratio > 0 ? json_number(ratio) : json_null(), "to", ratio > 0 ? to : "");
    if (row == NULL || json_array_append_new(b->rows, row) != 0)
        LS_FAIL(LS_ERR_MEMORY, "bench: no memory for a row");
exit:
    return status;
}

static ls_status run_part(bench *b, const bench_part *part, FILE *out)
{
    const char *const heads[COLUMNS] = {part->name, "figure", "", "ratio", "to"};
    ls_status status = LS_OK;
    LS_TRY(ls_text_table_create(&b->table, COLUMNS));
    for (size_t i = 0; i < COLUMNS; i++) LS_TRY(ls_text_table_add(b->table, "%s", heads[i]));
    b->part = part->name;
    LS_TRY(part->run[b->dtype == LS_F64](b));
    ls_text_table_print(b->table, out);
    fputc('\n', out);
    fflush(out);
exit:
    ls_text_table_destroy(&b->table);
    return status;
}

ls_status bench_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    bench_settings s;
    bench b = {0};
    ls_option options[OPTIONS];
    ls_words rest = {NULL, 0, NULL, NULL};
    char engine[64];
    make_options(&s, options);
    if (asks_for_help(argc, argv)) {
        print_help(command, options);
        goto exit;
    }
    LS_TRY(ls_options_parse(options, OPTIONS, argc, argv, &rest));
    LS_TRY(check_only(s.only));
    if (strcmp(s.dtype, "f32") != 0 && strcmp(s.dtype, "f64") != 0)
        LS_FAIL(LS_ERR_INPUT, "--dtype %s: f32 or f64", ls_show(s.dtype));
    b.dtype = strcmp(s.dtype, "f64") == 0 ? LS_F64 : LS_F32;
    b.rounds = s.rounds;
    b.images = (size_t)s.images;
    b.rows = json_array();
    if (b.rows == NULL) LS_FAIL(LS_ERR_MEMORY, "bench: no memory for the rows");
    FILE *out = s.json ? stderr : stdout;
    ls_engine_describe(LS_ENGINE_PORTABLE, engine, sizeof engine);
    fprintf(out, "%s, %s; %d rounds in turns: the best figure, the median ratio\n", engine, s.dtype,
            s.rounds);
    if (ls_engine_warning(LS_ENGINE_OPENBLAS)[0] != '\0')
        fprintf(out, "warning: %s\n", ls_engine_warning(LS_ENGINE_OPENBLAS));
    fputc('\n', out);
    for (size_t p = 0; p < PARTS; p++)
        if (s.only == NULL || has(s.only, parts[p].name)) LS_TRY(run_part(&b, &parts[p], out));
    if (s.json)
        LS_TRY(print_json(json_pack("{s:s, s:s, s:s, s:i, s:O}", "command", "bench", "engine",
                                    engine, "dtype", s.dtype, "rounds", s.rounds, "rows", b.rows)));
exit:
    json_decref(b.rows);
    return status;
}
