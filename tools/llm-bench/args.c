// SPDX-License-Identifier: MIT
/* The command line of llm-bench: lists and ranges, as llama-bench takes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "llm-bench.h"
#include "options.h"
#include "tool.h"

#define MAX_TOKENS 10000000u

enum {
	OPT_PG = OPT_TOOL,
	OPT_OE,
	OPT_PROGRESS,
	OPT_NO_WARMUP,
	OPT_PROMPT_FILE,
	OPT_SEED,
	OPT_DRY_RUN,
	OPT_SHAPE,
	OPT_TIMELINE,
	OPT_JITTER,
	OPT_BREAKDOWN,
	OPT_TASKS,
	OPT_ACCEPTANCE,
	OPT_ACCEPTANCE_OUT,
};

static const char usage[] =
	"usage: llm-bench [-m FILE[,FILE]] [options]\n"
	"Measures prompt processing (pp) and text generation (tg).\n"
	"LIST is 64,256 or 1-8 or 1-8+2 or 1-64*2, or names separated by commas; options may be\n"
	"repeated; the tests are all combinations of the lists.\n";

/* The second output (-oe) may also be "none". */
static const char *const formats[] = { "none", "md", "csv", "json", "jsonl", "sql", NULL };
static const char *const all_presets[] = { "all", NULL };

static const struct option_def options[] = {
	{ 'm', "model", "FILE[,FILE]", .doc = "models (default: the one that comes with vnpu)" },
	{ 'p', "n-prompt", "LIST", .doc = "prompt tokens; 0: no prompt test (default: 512)" },
	{ 'n', "n-gen", "LIST", .doc = "tokens to generate; 0: no generation test (default: 128)" },
	{ OPT_PG, NULL, "P,N", .doc = "a test of P prompt tokens and N generated tokens",
	  .dash = "pg" },
	{ 'd', "n-depth", "LIST", .doc = "tokens in the KV cache before a test (default: 0)" },
	{ 'r', "repetitions", "N", .doc = "runs of each test (default: 5)" },
	{ 'o', "output", "FORMAT", .doc = "md, csv, json, jsonl or sql on stdout (default: md)",
	  .words = formats + 1 },
	{ OPT_OE, "output-err", "FORMAT", .doc = "the same on stderr, or none (default: none)",
	  .words = formats, .dash = "oe" },
	{ OPT_PROGRESS, "progress", NULL, .doc = "a line on stderr before each run" },
	{ OPT_NO_WARMUP, "no-warmup", NULL, .doc = "no run before the measured ones" },
	{ OPT_PROMPT_FILE, "prompt-file", "FILE",
	  .doc = "prompts from a text instead of random tokens" },
	{ OPT_SEED, "seed", "N",
	  .doc = "seed of the random prompts and of --jitter; -1: a random one, which stderr "
		 "tells (default: 0)" },
	{ OPT_JITTER, "jitter", "FRACTION",
	  .doc = "on the virtual clock, durations vary by up to this fraction (default: 0)" },
	{ OPT_BREAKDOWN, "breakdown", NULL,
	  .doc = "measure which kinds of work a token's time goes into, for json" },
	{ OPT_TASKS, "tasks", "FILE",
	  .doc = "measure decoding of a file's tasks with --draft (default: coordgen), by turns "
		 "with plain decoding" },
	{ OPT_ACCEPTANCE, "acceptance", "FILE",
	  .doc = "measure decoding as if a recorded share of drafts were accepted, by turns with "
		 "plain decoding" },
	{ OPT_ACCEPTANCE_OUT, "acceptance-out", "FILE",
	  .doc = "record for --acceptance what becomes of the drafts of --tasks" },
	{ OPT_TIMELINE, "timeline", "FILE",
	  .doc = "write what ran when to FILE, for Perfetto's UI; without warm-up" },
	{ OPT_DRY_RUN, "dry-run", NULL,
	  .doc = "without weights and results: plan the tests for a model's shape and simulate "
		 "them on a phone's SoC; implies --clock virtual. The shape is that of --shape, or "
		 "of -m's file" },
	{ OPT_SHAPE, "shape", "NAME[,NAME]",
	  .doc = "shapes: names in share/shapes, or files (with --dry-run)" },
	{ OPT_PRESET, "preset", "LIST",
	  .doc = "names for some choices, or all: every preset that can run here",
	  .words = all_presets },
	{ .code = 0 },
};

static int word_preset(const void *ud, const char *word, unsigned int *value)
{
	int preset = llm_preset_parse(word);

	if (preset < 0)
		return tool_usage("--%s, all", llm_error());
	*value = (unsigned int)preset;
	return 0;
}

/* A preset replaces earlier lists of the choices that it sets. */
static void drop_lists(struct bench_args *args, const struct llm_preset *preset)
{
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		if (preset->sets & 1u << c)
			range_free(&args->settings[ENGINE_CHOICE + c]);
}

static int parse_preset(struct bench_args *args, const char *s)
{
	size_t first = args->preset.n;
	int err;

	if (!strcmp(s, all_presets[0])) {
		for (unsigned int i = 0; llm_preset(i); i++)
			drop_lists(args, llm_preset(i));
		args->all_presets = true;
		return 0;
	}
	err = range_parse_words(&args->preset, s, word_preset, NULL);
	for (size_t i = first; i < args->preset.n; i++)
		drop_lists(args, llm_preset(args->preset.v[i]));
	return err;
}

