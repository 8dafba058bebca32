/* keep_loop.h - the type of the loop behind ls_random_keep_n. */
#ifndef LS_NUMERICS_KEEP_LOOP_H
#define LS_NUMERICS_KEEP_LOOP_H

#include "lockstep/numerics/random.h"
#include "numerics/isa_build.h"

/* threshold: floor(p * 2^32). */
typedef void ls_keep_loop(unsigned char *ret_keep, ls_stream stream, uint64_t first, size_t n,
                          uint64_t threshold);

#endif
