/* judge.h - another implementation of collectives and layers, judged in process.
 *
 *     static int my_all_reduce(ls_backend_rank *me, float *out, const float *in, size_t count,
 *                              ls_backend_reduction reduction) { ... }
 *
 *     ls_backend backend = {.name = "mine", .context = &mine, .all_reduce = my_all_reduce};
 *     ls_judge_report *report = NULL;
 *     ls_status status = ls_judge(&backend, NULL, &report);
 *     if (status == LS_OK) ls_judge_print(stdout, report);
 *
 * The judge runs every function that the table has on 1 to 8 ranks, with sizes that others got
 * wrong (none, one, fewer than ranks, not a multiple of the ranks, primes, empty shares), each call
 * twice, calls of different sizes in a row, ranks that come late. Inputs must stay as they are, and
 * nothing may be written outside an output. Results are judged in three ways:
 *
 *     exact     small integers as data: every partial sum is exact, so that any order of addition
 *               must give the same bits
 *     bounded   random data, against binary64 with a bound for each operation and element that any
 *               order of addition keeps
 *     ordered   the same calls: whether the bits are Lockstep's own (contract tree/v1). For
 *               information, unless the options ask for it
 *
 * Of each operation the report has the first case that failed and the mistake it looks like.
 *
 * Written over ls_real: with LS_REAL_IS_F64 defined the same table takes double. */
#ifndef LS_CONFORMANCE_JUDGE_H
#define LS_CONFORMANCE_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

/* ---- the table ---- */

/* What a function of the table returns. */
enum {
    LS_BACKEND_DONE = 0,
    LS_BACKEND_UNSUPPORTED = 1, /* not this shape or number of ranks: not a fault, but counted;
                                   every rank must say so, before it communicates */
    LS_BACKEND_FAILED = 2,      /* me->error says why */
    LS_BACKEND_TEXT = 200
};

/* Who calls: one per rank and call. */
typedef struct ls_backend_rank {
    void *context;               /* the table's */
    int rank, ranks;             /* 0 <= rank < ranks */
    char error[LS_BACKEND_TEXT]; /* out: one line, when LS_BACKEND_FAILED is returned */
} ls_backend_rank;

typedef enum ls_backend_reduction { LS_BACKEND_SUM = 0, LS_BACKEND_MAX } ls_backend_reduction;
typedef enum ls_backend_gelu { LS_BACKEND_GELU_TANH = 0, LS_BACKEND_GELU_ERF } ls_backend_gelu;

/* How an axis is cut over the ranks: rank r owns places starts[r] .. starts[r + 1] of it. starts:
 * ranks + 1 ascending numbers from 0; shares may be uneven or empty. The cuts are multiples of
 * `granule`; only who wants Lockstep's order of addition needs it. */
typedef struct ls_backend_cut {
    const size_t *starts;
    size_t granule;
} ls_backend_cut;

/* A linear layer on B sequences of S tokens: tokens = B S rows. Its weight is in x out, row-major.
 */
typedef struct ls_backend_linear {
    size_t B, S, in, out;
    ls_backend_cut cut; /* of out (column) or in (row) */
} ls_backend_linear;

typedef struct ls_backend_mlp {
    size_t B, S, D, F;
    ls_backend_cut cut; /* of F */
    ls_backend_gelu gelu;
} ls_backend_mlp;

/* A vocabulary of V words, padded: rows or columns from V to the cut's end belong to no word and
 * take no part in anything. A target of LS_IGNORE (-100) has loss 0 and gradient 0. */
typedef struct ls_backend_vocab {
    size_t B, S, D, V;  /* D: embedding only */
    ls_backend_cut cut; /* of the padded vocabulary */
    double smoothing; /* label smoothing a: loss = (1 - a) (lse - z_target) + a (lse - mean of z) */
} ls_backend_vocab;

typedef struct ls_backend_tokens {
    size_t B, S, width;
    ls_backend_cut cut; /* of S: rank r owns the same places of every sequence */
} ls_backend_tokens;

