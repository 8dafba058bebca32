/* safetensors_format.h - the constants of the format, for its reader and its writer. */
#ifndef LS_IO_SAFETENSORS_FORMAT_H
#define LS_IO_SAFETENSORS_FORMAT_H

#include "lockstep/io/safetensors.h"

enum {
    LS_SAFETENSORS_LENGTH_BYTES = 8,      /* the header's length, little-endian */
    LS_SAFETENSORS_HEADER_MAX = 100000000 /* the format's own limit              */
};

/* The one key of the header that is no tensor: an object of strings. */
#define LS_SAFETENSORS_METADATA "__metadata__"

/* The arrays of a file are little-endian and are handed out as they lie. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are read and written in place: little-endian machines only"
#endif

#endif
