/* plan_layers.c - what passes between ranks for each layer of a convolutional network, for people
 * and for programs. */
#include "plan_facts.h"
#include "report/text_table.h"

static const char *grid_text(const ls_layer_grid *grid, char text[64])
{
    snprintf(text, 64, "%dx%dx%dx%d", grid->samples, grid->down, grid->across, grid->channels);
    return text;
}

ls_status print_net_layers(FILE *file, const planned *p)
{
    static const char *const heads[] = {"layer",   "",         "grid",     "forward", "most",
                                        "formula", "backward", "returned", "summed"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    ls_status status = LS_OK;
    const ls_net *net = &p->plan->config.net;
    ls_text_table *table = NULL;
    char number[LS_NUMBER_TEXT], text[64];
    LS_TRY(ls_text_table_create(&table, COLUMNS));
    for (size_t i = 0; i < COLUMNS; i++) LS_TRY(ls_text_table_add(table, "%s", heads[i]));
    for (size_t l = 0; l < net->count; l++) {
        const ls_net_layer_plan *layer = &p->plan->net_layers[l];
        const uint64_t bytes[] = {layer->forward.bytes,  layer->forward.most,   layer->halo_formula,
                                  layer->backward.bytes, layer->returned.bytes, layer->summed};
        LS_TRY(ls_text_table_add(table, "%s", ls_show(net->layers[l].name)));
        LS_TRY(ls_text_table_add(table, "%s", ls_net_kind_name(net->layers[l].kind)));
        LS_TRY(ls_text_table_add(table, "%s", grid_text(&layer->grid, text)));
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
            LS_TRY(
                ls_text_table_add(table, "%s", bytes[i] ? ls_number_text(bytes[i], number) : "-"));
    }
    fputs(
        "\nBytes of each layer in one step. grid: samples x down x across x channels; forward: "
        "received of\nits input (the image is taken from the batch), by all ranks and by the one "
        "that receives most;\nformula: O x edge x channels and the corners, O = (K - 1) / 2, with "
        "as many neighbours as the grid has\n(exact for odd kernels, stride 1 and even cuts); "
        "backward: halos of its output's gradient; returned: its\ninput's gradient to the owners "
        "in another grid; summed: handed into reductions by all:\n",
        file);
    ls_text_table_print(table, file);
exit:
    ls_text_table_destroy(&table);
    return status;
}

json_t *json_net_layers(const ls_plan *plan)
{
    const ls_net *net = &plan->config.net;
    json_t *layers = json_array();
    for (size_t l = 0; l < net->count && plan->net_layers != NULL; l++) {
        const ls_net_layer_plan *layer = &plan->net_layers[l];
        const ls_layer_grid *g = &layer->grid;
        json_array_append_new(
            layers,
            json_pack("{s:s, s:s, s:[iiii], s:o, s:o, s:o, s:o, s:o, s:o}", "layer",
                      net->layers[l].name, "kind", ls_net_kind_name(net->layers[l].kind), "grid",
                      g->samples, g->down, g->across, g->channels, "forward_bytes",
                      json_u64(layer->forward.bytes), "forward_bytes_most",
                      json_u64(layer->forward.most), "halo_formula_bytes",
                      json_u64(layer->halo_formula), "backward_bytes",
                      json_u64(layer->backward.bytes), "returned_bytes",
                      json_u64(layer->returned.bytes), "summed_bytes", json_u64(layer->summed)));
    }
    return layers;
}
