/* store.h - what one rank holds of the parameters: values, gradients, optimizer state.
 *
 * The serial model holds every parameter whole; a rank of a layout holds runs of granules. */
#ifndef LS_MODEL_STORE_H
#define LS_MODEL_STORE_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/model/param_table.h"

LS_BEGIN_DECLS

/* One parameter as held. All arrays are rows x cols, contiguous. value is NULL when the rank does
 * not hold it. */
#define ls_slot LS_TYPED(ls_slot)
typedef struct ls_slot {
    ls_shard shard;
    size_t rows, cols;
    ls_real *value;
    ls_real *grad[LS_MAX_USES]; /* per use; NULL where the use is not held */
    bool made[LS_MAX_USES];     /* the gradient is made here, and not received */
    ls_real *m, *v;             /* optimizer state; NULL of a state */
} ls_slot;

#define ls_store LS_TYPED(ls_store)
typedef struct ls_store {
    const ls_param_table *table;
    ls_slot *slots;                                          /* table->count */
    ls_arena *parameters, *gradients, *received, *optimizer; /* its own */
    /* The gradients made here lie one after another in one piece of memory of gradient_count
     * elements, slot 0; in slot s, at slot 0 + s * gradient_count, the same again: values that wait
     * for others to be added to (forest_sum.h). */
    ls_real *gradient_slab;
    size_t gradient_count, gradient_slots;
} ls_store;

/* What a store holds of one parameter. */
typedef struct ls_holding {
    bool held;
    bool use_held[LS_MAX_USES];     /* its gradient is made here              */
    bool use_received[LS_MAX_USES]; /* it is made elsewhere and comes here to be added */
    ls_shard shard;
} ls_holding;

/* Allocates everything that `holdings` (table->count entries; NULL: all, whole) names, charged to
 * `memory` (may be NULL): values, a gradient per use held, two arrays of optimizer state, each of
 * rows * cols elements and nothing else (of a state the value only). Values and gradients
 * unspecified; optimizer state zero. `table` must outlive the store. Errors: LS_ERR_INPUT (granules
 * or a use that the parameter does not have, a part of one that is never cut), LS_ERR_MEMORY. */
#define ls_store_create LS_TYPED(ls_store_create)
LS_API ls_status ls_store_create(ls_store **ret_store, const ls_param_table *table,
                                 const ls_holding *holdings, ls_memory *memory) LS_MUST_USE;
/* Makes room for `slots` slots of gradients, at least 1, in place of what there was (1 after
 * ls_store_create); what they held is lost. Before a gradient's address has been taken. Errors:
 * LS_ERR_MEMORY: the store is good for ls_store_destroy only. */
#define ls_store_gradient_slots LS_TYPED(ls_store_gradient_slots)
LS_API ls_status ls_store_gradient_slots(ls_store *store, size_t slots) LS_MUST_USE;

#define ls_store_destroy LS_TYPED(ls_store_destroy)
LS_API void ls_store_destroy(ls_store **store);

/* Draws the initial values (rule 4): element i of the logical tensor (row-major, unpadded) takes
 * normal number i of its stream (purpose INIT, layer = place in the table, step 0) times std, in
 * binary64, rounded to binary32 in both precisions; padding is +0. So every shard is the slice of
 * the whole. Norm scales are 1, biases and shifts 0. */
#define ls_store_init LS_TYPED(ls_store_init)
LS_API void ls_store_init(ls_store *store, uint64_t seed);

/* The slot of a role; NULL when the model has none or the store does not hold it. */
#define ls_store_slot LS_TYPED(ls_store_slot)
LS_API ls_slot *ls_store_slot(const ls_store *store, ls_role role, size_t layer);

/* Squares of the gradient (use 0, after the uses were added), in binary64, one number per granule
 * held of every parameter whose use 0 is held, by rule 16: the elements of the granule's block in
 * the order (row, column) of its logical rows and columns. ret_squares[i] for i = granules of the
 * table before this parameter + number of the granule in the whole axis:
 * ls_param_table_granules(table) numbers; entries not held are left untouched. A granule of nothing
 * but padding is +0. */
#define ls_store_squares LS_TYPED(ls_store_squares)
LS_API void ls_store_squares(const ls_store *store, double *ret_squares);

LS_END_DECLS

#endif
