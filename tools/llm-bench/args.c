// SPDX-License-Identifier: MIT
/* The command line of llm-bench: lists and ranges, as llama-bench takes them. */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "llm-bench.h"
#include "options.h"
#include "tool.h"

#define MAX_TOKENS 10000000u
/* Of a game's frame: some draw calls. */
#define GAME_KERNELS 16

enum {
	OPT_PG = OPT_TOOL,
	OPT_OE,
	OPT_PROGRESS,
	OPT_NO_WARMUP,
	OPT_PROMPT_FILE,
	OPT_SEED,
	OPT_DRY_RUN,
	OPT_SHAPE,
	OPT_CALIBRATION,
	OPT_TIMELINE,
	OPT_PREDICTOR,
	OPT_JITTER,
	OPT_GAME,
	OPT_PLAN,
	OPT_EXHAUSTIVE,
};

static void help(void)
{
	printf("usage: llm-bench [-m FILE[,FILE]] [options]\n"
	       "Measures prompt processing (pp) and text generation (tg).\n"
	       "LIST is 64,256 or 1-8 or 1-8+2 or 1-64*2; an option may be repeated, and lists multiply into a "
	       "matrix.\n\n"
	       "  -m, --model FILE[,FILE]     models (default: the one that comes with vnpu)\n"
	       "  -p, --n-prompt LIST         prompt tokens; 0: no such test (default: 512)\n"
	       "  -n, --n-gen LIST            tokens to generate; 0: no such test (default: 128)\n"
	       "  -pg P,N                     a test of a prompt of P tokens and N generated ones\n"
	       "  -d, --n-depth LIST          tokens in the KV cache before a test (default: 0)\n"
	       "  -r, --repetitions N         runs of each test (default: 5)\n"
	       "  -o, --output FORMAT         md, csv, json, jsonl or sql on stdout (default: md)\n"
	       "  -oe, --output-err FORMAT    the same on stderr, none for nothing (default: none)\n"
	       "      --progress              a line on stderr before each run\n"
	       "      --no-warmup             no run before the measured ones\n"
	       "      --prompt-file FILE      the prompt's tokens from a text, in place of random ones\n"
	       "      --seed N                seed of the random prompts and of --jitter (default: 0)\n"
	       "      --jitter FRACTION       on the virtual clock, durations vary by up to this (default: 0)\n"
	       "  -t, --threads LIST          threads of the CPU lane (default: one per CPU)\n"
	       "      --transport LIST        auto, drm, sim (default: auto)\n"
	       "      --npu-threads LIST      workers of a sim device (default: one per CPU)\n"
	       "      --preset LIST           cpu, npu, fine, gpu, hetero-layer, hetero-tensor or all: placement, weights,\n"
	       "                              graphs and partition together\n"
	       "      --placement LIST        auto, fine, cpu, npu (default: auto: npu, and fine by the virtual clock);\n"
	       "                              overrides its part of a preset\n"
	       "      --weights LIST          auto, f32, w8a8, w4a8, w4a16 (default: auto); likewise\n"
	       "      --activations LIST      of w8a8 and w4a8: outliers, int8, mixed, int16\n"
	       "                              (default: outliers)\n"
	       "      --graphs LIST           bucketed, shared (default: bucketed); likewise. Placement layer also "
	       "online,\n"
	       "                              padded, pipe\n"
	       "      --partition LIST        how placement layer cuts products: none, row, sequence, multi-sequence,\n"
	       "                              hybrid, auto (default: none); likewise\n"
	       "      --kv LIST               KV cache: f16, f32, q8_0 (default: f16)\n"
	       "      --sync LIST             fast, driver (default: fast)\n"
	       "      --chunk LIST            tokens of the largest prefill graph (default: 256)\n"
	       "      --dry-run               no weights and no results: plan the tests for a model's shape, and "
	       "simulate\n"
	       "                              them on a phone's SoC. Also placements gpu and layer,\n"
	       "                              weights f16\n"
	       "      --shape NAME[,NAME]     the shapes, of share/shapes, or files (with --dry-run)\n"
	       "      --timeline FILE         what ran when, for Perfetto's UI; without warm-up\n"
	       "      --plan                  how placement layer cuts each product of a test, and what that takes: predicted,\n"
	       "                              and simulated alone; in place of the test (md, json; with --dry-run)\n"
	       "      --exhaustive            with --plan: and what the best among all cuts would take\n"
	       "      --predictor FILE        products on the NPU take what this model of npu-profile predicts (with "
	       "--dry-run)\n"
	       "      --game FPS:MS[:KERNELS] beside a game of so many frames a second, each of so many kernels (default: 16)\n"
	       "                              that take the GPU so long together (with a model: OpenCL's device, --gpu)\n"
	       "      --clock CLOCK           wall, or virtual: what a phone's SoC would take (default: wall)\n"
	       "      --profile NAME          that SoC, of share/profiles, or a file (default: sd8gen3); implies\n"
	       "                              --clock virtual, as does --dry-run\n"
	       "      --calibration           what is published of the SoC beside what the profile's model says, and "
	       "exit\n"
	       "      --list-devices          list the devices and exit\n"
	       "  -h, --help                  this help\n"
	       "      --version               the version\n");
}

