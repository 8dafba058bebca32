/* net_samples.c - the images whose logits a rank has. */
#include "parallel/spatial/net_layer_state.h"

/* The smallest run that holds both. */
static ls_share together(ls_share a, ls_share b)
{
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const size_t first = a.first < b.first ? a.first : b.first;
    const size_t a_end = a.first + a.count, b_end = b.first + b.count;
    return (ls_share){first, (a_end > b_end ? a_end : b_end) - first};
}

ls_share ls_sharded_net_samples(const ls_sharded_net *net)
{
    ls_share samples = net->layers[net->net->count - 1].own.images; /* their labels */
    for (size_t n = 0; n < net->net->count; n++)
        for (int i = 0; i < net->layers[n].n_inputs; i++)
            if (net->layers[n].input[i].from == LS_NET_IMAGE)
                samples = together(samples, net->layers[n].input[i].reads.images);
    return samples;
}
