// SPDX-License-Identifier: MIT
/*
 * llm-bench: the matrix.
 *
 * Each combination of model, transport, preset, choices, chunk, device workers and threads is an
 * engine, which is loaded once. It runs, for each depth, the prompt tests, the generation tests and
 * the pairs of -pg. With --dry-run shapes replace models, and nothing is loaded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "llm-bench.h"
#include "progress.h"
#include "tool.h"

struct bench {
	const struct bench_args *args;
	struct bench_output out, out_err;
	struct bench_config *configs;
	size_t n_configs;
	bool told_draft; /* that nothing is drafted */
	unsigned int unused; /* options that none of them uses: engine_unused() */
	struct bench_test *tests;
	size_t n_tests;
	size_t done; /* tests done, of all engines */
	int refused; /* the exit status, if an engine could not be had */
	struct timeline *timeline; /* NULL: none */
};

/* ---- the matrix ------------------------------------------------------------------------------ */

static int append_test(struct bench *b, const struct bench_test *test)
{
	struct bench_test *tests;

	tests = realloc(b->tests, (b->n_tests + 1) * sizeof(*tests));
	if (!tests)
		return tool_fail("no memory for %zu tests", b->n_tests + 1);
	b->tests = tests;
	tests[b->n_tests++] = *test;
	return 0;
}

static int add_test(struct bench *b, unsigned int n_prompt, unsigned int n_gen,
		    unsigned int n_depth)
{
	const struct bench_test test = { .n_prompt = n_prompt, .n_gen = n_gen, .n_depth = n_depth };

	return n_prompt || n_gen ? append_test(b, &test) : 0;
}

/* The kinds of tasks, and the replay of a trace at each depth. */
static int add_draft_tests(struct bench *b)
{
	const struct bench_args *a = b->args;
	const char *kind;
	int err = 0;

	for (size_t i = 0; (kind = tasks_kind(&a->tasks, i)) && !err; i++)
		err = append_test(b, &(struct bench_test){ .kind = kind });
	for (size_t d = 0; d < a->n_depth.n && a->trace.n && !err; d++)
		err = append_test(
			b, &(struct bench_test){ .n_depth = a->n_depth.v[d], .replay = true });
	return err;
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
	err = err ?: add_draft_tests(b);
	if (!err && !b->n_tests)
		err = tool_usage("nothing to measure: -p and -n are 0 and there is no -pg");
	return err;
}

/* Only tasks have something to draft from. */
static void settle_draft(struct bench *b, struct bench_config *c)
{
	enum llm_draft *draft = &c->opts.choices.draft;
	bool wanted = *draft != LLM_DRAFT_AUTO && *draft != LLM_DRAFT_NONE;

	if (b->args->tasks.n) {
		if (*draft == LLM_DRAFT_AUTO)
			*draft = LLM_DRAFT_COORDGEN;
		return;
	}
	if (wanted && !b->args->all_presets && !b->told_draft)
		fprintf(stderr,
			"llm-bench: preset %s drafts with --tasks only: nothing is drafted\n",
			c->preset);
	b->told_draft |= wanted;
	*draft = LLM_DRAFT_NONE;
}

static int add_config(struct bench *b, const struct bench_config *config)
{
	struct bench_config *configs = realloc(b->configs, (b->n_configs + 1) * sizeof(*configs));

	if (!configs)
		return tool_fail("no memory for %zu engines", b->n_configs + 1);
	b->configs = configs;
	configs[b->n_configs] = *config;
	settle_draft(b, &configs[b->n_configs]);
	b->unused &= engine_unused(&config->opts);
	if (llm_options_check(&configs[b->n_configs].opts))
		return tool_usage("%s", llm_error());
	b->n_configs++;
	return 0;
}

/* Adds engines for all combinations of settings from @setting on; without a list they are @c's. */
static int multiply(struct bench *b, struct bench_config c, enum engine_setting setting)
{
	const struct range *list = &b->args->settings[setting];
	int err = 0;

	if (setting == ENGINE_NR_SETTINGS)
		return add_config(b, &c);
	if (!list->n)
		return multiply(b, c, setting + 1);
	for (size_t i = 0; i < list->n && !err; i++) {
		engine_setting_apply(&c.opts, setting, list->v[i]);
		err = multiply(b, c, setting + 1);
	}
	return err;
}

static int add_presets(struct bench *b, struct bench_config c)
{
	const struct range *presets = &b->args->preset;
	int err = 0;

	if (!presets->n)
		return multiply(b, c, ENGINE_CHOICE);
	for (size_t i = 0; i < presets->n && !err; i++) {
		const struct llm_preset *preset = llm_preset(presets->v[i]);
		struct bench_config with = c;

		with.preset = preset->name;
		llm_preset_apply(preset, &with.opts.choices);
		err = multiply(b, with, ENGINE_CHOICE);
	}
	return err;
}

/* A dry run skips the first setting, the transport. */
static int make_configs(struct bench *b)
{
	const struct bench_args *a = b->args;
	const struct range *transports = &a->settings[ENGINE_TRANSPORT];
	struct bench_config c = { .opts = a->base };
	int err = 0;

	b->unused = ~0u;
	c.opts.dry_run = a->dry_run;
	c.opts.jitter = a->jitter;
	c.opts.seed = a->seed;
	for (size_t s = 0; s < a->n_shapes && !err; s++) {
		c.opts.shape = a->shapes[s];
		err = add_presets(b, c);
	}
	c.opts.shape = NULL;
	for (size_t m = 0; m < a->n_models && !err; m++) {
		c.opts.model = a->models[m];
		if (!transports->n)
			err = add_presets(b, c);
		for (size_t t = 0; t < transports->n && !err; t++) {
			engine_setting_apply(&c.opts, ENGINE_TRANSPORT, transports->v[t]);
			err = add_presets(b, c);
		}
	}
	return err ?: engine_refuse_unused(b->unused);
}

