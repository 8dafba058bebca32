#include "base/thread_mode.h"

#include <pthread.h>
#include <stddef.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

void ls_thread_mode_set(ls_thread_mode *ret_before)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ret_before != NULL) fegetenv(&ret_before->floating);
    fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
    /* Not every C library counts the bits that flush subnormals as part of the environment. */
    enum { NO_TRAP_NEAREST = 0x1f80 };
    _mm_setcsr(NO_TRAP_NEAREST);
#endif
    pthread_once(&once, make_c_locale);
    /* 0 asks and changes nothing; there is none only without memory. */
    locale_t before = uselocale(c_locale);
    if (ret_before != NULL) ret_before->locale = before;
}

void ls_thread_mode_restore(const ls_thread_mode *before)
{
    uselocale(before->locale);
    fesetenv(&before->floating);
}