static int word_transport(const char *word, unsigned int *value)
{
	enum npu_transport t;
	int err = engine_parse_transport(word, &t);

	if (!err)
		*value = t;
	return err;
}

static int word_placement(const char *word, unsigned int *value)
{
	enum llm_placement p;
	int err = engine_parse_placement(word, &p);

	if (!err)
		*value = p;
	return err;
}

static int word_weights(const char *word, unsigned int *value)
{
	enum llm_weights w;
	int err = engine_parse_weights(word, &w);

	if (!err)
		*value = w;
	return err;
}

static int word_activations(const char *word, unsigned int *value)
{
	enum llm_activations a;
	int err = engine_parse_activations(word, &a);

	if (!err)
		*value = a;
	return err;
}

static int word_graphs(const char *word, unsigned int *value)
{
	enum llm_graphs g;
	int err = engine_parse_graphs(word, &g);

	*value = g;
	return err;
}

static int word_partition(const char *word, unsigned int *value)
{
	enum llm_partition p;
	int err = engine_parse_partition(word, &p);

	if (!err)
		*value = p;
	return err;
}

static int word_kv(const char *word, unsigned int *value)
{
	enum llm_kv kv;
	int err = engine_parse_kv(word, &kv);

	if (!err)
		*value = kv;
	return err;
}

static int word_sync(const char *word, unsigned int *value)
{
	enum llm_sync s;
	int err = engine_parse_sync(word, &s);

	if (!err)
		*value = s;
	return err;
}

static int word_preset(const char *word, unsigned int *value)
{
	const struct engine_preset *preset;

	for (unsigned int i = 0; (preset = engine_preset(i)); i++) {
		if (!strcmp(preset->name, word)) {
			*value = i;
			return 0;
		}
	}
	return tool_usage("--preset: '%s' is none of cpu, npu, fine, gpu, all", word);
}

static int parse_preset(struct bench_args *args, const char *s)
{
	/* A preset sets both of its parts: what stood before it is gone. */
	range_free(&args->placement);
	range_free(&args->weights);
	if (strcmp(s, "all"))
		return range_parse_words(&args->preset, s, word_preset);
	args->all_presets = true;
	return 0;
}

/* All that can be run: without OpenCL only the virtual clock has a GPU. */
static int expand_presets(struct bench_args *args)
{
	const struct engine_preset *preset;
	bool gpu = args->dry_run || args->profile_name;
	unsigned int n;
	int err = 0;

	if (args->all_presets && !gpu)
		gpu = !llm_gpu_list(NULL, 0, &n) && n;
	for (unsigned int i = 0; args->all_presets && (preset = engine_preset(i)) && !err; i++)
		if (gpu || (preset->placement != LLM_PLACE_GPU && preset->placement != LLM_PLACE_LAYER))
			err = range_add(&args->preset, i);
	return err;
}

static int parse_format(const char *what, const char *s, bool none, enum bench_format *format)
{
	static const char *const names[] = { "none", "md", "csv", "json", "jsonl", "sql" };

	for (unsigned int i = none ? 0 : 1; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i], s)) {
			*format = (enum bench_format)i;
			return 0;
		}
	}
	return tool_usage("%s: '%s' is none of %smd, csv, json, jsonl, sql", what, s, none ? "none, " : "");
}

