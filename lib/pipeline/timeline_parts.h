/* timeline_parts.h - what the timeline and its drawings share. */
#ifndef LS_PIPELINE_TIMELINE_PARTS_H
#define LS_PIPELINE_TIMELINE_PARTS_H

#include <stdint.h>

/* Euclid's algorithm; a and b not negative, not both 0. */
int64_t ls_greatest_common_divisor(int64_t a, int64_t b);

#endif
