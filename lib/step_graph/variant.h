/* variant.h - an operation done otherwise, as a known mistake does it: what a hypothesis about a
 * wrong tensor is made of.
 *
 * A variant holds for every operation that is evaluated with it, forward and in what it sends back.
 * Members that are zero leave their part as it is. Mistakes that are only other operands (targets
 * shifted, weights transposed, another step's dropout) need none: their operands are changed. */
#ifndef LS_STEP_GRAPH_VARIANT_H
#define LS_STEP_GRAPH_VARIANT_H

#include <stdbool.h>
#include <stddef.h>

/* Which keys a query sees, of those that the sequence has. */
typedef enum ls_mask_form {
    LS_MASK_AS_IS = 0,
    LS_MASK_SHIFTED,  /* causal, up to key i + mask_shift             */
    LS_MASK_ABSENT,   /* all                                          */
    LS_MASK_REVERSED, /* from key i on                                */
    LS_MASK_CAUSAL    /* up to key i, though the model sees both ways */
} ls_mask_form;

typedef enum ls_activation_form {
    LS_ACTIVATION_AS_IS = 0,
    LS_ACTIVATION_TANH,    /* GELU by tanh; of a gated MLP, in the place of silu */
    LS_ACTIVATION_ERF,     /* exact GELU, the same                               */
    LS_ACTIVATION_SIGMOID, /* x sigma(1.702 x)                                   */
    LS_ACTIVATION_SILU,    /* x sigma(x)                                         */
    LS_ACTIVATION_RELU
} ls_activation_form;

/* Where weight decay acts. */
typedef enum ls_decay_form {
    LS_DECAY_AS_IS = 0,
    LS_DECAY_IN_GRADIENT, /* g + weight_decay w, as L2 regularisation */
    LS_DECAY_DECOUPLED,   /* w - lr weight_decay w                    */
    LS_DECAY_WITHOUT_RATE /* w - weight_decay w                       */
} ls_decay_form;

/* Where Adam's epsilon is added. */
typedef enum ls_root_form {
    LS_ROOT_AS_IS = 0,       /* sqrt(v c2) + eps          */
    LS_ROOT_EPS_INSIDE,      /* sqrt(v c2 + eps)          */
    LS_ROOT_EPS_UNCORRECTED, /* (sqrt(v) + eps) sqrt(c2)  */
    LS_ROOT_EPS_DEEPEST      /* sqrt((v + eps) c2)        */
} ls_root_form;

/* What a rank of a spatial cut has of the pixels that it reads beyond its own. */
typedef enum ls_halo_form {
    LS_HALO_AS_IS = 0,
    LS_HALO_ABSENT,     /* zeros in their place                                             */
    LS_HALO_NO_CORNERS, /* zeros where they lie beyond its rows and beyond its columns        */
    LS_HALO_SHORT,      /* zeros in the row or column farthest from its own                   */
    LS_HALO_NEARER,     /* the pixel one row or column nearer to its own                      */
    LS_HALO_FARTHER,    /* ... one farther away                                               */
    LS_HALO_LOWER,      /* the pixel one row or column before                               */
    LS_HALO_HIGHER,     /* ... one after                                                   */
    LS_HALO_REPEATED    /* its own outermost pixel                                            */
} ls_halo_form;

/* Statistics of a batch norm whose images and pixels are cut into blocks. */
typedef enum ls_statistics_form {
    LS_STATISTICS_AS_IS = 0,
    LS_STATISTICS_LOCAL,      /* each block its own                                              */
    LS_STATISTICS_UNREDUCED,  /* each block its own sums, divided by the number of all            */
    LS_STATISTICS_AVERAGED,   /* means of the blocks' means and of their variances               */
    LS_STATISTICS_ABOUT_MEAN, /* mean of the means; mean of the mean squares about that           */
    LS_STATISTICS_MOMENTS     /* means of the blocks' means and mean squares; variance from these */
} ls_statistics_form;

/* What is rounded to bf16 on the way to the factors of a rotation. */
typedef enum ls_rope_rounding {
    LS_ROPE_AS_IS = 0,
    LS_ROPE_FREQUENCIES, /* the angle of one position     */
    LS_ROPE_ANGLES,      /* position times that           */
    LS_ROPE_TABLES       /* the cosine and sine of angles */
} ls_rope_rounding;

/* Of a gradient that goes through a formula: the term that is left out. */
typedef enum ls_lost_term {
    LS_TERM_NONE = 0,
    LS_TERM_NORM_MEAN,       /* - mean(g)                              */
    LS_TERM_NORM_ALONG,      /* - xhat mean(g xhat)                    */
    LS_TERM_NORM_BOTH,       /* both: mean and variance as constants   */
    LS_TERM_SOFTMAX_MEAN,    /* - sum of P dP                          */
    LS_TERM_ACTIVATION_SLOPE /* x times the slope of what x multiplies */
} ls_lost_term;

