/* wait_report.h - what a rank waits for, as the others see it, and in words. */
#ifndef LS_COMM_WAIT_REPORT_H
#define LS_COMM_WAIT_REPORT_H

#include "comm/world_state.h"

/* Shows the other ranks that the owner of `group` waits in a call of `kind`, until ls_wait_end. */
void ls_wait_begin(ls_group *group, ls_call_kind kind);
void ls_wait_end(ls_group *group);

/* Which of two things a rank in a channel call waits for. */
bool ls_waits_to_send(const ls_rank *rank);
bool ls_waits_to_receive(const ls_rank *rank);

/* A line of text that is written piece by piece; what does not fit is cut off. */
typedef struct ls_line {
    char bytes[LS_ERROR_TEXT_BYTES];
    size_t used;
} ls_line;

void ls_line_add(ls_line *line, const char *format, ...) LS_PRINTF(2, 3);

/* "group tp, call 7 (all_reduce)", "group pp, send with tag 5": where `rank` waits. */
void ls_line_add_place(ls_line *line, const ls_rank *rank);

/* "rank 3, which has ended", "... waits in ...", "... is outside any communication". */
void ls_line_add_wait_report(ls_line *line, const ls_rank *rank);

#endif
