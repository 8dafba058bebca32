/* token_sums.h - gradients of the norms' parameters: sums over tokens that are cut over ranks.
 *
 * With sequence parallelism a norm sees own tokens only, and the gradients of its scale and shift
 * are sums over all of them (contract rule 9: the tokens of a sequence first, one token a leaf;
 * then the sequences). A rank's share of a sequence is a run of leaves, so it sends the nodes
 * that the run makes (rule 8), for each sequence by itself:
 *
 *     partials [nodes][B][vectors][D]  --all-reduce-->  [B][vectors][D]  --T over B--> [vectors][D]
 *
 * The vectors of a layer's norms go together: one small all-reduce for a layer. An object is opened
 * before the first norm's backward pass, filled by each, and finished once. Without sequence
 * parallelism it is open and does nothing. */
#ifndef LS_PARALLEL_SEQUENCE_TOKEN_SUMS_H
#define LS_PARALLEL_SEQUENCE_TOKEN_SUMS_H

#include "lockstep/model/param_table.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"

enum { LS_TOKEN_SUMS_MAX = 8 };

#define ls_token_sums LS_TYPED(ls_token_sums)
typedef struct ls_token_sums {
    const ls_tensor_parallel *tp;
    ls_axis tokens; /* the whole axis */
    size_t D;
    size_t vectors, added; /* room for so many; so many are there */
    ls_real *targets[LS_TOKEN_SUMS_MAX];
    const ls_param_table *table; /* for the observer: whose gradients these are */
    size_t places[LS_TOKEN_SUMS_MAX];
    ls_node
        nodes[LS_FOREST_MAX]; /* of a sequence's tokens, in own share: 0 is the first own token */
    size_t n_nodes;
    ls_real *partials;
} ls_token_sums;

/* Room for `vectors` sums of D numbers each, at most LS_TOKEN_SUMS_MAX, in tp->temporary: to be
 * released to a mark of the caller's, after ls_token_sums_finish. tokens: the whole axis. tp must
 * stay until then. The same call on every member. Errors: LS_ERR_MEMORY. */
#define ls_token_sums_open LS_TYPED(ls_token_sums_open)
ls_status ls_token_sums_open(ls_token_sums *ret_sums, const ls_tensor_parallel *tp, ls_axis tokens,
                             size_t D, size_t vectors) LS_MUST_USE;

/* A further sum, to end in `target`, D numbers, the gradient of the parameter in `place` of the
 * table (which may be NULL where no observer is): *ret_vector is its number. The same order on
 * every member. Errors: LS_ERR_INTERNAL, more than it was opened for. */
#define ls_token_sums_add LS_TYPED(ls_token_sums_add)
ls_status ls_token_sums_add(ls_token_sums *sums, ls_real *target, const ls_param_table *table,
                            size_t place, size_t *ret_vector) LS_MUST_USE;

/* Where T over the tokens nodes[j].lo .. hi of sequence b is to be written, for sum `vector`: D
 * numbers. Those tokens are rows b S_r + lo .. of an array of own tokens. */
#define ls_token_sums_part LS_TYPED(ls_token_sums_part)
ls_real *ls_token_sums_part(const ls_token_sums *sums, size_t vector, size_t j, size_t b);

/* Finishes all sums, on every member, into their targets (tp->sums). 1 all-reduce of nodes B
 * vectors D, nodes of a tree over S; none for no sums. Errors: LS_ERR_MEMORY, those of
 * ls_all_reduce_forest. */
#define ls_token_sums_finish LS_TYPED(ls_token_sums_finish)
ls_status ls_token_sums_finish(ls_token_sums *sums) LS_MUST_USE;

#endif
