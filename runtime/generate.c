// SPDX-License-Identifier: MIT
/*
 * Generation: evaluates a prompt, then chooses, reports and evaluates one token after another.
 *
 * The token chosen last is evaluated only when another one is wanted, so n tokens after a prompt
 * take n - 1 evaluations. With a drafter the token is the root of a tree of guesses, evaluated with
 * it. Tokens are chosen from the root on: as long as the chosen one is a child in the tree, its
 * logits are there. So the tokens, and the sampler's draws, are those of plain decoding.
 */
#include <errno.h>
#include <string.h>

#include "drafter.h"
#include "engine.h"
#include "generate_text.h"
#include "llm_fail.h"
#include "sampler_check.h"

struct generation {
	struct llm_session *s;
	const struct llm_generate_options *opts;
	struct llm_generate_result *result;
	struct generate_text text;
	const struct token_tree
		*tree; /* evaluated last; NULL: no drafter, or only the prompt was */
	uint64_t begin_ns;
	bool ended;
};

static int generation_check(const struct llm_session *s, const struct llm_generate_options *opts)
{
	for (size_t i = 0; i < opts->nr_stops; i++) {
		if (!opts->stops[i][0])
			return llm_fail(-EINVAL, "stop string %zu is empty", i);
	}
	return opts->sampler ? sampler_check_vocab(opts->sampler, s->engine->info.n_vocab) : 0;
}

static void generation_end(struct generation *g, enum llm_ended why)
{
	g->result->ended = why;
	g->ended = true;
}

static int generation_prompt(struct generation *g, const int32_t *prompt, size_t n)
{
	int err = 0;

	if (!n && !llm_session_logits(g->s))
		err = llm_fail(-EINVAL, "the prompt is empty, and the session has no logits");
	else if (g->opts->drafter)
		err = drafter_prompt(g->opts->drafter, g->s, prompt, n);
	else if (n)
		err = llm_session_eval(g->s, prompt, n);
	g->result->prompt_ns = llm_session_now_ns(g->s) - g->begin_ns;
	return err;
}

/* Evaluates the token that was chosen last, and with a drafter guesses behind it. */
static int generation_evaluate(struct generation *g)
{
	uint64_t tokens = g->opts->max_tokens - g->result->n_tokens;
	unsigned int room = llm_session_n_ctx(g->s) - llm_session_n_past(g->s);

	if (!g->opts->drafter)
		return llm_session_eval(g->s, &g->result->last, 1);
	g->tree = &g->opts->drafter->tree;
	/* A single token that is still wanted needs no guesses. */
	return drafter_step(g->opts->drafter, g->s, g->result->last, tokens > 1 ? room : 1);
}

/* @node: of the tree; 0 without one. */
static int32_t generation_choose(const struct generation *g, uint32_t node)
{
	bool tree = g->tree && g->tree->n > 1;
	const float *logits = tree ? llm_tree_logits(g->s, node) : llm_session_logits(g->s);
	uint64_t start_ns = llm_session_now_ns(g->s);
	int32_t id = g->opts->sampler ? llm_sample(g->opts->sampler, logits)
				      : llm_argmax(logits, g->s->engine->info.n_vocab);

	session_count_sampling(g->s, llm_session_now_ns(g->s) - start_ns);
	return id;
}

/* Reports token @id and the ready text, and returns the callback's answer. -1: only text. */
static int generation_tell(struct generation *g, int32_t id, uint64_t at_ns)
{
	const struct llm_generated token = {
		.id = id,
		.n = g->result->n_tokens - (id >= 0),
		.at_ns = at_ns,
		.text = g->text.bytes,
		.text_bytes = g->text.ready,
	};
	int answer = g->opts->token ? g->opts->token(g->opts->ud, &token) : 0;

	generate_text_given(&g->text);
	return answer;
}