typedef struct ls_backend_norm {
    size_t D;
    double eps;
    ls_backend_tokens tokens; /* whose norm: own tokens of each rank */
} ls_backend_norm;

typedef struct ls_backend_attention {
    size_t B, S, heads, head_width;
    ls_backend_cut cut; /* of the heads */
    bool causal;        /* query i sees keys 0 .. i; else all */
} ls_backend_attention;

/* What ls_backend.run calls for every rank. */
typedef void (*ls_backend_function)(int rank, void *argument);

/* Every function is called by all ranks of a run at the same time, each in a thread of its own, and
 * in the same order by all. A pointer that is NULL is not judged. Outputs do not overlap inputs
 * unless the comment says so; what an output held before is not a number. "The same on every rank"
 * means equal values; nothing else is shared between ranks.
 *
 * r: the calling rank. x_r: its part of x. All arrays are row-major and contiguous. */
#define ls_backend LS_TYPED(ls_backend)
typedef struct ls_backend {
    const char *name; /* for the report; NULL: "backend" */
    void *context;    /* handed on in ls_backend_rank */
    int max_ranks;    /* 0: no limit of its own */

    /* Before and after a run of some calls on `ranks` ranks, in the judge's own thread: the place
     * to make a communicator, also one of some ranks of a larger world. May be NULL. begin:
     * LS_BACKEND_DONE, or LS_BACKEND_UNSUPPORTED: not so many ranks. */
    int (*begin)(void *context, int ranks);
    void (*end)(void *context, int ranks);

    /* Calls function(r, argument) for r = 0 .. ranks - 1, each in a thread of its own, at the same
     * time, and returns LS_BACKEND_DONE when all have returned; anything else: it could not run
     * them. NULL: the judge starts threads. Ranks share the memory of this process. */
    int (*run)(void *context, int ranks, ls_backend_function function, void *argument);

    /* ---- collectives ---- */

    /* Returns when every rank has called it. */
    int (*barrier)(ls_backend_rank *me);

    /* Copies root's buffer into every member's. */
    int (*broadcast)(ls_backend_rank *me, ls_real *buffer, size_t count, int root);

    /* out[i] = sum or largest over ranks of in[i], the same on every rank. out may be in. */
    int (*all_reduce)(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t count,
                      ls_backend_reduction reduction);

    /* out = sum over ranks of in, of which each gets its share: in has starts[ranks] elements, out
     * is elements starts[r] .. starts[r + 1] of the sum. */
    int (*reduce_scatter)(ls_backend_rank *me, ls_real *out, const ls_real *in,
                          const size_t *starts);

    /* out = the inputs one after another: in has starts[r + 1] - starts[r] elements, which become
     * elements starts[r] .. of out on every rank. */
    int (*all_gather)(ls_backend_rank *me, ls_real *out, const ls_real *in, const size_t *starts);

    /* The inputs side by side: in is rows x (starts[r + 1] - starts[r]) and becomes columns
     * starts[r] .. of out, rows x starts[ranks]. */
    int (*all_gather_columns)(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t rows,
                              const size_t *starts);

    /* counts: ranks x ranks; counts[s * ranks + r] elements go from rank s to rank r. in: own row's
     * blocks in order of receiver; out: own column's blocks in order of sender. */
    int (*all_to_all)(ls_backend_rank *me, ls_real *out, const ls_real *in, const size_t *counts);

    /* A message to another rank, and the oldest one from it. A send may wait for its receive or
     * not. Both are needed to be judged. */
    int (*send)(ls_backend_rank *me, int peer, const ls_real *buffer, size_t count);
    int (*receive)(ls_backend_rank *me, int peer, ls_real *buffer, size_t count);

    /* ---- tensor parallelism (arXiv 1909.08053, section 3) ---- */

    /* y_r = x w_r + bias_r. x: tokens x in, the same on every rank; w_r: in x own columns; bias_r:
     * own columns, or NULL: none; y_r: tokens x own columns. */
    int (*column_linear_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x,
                                 const ls_real *w, const ls_real *bias,
                                 const ls_backend_linear *shape);

    /* dx = sum over ranks of dy_r w_r^T, the same on every rank; dw_r = x^T dy_r; dbias_r = sum
     * over tokens of dy_r (NULL: none). dy_r: tokens x own columns; the rest as above. */
    int (*column_linear_backward)(ls_backend_rank *me, ls_real *dx, ls_real *dw, ls_real *dbias,
                                  const ls_real *dy, const ls_real *x, const ls_real *w,
                                  const ls_backend_linear *shape);

    /* y = sum over ranks of x_r w_r, then + bias once; the same on every rank. x_r: tokens x own
     * columns; w_r: own rows x out; bias: out, the same on every rank, or NULL; y: tokens x out. */
    int (*row_linear_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w,
                              const ls_real *bias, const ls_backend_linear *shape);

    /* dx_r = dy w_r^T; dw_r = x_r^T dy; dbias = sum over tokens of dy, the same on every rank
     * (NULL: none). dy: tokens x out, the same on every rank. */
    int (*row_linear_backward)(ls_backend_rank *me, ls_real *dx, ls_real *dw, ls_real *dbias,
                               const ls_real *dy, const ls_real *x, const ls_real *w,
                               const ls_backend_linear *shape);

    /* y = sum over ranks of gelu(x w_up_r + b_up_r) w_down_r, then + b_down once. x, y: tokens x D,
     * the same on every rank; w_up_r: D x own columns of F; b_up_r: own columns; w_down_r: own rows
     * of F x D; b_down: D, the same on every rank. */
    int (*mlp_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w_up,
                       const ls_real *b_up, const ls_real *w_down, const ls_real *b_down,
                       const ls_backend_mlp *shape);

    /* Its gradients from dy, tokens x D, the same on every rank; dx and db_down the same on every
     * rank; the others as what they are the gradient of. */
    int (*mlp_backward)(ls_backend_rank *me, ls_real *dx, ls_real *dw_up, ls_real *db_up,
                        ls_real *dw_down, ls_real *db_down, const ls_real *dy, const ls_real *x,
                        const ls_real *w_up, const ls_real *b_up, const ls_real *w_down,
                        const ls_backend_mlp *shape);

    /* o_h = softmax(q_h k_h^T / sqrt(head_width) + mask) v_h for own heads h. q, k, v, o: tokens x
     * (own heads x head_width). */
    int (*attention_forward)(ls_backend_rank *me, ls_real *o, const ls_real *q, const ls_real *k,
                             const ls_real *v, const ls_backend_attention *shape);

    /* dq, dk, dv from d_o; shapes alike. */
    int (*attention_backward)(ls_backend_rank *me, ls_real *dq, ls_real *dk, ls_real *dv,
                              const ls_real *d_o, const ls_real *q, const ls_real *k,
                              const ls_real *v, const ls_backend_attention *shape);

    /* y[t] = row ids[t] of the whole table, the same on every rank. table_r: own rows x D; ids:
     * tokens, each from 0 to V - 1, the same on every rank; y: tokens x D. */
    int (*vocab_embedding_forward)(ls_backend_rank *me, ls_real *y, const ls_real *table,
                                   const int32_t *ids, const ls_backend_vocab *shape);

    /* dtable_r = own rows of the gradient: row v is the sum of dy[t] over the tokens with ids[t] ==
     * v, 0 where there is none. dy: tokens x D, the same on every rank. */
    int (*vocab_embedding_backward)(ls_backend_rank *me, ls_real *dtable, const ls_real *dy,
                                    const int32_t *ids, const ls_backend_vocab *shape);

    /* loss[t] = log(sum of exp z[t][.]) - z[t][target] (label smoothing: ls_backend_vocab), and
     * *mean = sum of loss / number of targets that are not ignored (0 when all are); the same on
     * every rank. z_r: tokens x own columns of the padded vocabulary; targets: tokens, from 0 to V
     * - 1 or LS_IGNORE, the same on every rank. */
    int (*vocab_cross_entropy_forward)(ls_backend_rank *me, ls_real *loss, ls_real *mean,
                                       const ls_real *z, const int32_t *targets,
                                       const ls_backend_vocab *shape);

    /* dz_r[t][v] = dloss[t] (softmax - what the target asks for) in own columns; 0 in padded ones
     * and in rows that are ignored. dloss: tokens, the gradient of loss[t], the same on every rank;
     * the mean has none. */
    int (*vocab_cross_entropy_backward)(ls_backend_rank *me, ls_real *dz, const ls_real *dloss,
                                        const ls_real *z, const int32_t *targets,
                                        const ls_backend_vocab *shape);

    /* ---- sequence parallelism (arXiv 2205.05198, section 4.2.2) ---- */

    /* whole[b][s] = own[b][s - starts[q]] of the rank q that owns place s, the same on every rank.
     * own: B x own places x width; whole: B x S x width. */
    int (*gather_tokens)(ls_backend_rank *me, ls_real *whole, const ls_real *own,
                         const ls_backend_tokens *shape);

    /* own = own tokens of the sum over ranks of partial. partial: B x S x width. */
    int (*scatter_tokens)(ls_backend_rank *me, ls_real *own, const ls_real *partial,
                          const ls_backend_tokens *shape);

    /* y = (x - mean) / sqrt(variance + eps) scale + shift, row by row; the variance is the mean of
     * the squares. x, y: own tokens x D; scale, shift: D, the same on every rank. */
    int (*layer_norm_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x,
                              const ls_real *scale, const ls_real *shift,
                              const ls_backend_norm *shape);

    /* dx: own tokens x D; dscale, dshift: D, the sums over the tokens of all ranks, the same on
     * every rank. dy: own tokens x D. */
    int (*layer_norm_backward)(ls_backend_rank *me, ls_real *dx, ls_real *dscale, ls_real *dshift,
                               const ls_real *dy, const ls_real *x, const ls_real *scale,
                               const ls_backend_norm *shape);

    /* y = x / sqrt(mean of squares + eps) scale; the rest as above. */
    int (*rms_norm_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                            const ls_backend_norm *shape);
    int (*rms_norm_backward)(ls_backend_rank *me, ls_real *dx, ls_real *dscale, const ls_real *dy,
                             const ls_real *x, const ls_real *scale, const ls_backend_norm *shape);

    /* ---- without communication ---- */

    /* tanh: y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); erf: y = x / 2 (1 + erf(x / sqrt
     * 2)). n values. */
    int (*gelu_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t n,
                        ls_backend_gelu form);
    int (*gelu_backward)(ls_backend_rank *me, ls_real *dx, const ls_real *dy, const ls_real *x,
                         size_t n, ls_backend_gelu form);

    /* Row by row of rows x n. backward: from the result y. */
    int (*softmax_forward)(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t rows,
                           size_t n);
    int (*softmax_backward)(ls_backend_rank *me, ls_real *dx, const ls_real *dy, const ls_real *y,
                            size_t rows, size_t n);

    /* ---- the update ---- */

    /* norm = sqrt(sum of squares of the whole gradient), the same on every rank; both arrays are
     * scaled in place by max_norm / norm where norm > max_norm. The whole gradient: the cut
     * parameters, of which own[n_own] is this rank's share, and the replicated ones, whose gradient
     * shared[n_shared] is the same on every rank and counts once. */
    int (*clip_gradient)(ls_backend_rank *me, ls_real *norm, ls_real *own, size_t n_own,
                         ls_real *shared, size_t n_shared, double max_norm);

    /* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; then w = w - lr weight_decay w,
     * w = w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). In place, own shard: w, m,
     * v, g: n. */
    int (*adamw)(ls_backend_rank *me, ls_real *w, ls_real *m, ls_real *v, const ls_real *g,
                 size_t n, double lr, double beta1, double beta2, double eps, double weight_decay,
                 uint64_t t);
} ls_backend;

