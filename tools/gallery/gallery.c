/* gallery.c - runs every scene right, then with each fault, and has each judged. */
#include "gallery.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/options.h"
#include "lockstep/base/show.h"
#include "golden/dump.h"

enum { PATH_ROOM = 1024 };

typedef struct gallery {
    const ls_gallery_options *options;
    char folder[PATH_ROOM];       /* of everything written */
    bool chosen[LS_FAULTS_COUNT]; /* by fault */
    bool missed[LS_FAULTS_COUNT]; /* somewhere not at its place */
    bool misnamed[LS_FAULTS_COUNT];
    ls_gallery_summary summary;
} gallery;

/* ---- files ---- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    if (*path != '\0') nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static ls_status make_folder(gallery *g)
{
    ls_status status = LS_OK;
    const char *keep = g->options->keep, *temporary = getenv("TMPDIR");
    if (keep) {
        if ((size_t)snprintf(g->folder, PATH_ROOM, "%s", keep) >= PATH_ROOM)
            LS_FAIL(LS_ERR_INPUT, "--keep: a path of %zu characters, at most %d", strlen(keep),
                    PATH_ROOM - 1);
        if (mkdir(keep, 0777) != 0 && (errno != EEXIST || rmdir(keep) != 0 || mkdir(keep, 0777)))
            LS_FAIL(LS_ERR_INPUT, "--keep %s: cannot be made, or has something in it: %s",
                    ls_show(keep), ls_show_errno(errno));
        goto exit;
    }
    snprintf(g->folder, PATH_ROOM, "%.900s/lockstep-gallery-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(g->folder)) {
        const int why = errno;
        g->folder[0] = '\0';
        LS_FAIL(LS_ERR_IO, "no temporary folder in %s: %s",
                ls_show(temporary && *temporary ? temporary : "/tmp"), ls_show_errno(why));
    }
exit:
    return status;
}

/* "gpt2, tp 4 x sp" as a part of a path: "gpt2-tp-4-x-sp-seed-7". */
static void scene_path(const gallery *g, int scene, uint64_t seed, char path[PATH_ROOM])
{
    size_t at = (size_t)snprintf(path, PATH_ROOM, "%.900s/", g->folder);
    for (const char *c = ls_gallery_scenes[scene].name; *c; c++)
        if (*c != ',') path[at++] = *c == ' ' ? '-' : *c;
    snprintf(path + at, PATH_ROOM - at, "-seed-%llu", (unsigned long long)seed);
}

/* ---- which faults ---- */

static bool fits_any(const char *patterns, char separator, const char *name)
{
    while (*patterns) {
        char pattern[LS_TENSOR_NAME];
        const char *end = strchr(patterns, separator);
        const size_t length = end ? (size_t)(end - patterns) : strlen(patterns);
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, patterns);
        if (ls_name_fits(pattern, name)) return true;
        patterns += length + (end ? 1 : 0);
    }
    return false;
}

static ls_status choose(gallery *g)
{
    ls_status status = LS_OK;
    const char *only = g->options->only, *names[LS_FAULTS_COUNT];
    for (int f = 1; f < LS_FAULTS_COUNT; f++) {
        names[f - 1] = ls_gallery_faults[f - 1].key;
        g->chosen[f] = !only || fits_any(only, ',', names[f - 1]);
        g->summary.faults += g->chosen[f];
    }
    if (g->summary.faults == 0) {
        const char *nearest = ls_nearest(only, names, LS_FAULTS_COUNT - 1);
        LS_FAIL(LS_ERR_INPUT, "--only %s: no fault has this name%s%s; --list says which there are",
                ls_show(only), nearest ? "; nearest is " : "", nearest ? nearest : "");
    }
exit:
    return status;
}

static bool scene_is_used(const gallery *g, int scene)
{
    for (int i = 0; i < LS_FAULTS_COUNT - 1; i++)
        if (g->chosen[ls_gallery_faults[i].fault] && ls_gallery_faults[i].scenes >> scene & 1)
            return true;
    return false;
}

static size_t count_runs(gallery *g)
{
    size_t runs = 0;
    for (int s = 0; s < LS_SCENES; s++) {
        if (!scene_is_used(g, s)) continue;
        g->summary.layouts++;
        runs++;
        for (int i = 0; i < LS_FAULTS_COUNT - 1; i++)
            runs += g->chosen[ls_gallery_faults[i].fault] && ls_gallery_faults[i].scenes >> s & 1;
    }
    return runs * (size_t)g->options->seeds;
}

/* ---- one run ---- */

static bool is_expected(const ls_gallery_fault *fault, ls_cause cause)
{
    for (int i = 0; i < LS_GALLERY_CAUSES && fault->causes[i] != LS_CAUSE_NONE; i++)
        if (fault->causes[i] == cause) return true;
    return false;
}

