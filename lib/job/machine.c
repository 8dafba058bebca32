#include "job/machine.h"

#include <unistd.h>

#include "lockstep/base/show.h"
#include "report/text_table.h"

double ls_machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (double)pages * (double)page_bytes : 0.0;
}

static const char *bytes_text(double bytes, char buffer[LS_NUMBER_TEXT])
{
    return bytes < 1e19 ? ls_bytes_text((uint64_t)bytes, buffer) : "more than 10 EB";
}

static ls_status count_elements(const ls_config *config, double *ret_elements)
{
    ls_status status = LS_OK;
    ls_param_table *table = NULL;
    LS_TRY(ls_param_table_create(&table, config));
    *ret_elements = (double)ls_param_table_elements(table);
exit:
    ls_param_table_destroy(&table);
    return status;
}

/* A network also keeps every output of the batch, and backward as many gradients. */
static ls_status machine_holds_net(const ls_run *run, double parameters, double there)
{
    ls_status status = LS_OK;
    char need_text[LS_NUMBER_TEXT], there_text[LS_NUMBER_TEXT];
    const ls_net *net = &run->config.net;
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    double elements = (double)ls_net_shape_elements(&shapes.image);
    for (size_t l = 0; l < net->count; l++)
        elements += (double)ls_net_shape_elements(&shapes.layer[l]);
    const double need =
        parameters + 2.0 * elements * (double)run->batch * (double)ls_dtype_bytes(run->dtype);
    if (there > 0.0 && need > there)
        LS_FAIL(LS_ERR_INPUT,
                "--model %s, --batch %zu: parameters and the outputs of all layers take %s, this "
                "machine has %s",
                ls_show(run->config.name), run->batch, bytes_text(need, need_text),
                bytes_text(there, there_text));
exit:
    return status;
}

ls_status ls_machine_holds_model(const ls_run *run)
{
    ls_status status = LS_OK;
    char need_text[LS_NUMBER_TEXT], there_text[LS_NUMBER_TEXT];
    double elements = 0.0, there = ls_machine_bytes();
    LS_TRY(count_elements(&run->config, &elements));
    /* Value, gradient and two moments: a store has room for both, whatever the optimizer. */
    double need = 4.0 * elements * (double)ls_dtype_bytes(run->dtype);
    if (run->config.kind == LS_MODEL_NET) {
        LS_TRY(machine_holds_net(run, need, there));
        goto exit;
    }
    if (there > 0.0 && need > there)
        LS_FAIL(LS_ERR_INPUT,
                "--layers %zu, --d-model %zu, --d-ff %zu, --vocab %zu: %.3g parameters with "
                "gradients and optimizer state take %s, this machine has %s",
                run->config.layers, run->config.d_model, run->config.d_ff, run->config.vocab,
                elements, bytes_text(need, need_text), bytes_text(there, there_text));
exit:
    return status;
}

ls_status ls_machine_plan(ls_plan **ret_plan, const ls_run *run)
{
    ls_plan_setup setup = {&run->config, &run->layout, run->batch, run->dtype, run->gathered_loss};
    return ls_plan_create(ret_plan, &setup);
}

ls_status ls_machine_holds_layout(const ls_run *run)
{
    ls_status status = LS_OK;
    char need_text[LS_NUMBER_TEXT], there_text[LS_NUMBER_TEXT];
    ls_plan *plan = NULL;
    double there = ls_machine_bytes();
    if (run->serial || there <= 0.0) return LS_OK;
    LS_TRY(ls_machine_plan(&plan, run));
    const double need = ls_plan_bytes(plan);
    char layout[256];
    ls_layout_describe(&run->layout, layout, sizeof layout);
    if (run->config.kind == LS_MODEL_NET && need > there)
        LS_FAIL(LS_ERR_INPUT,
                "--batch %zu, %s: this layout needs at least %s on %d rank%s; this machine has %s",
                run->batch, layout, bytes_text(need, need_text), plan->ranks,
                plan->ranks == 1 ? "" : "s together", bytes_text(there, there_text));
    if (need > there)
        LS_FAIL(LS_ERR_INPUT,
                "--tp %d, --pp %d, --dp %d, --batch %zu: this layout needs at least %s on %d "
                "rank%s%s; this machine has %s",
                run->layout.tp, run->layout.pp, run->layout.dp, run->batch,
                bytes_text(need, need_text), plan->ranks, plan->ranks == 1 ? "" : "s",
                plan->ranks == 1 ? "" : " together", bytes_text(there, there_text));
exit:
    ls_plan_destroy(&plan);
    return status;
}

ls_status ls_machine_holds_layouts(const ls_run *run, const ls_layout *layouts, size_t count)
{
    ls_status status = LS_OK;
    ls_run one = *run;
    for (size_t i = 0; i < count; i++) {
        one.layout = layouts[i];
        LS_TRY(ls_machine_holds_layout(&one));
    }
exit:
    return status;
}

ls_status ls_machine_holds_record(const ls_run *run, bool truth)
{
    ls_status status = LS_OK;
    char need_text[LS_NUMBER_TEXT], there_text[LS_NUMBER_TEXT];
    double elements = 0.0, there = 0.8 * ls_machine_bytes();
    /* How many steps a loaded checkpoint leaves to do is not known yet. */
    if (run->load != NULL) goto exit;
    LS_TRY(count_elements(&run->config, &elements));
    double step = 2.0 * elements * ((double)ls_dtype_bytes(run->dtype) + (truth ? 8.0 : 0.0));
    double need = step * (double)run->steps;
    if (there <= 0.0 || need <= there) goto exit;
    if (there < step)
        LS_FAIL(LS_ERR_INPUT,
                "--steps %llu: verify keeps %s of gradients and parameters per step, %s of memory "
                "are free for it; the model is too large",
                (unsigned long long)run->steps, bytes_text(step, need_text),
                bytes_text(there, there_text));
    LS_FAIL(LS_ERR_INPUT,
            "--steps %llu: verify keeps %s of gradients and parameters, %s of memory are free for "
            "it; use at most %llu steps",
            (unsigned long long)run->steps, bytes_text(need, need_text),
            bytes_text(there, there_text), (unsigned long long)(there / step));
exit:
    return status;
}
