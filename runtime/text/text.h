/* SPDX-License-Identifier: MIT */
/* Tokenizing with the flags and errors of llm.h. */
#ifndef TEXT_H
#define TEXT_H

#include "tokenizer.h"

/* Like llm_tokenize() and llm_detokenize(). */
long text_tokenize(const struct tokenizer *tok, const char *text, size_t bytes, unsigned int flags,
		   int32_t *ids, size_t max);
long text_detokenize(const struct tokenizer *tok, const int32_t *ids, size_t n, char *buf,
		     size_t max);

#endif /* TEXT_H */
