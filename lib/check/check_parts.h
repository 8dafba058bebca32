/* check_parts.h - what the files that judge a candidate share. */
#ifndef LS_CHECK_CHECK_PARTS_H
#define LS_CHECK_CHECK_PARTS_H

#include "golden/bounds.h"
#include "golden/bounds_moved.h"
#include "check/check.h"
#include "step_graph/operation.h"

/* ---- check_format.c: formats of numbers ---- */

/* Whether a's unit roundoff is larger than b's; and the coarser of two. */
bool ls_check_is_coarser(ls_dtype a, ls_dtype b);
ls_dtype ls_check_coarser(ls_dtype a, ls_dtype b);

/* A tensor of the candidate / of the golden directory in binary64; the caller frees it. */
ls_status ls_check_widen(double **ret_values, ls_dtype dtype, const void *values,
                         size_t count) LS_MUST_USE;

/* value rounded to nearest, ties to even, in a format; beyond its range: infinity. In place. */
void ls_check_round(ls_dtype format, double *values, size_t count);

/* Steps from a to b in a format that has both; UINT64_MAX when one is NaN; +0 and -0 are 1 apart.
 */
uint64_t ls_check_ulps(ls_dtype format, double a, double b);

/* Whether every value of an F64 tensor is a number of F32, every one of an F64 or F32 tensor one of
 * BF16, of F16. Of other dtypes: no. If any, what that tells: how many have more than one
 * significant bit (0, 1 and 1/2 are numbers of every format), and how many bits the numbers have
 * together, from the first of the largest to the last that is set in any: multiples of one power of
 * two up to 255 times it, as rounding noise is, are numbers of BF16 without having been rounded to
 * it. */
typedef struct ls_check_formats {
    bool f32, bf16, f16;
    size_t telling;
    int bits;
} ls_check_formats;
ls_check_formats ls_check_inspect(ls_dtype dtype, const void *values, size_t count);

/* Same bits, NaN equal to NaN, the golden values rounded to `format` where that is coarser.
 * one_zero: -0 is +0, as among integers, where it says only in which order nothing was added. */
bool ls_check_equal(ls_dtype golden_dtype, const void *golden, ls_dtype dtype, ls_dtype format,
                    const void *values, size_t count, bool one_zero);
void ls_check_one_zero(double *values, size_t count);

/* ---- the state of a judgement ---- */

/* A node of a step. */
typedef struct ls_check_place {
    const ls_golden_tensor *golden;       /* NULL: the directory lacks it */
    const ls_candidate_tensor *candidate; /* NULL: missing */
    ls_judged *judged;                    /* NULL: missing, or not asked for */
    ls_check_formats formats;
    ls_dtype format;    /* of the candidate's values */
    ls_dtype passed;    /* as what reads it takes it: a guess about one tensor is not passed on */
    ls_dtype shared;    /* as most of its kind are: what depends on it, however far, is judged so */
    ls_dtype precision; /* coarsest of all that it depends on, as shared, and of its own format */
    ls_dtype spread;    /* the same without a guess about this one: passed to what depends on it */
    bool known;         /* precision: the candidate has any of that */
    const struct ls_check_place *source; /* where `precision` comes from; NULL: --computed */
    bool wrong_before;                   /* something that it depends on is different */
    bool split_before; /* ranks hold different values of something that it reads: each computed it
                          from its own, so it says nothing of this operation */
    size_t differs;    /* the first element that is not the golden bits */
} ls_check_place;

/* The precisions for which runs were done. */
enum { LS_CHECK_PRECISIONS = LS_BF16 + 1 };

struct ls_check {
    const ls_golden *golden;
    const ls_candidate *candidate;
    ls_check_options options;
    const ls_graph *graph;
    size_t nodes, steps;
    ls_check_place *places; /* steps x nodes */
    size_t *reads_end;      /* per node: end of its part of `reads`, the parameters that it reads */
    int *reads;
    int *
        gradients; /* the nodes of all parameters' gradients, in table order: what the norm reads */
    size_t n_gradients;
    int *updated; /* per parameter: its node after the step */
    ls_truth **truths, *own_truths[LS_CHECK_PRECISIONS]; /* the caller's, or these */
    ls_judgement *judgement;
};

ls_status ls_check_state_create(struct ls_check **ret_check, const ls_golden *golden,
                                const ls_candidate *candidate,
                                const ls_check_options *options) LS_MUST_USE;
void ls_check_state_destroy(struct ls_check **check);

/* After bits were compared: the runs for the precisions of tensors that are not equal and have no
 * golden bound. */
ls_status ls_check_find_truths(struct ls_check *check) LS_MUST_USE;

ls_check_place *ls_check_at(const struct ls_check *check, uint64_t step, int node);

