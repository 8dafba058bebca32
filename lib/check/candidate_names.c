/* candidate_names.c - what a name in a candidate's file means: a tensor of the golden run, by its
 * own name or by another program's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "check/candidate_files.h"
#include "golden/golden_files.h"

static const char *const prefixes[] = {"grad.", "clipped.", "param."};
static const char *const prefix_names[] = {"grad", "clipped", "param"};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What is next to a run's tensors in one file with them, and is its input. */
static bool is_input(const char *rest)
{
    static const char *const inputs[] = {"tokens", "targets", "segments", "lengths",
                                         "order",  "images",  "labels"};
    for (int i = 0; i < 7; i++)
        if (strcmp(rest, inputs[i]) == 0) return true;
    return begins(rest, "mask.") || begins(rest, "optimizer.m.") || begins(rest, "optimizer.v.");
}

/* The part of a name that some program may know: without step, "grad." and the like. */
static const char *bare(const char *rest, const char **ret_prefix)
{
    for (int i = 0; i < 3; i++)
        if (begins(rest, prefixes[i])) {
            *ret_prefix = prefix_names[i];
            return rest + strlen(prefixes[i]);
        }
    *ret_prefix = NULL;
    return rest;
}

static const char *bare_name_at(const void *context, size_t i)
{
    const char *prefix;
    const ls_safetensors *file = context;
    return bare(ls_tensor_name_parse(ls_safetensors_at(file, i)->name).rest, &prefix);
}

/* ---- unknown names ---- */

/* The name that was meant, of a node or a parameter; NULL. */
static ls_status nearest(const ls_golden *golden, const char *rest, const char **ret_name)
{
    ls_status status = LS_OK;
    const ls_graph *graph = golden->graph;
    const size_t count = graph->count + golden->table->count;
    const char **known = NULL;
    LS_ROOM(known, count);
    for (size_t i = 0; i < graph->count; i++) known[i] = graph->nodes[i].name;
    for (size_t p = 0; p < golden->table->count; p++)
        known[graph->count + p] = golden->table->params[p].name;
    *ret_name = strlen(rest) < LS_TENSOR_NAME ? ls_nearest(rest, known, count) : NULL;
exit:
    free(known);
    return status;
}

static ls_status unknown(const ls_candidate_files *files, const ls_golden *golden,
                         const ls_candidate_file *file, const char *name, const char *rest)
{
    ls_status status = LS_OK;
    const char *meant;
    char hint[160] = "";
    LS_TRY(nearest(golden, rest, &meant));
    const ls_names names =
        files->map ? LS_NAMES_OWN
                   : ls_names_recognise(bare_name_at, file->file, ls_safetensors_count(file->file));
    if (names != LS_NAMES_OWN)
        snprintf(hint, sizeof hint, "; names of %s are read with --map %s", ls_names_title(names),
                 ls_names_option(names));
    LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: the golden run's model has none of that name%s%s%s%s",
            ls_show(file->path), ls_show(name), meant ? "; did you mean \"" : "",
            meant ? meant : "", meant ? "\"?" : "", hint);
exit:
    return status;
}

/* ---- another program's ---- */

/* A name without ".as_head" or ".as_input" and which of them it had. */
static const char *without_use(const char *name, char buffer[LS_TENSOR_NAME], const char **ret_use)
{
    static const char *const uses[] = {".as_head", ".as_input"};
    const size_t length = strlen(name);
    *ret_use = "";
    for (int i = 0; i < 2; i++) {
        const size_t end = strlen(uses[i]);
        if (length <= end || length >= LS_TENSOR_NAME || strcmp(name + length - end, uses[i]) != 0)
            continue;
        *ret_use = uses[i];
        memcpy(buffer, name, length - end);
        buffer[length - end] = '\0';
        return buffer;
    }
    return name;
}

static ls_status understand_foreign(const ls_candidate_files *files, const ls_golden *golden,
                                    const ls_candidate_file *file, const char *name,
                                    const char *rest, ls_candidate_meaning *meaning)
{
    ls_status status = LS_OK;
    char buffer[LS_TENSOR_NAME];
    const char *prefix, *meant, *theirs = bare(rest, &prefix);
    theirs = without_use(theirs, buffer, &meaning->use);
    meaning->prefix = prefix ? prefix : "param";
    meaning->node = -1;
    status = ls_foreign_match(files->map, file->path, theirs, &meaning->foreign);
    if (status == LS_ERR_INPUT) {
        /* Perhaps it is one of ours, misspelt. */
        LS_TRY(nearest(golden, rest, &meant));
        if (meant) {
            ls_error_clear();
            LS_TRY(unknown(files, golden, file, name, rest));
        }
        status = LS_ERR_INPUT;
        goto exit;
    }
    LS_TRY(status);
    meaning->ignored = meaning->foreign == NULL;
exit:
    return status;
}

/* ---- the whole ---- */

static ls_status check_step(const ls_golden *golden, const ls_candidate_file *file,
                            const char *name, uint64_t step)
{
    ls_status status = LS_OK;
    const uint64_t last = golden->first_step + golden->steps - 1;
    if (step >= golden->first_step && step <= last) goto exit;
    if (golden->steps == 1)
        LS_FAIL(LS_ERR_INPUT,
                "%s: tensor %s: step %" PRIu64 "; the golden directory has step %" PRIu64 " alone",
                ls_show(file->path), ls_show(name), step, last);
    LS_FAIL(LS_ERR_INPUT,
            "%s: tensor %s: step %" PRIu64 "; the golden directory has steps %" PRIu64
            " to %" PRIu64,
            ls_show(file->path), ls_show(name), step, golden->first_step, last);
exit:
    return status;
}

ls_status ls_candidate_understand(const ls_candidate_files *files, const ls_golden *golden,
                                  const ls_candidate_file *file, const ls_tensor_info *info,
                                  ls_candidate_meaning *ret_meaning)
{
    ls_status status = LS_OK;
    const ls_tensor_name name = ls_tensor_name_parse(info->name);
    const uint64_t last = golden->first_step + golden->steps - 1;
    ls_candidate_meaning meaning = {.step = name.has_step ? name.step : golden->first_step,
                                    .micro_batch = name.micro_batch,
                                    .node = ls_graph_find(golden->graph, name.rest),
                                    .use = ""};
    if (name.comm || is_input(name.rest)) {
        meaning.ignored = true;
        *ret_meaning = meaning;
        goto exit;
    }
    if (meaning.node < 0) {
        const char *prefix;
        if (ls_param_find_name(golden->table, name.rest) != (size_t)-1) {
            char updated[LS_TENSOR_NAME];
            snprintf(updated, sizeof updated, "param.%s", name.rest);
            meaning.node = ls_graph_find(golden->graph, updated);
            if (!name.has_step) meaning.step = last;
        } else if (files->map) {
            LS_TRY(understand_foreign(files, golden, file, info->name, name.rest, &meaning));
            if (!name.has_step && bare(name.rest, &prefix) == name.rest) meaning.step = last;
        } else {
            LS_TRY(unknown(files, golden, file, info->name, name.rest));
        }
    }
    if (!meaning.ignored) LS_TRY(check_step(golden, file, info->name, meaning.step));
    *ret_meaning = meaning;
exit:
    return status;
}
