/* mistake.c - the table of mistakes: a row is looked up. */
#include "step_graph/mistake.h"

#include <stddef.h>

#define LS_MISTAKE(name, ...) [LS_CAUSE_##name] = {__VA_ARGS__},
static const ls_mistake mistakes[LS_CAUSES] = {
    [LS_CAUSE_NONE] = {"none", 99, "no known cause", NULL},
#include "step_graph/mistakes.inc"
};
#undef LS_MISTAKE

const ls_mistake *ls_mistake_of(ls_cause cause)
{
    return &mistakes[cause > 0 && cause < LS_CAUSES ? cause : LS_CAUSE_NONE];
}
