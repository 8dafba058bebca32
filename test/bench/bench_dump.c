/* bench_dump - what writing a run down costs, beside the run itself.
 *
 *     bench_dump [directory]        default: the current one; a folder is made in it and removed
 *
 * A step of a small GPT on 2 ranks is run, then dumped: whole tensors, and per rank too. Times are
 * of everything, the files flushed to the disk; "MB/s" is what was written in that time. "memory"
 * is the most that the process had of its own (on Linux: resident pages that are no file's), which
 * should be the run's and the largest tensor's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "golden/dump.h"

static _Atomic long most_pages;
static atomic_int ended;

/* Samples the process's own pages. */
static void *watch_memory(void *argument)
{
    (void)argument;
    while (!atomic_load(&ended)) {
        long size = 0, resident = 0, shared = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file) return NULL;
        if (fscanf(file, "%ld %ld %ld", &size, &resident, &shared) == 3 &&
            resident - shared > atomic_load(&most_pages))
            atomic_store(&most_pages, resident - shared);
        fclose(file);
        usleep(1000);
    }
    return NULL;
}

static ls_run small_run(const ls_text *text)
{
    ls_config config;
    ls_run run;
    if (ls_config_named("gpt2-nano", &config) != LS_OK) abort();
    config.layers = 4;
    config.d_model = 384;
    config.heads = config.kv_heads = 12;
    config.d_ff = 1536;
    config.seq = 128;
    config.batch = 4;
    ls_run_defaults(&run, &config);
    run.text = text;
    run.steps = 1;
    run.layout.tp = 2;
    return run;
}

typedef enum job { TRAIN, WHOLE, PER_RANK, JOBS } job;

static ls_status do_job(job what, const ls_run *run, const char *folder, uint64_t *ret_bytes)
{
    ls_status status = LS_OK;
    ls_train_result result = {0};
    ls_dump_summary summary;
    ls_dump_options options = {.whole = true, .per_rank = what == PER_RANK};
    *ret_bytes = 0;
    if (what == TRAIN) {
        LS_TRY(ls_train(run, NULL, &result));
    } else {
        LS_TRY(ls_dump(run, folder, &options, &summary));
        *ret_bytes = summary.bytes;
    }
exit:
    ls_train_result_free(&result);
    return status;
}

/* In a process of its own, so that memory is what this job takes. */
static int child(job what, const char *folder)
{
    static const char *const names[JOBS] = {"train", "dump", "dump, per rank"};
    static unsigned char bytes[1 << 16];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(32 + i * i % 95);
    const ls_text text = {bytes, sizeof bytes};
    const ls_run run = small_run(&text);
    pthread_t watcher;
    uint64_t written, begin = ls_clock_ns();
    if (pthread_create(&watcher, NULL, watch_memory, NULL) != 0) return 1;
    const ls_status status = do_job(what, &run, folder, &written);
    const double seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    atomic_store(&ended, 1);
    pthread_join(watcher, NULL);
    if (status != LS_OK) {
        fprintf(stderr, "%s: %s\n", names[what], ls_error_text());
        return 1;
    }
    printf("%-16s %7.2f s  %8.1f MB  %7.1f MB/s  memory %7.1f MB\n", names[what], seconds,
           (double)written * 1e-6, (double)written * 1e-6 / seconds,
           (double)most_pages * (double)sysconf(_SC_PAGESIZE) * 1e-6);
    return 0;
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"manifest.json",
                                        "order.txt",
                                        "weights.safetensors",
                                        "batch.safetensors",
                                        "masks.safetensors",
                                        "forward.safetensors",
                                        "backward.safetensors",
                                        "update.safetensors",
                                        "ranks/rank-000.safetensors",
                                        "ranks/rank-001.safetensors"};
    char path[4200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/ranks", folder);
    rmdir(path);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    char folder[4096];
    int failed = 0;
    snprintf(folder, sizeof folder, "%.4000s/bench-dump-%ld", argc > 1 ? argv[1] : ".",
             (long)getpid());
    for (int j = 0; j < JOBS; j++) {
        int status = 0;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            status = child((job)j, folder);
            fflush(stdout);
            _exit(status);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) failed = 1;
    }
    remove_folder(folder);
    return failed;
}
