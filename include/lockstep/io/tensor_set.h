/* tensor_set.h - the tensors of one model, in a safetensors file or in several that an index names.
 */
#ifndef LS_IO_TENSOR_SET_H
#define LS_IO_TENSOR_SET_H

#include "lockstep/io/safetensors.h"

LS_BEGIN_DECLS

typedef struct ls_tensor_set ls_tensor_set;

/* Opens and checks what is at `path`:
 *     a safetensors file;
 *     NAME.json, an index as Hugging Face writes it, {"weight_map": {"tensor": "file", ...}}, whose
 *     files are next to it: each is opened, and must have the tensors that the index says it has
 *     and no others;
 *     a folder with model.safetensors or model.safetensors.index.json in it; when it has both, they
 *     must hold the same tensors.
 * Names and data live until it is closed. Errors: those of ls_safetensors_open; LS_ERR_INPUT: the
 * index is not one, or does not agree with its files (names both). */
LS_API ls_status ls_tensor_set_open(ls_tensor_set **ret_set, const char *path) LS_MUST_USE;
/* The same for a reader that knows how many tensors there can be (ls_safetensors_open_most). */
LS_API ls_status ls_tensor_set_open_most(ls_tensor_set **ret_set, const char *path,
                                         size_t most_tensors) LS_MUST_USE;
LS_API void ls_tensor_set_close(ls_tensor_set **set);

/* Tensors, file after file; *ret_file (may be NULL): the file it is in, for texts. */
LS_API size_t ls_tensor_set_count(const ls_tensor_set *set);
LS_API const ls_tensor_info *ls_tensor_set_at(const ls_tensor_set *set, size_t i,
                                              const char **ret_file);

/* A tensor by name; NULL when there is none. */
LS_API const ls_tensor_info *ls_tensor_set_find(const ls_tensor_set *set, const char *name);

/* A value of __metadata__, of the first file; NULL when absent. */
LS_API const char *ls_tensor_set_metadata(const ls_tensor_set *set, const char *key);

LS_END_DECLS

#endif
