#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "lockstep/pipeline/replay.h"

typedef struct unit {
    const char *name;
    double size;
} unit;

static const unit times[] = {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0.0}};
/* In bytes per nanosecond. */
static const unit rates[] = {{"B/s", 1e-9}, {"KB/s", 1e-6}, {"MB/s", 1e-3},
                             {"GB/s", 1e0}, {"TB/s", 1e3},  {NULL, 0.0}};

static const double LONGEST_LATENCY_NS = 1e10;

/* A plain decimal number and a unit, `length` bytes; -1: it is none. */
static double read_quantity(const char *text, size_t length, const unit *units)
{
    char copy[32];
    if (length == 0 || length >= sizeof copy) return -1.0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    size_t digits = strspn(copy, "0123456789.");
    char *end = NULL;
    errno = 0;
    /* strtod alone would also take signs, spaces, exponents, "nan" and hexadecimal digits. */
    double number = digits > 0 ? strtod(copy, &end) : -1.0;
    if (digits == 0 || errno != 0 || end != copy + digits) return -1.0;
    for (const unit *u = units; u->name != NULL; u++)
        if (strcmp(end, u->name) == 0) return number * u->size;
    return -1.0;
}

ls_status ls_link_parse(const char *option, const char *text, ls_link *ret_link)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    const char *comma = strchr(text, ',');
    double latency = -1.0, rate = -1.0;
    ls_thread_mode_set(&mode);
    if (comma != NULL) {
        latency = read_quantity(text, (size_t)(comma - text), times);
        rate = strcmp(comma + 1, "inf") == 0 ? 0.0
                                             : read_quantity(comma + 1, strlen(comma + 1), rates);
        if (rate == 0.0 && strcmp(comma + 1, "inf") != 0) rate = -1.0; /* nothing would arrive */
    }
    if (!(latency >= 0.0 && latency <= LONGEST_LATENCY_NS && rate >= 0.0))
        LS_FAIL(LS_ERR_INPUT,
                "%s %s: must be LATENCY,BANDWIDTH: a time of 0 to 10 s in ns, us, ms or s, and a "
                "rate above 0 in B/s, KB/s, MB/s, GB/s or TB/s, or inf; 5us,10GB/s",
                option, ls_show(text));
    *ret_link = (ls_link){latency, rate};
exit:
    ls_thread_mode_restore(&mode);
    return status;
}

static double moving_ns(const ls_link *link, double bytes)
{
    return link->bytes_per_ns > 0.0 ? bytes / link->bytes_per_ns : 0.0;
}

double ls_link_message_ns(const ls_link *link, uint64_t bytes)
{
    return link->latency_ns + moving_ns(link, (double)bytes);
}

double ls_link_collective_ns(const ls_link *link, ls_operation operation, int members,
                             uint64_t most, uint64_t all)
{
    if (members < 2) return 0.0;
    double others = members - 1.0, part = others / members;
    double n = (double)most, L = link->latency_ns;
    switch (operation) {
    case LS_OP_ALL_REDUCE:
        return moving_ns(link, 2.0 * part * n) + 2.0 * others * L;
    case LS_OP_REDUCE_SCATTER:
        return moving_ns(link, part * n) + others * L;
    case LS_OP_ALL_GATHER:
        return moving_ns(link, part * (double)all) + others * L;
    case LS_OP_ALL_TO_ALL:
        return moving_ns(link, n) + others * L;
    default:
        return moving_ns(link, n) + ceil(log2(members)) * L;
    }
}
