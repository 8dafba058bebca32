/* blas.c - OpenBLAS as a guest: one thread per call, no more calls at once than cores.
 *
 * Ranks are threads and each of them calls OpenBLAS. A call that itself started threads would
 * multiply the two numbers, and its sums could depend on how many it got; so OpenBLAS is told to
 * use one. The gate keeps 256 ranks on two cores from holding 256 of OpenBLAS's work areas, of
 * which it has a fixed number. */
#include "numerics/blas.h"

#include <stdio.h>
#include <string.h>

#ifdef LS_HAVE_OPENBLAS

#include <cblas.h>
#include <pthread.h>
#include <unistd.h>

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_free = PTHREAD_COND_INITIALIZER;
static long gate_places;
static char blas_version[96], blas_warning[320];

/* 0 SSE, 1 AVX, 2 AVX2 with fused multiply-add, 3 AVX-512; -1 where the question does not arise. */
static int cpu_level(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 3;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
    return __builtin_cpu_supports("avx") ? 1 : 0;
#else
    return -1;
#endif
}

static void set_up(void)
{
    /* The configuration begins "OpenBLAS 0.3.21 ..."; a development build may have another word
     * second. */
    char version[32] = "";
    if (sscanf(openblas_get_config(), "OpenBLAS %31s", version) != 1) version[0] = 0;
    snprintf(blas_version, sizeof blas_version, "%s%s%s", version, version[0] ? " " : "",
             openblas_get_corename());
    ls_blas_judge(openblas_get_corename(), cpu_level(), blas_warning, sizeof blas_warning);

    openblas_set_num_threads(1);
    gate_places = sysconf(_SC_NPROCESSORS_ONLN);
    if (gate_places < 1) gate_places = 1;
}

void ls_blas_enter(void)
{
    pthread_once(&blas_once, set_up);
    pthread_mutex_lock(&gate_mutex);
    while (gate_places == 0) pthread_cond_wait(&gate_free, &gate_mutex);
    gate_places--;
    pthread_mutex_unlock(&gate_mutex);
}

void ls_blas_leave(void)
{
    pthread_mutex_lock(&gate_mutex);
    gate_places++;
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

void ls_blas_enter(void)
{
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

void ls_blas_judge(const char *running, int cpu_level, char *ret_text, size_t size)
{
    /* OpenBLAS's names for its x86-64 kernel sets, by the instructions they use. */
    static const struct {
        const char *name;
        int level;
    } sets[] = {{"Katmai", 0},       {"Coppermine", 0},    {"Northwood", 0},  {"Prescott", 0},
                {"Banias", 0},       {"Atom", 0},          {"Core2", 0},      {"Penryn", 0},
                {"Dunnington", 0},   {"Nehalem", 0},       {"Athlon", 0},     {"Opteron", 0},
                {"Opteron_SSE3", 0}, {"Barcelona", 0},     {"Bobcat", 0},     {"Nano", 0},
                {"Sandybridge", 1},  {"Bulldozer", 1},     {"Piledriver", 1}, {"Steamroller", 1},
                {"Excavator", 1},    {"Haswell", 2},       {"Zen", 2},        {"SkylakeX", 3},
                {"Cooperlake", 3},   {"SapphireRapids", 3}};
    static const char *const best[] = {"Prescott", "Sandybridge", "Haswell", "SkylakeX"};
    static const char *const words[] = {"SSE", "AVX", "AVX2", "AVX-512"};

    int level = 3; /* of a name that is not known: nothing to say */
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcmp(running, sets[i].name) == 0) level = sets[i].level;

    if (size > 0) ret_text[0] = 0;
    if (level >= cpu_level || cpu_level > 3) return;
    const char *have = words[level], *offered = words[cpu_level], *remedy = best[cpu_level];
    snprintf(ret_text, size,
             "OpenBLAS runs its %s kernels (%s), but this CPU has %s: set OPENBLAS_CORETYPE=%s in "
             "the environment before the program starts",
             running, have, offered, remedy);
}
