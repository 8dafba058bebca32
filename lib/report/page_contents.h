/* page_contents.h - the body of a page, with a list of its parts before it. */
#ifndef LS_REPORT_PAGE_CONTENTS_H
#define LS_REPORT_PAGE_CONTENTS_H

#include <stdio.h>

/* Writes links to every <h2> of `body`, then the body, in which each <h2> has the id that its link
 * names and each drawing can be scrolled where the window is narrower than its text needs. */
void ls_page_contents(FILE *file, const char *body);

#endif
