/* check_facts.h - what a judgement found, for people and for programs. */
#ifndef LOCKSTEP_CHECK_FACTS_H
#define LOCKSTEP_CHECK_FACTS_H

#include <jansson.h>

#include "causes/findings.h"
#include "command.h"
#include "job/job_check.h"

typedef struct check_settings {
    const char *golden, *candidate;
    const char *show;
    ls_job_check_settings check;
    bool all, json, help;
} check_settings;

typedef struct checked {
    const check_settings *settings;
    const ls_golden *golden;
    const ls_candidate *candidate;
    const ls_judgement *judgement;
    const ls_findings *findings;
    const ls_inspection *look; /* of --show; NULL: none */
} checked;

/* ---- check_text.c ---- */

/* Files, precisions, layouts; counts per phase; what differs, its causes; the last line. */
ls_status print_judgement(FILE *out, const checked *c) LS_MUST_USE;

/* "[0, 3, 17]" of a flat index; "" of one number. */
enum { INDEX_TEXT = 96 };
const char *index_text(const ls_graph_node *node, size_t index, char text[INDEX_TEXT]);
/* "0x1.8p-3 (0.1875)" */
enum { VALUE_TEXT = 64 };
const char *value_text(double value, char text[VALUE_TEXT]);
/* "equal", ..., "not judged" */
const char *verdict_text(const ls_judged *judged);
/* "wrong by itself", ... */
const char *local_text(const ls_judged *judged);

/* ---- check_operation_text.c ---- */

/* "layers.0.heads W + b, W layers.0.attention.out.weight, b ...": what makes a node. */
enum { OPERATION_TEXT = 1024 };
const char *operation_text(const ls_graph *graph, int node, char text[OPERATION_TEXT]);

/* ---- check_show.c ---- */

/* One tensor's whole story, with a picture of where it is off. */
/* One line: which indices are off, unless all are. */
ls_status print_where(FILE *out, const checked *c, const ls_judged *judged) LS_MUST_USE;
ls_status print_look(FILE *out, const checked *c) LS_MUST_USE;

/* ---- check_json.c ---- */

ls_status print_check_json(const checked *c) LS_MUST_USE;

#endif
