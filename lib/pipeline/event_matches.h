/* event_matches.h - which events of a log belong together: the members' entries of one collective,
 * the two ends of one message. */
#ifndef LS_PIPELINE_EVENT_MATCHES_H
#define LS_PIPELINE_EVENT_MATCHES_H

#include <stdbool.h>

#include "lockstep/comm/trace.h"

/* One event of the log. */
typedef struct ls_event_place {
    int rank;
    size_t event;
} ls_event_place;

/* A collective, with one place per member; or a message: its send, its receive, its send_end. */
typedef struct ls_match {
    bool message;
    bool sent, received, ended;      /* which places of a message there are */
    ls_event_place post, take, done; /* of a message */
    size_t first, count;             /* of a collective: places[first], ... */
} ls_match;

typedef struct ls_event_matches {
    ls_match *matches;
    size_t count;
    ls_event_place *places;
    size_t **of; /* [ranks][n_events[r]]: index of the event's match; SIZE_MAX: computing */
} ls_event_matches;

/* Finds them. Errors: LS_ERR_INPUT, the text begins with `name` and says which rank's event lacks
 * what; LS_ERR_MEMORY. */
ls_status ls_event_matches_create(ls_event_matches **ret_matches, const ls_event_log *log,
                                  const char *name) LS_MUST_USE;
void ls_event_matches_destroy(ls_event_matches **matches, const ls_event_log *log);

#endif
