/* isa.c - which instruction set the inner loops use. */
#include "lockstep/numerics/isa.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[LS_ISA_COUNT] = {
    [LS_ISA_SCALAR] = "scalar",
    [LS_ISA_AVX2] = "avx2",
    [LS_ISA_AVX512] = "avx512",
    [LS_ISA_NEON] = "neon",
};

/* From the widest to the plainest. */
static const ls_isa isa_order[] = {LS_ISA_AVX512, LS_ISA_AVX2, LS_ISA_NEON, LS_ISA_SCALAR};
enum { ISA_ORDER_COUNT = sizeof isa_order / sizeof isa_order[0] };

static atomic_int isa_chosen = -1;

/* __builtin_cpu_supports asks the CPU and, for the AVX families, also whether the operating system
 * saves the wide registers. The flags named here are the ones the build compiles with. */
int ls_isa_available(ls_isa isa)
{
    switch (isa) {
    case LS_ISA_SCALAR:
        return 1;
    case LS_ISA_AVX2:
#ifdef LS_HAVE_AVX2
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
        return 0;
#endif
    case LS_ISA_AVX512:
#if defined(LS_HAVE_AVX512) && defined(LS_SIMDE)
        return ls_isa_available(LS_ISA_AVX2); /* emulated by AVX2 code */
#elif defined(LS_HAVE_AVX512)
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma");
#else
        return 0;
#endif
    case LS_ISA_NEON:
#ifdef LS_HAVE_NEON
        return 1; /* every AArch64 CPU */
#else
        return 0;
#endif
    case LS_ISA_COUNT:
        break;
    }
    return 0;
}

const char *ls_isa_name(ls_isa isa)
{
    return (unsigned)isa < LS_ISA_COUNT ? isa_names[isa] : "?";
}

/* The best set here; an emulated one is only ever asked for by name. */
static ls_isa best_isa(void)
{
    for (size_t i = 0; i < ISA_ORDER_COUNT; i++) {
#ifdef LS_SIMDE
        if (isa_order[i] == LS_ISA_AVX512) continue;
#endif
        if (ls_isa_available(isa_order[i])) return isa_order[i];
    }
    return LS_ISA_SCALAR;
}

/* The value of LOCKSTEP_ISA; NULL when it is unset or empty. */
static const char *isa_wanted(void)
{
    const char *name = getenv("LOCKSTEP_ISA");
    return name != NULL && name[0] != '\0' ? name : NULL;
}

/* The set of that name, LS_ISA_COUNT if there is none. */
static ls_isa isa_named(const char *name)
{
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) return (ls_isa)i;
    }
    return LS_ISA_COUNT;
}

ls_isa ls_isa_current(void)
{
    int now = atomic_load_explicit(&isa_chosen, memory_order_relaxed);
    if (now >= 0) return (ls_isa)now;
    const char *name = isa_wanted();
    ls_isa isa = name != NULL ? isa_named(name) : LS_ISA_COUNT;
    if (isa == LS_ISA_COUNT || !ls_isa_available(isa)) isa = best_isa();
    /* Two threads may both come here: the first store, or an ls_isa_force in between, stands. */
    int none = -1;
    return atomic_compare_exchange_strong(&isa_chosen, &none, (int)isa) ? isa : (ls_isa)none;
}

void ls_isa_force(ls_isa isa)
{
    assert(ls_isa_available(isa));
    atomic_store(&isa_chosen, (int)isa);
}

ls_status ls_isa_check(void)
{
    ls_status status = LS_OK;
    const char *name = isa_wanted();
    if (name == NULL) goto exit;
    ls_isa isa = isa_named(name);
    if (isa != LS_ISA_COUNT && ls_isa_available(isa)) goto exit;

    char allowed[64] = "";
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        if (!ls_isa_available((ls_isa)i)) continue;
        if (allowed[0] != '\0') strcat(allowed, ", ");
        strcat(allowed, isa_names[i]);
    }
    LS_FAIL(LS_ERR_INPUT, "LOCKSTEP_ISA=%.32s: %s; this machine has %s", name,
            isa == LS_ISA_COUNT ? "no such instruction set" : "not available here", allowed);

exit:
    return status;
}
