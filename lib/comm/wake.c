/* wake.c - ends the sleep of a rank that waits: called by the rank that changes what it waits for.
 */
#include <stdatomic.h>

#include "comm/waiting.h"
#include "comm/world_state.h"

void ls_wake(ls_rank *rank)
{
    ls_parking *parking = &rank->parking;
    if (!atomic_load(&parking->parked)) return;
    pthread_mutex_lock(&parking->mutex);
    pthread_cond_signal(&parking->wake);
    pthread_mutex_unlock(&parking->mutex);
}
