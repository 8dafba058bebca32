/* layout_words.h - the parts of a layout that the command line says in words. */
#ifndef LS_JOB_LAYOUT_WORDS_H
#define LS_JOB_LAYOUT_WORDS_H

#include "lockstep/model/config.h"
#include "lockstep/partition/layout.h"

/* NULL: not given. */
typedef struct ls_layout_words {
    const char *partition; /* "3,2,2": layers of each stage                            */
    const char *spatial;   /* "2x1": rows x columns of ranks                           */
    const char *strategy;  /* "conv2=4x1x1x2,dense6=1x1x1x8": a grid for each layer    */
} ls_layout_words;

/* Puts them into the layout; what cannot be read is LS_ERR_INPUT, what the model does not allow is
 * for ls_layout_check, but for layers that it does not have. */
ls_status ls_layout_words_read(const ls_layout_words *words, const ls_config *config,
                               ls_layout *layout) LS_MUST_USE;

#endif
