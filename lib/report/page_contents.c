#include "report/page_contents.h"

#include <stddef.h>
#include <string.h>

static const char heading[] = "<h2>", heading_end[] = "</h2>";
static const char drawing[] = "<svg", drawing_end[] = "</svg>";

static void write_links(FILE *file, const char *body)
{
    int number = 0;
    fputs("<nav>\n", file);
    for (const char *at = body; (at = strstr(at, heading)) != NULL;) {
        at += strlen(heading);
        const char *end = strstr(at, heading_end);
        if (end == NULL) break;
        fprintf(file, "%s<a href=\"#part%d\">%.*s</a>\n", number > 0 ? "| " : "", number + 1,
                (int)(end - at), at);
        number++;
    }
    fputs("</nav>\n", file);
}

void ls_page_contents(FILE *file, const char *body)
{
    int number = 0;
    write_links(file, body);
    while (*body != '\0') {
        const size_t plain = strcspn(body, "<");
        fwrite(body, 1, plain, file);
        body += plain;
        if (*body == '\0') break;
        if (strncmp(body, heading, strlen(heading)) == 0) {
            fprintf(file, "<h2 id=\"part%d\">", ++number);
            body += strlen(heading);
        } else if (strncmp(body, drawing, strlen(drawing)) == 0) {
            fprintf(file, "<div class=\"scroll\">%s", drawing);
            body += strlen(drawing);
        } else if (strncmp(body, drawing_end, strlen(drawing_end)) == 0) {
            fprintf(file, "%s</div>", drawing_end);
            body += strlen(drawing_end);
        } else {
            fputc(*body++, file);
        }
    }
}
