/* blas.c - OpenBLAS as a guest: one thread per call, no more calls at once than cores.
 *
 * Ranks are threads and each of them calls OpenBLAS. A call that itself started threads would
 * multiply the two numbers, and its sums could depend on how many it got; so OpenBLAS is told to
 * use one. The gate keeps 256 ranks on two cores from holding 256 of OpenBLAS's work areas, of
 * which it has a fixed number. One that cannot have the memory for its work area tries again
 * without end, so whether there is that much is asked here. */
#include "numerics/blas.h"

#include <stdio.h>
#include <string.h>

#ifdef LS_HAVE_OPENBLAS

#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "lockstep/base/show.h"

/* OpenBLAS's own is 128 MiB on x86-64, less elsewhere; the rest is for what other threads may take
 * between the question and the call. */
#define WORK_AREA_BYTES ((size_t)192 << 20)

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_free = PTHREAD_COND_INITIALIZER;
static long gate_places;
static int calls, work_areas; /* running now, and at most so far: OpenBLAS keeps an area for each */
static char blas_version[96], blas_warning[320];
static bool blas_runs;

#ifdef __x86_64__
static int cpu_level(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 3;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
    return __builtin_cpu_supports("avx") ? 1 : 0;
}
#endif

static ls_blas_cpu this_cpu(void)
{
    ls_blas_cpu cpu = {-1, false, false};
#ifdef __x86_64__
    unsigned a = 0, b = 0, c = 0, d = 0;
    cpu.level = cpu_level();
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d) != 0) {
        cpu.fma4 = (c >> 16 & 1) != 0;
        cpu.now3d = (d >> 31 & 1) != 0;
    }
#endif
    return cpu;
}

static void set_up(void)
{
    /* The configuration begins "OpenBLAS 0.3.21 ..."; a development build may have another word
     * second. */
    char version[32] = "";
    if (sscanf(openblas_get_config(), "OpenBLAS %31s", version) != 1) version[0] = 0;
    snprintf(blas_version, sizeof blas_version, "%s%s%s", version, version[0] ? " " : "",
             openblas_get_corename());
    blas_runs =
        ls_blas_judge(openblas_get_corename(), this_cpu(), blas_warning, sizeof blas_warning);

    openblas_set_num_threads(1);
    gate_places = sysconf(_SC_NPROCESSORS_ONLN);
    if (gate_places < 1) gate_places = 1;
}

ls_status ls_blas_check(void)
{
    ls_status status = LS_OK;
    pthread_once(&blas_once, set_up);
    if (!blas_runs) LS_FAIL(LS_ERR_INPUT, "%s", blas_warning);
exit:
    return status;
}

static ls_status find_work_area(void)
{
    ls_status status = LS_OK;
    void *area =
        mmap(NULL, WORK_AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for the %zu MiB that OpenBLAS works in: %s",
                WORK_AREA_BYTES >> 20, ls_show_errno(errno));
    munmap(area, WORK_AREA_BYTES);
exit:
    return status;
}

ls_status ls_blas_enter(void)
{
    ls_status status = LS_OK;
    LS_TRY(ls_blas_check());
    pthread_mutex_lock(&gate_mutex);
    while (gate_places == 0) pthread_cond_wait(&gate_free, &gate_mutex);
    if (calls == work_areas) status = find_work_area();
    if (status == LS_OK) {
        gate_places--;
        if (++calls > work_areas) work_areas = calls;
    }
    pthread_mutex_unlock(&gate_mutex);
    /* A signal of ls_blas_leave that is not used here is another's. */
    if (status != LS_OK) pthread_cond_signal(&gate_free);
exit:
    return status;
}

void ls_blas_leave(void)
{
    pthread_mutex_lock(&gate_mutex);
    gate_places++;
    calls--;
    pthread_mutex_unlock(&gate_mutex);
    pthread_cond_signal(&gate_free);
}

const char *ls_blas_version(void)
{
    pthread_once(&blas_once, set_up);
    return blas_version;
}

const char *ls_blas_warning(void)
{
    pthread_once(&blas_once, set_up);
    return blas_warning;
}

#else

ls_status ls_blas_check(void)
{
    return LS_OK;
}

ls_status ls_blas_enter(void)
{
    return LS_OK;
}

void ls_blas_leave(void)
{
}

const char *ls_blas_version(void)
{
    return "(not in this build)";
}

const char *ls_blas_warning(void)
{
    return "";
}

#endif

bool ls_blas_judge(const char *running, ls_blas_cpu cpu, char *ret_text, size_t size)
{
    /* OpenBLAS's names for its x86-64 kernel sets, by the instructions they use. */
    enum { SSE = 0, AVX, AVX2, AVX512, LEVELS, FMA4 = LEVELS, NOW3D };
    static const struct {
        const char *name;
        int level;
        int also; /* FMA4, NOW3D, 0: nothing else */
    } sets[] = {{"Katmai", SSE, 0},
                {"Coppermine", SSE, 0},
                {"Northwood", SSE, 0},
                {"Prescott", SSE, 0},
                {"Banias", SSE, 0},
                {"Atom", SSE, 0},
                {"Core2", SSE, 0},
                {"Penryn", SSE, 0},
                {"Dunnington", SSE, 0},
                {"Nehalem", SSE, 0},
                {"Athlon", SSE, NOW3D},
                {"Opteron", SSE, NOW3D},
                {"Opteron_SSE3", SSE, NOW3D},
                {"Barcelona", SSE, 0},
                {"Bobcat", SSE, 0},
                {"Nano", SSE, 0},
                {"Sandybridge", AVX, 0},
                {"Bulldozer", AVX, FMA4},
                {"Piledriver", AVX, FMA4},
                {"Steamroller", AVX, FMA4},
                {"Excavator", AVX, FMA4},
                {"Haswell", AVX2, 0},
                {"Zen", AVX2, 0},
                {"SkylakeX", AVX512, 0},
                {"Cooperlake", AVX512, 0},
                {"SapphireRapids", AVX512, 0}};
    static const char *const best[] = {"Prescott", "Sandybridge", "Haswell", "SkylakeX"};
    static const char *const words[] = {"SSE", "AVX", "AVX2", "AVX-512", "FMA4", "3DNow!"};

    if (size > 0) ret_text[0] = 0;
    if (cpu.level < SSE || cpu.level >= LEVELS) return true;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        int level = sets[i].level, also = sets[i].also;
        if (strcmp(running, sets[i].name) != 0) continue;
        if (level > cpu.level || (also == FMA4 && !cpu.fma4) || (also == NOW3D && !cpu.now3d)) {
            snprintf(ret_text, size,
                     "OPENBLAS_CORETYPE: OpenBLAS would run its %s kernels (%s), which this CPU "
                     "cannot; unset it, or use %s",
                     running, words[level > cpu.level ? level : also], best[cpu.level]);
            return false;
        }
        if (level < cpu.level)
            snprintf(ret_text, size,
                     "OpenBLAS runs its %s kernels (%s), but this CPU has %s: set "
                     "OPENBLAS_CORETYPE=%s in the environment before the program starts",
                     running, words[level], words[cpu.level], best[cpu.level]);
    }
    return true;
}
