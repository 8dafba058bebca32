/* plan_command.c - what a run will hold and send, without running it. */
#include <stdio.h>

#include "job/machine.h"
#include "plan_facts.h"
#include "report/drawing_file.h"

static bool alike(const void *context, int a, int b)
{
    const ls_plan *plan = context;
    return ls_plan_alike(&plan->rank[a], &plan->rank[b]);
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

    LS_TRY(ls_machine_plan(&p.plan, &s.job.run));
    LS_TRY(ls_timeline_create(&p.timeline, p.plan->schedule, 1, 2));
    if (p.plan->config.kind != LS_MODEL_NET)
        p.layer = ls_plan_layer(&p.plan->config, &p.plan->layout, p.plan->layout.recompute, 0);
    p.machine_bytes = ls_machine_bytes();
    LS_TRY(ls_rank_groups_create(&p.groups, p.plan->ranks, alike, p.plan));
    if (s.draw != NULL) LS_TRY(draw(&p, s.draw));
    print_weights(s.json ? stderr : stdout, &s);
    LS_TRY(print_plan(s.json ? stderr : stdout, &p));
    if (s.json) LS_TRY(print_plan_json(&p));
exit:
    ls_rank_groups_free(&p.groups);
    ls_timeline_destroy(&p.timeline);
    ls_plan_destroy(&p.plan);
    settings_free(&s);
    return status;
}
