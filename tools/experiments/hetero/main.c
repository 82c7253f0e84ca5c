// SPDX-License-Identifier: MIT
/* The command line of hetero, and a line of JSON for each of its tests: see hetero.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"
#include "engine.h"
#include "hetero.h"
#include "json_out.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

#define MAX_TOKENS 10000000u
/* Of a game's frame: some draw calls. */
#define GAME_KERNELS 16

enum {
	OPT_PG = OPT_TOOL,
	OPT_DRY_RUN,
	OPT_SHAPE,
	OPT_GAME,
	OPT_SHARE,
	OPT_PROMPT_FILE,
	OPT_SEED,
	OPT_JITTER,
	OPT_TIMELINE,
	OPT_PROGRESS,
};

static const char usage[] =
	"usage: hetero [-m FILE] [options]\n"
	"Measures an engine beside a game, or with cuts of a given share, and prints a line of "
	"JSON\n"
	"for each test: fields of llm-bench, those of the share and the waits, and of the game.\n"
	"LIST is 64,256 or 1-8 or 1-8+2 or 1-64*2.\n";

static const struct option_def options[] = {
	{ 'm', "model", "FILE", .doc = "the model (default: the one that comes with vnpu)" },
	{ 'p', "n-prompt", "LIST", .doc = "prompt tokens; a test each" },
	{ 'n', "n-gen", "LIST", .doc = "tokens to generate; a test each" },
	{ OPT_PG, NULL, "P,N", .doc = "a test of a prompt of P tokens and N generated ones",
	  .dash = "pg" },
	{ 'd', "n-depth", "N", .doc = "tokens in the KV cache before a test (default: 0)" },
	{ 'r', "repetitions", "N",
	  .doc = "runs of each test (default: 5; by the virtual clock without jitter 1)" },
	{ OPT_GAME, "game", "FPS:MS[:KERNELS]",
	  .doc = "make each test again, beside a game of so many frames a second, each of so many "
		 "kernels (default: 16) that take the GPU so long together" },
	{ OPT_SHARE, "gpu-share", "F",
	  .doc = "cut matmuls so that the GPU has this share, 0 to 1, fast or not (with "
		 "--partition)" },
	{ OPT_DRY_RUN, "dry-run", NULL,
	  .doc = "no weights and no results: simulate the tests on a phone's SoC" },
	{ OPT_SHAPE, "shape", "NAME",
	  .doc = "a shape of share/shapes, or a file (with --dry-run)" },
	{ OPT_PROMPT_FILE, "prompt-file", "FILE",
	  .doc = "the prompt's tokens from a text, in place of random ones" },
	{ OPT_SEED, "seed", "N", .doc = "seed of the random prompts and of --jitter (default: 0)" },
	{ OPT_JITTER, "jitter", "FRACTION",
	  .doc = "on the virtual clock, durations vary by up to this (default: 0)" },
	{ OPT_TIMELINE, "timeline", "FILE", .doc = "what ran when, for Perfetto's UI" },
	{ OPT_PROGRESS, "progress", NULL, .doc = "a line on stderr before each run" },
	{ .code = 0 },
};

struct test {
	unsigned int n_prompt, n_gen;
};

struct hetero {
	struct llm_options opts;
	const char *preset; /* NULL: none was given */
	struct range n_prompt, n_gen;
	struct test pair; /* -pg; zeros: none */
	unsigned int n_depth, repetitions; /* repetitions 0: not given */
	struct trial_game game; /* period_ns 0: none */
	float share; /* below 0: the solver's cuts */
	bool progress, wall_clock; /* the wall clock was asked for */
	const char *prompt_file, *timeline_path;
	struct llm_engine *engine;
	struct prompts prompts;
	struct timeline *timeline;
};

/* ---- the command line ---- */

/* FPS:MS or FPS:MS:KERNELS */
static int parse_game(struct game *game, const char *value)
{
	double fps, ms, kernels = GAME_KERNELS;
	int end = 0;

	/* How far a number was read, where one is missing or more follows, tells. */
	if (sscanf(value, "%lf:%lf%n:%lf%n", &fps, &ms, &end, &kernels, &end) < 2 || value[end] ||
	    !(fps >= 1 && fps <= 1000) || !(ms >= 0.001 && ms <= 1000) ||
	    !(kernels >= 1 && kernels <= 10000) || kernels != (uint32_t)kernels)
		return tool_usage("--game: '%s' is not FPS:MS or FPS:MS:KERNELS, such as 60:4: "
				  "1 to 1000 frames a second, 0.001 to 1000 ms and 1 to 10000 "
				  "kernels of each",
				  value);
	*game = (struct game){ .period_ns = 1e9 / fps,
			       .work_ns = ms * 1e6,
			       .kernels = (uint32_t)kernels };
	return 0;
}

