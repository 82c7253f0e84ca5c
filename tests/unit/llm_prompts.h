/* SPDX-License-Identifier: MIT */
/* Random prompts, and the logits after them: what starts of an engine are compared by. */
#ifndef LLM_PROMPTS_H
#define LLM_PROMPTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "llm.h"
#include "tiny_random.h"

#define MAX_TOKENS 300
/* Evaluations: the first one loads the weights. */
#define STEPS 3

struct prompts {
	int32_t ids[MAX_TOKENS];
	unsigned int steps[STEPS];
	size_t bytes; /* of a token's logits */
};

static inline struct prompts prompts_of(unsigned int n_vocab)
{
	struct prompts p = { .steps = { any(0, 3) ? any(2, 150) : 1, 1, any(1, 100) },
			     .bytes = n_vocab * sizeof(float) };

	for (int i = 0; i < MAX_TOKENS; i++)
		p.ids[i] = (int32_t)any(0, n_vocab - 1);
	return p;
}

static inline void evaluate(struct llm_engine *engine, const struct prompts *p, char *logits)
{
	unsigned int done = 0;
	struct llm_session *s;

	if (llm_session_create(engine, MAX_TOKENS, &s))
		fail_msg("%s", llm_error());
	for (int step = 0; step < STEPS; step++) {
		if (llm_session_eval(s, p->ids + done, p->steps[step]))
			fail_msg("%s", llm_error());
		done += p->steps[step];
		memcpy(logits + (size_t)step * p->bytes, llm_session_logits(s), p->bytes);
	}
	llm_session_free(s);
}

/* [STEPS] logits, to be freed. */
static inline char *logits_of(const struct prompts *p, const struct llm_options *o)
{
	char *logits = malloc(STEPS * p->bytes);
	struct llm_engine *engine;

	if (llm_engine_open(o, &engine))
		fail_msg("%s", llm_error());
	evaluate(engine, p, logits);
	llm_engine_close(engine);
	return logits;
}

#endif /* LLM_PROMPTS_H */
