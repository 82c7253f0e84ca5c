// SPDX-License-Identifier: MIT
/*
 * One test of a dry run: the prompt is one plan, each generated token another, and the virtual clock adds up what they
 * take. Runs of one test differ by nothing but jitter, so without it one is simulated.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llm-bench.h"
#include "tool.h"

/* Tokens of a prompt's chunk where none is given: what llm.npu 3.2 chose for this class of devices. */
#define DRY_CHUNK 256

static enum llm_weights weights_of(const struct llm_options *opts)
{
	if (opts->weights != LLM_WEIGHTS_AUTO)
		return opts->weights;
	if (opts->placement == LLM_PLACE_LAYER)
		return LLM_WEIGHTS_W4A16;
	return opts->placement == LLM_PLACE_NPU || opts->placement == LLM_PLACE_FINE ? LLM_WEIGHTS_W8A8
										     : LLM_WEIGHTS_F16;
}

/* One test on its way. */
struct dry {
	const struct bench_config *config;
	struct plan_options plan;
	struct timeline *timeline;
	char name[128]; /* in the timeline */
	bool tune; /* chunks are to be chosen */
	uint32_t chunk; /* that prompts were cut into */
	uint64_t now_ns;
	uint64_t seed; /* of the next forward pass */
	float jitter;
	struct llm_virtual_stats *sums; /* over all forward passes */
};

/* One forward pass. */
static int simulate(struct dry *d)
{
	const struct plan_options *o = &d->plan;
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.profile = o->profile,
		.sync = d->config->opts.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.policy = o->overlap ? &sched_policy_layer : NULL,
		.seed = d->seed++,
		.jitter = d->jitter,
	};
	struct sched_plan *plan = plan_forward(o);
	struct sched_run run = { 0 };
	int err, status = 0;

	if (!plan)
		return tool_fail("no memory for the plan of %u tokens", o->n_tokens);
	err = sched_run(plan, &so, &run);
	if (err)
		status = tool_fail("the simulation of %u tokens failed: %s", o->n_tokens, strerror(-err));
	else if (d->timeline)
		status = timeline_add(d->timeline, d->name, d->now_ns, plan, &run);
	if (!status) {
		d->now_ns += run.makespan_ns;
		llm_virtual_count(d->sums, &run);
	}
	sched_run_free(&run);
	sched_plan_free(plan);
	return status;
}

static struct llm_engine_info describe(const struct bench_config *config, const struct plan_options *o)
{
	struct llm_engine_info info = {
		.profile = o->profile->name,
		.n_params = shape_params(o->shape),
		.file_bytes = plan_weight_bytes(o->shape, o->weights),
		.weight_bytes = plan_weight_bytes(o->shape, o->weights),
		.placement = o->placement,
		.weights = o->weights,
		.graphs = config->opts.graphs,
		.partition = config->opts.partition,
		.kv = o->kv,
		.sync = config->opts.sync,
		.chunk = o->chunk,
	};

	snprintf(info.type, sizeof(info.type), "%s", o->shape->name);
	return info;
}

/* The prompt in chunks, then token after token; adds up *@ttft_ns. */
static int run_test(struct dry *d, const struct bench_test *test, uint64_t *ttft_ns)
{
	struct plan_options plan = d->plan;
	uint64_t begin_ns = d->now_ns;
	int status = 0;

	if (test->n_prompt) {
		d->plan.n_past = test->n_depth;
		d->plan.n_tokens = test->n_prompt;
		if (d->tune && plan_tune(&d->plan))
			return tool_fail("no memory for the plan of %u tokens", test->n_prompt);
		status = simulate(d);
		*ttft_ns += d->now_ns - begin_ns;
		d->chunk = d->plan.chunk ? d->plan.chunk : test->n_prompt;
	}
	d->plan.chunk = 0;
	d->plan.overlap = false;
	memset(d->plan.gpu_busy, 0, sizeof(d->plan.gpu_busy));
	d->plan.n_tokens = 1;
	for (unsigned int i = 0; i < test->n_gen && !status; i++) {
		d->plan.n_past = test->n_depth + test->n_prompt + i;
		status = simulate(d);
	}
	d->plan = plan;
	return status;
}

