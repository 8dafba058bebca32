#include "lockstep/partition/share.h"
#include "base/append.h"

#include <stdio.h>

ls_share ls_share_of(size_t n, size_t parts, size_t part)
{
    size_t base = n / parts, longer = n % parts;
    ls_share share;
    share.first = part * base + (part < longer ? part : longer);
    share.count = base + (part < longer ? 1 : 0);
    return share;
}

void ls_share_bounds(size_t n, size_t parts, size_t *ret_bounds)
{
    for (size_t part = 0; part < parts; part++)
        ret_bounds[part] = ls_share_of(n, parts, part).first;
    ret_bounds[parts] = n;
}

ls_status ls_share_check_equal(const char *option, size_t parts, size_t n, const char *things)
{
    ls_status status = LS_OK;
    char list[256] = "";
    size_t used = 0;

    if (parts > 0 && n % parts == 0) return LS_OK;
    for (size_t d = 1; d <= n && used + 32 < sizeof list; d++) {
        if (n % d == 0)
            used = ls_append(list, sizeof list, used, "%s%zu",
                             d == 1 ? "" : (d == n ? " or " : ", "), d);
    }
    LS_FAIL(LS_ERR_INPUT, "%s %zu: %zu %s cannot be cut into %zu equal parts; use %s", option,
            parts, n, things, parts, list);
exit:
    return status;
}

ls_share ls_share_of_kv(ls_share query_heads, size_t group)
{
    ls_share kv = {query_heads.first / group, 0};
    if (query_heads.count > 0)
        kv.count = (query_heads.first + query_heads.count - 1) / group + 1 - kv.first;
    return kv;
}
