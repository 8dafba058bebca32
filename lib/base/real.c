#include "lockstep/base/real.h"

size_t ls_dtype_bytes(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
        return 4;
    case LS_F64:
        return 8;
    case LS_I32:
        return 4;
    case LS_I64:
        return 8;
    case LS_U8:
        return 1;
    case LS_F16:
    case LS_BF16:
        return 2;
    }
    return 0;
}

const char *ls_dtype_name(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
        return "F32";
    case LS_F64:
        return "F64";
    case LS_I32:
        return "I32";
    case LS_I64:
        return "I64";
    case LS_U8:
        return "U8";
    case LS_F16:
        return "F16";
    case LS_BF16:
        return "BF16";
    }
    return "?";
}
