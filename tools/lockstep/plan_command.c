/* plan_command.c - what a run will hold and send, without running it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "plan_facts.h"
#include "report/drawing_file.h"

/* ---- ranks that are alike ---- */

/* Adds the run first .. last of ranks to a text; once it has no more room, dots. */
static void add_run(char *text, size_t size, int first, int last)
{
    enum { DOTS = 6 }; /* ", ..." */
    char run[32];
    size_t used = strlen(text);
    if (used >= 3 && strcmp(text + used - 3, "...") == 0) return;
    if (first == last)
        snprintf(run, sizeof run, "%d", first);
    else
        snprintf(run, sizeof run, "%d-%d", first, last);
    if (used + strlen(run) + 2 + DOTS > size) snprintf(run, sizeof run, "...");
    snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", run);
}

static void name_groups(planned *p)
{
    for (int g = 0; g < p->n_groups; g++) {
        int first = -1;
        for (int r = p->groups[g].first; r <= p->plan->ranks; r++) {
            bool inside = r < p->plan->ranks && p->group_of[r] == g;
            if (inside && first < 0) first = r;
            if (!inside && first >= 0) {
                add_run(p->groups[g].text, sizeof p->groups[g].text, first, r - 1);
                first = -1;
            }
        }
    }
}

static ls_status group_ranks(planned *p)
{
    ls_status status = LS_OK;
    const ls_plan *plan = p->plan;
    p->group_of = calloc((size_t)plan->ranks, sizeof *p->group_of);
    p->groups = calloc((size_t)plan->ranks, sizeof *p->groups);
    if (p->group_of == NULL || p->groups == NULL)
        LS_FAIL(LS_ERR_MEMORY, "no memory for a plan of %d ranks", plan->ranks);
    for (int r = 0; r < plan->ranks; r++) {
        int g = 0;
        while (g < p->n_groups && !ls_plan_alike(&plan->rank[r], &plan->rank[p->groups[g].first]))
            g++;
        if (g == p->n_groups) p->groups[p->n_groups++].first = r;
        p->groups[g].count++;
        p->group_of[r] = g;
    }
    name_groups(p);
exit:
    return status;
}

/* ---- the picture ---- */

static ls_status draw(const planned *p, const char *path)
{
    char layout[256], title[512];
    ls_layout_describe(&p->plan->layout, layout, sizeof layout);
    snprintf(title, sizeof title, "%s, %s", p->plan->config.name, layout);
    return ls_timeline_file(path, p->timeline, title);
}

/* ---- the command ---- */

ls_status plan_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    settings s;
    bool helped = false;
    planned p = {.settings = &s};
    LS_TRY(settings_read(&s, command, argc, argv, &helped));
    if (helped) return LS_OK;

    LS_TRY(machine_plan(&p.plan, &s.run));
    LS_TRY(ls_timeline_create(&p.timeline, p.plan->schedule, 1, 2));
    p.layer = ls_plan_layer(&p.plan->config, &p.plan->layout, p.plan->layout.recompute, 0);
    p.machine_bytes = machine_bytes();
    LS_TRY(group_ranks(&p));
    if (s.draw != NULL) LS_TRY(draw(&p, s.draw));
    LS_TRY(print_plan(s.json ? stderr : stdout, &p));
    if (s.json) LS_TRY(print_plan_json(&p));
exit:
    free(p.group_of);
    free(p.groups);
    ls_timeline_destroy(&p.timeline);
    ls_plan_destroy(&p.plan);
    settings_free(&s);
    return status;
}
