// SPDX-License-Identifier: MIT
/* The windows of a text: see llm-perplexity.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "llm-perplexity.h"
#include "progress.h"
#include "tool.h"

/* The model that predictions are compared with. */
struct reference {
	struct llm_engine *engine; /* NULL: there is none */
	struct llm_session *s;
	int32_t *top; /* [n_ctx]: the most likely token after each position of the window */
};

/* Adds -log softmax of the actual next token. Relative to the maximum, exp() cannot overflow. */
static void score_position(void *ud, size_t i, const float *logits)
{
	struct score *sc = ud;
	float max = logits[0];
	double sum = 0, log_sum, nll;

	for (unsigned int v = 1; v < sc->n_vocab; v++)
		max = logits[v] > max ? logits[v] : max;
	for (unsigned int v = 0; v < sc->n_vocab; v++)
		sum += (double)expf(logits[v] - max);
	log_sum = log(sum) + (double)max;
	nll = log_sum - (double)logits[sc->next[i]];
	sc->n++;
	sc->nll += nll;
	sc->nll2 += nll * nll;
	sc->same += sc->top && sc->top[i] == llm_argmax(logits, sc->n_vocab);
	if (sc->base)
		base_position(sc->base, logits, log_sum, sc->next[i]);
}

/* ---- the reference ---- */

struct tops {
	int32_t *top;
	unsigned int n_vocab;
};

static void note_top(void *ud, size_t i, const float *logits)
{
	const struct tops *t = ud;

	t->top[i] = llm_argmax(logits, t->n_vocab);
}

/* Both models have to have the same tokens. */
static int reference_open(const struct ppl_options *o, const struct llm_engine *engine,
			  struct reference *ref)
{
	struct llm_options opts = {
		.model = o->reference,
		.choices = { .placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_F32 },
		.threads = o->engine.threads,
	};
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab, n;
	int status = engine_open(&opts, &ref->engine);

	if (status)
		return status;
	n = llm_engine_info(ref->engine)->n_vocab;
	if (n != n_vocab)
		return tool_fail("%s has %u tokens, %s %u: the reference must have the same",
				 o->reference, n, o->engine.model, n_vocab);
	ref->top = calloc(o->n_ctx, sizeof(*ref->top));
	if (!ref->top)
		return tool_fail("no memory for a window of %u tokens", o->n_ctx);
	return llm_session_create(ref->engine, o->n_ctx, &ref->s) ? tool_fail("%s", llm_error())
								  : 0;
}

static void reference_close(struct reference *ref)
{
	if (ref->s)
		llm_session_free(ref->s);
	if (ref->engine)
		engine_close(ref->engine);
	free(ref->top);
}

/* What it predicts after positions first .. n_ctx - 2. */
static int reference_window(const struct ppl_options *o, struct reference *ref, const int32_t *ids,
			    unsigned int first)
{
	struct tops tops = { ref->top, llm_engine_info(ref->engine)->n_vocab };

	if (llm_session_truncate(ref->s, 0) || (first && llm_session_eval(ref->s, ids, first)) ||
	    llm_session_eval_all(ref->s, ids + first, o->n_ctx - first - 1, note_top, &tops))
		return tool_fail("%s", llm_error());
	return 0;
}

/* ---- windows ---- */

static int score_window(const struct ppl_options *o, struct llm_session *s, struct reference *ref,
			const int32_t *ids, struct score *sc)
{
	unsigned int first = o->all ? 0 : o->n_ctx / 2;

	if (ref->engine && reference_window(o, ref, ids, first))
		return 1;
	sc->top = ref->top;
	if (llm_session_truncate(s, 0))
		return tool_fail("%s", llm_error());
	/* The first half is evaluated without logits. The last token is left out, since the token
	 * that it predicts is not in the window. */
	if (first && llm_session_eval(s, ids, first))
		return tool_fail("%s", llm_error());
	sc->next = ids + first + 1;
	if (llm_session_eval_all(s, ids + first, o->n_ctx - first - 1, score_position, sc))
		return tool_fail("%s", llm_error());
	return 0;
}

/* The window at work, and the perplexity so far, for the bar. */
static void show_progress(const struct score *sc, size_t n_windows)
{
	char what[64];

	if (sc->n)
		snprintf(what, sizeof(what), "%zu of %zu: perplexity %.4f", sc->n_windows,
			 n_windows, exp(sc->nll / (double)sc->n));
	else
		snprintf(what, sizeof(what), "window 1 of %zu", n_windows);
	progress_show((double)sc->n_windows / (double)n_windows, what);
}

static int score_windows(const struct ppl_options *o, struct llm_session *s, struct reference *ref,
			 struct token_list *text, size_t n_windows, int bos, struct score *sc)
{
	for (; sc->n_windows < n_windows && !interrupted; sc->n_windows++) {
		int32_t *ids = text->ids + sc->n_windows * o->n_ctx;

		show_progress(sc, n_windows);
		if (bos >= 0)
			ids[0] = bos;
		if (score_window(o, s, ref, ids, sc) || (sc->base && base_check(sc->base)))
			return 1;
	}
	progress_clear();
	return 0;
}

int score_text(const struct ppl_options *o, struct llm_engine *engine, struct llm_session *s,
	       struct token_list *text, size_t n_windows, struct score *sc)
{
	const struct llm_engine_info *info = llm_engine_info(engine);
	struct reference ref = { 0 };
	int status = o->reference ? reference_open(o, engine, &ref) : 0;

	if (!status)
		status = score_windows(o, s, &ref, text, n_windows, info->add_bos ? info->bos : -1,
				       sc);
	sc->top = NULL;
	reference_close(&ref);
	return status;
}