/* The nodes of the same step that a node reads. */
const int *ls_check_inputs(const struct ls_check *check, int node, size_t *ret_count);
/* Parameters that a node reads: those before the step. */
const int *ls_check_reads(const struct ls_check *check, int node, size_t *ret_count);

/* The embedding whose rows a parameter's gradient adds up; -1: none. */
int ls_check_embedding_of(const ls_graph *graph, const ls_graph_node *gradient);

/* Whether the golden directory lets this node be computed again: not one that it was given. */
bool ls_check_has_operation(const struct ls_check *check, const ls_check_place *place);

/* What whole runs allow a tensor to be off by; the truth, NULL: from the golden values. Infinity:
 * nothing is known. */
typedef struct ls_check_run_bound {
    const double *truth;
    double most;        /* of any element */
    double spread;      /* root mean square of all; infinity: not known */
    const double *rows; /* ... of each run of rows; NULL: not known */
} ls_check_run_bound;
ls_check_run_bound ls_check_bounds(const struct ls_check *check, const ls_check_place *place);

/* Largest distance from the truth that is allowed at a place, and the truth: NULL, then it is from
 * the golden values. Infinity: nothing is known. */
double ls_check_bound(const struct ls_check *check, const ls_check_place *place,
                      const double **ret_truth);

/* ---- check_precision.c ---- */

/* The format of every tensor of the candidate; then, after bits were compared, the precision of
 * every place. */
ls_status ls_check_find_formats(struct ls_check *check) LS_MUST_USE;
void ls_check_spread_precision(struct ls_check *check);
/* After verdicts: which tensors may have been computed in the narrow format that most others have.
 * Verdicts stay: a guess about some tensors allows another one nothing. */
void ls_check_find_finer(struct ls_check *check);

/* Whether an operation is, or has, a matrix product. */
bool ls_check_has_products(ls_operation_kind make);

/* ---- check_workers.c ---- */

/* Of item i; context: the judgement's state. Writes only what is i's own. */
typedef ls_status ls_check_task(void *context, size_t i);
/* Does all of them, in no particular order; the error of the first that fails. what: for progress.
 */
ls_status ls_check_work(struct ls_check *check, ls_check_task *task, size_t count,
                        const char *what) LS_MUST_USE;

/* ---- check_operands.c ---- */

/* An operation's operands in binary64. */
typedef struct ls_check_operands {
    ls_operands operands;
    ls_update update;
    bool own; /* all are the candidate's own, or what the golden directory gives every candidate */
    ls_dtype coarsest; /* format of these and of what they make */
    ls_precision precision;
    const double **values, **params, **moment1, **moment2;
    double *roundoff; /* per node: ls_operands */
    double **room;    /* every array that was made */
    size_t rooms;
} ls_check_operands;

/* Loads what the operation of a place reads. fill: golden tensors for those that the candidate does
 * not have; without it nothing is loaded once one is missing, and own is false. everything: all
 * parameters, for who looks for causes. Errors: LS_ERR_MEMORY. */
ls_status ls_check_load(ls_check_operands *ret_loaded, const struct ls_check *check,
                        const ls_check_place *place, bool fill, bool everything) LS_MUST_USE;
void ls_check_unload(ls_check_operands *loaded);

/* ---- check_distance.c ---- */

/* Elements that are not allowed: how many, and the first. */
typedef struct ls_check_outside {
    size_t count, first;
} ls_check_outside;
void ls_check_count_outside(ls_check_outside *of, size_t i);

/* Of distances `far`: when their root mean square over all elements is above `whole`, or over run g
 * of `run` elements above rows[g] (NULL: any), the elements of which none may be so far off on
 * average are counted. */
void ls_check_spread(ls_check_outside *of, const double *far, size_t count, double whole,
                     size_t run, const double *rows);

/* The same of what standard deviations allow. *ret_whole: the root mean square allowed of all.
 * Errors: LS_ERR_MEMORY. */
ls_status ls_check_deviations(ls_check_outside *of, const double *far, const double *deviation,
                              size_t count, size_t run, double *ret_whole) LS_MUST_USE;

/* ---- check_local.c ---- */

/* Everything about one tensor that is not equal, but for the verdict. */
ls_status ls_check_measure(const struct ls_check *check, ls_check_place *place) LS_MUST_USE;

/* A tensor's operation computed again from the candidate's own inputs: values and bounds, which the
 * caller frees; both stay as they are when one of the inputs is missing. */
ls_status ls_check_again(const struct ls_check *check, const ls_check_place *place,
                         double **ret_right, double **ret_bound) LS_MUST_USE;

/* Whether `value` may stand for `right`: both NaN, the same infinity, or |value - right| <= bound.
 */
bool ls_check_allowed(double value, double right, double bound);

#endif
