// SPDX-License-Identifier: MIT
/*
 * llm-bench: the matrix.
 *
 * Model, transport, placement, weights, graphs, partition, cache, sync, device workers, chunk and threads make an engine: each
 * combination is loaded once. On it run, for each depth, the prompt tests, the generation tests and the pairs of -pg. With --dry-run
 * shapes stand for models, and nothing is loaded.
 */
#include <stdlib.h>
#include <string.h>

#include "llm-bench.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

struct bench {
	const struct bench_args *args;
	struct bench_output out, out_err;
	struct bench_config *configs;
	size_t n_configs;
	struct bench_test *tests;
	size_t n_tests;
	size_t done; /* tests of all engines */
	struct llm_gpu_game *game; /* of tests that are not dry; NULL: none */
	struct timeline *timeline; /* NULL: none */
	struct bench_plan_output plans;
};

/* ---- the matrix ------------------------------------------------------------------------------------------------------ */

static int add_test(struct bench *b, unsigned int n_prompt, unsigned int n_gen, unsigned int n_depth)
{
	struct bench_test *tests;

	if (!n_prompt && !n_gen)
		return 0;
	tests = realloc(b->tests, (b->n_tests + 1) * sizeof(*tests));
	if (!tests)
		return tool_fail("no memory for %zu tests", b->n_tests + 1);
	b->tests = tests;
	tests[b->n_tests++] = (struct bench_test){ n_prompt, n_gen, n_depth };
	return 0;
}

static int make_tests(struct bench *b)
{
	const struct bench_args *a = b->args;
	int err = 0;

	for (size_t d = 0; d < a->n_depth.n; d++) {
		unsigned int n_depth = a->n_depth.v[d];

		for (size_t i = 0; i < a->n_prompt.n && !err; i++)
			err = add_test(b, a->n_prompt.v[i], 0, n_depth);
		for (size_t i = 0; i < a->n_gen.n && !err; i++)
			err = add_test(b, 0, a->n_gen.v[i], n_depth);
		for (size_t i = 0; i < a->n_pairs && !err; i++)
			err = add_test(b, a->pairs[i].n_prompt, a->pairs[i].n_gen, n_depth);
	}
	if (!err && !b->n_tests)
		err = tool_usage("nothing to measure: -p and -n are 0 and there is no -pg");
	return err;
}

static int add_config(struct bench *b, const struct bench_config *config)
{
	struct bench_config *configs = realloc(b->configs, (b->n_configs + 1) * sizeof(*configs));

	if (!configs)
		return tool_fail("no memory for %zu engines", b->n_configs + 1);
	b->configs = configs;
	configs[b->n_configs++] = *config;
	return 0;
}

/* The innermost choices. */
static int make_lanes(struct bench *b, struct bench_config c)
{
	const struct bench_args *a = b->args;
	int err = 0;

	for (size_t s = 0; s < a->sync.n; s++)
		for (size_t k = 0; k < a->chunk.n; k++)
			for (size_t u = 0; u < a->npu_threads.n; u++)
				for (size_t t = 0; t < a->threads.n && !err; t++) {
					c.opts.gpu = a->gpu;
					c.opts.gpu_share = a->gpu_share;
					c.opts.cuts_profile = a->cuts_profile;
					c.opts.choices.sync = a->sync.v[s];
					c.opts.chunk = a->chunk.v[k];
					c.opts.device.threads = a->npu_threads.v[u];
					c.opts.threads = a->threads.v[t];
					err = add_config(b, &c);
				}
	return err;
}

/* Graphs and partitions: those given, or else those of @preset. Caches, activations. */
static int make_graphs(struct bench *b, const struct engine_preset *preset, struct bench_config c)
{
	const struct bench_args *a = b->args;
	size_t n_graphs = a->graphs.n ? a->graphs.n : 1, n_partitions = a->partition.n ? a->partition.n : 1;
	int err = 0;

	for (size_t k = 0; k < a->kv.n * a->activations.n; k++)
		for (size_t g = 0; g < n_graphs; g++)
			for (size_t p = 0; p < n_partitions && !err; p++) {
				c.opts.choices.kv = a->kv.v[k / a->activations.n];
				c.opts.choices.activations = a->activations.v[k % a->activations.n];
				c.opts.choices.graphs = a->graphs.n ? a->graphs.v[g] : preset->graphs;
				c.opts.choices.partition = a->partition.n ? a->partition.v[p] : preset->partition;
				err = make_lanes(b, c);
			}
	return err;
}

/* Placements and weights: those given, or else those of each preset. */
static int make_places(struct bench *b, struct bench_config c)
{
	const struct bench_args *a = b->args;
	size_t n_presets = a->preset.n ? a->preset.n : 1, n_places, n_weights;
	int err = 0;

	n_places = a->placement.n ? a->placement.n : 1;
	n_weights = a->weights.n ? a->weights.n : 1;
	for (size_t i = 0; i < n_presets; i++)
		for (size_t p = 0; p < n_places; p++)
			for (size_t w = 0; w < n_weights && !err; w++) {
				const struct engine_preset *preset = a->preset.n ? engine_preset(a->preset.v[i]) : NULL;

				c.preset = preset ? preset->name : NULL;
				c.opts.choices.placement =
					llm_placement_of(a->placement.n ? a->placement.v[p] : preset->placement,
							 a->dry_run || a->profile_name);
				c.opts.choices.weights = a->weights.n ? a->weights.v[w] : preset->weights;
				err = make_graphs(b, preset, c);
			}
	return err;
}