static int generation_give(struct generation *g, int32_t id, uint64_t at_ns)
{
	int err = g->opts->drafter ? drafter_answer(g->opts->drafter, id) : 0;

	if (err)
		return err;
	if (g->opts->ids)
		g->opts->ids[g->result->n_tokens] = id;
	g->result->n_tokens++;
	if (!g->opts->token && !g->opts->nr_stops)
		return 0;
	err = generate_text_token(&g->text, g->s->engine, id);
	if (err)
		return err;
	if (generation_tell(g, id, at_ns)) {
		generation_end(g, LLM_ENDED_CALLBACK);
	} else if (g->text.stopped) {
		g->result->stop = g->text.stop;
		generation_end(g, LLM_ENDED_STRING);
	}
	return 0;
}

/* Chooses and gives the token behind @node. */
static int generation_token(struct generation *g, uint32_t node)
{
	struct llm_generate_result *r = g->result;
	uint64_t now_ns;

	r->last = generation_choose(g, node);
	if (r->last < 0)
		return r->last;
	now_ns = llm_session_now_ns(g->s);
	if (!r->n_tokens)
		r->first_ns = now_ns - g->begin_ns;
	if (!g->opts->ignore_end && llm_token_is_end(g->s->engine, r->last)) {
		generation_end(g, LLM_ENDED_TOKEN);
		return 0;
	}
	return generation_give(g, r->last, now_ns);
}

/* The node of the token that was chosen behind @node, or TREE_NONE: it has to be evaluated. */
static uint32_t generation_child(const struct generation *g, uint32_t node)
{
	if (!g->tree || g->ended || g->result->n_tokens == g->opts->max_tokens)
		return TREE_NONE;
	return token_tree_child(g->tree, node, g->result->last);
}

/* Chooses tokens as far as there are logits. */
static int generation_tokens(struct generation *g)
{
	uint8_t path[TREE_MAX];
	uint32_t n = 0, node = 0;

	while (node != TREE_NONE) {
		int err;

		path[n++] = (uint8_t)node;
		err = generation_token(g, node);
		/* The session keeps what was given before. */
		if (err && g->tree && g->tree->n > 1)
			llm_tree_keep(g->s, path, n);
		if (err)
			return err;
		node = generation_child(g, node);
	}
	return g->tree ? drafter_keep(g->opts->drafter, g->s, path, n, g->result->last) : 0;
}

static int generation_step(struct generation *g)
{
	int err = 0;

	if (g->result->n_tokens == g->opts->max_tokens) {
		generation_end(g, LLM_ENDED_MAX);
		return 0;
	}
	if (g->result->n_tokens && llm_session_n_past(g->s) == llm_session_n_ctx(g->s)) {
		generation_end(g, LLM_ENDED_CONTEXT);
		return 0;
	}
	if (g->result->n_tokens)
		err = generation_evaluate(g);
	return err ? err : generation_tokens(g);
}

/* Reports text that was held back, unless the callback or a stop string ended the generation. */
static void generation_rest(struct generation *g)
{
	if (g->text.stopped || (g->ended && g->result->ended == LLM_ENDED_CALLBACK))
		return;
	generate_text_end(&g->text);
	/* The callback's answer has no effect at the end. */
	if (g->text.ready)
		generation_tell(g, -1, llm_session_now_ns(g->s));
}

int llm_generate(struct llm_session *session, const int32_t *prompt, size_t n,
		 const struct llm_generate_options *opts, struct llm_generate_result *result)
{
	struct llm_generate_result unwanted;
	struct generation g = {
		.s = session,
		.opts = opts,
		.result = result ? result : &unwanted,
		.text = { .stops = opts->stops, .nr_stops = opts->nr_stops },
		.begin_ns = llm_session_now_ns(session),
	};
	int err = generation_check(session, opts);

	*g.result = (struct llm_generate_result){ .last = -1 };
	if (!err)
		err = generation_prompt(&g, prompt, n);
	while (!err && !g.ended)
		err = generation_step(&g);
	if (!err && opts->drafter)
		drafter_end(opts->drafter);
	generation_rest(&g);
	g.result->total_ns = llm_session_now_ns(session) - g.begin_ns;
	generate_text_free(&g.text);
	return err;
}