static int parse_pair(struct test *pair, const char *value)
{
	struct range two = { 0 };
	int err = range_parse(&two, "-pg", value, 1, MAX_TOKENS);

	if (!err && two.n != 2)
		err = tool_usage("-pg: '%s' is not a pair of numbers such as 256,64", value);
	if (!err)
		*pair = (struct test){ two.v[0], two.v[1] };
	range_free(&two);
	return err;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct hetero *h = ud;

	switch (c) {
	case 'p':
		return range_parse(&h->n_prompt, "-p", value, 1, MAX_TOKENS);
	case 'n':
		return range_parse(&h->n_gen, "-n", value, 1, MAX_TOKENS);
	case OPT_PG:
		return parse_pair(&h->pair, value);
	case 'd':
		return tool_parse_uint("-d", value, 0, MAX_TOKENS, &h->n_depth);
	case 'r':
		return tool_parse_uint("-r", value, 1, 1000000, &h->repetitions);
	case OPT_GAME:
		return parse_game(&h->game.game, value);
	case OPT_SHARE:
		return tool_parse_float("--gpu-share", value, 0, 1, &h->share);
	case OPT_DRY_RUN:
		h->opts.dry_run = true;
		return 0;
	case OPT_SHAPE:
		h->opts.shape = value;
		return 0;
	case OPT_PROMPT_FILE:
		h->prompt_file = value;
		return 0;
	case OPT_SEED:
		return tool_parse_u64("--seed", value, 0, UINT64_MAX, &h->opts.seed);
	case OPT_JITTER:
		return tool_parse_float("--jitter", value, 0, 0.99f, &h->opts.jitter);
	case OPT_TIMELINE:
		h->timeline_path = value;
		return 0;
	case OPT_PROGRESS:
		h->progress = true;
		return 0;
	case OPT_PRESET:
		h->preset = value;
		break;
	case OPT_CLOCK:
		h->wall_clock = !strcmp(value, "wall");
		break;
	}
	return engine_option(&h->opts, c, value);
}

/* What was not given, and what does not go together. */
static int complete(struct hetero *h)
{
	if (!h->n_prompt.n && !h->n_gen.n && !h->pair.n_gen)
		return tool_usage("nothing to measure: give -p, -n or -pg");
	if (h->opts.shape && !h->opts.dry_run)
		return tool_usage("--shape: only with --dry-run");
	if (h->opts.dry_run && h->wall_clock)
		return tool_usage("--dry-run has no wall clock");
	if (h->opts.dry_run && !h->opts.shape && !h->opts.model)
		return tool_usage("--dry-run needs a model's shape: --shape llama3-8b, or another "
				  "of share/shapes, or -m FILE");
	if (h->share >= 0 && h->opts.choices.partition == LLM_PARTITION_NONE)
		return tool_usage("--gpu-share: a share without a cut: give --partition row, or "
				  "another that is not none");
	if (h->opts.dry_run && !h->opts.profile)
		h->opts.profile = ENGINE_DEFAULT_PROFILE;
	if (h->opts.jitter > 0 && !h->opts.profile)
		return tool_usage("--jitter: only on the virtual clock (--clock virtual)");
	if (!h->repetitions)
		h->repetitions = h->opts.profile && !(h->opts.jitter > 0) ? 1 : 5;
	if (!h->opts.model && !h->opts.shape)
		h->opts.model = tool_default_model();
	return 0;
}

/* 0 to go on; 1 to end with *@status. */
static int parse_options(struct hetero *h, int argc, char **argv, int *status)
{
	static const struct option_set set = { options, usage, .option = parse_one };

	if (options_parse(&set, argc, argv, h, status))
		return 1;
	if (optind < argc)
		*status = tool_usage("'%s': not an option; a model is given with -m", argv[optind]);
	else
		*status = complete(h);
	return *status != 0;
}

/* ---- results ---- */

static void add(struct json_object *o, const char *name, struct json_object *value)
{
	json_object_object_add(o, name, value);
}

