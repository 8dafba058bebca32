#include "job/layout_words.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"

enum { HIGHEST = 1 << 20 };

/* "3,2,2": the layers of each stage. */
static ls_status read_partition(const char *text, ls_layout *layout)
{
    ls_status status = LS_OK;
    const char *at = text;
    while (text != NULL) {
        char *end;
        long layers = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || (*end != ',' && *end != '\0') ||
            layers > HIGHEST)
            LS_FAIL(LS_ERR_INPUT,
                    "--partition %s: give the number of layers of each stage, such as 3,2,2",
                    ls_show(text));
        if (layout->given == LS_MAX_STAGES)
            LS_FAIL(LS_ERR_INPUT, "--partition %s: more than %d stages", ls_show(text),
                    LS_MAX_STAGES);
        layout->stage_layers[layout->given++] = (int)layers;
        if (*end == '\0') break;
        at = end + 1;
    }
exit:
    return status;
}

/* "2x1": n numbers with an x between, and nothing else in `length` bytes. */
static bool read_numbers(const char *at, size_t length, int n, int *ret_numbers)
{
    const char *end = at + length;
    for (int i = 0; i < n; i++) {
        long number = 0;
        const char *begin = at;
        for (; at < end && *at >= '0' && *at <= '9' && number <= HIGHEST; at++)
            number = 10 * number + (*at - '0');
        if (at == begin || number < 1 || number > HIGHEST) return false;
        ret_numbers[i] = (int)number;
        if (i + 1 < n && (at == end || *at++ != 'x')) return false;
    }
    return at == end;
}

static ls_status read_spatial(const char *text, ls_layout *layout)
{
    ls_status status = LS_OK;
    int numbers[2];
    if (text == NULL) return LS_OK;
    if (!read_numbers(text, strlen(text), 2, numbers))
        LS_FAIL(LS_ERR_INPUT,
                "--spatial %s: give rows x columns of ranks over an image, such as 2x1",
                ls_show(text));
    layout->down = numbers[0];
    layout->across = numbers[1];
exit:
    return status;
}

/* The number of a layer of the network; -1 when it has none of that name. */
static int find_layer(const ls_net *net, const char *name, size_t length)
{
    for (size_t l = 0; l < net->count; l++)
        if (strlen(net->layers[l].name) == length && memcmp(net->layers[l].name, name, length) == 0)
            return (int)l;
    return -1;
}

static ls_status refuse_name(const ls_config *config, const char *part, size_t length)
{
    ls_status status = LS_OK;
    const ls_net *net = &config->net;
    const char *names[LS_NET_LAYERS], *near = NULL;
    char name[LS_NET_NAME_BYTES] = "";
    if (length < sizeof name) {
        memcpy(name, part, length);
        for (size_t l = 0; l < net->count; l++) names[l] = net->layers[l].name;
        near = ls_nearest(name, names, net->count);
    }
    if (near != NULL)
        LS_FAIL(LS_ERR_INPUT, "--strategy %s: %s has no layer of that name; the nearest is %s",
                ls_show_bytes(part, length), ls_show(config->name), near);
    LS_FAIL(LS_ERR_INPUT, "--strategy %s: %s has no layer of that name; its layers are %s to %s",
            ls_show_bytes(part, length), ls_show(config->name), net->layers[0].name,
            net->layers[net->count - 1].name);
exit:
    return status;
}

/* Puts one in its place: they are in the order of the layers. */
static void insert(ls_layout *layout, ls_strategy strategy)
{
    int at = layout->n_strategies++;
    for (; at > 0 && layout->strategies[at - 1].layer > strategy.layer; at--)
        layout->strategies[at] = layout->strategies[at - 1];
    layout->strategies[at] = strategy;
}

/* "conv2=4x1x1x2", of `length` bytes. */
static ls_status read_strategy(const char *part, size_t length, const ls_config *config,
                               ls_layout *layout)
{
    ls_status status = LS_OK;
    const char *equals = memchr(part, '=', length);
    const size_t name = equals != NULL ? (size_t)(equals - part) : length;
    int numbers[4];
    if (equals == NULL || !read_numbers(equals + 1, length - name - 1, 4, numbers))
        LS_FAIL(LS_ERR_INPUT,
                "--strategy %s: give a layer and its grid of ranks, samples x down x across x "
                "channels, such as %s=2x1x1x2",
                length == 0 ? "\"\"" : ls_show_bytes(part, length), config->net.layers[0].name);
    const int layer = find_layer(&config->net, part, name);
    if (layer < 0) LS_TRY(refuse_name(config, part, name));
    for (int s = 0; s < layout->n_strategies; s++)
        if (layout->strategies[s].layer == layer)
            LS_FAIL(LS_ERR_INPUT, "--strategy %s: the layer has one already; give it one",
                    ls_show_bytes(part, length));
    if (layout->n_strategies == LS_MAX_STRATEGIES)
        LS_FAIL(LS_ERR_INPUT, "--strategy %s: more than %d layers", ls_show_bytes(part, length),
                LS_MAX_STRATEGIES);
    insert(layout, (ls_strategy){layer, {numbers[0], numbers[1], numbers[2], numbers[3]}});
exit:
    return status;
}

static ls_status read_strategies(const char *text, const ls_config *config, ls_layout *layout)
{
    ls_status status = LS_OK;
    if (text == NULL) return LS_OK;
    LS_TRY(ls_config_require(config, LS_MODEL_NET, "--strategy"));
    for (const char *part = text;;) {
        const size_t length = strcspn(part, ",");
        LS_TRY(read_strategy(part, length, config, layout));
        if (part[length] == '\0') break;
        part += length + 1;
    }
exit:
    return status;
}

ls_status ls_layout_words_read(const ls_layout_words *words, const ls_config *config,
                               ls_layout *layout)
{
    ls_status status = LS_OK;
    LS_TRY(read_partition(words->partition, layout));
    LS_TRY(read_spatial(words->spatial, layout));
    LS_TRY(read_strategies(words->strategy, config, layout));
exit:
    return status;
}
