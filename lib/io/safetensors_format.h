/* safetensors_format.h - the constants of the format, for its reader and its writer. */
#ifndef LS_IO_SAFETENSORS_FORMAT_H
#define LS_IO_SAFETENSORS_FORMAT_H

#include <jansson.h>

#include "lockstep/io/safetensors.h"

enum {
    LS_SAFETENSORS_LENGTH_BYTES = 8,      /* the header's length, little-endian */
    LS_SAFETENSORS_HEADER_MAX = 100000000 /* the format's own limit              */
};

/* The one key of the header that is no tensor: an object of strings. */
#define LS_SAFETENSORS_METADATA "__metadata__"

/* The data of all tensors. */
typedef struct ls_tensor_bytes {
    const unsigned char *bytes;
    uint64_t count;
} ls_tensor_bytes;

/* How the text of a bad tensor begins: FILE: tensor "NAME". */
enum { LS_TENSOR_LABEL_BYTES = 880 };
const char *ls_tensor_label(const char *path, const char *name, char buffer[LS_TENSOR_LABEL_BYTES]);

/* Reads an entry of the header; *ret_info keeps `name`. LS_ERR_INPUT names file and tensor. */
ls_status ls_safetensors_entry(const char *path, const char *name, const json_t *entry,
                               const ls_tensor_bytes *data, ls_tensor_info *ret_info) LS_MUST_USE;

/* The arrays of a file are little-endian and are handed out as they lie. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are read and written in place: little-endian machines only"
#endif

#endif
