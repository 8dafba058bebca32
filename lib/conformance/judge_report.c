/* judge_report.c - a judgement as text. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/conformance/judge.h"

const char *ls_judge_kind_name(ls_judge_kind kind)
{
    static const char *const names[LS_JUDGE_KINDS] = {"exact", "bounded", "ordered"};
    return kind >= 0 && kind < LS_JUDGE_KINDS ? names[kind] : "unknown";
}

const ls_judge_line *ls_judge_find(const ls_judge_report *report, const char *operation,
                                   ls_judge_kind kind)
{
    for (size_t i = 0; i < report->n_lines; i++)
        if (report->lines[i].kind == kind && strcmp(report->lines[i].operation, operation) == 0)
            return &report->lines[i];
    return NULL;
}

void ls_judge_report_destroy(ls_judge_report **report)
{
    if (*report == NULL) return;
    free((*report)->lines);
    free(*report);
    *report = NULL;
}

static void print_cell(FILE *out, const ls_judge_line *line)
{
    char cell[40] = "-";
    if (line != NULL && line->cases == 0)
        snprintf(cell, sizeof cell, "unsupported");
    else if (line != NULL && line->passed == line->cases)
        snprintf(cell, sizeof cell, "all %zu", line->cases);
    else if (line != NULL)
        snprintf(cell, sizeof cell, "%zu of %zu", line->passed, line->cases);
    fprintf(out, "  %-11s", cell);
}

static void print_fault(FILE *out, const ls_judge_line *line)
{
    if (line == NULL || line->first[0] == 0) return;
    const size_t failed = line->cases - line->passed;
    fprintf(out, "    %s: %s\n", ls_judge_kind_name(line->kind), line->first);
    if (line->suspected[0])
        fprintf(out, "      looks like: %s (explains %zu of %zu)\n", line->suspected,
                line->explained, failed);
    if (line->only[0]) fprintf(out, "      only %s\n", line->only);
    if (line->remedy) fprintf(out, "      %s\n", line->remedy);
}

static void print_verdict(FILE *out, const ls_judge_report *report)
{
    size_t cases = 0, passed = 0, unsupported = 0;
    for (size_t i = 0; i < report->n_lines; i++) {
        if (report->lines[i].kind == LS_JUDGE_ORDERED) continue;
        cases += report->lines[i].cases;
        passed += report->lines[i].passed;
        unsupported += report->lines[i].unsupported;
    }
    if (report->missing > 0)
        fprintf(out, "not judged: %zu operations that the table does not have\n", report->missing);
    if (unsupported > 0) fprintf(out, "not supported: %zu cases\n", unsupported);
    static const char *const words[] = {"right", "WRONG", "STOPPED", "nothing to judge"};
    fprintf(out, "verdict: %s: %zu of %zu cases of %zu operations passed\n", words[report->verdict],
            passed, cases, report->operations);
}

void ls_judge_print(FILE *out, const ls_judge_report *report)
{
    fprintf(out, "%s, judged by Lockstep\n", report->backend);
    fprintf(out, "  %-30s  %-11s  %-11s  %-11s\n", "operation", "exact", "bounded", "tree/v1");
    for (size_t i = 0; i < report->n_lines; i++) {
        const char *name = report->lines[i].operation;
        const ls_judge_line *lines[LS_JUDGE_KINDS];
        if (i > 0 && strcmp(report->lines[i - 1].operation, name) == 0) continue;
        for (int kind = 0; kind < LS_JUDGE_KINDS; kind++)
            lines[kind] = ls_judge_find(report, name, (ls_judge_kind)kind);
        fprintf(out, "  %-30s", name);
        for (int kind = 0; kind < LS_JUDGE_KINDS; kind++) print_cell(out, lines[kind]);
        fprintf(out, "\n");
        print_fault(out, lines[LS_JUDGE_EXACT]);
        print_fault(out, lines[LS_JUDGE_BOUNDED]);
        if (report->order_required) print_fault(out, lines[LS_JUDGE_ORDERED]);
    }
    if (report->stopped[0]) fprintf(out, "stopped: %s\n", report->stopped);
    print_verdict(out, report);
}
