#include <math.h>
#include <string.h>

#include "base/svg_parts.h"
#include "base/thread_mode.h"
#include "lockstep/pipeline/drawing.h"

enum { WIDTH = 760, TITLE = 24, KEY = 24, AXIS = 24, NAME_LETTER = 7, LETTER = 6, SHADES = 4 };

static const char *const kind_names[LS_BOX_KINDS] = {"forward", "backward", "communication",
                                                     "other"};

/* Colours are written out rather than styled: a file of its own has no page around it. */
static const char *const fills[LS_BOX_KINDS][SHADES] = {
    {"#a9c6ee", "#7fa8df", "#5f8fd0", "#4d7dbf"},
    {"#f4cd9b", "#e8b06a", "#d7974b", "#c4853a"},
    {"#c3aede", "#c3aede", "#c3aede", "#c3aede"},
    {"#b8bec4", "#b8bec4", "#b8bec4", "#b8bec4"},
};

#define GROUND "fill=\"currentColor\" fill-opacity=\"0.07\""

/* Where data comes to stand. */
typedef struct frame {
    double first, last;         /* time     */
    double left, top, row, gap; /* on paper */
    double bottom;
} frame;

static double x_of(const frame *f, double time)
{
    return f->left + (time - f->first) / (f->last - f->first) * (WIDTH - f->left - 8.0);
}

static bool can_be_drawn(const ls_box *box, int rows)
{
    return box->row >= 0 && box->row < rows && (int)box->kind >= 0 && box->kind < LS_BOX_KINDS &&
           box->chunk >= 0 && fabs(box->start) <= 1e300 && fabs(box->end) <= 1e300 &&
           box->start <= box->end;
}

static void row_name(const ls_drawing *drawing, int row, char *ret_name, size_t size)
{
    if (drawing->row_names != NULL)
        snprintf(ret_name, size, "%s", drawing->row_names[row]);
    else
        snprintf(ret_name, size, "rank %d", row);
}

static frame make_frame(const ls_drawing *drawing)
{
    frame f = {0.0, 0.0, 0.0, 0.0, drawing->rows > 24 ? 15.0 : 26.0, 3.0, 0.0};
    for (size_t i = 0; i < drawing->count; i++) {
        const ls_box *box = &drawing->boxes[i];
        if (!can_be_drawn(box, drawing->rows)) continue;
        f.first = fmin(f.first, box->start);
        f.last = fmax(f.last, box->end);
    }
    if (!(f.last > f.first)) f.last = f.first + 1.0;
    size_t longest = 0;
    for (int r = 0; r < drawing->rows; r++) {
        char name[64];
        row_name(drawing, r, name, sizeof name);
        if (strlen(name) > longest) longest = strlen(name);
    }
    f.left = (double)longest * NAME_LETTER + 12.0;
    f.top = (drawing->title != NULL ? TITLE : 0.0) + KEY;
    f.bottom = f.top + drawing->rows * f.row;
    return f;
}

/* One entry of the key; returns where the next one is. paint: attributes of the rectangle. */
static double draw_entry(FILE *file, double x, double y, const char *paint, const char *name)
{
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" %s/>"
            "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            x, y + 4.0, paint, x + 17.0, y + 14.0, name);
    return x + 17.0 + NAME_LETTER * (double)strlen(name) + 18.0;
}

/* Which colour is which kind, for the kinds that occur. */
static void draw_key(FILE *file, const ls_drawing *drawing, const frame *f)
{
    bool occurs[LS_BOX_KINDS] = {false}, chunks = false;
    for (size_t i = 0; i < drawing->count; i++) {
        if (!can_be_drawn(&drawing->boxes[i], drawing->rows)) continue;
        occurs[drawing->boxes[i].kind] = true;
        if (drawing->boxes[i].chunk > 0) chunks = true;
    }
    double x = f->left, y = f->top - KEY;
    for (int kind = 0; kind < LS_BOX_KINDS; kind++) {
        char paint[32];
        snprintf(paint, sizeof paint, "fill=\"%s\"", fills[kind][0]);
        if (occurs[kind]) x = draw_entry(file, x, y, paint, kind_names[kind]);
    }
    x = draw_entry(file, x, y, GROUND, "idle");
    if (chunks)
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">darker: later chunks</text>\n", x, y + 14.0);
}

/* The ground of each row: what of it stays to be seen is idle time. */
static void draw_rows(FILE *file, const ls_drawing *drawing, const frame *f)
{
    for (int r = 0; r < drawing->rows; r++) {
        char name[64];
        double y = f->top + r * f->row;
        row_name(drawing, r, name, sizeof name);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", f->left - 8.0,
                y + f->row / 2 + 4.0);
        ls_html_text(file, name);
        fprintf(file,
                "</text><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" " GROUND "/>\n",
                f->left, y, WIDTH - f->left - 8.0, f->row - f->gap);
    }
}

static void draw_box(FILE *file, const ls_box *box, const frame *f)
{
    double x = x_of(f, box->start), y = f->top + box->row * f->row;
    double width = fmax(x_of(f, box->end) - x, 0.4), height = f->row - f->gap;
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" "
            "stroke=\"#fdfdfb\" stroke-width=\"%s\"",
            x, y, width, height, fills[box->kind][box->chunk % SHADES], width < 4.0 ? "0" : "0.7");
    if (box->note[0] != '\0') {
        fputs("><title>", file);
        ls_html_text(file, box->note);
        fputs("</title></rect>", file);
    } else {
        fputs("/>", file);
    }
    if (box->label[0] != '\0' && (double)strlen(box->label) * LETTER + 2.0 <= width) {
        fprintf(file,
                "<text class=\"number\" x=\"%.2f\" y=\"%.1f\" font-size=\"10\" fill=\"#101418\" "
                "text-anchor=\"middle\">",
                x + width / 2, y + height / 2 + 3.5);
        ls_html_text(file, box->label);
        fputs("</text>", file);
    }
    fputc('\n', file);
}

static void draw_axis(FILE *file, const ls_drawing *drawing, const frame *f)
{
    double step = ls_tick_distance(f->last - f->first, 8), room = WIDTH - 60.0;
    for (double i = ceil(f->first / step); i * step <= f->last; i++) {
        double x = x_of(f, i * step);
        if (x > room) break; /* the unit is there */
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", x,
                f->bottom + 14.0, i * step);
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", WIDTH - 8.0,
            f->bottom + 14.0);
    ls_html_text(file, drawing->time_unit);
    fputs("</text>\n", file);
}

void ls_svg_boxes(FILE *file, const ls_drawing *drawing)
{
    ls_thread_mode mode;
    ls_thread_mode_set(&mode);
    frame f = make_frame(drawing);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\" aria-label=\"",
            WIDTH, f.bottom + (drawing->time_unit != NULL ? AXIS : 4));
    ls_html_text(file, drawing->title != NULL ? drawing->title : "What ranks do over time");
    fputs("\">\n", file);
    if (drawing->title != NULL) {
        fputs("<text class=\"title\" x=\"0\" y=\"14\" font-weight=\"600\">", file);
        ls_html_text(file, drawing->title);
        fputs("</text>\n", file);
    }
    draw_key(file, drawing, &f);
    draw_rows(file, drawing, &f);
    for (size_t i = 0; i < drawing->count; i++)
        if (can_be_drawn(&drawing->boxes[i], drawing->rows)) draw_box(file, &drawing->boxes[i], &f);
    if (drawing->time_unit != NULL) draw_axis(file, drawing, &f);
    fputs("</svg>\n", file);
    ls_thread_mode_restore(&mode);
}
