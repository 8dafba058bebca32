#include "sweep.h"

#include <stdlib.h>

#include "lockstep/parallel/sharding.h"

static ls_status append(sweep *s, ls_layout layout)
{
    ls_status status = LS_OK;
    ls_layout *layouts = realloc(s->layouts, (s->count + 1) * sizeof *layouts);
    if (layouts == NULL) LS_FAIL(LS_ERR_MEMORY, "no memory for %zu layouts", s->count + 1);
    layouts[s->count] = layout;
    s->layouts = layouts;
    s->count++;
exit:
    return status;
}

/* Each axis of a layout is one loop here; ls_layout_check has the last word on what is legal. */
ls_status sweep_create(sweep *ret_sweep, const ls_config *config, int max_ranks)
{
    ls_status status = LS_OK;
    enum { MOST = 4096 };
    sweep s = {NULL, 0};
    int *tp = malloc(MOST * sizeof *tp);
    if (tp == NULL) LS_FAIL(LS_ERR_MEMORY, "no memory for the layouts");
    size_t n_tp = ls_legal_tp(config, tp, MOST);
    for (size_t t = 0; t < n_tp && t < MOST; t++) {
        ls_layout layout = ls_layout_serial();
        layout.tp = tp[t];
        if (ls_layout_ranks(&layout) <= max_ranks) LS_TRY(append(&s, layout));
    }
    *ret_sweep = s;
    s.layouts = NULL;
exit:
    free(tp);
    free(s.layouts);
    return status;
}

ls_status sweep_of(sweep *ret_sweep, ls_layout layout)
{
    ls_status status = LS_OK;
    sweep s = {NULL, 0};
    LS_TRY(append(&s, layout));
    *ret_sweep = s;
exit:
    return status;
}

void sweep_free(sweep *s)
{
    free(s->layouts);
    s->layouts = NULL;
    s->count = 0;
}
