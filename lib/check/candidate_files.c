/* candidate_files.c - which files a candidate is, and which rank wrote each. */
#include "check/candidate_files.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"
#include "base/error_record.h"
#include "base/path.h"
#include "lockstep/base/show.h"
#include "lockstep/parallel/layout/sharding.h"
#include "golden/golden_files.h"

/* A system maps some ten thousand files at once. */
enum { MOST_FILES = 1 << 14, MOST_RANKS = 1 << 20 };

bool ls_candidate_passed_over(const char *name)
{
    static const char *const names[] = {"weights.safetensors", "batch.safetensors",
                                        "masks.safetensors", "truth.safetensors"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* ---- finding them ---- */

static ls_status add(ls_candidate_files *files, const char *folder, const char *name)
{
    ls_status status = LS_OK;
    if (files->count == MOST_FILES)
        LS_FAIL(LS_ERR_INPUT, "%s: more than %d safetensors files", ls_show(files->path),
                MOST_FILES);
    LS_GROW(files->files, files->count, files->room);
    ls_candidate_file *file = &files->files[files->count];
    *file = (ls_candidate_file){NULL, -1, NULL};
    if (folder)
        LS_TRY(ls_manifest_path(&file->path, folder, name));
    else
        LS_COPY(file->path, name);
    files->count++;
exit:
    return status;
}

/* "rank-NNN.safetensors": the number, up to MOST_RANKS; -1: another name. */
static int rank_of_name(const char *path)
{
    static const char before[] = "rank-", behind[] = ".safetensors";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int rank = 0;
    if (strncmp(name, before, sizeof before - 1) != 0) return -1;
    name += sizeof before - 1;
    if (*name < '0' || *name > '9') return -1;
    for (; *name >= '0' && *name <= '9'; name++)
        if (rank < MOST_RANKS) rank = 10 * rank + (*name - '0');
    return strcmp(name, behind) == 0 ? rank : -1;
}

/* *ret_other: files that are no safetensors but arrays of NumPy. */
static ls_status list(ls_candidate_files *files, const char *folder, bool ranks_alone,
                      size_t *ret_other)
{
    ls_status status = LS_OK;
    DIR *directory = opendir(folder);
    if (!directory)
        LS_FAIL(LS_ERR_IO, "%s: cannot be listed: %s", ls_show(folder), ls_show_errno(errno));
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        const char *name = entry->d_name;
        if (name[0] == '.') continue;
        *ret_other += ls_path_ends_with(name, ".npy") || ls_path_ends_with(name, ".npz");
        if (!ls_path_ends_with(name, ".safetensors") || ls_candidate_passed_over(name)) continue;
        if (ranks_alone && rank_of_name(name) < 0) continue;
        LS_TRY(add(files, folder, name));
    }
exit:
    if (directory) closedir(directory);
    return status;
}

static int compare_paths(const void *left, const void *right)
{
    const ls_candidate_file *a = left, *b = right;
    return strcmp(a->path, b->path);
}

/* A golden directory as a candidate must have begun with the same numbers. A manifest that cannot
 * be read is not compared. */
static ls_status check_start(const ls_golden *golden, const char *path)
{
    static const char *const names[] = {"weights.safetensors", "batch.safetensors"};
    ls_status status = LS_OK;
    char *manifest = NULL;
    json_t *root = NULL;
    LS_TRY(ls_manifest_path(&manifest, path, "manifest.json"));
    if (ls_manifest_load(&root, manifest) != LS_OK) goto exit;
    const char *dtype = json_string_value(json_object_get(root, "dtype"));
    const bool same_dtype =
        dtype && strcmp(dtype, golden->run.dtype == LS_F64 ? "f64" : "f32") == 0;
    for (int i = same_dtype ? 0 : 1; i < 2; i++) {
        const json_t *entry = json_object_get(json_object_get(root, "files"), names[i]);
        const char *theirs = json_string_value(json_object_get(entry, "sha256"));
        const ls_manifest_file *ours = ls_golden_listed(golden->files, names[i]);
        if (theirs && ours && strcmp(theirs, ours->sha256) != 0)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: is a golden directory of a run that began otherwise: its %s has the "
                    "SHA-256 %.16s..., that of %s %.16s...",
                    ls_show(path), names[i], ls_show(theirs), ls_show(golden->path), ours->sha256);
    }
exit:
    json_decref(root);
    free(manifest);
    return status;
}

