#include "lockstep/partition/pixel_map.h"

#include <string.h>

#include "base/svg_parts.h"

static bool is_in(ls_rectangle a, size_t row, size_t column)
{
    return row >= a.top && row - a.top < a.height && column >= a.left && column - a.left < a.width;
}

/* The member that owns a pixel; `members` when none does. */
static size_t owner(const ls_pixel_map *map, size_t row, size_t column)
{
    size_t member = 0;
    while (member < map->members && !is_in(map->owned[member], row, column)) member++;
    return member;
}

/* ---- text */

enum { GAP = 3 };

static char mark(const ls_pixel_map *map, size_t row, size_t column)
{
    static const char marks[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t member = owner(map, row, column);
    if (map->read != NULL && !is_in(*map->read, row, column)) return '.';
    if (member == map->members) return ' ';
    if (map->read != NULL && member == map->reader) return '=';
    return member < sizeof marks - 1 ? marks[member] : '*';
}

static size_t columns_of(const ls_pixel_map *map)
{
    const size_t letters = strlen(map->title);
    return letters > map->width ? letters : map->width;
}

/* A line of some maps side by side: 0 is the titles. Blanks are written when something follows. */
static void write_line(FILE *file, const ls_pixel_map *maps, size_t count, size_t line)
{
    size_t blanks = 0;
    for (size_t i = 0; i < count; i++) {
        const ls_pixel_map *map = &maps[i];
        size_t wide = columns_of(map) + GAP;
        if (line > map->height) {
            blanks += wide;
            continue;
        }
        fprintf(file, "%*s", (int)blanks, "");
        if (line == 0) fputs(map->title, file);
        for (size_t c = 0; line > 0 && c < map->width; c++) fputc(mark(map, line - 1, c), file);
        blanks = wide - (line == 0 ? strlen(map->title) : map->width);
    }
    fputc('\n', file);
}

void ls_pixel_maps_text(FILE *file, const ls_pixel_map *maps, size_t count, size_t columns)
{
    for (size_t first = 0, end = 0; first < count; first = end) {
        size_t wide = columns_of(&maps[end]), high = maps[end].height;
        for (end++; end < count && wide + GAP + columns_of(&maps[end]) <= columns; end++) {
            wide += GAP + columns_of(&maps[end]);
            if (maps[end].height > high) high = maps[end].height;
        }
        for (size_t line = 0; line <= high; line++)
            write_line(file, maps + first, end - first, line);
    }
}

/* ---- SVG */

enum { PIXEL = 14, TITLE = 22, SPACE = 18, LETTER = 7 };

static void outline(FILE *file, ls_rectangle a, size_t left, size_t top, const char *dashes)
{
    if (ls_rectangle_is_empty(a)) return;
    fprintf(file,
            "<rect x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%zu\" fill=\"none\" "
            "stroke=\"currentColor\" stroke-width=\"2\"%s/>\n",
            left + a.left * PIXEL, top + a.top * PIXEL, a.width * PIXEL, a.height * PIXEL, dashes);
}

static void draw_map(FILE *file, const ls_pixel_map *map, size_t left, size_t top)
{
    fprintf(file, "<text x=\"%zu\" y=\"%zu\" font-weight=\"600\">", left, top + 14);
    ls_html_text(file, map->title);
    fputs("</text>\n", file);
    top += TITLE;
    for (size_t row = 0; row < map->height; row++)
        for (size_t column = 0; column < map->width; column++) {
            const size_t member = owner(map, row, column);
            const bool strong = map->read == NULL || is_in(*map->read, row, column);
            if (member == map->members) continue;
            /* Hues a golden angle apart: neighbours never look alike, however many there are. */
            fprintf(
                file,
                "<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"hsl(%zu,62%%,66%%)\""
                " fill-opacity=\"%s\"><title>rank %zu, row %zu, column %zu</title></rect>\n",
                left + column * PIXEL, top + row * PIXEL, PIXEL - 1, PIXEL - 1, member * 137 % 360,
                strong ? "1" : "0.25", member, row, column);
        }
    for (size_t m = 0; m < map->members; m++) {
        const ls_rectangle a = map->owned[m];
        if (ls_rectangle_is_empty(a)) continue;
        const bool pale =
            map->read != NULL && !is_in(*map->read, a.top + a.height / 2, a.left + a.width / 2);
        fprintf(file, "<text x=\"%zu\" y=\"%zu\" text-anchor=\"middle\" fill=\"%s\">%zu</text>\n",
                left + a.left * PIXEL + a.width * PIXEL / 2,
                top + a.top * PIXEL + a.height * PIXEL / 2 + 4, pale ? "currentColor" : "#101418",
                m);
    }
    if (map->read == NULL) return;
    outline(file, *map->read, left, top, " stroke-dasharray=\"5 3\"");
    if (map->reader < map->members) outline(file, map->owned[map->reader], left, top, "");
}

static size_t width_of(const ls_pixel_map *map)
{
    const size_t letters = strlen(map->title) * LETTER, pixels = map->width * PIXEL;
    return (letters > pixels ? letters : pixels) + SPACE;
}

/* Where map i is when there are in_row in a row: columns of maps are as wide as their widest,
 * rows as high as their highest; i = count gives what all of them take. */
static void place(const ls_pixel_map *maps, size_t count, size_t in_row, size_t i, size_t *ret_left,
                  size_t *ret_top)
{
    size_t left = SPACE, top = SPACE / 2;
    for (size_t column = 0; column < (i < count ? i % in_row : in_row); column++) {
        size_t widest = 0;
        for (size_t k = column; k < count; k += in_row)
            if (width_of(&maps[k]) > widest) widest = width_of(&maps[k]);
        left += widest;
    }
    for (size_t first = 0; first < (i < count ? i - i % in_row : count); first += in_row) {
        size_t highest = 0;
        for (size_t k = first; k < first + in_row && k < count; k++)
            if (maps[k].height > highest) highest = maps[k].height;
        top += TITLE + highest * PIXEL + SPACE;
    }
    *ret_left = left, *ret_top = top;
}

void ls_svg_pixel_maps(FILE *file, const ls_pixel_map *maps, size_t count, size_t in_row)
{
    size_t left, top;
    place(maps, count, in_row, count, &left, &top);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %zu\" width=\"%zu\" "
            "role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\" "
            "aria-label=\"Who owns which pixel\">\n",
            left, top, left);
    for (size_t i = 0; i < count; i++) {
        place(maps, count, in_row, i, &left, &top);
        draw_map(file, &maps[i], left, top);
    }
    fputs("</svg>\n", file);
}
