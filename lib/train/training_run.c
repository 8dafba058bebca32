#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_mode.h"
#include "io/new_folder.h"
#include "lockstep/comm/trace.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/kernels/batch_norm.h"
#include "train/checkpoint_metadata.h"
#include "train/training.h"
#include "base/allocate.h"

void ls_run_defaults(ls_run *ret_run, const ls_config *config)
{
    memset(ret_run, 0, sizeof *ret_run);
    ret_run->config = *config;
    ret_run->layout = ls_layout_serial();
    ret_run->engine = LS_ENGINE_PORTABLE;
    ret_run->dtype = LS_F32;
    ret_run->seed = 1234;
    ret_run->steps = 20;
    ret_run->batch = config->batch;
    ret_run->optimizer = LS_ADAMW;
    ret_run->lr = config->kind == LS_MODEL_NET ? 3e-3 : 1e-3;
    ret_run->beta1 = 0.9;
    ret_run->beta2 = 0.95;
    ret_run->adam_eps = 1e-8;
    ret_run->weight_decay = 0.1;
    ret_run->clip = 1;
}

/* Whether the batch gives every batch norm a variance. */
static ls_status check_batch_norms(const ls_run *run)
{
    ls_status status = LS_OK;
    const ls_net *net = &run->config.net;
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l < net->count; l++)
        if (ls_net_traits_of(net->layers[l].kind)->batch_statistics)
            LS_TRY(ls_batch_norm_check(net->layers[l].name, run->batch * shapes.layer[l].height *
                                                                shapes.layer[l].width));
exit:
    return status;
}

/* With the run's batch in place of the model's. A description is large for a stack. */
static ls_status check_layout(const ls_run *run)
{
    ls_status status = LS_OK;
    ls_config *config = NULL;
    LS_ROOM(config, 1);
    *config = run->config;
    config->batch = run->batch;
    LS_TRY(ls_layout_check(&run->layout, config));
exit:
    free(config);
    return status;
}

ls_status ls_run_check(const ls_run *run)
{
    ls_status status = LS_OK;
    const bool net = run->config.kind == LS_MODEL_NET;
    LS_TRY(ls_config_check(&run->config));
    if (run->batch < 1)
        LS_FAIL(LS_ERR_INPUT, "--batch 0: a batch has at least one %s", net ? "image" : "sequence");
    if (net) LS_TRY(check_batch_norms(run));
    if (!run->serial) LS_TRY(check_layout(run));
    if (run->dtype != LS_F32 && run->dtype != LS_F64)
        LS_FAIL(LS_ERR_INPUT, "--dtype %s: use f32 or f64", ls_dtype_name(run->dtype));
    if (run->steps > UINT32_MAX)
        LS_FAIL(LS_ERR_INPUT, "--steps %llu: at most %u", (unsigned long long)run->steps,
                UINT32_MAX);
exit:
    return status;
}

ls_status ls_run_check_data(const ls_run *run)
{
    ls_status status = LS_OK;
    if (run->config.kind == LS_MODEL_NET) {
        if (!run->images) LS_FAIL(LS_ERR_INPUT, "a run of a convolutional network needs images");
        LS_TRY(ls_images_check(run->images, "the images", &run->config));
    } else {
        if (!run->text) LS_FAIL(LS_ERR_INPUT, "a run needs a text");
        LS_TRY(ls_text_check_model(run->text, "the text", &run->config));
    }
exit:
    return status;
}

/* Whether the model can be saved under the names that are asked for. */
static ls_status check_names(const ls_run *run, const ls_param_table *table)
{
    ls_status status = LS_OK;
    ls_foreign_map *map = NULL;
    char label[64];
    snprintf(label, sizeof label, "--names %s", ls_names_option(run->names));
    LS_TRY(ls_foreign_map_create(&map, table, run->names, label));
exit:
    ls_foreign_map_destroy(&map);
    return status;
}

ls_status ls_train(const ls_run *run, const ls_train_hooks *watcher, ls_train_result *ret_result)
{
    static const ls_train_hooks nobody;
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_param_table *table = NULL;
    ls_run *seeded = NULL;
    ls_trace *trace = NULL;
    ls_train_result result = {0};
    ls_safetensors_writer *trial = NULL;
    ls_thread_mode_set(&mode);

    LS_ROOM(seeded, 1);
    *seeded = *run;
    LS_TRY(ls_run_check(run));
    if (!run->given) LS_TRY(ls_run_check_data(run));
    LS_TRY(ls_param_table_create(&table, &run->config));
    if (!watcher) watcher = &nobody;
    /* A place that cannot be written is better known before the training than after. */
    if (run->save) {
        LS_TRY(check_names(run, table));
        LS_TRY(ls_safetensors_create(&trial, run->save));
        ls_safetensors_destroy(&trial);
    }
    if (run->trace) {
        LS_TRY(ls_trace_check(run));
        LS_TRY(ls_trace_create(&trace));
        seeded->world.trace = trace;
    }
    /* A run that goes on draws from the stream that it began with, unless told otherwise. */
    if (seeded->load && !seeded->initial && !seeded->seed_given)
        LS_TRY(ls_checkpoint_seed(seeded->load, seeded->seed, &seeded->seed));
    LS_TRY(ls_train_either(seeded, table, watcher, &result));
    if (trace) LS_TRY(ls_trace_save(seeded, table, &result, trace));
    *ret_result = result;
    result.rank = NULL;
exit:
    free(seeded);
    ls_train_result_free(&result);
    ls_trace_destroy(&trace);
    ls_param_table_destroy(&table);
    ls_thread_mode_restore(&mode);
    return status;
}

void ls_train_abandon_files(void)
{
    ls_new_folders_abandon();
}
