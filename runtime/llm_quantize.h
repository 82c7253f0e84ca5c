/* SPDX-License-Identifier: MIT */
/*
 * Files of models: another type for the weights, or random weights of a given shape.
 *
 *	struct llm_quantize_options opts = { .in = "m.gguf", .out = "q.gguf" };
 *	if (llm_quantize_type_parse("q8_0", &opts.type) || llm_quantize(&opts, NULL))
 *		errx(1, "%s", llm_error());
 */
#ifndef LLM_QUANTIZE_H
#define LLM_QUANTIZE_H

#include "llm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum llm_quantize_type {
	LLM_QUANTIZE_F32 = 0,
	LLM_QUANTIZE_F16,
	LLM_QUANTIZE_Q8_0,
	LLM_QUANTIZE_Q4_0,
	/* Packed as the NPU reads them (docs/gguf.md), for engines with these weights: such a file
	 * is loaded at once, and can be made nothing else of. */
	LLM_QUANTIZE_W8A8,
	LLM_QUANTIZE_W4A8,
	LLM_QUANTIZE_W4A16,
};
const char *llm_quantize_type_name(enum llm_quantize_type type); /* "f32", ... "w4a16" */
/* The inverse, in upper or lower case; -EINVAL for an unknown name: llm_error() lists them. */
int llm_quantize_type_parse(const char *name, enum llm_quantize_type *type);
bool llm_quantize_type_is_packed(enum llm_quantize_type type);

struct llm_quantize_options {
	const char *in; /* the model, a GGUF file; NULL: one of @shape with random weights */
	const char *shape; /* a name of share/shapes, or a file; the vocabulary means nothing */
	uint64_t seed; /* of the random weights: the same one gives the same file */
	unsigned int n_vocab; /* tokens of the vocabulary; 0: the shape's */
	const char *out; /* is replaced when all is written; a failure leaves it as it was */
	enum llm_quantize_type type; /* @shape: not a packed one */
	unsigned int threads; /* 0: one per CPU that the process may use; the bytes are the same */
	/* Told one line, before anything is written, of what may not be wanted. NULL: nobody is. */
	void (*warn)(void *ud, const char *line);
	/* Called while writing with a fraction 0..1 and a tensor's name; non-zero stops with
	 * -ECANCELED. NULL: nobody asks. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

struct llm_quantize_result {
	size_t n_tensors;
	uint64_t n_values; /* of all tensors */
	uint64_t bytes_before, bytes_after; /* of their data; before: 0 without a model */
};

/*
 * Writes @out. Matrices get the type; vectors and the choice of experts stay as they are, rows that
 * a block does not divide become F16, and the output matrix of a Q4_0 file is Q8_0.
 *
 * -EINVAL options that do not fit together, a file that is no model, packed before, or of a shape
 * that no model has; -ERANGE a value that the type cannot hold; -ENOENT, -ENOTSUP, -ENOMEM,
 * -ECANCELED, and the errors of writing. @result may be NULL; it is filled in if all went well.
 */
int llm_quantize(const struct llm_quantize_options *opts, struct llm_quantize_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_QUANTIZE_H */
