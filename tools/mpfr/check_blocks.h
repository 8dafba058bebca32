/* check_blocks.h - one function over blocks of binary32 arguments, in threads. */
#ifndef LS_TOOLS_MPFR_CHECK_BLOCKS_H
#define LS_TOOLS_MPFR_CHECK_BLOCKS_H

#include <stdint.h>

#include "mpfr_functions.h"

enum { LISTED = 16 };

/* What was seen. */
typedef struct block_report {
    uint64_t inputs;        /* arguments looked at                                          */
    uint64_t by_mpfr;       /* of these, decided by MPFR itself                             */
    double worst;           /* largest error in ULPs from the exact value                   */
    float worst_at;         /* where                                                        */
    uint64_t not_rounded;   /* results that are not the correctly rounded ones              */
    float listed[LISTED];   /* the arguments of the first of these                          */
    uint64_t falls;         /* results below that of the argument before (rising functions) */
    uint64_t array_differs; /* results of the array function with other bits                */
    uint64_t bad_series;    /* blocks whose series disagrees with MPFR: the check is wrong  */
} block_report;

/* Every `stride`-th block of 4096 arguments (1: all 2^32 arguments). Progress goes to stderr. */
void check_blocks(const tested_function *f, uint64_t stride, int threads, block_report *ret_report);

#endif
