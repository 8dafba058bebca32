/* svg.h - the drawings of the page, each a complete <svg> element. */
#ifndef LS_REPORT_SVG_H
#define LS_REPORT_SVG_H

#include <stdio.h>

#include "base/svg_parts.h"
#include "report/report.h"

/* Losses over steps: the serial run as a broad pale line, the run in a layout as a thin one on it.
 * baseline may be NULL. */
void ls_svg_losses(FILE *file, const ls_losses *baseline, const ls_losses *run,
                   const char *run_name);

/* One horizontal bar per entry, stacked by category, all to one scale; above them, with `legend`,
 * which colour is which category. */
typedef struct ls_bar {
    char name[LS_LAYOUT_NAME];
    const size_t *bytes; /* LS_MEM_CATEGORIES */
} ls_bar;

void ls_svg_memory(FILE *file, const ls_bar *bars, size_t count, bool legend);

/* The ranks of a layout in their places, coloured by pipeline rank; batch: of the whole run. */
void ls_svg_grid(FILE *file, const ls_layout *layout, size_t batch);

/* The same of a convolutional network: over its images, coloured by channels. */
void ls_svg_net_grid(FILE *file, const ls_layout *layout, const ls_net *net, size_t batch);

/* How the parameters are cut over the ranks of a layout: embeddings, the first layer and the head,
 * a box per parameter. */
ls_status ls_svg_cut(FILE *file, const ls_param_table *table, const ls_layout *layout) LS_MUST_USE;

#endif
