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
/* A game that wants all of the GPU's time gets no more than its turns. */
#define GPU_LEFT_MIN 0.1

/* One test on its way. */
struct dry {
	const struct bench_config *config;
	struct plan_options plan;
	struct timeline *timeline;
	char name[128]; /* in the timeline */
	bool tune; /* chunks are to be chosen */
	const struct profile *prompts; /* the solver's for them */
	uint32_t chunk; /* that prompts were cut into */
	uint64_t now_ns;
	uint64_t seed; /* of the next forward pass */
	float jitter;
	struct sched_game *game; /* NULL: none */
	struct llm_virtual_stats *sums; /* over all forward passes */
};

/* One forward pass. */
static int simulate(struct dry *d)
{
	const struct plan_options *o = &d->plan;
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.profile = o->profile,
		.sync = d->config->opts.choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.policy = o->overlap ? &sched_policy_layer : NULL,
		.seed = d->seed++,
		.jitter = d->jitter,
		.game = d->game,
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
		.choices = config->opts.choices,
		.chunk = o->chunk,
	};

	snprintf(info.type, sizeof(info.type), "%s", o->shape->name);
	return info;
}

/* A graph is the NPU's for all that a chunk or token does there if nothing else comes between. A GPU's work is enqueued
 * ahead, of a layer, or of all of a token; but beside an NPU kernel by kernel. */
static enum plan_graphs graphs_of(enum llm_placement placement, bool token)
{
	if (placement == LLM_PLACE_GPU)
		return token ? PLAN_GRAPH_CHUNK : PLAN_GRAPH_LAYER;
	return placement == LLM_PLACE_NPU ? PLAN_GRAPH_CHUNK : PLAN_GRAPH_OP;
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
		d->plan.cuts.profile = d->prompts;
		if (d->tune && plan_tune(&d->plan))
			return tool_fail("no memory for the plan of %u tokens", test->n_prompt);
		status = simulate(d);
		*ttft_ns += d->now_ns - begin_ns;
		d->chunk = d->plan.chunk ? d->plan.chunk : test->n_prompt;
	}
	d->plan.cuts.profile = plan.cuts.profile;
	d->plan.graphs = graphs_of(d->plan.placement, true);
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

/* What the test takes, with the predictor or without it; before the game begins. */
static int run_otherwise(const struct dry *with, bool predictor, const struct bench_test *test, uint64_t *ns)
{
	struct llm_virtual_stats sums = { 0 };
	struct dry d = *with;
	uint64_t ttft_ns = 0;
	int status;

	if (!predictor) {
		d.plan.predictor = NULL;
		d.plan.cuts.predictor = NULL;
	}
	d.timeline = NULL;
	d.sums = &sums;
	status = run_test(&d, test, &ttft_ns);
	*ns = d.now_ns;
	return status;
}

/* The GPU that is left to a prompt's plan, which knows of the game: slower by the share of time that frames take. A token's
 * products are shorter than the pause between two frames: most have all of it. */
static struct profile gpu_beside(const struct profile *p, const struct sched_game *game)
{
	double left = 1 - game->work_ns / game->period_ns;
	struct profile slower = *p;

	left = left > GPU_LEFT_MIN ? left : GPU_LEFT_MIN;
	slower.gpu.tflops *= left;
	slower.gpu.gemv_tflops *= left;
	slower.gpu.vector_gelems *= left;
	slower.gpu.dram_gbps *= left;
	return slower;
}

bool bench_dry_plan(const struct bench_args *args, const struct bench_config *config, const struct shape *shape,
		    struct plan_options *plan)
{
	const struct llm_options *opts = &config->opts;
	/* Of the length of a prompt, whole graphs for chunks are the others. */
	bool whole = opts->choices.placement == LLM_PLACE_LAYER &&
		     llm_graphs_whole_prompt(opts->choices.graphs);

	*plan = (struct plan_options){
		.profile = args->profile,
		/* Placement layer only decides by it. */
		.predictor = opts->choices.placement == LLM_PLACE_LAYER ? NULL : args->predictor,
		.shape = shape,
		.placement = opts->choices.placement,
		.graphs = graphs_of(opts->choices.placement, false),
		.weights = opts->choices.weights,
		.activations = opts->choices.activations,
		.kv = opts->choices.kv,
		.chunk = opts->chunk || whole ? opts->chunk : DRY_CHUNK,
		.bucket = opts->choices.graphs == LLM_GRAPHS_BUCKETED ? LLM_BUCKET_ROWS : 0,
		.logits = 1,
		.cuts = {
			.profile = args->profile,
			.predictor = args->predictor,
			.weights = opts->choices.weights,
			.sync = opts->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
			.partition = opts->choices.partition,
			.graphs = opts->choices.graphs,
		},
	};
	return whole && !opts->chunk && opts->choices.partition != LLM_PARTITION_NONE;
}

int bench_dry_run(const struct bench_args *args, const struct bench_config *config, const struct shape *shape,
		  const struct bench_test *test, struct timeline *timeline, struct llm_engine_info *info,
		  struct bench_result *result)
{
	struct dry d = {
		.config = config,
		.timeline = timeline,
		.prompts = args->profile,
		.seed = args->seed,
		.jitter = args->jitter,
		.sums = &result->virtual_clock,
	};
	struct profile beside_game;
	char name[64];
	int status = 0;

	d.tune = bench_dry_plan(args, config, shape, &d.plan);
	*info = describe(config, &d.plan);
	bench_test_name(test, name, sizeof(name));
	snprintf(d.name, sizeof(d.name), "%.30s %s %s %.40s", shape->name,
		 llm_choice_name(LLM_CHOICE_PLACEMENT, d.plan.placement),
		 llm_choice_name(LLM_CHOICE_WEIGHTS, d.plan.weights), name);
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
			plan_kv_bytes(shape, test->n_depth + test->n_prompt + test->n_gen, config->opts.choices.kv),
		.dry = true,
		.predictor = args->predictor_path,
		.game = args->game,
		.frame_ns = args->game.work_ns,
	};
	if (!result->samples_ns)
		return tool_fail("no memory for the results");
	if (args->predictor)
		status = run_otherwise(&d, false, test, &result->modelled_ns);
	if (args->game.period_ns > 0 && !status) {
		status = run_otherwise(&d, true, test, &result->alone_ns);
		d.game = &result->game;
		beside_game = gpu_beside(args->profile, &args->game);
		d.prompts = &beside_game;
	}
	for (unsigned int i = 0; i < result->n && !status; i++) {
		uint64_t begin_ns = d.now_ns;

		status = run_test(&d, test, &result->ttft_ns);
		result->samples_ns[i] = d.now_ns - begin_ns;
	}
	if (test->n_prompt)
		info->chunk = d.chunk;
	return status;
}