static int make_configs(struct bench *b)
{
	const struct bench_args *a = b->args;
	int err = 0;

	for (size_t s = 0; s < a->n_shapes && !err; s++)
		err = make_places(b, (struct bench_config){ .shape = a->shapes[s] });
	for (size_t m = 0; m < a->n_models; m++)
		for (size_t t = 0; t < a->transport.n && !err; t++) {
			struct bench_config c = { .opts = { .model = a->models[m],
							    .profile = a->profile_name,
							    .jitter = a->jitter,
							    .seed = a->seed } };

			c.opts.device.transport = a->transport.v[t];
			err = make_places(b, c);
		}
	return err;
}

/* ---- running it ------------------------------------------------------------------------------------------------------ */

static void show_progress(void *ud, const struct bench_test *test, unsigned int repetition)
{
	struct bench *b = ud;
	size_t n = b->n_configs * b->n_tests;
	unsigned int repetitions = b->args->repetitions * (b->game ? 2 : 1), runs = repetitions + 1;
	char name[64], what[128];

	bench_test_name(test, name, sizeof(name));
	if (repetition)
		snprintf(what, sizeof(what), "test %zu/%zu: %s, run %u/%u", b->done + 1, n, name, repetition,
			 repetitions);
	else
		snprintf(what, sizeof(what), "test %zu/%zu: %s, warm-up", b->done + 1, n, name);
	if (b->args->progress)
		fprintf(stderr, "llm-bench: %s\n", what);
	else
		progress_show(((double)b->done + (double)repetition / runs) / (double)n, what);
}

static int run_test(struct bench *b, struct bench_tokens *tokens, const struct bench_config *config,
		    const struct bench_test *test, uint64_t load_peak_bytes)
{
	struct bench_result r;
	int status = bench_run(tokens, config, test, load_peak_bytes, b->game, b->timeline, show_progress, b, &r);

	if (!status)
		status = bench_output_result(&b->out, &r);
	if (!status)
		status = bench_output_result(&b->out_err, &r);
	free(r.samples_ns);
	b->done++;
	return status;
}

static int run_dry_test(struct bench *b, const struct bench_config *config, const struct shape *shape,
			const struct bench_test *test)
{
	struct llm_engine_info info;
	struct bench_result r;
	int status = bench_dry_run(b->args, config, shape, test, b->timeline, &info, &r);

	if (!status)
		status = bench_output_result(&b->out, &r);
	if (!status)
		status = bench_output_result(&b->out_err, &r);
	free(r.samples_ns);
	return status;
}

static int run_dry_config(struct bench *b, const struct bench_config *config)
{
	struct shape shape;
	const struct llm_options *o = &config->opts;
	int status = shape_load(config->shape, &shape) || llm_choices_check(o->choices.placement, o->choices.graphs,
								   o->choices.partition)
			     ? tool_fail("%s", llm_error())
			     : 0;

	for (size_t i = 0; i < b->n_tests && !status && !ferror(stdout); i++)
		status = b->args->plan ? bench_plan_test(b->args, config, &shape, &b->tests[i], &b->plans)
				       : run_dry_test(b, config, &shape, &b->tests[i]);
	return status;
}

static int run_config(struct bench *b, struct bench_config *config)
{
	struct bench_tokens tokens;
	struct llm_engine *engine;
	uint64_t load_peak_bytes;
	int status;

	if (config->shape)
		return run_dry_config(b, config);
	bench_memory_reset();
	status = engine_open(&config->opts, &engine);
	if (status)
		return status;
	load_peak_bytes = bench_memory_peak();
	status = bench_tokens_init(&tokens, b->args, engine);
	/* Nobody reads on after stdout has failed. */
	for (size_t i = 0; i < b->n_tests && !status && !ferror(stdout); i++)
		status = run_test(b, &tokens, config, &b->tests[i], load_peak_bytes);
	bench_tokens_free(&tokens);
	llm_engine_close(engine);
	return status;
}

static int measure(struct bench *b)
{
	const struct bench_args *args = b->args;
	int status = 0;

	if (args->timeline_path && !(b->timeline = timeline_open(args->timeline_path)))
		return 1;
	b->out = (struct bench_output){ .f = stdout, .format = args->out, .args = args };
	b->out_err = (struct bench_output){ .f = stderr, .format = args->out_err, .args = args };
	status = make_tests(b) ?: make_configs(b);
	/* The device is idle now. */
	if (!status && args->game.period_ns > 0 && !args->dry_run &&
	    llm_gpu_game_open(args->gpu && strcmp(args->gpu, LLM_GPU_HOST) ? args->gpu : NULL, &args->game, &b->game))
		status = tool_fail("--game: %s", llm_error());
	for (size_t i = 0; i < b->n_configs && !status && !ferror(stdout); i++)
		status = run_config(b, &b->configs[i]);
	llm_gpu_game_close(b->game);
	progress_clear();
	/* After a failure too: what was measured is to be readable. */
	if (args->plan) {
		bench_plan_end(&b->plans);
	} else {
		bench_output_end(&b->out);
		bench_output_end(&b->out_err);
	}
	if (b->timeline && timeline_close(b->timeline))
		status = 1;
	return status;
}

int main(int argc, char **argv)
{
	struct bench_args args = { .repetitions = 5, .warmup = true, .out = BENCH_MD };
	struct bench b = { .args = &args };
	int status;

	tool_name = "llm-bench";
	if (!bench_args_parse(&args, argc, argv, &status))
		status = args.calibration ? bench_calibration(&args) : measure(&b);
	free(b.configs);
	free(b.tests);
	bench_args_free(&args);
	return tool_finish(status);
}