static int add_names(char ***list, size_t *n, const char *s)
{
	char *copy = strdup(s), *next = copy, *name;
	int err = copy ? 0 : tool_fail("no memory for a file name");

	while (!err && (name = strsep(&next, ","))) {
		char **names = realloc(*list, (*n + 1) * sizeof(*names));

		if (names) {
			*list = names;
			names[*n] = strdup(name);
		}
		if (!names || !names[*n])
			err = tool_fail("no memory for a file name");
		else
			(*n)++;
	}
	free(copy);
	return err;
}

static int add_pair(struct bench_args *args, const char *s)
{
	struct bench_pair *pairs = realloc(args->pairs, (args->n_pairs + 1) * sizeof(*pairs));
	struct range two = { 0 };
	int err;

	if (!pairs)
		return tool_fail("no memory for a test");
	args->pairs = pairs;
	err = range_parse(&two, "-pg", s, 1, MAX_TOKENS);
	if (!err && two.n != 2)
		err = tool_usage("-pg: '%s' is not a pair of numbers such as 256,64", s);
	if (!err)
		pairs[args->n_pairs++] = (struct bench_pair){ two.v[0], two.v[1] };
	range_free(&two);
	return err;
}

static int parse_engine(struct bench_args *args, int c, const char *value)
{
	switch (c) {
	case 'm':
		return add_names(&args->models, &args->n_models, value);
	case 't':
		return range_parse(&args->threads, "-t", value, 1, ENGINE_MAX_THREADS);
	case OPT_TRANSPORT:
		return range_parse_words(&args->transport, value, word_transport);
	case OPT_NPU_THREADS:
		return range_parse(&args->npu_threads, "--npu-threads", value, 1, ENGINE_MAX_THREADS);
	case OPT_PRESET:
		return parse_preset(args, value);
	case OPT_PLACEMENT:
		return range_parse_words(&args->placement, value, word_placement);
	case OPT_WEIGHTS:
		return range_parse_words(&args->weights, value, word_weights);
	case OPT_ACTIVATIONS:
		return range_parse_words(&args->activations, value, word_activations);
	case OPT_GRAPHS:
		return range_parse_words(&args->graphs, value, word_graphs);
	case OPT_PARTITION:
		return range_parse_words(&args->partition, value, word_partition);
	case OPT_KV:
		return range_parse_words(&args->kv, value, word_kv);
	case OPT_SYNC:
		return range_parse_words(&args->sync, value, word_sync);
	case OPT_CLOCK:
		args->wall_clock = !strcmp(value, "wall");
		return engine_parse_clock(value, &args->profile_name);
	case OPT_PROFILE:
		args->profile_name = value;
		return 0;
	case OPT_GPU:
		args->gpu = value;
		return 0;
	case OPT_GPU_SHARE:
		return engine_parse_share(value, &args->gpu_share);
	case OPT_CUTS_PROFILE:
		args->cuts_profile = value;
		return 0;
	case OPT_CHUNK:
		return range_parse(&args->chunk, "--chunk", value, 1, ENGINE_MAX_CHUNK);
	}
	return 0;
}