/* What a row of an embedding's gradient holds where several tokens took the row. */
typedef enum ls_row_written {
    LS_ROW_SUMMED = 0,
    LS_ROW_FIRST, /* the first token's part */
    LS_ROW_LAST   /* the last one's         */
} ls_row_written;

/* A grid of ranks over a layer: samples, rows, columns; 0 is 1. */
typedef struct ls_variant_grid {
    size_t samples, down, across;
} ls_variant_grid;

typedef struct ls_variant {
    /* The operands are zero in most places: products with 0 are left out. Changes no value. */
    bool sparse;

    /* attention */
    double score_scale; /* in place of 1 / sqrt(dh) */
    ls_mask_form mask;
    int mask_shift;
    bool mask_padding;    /* padded tokens are seen */
    bool mask_even;       /* a fully masked row becomes uniform over all keys, not zeros */
    bool kv_modulo;       /* query head h reads key/value head h mod kv_heads */
    size_t window;        /* of the keys seen those fewer than so many tokens away */
    size_t chunk;         /* ... those in the same block of so many tokens */
    const size_t *ranges; /* in place of all that: [B][S][2], the first key seen and the end */
    bool alibi;           /* scores - 2^(-8 (h + 1) / H) (i - j) */

    /* norms */
    double norm_eps;      /* in place of the model's; negative: 0 */
    bool eps_outside;     /* 1 / (sqrt(variance) + eps) */
    bool unbiased;        /* divided by D - 1 */
    bool centred_flipped; /* RMSNorm subtracts the mean, LayerNorm does not */
    bool weight_plus_one; /* (1 + w) xhat */
    bool unweighted;      /* xhat, without w */

    ls_activation_form activation;
    double gelu_cubic; /* in place of 0.044715 */
    double gelu_root;  /* in place of sqrt(2 / pi) */

    ls_lost_term lost_term;
    ls_row_written row_written;

    /* positions of tokens */
    size_t position_restart; /* they begin again after so many */
    size_t position_shares;  /* ... in each of so many shares of a sequence, as even as can be */
    size_t position_offset;  /* ... and begin there */
    bool position_wraps;     /* ... the last ones have the first rows of the table */
    size_t pooled_token;     /* the pooler reads this token of a sequence, not the first */
    bool pooled_last;        /* ... the last that is no padding */
    bool unturned;           /* no rotary */
    bool turned_back;        /* the other way */
    bool adjacent_pairs;     /* features 2 i and 2 i + 1 are a pair */
    double rope_theta;
    const double *rope_frequencies; /* of each pair: the angle of position 1 */
    ls_rope_rounding rope_rounding;

    /* clipping and the optimizer */
    double clip_eps;    /* added to the norm that divides */
    bool decay_flipped; /* decays where it should not, and not where it should */
    ls_decay_form decay;
    ls_root_form root;
    bool uncorrected_mean, uncorrected_square; /* no bias correction */

    /* loss */
    size_t padded_words;   /* further logits of 0 in the softmax */
    double softmax_factor; /* the sum of exponentials so many times */
    size_t valid;          /* divides in place of the number of targets */
    const double *weights; /* per sequence: factor of its tokens' losses and of their gradients */
    const double *token_weights; /* the same per token */
    size_t maximum_shards; /* so many shards of the vocabulary each subtract a maximum of their own,
                              and their sums of exponentials are added as they are */

    /* dropout: which elements are kept */
    int mask_layer;        /* 1 + another layer's */
    bool mask_complement;  /* those that should be dropped */
    bool mask_unscaled;    /* what is kept is not divided by 1 - p */
    size_t mask_sequences; /* the numbering begins again after so many sequences */
    size_t mask_tokens;    /* ... after so many tokens of each sequence, per block of them */

    /* convolutional networks */
    ls_variant_grid grid; /* of the next ones */
    ls_halo_form halo;    /* of x where y is made */
    ls_halo_form dy_halo; /* of dy where dx is made */
    bool halo_rows_only, halo_columns_only, halo_before_only, halo_behind_only; /* where it is so */
    ls_statistics_form statistics;
    size_t statistics_block;    /* whose own, where a tensor has one for all */
    bool statistics_back_whole; /* the gradient's sums are over all blocks nonetheless */
    bool momentum_turned;       /* running = momentum running + (1 - momentum) x */
    bool biased_running;        /* running variance of squares / N */
    size_t running_times;       /* the running statistics are moved so many times */
    bool pad_counts;            /* average pooling divides otherwise than the model's */
    bool pool_summed;           /* ... and global pooling: not at all */
    bool last_of_ties;          /* a maximum is the last of those that are equal */
    bool flipped;               /* kernels turned by half a turn */
    bool padded_behind;         /* windows are padded as little before as they now are behind */
    bool assigned;              /* dx of a maximum is that of the last window, not their sum */
    bool alpha_over_span;       /* response norm: alpha / span in place of alpha */
    bool statistics_back_means; /* of dx only: means of dy are means of the blocks' own */
} ls_variant;

#endif
