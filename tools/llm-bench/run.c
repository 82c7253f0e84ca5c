// SPDX-License-Identifier: MIT
/*
 * One test of llm-bench.
 *
 * Every repetition starts from the same state: the KV cache holds the tokens of the depth, which
 * are evaluated once and not timed. A repetition evaluates the prompt in one call, then generates
 * tokens greedily one by one. Clocks and counters are read before and after it. All repetitions
 * must generate the same tokens, whose hash is reported. A model starts cold once, so with --start
 * cold each repetition but those of a dry run opens it again, which is not timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "llm-bench.h"
#include "tool.h"

/* A fast wait predicts a job's time from earlier ones; after this many tokens it predicts well. */
#define WARMUP_TOKENS 16

void bench_memory_reset(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/*
	 * 5 resets the peak to what is resident now. If this is refused, the peak remains that of
	 * the whole process.
	 */
	if (write(fd, "5", 1) != 1)
		errno = 0;
	close(fd);
}

/* The session and tokens of one test. */
struct run {
	struct llm_session *s;
	const struct bench_test *test;
	int32_t *ids; /* the tokens of depth and prompt; NULL: a dry run */
	const int32_t *prompt; /* the n_prompt last ones of them */
	int32_t first; /* the token that generation starts with without a prompt */
	int32_t *output; /* n_gen tokens, and room for one more; NULL: a dry run */
};

/* A repetition of a dry run: the same number of evaluations, without tokens. */
static int run_once_dry(struct run *run, unsigned int n_gen, uint64_t *ttft_ns)
{
	uint64_t begin_ns = llm_session_now_ns(run->s);
	int err = run->test->n_prompt ? llm_session_eval(run->s, NULL, run->test->n_prompt) : 0;

	*ttft_ns = llm_session_now_ns(run->s) - begin_ns;
	for (unsigned int i = 0; i < n_gen && !err; i++)
		err = llm_session_eval(run->s, NULL, 1);
	return err ? tool_fail("%s", llm_error()) : 0;
}

/*
 * One repetition. *@ttft_ns: the time until the first token after the prompt. Generating n_gen
 * tokens takes n_gen evaluations of one token; after a prompt, whose logits give the first token,
 * one token more is chosen.
 */
static int run_once(struct run *run, unsigned int n_gen, uint64_t *ttft_ns)
{
	bool prompt = run->test->n_prompt;
	const struct llm_generate_options opts = {
		.max_tokens = (uint64_t)n_gen + prompt,
		.ignore_end = true,
		.ids = run->output,
	};
	struct llm_generate_result result;

	if (!run->output)
		return run_once_dry(run, n_gen, ttft_ns);
	if (llm_generate(run->s, prompt ? run->prompt : &run->first,
			 prompt ? run->test->n_prompt : 1, &opts, &result))
		return tool_fail("%s", llm_error());
	*ttft_ns = prompt ? result.first_ns : 0;
	return 0;
}

/* Counters and clocks of device and session. */
struct meter {
	struct npu_device_counts counts;
	struct npu_device_state state;
	bool state_known;
	struct llm_session_stats stats;
	struct llm_breakdown breakdowns[2];
};

static void meter_read(struct meter *m, struct npu_device *dev, const struct llm_session *s)
{
	memset(m, 0, sizeof(*m));
	if (dev) {
		npu_device_counts(dev, &m->counts);
		m->state_known = !npu_device_state(dev, &m->state);
	}
	llm_session_stats(s, &m->stats);
	for (int tokens = 0; tokens < 2; tokens++)
		llm_session_breakdown(s, tokens, &m->breakdowns[tokens]);
}

static void meter_add_breakdown(struct llm_breakdown *sum, const struct llm_breakdown *a,
				const struct llm_breakdown *b)
{
	sum->tokens += b->tokens - a->tokens;
	sum->ns += b->ns - a->ns;
	for (unsigned int i = 0; i < LLM_MAX_BREAKDOWN; i++)
		sum->item_ns[i] += b->item_ns[i] - a->item_ns[i];
}

