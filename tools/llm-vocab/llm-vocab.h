/* SPDX-License-Identifier: MIT */
/*
 * llm-vocab's two halves: the command line, and the reading of a tokenizer.json.
 */
#ifndef VOCAB_CONVERT_H
#define VOCAB_CONVERT_H

#include <stddef.h>

struct vocab_options {
	const char *pre; /* name of the pre-tokenizer; NULL: recognise it */
	const char *bos, *eos; /* tokens; NULL: the vocabulary has none */
};

/*
 * Turns the tokenizer.json at @json into a GGUF file of metadata only. 0, or
 * -1 with one line in err.
 */
int vocab_convert(const char *json, const char *gguf, const struct vocab_options *opts, char *err,
		  size_t err_bytes);

#endif /* VOCAB_CONVERT_H */