static ls_status find_in_folder(ls_candidate_files *files, const ls_golden *golden,
                                const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    char *ranks = NULL;
    size_t other = 0;
    const bool is_golden = ls_manifest_is_golden(path);
    if (is_golden) LS_TRY(check_start(golden, path));
    LS_TRY(list(files, path, false, &other));
    LS_TRY(ls_manifest_path(&ranks, path, "ranks"));
    /* A golden directory has what its ranks held next to the whole: that is the same once more. */
    if (stat(ranks, &about) == 0 && S_ISDIR(about.st_mode) && (files->count == 0 || !is_golden))
        LS_TRY(list(files, ranks, true, &other));
    if (files->count == 0)
        LS_FAIL(LS_ERR_INPUT, "%s: a directory without a candidate's .safetensors files%s",
                ls_show(path),
                other ? "; arrays of NumPy (.npy, .npz) have no names: write one safetensors file"
                      : "; weights, batch, masks and truth are passed over");
    qsort(files->files, files->count, sizeof *files->files, compare_paths);
exit:
    free(ranks);
    return status;
}

/* ---- ranks ---- */

/* A number of __metadata__ below `most`; -1: it says none. */
static ls_status metadata_number(const ls_candidate_file *file, const char *key, int most,
                                 int *ret_number)
{
    ls_status status = LS_OK;
    const char *text = ls_safetensors_metadata(file->file, key);
    int number = 0;
    *ret_number = -1;
    if (!text) goto exit;
    bool good = *text != '\0';
    for (const char *c = text; good && *c; c++) {
        good = *c >= '0' && *c <= '9' && number < most;
        if (good) number = 10 * number + (*c - '0');
    }
    if (!good || number > most)
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ %s \"%s\": must be a whole number from 0 to %d",
                ls_show(file->path), key, ls_show(text), most);
    *ret_number = number;
exit:
    return status;
}

static ls_status read_rank(ls_candidate_files *files, ls_candidate_file *file)
{
    ls_status status = LS_OK;
    const int by_name = rank_of_name(file->path);
    int rank, ranks;
    LS_TRY(metadata_number(file, "rank", MOST_RANKS, &rank));
    LS_TRY(metadata_number(file, "ranks", MOST_RANKS, &ranks));
    if (by_name >= MOST_RANKS)
        LS_FAIL(LS_ERR_INPUT, "%s: ranks are numbered from 0 to %d", ls_show(file->path),
                MOST_RANKS - 1);
    if (rank >= 0 && by_name >= 0 && rank != by_name)
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ says that it is rank %d's, its name says %d's",
                ls_show(file->path), rank, by_name);
    file->rank = rank >= 0 ? rank : by_name;
    if (ranks < 0) goto exit;
    if (file->rank < 0)
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ says ranks %d and not which rank this is",
                ls_show(file->path), ranks);
    if (file->rank >= ranks)
        LS_FAIL(LS_ERR_INPUT, "%s: is rank %d's of %d; they are numbered from 0 to %d",
                ls_show(file->path), file->rank, ranks, ranks - 1);
    if (files->ranks > 0 && files->ranks != ranks)
        LS_FAIL(LS_ERR_INPUT, "%s: __metadata__ says ranks %d, another rank's file says %d",
                ls_show(file->path), ranks, files->ranks);
    files->ranks = ranks;
exit:
    return status;
}

/* Every rank once. */
static ls_status check_ranks(ls_candidate_files *files)
{
    ls_status status = LS_OK;
    size_t found = 0;
    int most = -1;
    const ls_candidate_file **of = NULL;
    for (size_t i = 0; i < files->count; i++) {
        found += files->files[i].rank >= 0;
        if (files->files[i].rank > most) most = files->files[i].rank;
    }
    if (found == 0) goto exit;
    if (files->ranks == 0) files->ranks = most + 1;
    for (size_t i = 0; i < files->count; i++) /* what the others say holds for who says nothing */
        if (files->files[i].rank >= files->ranks)
            LS_FAIL(LS_ERR_INPUT, "%s: is rank %d's of %d; they are numbered from 0 to %d",
                    ls_show(files->files[i].path), files->files[i].rank, files->ranks,
                    files->ranks - 1);
    LS_NEW(of, (size_t)most + 1);
    for (size_t i = 0; i < files->count; i++) {
        const ls_candidate_file *file = &files->files[i];
        if (file->rank < 0) continue;
        if (of[file->rank])
            LS_FAIL(LS_ERR_INPUT, "%s and %s are both rank %d's", ls_show(of[file->rank]->path),
                    ls_show(file->path), file->rank);
        of[file->rank] = file;
    }
    if (found < (size_t)files->ranks) {
        int missing = 0;
        while (missing <= most && of[missing]) missing++;
        LS_FAIL(LS_ERR_INPUT, "%s: rank %d's file is missing: %zu of %d ranks' are here%s",
                ls_show(files->path), missing, found, files->ranks,
                files->count == 1 ? "; name the directory that holds them all" : "");
    }
exit:
    free(of);
    return status;
}

