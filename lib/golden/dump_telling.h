/* dump_telling.h - changes a text's batch so that mistakes show on it. */
#ifndef LS_GOLDEN_DUMP_TELLING_H
#define LS_GOLDEN_DUMP_TELLING_H

#include "golden/dump.h"
#include "train/training.h"

/* Changes a batch of a transformer that was read from a text, all B sequences of it: unequal
 * numbers of targets, words at the ends of vocabulary shards, words that repeat; as much of it as
 * fits, in this order. The targets stay the next words, or the words that are hidden. The rule:
 * GOLDEN.md. *told is what was done so far, over the steps. Errors: LS_ERR_MEMORY. */
ls_status ls_dump_make_telling(const ls_config *config, ls_step_batch *batch,
                               ls_dump_told *told) LS_MUST_USE;

#endif
