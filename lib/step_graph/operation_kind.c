/* operation_kind.c - the table of operation kinds, without the functions that evaluate them. */
#include "step_graph/operation_kind.h"

#define LS_OPERATION(name, properties, unseen, forward, backward, params, words)                   \
    [LS_MAKE_##name] = {properties, unseen, words},
static const ls_kind kinds[LS_OPERATION_KINDS] = {
#include "step_graph/operations.inc"
};
#undef LS_OPERATION

const ls_kind *ls_kind_of(ls_operation_kind make)
{
    return &kinds[make];
}
