/* random.h - random numbers as a function of place (contract rule 4).
 *
 * Philox4x32-10. Key: the seed. Counter: (element index low, element index high, purpose << 16 |
 * layer, step). The index runs over the logical tensor, so that a shard of a weight or of a dropout
 * mask is the slice of the whole one, drawn by the rank that owns it, in any order, any number of
 * times.
 */
#ifndef LS_NUMERICS_RANDOM_H
#define LS_NUMERICS_RANDOM_H

#include <stddef.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* What a stream is drawn for; part of the counter, so the values are part of the contract. */
typedef enum ls_purpose {
    LS_RANDOM_INIT = 0,          /* layer = place of the parameter in the table, step 0 */
    LS_RANDOM_DROPOUT_EMBEDDING, /* layer 0                                             */
    LS_RANDOM_DROPOUT_ATTENTION, /* probabilities, index over B H S S                   */
    LS_RANDOM_DROPOUT_ATTN_OUT,  /* output of the attention block, index over B S D     */
    LS_RANDOM_DROPOUT_MLP,       /* output of the MLP, index over B S D                 */
    LS_RANDOM_DATA,              /* order of the batches                                */
    LS_RANDOM_MASKING,           /* which tokens a masked-token model hides             */
    LS_RANDOM_TEST,
    LS_RANDOM_DROPOUT_NET /* a network's layer, index over B C H W of its output */
} ls_purpose;

typedef struct ls_stream {
    uint64_t seed;
    uint32_t purpose, layer, step;
} ls_stream;

/* The four 32-bit words of element `index`. */
LS_API void ls_random_words(ls_stream stream, uint64_t index, uint32_t ret_words[4]);

/* Uniform in [0, 1): (word 0 * 2^21 + (word 1 >> 11)) * 2^-53. */
LS_API double ls_random_uniform(ls_stream stream, uint64_t index);

/* Standard normal by Box-Muller in binary64: sqrt(-2 log u) cos(2 pi v), u = 1 - uniform of words
 * 0, 1 (never 0), v uniform of words 2, 3. */
LS_API double ls_random_normal(ls_stream stream, uint64_t index);

/* Whether dropout of probability p keeps element `index`: word 0 >= floor(p * 2^32). 0 <= p < 1; p
 * = 0 keeps all. */
LS_API int ls_random_keep(ls_stream stream, uint64_t index, double p);

/* The same for the n elements from `first` on: ret_keep[i] = ls_random_keep(stream, first + i, p),
 * 0 or 1, at the speed of the instruction set. */
LS_API void ls_random_keep_n(unsigned char *ret_keep, ls_stream stream, uint64_t first, size_t n,
                             double p);

LS_END_DECLS

#endif
