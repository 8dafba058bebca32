/* digest.h - SHA-256 of numbers, the same on every machine. */
#ifndef LS_NUMERICS_DIGEST_H
#define LS_NUMERICS_DIGEST_H

#include <stddef.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef struct ls_digest ls_digest;

LS_API ls_status ls_digest_create(ls_digest **ret_digest) LS_MUST_USE;

/* Adds count elements in little-endian order; every NaN as 7fc00000 (binary64: 7ff8000000000000).
 */
LS_API ls_status ls_digest_add(ls_digest *digest, ls_dtype dtype, const void *values,
                               size_t count) LS_MUST_USE;

/* Writes 64 lower-case hexadecimal digits and a zero byte; the digest can then only be destroyed.
 */
LS_API ls_status ls_digest_finish(ls_digest *digest, char ret_hex[65]) LS_MUST_USE;

LS_API void ls_digest_destroy(ls_digest **digest);

/* "tree/v1" and the SHA-256 of the constants that make it up. */
LS_API const char *ls_contract_name(void);
LS_API const char *ls_contract_digest(void);

LS_END_DECLS

#endif
