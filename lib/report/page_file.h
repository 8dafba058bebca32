/* page_file.h - the file behind a page. */
#ifndef LS_REPORT_PAGE_FILE_H
#define LS_REPORT_PAGE_FILE_H

#include <stdio.h>

#include "report/report.h"

/* Writes the whole page. */
ls_status ls_page_write(FILE *file, const ls_report *report) LS_MUST_USE;

#endif
