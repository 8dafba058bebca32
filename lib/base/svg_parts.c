#include "base/svg_parts.h"

#include "lockstep/base/show.h"

void ls_html_text(FILE *file, const char *text)
{
    for (const char *c = ls_show(text); *c != '\0'; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            fputc(*c, file);
        }
    }
}

double ls_tick_distance(double span, int ticks)
{
    double raw = span / ticks, power = 1.0;
    while (power * 10.0 <= raw) power *= 10.0;
    while (power > raw) power /= 10.0;
    return raw <= 2.0 * power ? 2.0 * power : raw <= 5.0 * power ? 5.0 * power : 10.0 * power;
}
