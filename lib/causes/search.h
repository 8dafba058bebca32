/* search.h - a search over hypotheses: what one may do, what it must show, operands that are
 * changed for it, and the fit of the parts of a sum. */
#ifndef LS_CAUSES_SEARCH_H
#define LS_CAUSES_SEARCH_H

#include <math.h>

#include "causes/cause.h"

typedef struct ls_search {
    const ls_case *of; /* a copy: its operands.values are these */
    const double **values;
    double **loaded; /* per node: what ls_search_need has read; ours */
    const ls_graph *graph;
    const ls_graph_node *node;
    const ls_config *config;
    size_t n;                  /* elements of the node */
    const double *candidate;   /* the case's, or what one rank holds */
    const unsigned char *held; /* then: which elements these are, others are not looked at; NULL:
                                  all */
    char whose[64];            /* "rank 3: " in that case */
    double work;               /* multiplications that may still be spent */
    size_t fitted;             /* of ls_search_propose_fitted and ls_search_try_fitted, else 0 */
    bool scant;     /* a parameter of which so few elements are wrong, by what may lie anywhere
                       before it, that several mistakes may explain them */
    bool only_hint; /* before the node, only the case's hint is tried */
    bool cut_short; /* some hypotheses were left out for that */
    double *trial, *trial_bound;
    ls_squares *squares; /* of cause_norm.h, where the case keeps none */
    bool fits[LS_CAUSES];
    ls_suspicion best;
    struct {
        double residual, left, bound; /* sum of squares; largest distance, and the bound there */
        char text[LS_EVIDENCE];
    } explained; /* by the last proposal that was taken */
} ls_search;

/* Whether an element of the candidate is not the right one. */
static inline bool ls_search_is_wrong(const ls_search *search, size_t i)
{
    return (!search->held || search->held[i]) &&
           !(fabs(search->candidate[i] - search->of->right[i]) <= search->of->bound[i]);
}

/* ---- search_gate.c ---- */

/* The gate of every hypothesis: whether `values`, each right within `bound` (NULL:
 * the case's), explain the candidate where the right values do not. ret_left, ret_bound: largest
 * distance, and the bound there. */
bool ls_search_explains(const ls_search *search, const double *values, const double *bound,
                        double *ret_left, double *ret_bound);
/* Takes a cause that explains the candidate; the evidence ends with what is left. */
void ls_search_take(ls_search *search, ls_cause cause, const char *evidence, double left,
                    double bound);
/* Values that a hypothesis predicts: tries and takes. bound: of each; NULL: the case's. */
bool ls_search_propose(ls_search *search, ls_cause cause, const double *values, const double *bound,
                       const char *evidence);
/* The same of values for which numbers were fitted to the candidate: so many elements confirm
 * nothing. */
bool ls_search_propose_fitted(ls_search *search, ls_cause cause, size_t fitted,
                              const double *values, const double *bound, const char *evidence);
/* The right values times k. */
bool ls_search_propose_scaled(ls_search *search, ls_cause cause, double k, size_t fitted,
                              const char *evidence);
/* The candidate divided by other values, by least squares; 0: they are all 0. */
double ls_search_ratio(const ls_search *search, const double *to);
/* What the right tensor times k is called. Reduced twice (k = 2, 3, ...) or averaged (1/2, 1/3,
 * ...) need ranks or micro-batches: a layout, the candidate's or the golden run's, that has as
 * many; or, where the candidate states none, addends that are the candidate's own and right, so
 * that it is their sum that is wrong. Else a plain factor. LS_CAUSE_NONE: k is 1, or neither a
 * whole number nor one over such. */
ls_cause ls_search_factor(const ls_search *search, double k);
/* ---- search.c ---- */

/* Multiplications of one evaluation of a node, roughly. */
double ls_search_work_of(const ls_graph *graph, int node);
/* Evaluates the node from changed operands and proposes that. */
ls_status ls_search_evaluate(ls_search *search, ls_cause cause, const ls_operands *operands,
                             const char *evidence) LS_MUST_USE;
/* The node from changed operands, into trial and trial_bound; false: there is no more work to
 * spend. */
ls_status ls_search_compute(ls_search *search, int node, const ls_operands *operands,
                            double *values, double *bound, bool *ret_done) LS_MUST_USE;
/* ", as many as tp" when the candidate's layout is known and has that many of something; "". */
const char *ls_search_size(const ls_search *search, size_t k, char text[64]);
/* Whether the node is of one of these kinds, or a gradient that goes through one. */
bool ls_search_concerns(const ls_search *search, ls_kind_set kinds);

/* ---- search_change.c: operands with some arrays changed ---- */

typedef struct ls_change {
    ls_operands operands; /* batch and variant are the ones here */
    ls_variant variant;
    ls_batch batch;
    const double **values, **params;
    double **owned;
    size_t n_owned, room;
} ls_change;

/* The case's operands, as they are. A change stays where it was begun. */
ls_status ls_change_begin(ls_change *change, const ls_operands *from) LS_MUST_USE;
void ls_change_end(ls_change *change);
/* A copy of a node's or parameter's array in the place of it, to be written into. */
ls_status ls_change_value(ls_change *change, int node, double **ret_values) LS_MUST_USE;
ls_status ls_change_param(ls_change *change, int param, double **ret_values) LS_MUST_USE;

/* ---- search_try.c ---- */

/* Whether a node's values are there, among the case's operands; if not they are read, the
 * candidate's or else the golden ones. */
