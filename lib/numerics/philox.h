/* philox.h - Philox4x32-10: its constants, part of the contract, and its rounds. */
#ifndef LS_NUMERICS_PHILOX_H
#define LS_NUMERICS_PHILOX_H

#include "lockstep/numerics/random.h"

#define LS_PHILOX_ROUNDS 10
#define LS_PHILOX_MULTIPLIER_0 0xD2511F53u
#define LS_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define LS_PHILOX_KEY_STEP_0 0x9E3779B9u /* 2^32 times the golden ratio less 1 */
#define LS_PHILOX_KEY_STEP_1 0xBB67AE85u /* 2^32 times sqrt 3 less 1           */

typedef struct ls_philox_words {
    uint32_t w0, w1, w2, w3;
} ls_philox_words;

/* The words of element `index` of a stream. */
static inline ls_philox_words ls_philox(ls_stream stream, uint64_t index)
{
    uint32_t key0 = (uint32_t)stream.seed, key1 = (uint32_t)(stream.seed >> 32);
    ls_philox_words w = {(uint32_t)index, (uint32_t)(index >> 32),
                         stream.purpose << 16 | stream.layer, stream.step};
    for (int round = 0; round < LS_PHILOX_ROUNDS; round++) {
        /* Each product of 32 x 32 bits gives a high and a low word; the two products change places.
         */
        uint64_t a = (uint64_t)LS_PHILOX_MULTIPLIER_0 * w.w0;
        uint64_t b = (uint64_t)LS_PHILOX_MULTIPLIER_1 * w.w2;
        w.w0 = (uint32_t)(b >> 32) ^ w.w1 ^ key0;
        w.w1 = (uint32_t)b;
        w.w2 = (uint32_t)(a >> 32) ^ w.w3 ^ key1;
        w.w3 = (uint32_t)a;
        key0 += LS_PHILOX_KEY_STEP_0;
        key1 += LS_PHILOX_KEY_STEP_1;
    }
    return w;
}

#endif
