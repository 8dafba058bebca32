/* param_table.h - the one list of a model's parameters.
 *
 * Initialisation, sharding, checkpoints, gradient synchronisation, norm clipping, optimizer, dumps
 * and comparison all read this table; there is no second list. */
#ifndef LS_MODEL_PARAM_TABLE_H
#define LS_MODEL_PARAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"
#include "lockstep/model/config.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

typedef enum ls_role {
    LS_TOKEN_EMBEDDING = 0, /* V x D, cut by rows                        */
    LS_POSITION_EMBEDDING,  /* S x D                                     */
    LS_NORM1_SCALE,         /* D                                         */
    LS_NORM1_SHIFT,
    LS_QUERY_WEIGHT, /* D x D, cut by columns, a granule per head */
    LS_QUERY_BIAS,   /* D, cut alike                              */
    LS_KEY_WEIGHT,   /* D x kv_heads * head_width, by kv head     */
    LS_KEY_BIAS,
    LS_VALUE_WEIGHT,
    LS_VALUE_BIAS,
    LS_ATTN_OUT_WEIGHT, /* D x D, cut by rows, a granule per head    */
    LS_ATTN_OUT_BIAS,   /* D, whole on every rank                    */
    LS_NORM2_SCALE,
    LS_NORM2_SHIFT,
    LS_MLP_GATE_WEIGHT, /* SwiGLU only: D x F, cut by columns        */
    LS_MLP_UP_WEIGHT,   /* D x F, cut by columns (row-first: by rows) */
    LS_MLP_UP_BIAS,     /* F, cut alike (row-first: whole)           */
    LS_MLP_DOWN_WEIGHT, /* F x D, cut by rows                        */
    LS_MLP_DOWN_BIAS,   /* D, whole                                  */
    LS_FINAL_NORM_SCALE,
    LS_FINAL_NORM_SHIFT,
    LS_HEAD_WEIGHT, /* V x D, cut by rows; absent when tied      */
    /* What BERT has besides these; all whole but the vocabulary's bias. */
    LS_TYPE_EMBEDDING,       /* token types x D            */
    LS_EMBEDDING_NORM_SCALE, /* D                          */
    LS_EMBEDDING_NORM_SHIFT,
    LS_MASKED_DENSE_WEIGHT, /* D x D: masked-token head   */
    LS_MASKED_DENSE_BIAS,
    LS_MASKED_NORM_SCALE, /* D                          */
    LS_MASKED_NORM_SHIFT,
    LS_VOCAB_BIAS,    /* V, cut as the vocabulary   */
    LS_POOLER_WEIGHT, /* D x D: sentence-order head */
    LS_POOLER_BIAS,
    LS_ORDER_WEIGHT, /* D x 2                      */
    LS_ORDER_BIAS,
    /* Of a convolutional network; `layer` is the number of the layer in the net. Cut by the
     * channels made, a run of the granules of ls_net_shape.axis. */
    LS_CONV_WEIGHT, /* made x (read / groups * kernel_h * kernel_w), cut by rows */
    LS_CONV_BIAS,   /* made                                                      */
    LS_BATCH_NORM_SCALE,
    LS_BATCH_NORM_SHIFT,
    LS_BATCH_NORM_MEAN, /* running statistics: state */
    LS_BATCH_NORM_VARIANCE,
    LS_DENSE_WEIGHT, /* read (channel, row, column) x made, cut by columns */
    LS_DENSE_BIAS,
    LS_ROLES
} ls_role;

/* Which granules an axis is made of, and so which run of them a rank owns. */
typedef enum ls_granule_kind {
    LS_GRANULE_NONE = 0, /* never cut */
    LS_GRANULE_HEADS,
    LS_GRANULE_KV_HEADS, /* owned by every rank whose query heads use them */
    LS_GRANULE_FF,
    LS_GRANULE_VOCAB,
    LS_GRANULE_MODEL,    /* D by heads: the row-first MLP only */
    LS_GRANULE_CHANNELS, /* channels of a convolutional network: each parameter its own axis */
    LS_GRANULE_KINDS
} ls_granule_kind;

/* The axis that granules of a kind make, whole. LS_GRANULE_NONE and LS_GRANULE_CHANNELS: one
 * granule of 0, for only the parameter knows its axis. */
LS_API ls_axis ls_granule_axis(const ls_config *config, ls_granule_kind kind);

typedef enum ls_stage_rule { LS_STAGE_FIRST = 0, LS_STAGE_LAYER, LS_STAGE_LAST } ls_stage_rule;