ls_status ls_search_need(ls_search *search, int node, bool *ret_there) LS_MUST_USE;
/* ... all that a node is made of; and for a change that was begun before. change: may be NULL. */
ls_status ls_search_need_inputs(ls_search *search, int node, ls_change *change,
                                bool *ret_there) LS_MUST_USE;

/* Tries a hypothesis: operations of these kinds (bits of ls_operation_kind), and those that read a
 * changed parameter, are done as the change says. First at the node itself; when the case's inputs
 * are not all the candidate's, at every such operation before it. */
ls_status ls_search_try(ls_search *search, ls_cause cause, ls_kind_set kinds, ls_change *change,
                        const char *evidence) LS_MUST_USE;

/* ... with nothing changed but the variant; with numbers in it that were fitted; with another
 * batch. */
ls_status ls_search_try_variant(ls_search *search, ls_cause cause, ls_kind_set kinds,
                                const ls_variant *variant, const char *evidence) LS_MUST_USE;
ls_status ls_search_try_fitted(ls_search *search, ls_cause cause, ls_kind_set kinds,
                               const ls_variant *variant, size_t fitted,
                               const char *evidence) LS_MUST_USE;
ls_status ls_search_try_batch(ls_search *search, ls_cause cause, ls_kind_set kinds,
                              const ls_variant *variant, const ls_batch *batch,
                              const char *evidence) LS_MUST_USE;

/* A formula in the place of the right one, and all of a table of such. */
typedef struct ls_form {
    ls_cause cause;
    ls_kind_set kinds;
    ls_variant variant;
    const char *text;
} ls_form;
/* One row of a table: cause without LS_CAUSE_, kinds, text, members of the variant. */
#define LS_FORM(cause, kinds, text, ...)                                                           \
    {                                                                                              \
        LS_CAUSE_##cause, kinds, {__VA_ARGS__}, text                                               \
    }
ls_status ls_search_try_forms(ls_search *search, const ls_form *forms, size_t count) LS_MUST_USE;
#define LS_TRY_FORMS(search, forms)                                                                \
    LS_TRY(ls_search_try_forms(search, forms, sizeof(forms) / sizeof *(forms)))

/* Whether a hypothesis about these kinds can matter at all. */
bool ls_search_can_concern(const ls_search *search, ls_kind_set kinds);

/* ---- search_choice.c: values of one number of which several may fit ---- */

enum { LS_CHOICES = 16 };

typedef struct ls_choice {
    ls_search *search;
    ls_cause cause;
    ls_suspicion before;
    bool fitted_before;
    double least, left, bound;
    size_t count, chosen;
    const char *names[LS_CHOICES]; /* of those that fit */
    char text[LS_EVIDENCE];
} ls_choice;

void ls_choice_begin(ls_choice *choice, ls_search *search, ls_cause cause);
/* Before a value is tried; after it, with its name, which lasts. handicap: of the residual. */
void ls_choice_next(ls_choice *choice);
void ls_choice_note(ls_choice *choice, double handicap, const char *name);
/* Takes the value that leaves least; its evidence says which others fit too. */
void ls_choice_end(ls_choice *choice);

/* ---- search_number.c: one number of a formula, fitted ---- */

/* The positive number `member` (its offset in ls_variant) with which the node is nearest to the
 * candidate, by least squares from numbers near `right`. *ret_done false: no work is left, or
 * nothing depends on it. */
ls_status ls_search_fit(ls_search *search, size_t member, double right, double *ret_value,
                        bool *ret_done) LS_MUST_USE;
/* How far off a fitted number may be, relative. */
double ls_search_fit_slack(const ls_search *search);

/* ---- search_parts.c: a sum as parts, each with a factor ---- */

/* Elements of an operand in which the node is linear: those whose place e has e / inner % extent in
 * from .. to - 1. The node is the sum of what the parts give. */
typedef struct ls_part {
    bool is_param;
    int index; /* of the node or parameter */
    size_t inner, extent, from, to;
    int group;     /* parts of one addend */
    double factor; /* fitted, then rounded to what it can be */
    bool known;    /* false: the part gives nothing, so its factor cannot be seen */
} ls_part;

enum { LS_PARTS = 160 };

typedef struct ls_parts {
    size_t count;
    ls_part part[LS_PARTS];
} ls_parts;

void ls_parts_add(ls_parts *parts, const ls_search *search, bool is_param, int index, size_t inner,
                  size_t extent, size_t from, size_t to, int group);

/* The factors by least squares. *ret_done false: too much work or nothing to fit. */
ls_status ls_parts_fit(ls_parts *parts, ls_search *search, bool *ret_done) LS_MUST_USE;
/* Of parts first .. first + count - 1: the factor that all have that can be seen, NAN if none can;
 * *ret_same: they have the same. */
double ls_parts_common(const ls_parts *parts, size_t first, size_t count, bool *ret_same);
void ls_parts_set(ls_parts *parts, size_t first, size_t count, double factor);
/* ls_round_factor of every part's. */
void ls_parts_round(ls_parts *parts);
/* What the parts give with their factors: evaluated and proposed. */
ls_status ls_parts_propose(const ls_parts *parts, ls_search *search, ls_cause cause,
                           const char *evidence) LS_MUST_USE;
/* k where value is near an integer k >= 0, 1 / k where it is near that; else itself. */
double ls_round_factor(double value);
/* A factor as people write it: "3", "1/3". */
const char *ls_factor_text(double factor, char text[16]);

#endif
