#include "report/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/clock.h"

#define SECOND_NS 1000000000ull

void ls_progress_begin(ls_progress *progress, FILE *file, uint64_t total)
{
    memset(progress, 0, sizeof *progress);
    progress->file = file;
    progress->terminal = isatty(fileno(file)) == 1;
    progress->total = total;
    progress->started_ns = ls_clock_ns();
}

void ls_progress_time(uint64_t ns, char *buffer, size_t size)
{
    uint64_t s = (ns + SECOND_NS / 2) / SECOND_NS;
    if (s >= 3600)
        snprintf(buffer, size, "%llu h %02llu min", (unsigned long long)(s / 3600),
                 (unsigned long long)(s / 60 % 60));
    else if (s >= 60)
        snprintf(buffer, size, "%llu min %02llu s", (unsigned long long)(s / 60),
                 (unsigned long long)(s % 60));
    else
        snprintf(buffer, size, "%llu s", (unsigned long long)s);
}

/* Columns of the terminal; 80 when it does not say. */
static size_t columns(FILE *file)
{
    struct winsize window;
    if (ioctl(fileno(file), TIOCGWINSZ, &window) != 0 || window.ws_col < 20) return 80;
    return window.ws_col;
}

static void draw(ls_progress *progress, uint64_t now)
{
    enum { BAR = 20 };
    char line[256], left[48], bar[BAR + 1];
    uint64_t done = progress->done, total = progress->total;
    size_t filled = total == 0 ? BAR : (size_t)(done * BAR / total);
    memset(bar, '.', BAR);
    memset(bar, '#', filled);
    bar[BAR] = '\0';
    double spent = (double)(now - progress->started_ns);
    double rest = done == 0 ? 0.0 : spent / (double)done * (double)(total - done);
    ls_progress_time((uint64_t)rest, left, sizeof left);
    snprintf(line, sizeof line, "[%s] %3d %%  %s%s  %s", bar,
             total == 0 ? 100 : (int)(done * 100 / total), done == 0 ? "" : left,
             done == 0 ? "" : " left", progress->text);
    /* A line that wraps could not be written over. */
    size_t room = columns(progress->file) - 1;
    if (strlen(line) > room) line[room < sizeof line ? room : sizeof line - 1] = '\0';
    fprintf(progress->file, "\r\033[K%s", line);
    fflush(progress->file);
    progress->drawn = true;
    progress->drawn_ns = now;
}

void ls_progress_advance(ls_progress *progress, uint64_t units, const char *text)
{
    progress->done += units;
    if (progress->done > progress->total) progress->done = progress->total;
    if (!progress->terminal) return;
    snprintf(progress->text, sizeof progress->text, "%s", text);
    uint64_t now = ls_clock_ns();
    if (!progress->drawn || now - progress->drawn_ns >= SECOND_NS / 10) draw(progress, now);
}

void ls_progress_clear(ls_progress *progress)
{
    if (!progress->drawn) return;
    fputs("\r\033[K", progress->file);
    fflush(progress->file);
    progress->drawn = false;
}
