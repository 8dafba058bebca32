/* families.h - the families of hypotheses, and what some of them share. A family tries what can
 * concern the search's node. cause.c has the order in which they are tried. */
#ifndef LS_CAUSES_FAMILIES_H
#define LS_CAUSES_FAMILIES_H

#include "causes/search.h"

typedef ls_status ls_cause_family(ls_search *search);
ls_cause_family ls_cause_norms, ls_cause_clips, ls_cause_two_updates, ls_cause_sums, ls_cause_uses,
    ls_cause_factors, ls_cause_batch, ls_cause_target_shift, ls_cause_attention, ls_cause_formulas,
    ls_cause_rotary, ls_cause_targets, ls_cause_terms, ls_cause_interleaved, ls_cause_arrangement,
    ls_cause_pairing, ls_cause_dropout, ls_cause_replicas, ls_cause_residuals, ls_cause_every_sum,
    ls_cause_updates;
/* Of convolutional networks. */
ls_cause_family ls_cause_net_halo, ls_cause_net_statistics, ls_cause_net_sums, ls_cause_net_formula;
/* Tried last, when none of these explains it. */
ls_cause_family ls_cause_corrupted;

/* ---- cause_cuts.c ---- */

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

/* What each sequence's share of the loss is multiplied by in a mean of the parts' means; divided
 * false: in their sum. */
void ls_weights_of_means(const ls_search *search, const ls_cause_cut *cut, bool divided,
                         double *weights);

/* Whether all are the same: what is multiplied by them says nothing of any parts. */
bool ls_weights_are_a_factor(const double *weights, size_t n);

/* Number i of what a loss may be divided by in place of the number of its targets: by what that
 * multiplies it, in words. false: there are no more. */
bool ls_other_count(const ls_search *search, int i, double *ret_factor, char text[LS_EVIDENCE]);

/* The same; order: of the losses of the sequences' order. */
bool ls_other_count_of(const ls_search *search, bool order, int i, double *ret_factor,
                       char text[LS_EVIDENCE]);

/* Targets in sequences from .. to - 1; of images, labels. */
size_t ls_targets_in(const ls_search *search, size_t from, size_t to);
/* Labels of the sequences' order that count. */
size_t ls_order_labels(const ls_batch *batch);

/* ---- cause_replicas.c ---- */

/* What a rank holds (ret_held: not 0 there), what it does not being right. *ret_differs: something
 * of it is wrong. */
void ls_rank_tensor(const ls_search *search, int rank, double *ret_values, unsigned char *ret_held,
                    bool *ret_differs);

/* ---- cause_targets.c ---- */

/* How many padded words there may be: those of the program itself, then of usual sizes. Returns how
 * many numbers these are. */
enum { LS_PADDINGS = 32 };
size_t ls_search_paddings(const ls_search *search, size_t words[LS_PADDINGS]);

#endif
