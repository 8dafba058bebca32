/* foreign.h - a model's parameters under the names, and in the arrangement, of other programs.
 *
 * Hugging Face's GPT-2, Llama and BERT, Meta's Llama and Megatron-LM keep the numbers of the
 * parameter table in tensors of other names: a linear as [out, in] where the table has [in, out],
 * query, key and value in one tensor, the vocabulary padded, the features of a rotary pair side by
 * side. What lies where is data (lib/model/foreign_names_*.c); a map is that data for one model.
 * Nothing here opens a file: names, shapes and arrays come from the caller, and a gradient
 * lies as its parameter does. */
#ifndef LS_MODEL_FOREIGN_H
#define LS_MODEL_FOREIGN_H

#include <stdint.h>

#include "lockstep/model/param_table.h"

LS_BEGIN_DECLS

/* Whose names. LS_NAMES_OWN are those of the table, one tensor per parameter as it is. */
typedef enum ls_names {
    LS_NAMES_OWN = 0,
    LS_NAMES_GPT2,  /* Hugging Face GPT2LMHeadModel       */
    LS_NAMES_LLAMA, /* Hugging Face LlamaForCausalLM      */
    LS_NAMES_BERT,  /* Hugging Face BertForPreTraining, BertForMaskedLM */
    LS_NAMES_META_LLAMA,
    LS_NAMES_MEGATRON,      /* Megatron-LM                */
    LS_NAMES_MEGATRON_CORE, /* its successor, GPT         */
    LS_NAMES_COUNT
} ls_names;

LS_API const char *ls_names_option(ls_names names); /* "own", "hf-gpt2", "hf-llama", ...      */
LS_API const char *ls_names_title(ls_names names);  /* "Hugging Face GPT-2", as texts say it  */

/* Reads the value of an option: one of ls_names_option, or "hf" for the one of Hugging Face's that
 * fits the model. label: the option, as "--names". LS_ERR_INPUT: not one of them (suggests the
 * nearest). */
LS_API ls_status ls_names_parse(const char *label, const char *text, const ls_config *config,
                                ls_names *ret_names) LS_MUST_USE;

/* Whose names the tensors of a file have: the program that knows most of them; LS_NAMES_OWN when
 * none knows any. name_at(context, i): name of tensor i of count. */
LS_API ls_names ls_names_recognise(const char *(*name_at)(const void *context, size_t i),
                                   const void *context, size_t count);

/* One parameter inside a foreign tensor. Its outputs are its columns (a vector's elements, the out
 * of [in, out]); output o is at output `base + (o / width) * stride + o % width` of the tensor.
 * paired: of the `width` outputs of a head, i and i + width / 2 are at 2 i and 2 i + 1. */
typedef struct ls_foreign_part {
    size_t param; /* place in the table */
    size_t base, width, stride;
    bool paired;
} ls_foreign_part;

enum { LS_FOREIGN_PARTS = 3, LS_FOREIGN_NAME_BYTES = 128 };

typedef struct ls_foreign_tensor {
    char name[LS_FOREIGN_NAME_BYTES];
    int n_dims;
    size_t dims[2]; /* rows and columns; dims[1] is 1 for a vector */
    int n_shape;    /* as written: dims, or of a convolution's weight ls_param.shape */
    size_t shape[4];
    bool more_rows;    /* read: any number of rows from least_rows on; what lies after those is */
    size_t least_rows; /* padding of the vocabulary, or positions that the model does not reach  */
    bool transposed;   /* outputs are its rows: [out, in] */
    bool twin;         /* may be there next to another tensor, must then have the same values; never
                          written */
    int n_parts;
    ls_foreign_part parts[LS_FOREIGN_PARTS];
} ls_foreign_tensor;

/* Where a parameter is: tensor and part. */
typedef struct ls_foreign_place {
    size_t tensor;
    int part;
} ls_foreign_place;

typedef struct ls_foreign_map {
    const ls_param_table *table;
    ls_names names;
    size_t count;
    ls_foreign_tensor *tensors; /* each parameter in exactly one that is no twin; in table order */
    ls_foreign_place *places;   /* table->count */
    const ls_foreign_tensor **by_name;
} ls_foreign_map;

/* The map of a model. label begins the text of an error: the option or the file. `table` must
 * outlive the map. Errors: LS_ERR_INPUT (these names are for another kind of model: says which
 * field, what it is and what it would have to be), LS_ERR_MEMORY. */
LS_API ls_status ls_foreign_map_create(ls_foreign_map **ret_map, const ls_param_table *table,
                                       ls_names names, const char *label) LS_MUST_USE;
LS_API void ls_foreign_map_destroy(ls_foreign_map **map);

/* The tensor of a name as some file has it: prefixes such as "transformer." may be missing, older
 * names stand for newer ones. *ret_tensor: NULL when the name is known and holds nothing that is
 * needed (attention masks, rotary frequencies). label: the file. LS_ERR_INPUT: an unknown name, or
 * one of a layer that the model does not have. */
LS_API ls_status ls_foreign_match(const ls_foreign_map *map, const char *label, const char *name,
                                  const ls_foreign_tensor **ret_tensor) LS_MUST_USE;

/* Whether a tensor has the shape that the map wants. name: as the file has it. LS_ERR_INPUT names
 * file, tensor, what was found and what is wanted. */
LS_API ls_status ls_foreign_check_shape(const ls_foreign_tensor *tensor, const char *label,
                                        const char *name, int n_dims,
                                        const uint64_t *dims) LS_MUST_USE;

/* A shard of a parameter (as ls_param_shard_in: padding becomes +0) or the whole logical tensor,
 * dims[0] x dims[1], from the foreign tensor's array; and back, which writes the parameter's part
 * of `foreign` and nothing else. element_bytes: 1, 2, 4 or 8. Neither array needs more alignment
 * than a byte; they may not overlap. foreign: of a shape that ls_foreign_check_shape accepts, to be
 * written: of tensor->dims, what is to be padding set by the caller. */
LS_API void ls_foreign_shard_in(const ls_foreign_map *map, size_t param, ls_shard shard,
                                size_t element_bytes, void *shard_data, const void *foreign);
LS_API void ls_foreign_whole_in(const ls_foreign_map *map, size_t param, size_t element_bytes,
                                void *whole, const void *foreign);
LS_API void ls_foreign_whole_out(const ls_foreign_map *map, size_t param, size_t element_bytes,
                                 void *foreign, const void *whole);

LS_END_DECLS

#endif
