/* masked_text.h - batches for a masked-token model with sentence order, from a text.
 *
 * As in BERT a sequence is [CLS] A [SEP] B [SEP], padded with [PAD] to S tokens. A and B are
 * neighbouring runs of bytes of the text, swapped half of the time (as in ALBERT); 15 % of their
 * bytes are hidden. Like every batch it is a function of (seed, step, number of the sequence in the
 * global batch). */
#ifndef LS_MODEL_MASKED_TEXT_H
#define LS_MODEL_MASKED_TEXT_H

#include "lockstep/model/text.h"

LS_BEGIN_DECLS

/* Tokens that are no bytes. */
enum {
    LS_TOKEN_CLS = 256,
    LS_TOKEN_SEP,
    LS_TOKEN_MASK,
    LS_TOKEN_PAD,
    LS_MASKED_VOCAB /* 260: the smallest vocabulary of such a model */
};

/* Whether the text can feed a masked-token model: S at least 5 ([CLS] a [SEP] b [SEP]), vocab at
 * least LS_MASKED_VOCAB, S - 3 bytes of text. LS_ERR_INPUT names the option or the file, what was
 * found and what is needed. */
LS_API ls_status ls_masked_text_check(const ls_text *text, const char *path, size_t S,
                                      size_t vocab) LS_MUST_USE;

/* Where the sequences go: all arrays are written, for as many sequences as are asked for. */
typedef struct ls_masked_arrays {
    int32_t *tokens;   /* sequences x S                                                        */
    int32_t *targets;  /* sequences x S: the byte that was hidden there, else LS_IGNORE         */
    int32_t *segments; /* sequences x S: 0 up to the first [SEP], 1 up to the second, 0 behind  */
    int32_t *lengths;  /* sequences: tokens that are not [PAD]                                  */
    int32_t *order;    /* sequences: 0 in the text's order, 1 swapped                           */
} ls_masked_arrays;

/* Writes sequences first .. first + sequences of the global batch of step `step`.
 *
 * Spans of sequence b: u0 .. u3 are the uniform numbers of elements 4 b .. 4 b + 3 of the stream
 * DATA (layer 0). Bytes n = S - 3 if u0 < 1/2, else 2 + floor((2 u0 - 1) (S - 4)); the first span
 * has 1 + floor(u1 (n - 1)) of them; they begin at byte floor(u2 (count - n + 1)); swapped if u3 >=
 * 1/2: the second span comes first.
 *
 * Hiding: w0 .. w2 are the first words of element b S + s of the stream MASKING (layer 0). The byte
 * at place s is hidden if w0 < floor(0.15 2^32); if none is, the one with the smallest w0 (the
 * first of equals). Instead of a hidden byte there is [MASK] if w1 < floor(0.8 2^32), else a random
 * byte floor(w2 / 2^24) if w1 < floor(0.9 2^32), else the byte itself. So each sequence has at
 * least one target, and sequences have unequal numbers of them. */
LS_API void ls_masked_text_batch(const ls_text *text, uint64_t seed, uint32_t step, size_t first,
                                 size_t sequences, size_t S, const ls_masked_arrays *ret_arrays);

LS_END_DECLS

#endif