static void meter_add_lanes(struct llm_lane_stats *sum, const struct llm_lane_stats *a,
			    const struct llm_lane_stats *b)
{
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
		sum[lane].busy_ns += b[lane].busy_ns - a[lane].busy_ns;
}

static void meter_add_virtual(struct llm_virtual_stats *sum, const struct llm_virtual_stats *a,
			      const struct llm_virtual_stats *b)
{
	sum->ns += b->ns - a->ns;
	meter_add_lanes(sum->lanes, a->lanes, b->lanes);
	sum->launches += b->launches - a->launches;
	sum->handovers += b->handovers - a->handovers;
	sum->dram_bytes += b->dram_bytes - a->dram_bytes;
	sum->energy_j += b->energy_j - a->energy_j;
}

/* Of its bytes of weights, those that are there now. */
static void meter_add_shadow(struct llm_shadow_stats *sum, const struct llm_shadow_stats *a,
			     const struct llm_shadow_stats *b)
{
	sum->hot_bytes = b->hot_bytes;
	sum->all_bytes = b->all_bytes;
	sum->reads += b->reads - a->reads;
	sum->read_bytes += b->read_bytes - a->read_bytes;
	sum->merges += b->merges - a->merges;
	sum->outliers += b->outliers - a->outliers;
	sum->ns += b->ns - a->ns;
}

static void meter_add_attention(struct llm_attention_stats *sum,
				const struct llm_attention_stats *a,
				const struct llm_attention_stats *b)
{
	sum->visible += b->visible - a->visible;
	sum->selected += b->selected - a->selected;
	sum->estimate_ns += b->estimate_ns - a->estimate_ns;
	sum->select_ns += b->select_ns - a->select_ns;
	sum->attend_ns += b->attend_ns - a->attend_ns;
	sum->launches += b->launches - a->launches;
}

/* Sizes are the session's. */
static void meter_add_switching(struct llm_switching_stats *sum,
				const struct llm_switching_stats *a,
				const struct llm_switching_stats *b)
{
	sum->loads += b->loads - a->loads;
	sum->load_ns += b->load_ns - a->load_ns;
	sum->wait_ns += b->wait_ns - a->wait_ns;
	sum->graph_bytes = b->graph_bytes;
	sum->graph_peak_bytes = b->graph_peak_bytes;
}

static void meter_add(struct bench_result *r, const struct meter *a, const struct meter *b)
{
	for (int tokens = 0; tokens < 2; tokens++)
		meter_add_breakdown(&r->breakdowns[tokens], &a->breakdowns[tokens],
				    &b->breakdowns[tokens]);
	r->counts.submits += b->counts.submits - a->counts.submits;
	r->counts.jobs += b->counts.jobs - a->counts.jobs;
	r->counts.waits += b->counts.waits - a->counts.waits;
	r->counts.polls += b->counts.polls - a->counts.polls;
	r->npu_busy_ns += b->state.busy_ns - a->state.busy_ns;
	r->npu_busy_known = r->npu_busy_known && a->state_known && b->state_known;
	r->npu_wait_ns += b->stats.npu_wait_ns - a->stats.npu_wait_ns;
	r->decisions += b->stats.decisions - a->stats.decisions;
	r->decision_ns += b->stats.decision_ns - a->stats.decision_ns;
	meter_add_lanes(r->lanes, a->stats.lanes, b->stats.lanes);
	meter_add_virtual(&r->virtual_clock, &a->stats.virtual_clock, &b->stats.virtual_clock);
	meter_add_shadow(&r->shadow, &a->stats.shadow, &b->stats.shadow);
	meter_add_attention(&r->attention, &a->stats.attention, &b->stats.attention);
	meter_add_switching(&r->switching, &a->stats.switching, &b->stats.switching);
}

/* A repetition must generate the same tokens as the one before. */
static int check_output(const struct run *run, struct bench_result *r, unsigned int repetition)
{
	char sha[TOKENS_SHA256_CHARS + 1];

	if (!run->test->n_gen || !run->output)
		return 0;
	tokens_sha256(run->output, run->test->n_gen, sha);
	if (repetition && strcmp(sha, r->output_sha256))
		return tool_fail(
			"repetition %u generated other tokens than the one before: the device or "
			"the runtime is not deterministic",
			repetition + 1);
	memcpy(r->output_sha256, sha, sizeof(sha));
	return 0;
}

