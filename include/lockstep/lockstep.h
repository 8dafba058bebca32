/* lockstep.h - the front door: train, verify, plan, dump, check and judge.
 *
 * A job is a model, a layout and the options of a run. Its options have the names and values of the
 * command line, `lockstep train --help` lists them:
 *
 *     ls_job *job = NULL;
 *     if (ls_job_create(&job) != LS_OK || ls_job_set(job, "tp", "4") != LS_OK ||
 *         ls_job_set(job, "steps", "20") != LS_OK || ls_job_train(job) != LS_OK)
 *         fprintf(stderr, "%s\n", ls_error_text());
 *     else
 *         printf("%s\n", ls_job_word(job, "digest"));
 *     ls_job_destroy(&job);
 *
 * Every function that can fail returns an ls_status; the text is that of ls_error_text()
 * (base/status.h). This file, base/status.h and conformance/judge.h (ls_judge: another
 * implementation's functions judged in process) are what a program can rely on: within one major
 * version declarations stay, are only added, and a program linked with an older version runs. The
 * headers of the rooms, all in parts.h, are for those who build from parts; they may change.
 *
 * A job belongs to one thread at a time; ls_job_stop may come from any thread or a signal handler.
 */
#ifndef LS_LOCKSTEP_H
#define LS_LOCKSTEP_H

#include <stdint.h>

#include "lockstep/base/status.h"
#include "lockstep/conformance/judge.h"

LS_BEGIN_DECLS

/* Of the headers; ls_version() says that of the library which runs. */
#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0
#define LS_VERSION "0.1.0"

/* "0.1.0" */
LS_API const char *ls_version(void);

/* ---- a job ---- */

typedef struct ls_job ls_job;

/* A job with every option at its default: gpt2-nano on one rank. Errors: LS_ERR_MEMORY. */
LS_API ls_status ls_job_create(ls_job **ret_job) LS_MUST_USE;

/* Takes a pointer to the pointer, NULL allowed. */
LS_API void ls_job_destroy(ls_job **job);

/* Sets an option, "model", "tp", "steps", "load", ..., in place of what it was set to before; both
 * texts are copied. A flag ("sp") takes "on" or "off". value NULL: the default again. The value is
 * read, and all options are checked together, when an action begins. Errors: LS_ERR_INPUT: no
 * action has an option of this name, the text names the nearest; LS_ERR_MEMORY. */
LS_API ls_status ls_job_set(ls_job *job, const char *option, const char *value) LS_MUST_USE;

/* Called after every step of a training run, by one thread at a time: step is the number of steps
 * done, norm that of the gradient before clipping. A status other than LS_OK ends the run. */
typedef ls_status ls_job_step(void *context, uint64_t step, double loss, double norm);

/* step NULL: no calls. */
LS_API void ls_job_on_step(ls_job *job, ls_job_step *step, void *context);

/* Ends the action under way with LS_ERR_INTERRUPTED, and every later one. */
LS_API void ls_job_stop(ls_job *job);

/* ---- actions ----
 *
 * Errors of all: LS_ERR_INPUT, one line that names an option, what was found and what is allowed,
 * before anything runs; LS_ERR_IO, LS_ERR_MEMORY, LS_ERR_RANK, LS_ERR_INTERRUPTED. After a failure
 * no file is left half written. What an action found is asked for by name (below). */

/* Trains in the layout; with "save" writes a checkpoint that every layout loads.
 * Numbers: first_step, last_step, first_loss, last_loss, tokens, ranks, seconds.
 * Words: digest (SHA-256 of all losses and parameters). */
LS_API ls_status ls_job_train(ls_job *job) LS_MUST_USE;

/* Runs the same training serially and in the layout ("layouts": in several; "sweep": in every one
 * of at most so many ranks) and compares every loss, gradient and parameter bit for bit. LS_OK: all
 * are equal; LS_DIFFERENT.
 * Numbers: layouts, bit_exact, different. Words: difference (the first: layout, step, tensor,
 * index, both values). */
LS_API ls_status ls_job_verify(ls_job *job) LS_MUST_USE;

/* What the layout will hold and send; nothing runs.
 * Numbers: parameters, ranks, rank_bytes (the largest rank's peak), bytes (all ranks'), sent_bytes
 * (of all ranks in one step), bubble (share of the pipeline's time). */
LS_API ls_status ls_job_plan(ls_job *job) LS_MUST_USE;

/* Writes every tensor of the run as a golden directory, which another implementation is checked
 * against. Numbers: tensors, bytes. Words: digest. */
LS_API ls_status ls_job_dump(ls_job *job, const char *directory) LS_MUST_USE;

/* Judges another implementation's tensors, a folder or file, against a golden directory. LS_OK: all
 * are equal or explained by rounding; LS_DIFFERENT: some are not, or nothing could be judged.
 * Options: map, only, complete, computed, quick, threads (`lockstep check --help`).
 * Numbers: tensors, equal, explained, different, not_judged, mistakes. Words: first (tensor that
 * differs), cause (key of the first mistake), mistake (the same in words), evidence, remedy. */
LS_API ls_status ls_job_check(ls_job *job, const char *golden, const char *candidate) LS_MUST_USE;

/* ---- what the last action found ---- */

/* NaN: it found no number of this name. */
LS_API double ls_job_number(const ls_job *job, const char *name);

/* "": it found no text of this name. Valid until the next action. */
LS_API const char *ls_job_word(const ls_job *job, const char *name);

LS_END_DECLS

#endif