static void add_engine(struct json_object *o, const struct hetero *h, const struct trial_result *r)
{
	const struct llm_engine_info *info = llm_engine_info(h->engine);

	add(o, "build_commit", json_out_string(tool_build_commit));
	add(o, "model_type", json_out_string(info->type));
	add(o, "n_threads", h->opts.dry_run ? NULL : json_out_u64(info->threads));
	add(o, "transport",
	    json_out_string(info->device ? engine_transport_name(info->device->transport) : NULL));
	add(o, "clock", json_out_string(info->profile ? "virtual" : "wall"));
	add(o, "profile", json_out_string(info->profile));
	add(o, "gpu", json_out_string(info->gpu));
	add(o, "preset", json_out_string(h->preset));
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++) {
		const char *name = llm_choice_name(c, llm_choices_get(&info->choices, c));

		add(o, llm_choice_info(c)->name,
		    json_out_string(llm_choice_applies(c, &info->choices, h->opts.dry_run) ? name
											   : NULL));
	}
	add(o, "gpu_share", h->share < 0 ? NULL : json_out_float(h->share));
	add(o, "chunk", r->chunk ? json_out_u64(r->chunk) : NULL);
}

/* NULL: nothing was waited for. */
static struct json_object *waits(const struct llm_wait_stats *w)
{
	const struct {
		const char *name;
		const double *us;
	} lists[] = { { "predicted_us", w->predicted_us },
		      { "took_us", w->took_us },
		      { "late_us", w->late_us } };
	struct json_object *o;

	if (!w->waits)
		return NULL;
	o = json_object_new_object();
	add(o, "waits", json_out_u64(w->waits));
	add(o, "overslept", json_out_u64(w->overslept));
	add(o, "given_up", json_out_u64(w->given_up));
	add(o, "slept_s", json_out_double(w->slept_s));
	add(o, "polled_s", json_out_double(w->polled_s));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct json_object *percentiles = json_object_new_array();

		for (int p = 0; p < 4; p++)
			json_object_array_add(percentiles, json_out_double(lists[i].us[p]));
		add(o, lists[i].name, percentiles);
	}
	return o;
}

static struct json_object *samples(const struct hetero *h, const struct trial_result *r)
{
	struct json_object *o = json_object_new_array();

	for (unsigned int i = 0; i < h->repetitions; i++)
		json_object_array_add(o, json_out_u64(r->samples_ns[i]));
	return o;
}

static struct json_object *mean_ns(const struct trial_result *r)
{
	return json_out_u64((uint64_t)(r->mean_ns + 0.5));
}

static void add_game(struct json_object *o, const struct hetero *h)
{
	const struct trial_game *g = &h->game;

	add(o, "game_shown", json_out_u64(g->game.shown));
	add(o, "game_dropped", json_out_u64(g->game.dropped));
	add(o, "game_fps", json_out_double(game_fps(&g->game)));
	add(o, "game_frame_ns",
	    json_out_double(g->gpu ? gpu_game_frame_ns(g->gpu) : g->game.work_ns));
}

/* @beside: the same beside the game; NULL: there is none. */
static int print(const struct hetero *h, const struct trial *t, const struct trial_result *alone,
		 const struct trial_result *beside)
{
	const struct trial_result *r = beside ? beside : alone;
	struct json_object *o = json_object_new_object();
	int err;

	add_engine(o, h, r);
	add(o, "n_prompt", json_out_u64(t->n_prompt));
	add(o, "n_gen", json_out_u64(t->n_gen));
	add(o, "n_depth", json_out_u64(t->n_depth));
	add(o, "avg_ns", mean_ns(r));
	add(o, "avg_ts", json_out_double((t->n_prompt + t->n_gen) * 1e9 / r->mean_ns));
	add(o, "samples_ns", samples(h, r));
	add(o, "output_sha256", json_out_string(*r->output_sha256 ? r->output_sha256 : NULL));
	add(o, "prompt_waits", waits(&r->prompt_waits));
	add(o, "token_waits", waits(&r->token_waits));
	if (beside) {
		add(o, "alone_ns", mean_ns(alone));
		add(o, "alone_samples_ns", samples(h, alone));
		add_game(o, h);
	}
	progress_clear();
	err = json_out_line(stdout, o);
	fflush(stdout);
	json_object_put(o);
	return err;
}

/* ---- tests ---- */

