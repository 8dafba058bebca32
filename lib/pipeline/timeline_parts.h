/* timeline_parts.h - arithmetic that timelines, their drawings and replays share. */
#ifndef LS_PIPELINE_TIMELINE_PARTS_H
#define LS_PIPELINE_TIMELINE_PARTS_H

#include "lockstep/pipeline/timeline.h"

/* Euclid's algorithm; a and b not negative, not both 0. */
int64_t ls_greatest_common_divisor(int64_t a, int64_t b);

/* over / under in lowest terms; under above 0. */
ls_ratio ls_ratio_of(int64_t over, int64_t under);

#endif