/* Adds the following evaluations to the timeline. */
static int listen(const struct run *run, struct timeline *timeline,
		  const struct llm_engine_info *info)
{
	char name[128], test[64];

	bench_test_name(run->test, test, sizeof(test));
	snprintf(name, sizeof(name), "%.30s %s %s %.40s", info->type,
		 llm_choice_name(LLM_CHOICE_PLACEMENT, info->choices.placement),
		 llm_choice_name(LLM_CHOICE_WEIGHTS, info->choices.weights), test);
	return timeline_listen(timeline, name, run->s);
}

/* Whose tokens they are, and who is told of a test's progress. */
struct surroundings {
	struct bench_tokens *tokens;
	const struct bench_config *config;
	struct timeline *timeline; /* NULL: none */
	bench_progress_fn progress;
	void *ud;
};

/* Makes a session that has evaluated the tokens of the depth. 0, or 1 after a message. */
static int begin_session(struct run *run, struct bench_tokens *tokens)
{
	const struct bench_test *t = run->test;

	if (llm_session_create(tokens->engine, t->n_depth + t->n_prompt + t->n_gen, &run->s) ||
	    (t->n_depth && llm_session_eval(run->s, run->ids, t->n_depth)))
		return tool_fail("%s", llm_error());
	/* Where it cannot be measured, the field stays null. */
	if (tokens->args->breakdown)
		llm_session_measure(run->s, true);
	return 0;
}

/* Opens a model again that has to start cold and has started. 0, or 1 after a message. */
static int open_again(struct bench_tokens *tokens, const struct bench_config *config)
{
	struct llm_options opts = config->opts;

	if (opts.dry_run || !tokens->started ||
	    llm_engine_info(tokens->engine)->choices.start != LLM_START_COLD)
		return 0;
	engine_close(tokens->engine);
	tokens->engine = NULL;
	tokens->started = false;
	if (engine_try_open(&opts, &tokens->engine))
		return tool_fail("%s", llm_error());
	tokens->prompts.engine = tokens->engine;
	return 0;
}

/* The next repetition of a cold start begins with a model that has not started. */
static int start_again(struct run *run, const struct surroundings *around, struct bench_result *r)
{
	const struct bench_config *config = around->config;

	if (config->opts.dry_run || r->info->choices.start != LLM_START_COLD)
		return 0;
	llm_session_free(run->s);
	run->s = NULL;
	if (open_again(around->tokens, config))
		return 1;
	r->info = llm_engine_info(around->tokens->engine);
	if (begin_session(run, around->tokens))
		return 1;
	return around->timeline ? listen(run, around->timeline, r->info) : 0;
}

/* A repetition with another start than the first would be compared with it. */
static void note_cache(const struct bench_tokens *tokens, struct bench_result *r)
{
	struct llm_panels_cache cache;

	llm_engine_panels_cache(tokens->engine, true, &cache);
	if (r->cache.state == LLM_PANELS_NONE || cache.state == LLM_PANELS_FAILED)
		r->cache = cache;
}

static int repeat(struct run *run, const struct surroundings *around, struct bench_result *r)
{
	struct meter before, after;
	uint64_t ttft_ns;

	for (unsigned int i = 0; i < r->n; i++) {
		struct npu_device *dev;
		uint64_t begin_ns;

		around->progress(around->ud, run->test, i + 1);
		if (i && start_again(run, around, r))
			return 1;
		around->tokens->started = true;
		dev = llm_engine_device(around->tokens->engine);
		if (llm_session_truncate(run->s, run->test->n_depth))
			return tool_fail("%s", llm_error());
		meter_read(&before, dev, run->s);
		begin_ns = llm_session_now_ns(run->s);
		if (run_once(run, run->test->n_gen, &ttft_ns))
			return 1;
		r->samples_ns[i] = llm_session_now_ns(run->s) - begin_ns;
		meter_read(&after, dev, run->s);
		meter_add(r, &before, &after);
		r->ttft_ns += ttft_ns;
		note_cache(around->tokens, r);
		if (check_output(run, r, i))
			return 1;
	}
	return 0;
}