static void show_progress(void *ud, const struct trial *t, unsigned int repetition)
{
	const struct hetero *h = ud;
	char what[128], run[32] = "warm-up";

	if (repetition)
		snprintf(run, sizeof(run), "run %u/%u", repetition, t->repetitions);
	snprintf(what, sizeof(what), "%s, %s", t->name, run);
	if (h->progress)
		fprintf(stderr, "hetero: %s\n", what);
	else
		progress_show((double)repetition / (t->repetitions + 1), what);
}

static void name_test(char *name, size_t bytes, const struct trial *t, const char *beside)
{
	snprintf(name, bytes, "pp%u+tg%u @ d%u%s", t->n_prompt, t->n_gen, t->n_depth, beside);
}

/* Alone, and then beside the game. */
static int run_test(struct hetero *h, const struct test *test)
{
	bool game = h->game.game.period_ns > 0;
	struct trial_result alone = { 0 }, beside = { 0 };
	char name[64];
	struct trial t = {
		.engine = h->engine,
		.prompts = h->opts.dry_run ? NULL : &h->prompts,
		.n_prompt = test->n_prompt,
		.n_gen = test->n_gen,
		.n_depth = h->n_depth,
		.repetitions = h->repetitions,
		.timeline = h->timeline,
		.name = name,
		.progress = show_progress,
		.ud = h,
	};
	int status;

	name_test(name, sizeof(name), &t, "");
	status = trial_run(&t, NULL, &alone);
	name_test(name, sizeof(name), &t, " beside a game");
	if (!status && game)
		status = trial_run(&t, &h->game, &beside);
	if (!status && game && strcmp(alone.output_sha256, beside.output_sha256))
		status = tool_fail("%s: other tokens than without it: the device or the runtime is "
				   "not deterministic",
				   name);
	if (!status)
		status = print(h, &t, &alone, game ? &beside : NULL);
	free(alone.samples_ns);
	free(beside.samples_ns);
	return status;
}

static int run_tests(struct hetero *h)
{
	int status = 0;

	for (size_t i = 0; i < h->n_prompt.n && !status && !ferror(stdout); i++)
		status = run_test(h, &(struct test){ .n_prompt = h->n_prompt.v[i] });
	for (size_t i = 0; i < h->n_gen.n && !status && !ferror(stdout); i++)
		status = run_test(h, &(struct test){ .n_gen = h->n_gen.v[i] });
	if (h->pair.n_gen && !status && !ferror(stdout))
		status = run_test(h, &h->pair);
	return status;
}

/* In place of the solver: cuts that give the GPU this share, fast or not. */
static void cut_by_share(void *ud, const struct partition_options *o, uint32_t m, uint64_t k,
			 uint64_t n, struct cut *cut)
{
	const struct hetero *h = ud;

	partition_share(o, (double)h->share, m, k, n, cut);
}

/* On the wall clock the game is played, its kernels sized while the device is idle: before the
 * engine is opened. */
static int open_game(struct hetero *h)
{
	const char *gpu = h->opts.gpu;

	if (!(h->game.game.period_ns > 0) || h->opts.profile)
		return 0;
	if (gpu && !strcmp(gpu, LLM_GPU_HOST))
		gpu = NULL;
	return gpu_game_open(gpu, &h->game.game, &h->game.gpu)
		       ? tool_fail("--game: %s", llm_error())
		       : 0;
}

static int measure(struct hetero *h)
{
	int status = 0;

	if (h->timeline_path && !(h->timeline = timeline_open(h->timeline_path)))
		return 1;
	status = open_game(h);
	if (!status)
		status = engine_open(&h->opts, &h->engine);
	if (!status && h->share >= 0) {
		h->engine->cut = cut_by_share;
		h->engine->cut_ud = h;
	}
	if (!status && !h->opts.dry_run)
		status = prompts_init(&h->prompts, h->engine, h->prompt_file, h->opts.seed);
	if (!status)
		status = run_tests(h);
	progress_clear();
	prompts_free(&h->prompts);
	llm_engine_close(h->engine);
	gpu_game_close(h->game.gpu);
	if (h->timeline && timeline_close(h->timeline))
		status = 1;
	return status;
}

int main(int argc, char **argv)
{
	struct hetero h = { .share = -1 };
	int status;

	tool_begin("hetero");
	if (!parse_options(&h, argc, argv, &status))
		status = measure(&h);
	range_free(&h.n_prompt);
	range_free(&h.n_gen);
	return tool_finish(status);
}
