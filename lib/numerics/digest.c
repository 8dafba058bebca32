/* digest.c - SHA-256 of numbers, by OpenSSL's libcrypto. */
#include "lockstep/numerics/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/name_nans.h"
#include "base/allocate.h"

enum { CHUNK_BYTES = 4096 };

struct ls_digest {
    EVP_MD_CTX *context; /* NULL once finished */
    unsigned char chunk[CHUNK_BYTES];
};

ls_status ls_digest_create(ls_digest **ret_digest)
{
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    LS_ROOM(digest, 1);
    digest->context = EVP_MD_CTX_new();
    if (digest->context == NULL) LS_FAIL(LS_ERR_MEMORY, "digest: no memory for SHA-256");
    if (EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) != 1) {
        LS_FAIL(LS_ERR_MEMORY, "digest: libcrypto gives no SHA-256: there is no memory for it, or "
                               "OpenSSL's configuration has it not");
    }
    *ret_digest = digest;
    digest = NULL;

exit:
    ls_digest_destroy(&digest);
    return status;
}

void ls_digest_destroy(ls_digest **digest)
{
    if (*digest == NULL) return;
    EVP_MD_CTX_free((*digest)->context);
    free(*digest);
    *digest = NULL;
}

/* Writes `count` elements of `size` bytes in little-endian order. */
static void write_little_endian(unsigned char *out, const unsigned char *in, size_t count,
                                size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(out, in, count * size);
#else
    for (size_t i = 0; i < count; i++) {
        for (size_t b = 0; b < size; b++) out[i * size + b] = in[i * size + size - 1 - b];
    }
#endif
}

ls_status ls_digest_add(ls_digest *digest, ls_dtype dtype, const void *values, size_t count)
{
    ls_status status = LS_OK;
    if (digest->context == NULL) LS_FAIL(LS_ERR_INTERNAL, "digest: finished already");
    const unsigned char *in = values;
    const size_t size = ls_dtype_bytes(dtype);
    const size_t chunk_count = CHUNK_BYTES / size;
    unsigned char native[CHUNK_BYTES];
    while (count > 0) {
        size_t n = count < chunk_count ? count : chunk_count;
        memcpy(native, in, n * size);
        ls_name_nans(dtype, native, n);
        write_little_endian(digest->chunk, native, n, size);
        if (EVP_DigestUpdate(digest->context, digest->chunk, n * size) != 1) {
            LS_FAIL(LS_ERR_INTERNAL, "digest: libcrypto failed");
        }
        in += n * size;
        count -= n;
    }

exit:
    return status;
}

ls_status ls_digest_finish(ls_digest *digest, char ret_hex[65])
{
    static const char digits[] = "0123456789abcdef";
    ls_status status = LS_OK;
    unsigned char sum[EVP_MAX_MD_SIZE];
    if (digest->context == NULL) LS_FAIL(LS_ERR_INTERNAL, "digest: finished already");
    if (EVP_DigestFinal_ex(digest->context, sum, NULL) != 1) {
        LS_FAIL(LS_ERR_INTERNAL, "digest: libcrypto failed");
    }
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
    for (int i = 0; i < 32; i++) {
        ret_hex[2 * i] = digits[sum[i] >> 4];
        ret_hex[2 * i + 1] = digits[sum[i] & 15];
    }
    ret_hex[64] = '\0';

exit:
    return status;
}