/* ---- the judgement ---- */

typedef enum ls_judge_kind {
    LS_JUDGE_EXACT = 0,
    LS_JUDGE_BOUNDED,
    LS_JUDGE_ORDERED,
    LS_JUDGE_KINDS
} ls_judge_kind;

typedef struct ls_judge_options {
    int max_ranks;       /* 1 to 64; 0: 8 */
    uint64_t seed;       /* of data and delays */
    const char *only;    /* operations whose name contains it; NULL: all */
    unsigned kinds;      /* 1 << LS_JUDGE_EXACT and so on, added; 0: all */
    bool order_required; /* an operation that does not give Lockstep's bits is wrong */
    uint64_t timeout_ns; /* no rank comes back from a call for so long: it hangs; 0: 20 s */
    /* Before each operation and number of ranks; done of total. NULL: none. */
    void (*progress)(void *argument, const char *operation, size_t done, size_t total);
    void *progress_argument;
} ls_judge_options;

enum { LS_JUDGE_TEXT = 720 };

/* One operation judged in one way. */
typedef struct ls_judge_line {
    const char *operation; /* "row_linear_forward" */
    ls_judge_kind kind;
    size_t cases, passed;          /* judged, and right; a case is two calls on all ranks */
    size_t unsupported;            /* cases besides these */
    char first[LS_JUDGE_TEXT];     /* the first case that failed, or ""; of the ordered kind too */
    char suspected[LS_JUDGE_TEXT]; /* the mistake that explains most of them, or "" */
    const char *mistake; /* its key, as `lockstep check` has it: "bias-per-rank"; NULL: no such */
    const char *remedy;  /* what to look at in one's own code; NULL */
    size_t explained;    /* how many of those that failed it explains */
    char only[LS_JUDGE_TEXT]; /* what all that failed have in common, and none that passed */
} ls_judge_line;

