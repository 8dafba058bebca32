/* gallery.h - every mistake that the oracle claims to recognise, made on purpose, and what the
 * oracle says to it.
 *
 * A scene is a small model in a layout. Its right run is dumped as a golden directory. With a fault
 * switched on (fault.h) the same run is dumped as its ranks saw it, and judged like any
 * other candidate. Next to the judgement is what a comparison with a tolerance would have said
 * of the same numbers. */
#ifndef LS_GALLERY_H
#define LS_GALLERY_H

#include "causes/findings.h"
#include "step_graph/tensor_name.h"
#include "fault.h"

/* ---- what is run ---- */

typedef struct ls_gallery_scene {
    const char *name;  /* as people read it: "gpt2, tp 2" */
    const char *model; /* built-in, made small by ls_gallery_run; NULL: the gallery's own
                          convolutional network */
    int tp, dp, pp;
    bool sp;
    int micro_batches;
    ls_schedule_kind schedule;
    ls_recompute recompute;
    double dropout;
    const char *grid; /* of a convolutional network, as ls_layout_parse reads it; else NULL: then
                         what is before it counts */
    size_t batch;     /* 0: 4 */
} ls_gallery_scene;

/* Scenes by number, as bits of ls_gallery_fault.scenes. */
enum {
    LS_SCENE_GPT_TP2 = 0,
    LS_SCENE_GPT_TP4_SP,
    LS_SCENE_GPT_PP2_DP2,
    LS_SCENE_GPT_RECOMPUTED,
    LS_SCENE_GPT_3D,
    LS_SCENE_LLAMA_TP2,
    LS_SCENE_LLAMA_TP4_SP,
    LS_SCENE_BERT_TP2,
    LS_SCENE_BERT_TP2_SP,
    LS_SCENE_NET_SPATIAL,
    LS_SCENE_NET_SAMPLES,
    LS_SCENE_NET_CHANNELS,
    LS_SCENES
};

extern const ls_gallery_scene ls_gallery_scenes[LS_SCENES];

/* The run of a scene, on a text or images of the gallery's own. Errors: LS_ERR_INPUT,
 * LS_ERR_MEMORY. */
ls_status ls_gallery_run(const ls_gallery_scene *scene, uint64_t seed, ls_run *ret_run) LS_MUST_USE;

/* ---- what is done wrong ---- */

enum { LS_GALLERY_CAUSES = 3 };

typedef struct ls_gallery_fault {
    ls_fault fault;
    const char *key;                    /* "bias-per-rank" */
    const char *text;                   /* what is done wrong */
    unsigned scenes;                    /* in which it shows */
    const char *found;                  /* where it must be found: patterns, | between them */
    ls_cause causes[LS_GALLERY_CAUSES]; /* as which: one of these; LS_CAUSE_NONE after the last */
} ls_gallery_fault;

extern const ls_gallery_fault ls_gallery_faults[LS_FAULTS_COUNT - 1];

/* ---- what came out ---- */

/* What numpy.allclose(candidate, golden, rtol=t, atol=t) says, of every element of some tensors. */
enum { LS_GALLERY_TOLERANCES = 3 };
extern const double ls_gallery_tolerances[LS_GALLERY_TOLERANCES]; /* 1e-2, 1e-3, 1e-5 */

typedef struct ls_gallery_row {
    const ls_gallery_fault *fault; /* NULL: a run without one */
    int scene;
    uint64_t seed;
    size_t different;    /* tensors that were judged so */
    bool found, located; /* any; the first of them where it must be */
    bool named;          /* as one of the expected causes */
    bool alarm;          /* a run without a fault in which something was different */
    char at[LS_TENSOR_NAME];
    ls_suspicion suspicion;
    bool losses_close[LS_GALLERY_TOLERANCES];    /* of all steps */
    bool gradients_close[LS_GALLERY_TOLERANCES]; /* of all parameters and steps */
} ls_gallery_row;

typedef struct ls_gallery_options {
    int seeds; /* as many, from first_seed on */
    uint64_t first_seed;
    const char *only;         /* names of faults, with * and ?, commas between them; NULL: all */
    const char *keep;         /* folder for the directories; NULL: they are removed */
    const volatile int *stop; /* *stop != 0 ends it; may be NULL */
    void *context;
    /* Each may be NULL. `total` runs: told before the first. */
    void (*begin)(void *context, size_t total);
    ls_status (*row)(void *context, const ls_gallery_row *row);
} ls_gallery_options;

/* Of all rows. A fault counts as found (named) when it was at its place (and named right) in every
 * scene with every seed. */
typedef struct ls_gallery_summary {
    size_t faults, layouts, runs;
    size_t found, named, alarms;
} ls_gallery_summary;

/* Runs the gallery. Errors: LS_ERR_INPUT (no fault fits `only`, naming the nearest; `keep`),
 * LS_ERR_IO, LS_ERR_INTERRUPTED, those of dump and check. */
ls_status ls_gallery(const ls_gallery_options *options,
                     ls_gallery_summary *ret_summary) LS_MUST_USE;

/* For gallery*.c: fills losses_close and gradients_close. */
void ls_gallery_compare(const ls_candidate *candidate, ls_gallery_row *row);

#endif