typedef enum ls_init_kind { LS_INIT_ZERO = 0, LS_INIT_ONE, LS_INIT_NORMAL } ls_init_kind;

enum { LS_MAX_USES = 2 };

typedef struct ls_param {
    char name[96]; /* "layers.0.attention.query.weight" */
    ls_role role;
    size_t layer; /* 0 where the role belongs to no layer */
    ls_stage_rule stage;
    bool also_last; /* tied: the last stage holds it too (as the head) */
    int uses; /* 0 of a state; 2 when tied: use 0 is the input, use 1 the head; each has a gradient
                 of its own until the end (rule 13) */
    int n_dims;     /* 1 or 2 */
    size_t dims[2]; /* logical shape; dims[1] is 1 for a vector */
    int cut;        /* the axis that is cut: 0, 1, or -1 for none */
    ls_granule_kind kind;
    ls_axis axis; /* along the cut axis, padded; where cut is -1, one granule of dims[0] */
    ls_init_kind init;
    double std;
    bool decay; /* weight decay applies (matrices, not vectors) */
    /* Not trained: written by the forward pass. It has uses 0, so no gradient and no share in its
     * norm, and no optimizer state; but it is in checkpoints and digests as all others are. */
    bool state;
    int n_shape; /* the shape in the field's words: [made, read / groups, kernel_h, kernel_w] of */
    size_t shape[4]; /* a convolution's weight; else dims */
} ls_param;

typedef struct ls_param_table {
    ls_config config;
    size_t count;
    ls_param *params; /* in the order of a forward pass */
} ls_param_table;

/* The table of a configuration. In the order of a forward pass: token embedding, position
 * embedding, token-type embedding, embedding norm; of each layer norm1, query, key, value,
 * attention output, norm2, gate, up, down, or norm1 and norm2 after attention and MLP; then the
 * final norm, the masked-token head (dense, norm), the head, its bias, pooler, order head; a weight
 * before its bias. A weight of a linear is stored [in, out]: y = x W. Of a network: of each layer
 * in its order weight and bias, or scale, shift, running mean and running variance; weights begin
 * with standard deviation sqrt(2 / terms of a sum) (He et al. 2015, eq. 10). Errors: those of
 * ls_config_check, LS_ERR_MEMORY. */
LS_API ls_status ls_param_table_create(ls_param_table **ret_table,
                                       const ls_config *config) LS_MUST_USE;
LS_API void ls_param_table_destroy(ls_param_table **table);

/* Place of a parameter in the table; (size_t)-1 when the model has none of that role. */
LS_API size_t ls_param_find(const ls_param_table *table, ls_role role, size_t layer);
LS_API size_t ls_param_find_name(const ls_param_table *table, const char *name);

/* Logical elements of one parameter / of all (a tied embedding once). */
LS_API size_t ls_param_elements(const ls_param *param);
LS_API size_t ls_param_table_elements(const ls_param_table *table);

/* Granules of all parameters but states: a parameter's first granule has the number of granules
 * before it in the table. */
LS_API size_t ls_param_table_granules(const ls_param_table *table);

/* A run of granules of the cut axis. */
typedef struct ls_shard {
    size_t first, count;
} ls_shard;

/* Rows and columns of a shard in memory, padding included: row-major and contiguous. A matrix cut
 * by rows has count * granule rows and dims[1] columns, cut by columns dims[0] rows and count *
 * granule columns. A vector (n_dims 1, dims n x 1) is one row: rows 1, cols n, or count * granule
 * when cut. shard: a run of param->axis's granules; {0, 1} where cut is -1; may be empty. */
LS_API void ls_param_shard_shape(const ls_param *param, ls_shard shard, size_t *ret_rows,
                                 size_t *ret_cols);

/* Copies between the whole logical tensor and a shard. in: padding becomes +0. out: padded elements
 * are left out; writes only the shard's part of `whole`. element_bytes: of one element; whole:
 * dims[0] x dims[1], row-major, as files hold it; shard_data: as ls_param_shard_shape. The two may
 * not overlap. Neither needs more alignment than a byte. */
LS_API void ls_param_shard_in(const ls_param *param, ls_shard shard, size_t element_bytes,
                              void *shard_data, const void *whole);
LS_API void ls_param_shard_out(const ls_param *param, ls_shard shard, size_t element_bytes,
                               void *whole, const void *shard_data);

LS_END_DECLS

#endif
