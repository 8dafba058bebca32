/* cause_parts.h - what the files that name mistakes share: a search over hypotheses, operands that
 * are changed for one, and the fit of the parts of a sum. */
#ifndef LS_CAUSES_CAUSE_PARTS_H
#define LS_CAUSES_CAUSE_PARTS_H

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
    size_t fitted;  /* numbers that were fitted to the candidate for what is proposed next: so many
                       elements confirm nothing. Set back to 0 after that. */
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

/* ---- cause.c ---- */

/* The gate of every hypothesis (cause_gate.c): whether `values`, each right within `bound` (NULL:
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
/* Evaluates the node from changed operands and proposes that. */
ls_status ls_search_evaluate(ls_search *search, ls_cause cause, const ls_operands *operands,
                             const char *evidence) LS_MUST_USE;
/* The node from changed operands, into trial and trial_bound; false: there is no more work to
 * spend. */
ls_status ls_search_compute(ls_search *search, int node, const ls_operands *operands,
                            double *values, double *bound, bool *ret_done) LS_MUST_USE;
/* ", as many as tp" when the candidate's layout is known and has that many of something; "". */
const char *ls_search_size(const ls_search *search, size_t k, char text[64]);
/* What the right tensor times k is called. Reduced twice (k = 2, 3, ...) or averaged (1/2, 1/3,
 * ...) need ranks or micro-batches: a layout, the candidate's or the golden run's, that has as
 * many; or, where the candidate states none, addends that are the candidate's own and right, so
 * that it is their sum that is wrong. Else a plain factor. LS_CAUSE_NONE: k is 1, or neither a
 * whole number nor one over such. */
ls_cause ls_search_factor(const ls_search *search, double k);
/* Whether the node is of one of these kinds, or a gradient that goes through one. */
bool ls_search_concerns(const ls_search *search, unsigned kinds);

/* ---- cause_change.c: operands with some arrays changed ---- */

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

/* ---- cause_upstream.c ---- */

/* Whether a node's values are there, among the case's operands; if not they are read, the
 * candidate's or else the golden ones. */
ls_status ls_search_need(ls_search *search, int node, bool *ret_there) LS_MUST_USE;
/* ... all that a node is made of; and for a change that was begun before. change: may be NULL. */
ls_status ls_search_need_inputs(ls_search *search, int node, ls_change *change,
                                bool *ret_there) LS_MUST_USE;

/* Tries a hypothesis: operations of these kinds (bits of ls_operation_kind), and those that read a
 * changed parameter, are done as the change says. First at the node itself; when the case's inputs
 * are not all the candidate's, at every such operation before it. */
ls_status ls_search_try(ls_search *search, ls_cause cause, unsigned kinds, ls_change *change,
                        const char *evidence) LS_MUST_USE;

/* ... with nothing changed but the variant. */
ls_status ls_search_try_variant(ls_search *search, ls_cause cause, unsigned kinds,
                                const ls_variant *variant, const char *evidence) LS_MUST_USE;
/* Whether a hypothesis about these kinds can matter at all. */
bool ls_search_can_concern(const ls_search *search, unsigned kinds);

/* ---- cause_choice.c: values of one number of which several may fit ---- */

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

/* ---- cause_number.c: one number of a formula, fitted ---- */

/* The positive number `member` (its offset in ls_variant) with which the node is nearest to the
 * candidate, by least squares from numbers near `right`. *ret_done false: no work is left, or
 * nothing depends on it. */
ls_status ls_search_fit(ls_search *search, size_t member, double right, double *ret_value,
                        bool *ret_done) LS_MUST_USE;
/* How far off a fitted number may be, relative. */
double ls_search_fit_slack(const ls_search *search);

/* ---- cause_fit.c: a sum as parts, each with a factor ---- */

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
/* What the parts give with their factors: evaluated and proposed. */
ls_status ls_parts_propose(const ls_parts *parts, ls_search *search, ls_cause cause,
                           const char *evidence) LS_MUST_USE;
/* k where value is near an integer k >= 0, 1 / k where it is near that; else itself. */
double ls_round_factor(double value);
/* A factor as people write it: "3", "1/3". */
const char *ls_factor_text(double factor, char text[16]);

/* Runs of sequences that a layout cuts a batch of B into. */
typedef struct ls_cause_cut {
    size_t count;
    size_t bounds[65];
    char name[48]; /* "micro-batch", "data-parallel rank", "run of sequences" */
} ls_cause_cut;

enum { LS_CUTS = 24 };

/* What a batch is made of: "sequences", of a network "images". */
const char *ls_search_elements(const ls_search *search);

/* Those of the golden and the candidate's layouts first, then equal ones. Returns how many. */
size_t ls_search_cuts(const ls_search *search, ls_cause_cut cuts[LS_CUTS]);

/* ---- cause_replicas.c ---- */

/* What a rank holds (ret_held: not 0 there), what it does not being right. *ret_differs: something
 * of it is wrong. */
void ls_rank_tensor(const ls_search *search, int rank, double *ret_values, unsigned char *ret_held,
                    bool *ret_differs);

/* What each sequence's share of the loss is multiplied by in a mean of the parts' means; divided
 * false: in their sum. */
void ls_weights_of_means(const ls_search *search, const ls_cause_cut *cut, bool divided,
                         double *weights);

/* Whether all are the same: what is multiplied by them says nothing of any parts. */
bool ls_weights_are_a_factor(const double *weights, size_t n);

/* Number i of what a loss may be divided by in place of the number of its targets: by what that
 * multiplies it, in words. false: there are no more. */
bool ls_other_count(const ls_search *search, int i, double *ret_factor, char text[LS_EVIDENCE]);

/* How many padded words there may be: those of the program itself, then of usual sizes. Returns how
 * many numbers these are. */
enum { LS_PADDINGS = 32 };
size_t ls_search_paddings(const ls_search *search, size_t words[LS_PADDINGS]);

/* ---- families: each tries what can concern the search's node ---- */

typedef ls_status ls_cause_family(ls_search *search);
ls_cause_family ls_cause_factors, ls_cause_sums, ls_cause_every_sum, ls_cause_batch, ls_cause_uses,
    ls_cause_replicas, ls_cause_norms, ls_cause_clips, ls_cause_two_updates, ls_cause_formulas,
    ls_cause_interleaved, ls_cause_arrangement, ls_cause_dropout, ls_cause_residuals,
    ls_cause_updates;
ls_cause_family ls_cause_net_halo, ls_cause_net_statistics, ls_cause_net_sums, ls_cause_net_formula;

/* cause_net_grids.c: multiplications of one evaluation of a network's node, roughly. */
double ls_net_work_of(const ls_graph *graph, int place);

/* Those that ls_cause_formulas and ls_cause_arrangement go on with, and the last of all. */
ls_cause_family ls_cause_attention, ls_cause_rotary, ls_cause_targets, ls_cause_terms;
ls_cause_family ls_cause_pairing, ls_cause_corrupted;

#endif
