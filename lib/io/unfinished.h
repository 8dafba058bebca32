/* unfinished.h - what a signal handler that ends the process has to remove.
 *
 * A name and its place in the list change together, and a handler in another thread must not come
 * between. So a thread holds the names while it makes, lists, renames or removes one: it gets no
 * signal meanwhile, and the handler waits for it. Once a handler has begun no thread gets to make a
 * name. */
#ifndef LS_IO_UNFINISHED_H
#define LS_IO_UNFINISHED_H

#include <signal.h>
#include <stdbool.h>

#include "lockstep/base/status.h"

/* For some system calls; *ret_mask goes to ls_names_release. False: the program is ending, nothing
 * is held, and the caller fails. */
bool ls_names_hold(sigset_t *ret_mask) LS_MUST_USE;
void ls_names_release(const sigset_t *mask);

/* The same for a caller that cannot write `name` without it. *ret_held: whether the names are held,
 * and are to be released. LS_ERR_IO: the program is ending. */
ls_status ls_names_hold_for(const char *name, sigset_t *ret_mask, bool *ret_held) LS_MUST_USE;

/* Lists a file, or a folder with nothing else in it than what is listed. The text lives until it is
 * taken off. -1 where the list is full: then it stays when a signal ends the process. */
int ls_unfinished_list(char *path);

/* Whether the path is still the caller's to free, and not with a handler. */
bool ls_unfinished_take_off(int place, char *path);

/* For the handler: waits until no thread holds the names, at most some seconds, and removes what is
 * listed: files, then folders. Calls nothing but poll, unlink and rmdir. */
void ls_unfinished_remove(void);

#endif
