/* operation_kind.h - the kinds of operations that a step is made of, and what holds for each.
 *
 * A kind is one row of operations.inc. The graph reads its properties, operation.c its functions,
 * so a new kind is that row, its functions in an operation_*.c, and its nodes in graph_forward.c or
 * graph_net.c. */
#ifndef LS_STEP_GRAPH_OPERATION_KIND_H
#define LS_STEP_GRAPH_OPERATION_KIND_H

#include <stdbool.h>
#include <stdint.h>

#define LS_OPERATION(name, ...) LS_MAKE_##name,
typedef enum ls_operation_kind {
#include "step_graph/operations.inc"
    LS_OPERATION_KINDS
} ls_operation_kind;
#undef LS_OPERATION

/* A set of kinds: LS_KIND(LINEAR) | LS_KIND(LOGITS). */
typedef uint64_t ls_kind_set;
#define LS_KIND(name) (UINT64_C(1) << LS_MAKE_##name)
_Static_assert(LS_OPERATION_KINDS <= 64, "a set of kinds has 64 bits");

static inline bool ls_kind_in(ls_kind_set kinds, ls_operation_kind make)
{
    return (kinds >> make & 1) != 0;
}

typedef enum ls_kind_property {
    LS_IS_LOSS = 1,         /* per token, sequence or image: its gradient is no node of its own */
    LS_IS_LINEAR = 2,       /* in its inputs: what goes back through it does not read them */
    LS_IS_SHOWN = 4,        /* besides what is made of the same inputs: nothing reads it */
    LS_IS_PRODUCT = 8,      /* of x0 with the matrix w */
    LS_IS_CONVOLUTION = 16, /* of x0 with the kernels w */
    LS_OF_INTEGERS = 32     /* integers where what it reads are integers */
} ls_kind_property;

/* Inputs to which a constant may be added without a change of what is made. */
#define LS_INPUT(slot) (1u << (slot))
#define LS_EVERY_INPUT (~0u)

typedef struct ls_kind {
    unsigned properties; /* ls_kind_property, added */
    unsigned unseen;     /* inputs */
    const char *words;   /* "x W + b, turned by position" */
} ls_kind;

const ls_kind *ls_kind_of(ls_operation_kind make);

/* Whether the kind has one of these properties. */
static inline bool ls_kind_has(ls_operation_kind make, unsigned properties)
{
    return (ls_kind_of(make)->properties & properties) != 0;
}

#endif