static ls_status read_layout(ls_candidate_files *files, const ls_golden *golden,
                             const ls_candidate_file *file)
{
    ls_status status = LS_OK;
    const char *text = ls_safetensors_metadata(file->file, "layout");
    ls_layout layout;
    char label[600], ours[LS_LAYOUT_TEXT], others[LS_LAYOUT_TEXT];
    if (!text || file->rank < 0) goto exit;
    snprintf(label, sizeof label, "%s: __metadata__ layout", ls_show(file->path));
    LS_TRY(ls_layout_parse(label, text, &layout));
    ls_layout_describe(&layout, ours, sizeof ours);
    if (files->has_layout) {
        ls_layout_describe(&files->layout, others, sizeof others);
        if (strcmp(ours, others) != 0)
            LS_FAIL(LS_ERR_INPUT, "%s \"%.200s\": %s says \"%.200s\"", label, ours,
                    ls_show(files->layout_from), others);
        goto exit;
    }
    const int ranks = ls_layout_ranks(&layout);
    if (ranks < 0)
        LS_FAIL(LS_ERR_INPUT, "%s \"%.200s\": has more ranks than can be counted", label, ours);
    if (ranks != files->ranks)
        LS_FAIL(LS_ERR_INPUT, "%s \"%.200s\": has %d ranks; there are files of %d", label, ours,
                ranks, files->ranks);
    ls_config config = golden->run.config;
    config.batch = golden->run.batch;
    status = ls_layout_check(&layout, &config);
    if (status != LS_OK) {
        char prefix[900];
        snprintf(prefix, sizeof prefix, "%s: ", label);
        status = ls_error_adopt(ls_error_current(), prefix);
        goto exit;
    }
    files->has_layout = true;
    files->layout = layout;
    files->layout_from = file->path;
exit:
    return status;
}

/* ---- the whole ---- */

ls_status ls_candidate_files_open(ls_candidate_files *files, const ls_golden *golden,
                                  const char *path)
{
    ls_status status = LS_OK;
    struct stat about;
    LS_COPY(files->path, path);
    if (stat(path, &about) != 0)
        LS_FAIL(errno == EACCES ? LS_ERR_IO : LS_ERR_INPUT, "%s: %s", ls_show(path),
                ls_show_errno(errno));
    if (S_ISDIR(about.st_mode)) {
        LS_TRY(find_in_folder(files, golden, path));
    } else {
        if (ls_path_ends_with(path, ".npy") || ls_path_ends_with(path, ".npz"))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: an array of NumPy has no name of a tensor; a candidate is a safetensors "
                    "file or a directory of them",
                    ls_show(path));
        LS_TRY(add(files, NULL, path));
    }
    for (size_t i = 0; i < files->count; i++) {
        LS_TRY(ls_safetensors_open(&files->files[i].file, files->files[i].path));
        LS_TRY(read_rank(files, &files->files[i]));
    }
    LS_TRY(check_ranks(files));
    for (size_t i = 0; i < files->count; i++) LS_TRY(read_layout(files, golden, &files->files[i]));
exit:
    return status;
}

void ls_candidate_files_close(ls_candidate_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        ls_safetensors_close(&files->files[i].file);
        free(files->files[i].path);
    }
    for (size_t i = 0; i < files->n_owned; i++) free(files->owned[i]);
    ls_foreign_map_destroy(&files->map);
    free(files->files);
    free(files->pieces);
    free(files->blocks);
    free(files->owned);
    free(files->path);
    memset(files, 0, sizeof *files);
}

ls_status ls_candidate_own(ls_candidate_files *files, size_t bytes, void **ret_memory)
{
    ls_status status = LS_OK;
    LS_GROW(files->owned, files->n_owned, files->owned_room);
    void *memory = NULL;
    LS_BYTES(memory, bytes);
    files->owned[files->n_owned++] = memory;
    *ret_memory = memory;
exit:
    return status;
}

/* ---- pieces ---- */

ls_status ls_candidate_add(ls_candidate_files *files, const ls_golden *golden, uint64_t step,
                           int node, ls_candidate_piece *piece)
{
    ls_status status = LS_OK;
    const ls_golden_tensor *tensor = ls_golden_find(golden, step, node);
    if (!tensor)
        LS_FAIL(LS_ERR_INPUT, "%s: tensor %s: the golden directory has no step%llu/%s",
                ls_show(piece->block.file), ls_show(piece->name), (unsigned long long)step,
                golden->graph->nodes[node].name);
    piece->golden = (size_t)(tensor - golden->tensors);
    LS_GROW(files->pieces, files->n_pieces, files->pieces_room);
    files->pieces[files->n_pieces++] = *piece;
exit:
    return status;
}

ls_candidate_block ls_candidate_block_of(const ls_candidate_file *file, const ls_tensor_info *info,
                                         int micro_batch)
{
    return (ls_candidate_block){.rank = file->rank,
                                .micro_batch = micro_batch,
                                .file = file->path,
                                .dtype = info->dtype,
                                .values = info->data};
}