/* Expands "all" to the presets that can run: without OpenCL only the virtual clock has a GPU. */
static int expand_presets(struct bench_args *args)
{
	bool gpu = args->dry_run || args->base.profile || (args->all_presets && llm_has_gpu());
	const struct llm_preset *preset;
	int err = 0;

	for (unsigned int i = 0; args->all_presets && (preset = llm_preset(i)) && !err; i++)
		if (gpu || !llm_placement_has_gpu(preset->choices.placement))
			err = range_add(&args->preset, i);
	return err;
}

static int parse_format(const char *what, const char *s, bool none, enum bench_format *format)
{
	int found = options_find_word(what, none ? formats : formats + 1, s);

	if (found < 0)
		return 2;
	*format = (enum bench_format)(none ? found : found + 1);
	return 0;
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
	int setting = engine_setting(c);

	if (setting >= 0)
		return engine_setting_parse_list((enum engine_setting)setting, value,
						 &args->settings[setting]);
	if (c == OPT_PRESET)
		return parse_preset(args, value);
	if (c == 'm')
		return add_names(&args->models, &args->n_models, value);
	if (c == OPT_CLOCK)
		args->wall_clock = !strcmp(value, "wall");
	return engine_option(&args->base, c, value);
}

static int parse_one(void *ud, int c, const char *value)
{
	struct bench_args *args = ud;

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
		return tool_parse_seed("--seed", value, &args->seed);
	case OPT_DRY_RUN:
		args->dry_run = true;
		return 0;
	case OPT_SHAPE:
		return add_names(&args->shapes, &args->n_shapes, value);
	case OPT_TIMELINE:
		args->timeline_path = value;
		return 0;
	case OPT_BREAKDOWN:
		args->breakdown = true;
		return 0;
	case OPT_TASKS:
		return tasks_read(&args->tasks, value);
	case OPT_ACCEPTANCE:
		return trace_read(&args->trace, value);
	case OPT_ACCEPTANCE_OUT:
		args->trace_path = value;
		return 0;
	case OPT_JITTER:
		return tool_parse_float("--jitter", value, 0, 0.99f, &args->jitter);
	}
	return parse_engine(args, c, value);
}

static int set_default(struct range *range, unsigned int value)
{
	return range->n ? 0 : range_add(range, value);
}

/* Sets a dry run's SoC, and checks for options that exclude each other. */
static int complete_soc(struct bench_args *args)
{
	if (args->dry_run && args->wall_clock)
		return tool_usage("--dry-run has no wall clock");
	if (args->dry_run && !args->n_shapes && !args->n_models)
		return tool_usage(
			"--dry-run needs a model's shape: --shape llama3-8b, or another of "
			"share/shapes, or -m FILE");
	if (!args->dry_run && args->n_shapes)
		return tool_usage("--shape: only with --dry-run");
	if (!args->dry_run && !args->base.profile && args->jitter > 0)
		return tool_usage("--jitter: only on the virtual clock (--clock virtual)");
	if (args->dry_run && !args->base.profile)
		args->base.profile = ENGINE_DEFAULT_PROFILE;
	return 0;
}

static int check_draft(const struct bench_args *args)
{
	const struct range *drafts = &args->settings[ENGINE_CHOICE + LLM_CHOICE_DRAFT];

	for (size_t i = 0; i < drafts->n && !args->tasks.n; i++)
		if (drafts->v[i] != LLM_DRAFT_AUTO && drafts->v[i] != LLM_DRAFT_NONE)
			return tool_usage("--draft has no effect: it goes with --tasks");
	return 0;
}

static int open_trace(struct bench_args *args)
{
	if (!args->tasks.n)
		return tool_usage("--acceptance-out goes with --tasks");
	args->trace_out = fopen(args->trace_path, "we");
	return args->trace_out ? 0 : tool_fail("%s: %s", args->trace_path, strerror(errno));
}

/* Completes lists that were not given by one default value, except settings, which stay empty. */
static int complete(struct bench_args *args)
{
	bool drafts = args->tasks.n || args->trace.n;
	int err = set_default(&args->n_prompt, drafts ? 0 : 512);

	err = err ?: set_default(&args->n_gen, drafts ? 0 : 128);
	err = err ?: set_default(&args->n_depth, 0);
	err = err ?: expand_presets(args);
	err = err ?: check_draft(args);
	err = err ?: complete_soc(args);
	if (!err && !args->n_models && !args->dry_run) {
		const char *model = tool_default_model();

		err = model ? add_names(&args->models, &args->n_models, model)
			    : tool_usage(
				      "no model: docs6m-q8_0.gguf is not installed; give one with "
				      "-m FILE");
	}
	if (!err && args->trace_path)
		err = open_trace(args);
	return err;
}

int bench_args_parse(struct bench_args *args, int argc, char **argv, int *status)
{
	/* -pg and -oe have one dash, as in llama-bench. */
	static const struct option_set set = { options, usage, .option = parse_one, .lists = true };

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
	range_free(&args->n_prompt);
	range_free(&args->n_gen);
	range_free(&args->n_depth);
	range_free(&args->preset);
	for (int i = 0; i < ENGINE_NR_SETTINGS; i++)
		range_free(&args->settings[i]);
	for (size_t i = 0; i < args->n_models; i++)
		free(args->models[i]);
	for (size_t i = 0; i < args->n_shapes; i++)
		free(args->shapes[i]);
	tasks_free(&args->tasks);
	trace_free(&args->trace);
	if (args->trace_out)
		fclose(args->trace_out);
	free(args->models);
	free(args->shapes);
	free(args->pairs);
}
