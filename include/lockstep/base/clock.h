/* clock.h - time in nanoseconds. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

LS_API uint64_t ls_clock_ns(void);            /* monotonic wall time                   */
LS_API uint64_t ls_clock_thread_cpu_ns(void); /* CPU time of the calling thread        */
LS_API void ls_clock_sleep_ns(uint64_t ns);

LS_END_DECLS

#endif
