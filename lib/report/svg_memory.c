#include <string.h>

#include "report/svg.h"
#include "report/text_table.h"

enum { WIDTH = 760, RIGHT = 90, ROW = 26, BAR = 16, LEGEND = 34 };
enum { LETTER = 7, LEAST_LEFT = 110, MOST_LEFT = 380 }; /* room for names */

static size_t total_of(const ls_bar *bar)
{
    size_t total = 0;
    for (int c = 0; c < LS_MEM_CATEGORIES; c++) total += bar->bytes[c];
    return total;
}

static void draw_legend(FILE *file)
{
    int x = 0;
    for (int c = 0; c < LS_MEM_CATEGORIES; c++) {
        fprintf(file, "<rect class=\"m%d\" x=\"%d\" y=\"4\" width=\"12\" height=\"12\"/>", c, x);
        fprintf(file, "<text x=\"%d\" y=\"15\">%s</text>\n", x + 18,
                ls_memory_category_name((ls_memory_category)c));
        x += WIDTH / LS_MEM_CATEGORIES;
    }
}

void ls_svg_memory(FILE *file, const ls_bar *bars, size_t count, bool legend)
{
    size_t most = 1, top = legend ? LEGEND : 4, left = LEAST_LEFT;
    for (size_t i = 0; i < count; i++) {
        size_t wanted = strlen(bars[i].name) * LETTER + 16;
        if (total_of(&bars[i]) > most) most = total_of(&bars[i]);
        if (wanted > left) left = wanted < MOST_LEFT ? wanted : MOST_LEFT;
    }
    fprintf(file,
            "<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"Peak bytes by category\">\n",
            WIDTH, top + count * ROW);
    if (legend) draw_legend(file);
    for (size_t i = 0; i < count; i++) {
        double y = (double)top + (double)(i * ROW), x = (double)left;
        char name[MOST_LEFT / LETTER + 4];
        size_t room = left / LETTER;
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(bars[i].name) > room ? room - 3 : room),
                 bars[i].name, strlen(bars[i].name) > room ? "..." : "");
        fprintf(file, "<text x=\"%zu\" y=\"%.0f\" text-anchor=\"end\">", left - 10, y + BAR - 3);
        ls_html_text(file, name);
        fputs("</text>\n", file);
        for (int c = 0; c < LS_MEM_CATEGORIES; c++) {
            char text[LS_NUMBER_TEXT];
            double width = (double)bars[i].bytes[c] / (double)most * (WIDTH - RIGHT - (double)left);
            if (bars[i].bytes[c] == 0) continue;
            fprintf(file,
                    "<rect class=\"m%d\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\">"
                    "<title>%s: %s bytes</title></rect>\n",
                    c, x, y, width, BAR, ls_memory_category_name((ls_memory_category)c),
                    ls_number_text(bars[i].bytes[c], text));
            x += width;
        }
        char text[LS_NUMBER_TEXT];
        fprintf(file, "<text x=\"%.1f\" y=\"%.0f\">%s</text>\n", x + 8, y + BAR - 3,
                ls_bytes_text(total_of(&bars[i]), text));
    }
    fputs("</svg>\n", file);
}
