/* SPDX-License-Identifier: MIT */
/*
 * llm-bench: measures a matrix of tests and prints one row or object for each.
 *
 *	llm-bench.c	the matrix: engines, and the tests on each
 *	args.c		the command line
 *	run.c		one test: prompts, repetitions, measurements
 *	run_tasks.c	a test of tasks with drafts (tasks.h)
 *	replay.c	a test that replays a trace of drafts
 *	fields.c	a result as named fields
 *	output.c	fields as md, csv, json, jsonl, sql
 */
#ifndef LLM_BENCH_H
#define LLM_BENCH_H

#include <stdio.h>

#include "options.h"
#include "prompts.h"
#include "range.h"
#include "tasks.h"
#include "timeline.h"
#include "tokens.h"

enum bench_format {
	BENCH_NONE,
	BENCH_MD,
	BENCH_CSV,
	BENCH_JSON,
	BENCH_JSONL,
	BENCH_SQL,
};

struct bench_pair {
	unsigned int n_prompt, n_gen;
};

/* What became of the drafts of a generation. */
struct bench_trace {
	struct bench_trace_step {
		unsigned int nodes, tokens; /* of a step's tree; accepted, with the one behind */
	} * steps;
	size_t n;
	uint64_t tokens;
};
/* A line for each step: nodes and tokens. 0, or 1 after a message. Call trace_free() in either
 * case. */
int trace_read(struct bench_trace *trace, const char *path);
void trace_free(struct bench_trace *trace);

struct bench_args {
	char **models;
	size_t n_models;
	struct bench_pair *pairs; /* -pg */
	size_t n_pairs;
	struct range n_prompt, n_gen, n_depth;
	struct range settings[ENGINE_NR_SETTINGS]; /* empty: the preset's, or the default */
	struct range preset; /* numbers of llm_preset() */
	struct llm_options base; /* options that are no lists, for all engines */
	unsigned int repetitions;
	bool warmup, progress, breakdown;
	enum bench_format out, out_err;
	const char *prompt_file;
	uint64_t seed; /* of the prompts, and of the jitter */
	float jitter; /* of the virtual clock's durations */
	bool all_presets;
	bool dry_run;
	char **shapes; /* for a dry run, in place of models */
	size_t n_shapes;
	bool wall_clock; /* --clock wall was given */
	const char *timeline_path; /* NULL: none */
	struct bench_tasks tasks;
	struct bench_trace trace; /* to be replayed */
	const char *trace_path; /* of trace_out */
	FILE *trace_out; /* where the steps of tasks are written; NULL: nowhere */
};

/* Returns 0 to go on, or 1 to exit with *@status. Call bench_args_free() in either case. */
int bench_args_parse(struct bench_args *args, int argc, char **argv, int *status);
void bench_args_free(struct bench_args *args);

/* One engine of the matrix. */
struct bench_config {
	struct llm_options opts;
	const char *preset; /* NULL: none */
};

struct bench_test {
	unsigned int n_prompt, n_gen, n_depth;
	const char *kind; /* of tasks; NULL: none */
	bool replay; /* of the trace */
};

/* Decoding with drafts beside plain decoding. Sums over the repetitions. */
struct bench_draft {
	uint64_t steps, nodes, tokens;
	/* Of decoding the same tokens: of tasks, medians times the repetitions. */
	uint64_t ns, plain_ns;
	uint64_t draft_ns; /* of drafting, the host's */
	uint64_t calibrate_ns, head_ns; /* of calibration; the output matrix's part of it */
};

/* The result of a test. Counts are sums over the repetitions, without warm-up and depth. */
struct bench_result {
	const struct bench_config *config;
	const struct llm_engine_info *info;
	struct bench_test test;
	time_t time;
	unsigned int n; /* repetitions */
	uint64_t *samples_ns;
	uint64_t ttft_ns; /* sum; 0: no prompt */
	uint64_t npu_busy_ns, npu_wait_ns;
	bool npu_busy_known;
	uint64_t decisions, decision_ns;
	struct llm_lane_stats lanes[LLM_MAX_LANES];
	struct npu_device_counts counts;
	uint64_t peak_memory_bytes; /* 0: unknown */
	char output_sha256[TOKENS_SHA256_CHARS + 1]; /* "": nothing was generated */
	bool dry; /* a dry run */
	const char *predictor; /* its file; NULL: none */
	uint64_t modelled_ns; /* time of the same dry run without the predictor; 0: no dry run */
	struct llm_breakdown breakdowns[2]; /* of prompts, and of tokens */
	unsigned int chunk; /* tokens of a prompt's chunks if the plan chose them; else 0 */
	struct llm_virtual_stats virtual_clock;
	struct llm_shadow_stats shadow;
	struct llm_attention_stats attention;
	struct llm_start_stats start;
	struct llm_switching_stats switching;
	struct llm_cold_stats cold; /* of the last repetition that started cold; ns 0: none did */
	struct llm_panels_cache cache; /* of the first repetition, or of one where it failed */
	struct bench_draft draft; /* of tasks and replays */
};

/* What all tests of one engine share. */
struct bench_tokens {
	const struct bench_args *args;
	struct llm_engine *engine;
	bool started; /* it has evaluated something: its weights are loaded */
	struct prompts prompts; /* not used in a dry run */
};

void bench_memory_reset(void); /* for tool_peak_memory() */

/* Called before the warm-up (0) and before each repetition (1..). */
typedef void (*bench_progress_fn)(void *ud, const struct bench_test *test, unsigned int repetition);

/* Runs one test, and adds its repetitions to @timeline unless that is NULL. @load_peak_bytes: peak
 * memory while loading. 0, or 1 after a message. free() result->samples_ns. */
int bench_run(struct bench_tokens *tokens, const struct bench_config *config,
	      const struct bench_test *test, uint64_t load_peak_bytes, struct timeline *timeline,
	      bench_progress_fn progress, void *ud, struct bench_result *result);

/* bench_run() for tasks, and for a replay: set n_gen and what was measured. 0, or 1 after a
 * message. */
int bench_run_tasks(struct bench_tokens *tokens, struct bench_result *r);
int bench_run_replay(struct bench_tokens *tokens, struct bench_result *r);

/* "pp512", "tg128 @ d64", "pp64+tg32", "summary", "replay" */
void bench_test_name(const struct bench_test *test, char *name, size_t bytes);

/* Mean and sample standard deviation, which is NaN for one sample. */
struct bench_stat {
	double mean, stddev;
};
struct bench_stat bench_stat_ns(const struct bench_result *r);
struct bench_stat bench_stat_ts(const struct bench_result *r); /* tokens a second */

/* The fields in order; a field without a name ends the list. */
struct bench_field {
	const char *name, *sql_type; /* sql_type NULL: a list, only in JSON */
};
const struct bench_field *bench_fields(void);
struct json_object *bench_fields_make(const struct bench_result *r);

struct bench_output {
	FILE *f;
	enum bench_format format;
	const struct bench_args *args;
	bool begun;
};
int bench_output_result(struct bench_output *out, const struct bench_result *r);
void bench_output_end(struct bench_output *out);

#endif /* LLM_BENCH_H */
