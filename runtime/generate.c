// SPDX-License-Identifier: MIT
/*
 * Generation: evaluates a prompt, then chooses, reports and evaluates one token after another.
 *
 * The token chosen last is evaluated only when another one is wanted, so n tokens after a prompt
 * take n - 1 evaluations.
 */
#include <errno.h>
#include <string.h>

#include "engine.h"
#include "generate_text.h"
#include "llm_fail.h"

struct generation {
	struct llm_session *s;
	const struct llm_generate_options *opts;
	struct llm_generate_result *result;
	struct generate_text text;
	uint64_t begin_ns;
	bool ended;
};

static int generation_check(const struct llm_generate_options *opts)
{
	for (size_t i = 0; i < opts->nr_stops; i++) {
		if (!opts->stops[i][0])
			return llm_fail(-EINVAL, "stop string %zu is empty", i);
	}
	return 0;
}

static void generation_end(struct generation *g, enum llm_ended why)
{
	g->result->ended = why;
	g->ended = true;
}

static int generation_prompt(struct generation *g, const int32_t *prompt, size_t n)
{
	int err = 0;

	if (n)
		err = llm_session_eval(g->s, prompt, n);
	else if (!llm_session_logits(g->s))
		err = llm_fail(-EINVAL, "the prompt is empty, and the session has no logits");
	g->result->prompt_ns = llm_session_now_ns(g->s) - g->begin_ns;
	return err;
}

static int32_t generation_choose(const struct generation *g)
{
	const float *logits = llm_session_logits(g->s);
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
	int err;

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

static int generation_step(struct generation *g)
{
	struct llm_generate_result *r = g->result;
	uint64_t now_ns;
	int err = 0;

	if (r->n_tokens == g->opts->max_tokens) {
		generation_end(g, LLM_ENDED_MAX);
		return 0;
	}
	if (r->n_tokens && llm_session_n_past(g->s) == llm_session_n_ctx(g->s)) {
		generation_end(g, LLM_ENDED_CONTEXT);
		return 0;
	}
	if (r->n_tokens)
		err = llm_session_eval(g->s, &r->last, 1);
	if (err)
		return err;
	r->last = generation_choose(g);
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
	int err = generation_check(opts);

	*g.result = (struct llm_generate_result){ .last = -1 };
	if (!err)
		err = generation_prompt(&g, prompt, n);
	while (!err && !g.ended)
		err = generation_step(&g);
	generation_rest(&g);
	g.result->total_ns = llm_session_now_ns(session) - g.begin_ns;
	generate_text_free(&g.text);
	return err;
}
