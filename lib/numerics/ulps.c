#include "lockstep/numerics/compare.h"
#include "numerics/ulps.h"

uint64_t ls_ulps(ls_real left, ls_real right)
{
    return LS_TYPED(ls_ulps_between)(left, right);
}
