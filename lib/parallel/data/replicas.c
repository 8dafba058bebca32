/* replicas.c - compares a digest of each member's data. */
#include "lockstep/parallel/data/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/comm/collectives.h"
#include "lockstep/numerics/digest.h"
#include "base/allocate.h"

enum { DIGITS = 64 };

ls_status ls_replicas_check(ls_group *group, ls_dtype dtype, const void *values, size_t count,
                            const char *what)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(group);
    size_t *starts = NULL;
    char own[DIGITS + 1], *all = NULL;
    ls_digest *digest = NULL;

    LS_NEW(starts, members + 1);
    LS_NEW(all, members * DIGITS);
    LS_TRY(ls_digest_create(&digest));
    LS_TRY(ls_digest_add(digest, dtype, values, count));
    LS_TRY(ls_digest_finish(digest, own));
    for (size_t r = 0; r <= members; r++) starts[r] = r * DIGITS;
    LS_TRY(ls_all_gather(group, all, own, starts, LS_U8));
    for (size_t r = 1; r < members; r++)
        if (memcmp(all + r * DIGITS, all, DIGITS) != 0)
            LS_FAIL(LS_ERR_RANK,
                    "group %s: rank %d has other %s than rank %d; all members must have the same",
                    ls_group_name(group), ls_group_world_rank(group, (int)r), what,
                    ls_group_world_rank(group, 0));
exit:
    ls_digest_destroy(&digest);
    free(starts);
    free(all);
    return status;
}
