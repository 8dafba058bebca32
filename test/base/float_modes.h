/* float_modes.h - the ways in which a caller's thread may compute: for tests that no result depends
 * on them. */
#ifndef LS_TEST_BASE_FLOAT_MODES_H
#define LS_TEST_BASE_FLOAT_MODES_H

#include <fenv.h>
#include <stdbool.h>
#include <stddef.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef struct float_mode {
    const char *name;
    int rounding;
    bool flush, trap;
} float_mode;

static const float_mode float_modes[] = {
    {"nearest", FE_TONEAREST, false, false}, {"upward", FE_UPWARD, false, false},
    {"downward", FE_DOWNWARD, false, false}, {"toward zero", FE_TOWARDZERO, false, false},
    {"flush", FE_TONEAREST, true, false},    {"trap", FE_TONEAREST, false, true},
    {"all", FE_UPWARD, true, true}};
enum { FLOAT_MODES = sizeof float_modes / sizeof float_modes[0] };

/* Puts the thread into the mode, as far as the machine and the C library have it. */
static inline void set_float_mode(const float_mode *mode)
{
    fesetenv(FE_DFL_ENV);
    fesetround(mode->rounding);
#if defined(__x86_64__)
    enum { FLUSH_BOTH = 0x8040 };
    if (mode->flush) _mm_setcsr(_mm_getcsr() | FLUSH_BOTH);
#elif defined(__aarch64__)
    if (mode->flush) {
        unsigned long control;
        __asm__ volatile("mrs %0, fpcr" : "=r"(control));
        __asm__ volatile("msr fpcr, %0" : : "r"(control | 1ul << 24));
    }
#endif
#if defined(__GLIBC__)
    if (mode->trap) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
#endif
}

/* Whether the thread is in the mode. */
static inline bool in_float_mode(const float_mode *mode)
{
    if (fegetround() != mode->rounding) return false;
#if defined(__x86_64__)
    if (((_mm_getcsr() & 0x8040) == 0x8040) != mode->flush) return false;
#elif defined(__aarch64__)
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (((control >> 24 & 1) != 0) != mode->flush) return false;
#endif
#if defined(__GLIBC__) && defined(__x86_64__)
    if ((fegetexcept() != 0) != mode->trap) return false;
#endif
    return true;
}

#endif