/* FPS:MS or FPS:MS:KERNELS */
static int parse_game(struct bench_args *args, const char *value)
{
	double fps, ms, kernels = GAME_KERNELS;
	int end = 0;

	/* How far a number was read, where one is missing or more follows, tells. */
	if (sscanf(value, "%lf:%lf%n:%lf%n", &fps, &ms, &end, &kernels, &end) < 2 || value[end] ||
	    !(fps >= 1 && fps <= 1000) || !(ms >= 0.001 && ms <= 1000) || !(kernels >= 1 && kernels <= 10000) ||
	    kernels != (uint32_t)kernels)
		return tool_usage("--game: '%s' is not FPS:MS or FPS:MS:KERNELS, such as 60:4: 1 to 1000 frames a second, "
				  "0.001 to 1000 ms and 1 to 10000 kernels of each",
				  value);
	args->game = (struct sched_game){ .period_ns = 1e9 / fps, .work_ns = ms * 1e6, .kernels = (uint32_t)kernels };
	return 0;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct bench_args *args = ud;

	if (engine_option_is(c))
		return parse_engine(args, c, value);
	switch (c) {
	case 'p':
		return range_parse(&args->n_prompt, "-p", value, 0, MAX_TOKENS);
	case 'n':
		return range_parse(&args->n_gen, "-n", value, 0, MAX_TOKENS);
	case 'd':
		return range_parse(&args->n_depth, "-d", value, 0, MAX_TOKENS);
	case OPT_PG:
		return add_pair(args, value);
	case 'r':
		return tool_parse_uint("-r", value, 1, 1000000, &args->repetitions);
	case 'o':
		return parse_format("-o", value, false, &args->out);
	case OPT_OE:
		return parse_format("-oe", value, true, &args->out_err);
	case OPT_PROGRESS:
		args->progress = true;
		return 0;
	case OPT_NO_WARMUP:
		args->warmup = false;
		return 0;
	case OPT_PROMPT_FILE:
		args->prompt_file = value;
		return 0;
	case OPT_SEED:
		return tool_parse_u64("--seed", value, 0, UINT64_MAX, &args->seed);
	case OPT_DRY_RUN:
		args->dry_run = true;
		return 0;
	case OPT_SHAPE:
		return add_names(&args->shapes, &args->n_shapes, value);
	case OPT_TIMELINE:
		args->timeline_path = value;
		return 0;
	case OPT_JITTER:
		return tool_parse_float("--jitter", value, 0, 0.99f, &args->jitter);
	case OPT_PLAN:
		args->plan = true;
		return 0;
	case OPT_EXHAUSTIVE:
		args->exhaustive = true;
		return 0;
	case OPT_GAME:
		return parse_game(args, value);
	case OPT_PREDICTOR:
		args->predictor_path = value;
		return 0;
	case OPT_CALIBRATION:
		args->calibration = true;
		return 0;
	}
	return 0;
}

static int set_default(struct range *range, unsigned int value)
{
	return range->n ? 0 : range_add(range, value);
}

static int load_predictor(struct bench_args *args)
{
	struct predictor_info info;
	char why[512];

	if (predictor_load(args->predictor_path, &args->predictor, why, sizeof(why)))
		return tool_fail("%s", why);
	predictor_info(args->predictor, &info);
	if (info.lane != SOC_NPU)
		return tool_fail("%s: predicts lane %s; of lane npu is wanted: npu-profile fit --lane npu",
				 args->predictor_path, soc_lane_name(info.lane));
	return 0;
}

/* The SoC, for those that need one, and what does not go together. */
static int complete_soc(struct bench_args *args)
{
	char why[512];

	if (args->dry_run && args->n_models)
		return tool_usage("--dry-run takes shapes (--shape), not models (-m)");
	if (args->dry_run && args->wall_clock)
		return tool_usage("--dry-run has no wall clock");
	if (args->dry_run && !args->n_shapes)
		return tool_usage("--dry-run needs a model's shape: --shape llama3-8b, or another of share/shapes");
	if (!args->dry_run && args->n_shapes)
		return tool_usage("--shape: only with --dry-run");
	if (!args->dry_run && !args->profile_name && args->jitter > 0)
		return tool_usage("--jitter: only on the virtual clock (--clock virtual)");
	if (!args->dry_run && args->predictor_path)
		return tool_usage("--predictor: only with --dry-run");
	if (!args->dry_run && args->profile_name && args->game.period_ns > 0)
		return tool_usage("--game: on the virtual clock only with --dry-run");
	if (!args->dry_run && args->plan)
		return tool_usage("--plan: only with --dry-run");
	if (args->plan && args->out != BENCH_MD && args->out != BENCH_JSON)
		return tool_usage("--plan: -o md or json is wanted");
	if (!args->plan && args->exhaustive)
		return tool_usage("--exhaustive: only with --plan");
	if (!args->dry_run && !args->calibration)
		return 0;
	args->profile = profile_load(args->profile_name ? args->profile_name : "sd8gen3", why, sizeof(why));
	if (!args->profile)
		return tool_usage("%s", why);
	return args->predictor_path ? load_predictor(args) : 0;
}

