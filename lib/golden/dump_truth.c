/* dump_truth.c - the truth of a run, as truth.safetensors, and how far each tensor is from it. */
#include <math.h>
#include <stdlib.h>

#include "golden/bounds.h"
#include "golden/dump_parts.h"

typedef struct truth_file {
    dump *d;
    ls_safetensors_writer *writer;
} truth_file;

static ls_status declare_all(const dump *d, ls_safetensors_writer *writer)
{
    ls_status status = LS_OK;
    char name[LS_TENSOR_NAME];
    uint64_t dims[LS_NODE_DIMS];
    for (size_t i = 0; i < ls_dump_tensor_count(d); i++) {
        const dump_tensor *t = ls_dump_tensor(d, i);
        for (int k = 0; k < t->node->n_dims; k++) dims[k] = t->node->dims[k];
        ls_tensor_name_write(name, t->step, -1, t->node->name);
        LS_TRY(ls_safetensors_declare(writer, name, LS_F64, t->node->n_dims, dims));
    }
exit:
    return status;
}

/* Equal infinities are no distance apart; a NaN next to a number is at infinity. */
static double distance(double value, double truth)
{
    if (value == truth || (isnan(value) && isnan(truth))) return 0;
    const double error = fabs(value - truth);
    return isnan(error) ? HUGE_VAL : error;
}

static double *place(void *context, uint64_t step, int node)
{
    const truth_file *file = context;
    const dump *d = file->d;
    return ls_safetensors_place(file->writer,
                                (size_t)(step - d->first_step) * d->graph->count + (size_t)node);
}

/* Largest distance of a tensor from its truth. */
static double farthest(const dump_tensor *t, const double *truth)
{
    double worst = 0;
    for (size_t i = 0; i < t->count; i++) {
        const double value = t->dtype == LS_F64 ? ((const double *)t->values)[i]
                                                : (double)((const float *)t->values)[i];
        worst = fmax(worst, distance(value, truth[i]));
    }
    return worst;
}

static void advance(void *context, uint64_t done, uint64_t of, const char *what)
{
    const ls_dump_options *options = ((truth_file *)context)->d->options;
    if (options->advance) options->advance(options->context, done, of, what);
}

ls_status ls_dump_write_truth(dump *d)
{
    ls_status status = LS_OK;
    truth_file file = {d, NULL};
    ls_truth *truth = NULL;
    const char *path;
    LS_TRY(ls_dump_path(d, "truth.safetensors", &path));
    LS_TRY(ls_safetensors_create(&file.writer, path));
    LS_TRY(declare_all(d, file.writer));
    LS_TRY(ls_safetensors_map(file.writer));
    const ls_truth_options options = {
        .dtype = d->run.dtype, .context = &file, .place = place, .advance = advance};
    LS_TRY(ls_truth_find(&truth, &d->run, d->graph, &options));
    for (size_t i = 0; i < ls_dump_tensor_count(d); i++) {
        dump_tensor *t = ls_dump_tensor(d, i);
        t->truth_error = farthest(t, ls_safetensors_place(file.writer, i));
        t->bound = ls_truth_bound(truth, t->step, (int)(t->node - d->graph->nodes));
        t->bound_rms = ls_truth_spread(truth, t->step, (int)(t->node - d->graph->nodes));
    }
    LS_TRY(ls_safetensors_commit(file.writer));
    LS_TRY(ls_dump_note(d, "truth.safetensors", path, false));
exit:
    ls_truth_destroy(&truth);
    ls_safetensors_destroy(&file.writer);
    return status;
}
