#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "overwrite.h"
#include "base/allocate.h"
#include "report/replay_drawing.h"
#include "report/text_table.h"
#include "train/trace_file.h"
#include "base/append.h"

enum { OPTIONS = 5, LINE_COLUMNS = 100 };

typedef struct replay_settings {
    const char *trace, *link_text, *draw;
    ls_link link;
    int step;
    bool json, help;
} replay_settings;

static void make_options(replay_settings *s, ls_option *options)
{
    *s = (replay_settings){.step = -1, .link_text = "0us,inf"};
    options[0] = ls_option_string("link", &s->link_text, "LATENCY,BANDWIDTH",
                                  "what a message costs, such as 5us,10GB/s");
    options[1] = ls_option_string("draw", &s->draw, "text|FILE.svg",
                                  "one step as lines of text, or as a picture");
    options[2] =
        ls_option_int("step", &s->step, -1, 1 << 30, "N", "the step to draw; -1: the last one");
    options[3] = ls_option_flag("json", &s->json,
                                "one JSON object on standard output, words on standard error");
    options[4] = ls_option_flag("help", &s->help, "this text");
}

static bool draws_text(const replay_settings *s)
{
    return s->draw != NULL && strcmp(s->draw, "text") == 0;
}

static ls_status read_settings(replay_settings *s, const command_spec *command, int argc,
                               const char *const *argv)
{
    ls_status status = LS_OK;
    ls_option options[OPTIONS];
    const char *const names[] = {"TRACE (a file that lockstep train --trace wrote)"};
    const char *words[1] = {NULL};
    ls_words rest = {names, 1, words, command->usage};
    make_options(s, options);
    if (asks_for_help(argc, argv)) {
        print_command_help(command, NULL, options, OPTIONS);
        s->help = true;
        return LS_OK;
    }
    LS_TRY(ls_options_parse(options, OPTIONS, argc, argv, &rest));
    s->trace = words[0];
    LS_TRY(ls_link_parse("--link", s->link_text, &s->link));
    size_t length = s->draw != NULL ? strlen(s->draw) : 0;
    if (s->draw != NULL && !draws_text(s) &&
        (length < 5 || strcmp(s->draw + length - 4, ".svg") != 0))
        LS_FAIL(LS_ERR_INPUT, "--draw %s: must be text or a file name that ends in .svg",
                ls_show(s->draw));
    if (!draws_text(s)) LS_TRY(refuse_to_overwrite("draw", s->draw, WRITES_DRAWING));
exit:
    return status;
}

/* ---- what came out */

typedef struct outcome {
    const ls_trace_file *file;
    const ls_replay *replay;
    const replay_settings *settings;
    double serial_ns;  /* of all steps; 0: not known */
    double speed_up;   /* over it; 0: not known */
    double idle_share; /* of all ranks' time */
    ls_ratio formula;  /* the pipeline's bubble */
} outcome;

static outcome judge(const replay_settings *s, const ls_trace_file *file, const ls_replay *replay)
{
    const ls_trace_facts *facts = &file->facts;
    outcome o = {.file = file, .replay = replay, .settings = s};
    ls_ratio idle = ls_replay_bubble(replay);
    o.idle_share = (double)idle.over / (double)idle.under;
    o.serial_ns = (double)facts->serial_step_ns * (double)facts->steps;
    if (replay->steps_only && replay->makespan_ns > 0)
        o.speed_up = o.serial_ns / (double)replay->makespan_ns;
    o.formula = ls_bubble_formula(facts->pp, facts->micro_batches, facts->virtual_stages);
    return o;
}

static const char *time_text(double ns, char buffer[LS_NUMBER_TEXT])
{
    if (ns < 1e6)
        snprintf(buffer, LS_NUMBER_TEXT, "%.1f us", ns * 1e-3);
    else if (ns < 1e9)
        snprintf(buffer, LS_NUMBER_TEXT, "%.2f ms", ns * 1e-6);
    else
        snprintf(buffer, LS_NUMBER_TEXT, "%.3f s", ns * 1e-9);
    return buffer;
}

