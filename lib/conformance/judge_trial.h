/* judge_trial.h - one case of the judge: an operation, a number of ranks, a shape, and data.
 *
 * Every array that a call reads or writes is a tensor of the case: its elements once, as a whole,
 * in binary64, and for each rank a list of which of them it holds, in the order it holds them. So
 * all that follows - buffers, guard bands, comparison, suspicions - is written once for every
 * operation and every way to cut, and a new operation only says what is where and what is right. */
#ifndef LS_CONFORMANCE_JUDGE_TRIAL_H
#define LS_CONFORMANCE_JUDGE_TRIAL_H

#include "lockstep/base/memory.h"
#include "lockstep/conformance/judge.h"
#include "step_graph/mistake.h"
#include "step_graph/operation.h"

enum {
    JUDGE_TENSORS = 16,
    JUDGE_VARIANTS = 10,
    JUDGE_MAX_RANKS = 64,
    JUDGE_CALLS = 2, /* of every case */
    JUDGE_GUARD_BYTES = 64
};

typedef enum judge_role {
    JUDGE_GIVEN = 0, /* read only          */
    JUDGE_WANTED,    /* written only       */
    JUDGE_CHANGED    /* read, then written  */
} judge_role;

/* What a mistake would have given. */
typedef struct judge_variant {
    ls_cause cause;     /* of the table of mistakes; LS_CAUSE_NONE: of functions only */
    const char *text;   /* "the padded columns are inside the softmax" */
    const double *v;    /* elements of the whole */
    size_t rank_stride; /* from rank to rank; 0: the same on all */
} judge_variant;

typedef struct judge_tensor {
    const char *name;
    judge_role role;
    bool integer;                  /* int32_t in place of ls_real */
    size_t n;                      /* elements of the whole */
    size_t outer, cut, inner;      /* n = outer cut inner, a rank having a run of the middle axis */
    size_t count[JUDGE_MAX_RANKS]; /* elements of each rank */
    size_t *where[JUDGE_MAX_RANKS]; /* places in the whole */
    double *before;                 /* n: given, changed */
    double *value, *bound;          /* n: wanted, changed */
    const void *ordered;            /* n values of the dtype: Lockstep's own bits; NULL: not said */
    /* Of a sum over ranks: what each adds, ranks x n; what is added once to the sum, n. NULL: no
     * such sum. */
    double *part, *once;
    judge_variant variants[JUDGE_VARIANTS];
    size_t n_variants;
} judge_tensor;

/* What a case has that not all have. */
typedef enum judge_trait {
    JUDGE_ONE_RANK = 1,
    JUDGE_RANKS_NO_POWER = 2, /* of two */
    JUDGE_UNEVEN = 4,         /* shares that are not equal */
    JUDGE_EMPTY_SHARE = 8,
    JUDGE_IN_PLACE = 16,
    JUDGE_NO_BIAS = 32,
    JUDGE_PADDED = 64,
    JUDGE_IGNORED = 128,
    JUDGE_SMOOTHED = 256,
    JUDGE_SEVERAL_SEQUENCES = 512,
    JUDGE_LARGE = 1024,
    JUDGE_NOT_ROOT_0 = 2048,
    JUDGE_TRAITS = 4096
} judge_trait;

typedef struct judge_trial {
    ls_arena *arena; /* of the case; everything below is in it */
    ls_dtype dtype;
    ls_precision precision;
    int ranks;
    ls_judge_kind kind; /* exact or bounded */
    size_t number;      /* of the shape */
    int form;           /* of the operation */
    uint64_t drawn;     /* state of the random numbers */
    unsigned traits;
    char label[200]; /* the shape in words */
    void *shape;     /* what the operation's call reads */
    judge_tensor tensors[JUDGE_TENSORS];
    size_t n_tensors;
    /* Of the run: [call][rank]. */
    void **buffers[JUDGE_CALLS][JUDGE_MAX_RANKS]; /* one for each tensor */
    int result[JUDGE_CALLS][JUDGE_MAX_RANKS];
    char error[JUDGE_MAX_RANKS][LS_BACKEND_TEXT];
    _Atomic int failed_first; /* the rank that was the first to fail here, or -1 */
} judge_trial;