static void take_down(gallery *g, ls_gallery_row *row, const ls_findings *findings)
{
    const ls_judgement *judgement = findings->of;
    row->different = judgement->different;
    row->found = judgement->first != NULL;
    row->alarm = !row->fault && row->found;
    if (row->found) {
        const ls_judged *at = findings->blame ? findings->blame : judgement->first;
        snprintf(row->at, sizeof row->at, "%s", at->golden->name);
        row->suspicion = findings->suspicion;
    }
    g->summary.runs++;
    g->summary.alarms += row->alarm;
    if (!row->fault) return;
    row->located =
        row->found && fits_any(row->fault->found, '|', ls_tensor_name_parse(row->at).rest);
    row->named = row->located && is_expected(row->fault, row->suspicion.cause);
    g->missed[row->fault->fault] |= !row->located;
    g->misnamed[row->fault->fault] |= !row->named;
}

/* The golden run again, with a fault or without, and judged. */
static ls_status run_one(gallery *g, const ls_golden *golden, const char *path, ls_gallery_row *row)
{
    ls_status status = LS_OK;
    const ls_dump_options how = {.start = LS_START_TRAINING, .per_rank = true};
    const ls_check_options check = {.stop = g->options->stop};
    ls_candidate *candidate = NULL;
    ls_judgement *judgement = NULL;
    ls_findings *findings = NULL;
    ls_dump_summary summary;
    ls_run run = golden->run;

    run.no_digest = true; /* replicas may differ */
    run.world.stop = g->options->stop;
    ls_fault_chosen = row->fault ? row->fault->fault : LS_FAULT_NONE;
    LS_TRY(ls_dump(&run, path, &how, &summary));
    ls_fault_chosen = LS_FAULT_NONE;
    LS_TRY(ls_candidate_open(&candidate, golden, path, NULL));
    LS_TRY(ls_check(&judgement, golden, candidate, &check));
    LS_TRY(ls_findings_create(&findings, judgement));
    ls_gallery_compare(candidate, row);
    take_down(g, row, findings);
    if (g->options->row) LS_TRY(g->options->row(g->options->context, row));
exit:
    ls_fault_chosen = LS_FAULT_NONE;
    ls_findings_destroy(&findings);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    if (!g->options->keep) remove_tree(path);
    return status;
}

static ls_status run_scene(gallery *g, int scene, uint64_t seed)
{
    ls_status status = LS_OK;
    const ls_dump_options how = {.start = LS_START_TELLING, .whole = true, .truth = true};
    ls_golden *golden = NULL;
    ls_dump_summary summary;
    ls_run run;
    char below[PATH_ROOM], path[PATH_ROOM + 64];

    scene_path(g, scene, seed, below);
    if (mkdir(below, 0777) != 0)
        LS_FAIL(LS_ERR_IO, "%s: cannot be made: %s", ls_show(below), ls_show_errno(errno));
    snprintf(path, sizeof path, "%s/golden", below);
    LS_TRY(ls_gallery_run(&ls_gallery_scenes[scene], seed, &run));
    run.world.stop = g->options->stop;
    LS_TRY(ls_dump(&run, path, &how, &summary));
    LS_TRY(ls_golden_open(&golden, path));
    for (int i = -1; i < LS_FAULTS_COUNT - 1; i++) {
        ls_gallery_row row = {.scene = scene, .seed = seed};
        if (i >= 0) row.fault = &ls_gallery_faults[i];
        if (row.fault && !(g->chosen[row.fault->fault] && row.fault->scenes >> scene & 1)) continue;
        snprintf(path, sizeof path, "%s/%s", below, row.fault ? row.fault->key : "right");
        LS_TRY(run_one(g, golden, path, &row));
    }
exit:
    ls_golden_close(&golden);
    if (!g->options->keep) remove_tree(below);
    return status;
}

ls_status ls_gallery(const ls_gallery_options *options, ls_gallery_summary *ret_summary)
{
    ls_status status = LS_OK;
    gallery g = {.options = options};

    LS_TRY(choose(&g));
    LS_TRY(make_folder(&g));
    const size_t total = count_runs(&g);
    if (options->begin) options->begin(options->context, total);
    for (int seed = 0; seed < options->seeds; seed++)
        for (int s = 0; s < LS_SCENES; s++)
            if (scene_is_used(&g, s))
                LS_TRY(run_scene(&g, s, options->first_seed + (uint64_t)seed));
    for (int f = 1; f < LS_FAULTS_COUNT; f++) {
        g.summary.found += g.chosen[f] && !g.missed[f];
        g.summary.named += g.chosen[f] && !g.misnamed[f];
    }
    *ret_summary = g.summary;
exit:
    if (!options->keep) remove_tree(g.folder);
    return status;
}
