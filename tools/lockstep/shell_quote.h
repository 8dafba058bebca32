/* shell_quote.h - a command line that can be pasted into a shell and runs the same. */
#ifndef LOCKSTEP_SHELL_QUOTE_H
#define LOCKSTEP_SHELL_QUOTE_H

#include "lockstep/base/status.h"

/* "lockstep verify --text 'it'\''s.txt'": the words after `lockstep NAME`, each as a POSIX shell
 * reads it back. Valid UTF-8 in one piece, without characters that a terminal obeys: such a byte is
 * written as "$(printf '\033')". *ret_line is the caller's to free. Errors: LS_ERR_MEMORY. */
ls_status shell_command_line(const char *name, int argc, const char *const *argv,
                             char **ret_line) LS_MUST_USE;

#endif
