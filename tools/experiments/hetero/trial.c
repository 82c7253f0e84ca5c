// SPDX-License-Identifier: MIT
/* One test of an engine, alone or beside a game: see hetero.h. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hetero.h"
#include "tool.h"

/* A fast wait predicts a job's time from those before it: so many tokens until the prediction
 * holds. */
#define WARMUP_TOKENS 16

struct run {
	const struct trial *trial;
	struct trial_game *game; /* NULL: none */
	struct llm_session *s;
	/* Those of the depth and the prompt, and the token that generation starts with; NULL: a dry
	 * run. */
	int32_t *ids;
	int32_t *output; /* n_gen tokens */
};

/* ---- one repetition ---- */

static int eval(struct run *run, const struct soc *cuts, const int32_t *ids, size_t n)
{
	run->s->runner.opts.cuts = cuts;
	return llm_session_eval(run->s, ids, n) ? tool_fail("%s", llm_error()) : 0;
}

static int32_t likeliest(const struct run *run)
{
	const float *logits = llm_session_logits(run->s);

	return logits ? llm_argmax(logits, llm_engine_info(run->trial->engine)->n_vocab) : 0;
}

/* n_gen tokens are as many evaluations of one token: after a prompt its logits give the first of
 * them. */
static int run_once(struct run *run, unsigned int n_gen)
{
	const struct trial *t = run->trial;
	const struct soc *cuts = run->s->runner.opts.cuts;
	const struct soc *prompt_cuts = run->game && !run->game->gpu ? &run->game->left : cuts;
	const int32_t *prompt = run->ids ? run->ids + t->n_depth : NULL;
	int32_t next = run->ids && !t->n_prompt ? prompt[0] : 0;
	int status = 0;

	if (t->n_prompt) {
		status = eval(run, prompt_cuts, prompt, t->n_prompt);
		next = likeliest(run);
	}
	for (unsigned int i = 0; i < n_gen && !status; i++) {
		int32_t id = next;

		status = eval(run, cuts, &id, 1);
		next = likeliest(run);
		if (run->output)
			run->output[i] = t->n_prompt ? id : next;
	}
	run->s->runner.opts.cuts = cuts;
	return status;
}

/* The tokens that a repetition gave must be those of the one before. */
static int check_output(const struct run *run, unsigned int repetition, struct trial_result *r)
{
	char sha[TOKENS_SHA256_CHARS + 1];

	if (!run->output || !run->trial->n_gen)
		return 0;
	tokens_sha256(run->output, run->trial->n_gen, sha);
	if (repetition && strcmp(sha, r->output_sha256))
		return tool_fail("repetition %u generated other tokens than the one before: the "
				 "device or the runtime "
				 "is not deterministic",
				 repetition + 1);
	memcpy(r->output_sha256, sha, sizeof(sha));
	return 0;
}

/* ---- all of them ---- */

static int begin_game(struct run *run)
{
	struct trial_game *g = run->game;

	if (!g)
		return 0;
	if (g->gpu)
		return gpu_game_start(g->gpu) ? tool_fail("--game: %s", llm_error()) : 0;
	g->game = game_anew(&g->game);
	g->left = game_leaves(&g->game, run->trial->engine->soc);
	g->client =
		(struct sched_client){ .ops = &game_client_ops, .ud = &g->game, .lane = SOC_GPU };
	run->s->runner.client = &g->client;
	return 0;
}

static int end_game(struct run *run)
{
	struct trial_game *g = run->game;

	if (!g)
		return 0;
	if (g->gpu)
		return gpu_game_stop(g->gpu, &g->game) ? tool_fail("--game: %s", llm_error()) : 0;
	run->s->runner.client = NULL;
	game_until(&g->game, g->client.now_ns);
	return 0;
}

static int repeat(struct run *run, struct trial_result *r)
{
	const struct trial *t = run->trial;

	for (unsigned int i = 0; i < t->repetitions; i++) {
		uint64_t begin_ns;

		t->progress(t->ud, t, i + 1);
		if (llm_session_truncate(run->s, t->n_depth))
			return tool_fail("%s", llm_error());
		begin_ns = llm_session_now_ns(run->s);
		if (run_once(run, t->n_gen))
			return 1;
		r->samples_ns[i] = llm_session_now_ns(run->s) - begin_ns;
		r->mean_ns += (double)r->samples_ns[i] / t->repetitions;
		if (check_output(run, i, r))
			return 1;
	}
	return 0;
}

static int measure(struct run *run, struct trial_result *r)
{
	const struct trial *t = run->trial;
	int status;

	if (!t->engine->soc) {
		t->progress(t->ud, t, 0);
		if (run_once(run, t->n_gen < WARMUP_TOKENS ? t->n_gen : WARMUP_TOKENS))
			return 1;
	}
	if (t->timeline && timeline_listen(t->timeline, t->name, run->s))
		return 1;
	status = begin_game(run);
	if (status)
		return status;
	status = repeat(run, r);
	return end_game(run) || status;
}

/* Ids, a session with those of the depth, and room for results. */
static int prepare(struct run *run, struct trial_result *r)
{
	const struct trial *t = run->trial;
	size_t n_before = (size_t)t->n_depth + t->n_prompt;

	r->samples_ns = calloc(t->repetitions, sizeof(*r->samples_ns));
	if (t->prompts) {
		run->ids = prompts_make(t->prompts, n_before + !t->n_prompt);
		if (!run->ids)
			return 1;
		run->output = calloc(t->n_gen + 1, sizeof(*run->output));
	}
	if (!r->samples_ns || (t->prompts && !run->output))
		return tool_fail("no memory for the results");
	if (llm_session_create(t->engine, (unsigned int)n_before + t->n_gen, &run->s) ||
	    (t->n_depth && llm_session_eval(run->s, run->ids, t->n_depth)))
		return tool_fail("%s", llm_error());
	return 0;
}

int trial_run(const struct trial *trial, struct trial_game *game, struct trial_result *result)
{
	struct run run = { .trial = trial, .game = game };
	struct llm_session_stats stats;
	int status;

	*result = (struct trial_result){ 0 };
	status = prepare(&run, result);
	if (!status)
		status = measure(&run, result);
	if (!status) {
		llm_session_stats(run.s, &stats);
		result->chunk = stats.chunk;
		llm_session_waits(run.s, false, &result->prompt_waits);
		llm_session_waits(run.s, true, &result->token_waits);
	}
	llm_session_free(run.s);
	free(run.ids);
	free(run.output);
	return status;
}
