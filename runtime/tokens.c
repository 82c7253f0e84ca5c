/* SPDX-License-Identifier: MIT */
/* Tokenizing with an engine's vocabulary, which a dry run of a shape lacks. */
#include <errno.h>

#include "engine.h"
#include "llm_fail.h"
#include "text.h"

static int has_vocabulary(const struct llm_engine *engine)
{
	return engine->tok ? 0 : llm_fail(-ENOTSUP, "a dry run of a shape has no vocabulary");
}

long llm_tokenize(const struct llm_engine *engine, const char *text, size_t bytes,
		  unsigned int flags, int32_t *ids, size_t max)
{
	int err = has_vocabulary(engine);

	return err ? err : text_tokenize(engine->tok, text, bytes, flags, ids, max);
}

int llm_token_text(const struct llm_engine *engine, int32_t id, char *buf, size_t max)
{
	int n = has_vocabulary(engine);

	if (n)
		return n;
	n = tokenizer_token_text(engine->tok, id, buf, max);
	return n < 0 ? llm_fail(n, "no token %d; the vocabulary has %zu", id,
				tokenizer_n_vocab(engine->tok))
		     : n;
}

long llm_detokenize(const struct llm_engine *engine, const int32_t *ids, size_t n, char *buf,
		    size_t max)
{
	int err = has_vocabulary(engine);

	return err ? err : text_detokenize(engine->tok, ids, n, buf, max);
}

bool llm_token_is_end(const struct llm_engine *engine, int32_t id)
{
	return engine->tok && tokenizer_is_end(engine->tok, id);
}
