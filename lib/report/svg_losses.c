#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "report/svg.h"

enum { WIDTH = 760, HEIGHT = 300, LEFT = 56, RIGHT = 16, TOP = 14, BOTTOM = 42 };

/* Where data comes to stand: x from step first to last, y from low to high. */
typedef struct frame {
    double first, last, low, high;
} frame;

static double x_of(const frame *f, double step)
{
    double span = f->last > f->first ? f->last - f->first : 1.0;
    return LEFT + (step - f->first) / span * (WIDTH - LEFT - RIGHT);
}

static double y_of(const frame *f, double loss)
{
    return HEIGHT - BOTTOM - (loss - f->low) / (f->high - f->low) * (HEIGHT - TOP - BOTTOM);
}

/* Beyond this a span of losses, or the margin around it, may be more than a number can be. */
static bool can_be_drawn(double loss)
{
    return fabs(loss) <= 1e300;
}

static void widen(frame *f, const ls_losses *losses)
{
    for (size_t i = 0; losses != NULL && i < losses->count; i++) {
        double loss = losses->value[i];
        if (!can_be_drawn(loss)) continue;
        if (!(f->low <= loss)) f->low = loss;
        if (!(f->high >= loss)) f->high = loss;
    }
}

static void draw_axes(FILE *file, const frame *f)
{
    double dy = ls_tick_distance(f->high - f->low, 5);
    for (double y = ceil(f->low / dy) * dy; y <= f->high; y += dy) {
        fprintf(file, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT,
                y_of(f, y), WIDTH - RIGHT, y_of(f, y));
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8,
                y_of(f, y) + 4.0, round(y * 1e6) / 1e6);
    }
    double dx = ls_tick_distance(f->last > f->first ? f->last - f->first : 1.0, 10);
    if (dx < 1.0) dx = 1.0;
    for (double x = ceil(f->first / dx) * dx; x <= f->last; x += dx)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x_of(f, x),
                HEIGHT - BOTTOM + 18, x);
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT,
            HEIGHT - 6);
}

/* A path through all losses that are numbers of a size to draw; a gap where one is not. */
static void draw_line(FILE *file, const frame *f, const ls_losses *losses, const char *class)
{
    bool pen_down = false;
    fprintf(file, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < losses->count; i++) {
        if (!can_be_drawn(losses->value[i])) {
            pen_down = false;
            continue;
        }
        double step = (double)(losses->first_step + i);
        fprintf(file, "%c%.2f %.2f", pen_down ? 'L' : 'M', x_of(f, step),
                y_of(f, losses->value[i]));
        pen_down = true;
    }
    /* One point alone is a dot: a line of no length with round ends. */
    fputs(losses->count == 1 && pen_down ? "h0\" stroke-linecap=\"round\"/>\n" : "\"/>\n", file);
}

void ls_svg_losses(FILE *file, const ls_losses *baseline, const ls_losses *run,
                   const char *run_name)
{
    frame f = {(double)run->first_step, 0.0, (double)NAN, (double)NAN};
    f.last = f.first + (run->count > 0 ? (double)(run->count - 1) : 0.0);
    widen(&f, baseline);
    widen(&f, run);
    if (!(f.high >= f.low)) { /* no loss to draw at all */
        f.low = 0.0;
        f.high = 1.0;
    }
    double margin = f.high > f.low ? 0.05 * (f.high - f.low) : 0.5;
    /* Ticks closer to each other than the numbers next to them can tell would have no end. */
    margin = fmax(margin, 1e-6 * fmax(fabs(f.low), fabs(f.high)));
    f.low -= margin;
    f.high += margin;

    fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Loss over steps\">\n",
            WIDTH, HEIGHT);
    draw_axes(file, &f);
    if (baseline != NULL) draw_line(file, &f, baseline, "curve serial");
    draw_line(file, &f, run, "curve run");
    int name = 7 * (int)strlen(run_name) + 44;
    int x = WIDTH - RIGHT - (name > 120 ? name : 120), y = TOP + 12;
    if (baseline != NULL) {
        fprintf(file, "<path class=\"curve serial\" d=\"M%d %dh34\"/>", x, y - 4);
        fprintf(file, "<text x=\"%d\" y=\"%d\">serial</text>\n", x + 44, y);
        y += 20;
    }
    fprintf(file, "<path class=\"curve run\" d=\"M%d %dh34\"/><text x=\"%d\" y=\"%d\">", x, y - 4,
            x + 44, y);
    ls_html_text(file, run_name);
    fputs("</text>\n</svg>\n", file);
}