static int measure(struct run *run, const struct surroundings *around, bool warmup,
		   struct bench_result *r)
{
	uint64_t ttft_ns;

	if (warmup) {
		around->progress(around->ud, run->test, 0);
		if (run_once(run,
			     run->test->n_gen < WARMUP_TOKENS ? run->test->n_gen : WARMUP_TOKENS,
			     &ttft_ns))
			return 1;
	}
	if (around->timeline && listen(run, around->timeline, r->info))
		return 1;
	return repeat(run, around, r);
}

/* Makes the tokens, a session that has evaluated those of the depth, and room for results. 0, or 1
 * after a message. */
static int prepare(struct run *run, struct bench_tokens *tokens, const struct bench_test *test,
		   bool dry, struct bench_result *r)
{
	size_t n_before = (size_t)test->n_depth + test->n_prompt;
	int32_t *ids = NULL;

	r->samples_ns = calloc(r->n, sizeof(*r->samples_ns));
	if (!dry) {
		/* Without a prompt one token more, which generation starts with. */
		ids = run->ids = prompts_make(&tokens->prompts, n_before + !test->n_prompt);
		if (!ids)
			return 1;
		run->prompt = ids + test->n_depth;
		run->first = test->n_prompt ? 0 : ids[n_before];
		run->output = malloc((test->n_gen + 1u) * sizeof(*run->output));
	}
	if (!r->samples_ns || (!dry && !run->output))
		return tool_fail("no memory for the results");
	bench_memory_reset();
	return begin_session(run, tokens);
}

/* A test of tasks, or a replay. */
static int run_drafts(struct bench_tokens *tokens, bench_progress_fn progress, void *ud,
		      struct bench_result *r)
{
	r->samples_ns = calloc(r->n, sizeof(*r->samples_ns));
	if (!r->samples_ns)
		return tool_fail("no memory for the results");
	progress(ud, &r->test, 0);
	return r->test.kind ? bench_run_tasks(tokens, r) : bench_run_replay(tokens, r);
}

int bench_run(struct bench_tokens *tokens, const struct bench_config *config,
	      const struct bench_test *test, uint64_t load_peak_bytes, struct timeline *timeline,
	      bench_progress_fn progress, void *ud, struct bench_result *result)
{
	const struct bench_args *args = tokens->args;
	const struct surroundings around = { tokens, config, timeline, progress, ud };
	bool dry = config->opts.dry_run;
	struct llm_session_stats stats = { 0 };
	struct run run = { .test = test };
	const struct llm_engine_info *info;
	int status;

	if (open_again(tokens, config)) {
		*result = (struct bench_result){ 0 };
		return 1;
	}
	info = llm_engine_info(tokens->engine);
	*result = (struct bench_result){
		.config = config,
		.info = info,
		.test = *test,
		.time = time(NULL),
		/* Without jitter all dry runs are equal. */
		.n = dry && !(args->jitter > 0) ? 1 : args->repetitions,
		.npu_busy_known = true,
		.dry = dry,
		.predictor = config->opts.predictor,
	};
	if (test->kind || test->replay)
		return run_drafts(tokens, progress, ud, result);
	status = prepare(&run, tokens, test, dry, result);
	if (!status)
		status = measure(&run, &around,
				 args->warmup && !dry && info->choices.start != LLM_START_COLD,
				 result);
	result->peak_memory_bytes = tool_peak_memory();
	if (result->peak_memory_bytes < load_peak_bytes)
		result->peak_memory_bytes = load_peak_bytes;
	if (!status)
		llm_session_stats(run.s, &stats);
	/* A dry run reports the memory that a real run would take. */
	if (dry && !status)
		result->peak_memory_bytes = result->info->weight_bytes + stats.kv_bytes +
					    stats.switching.graph_peak_bytes -
					    stats.switching.graph_bytes;
	result->chunk = stats.chunk;
	result->start = stats.start;
	if (!status)
		llm_session_cold(run.s, &result->cold);
	llm_session_free(run.s);
	free(run.output);
	free(run.ids);
	return status;
}
