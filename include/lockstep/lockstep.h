/* lockstep.h - the whole public face. */
#ifndef LS_LOCKSTEP_H
#define LS_LOCKSTEP_H

#include "lockstep/base/api.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/world.h"
#include "lockstep/numerics/axis.h"
#include "lockstep/numerics/compare.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"
#include "lockstep/numerics/row_sum.h"
#include "lockstep/numerics/tree.h"

#endif