static void print_summary(FILE *out, const outcome *o)
{
    const ls_trace_facts *facts = &o->file->facts;
    const int ranks = o->replay->ranks;
    char one[LS_NUMBER_TEXT], two[LS_NUMBER_TEXT];
    double makespan = (double)o->replay->makespan_ns, steps = (double)facts->steps;
    fprintf(out, "trace     %s: %s, %s; %s, %s\n", ls_show(o->settings->trace), facts->model,
            facts->layout, ls_count_text((uint64_t)ranks, "rank", one),
            ls_count_text(facts->steps, "step", two));
    fprintf(out, "link      %s\n", o->settings->link_text);
    fprintf(out, "makespan  %s", time_text(makespan, one));
    if (steps > 0) fprintf(out, ", %s a step", time_text(makespan / steps, two));
    if (facts->wall_ns > 0)
        fprintf(out, "; measured on this trace's machine: %s",
                time_text((double)facts->wall_ns, one));
    fputc('\n', out);
    if (o->speed_up > 0)
        fprintf(out, "speed-up  %.2f over the serial baseline's %s a step: %.1f %% of %d\n",
                o->speed_up, time_text((double)facts->serial_step_ns, one),
                100.0 * o->speed_up / ranks, ranks);
    fprintf(out, "idle      %.1f %% of all ranks' time", 100.0 * o->idle_share);
    if (facts->pp > 1)
        fprintf(out, "; a pipeline of even passes: %lld/%lld = %.1f %%", (long long)o->formula.over,
                (long long)o->formula.under,
                100.0 * (double)o->formula.over / (double)o->formula.under);
    fputs("\n\n", out);
}

/* Where a rank is, one number per axis that the run is cut along. */
enum { AXES = 4 };

typedef struct rank_place {
    int n;
    const char *axis[AXES];
    int at[AXES];
} rank_place;

static void add_axis(rank_place *place, const char *axis, int degree, int at)
{
    if (degree == 1) return;
    place->axis[place->n] = axis;
    place->at[place->n++] = at;
}

static rank_place place_of(const ls_trace_file *file, int rank)
{
    const ls_trace_facts *facts = &file->facts;
    rank_place place = {.n = 0};
    if (facts->net) {
        const ls_layer_grid grid = {facts->dp, facts->down, facts->across, facts->channels};
        const ls_grid_place at = ls_layer_grid_place(&grid, rank);
        add_axis(&place, "dp", grid.samples, at.sample);
        add_axis(&place, "row", grid.down, at.row);
        add_axis(&place, "col", grid.across, at.column);
        add_axis(&place, "ch", grid.channels, at.channel);
    } else {
        add_axis(&place, "pp", facts->pp, file->stage_of[rank]);
    }
    return place;
}

/* "rank 3 (row 1, col 0)". */
static void rank_name(const ls_trace_file *file, int rank, char name[LS_REPLAY_NAME])
{
    const rank_place place = place_of(file, rank);
    size_t used = ls_append(name, LS_REPLAY_NAME, 0, "rank %d", rank);
    for (int i = 0; i < place.n; i++)
        used = ls_append(name, LS_REPLAY_NAME, used, "%s%s %d%s", i == 0 ? " (" : ", ",
                         place.axis[i], place.at[i], i + 1 == place.n ? ")" : "");
}

static ls_status print_shares(FILE *out, const outcome *o)
{
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    static const char *const heads[] = {"compute", "communication", "idle", "idle share"};
    char text[LS_NUMBER_TEXT];
    const rank_place first = place_of(o->file, 0);
    LS_TRY(ls_text_table_create(&table, 5 + (size_t)first.n));
    LS_TRY(ls_text_table_add(table, "rank"));
    for (int i = 0; i < first.n; i++) LS_TRY(ls_text_table_add(table, "%s", first.axis[i]));
    for (int i = 0; i < 4; i++) LS_TRY(ls_text_table_add(table, "%s", heads[i]));
    for (int r = 0; r < o->replay->ranks; r++) {
        const ls_rank_share *share = &o->replay->shares[r];
        const rank_place place = place_of(o->file, r);
        double all = (double)o->replay->makespan_ns;
        LS_TRY(ls_text_table_add(table, "%d", r));
        for (int i = 0; i < place.n; i++) LS_TRY(ls_text_table_add(table, "%d", place.at[i]));
        LS_TRY(ls_text_table_add(table, "%s", time_text((double)share->compute_ns, text)));
        LS_TRY(ls_text_table_add(table, "%s", time_text((double)share->communication_ns, text)));
        LS_TRY(ls_text_table_add(table, "%s", time_text((double)share->idle_ns, text)));
        LS_TRY(ls_text_table_add(table, "%.1f %%",
                                 all > 0 ? 100.0 * (double)share->idle_ns / all : 0.0));
    }
    ls_text_table_print(table, out);
exit:
    ls_text_table_destroy(&table);
    return status;
}

