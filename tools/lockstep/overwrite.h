/* overwrite.h - a file that is there already is replaced only by one of its own kind. */
#ifndef LOCKSTEP_OVERWRITE_H
#define LOCKSTEP_OVERWRITE_H

#include "lockstep/parts.h"

typedef enum written_kind {
    WRITES_TENSORS = 0, /* safetensors */
    WRITES_TRACE,
    WRITES_DRAWING, /* SVG */
    WRITES_PAGE
} written_kind;

/* LS_ERR_INPUT: `path`, which is written for --option, is a file that holds something else. NULL,
 * no file, an empty one, or one that cannot be read: LS_OK; writing it gives the error. */
ls_status refuse_to_overwrite(const char *option, const char *path, written_kind kind) LS_MUST_USE;

#endif
