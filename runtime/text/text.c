/* SPDX-License-Identifier: MIT */
/* Tokenizing with any vocabulary: see text.h. */
#include <errno.h>
#include <string.h>

#include "llm.h"
#include "llm_fail.h"
#include "text.h"

long text_tokenize(const struct tokenizer *tok, const char *text, size_t bytes, unsigned int flags,
		   int32_t *ids, size_t max)
{
	unsigned int f = 0;
	long n;

	if (flags & ~(LLM_TOKENIZE_BOS | LLM_TOKENIZE_SPECIAL))
		return llm_fail(-EINVAL, "unknown flags 0x%x to tokenise with", flags);
	if (flags & LLM_TOKENIZE_BOS)
		f |= TOKENIZE_BOS;
	if (flags & LLM_TOKENIZE_SPECIAL)
		f |= TOKENIZE_SPECIAL;
	n = tokenizer_encode(tok, text, bytes, f, ids, max);
	return n < 0 ? llm_fail((int)n, "a text of %zu bytes cannot be tokenised: %s", bytes,
				strerror((int)-n))
		     : n;
}

long text_detokenize(const struct tokenizer *tok, const int32_t *ids, size_t n, char *buf,
		     size_t max)
{
	long bytes = tokenizer_decode(tok, ids, n, buf, max);

	return bytes < 0 ? llm_fail((int)bytes, "a token of %zu is not one of the vocabulary's %zu",
				    n, tokenizer_n_vocab(tok))
			 : bytes;
}
