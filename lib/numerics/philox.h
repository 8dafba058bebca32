/* philox.h - the constants of Philox4x32-10, part of the contract. */
#ifndef LS_NUMERICS_PHILOX_H
#define LS_NUMERICS_PHILOX_H

#define LS_PHILOX_ROUNDS 10
#define LS_PHILOX_MULTIPLIER_0 0xD2511F53u
#define LS_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define LS_PHILOX_KEY_STEP_0 0x9E3779B9u /* 2^32 times the golden ratio less 1 */
#define LS_PHILOX_KEY_STEP_1 0xBB67AE85u /* 2^32 times sqrt 3 less 1           */

#endif
