/* engine.c - the engines of the matrix product by name. */
#include <stdio.h>
#include <string.h>

#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/isa.h"
#include "numerics/blas.h"

static const char *const engine_names[] = {"portable", "openblas", "plain"};
enum { ENGINES = sizeof engine_names / sizeof engine_names[0] };

const char *ls_engine_name(ls_engine engine)
{
    return (size_t)engine < ENGINES ? engine_names[engine] : "unknown";
}

ls_status ls_engine_parse(const char *name, ls_engine *ret_engine)
{
    for (size_t e = 0; e < ENGINES; e++)
        if (strcmp(name, engine_names[e]) == 0) {
            *ret_engine = (ls_engine)e;
            return LS_OK;
        }
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "gemm engine '%s' is unknown: portable, openblas or plain", name);
}

bool ls_engine_available(ls_engine engine)
{
#ifdef LS_HAVE_OPENBLAS
    return (size_t)engine < ENGINES;
#else
    return engine == LS_ENGINE_PORTABLE;
#endif
}

ls_status ls_engine_check(ls_engine engine)
{
    ls_status status = LS_OK;
    if (!ls_engine_available(engine))
        LS_FAIL(LS_ERR_INPUT, "gemm engine %s: this build has no OpenBLAS; use portable",
                ls_engine_name(engine));
    if (engine != LS_ENGINE_PORTABLE) LS_TRY(ls_blas_check());
exit:
    return status;
}

void ls_engine_describe(ls_engine engine, char *buffer, size_t size)
{
    if (engine == LS_ENGINE_PORTABLE)
        snprintf(buffer, size, "portable %s", ls_isa_name(ls_isa_current()));
    else if (engine == LS_ENGINE_OPENBLAS)
        snprintf(buffer, size, "openblas %s", ls_blas_version());
    else
        snprintf(buffer, size, "%s openblas %s", ls_engine_name(engine), ls_blas_version());
}

const char *ls_engine_warning(ls_engine engine)
{
    return engine == LS_ENGINE_PORTABLE ? "" : ls_blas_warning();
}
