/* contract.c - the name of the contract and the SHA-256 of its constants.
 *
 * The digest is taken of a text, one constant per line, numbers as hexadecimal bits. It tells apart
 * two builds whose constants differ; the order of operations that goes with them is what the
 * version in the name stands for. A purpose of random numbers that comes later (networks' dropout)
 * changes no number drawn before and is left out, so that older files stay good. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/random.h"
#include "numerics/coefficients.h"
#include "numerics/double_double.h"
#include "numerics/erf_table.h"
#include "numerics/philox.h"

enum { ROW_SUM_LANES = 16 }; /* rule 10 */

const char *ls_contract_name(void)
{
    return "tree/v1";
}

static ls_status add_text(ls_digest *digest, const char *text)
{
    return ls_digest_add(digest, LS_U8, text, strlen(text));
}

static ls_status add_integer(ls_digest *digest, const char *name, uint64_t value)
{
    char line[96];
    snprintf(line, sizeof line, "%s %llx\n", name, (unsigned long long)value);
    return add_text(digest, line);
}

static ls_status add_bits(ls_digest *digest, const char *name, const uint64_t *values, size_t count)
{
    ls_status status = LS_OK;
    LS_TRY(add_integer(digest, name, count));
    for (size_t i = 0; i < count; i++) {
        char line[32];
        snprintf(line, sizeof line, " %016llx\n", (unsigned long long)values[i]);
        LS_TRY(add_text(digest, line));
    }

exit:
    return status;
}

static ls_status add_doubles(ls_digest *digest, const char *name, const double *values,
                             size_t count)
{
    ls_status status = LS_OK;
    LS_TRY(add_integer(digest, name, count));
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = ls_bits_of(values[i]);
        LS_TRY(add_bits(digest, "", &bits, 1));
    }

exit:
    return status;
}

#define ADD_INTEGER(name) LS_TRY(add_integer(digest, #name, name))
#define ADD_DOUBLES(name) LS_TRY(add_doubles(digest, #name, name, sizeof name / sizeof(double)))

static ls_status hash_constants(char ret_hex[65])
{
    ls_status status = LS_OK;
    ls_digest *digest = NULL;
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(add_text(digest, ls_contract_name()));
    LS_TRY(add_text(digest, "\n"));

    ADD_INTEGER(LS_LEAF);
    ADD_INTEGER(ROW_SUM_LANES);
    ADD_INTEGER(LS_PHILOX_ROUNDS);
    ADD_INTEGER(LS_PHILOX_MULTIPLIER_0);
    ADD_INTEGER(LS_PHILOX_MULTIPLIER_1);
    ADD_INTEGER(LS_PHILOX_KEY_STEP_0);
    ADD_INTEGER(LS_PHILOX_KEY_STEP_1);
    ADD_INTEGER(LS_RANDOM_INIT);
    ADD_INTEGER(LS_RANDOM_DROPOUT_EMBEDDING);
    ADD_INTEGER(LS_RANDOM_DROPOUT_ATTENTION);
    ADD_INTEGER(LS_RANDOM_DROPOUT_ATTN_OUT);
    ADD_INTEGER(LS_RANDOM_DROPOUT_MLP);
    ADD_INTEGER(LS_RANDOM_DATA);
    ADD_INTEGER(LS_RANDOM_MASKING);

    const double reduction[] = {LS_LOG2_E, LS_LN2_HI, LS_LN2_LO, LS_TWO_OVER_PI, LS_PIO2_1,
                                LS_PIO2_2, LS_PIO2_3, LS_PIO2_4, LS_PIO2_HI,     LS_PIO2_LO};
    ADD_DOUBLES(reduction);
    ADD_DOUBLES(LS_EXP_SHORT);
    ADD_DOUBLES(LS_EXP_LONG);
    ADD_DOUBLES(LS_LOG);
    ADD_DOUBLES(LS_SIN);
    ADD_DOUBLES(LS_COS);
    ADD_DOUBLES(LS_ERF_SHORT);
    LS_TRY(add_doubles(digest, "LS_ERF_TABLE", &LS_ERF_TABLE[0][0],
                       sizeof LS_ERF_TABLE / sizeof(double)));
    LS_TRY(add_bits(digest, "LS_TWO_OVER_PI_BITS", LS_TWO_OVER_PI_BITS,
                    sizeof LS_TWO_OVER_PI_BITS / sizeof(uint64_t)));
    LS_TRY(ls_digest_finish(digest, ret_hex));

exit:
    ls_digest_destroy(&digest);
    return status;
}

static pthread_once_t contract_once = PTHREAD_ONCE_INIT;
static char contract_hex[65];

static void make_contract_digest(void)
{
    /* Only a libcrypto without memory or without SHA-256 fails here; a caller that uses a digest of
     * his own is told then. */
    if (hash_constants(contract_hex) != LS_OK) strcpy(contract_hex, "unavailable");
}

const char *ls_contract_digest(void)
{
    pthread_once(&contract_once, make_contract_digest);
    return contract_hex;
}
