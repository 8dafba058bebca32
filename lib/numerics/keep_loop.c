/* keep_loop.c - word 0 of Philox4x32-10 for many elements of a stream, compiled for each
 * instruction set.
 *
 * These are the rounds of ls_philox, several elements side by side where that is quicker. Integers:
 * the result is the same in any case. */
#include "numerics/keep_loop.h"

#include "numerics/philox.h"

#ifdef __AVX2__
#include <immintrin.h>

/* Each word stands in the lower half of 64 bits, four elements to a vector: that is where the
 * multiplication 32 x 32 -> 64 reads it. The upper half holds anything and is not looked at. */
enum { VECTORS = 2, BLOCK = 4 * VECTORS };

typedef union word_block {
    __m256i vector[VECTORS];
    uint64_t element[BLOCK];
} word_block;

static inline __m256i all(uint32_t word)
{
    return _mm256_set1_epi64x(word);
}

/* (upper half of product) ^ word ^ key */
static inline __m256i mix(__m256i product, __m256i word, uint32_t key)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product, 32), all(key)), word);
}

/* Word 0 of the elements from `first` on. */
static inline word_block first_words(ls_stream stream, uint64_t first)
{
    word_block w0, w1, w2, w3;
    uint32_t key0 = (uint32_t)stream.seed, key1 = (uint32_t)(stream.seed >> 32);
    for (uint64_t i = 0; i < BLOCK; i++) w0.element[i] = first + i;
    for (int v = 0; v < VECTORS; v++) {
        w1.vector[v] = _mm256_srli_epi64(w0.vector[v], 32);
        w2.vector[v] = all(stream.purpose << 16 | stream.layer);
        w3.vector[v] = all(stream.step);
    }
    for (int round = 0; round < LS_PHILOX_ROUNDS; round++) {
        for (int v = 0; v < VECTORS; v++) {
            __m256i a = _mm256_mul_epu32(w0.vector[v], all(LS_PHILOX_MULTIPLIER_0));
            __m256i b = _mm256_mul_epu32(w2.vector[v], all(LS_PHILOX_MULTIPLIER_1));
            w0.vector[v] = mix(b, w1.vector[v], key0);
            w1.vector[v] = b;
            w2.vector[v] = mix(a, w3.vector[v], key1);
            w3.vector[v] = a;
        }
        key0 += LS_PHILOX_KEY_STEP_0;
        key1 += LS_PHILOX_KEY_STEP_1;
    }
    return w0;
}

#else /* one by one: narrower vectors lose more by arranging their halves than they gain */

enum { BLOCK = 1 };

typedef struct word_block {
    uint64_t element[BLOCK];
} word_block;

static inline word_block first_words(ls_stream stream, uint64_t first)
{
    word_block w0 = {{ls_philox(stream, first).w0}};
    return w0;
}

#endif

ls_keep_loop LS_ISA_NAME(ls_random_keep_n);
void LS_ISA_NAME(ls_random_keep_n)(unsigned char *ret_keep, ls_stream stream, uint64_t first,
                                   size_t n, uint64_t threshold)
{
    for (size_t done = 0; done < n; done += BLOCK) {
        const word_block words = first_words(stream, first + done);
        for (size_t i = 0; i < BLOCK && done + i < n; i++)
            ret_keep[done + i] = (uint32_t)words.element[i] >= threshold;
    }
}
