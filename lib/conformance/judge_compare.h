/* judge_compare.h - whether a case that has run is right, and what a wrong one looks like. */
#ifndef LS_CONFORMANCE_JUDGE_COMPARE_H
#define LS_CONFORMANCE_JUDGE_COMPARE_H

#include "conformance/judge_trial.h"

typedef enum judge_outcome { JUDGE_PASSED = 0, JUDGE_NOT_SUPPORTED, JUDGE_FAULTY } judge_outcome;

typedef enum judge_fault_kind {
    JUDGE_FAULT_RESULT = 0, /* a rank failed, or some support the case and some do not */
    JUDGE_FAULT_BESIDE,     /* written outside a buffer  */
    JUDGE_FAULT_INPUT,      /* an input was overwritten */
    JUDGE_FAULT_VALUE
} judge_fault_kind;

/* The first fault of a case. */
typedef struct judge_fault {
    judge_fault_kind kind;
    int call, rank;
    size_t tensor, place; /* element of the rank's own array */
    char text[400];
} judge_fault;

judge_outcome ls_judge_compare(const judge_trial *trial, judge_fault *ret_fault);

/* The same of the bits: JUDGE_NOT_SUPPORTED when nothing is said of them. */
judge_outcome ls_judge_compare_ordered(const judge_trial *trial, judge_fault *ret_fault);

/* Whether an element is within the bound of its right value. */
bool ls_judge_is_right(const judge_tensor *tensor, size_t place_in_whole, double got);

/* ---- suspicions ---- */

enum { JUDGE_BALLOT = 64, JUDGE_SUSPICION = 160 };

/* Every failed case votes for all mistakes that explain it. */
typedef struct judge_ballot {
    struct {
        char text[JUDGE_SUSPICION];
        ls_cause cause;
        size_t votes, last_case;
    } entries[JUDGE_BALLOT];
    size_t n, cases;
} judge_ballot;

/* The votes of a case with this fault. before: the case that ran before it, or NULL. */
void ls_judge_suspect(const judge_trial *trial, const judge_trial *before, const judge_fault *fault,
                      judge_ballot *ballot);

/* A case that was judged. */
typedef struct judge_seen {
    unsigned traits;
    bool failed;
} judge_seen;

/* What those that failed have in common and none that passed has, in as few words as possible: "on
 * several ranks, with a bias"; "" when there is no such thing. */
void ls_judge_common(const judge_seen *seen, size_t n, char *text, size_t size);

#endif
