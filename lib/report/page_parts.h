/* page_parts.h - the longer parts of the page, each with its heading. */
#ifndef LS_REPORT_PAGE_PARTS_H
#define LS_REPORT_PAGE_PARTS_H

#include <stdio.h>

#include "report/report.h"

/* A report of more runs than this is shown by grid points (ls_same_grid). */
enum { LS_PAGE_ROWS = 40 };

/* Every run and whether it has the serial run's bits. */
void ls_page_layouts(FILE *file, const ls_report *report);

/* Of the run that is shown: which rank is where in the grid and holds which layers, and in
 * which order the pipeline's ranks do their passes. */
ls_status ls_page_places(FILE *file, const ls_report *report, const ls_report_run *run) LS_MUST_USE;

/* The same of a convolutional network, with each of its layers: its grid, and what crosses ranks.
 */
ls_status ls_page_net_places(FILE *file, const ls_report *report,
                             const ls_report_run *run) LS_MUST_USE;

/* Some of a network's images, with their labels; nothing for other models. */
ls_status ls_page_images(FILE *file, const ls_report *report) LS_MUST_USE;

/* Peak bytes per layout and, of the run that is shown, per rank. */
ls_status ls_page_memory(FILE *file, const ls_report *report, const ls_report_run *run) LS_MUST_USE;

/* Calls and bytes of every operation, per layout and, of the run that is shown, per rank. */
ls_status ls_page_traffic(FILE *file, const ls_report *report,
                          const ls_report_run *run) LS_MUST_USE;

/* How the parameters are cut inside a tensor-parallel group of the run that is shown. */
ls_status ls_page_cut(FILE *file, const ls_report *report, const ls_report_run *run) LS_MUST_USE;

#endif