/* What was not given: one value each. What presets stand for stays empty. */
static int complete(struct bench_args *args)
{
	int err = set_default(&args->n_prompt, 512) ?: set_default(&args->n_gen, 128) ?: set_default(&args->n_depth, 0);

	/* 0 leaves the choice to the runtime. */
	err = err ?: expand_presets(args);
	err = err ?: set_default(&args->threads, 0) ?: set_default(&args->npu_threads, 0);
	err = err ?: set_default(&args->chunk, 0);
	err = err ?: set_default(&args->transport, NPU_TRANSPORT_AUTO) ?: set_default(&args->sync, LLM_SYNC_FAST);
	err = err ?: set_default(&args->kv, LLM_KV_F16) ?: set_default(&args->activations, LLM_ACTIVATIONS_OUTLIERS);
	if (!err && !args->preset.n)
		err = set_default(&args->placement, LLM_PLACE_AUTO) ?: set_default(&args->weights, LLM_WEIGHTS_AUTO)
		      ?: set_default(&args->graphs, LLM_GRAPHS_BUCKETED) ?: set_default(&args->partition, LLM_PARTITION_NONE);
	if (!err)
		err = complete_soc(args);
	if (!err && !args->n_models && !args->dry_run && !args->calibration) {
		const char *model = tool_default_model();

		err = model ? add_names(&args->models, &args->n_models, model)
			    : tool_usage("no model: docs6m-q8_0.gguf is not beside the program, give one with -m FILE");
	}
	return err;
}

int bench_args_parse(struct bench_args *args, int argc, char **argv, int *status)
{
	static const struct option longopts[] = {
		ENGINE_LONG_OPTIONS,
		{ "n-prompt", required_argument, NULL, 'p' },
		{ "n-gen", required_argument, NULL, 'n' },
		{ "pg", required_argument, NULL, OPT_PG },
		{ "n-depth", required_argument, NULL, 'd' },
		{ "repetitions", required_argument, NULL, 'r' },
		{ "output", required_argument, NULL, 'o' },
		{ "oe", required_argument, NULL, OPT_OE },
		{ "output-err", required_argument, NULL, OPT_OE },
		{ "progress", no_argument, NULL, OPT_PROGRESS },
		{ "no-warmup", no_argument, NULL, OPT_NO_WARMUP },
		{ "prompt-file", required_argument, NULL, OPT_PROMPT_FILE },
		{ "seed", required_argument, NULL, OPT_SEED },
		{ "dry-run", no_argument, NULL, OPT_DRY_RUN },
		{ "shape", required_argument, NULL, OPT_SHAPE },
		{ "timeline", required_argument, NULL, OPT_TIMELINE },
		{ "predictor", required_argument, NULL, OPT_PREDICTOR },
		{ "jitter", required_argument, NULL, OPT_JITTER },
		{ "game", required_argument, NULL, OPT_GAME },
		{ "plan", no_argument, NULL, OPT_PLAN },
		{ "exhaustive", no_argument, NULL, OPT_EXHAUSTIVE },
		{ "calibration", no_argument, NULL, OPT_CALIBRATION },
		{ NULL, 0, NULL, 0 },
	};
	/* -pg and -oe are long options with one dash, as llama-bench has them. */
	static const struct option_set set = { ":" ENGINE_SHORT_OPTIONS "p:n:d:r:o:", longopts, getopt_long_only, help,
					       parse_one };

	if (options_parse(&set, argc, argv, args, status))
		return 1;
	if (optind < argc)
		*status = tool_usage("'%s': not an option; a model is given with -m", argv[optind]);
	else
		*status = complete(args);
	return *status != 0;
}

void bench_args_free(struct bench_args *args)
{
	struct range *const ranges[] = {
		&args->n_prompt, &args->n_gen,	   &args->n_depth,   &args->threads, &args->npu_threads,
		&args->chunk,	 &args->transport, &args->placement, &args->weights, &args->sync,
		&args->preset,	 &args->graphs,	   &args->partition, &args->kv,	     &args->activations,
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		range_free(ranges[i]);
	for (size_t i = 0; i < args->n_models; i++)
		free(args->models[i]);
	for (size_t i = 0; i < args->n_shapes; i++)
		free(args->shapes[i]);
	free(args->models);
	free(args->shapes);
	profile_free(args->profile);
	predictor_free(args->predictor);
	free(args->pairs);
}
