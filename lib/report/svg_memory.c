#include "report/svg.h"
#include "report/text_table.h"

enum { WIDTH = 760, LEFT = 110, RIGHT = 90, ROW = 26, BAR = 16, LEGEND = 34 };

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
    size_t most = 1, top = legend ? LEGEND : 4;
    for (size_t i = 0; i < count; i++)
        if (total_of(&bars[i]) > most) most = total_of(&bars[i]);
    fprintf(file,
            "<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"Peak bytes by category\">\n",
            WIDTH, top + count * ROW);
    if (legend) draw_legend(file);
    for (size_t i = 0; i < count; i++) {
        double y = (double)top + (double)(i * ROW), x = LEFT;
        fprintf(file, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">", LEFT - 10, y + BAR - 3);
        ls_html_text(file, bars[i].name);
        fputs("</text>\n", file);
        for (int c = 0; c < LS_MEM_CATEGORIES; c++) {
            char text[LS_NUMBER_TEXT];
            double width = (double)bars[i].bytes[c] / (double)most * (WIDTH - LEFT - RIGHT);
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