static ls_status print_replay_json(const outcome *o)
{
    const ls_trace_facts *facts = &o->file->facts;
    json_t *ranks = json_array();
    for (int r = 0; r < o->replay->ranks; r++) {
        const ls_rank_share *share = &o->replay->shares[r];
        json_t *rank =
            json_pack("{s:i, s:I, s:I, s:I}", "rank", r, "compute_ns",
                      (json_int_t)share->compute_ns, "communication_ns",
                      (json_int_t)share->communication_ns, "idle_ns", (json_int_t)share->idle_ns);
        if (facts->net) {
            const ls_layer_grid grid = {facts->dp, facts->down, facts->across, facts->channels};
            const ls_grid_place at = ls_layer_grid_place(&grid, r);
            json_object_set_new(rank, "dp_rank", json_integer(at.sample));
            json_object_set_new(rank, "row", json_integer(at.row));
            json_object_set_new(rank, "column", json_integer(at.column));
            json_object_set_new(rank, "channel_rank", json_integer(at.channel));
        } else {
            json_object_set_new(rank, "pp_rank", json_integer(o->file->stage_of[r]));
        }
        json_array_append_new(ranks, rank);
    }
    json_t *link = json_pack(
        "{s:o, s:o}", "latency_ns", json_number(o->settings->link.latency_ns), "bytes_per_ns",
        o->settings->link.bytes_per_ns > 0 ? json_number(o->settings->link.bytes_per_ns)
                                           : json_string("inf"));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:I, s:I, s:I}", "command", "replay",
                  "trace", ls_show(o->settings->trace), "model", facts->model, "layout",
                  facts->layout, "schedule", facts->schedule, "steps", (json_int_t)facts->steps,
                  "link", link, "makespan_ns", (json_int_t)o->replay->makespan_ns, "measured_ns",
                  (json_int_t)facts->wall_ns, "serial_step_ns", (json_int_t)facts->serial_step_ns);
    json_t *more =
        json_pack("{s:o, s:o, s:o, s:o}", "speed_up",
                  o->speed_up > 0 ? json_number(o->speed_up) : json_null(), "idle_share",
                  json_number(o->idle_share), "bubble_formula",
                  json_number((double)o->formula.over / (double)o->formula.under), "ranks", ranks);
    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return print_json(object);
}

/* ---- drawing */

/* The step to draw and its time; the picture itself, so that what cannot be written is known before
 * anything is printed. */
static ls_status draw_file(const outcome *o, int *ret_step, char time[LS_NUMBER_TEXT])
{
    ls_status status = LS_OK;
    int last = ls_replay_last_step(&o->file->log), step = o->settings->step;
    int64_t begin = 0, end = 0;
    char title[400];
    const size_t ranks = (size_t)o->file->log.ranks;
    char(*names)[LS_REPLAY_NAME] = NULL;
    if (o->settings->draw == NULL) return LS_OK;
    if (step < 0) step = last;
    if (step > last || !ls_replay_window(&o->file->log, o->replay, step, &begin, &end))
        LS_FAIL(LS_ERR_INPUT, "--step %d: %s has no such step; its last one is %d", step,
                ls_show(o->settings->trace), last);
    time_text((double)(end - begin), time);
    *ret_step = step;
    if (draws_text(o->settings)) goto exit;
    snprintf(title, sizeof title, "%s, %s: step %d in %s", o->file->facts.model,
             o->file->facts.layout, step, time);
    LS_ROOM(names, ranks);
    for (size_t r = 0; r < ranks; r++) rank_name(o->file, (int)r, names[r]);
    LS_TRY(ls_replay_svg(o->settings->draw, &o->file->log, o->replay, step, o->file->stage_of,
                         (const char(*)[LS_REPLAY_NAME])names, title));
exit:
    free(names);
    return status;
}

static ls_status print_drawing(FILE *out, const outcome *o, int step, const char *time)
{
    ls_status status = LS_OK;
    if (o->settings->draw == NULL) goto exit;
    if (!draws_text(o->settings)) {
        fprintf(out, "\nstep %d, %s, drawn in %s\n", step, time, ls_show(o->settings->draw));
        goto exit;
    }
    fprintf(out,
            "\nstep %d, %s: digits forward, letters backward (%s,\n"
            "+ other work, = communication, . idle\n",
            step, time,
            o->file->facts.net ? "layers, after 9 and z again from 0 and a)" : "micro-batches)");
    LS_TRY(ls_replay_text(out, &o->file->log, o->replay, step, LINE_COLUMNS));
exit:
    return status;
}

ls_status replay_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    replay_settings s;
    ls_trace_file *file = NULL;
    ls_replay *replay = NULL;
    int step = -1;
    char time[LS_NUMBER_TEXT] = "";
    LS_TRY(read_settings(&s, command, argc, argv));
    if (s.help) goto exit;
    FILE *out = s.json ? stderr : stdout;
    LS_TRY(ls_trace_file_read(s.trace, &file));
    LS_TRY(ls_replay_create(&replay, &file->log, s.trace, &s.link));
    outcome o = judge(&s, file, replay);
    LS_TRY(draw_file(&o, &step, time));
    print_summary(out, &o);
    LS_TRY(print_shares(out, &o));
    LS_TRY(print_drawing(out, &o, step, time));
    if (s.json) LS_TRY(print_replay_json(&o));
exit:
    ls_replay_destroy(&replay);
    ls_trace_file_free(&file);
    return status;
}