typedef enum ls_judge_verdict {
    LS_JUDGE_RIGHT = 0,
    LS_JUDGE_WRONG,
    LS_JUDGE_STOPPED, /* a call did not come back: what comes after it was not judged */
    LS_JUDGE_NOTHING  /* no function that could be judged */
} ls_judge_verdict;

typedef struct ls_judge_report {
    ls_judge_verdict verdict;
    bool order_required; /* as the options said */
    char backend[64];
    ls_judge_line *lines;
    size_t n_lines;
    size_t operations, missing;  /* judged; without a function */
    char stopped[LS_JUDGE_TEXT]; /* why, or "" */
} ls_judge_report;

/* Judges what the table has. options NULL: all as 0 says. *ret_report: to be destroyed; whatever
 * the verdict, the status is LS_OK. A call that hangs ends the judgement: its threads and buffers
 * are left behind, the table and its context must then stay as they are until the process ends.
 * Cost: some seconds of small calls. Errors: LS_ERR_INPUT (options), LS_ERR_MEMORY. */
#define ls_judge LS_TYPED(ls_judge)
LS_API ls_status ls_judge(const ls_backend *backend, const ls_judge_options *options,
                          ls_judge_report **ret_report) LS_MUST_USE;

/* The report as text: a line per operation, what failed below it, the verdict last. */
LS_API void ls_judge_print(FILE *out, const ls_judge_report *report);

/* "exact", "bounded", "ordered". */
LS_API const char *ls_judge_kind_name(ls_judge_kind kind);

/* The line of an operation and kind; NULL: not judged. */
LS_API const ls_judge_line *ls_judge_find(const ls_judge_report *report, const char *operation,
                                          ls_judge_kind kind);

LS_API void ls_judge_report_destroy(ls_judge_report **report);

LS_END_DECLS

#endif
