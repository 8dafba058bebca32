/* gallery.h - every mistake that the oracle claims to recognise, made on purpose, and what the
 * oracle says to it.
 *
 * A scene is a small model in a layout. Its right run is dumped as a golden directory. With a fault
 * switched on (parallel/fault.h) the same run is dumped as its ranks saw it, and judged like any
 * other candidate. Beside the judgement stands what a comparison with a tolerance would have said
 * of the same numbers. Compiled with LS_FAULTS alone: a program of its own. */
#ifndef LS_ORACLE_GALLERY_H
#define LS_ORACLE_GALLERY_H

#include "oracle/check.h"
#include "parallel/fault.h"

/* ---- what is run ---- */

typedef struct ls_gallery_scene {
    const char *name;  /* as people read it: "gpt2, tp 2" */
    const char *model; /* built-in, made small by ls_gallery_run */
    int tp, dp, pp;
    bool sp;
    int micro_batches;
    ls_schedule_kind schedule;
    ls_recompute recompute;
    double dropout;
} ls_gallery_scene;

/* Scenes by number, as bits of ls_gallery_fault.scenes. */
enum {
    LS_SCENE_GPT_TP2 = 0,
    LS_SCENE_GPT_TP4_SP,
    LS_SCENE_GPT_PP2_DP2,
    LS_SCENE_GPT_RECOMPUTED,
    LS_SCENE_LLAMA_TP2,
    LS_SCENE_LLAMA_TP4_SP,
    LS_SCENE_BERT_TP2,
    LS_SCENES
};

extern const ls_gallery_scene ls_gallery_scenes[LS_SCENES];

/* The run of a scene, on a text of the gallery's own. Errors: LS_ERR_INPUT. */
ls_status ls_gallery_run(const ls_gallery_scene *scene, uint64_t seed, ls_run *ret_run) LS_MUST_USE;

/* ---- what is done wrong ---- */

enum { LS_GALLERY_CAUSES = 3 };

typedef struct ls_gallery_fault {
    ls_fault fault;
    const char *text;                   /* what is done wrong */
    unsigned scenes;                    /* in which it shows */
    const char *found;                  /* where it must be found: patterns, | between them */
    ls_cause causes[LS_GALLERY_CAUSES]; /* as which: one of these; LS_CAUSE_NONE behind the last */
} ls_gallery_fault;

extern const ls_gallery_fault ls_gallery_faults[LS_FAULTS_COUNT - 1];

#endif
