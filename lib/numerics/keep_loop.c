/* keep_loop.c - word 0 of Philox4x32-10 for consecutive elements, compiled for each instruction
 * set.
 *
 * The same rounds as ls_random_words, on a block of counters that differ in their first two words
 * only: every step is one loop over the block, which the compiler turns into vector code. Integers,
 * so there is nothing to round. */
#include "numerics/keep_loop.h"

#include "numerics/philox.h"

enum { BLOCK = 32 };

static void block_words(uint32_t word[BLOCK], ls_stream stream, uint64_t first)
{
    uint32_t w1[BLOCK], w2[BLOCK], w3[BLOCK];
    uint32_t key0 = (uint32_t)stream.seed, key1 = (uint32_t)(stream.seed >> 32);
    for (uint32_t i = 0; i < BLOCK; i++) {
        word[i] = (uint32_t)(first + i);
        w1[i] = (uint32_t)((first + i) >> 32);
        w2[i] = stream.purpose << 16 | stream.layer;
        w3[i] = stream.step;
    }
    for (int round = 0; round < LS_PHILOX_ROUNDS; round++) {
        for (int i = 0; i < BLOCK; i++) {
            uint64_t a = (uint64_t)LS_PHILOX_MULTIPLIER_0 * word[i];
            uint64_t b = (uint64_t)LS_PHILOX_MULTIPLIER_1 * w2[i];
            word[i] = (uint32_t)(b >> 32) ^ w1[i] ^ key0;
            w1[i] = (uint32_t)b;
            w2[i] = (uint32_t)(a >> 32) ^ w3[i] ^ key1;
            w3[i] = (uint32_t)a;
        }
        key0 += LS_PHILOX_KEY_STEP_0;
        key1 += LS_PHILOX_KEY_STEP_1;
    }
}

ls_keep_loop LS_ISA_NAME(ls_random_keep_n);

void LS_ISA_NAME(ls_random_keep_n)(unsigned char *ret_keep, ls_stream stream, uint64_t first,
                                   size_t n, uint64_t threshold)
{
    uint32_t word[BLOCK];
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        block_words(word, stream, first + done);
        for (size_t i = 0; i < count; i++) ret_keep[done + i] = word[i] >= threshold;
    }
}