/* ---- running it ------------------------------------------------------------------------------ */

static void show_progress(void *ud, const struct bench_test *test, unsigned int repetition)
{
	struct bench *b = ud;
	size_t n = b->n_configs * b->n_tests;
	unsigned int repetitions = b->args->repetitions, runs = repetitions + 1;
	char name[64], what[128];

	bench_test_name(test, name, sizeof(name));
	if (repetition)
		snprintf(what, sizeof(what), "test %zu/%zu: %s, run %u/%u", b->done + 1, n, name,
			 repetition, repetitions);
	else
		snprintf(what, sizeof(what), "test %zu/%zu: %s, warm-up", b->done + 1, n, name);
	if (b->args->progress)
		fprintf(stderr, "llm-bench: %s\n", what);
	else
		progress_show(((double)b->done + (double)repetition / runs) / (double)n, what);
}

/* Repeats a dry run with the profile's model in place of the predictor. */
static int run_without_predictor(struct bench *b, const struct bench_config *config,
				 const struct bench_test *test, uint64_t *ns)
{
	struct bench_config without = *config;
	struct bench_tokens tokens = { .args = b->args };
	struct bench_result r;
	int status;

	without.opts.predictor = NULL;
	if (engine_try_open(&without.opts, &tokens.engine))
		return tool_fail("%s", llm_error());
	status = bench_run(&tokens, &without, test, 0, NULL, show_progress, b, &r);
	if (!status)
		*ns = (uint64_t)bench_stat_ns(&r).mean;
	free(r.samples_ns);
	engine_close(tokens.engine);
	return status;
}

static int run_test(struct bench *b, struct bench_tokens *tokens, const struct bench_config *config,
		    const struct bench_test *test, uint64_t load_peak_bytes)
{
	struct bench_result r;
	int status =
		bench_run(tokens, config, test, load_peak_bytes, b->timeline, show_progress, b, &r);

	if (!status && config->opts.dry_run && config->opts.predictor)
		status = run_without_predictor(b, config, test, &r.modelled_ns);
	if (!status)
		status = bench_output_result(&b->out, &r);
	if (!status)
		status = bench_output_result(&b->out_err, &r);
	free(r.samples_ns);
	b->done++;
	return status;
}

/* Whether a cold start would be over before a test begins. */
static bool starts_untimed(const struct bench *b, const struct llm_engine *engine)
{
	bool deep = false;

	for (size_t i = 0; i < b->n_tests; i++)
		deep |= b->tests[i].n_depth != 0;
	return deep && llm_engine_info(engine)->choices.start == LLM_START_COLD;
}

static int run_config(struct bench *b, struct bench_config *config)
{
	struct bench_tokens tokens = { .args = b->args };
	uint64_t load_peak_bytes;
	int status;

	bench_memory_reset();
	status = engine_try_open(&config->opts, &tokens.engine);
	/* All presets are those that the file can be used with. */
	if (status == -ENODATA && b->args->all_presets) {
		fprintf(stderr, "llm-bench: preset %s is left out: %s\n", config->preset,
			llm_error());
		b->done += b->n_tests;
		return 0;
	}
	/* What one engine cannot do, others may. */
	if (status == -ENOTSUP) {
		b->refused = tool_fail("%s", llm_error());
		b->done += b->n_tests;
		return 0;
	}
	if (status)
		return tool_fail("%s", llm_error());
	load_peak_bytes = tool_peak_memory();
	if (!config->opts.dry_run && starts_untimed(b, tokens.engine))
		status = tool_fail("the tokens of a depth, which are not timed, would start the "
				   "model: with -d choose --start warm");
	if (!status && !config->opts.dry_run)
		status = prompts_init(&tokens.prompts, tokens.engine, b->args->prompt_file,
				      b->args->seed);
	/* After an error of stdout, more results would be lost too. */
	for (size_t i = 0; i < b->n_tests && !status && !ferror(stdout); i++)
		status = run_test(b, &tokens, config, &b->tests[i], load_peak_bytes);
	prompts_free(&tokens.prompts);
	engine_close(tokens.engine);
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
	for (size_t i = 0; i < b->n_configs && !status && !ferror(stdout); i++)
		status = run_config(b, &b->configs[i]);
	status = status ?: b->refused;
	progress_clear();
	/* Also after a failure, so that the results so far are well-formed. */
	bench_output_end(&b->out);
	bench_output_end(&b->out_err);
	if (b->timeline && timeline_close(b->timeline))
		status = 1;
	return status;
}

int main(int argc, char **argv)
{
	struct bench_args args = { .repetitions = 5, .warmup = true, .out = BENCH_MD };
	struct bench b = { .args = &args };
	int status;

	tool_begin("llm-bench");
	if (!bench_args_parse(&args, argc, argv, &status))
		status = measure(&b);
	free(b.configs);
	free(b.tests);
	bench_args_free(&args);
	return tool_finish(status);
}
