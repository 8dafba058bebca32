#include "lockstep/partition/layout.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

int ls_layout_ranks(const ls_layout *layout)
{
    long long ranks = 1;
    const int degrees[] = {layout->tp, layout->cp, layout->dp, layout->pp};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        ranks *= degrees[i];
        if (degrees[i] < 1 || ranks > INT_MAX) return -1;
    }
    return (int)ranks;
}

ls_coordinates ls_layout_coordinates(const ls_layout *layout, int rank)
{
    ls_coordinates at;
    at.tp = rank % layout->tp;
    rank /= layout->tp;
    at.cp = rank % layout->cp;
    rank /= layout->cp;
    at.dp = rank % layout->dp;
    at.pp = rank / layout->dp;
    return at;
}

int ls_layout_rank(const ls_layout *layout, ls_coordinates at)
{
    return at.tp + layout->tp * (at.cp + layout->cp * (at.dp + layout->dp * at.pp));
}

void ls_layout_describe(const ls_layout *layout, char *buffer, size_t size)
{
    /* From the outermost axis to the innermost, as the literature says it: dp x pp x tp. */
    const struct {
        const char *name;
        int degree;
    } axes[] = {{"dp", layout->dp}, {"pp", layout->pp}, {"cp", layout->cp}, {"tp", layout->tp}};
    char text[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        if (axes[i].degree == 1) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %d", used ? " x " : "",
                                 axes[i].name, axes[i].degree);
    }
    snprintf(buffer, size, "%s", used ? text : "one rank");
}