/* One operation of the table. `backend`: an ls_backend of the precision. */
typedef struct judge_operation {
    const char *name;
    bool exact, bounded; /* the kinds it has */
    int least_ranks;     /* 0: 1 */
    size_t shapes;
    int form;                      /* for those that share prepare and call */
    size_t function, and_function; /* where the table has what is called; 0: no second */
    /* Fills shape, label and tensors with case `number` of `kind`. */
    ls_status (*prepare)(judge_trial *trial);
    /* The call of one rank; buffers: its own, a pointer for each tensor. */
    int (*call)(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                void *const *buffers);
    const char *otherwise; /* what it looks like when nothing fits; NULL: nothing is said */
} judge_operation;

/* An empty case; *ret_trial lives in its own arena. */
ls_status ls_trial_create(judge_trial **ret_trial, ls_dtype dtype, int ranks, ls_judge_kind kind,
                          size_t number, uint64_t seed) LS_MUST_USE;
void ls_trial_destroy(judge_trial **trial);

/* Room in the case, all zero. */
ls_status ls_trial_numbers(judge_trial *trial, size_t n, double **ret_numbers) LS_MUST_USE;
ls_status ls_trial_room(judge_trial *trial, size_t count, size_t size, void *ret) LS_MUST_USE;

/* The next tensor: outer x cut x inner, rank r having places starts[r] .. starts[r + 1] of the
 * middle axis; starts NULL: every rank has all. before and value are zero. */
ls_status ls_trial_add(judge_trial *trial, const char *name, judge_role role, size_t outer,
                       size_t cut, size_t inner, const size_t *starts,
                       judge_tensor **ret_tensor) LS_MUST_USE;

/* A tensor of which every rank has n elements of its own: ranks x n. */
ls_status ls_trial_add_own(judge_trial *trial, const char *name, judge_role role, size_t n,
                           judge_tensor **ret_tensor) LS_MUST_USE;

/* Draws `before`: in exact cases integers from -range to range, else about normal numbers, of
 * the dtype. */
void ls_trial_draw(judge_trial *trial, judge_tensor *tensor, int range);
uint64_t ls_trial_word(judge_trial *trial); /* any 64 bits */
double ls_trial_round(const judge_trial *trial, double x);

/* Room for what each rank adds to `tensor` (part), and for what is added once. */
ls_status ls_trial_parts(judge_trial *trial, judge_tensor *tensor) LS_MUST_USE;

/* What a mistake would give in `tensor`: begins as its right value. text: what it is here, more
 * closely than the table's sentence for `cause`; NULL: that sentence. */
ls_status ls_trial_variant(judge_trial *trial, judge_tensor *tensor, ls_cause cause,
                           const char *text, double **ret_v) LS_MUST_USE;
/* One for every rank: ranks x n. */
ls_status ls_trial_variant_by_rank(judge_trial *trial, judge_tensor *tensor, ls_cause cause,
                                   const char *text, double **ret_v) LS_MUST_USE;

/* Shares of n things: kind 0 as even as can be; 1 rounded up, so that the last are short or empty;
 * 2 all to one rank; 3 uneven with empty ones between. starts: in the case. Notes the traits. */
ls_status ls_trial_cut(judge_trial *trial, size_t n, size_t granule, int kind,
                       const size_t **ret_starts) LS_MUST_USE;

/* Makes the buffers of all ranks: inputs filled in, outputs NaN, guard bands around. */
ls_status ls_trial_lay_out(judge_trial *trial) LS_MUST_USE;

/* The bits of one element as the trial's dtype has them, in binary64. */
double ls_trial_read(const judge_trial *trial, const void *buffer, size_t i);

/* Whether nothing was written outside a buffer; whether an input (JUDGE_GIVEN) is as it was, and if
 * not where. */
bool ls_trial_guard_whole(const judge_trial *trial, int call, int rank, size_t k);
bool ls_trial_unchanged(const judge_trial *trial, int rank, size_t k, size_t *ret_place);

#endif
