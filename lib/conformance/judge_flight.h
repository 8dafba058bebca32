/* judge_flight.h - the cases of one operation on one number of ranks, run in a row without a pause.
 *
 * Ranks go from case to case each at its own pace, so that a fast one is in the next call while a
 * slow one is still in the last: where an implementation reuses a buffer or a flag too early, this
 * is what shows it. Every now and then a rank sleeps before a call. */
#ifndef LS_CONFORMANCE_JUDGE_FLIGHT_H
#define LS_CONFORMANCE_JUDGE_FLIGHT_H

#include "conformance/judge_trial.h"

typedef struct judge_flight {
    const void *backend;
    void *context;
    int (*run)(void *context, int ranks, ls_backend_function function, void *argument);
    const judge_operation *operation;
    judge_trial *const *trials;
    size_t n_trials;
    int ranks;
    uint64_t seed;
    uint64_t timeout_ns;
} judge_flight;

typedef struct judge_landing {
    size_t complete;         /* the first so many cases came back whole, from every rank */
    bool hung;               /* threads and trials are left behind: the trials may not be freed */
    char why[LS_JUDGE_TEXT]; /* hung, or a rank that was not run as it should: in words; else "" */
} judge_landing;

/* Runs it; the results are in the trials. Errors: LS_ERR_MEMORY, before any rank ran. */
ls_status ls_judge_fly(const judge_flight *flight, judge_landing *ret_landing) LS_MUST_USE;

#endif
