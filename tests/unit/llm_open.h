/* SPDX-License-Identifier: MIT */
/* Engines and sessions of tests, which fail with the error line. Include cmocka.h before. */
#ifndef LLM_OPEN_H
#define LLM_OPEN_H

#include "llm.h"

static inline struct llm_engine *open_engine(const struct llm_options *o)
{
	struct llm_engine *engine;

	if (llm_engine_open(o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

static inline struct llm_session *new_session(struct llm_engine *engine, unsigned int n_ctx)
{
	struct llm_session *s;

	if (llm_session_create(engine, n_ctx, &s))
		fail_msg("%s", llm_error());
	return s;
}

#endif /* LLM_OPEN_H */