/* What the test takes without the predictor. */
static int run_modelled(const struct dry *with, const struct bench_test *test, struct bench_result *result)
{
	struct llm_virtual_stats sums = { 0 };
	struct dry d = *with;
	uint64_t ttft_ns = 0;
	int status;

	d.plan.predictor = NULL;
	d.plan.cuts.predictor = NULL;
	d.timeline = NULL;
	d.sums = &sums;
	status = run_test(&d, test, &ttft_ns);
	result->modelled_ns = d.now_ns;
	return status;
}

/* Placement layer cuts products by itself; chunks are those that were asked for. */
static bool has_chunks(const struct llm_options *opts)
{
	return opts->placement != LLM_PLACE_LAYER || opts->graphs <= LLM_GRAPHS_SHARED;
}

int bench_dry_run(const struct bench_args *args, const struct bench_config *config, const struct shape *shape,
		  const struct bench_test *test, struct timeline *timeline, struct llm_engine_info *info,
		  struct bench_result *result)
{
	struct dry d = {
		.config = config,
		.plan = {
			.profile = args->profile,
			.predictor = args->predictor,
			.shape = shape,
			.placement = config->opts.placement,
			.graphs = config->opts.placement == LLM_PLACE_NPU ? PLAN_GRAPH_CHUNK : PLAN_GRAPH_OP,
			.weights = weights_of(&config->opts),
			.kv = config->opts.kv,
			.chunk = config->opts.chunk || !has_chunks(&config->opts) ? config->opts.chunk : DRY_CHUNK,
			.bucket = config->opts.graphs == LLM_GRAPHS_BUCKETED ? LLM_BUCKET_ROWS : 0,
			.logits = 1,
			.cuts = {
				.profile = args->profile,
				.predictor = args->predictor,
				.weights = weights_of(&config->opts),
				.sync = config->opts.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
				.partition = config->opts.partition,
				.graphs = config->opts.graphs,
			},
		},
		.timeline = timeline,
		.tune = !has_chunks(&config->opts) && !config->opts.chunk &&
			config->opts.partition != LLM_PARTITION_NONE,
		.seed = args->seed,
		.jitter = args->jitter,
		.sums = &result->virtual_clock,
	};
	char name[64];
	int status = 0;

	*info = describe(config, &d.plan);
	bench_test_name(test, name, sizeof(name));
	snprintf(d.name, sizeof(d.name), "%.30s %s %s %.40s", shape->name, llm_placement_name(d.plan.placement),
		 llm_weights_name(d.plan.weights), name);
	*result = (struct bench_result){
		.config = config,
		.info = info,
		.test = *test,
		.time = time(NULL),
		/* Without jitter one is as the other. */
		.n = args->jitter > 0 ? args->repetitions : 1,
		.samples_ns = calloc(args->repetitions, sizeof(*result->samples_ns)),
		.peak_memory_bytes =
			info->weight_bytes +
			plan_kv_bytes(shape, test->n_depth + test->n_prompt + test->n_gen, config->opts.kv),
		.dry = true,
		.predictor = args->predictor_path,
	};
	if (!result->samples_ns)
		return tool_fail("no memory for the results");
	if (args->predictor)
		status = run_modelled(&d, test, result);
	for (unsigned int i = 0; i < result->n && !status; i++) {
		uint64_t begin_ns = d.now_ns;

		status = run_test(&d, test, &result->ttft_ns);
		result->samples_ns[i] = d.now_ns - begin_ns;
	}
	if (test->n_prompt)
		info->chunk = d.chunk;
	return status;
}
