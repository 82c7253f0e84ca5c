/* SPDX-License-Identifier: MIT */
/*
 * Writes model files: with another type of weights, or with random weights of a given shape.
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
	/* Packed as the NPU reads them (docs/gguf.md), for engines with these weights. Loading such
	 * a file takes no packing; it cannot be quantised again. */
	LLM_QUANTIZE_W8A8,
	LLM_QUANTIZE_W4A8,
	LLM_QUANTIZE_W4A16,
	LLM_QUANTIZE_NATIVE,
};
const char *llm_quantize_type_name(enum llm_quantize_type type); /* "f32", ... "native" */
/* Finds a type by its name in upper or lower case. -EINVAL: llm_error() lists the names. */
int llm_quantize_type_parse(const char *name, enum llm_quantize_type *type);
bool llm_quantize_type_is_packed(enum llm_quantize_type type);

struct llm_quantize_options {
	const char *in; /* the model, a GGUF file; NULL: random weights of @shape */
	const char *shape; /* a file, or a name in share/shapes; its vocabulary is a dummy */
	uint64_t seed; /* of the random weights; the same seed gives the same file */
	unsigned int n_vocab; /* vocabulary size for @shape; 0: the shape's */
	const char *out; /* replaced once all is written; a failure leaves the old file */
	enum llm_quantize_type type; /* with @shape: not a packed one */
	unsigned int threads; /* 0: one per CPU allowed to the process; does not change the file */
	/* NULL, or called with each warning before anything is written. */
	void (*warn)(void *ud, const char *line);
	/* NULL, or called while writing with a fraction 0..1 and a tensor's name; non-zero stops
	 * with -ECANCELED. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

struct llm_quantize_result {
	size_t n_tensors;
	uint64_t n_values; /* of all tensors */
	uint64_t bytes_before, bytes_after; /* of the tensors' data; before: 0 with @shape */
};

/*
 * Writes @out. Matrices get the type. Vectors and the experts' router stay as they are, matrices
 * whose rows are no multiple of a block become F16, and the output matrix of a Q4_0 file is Q8_0.
 *
 * -EINVAL for options that exclude each other, or a file that is no model, is already packed, or
 * has an impossible shape; -ERANGE for a value that the type cannot hold; -ENOENT, -ENOTSUP,
 * -ENOMEM, -ECANCELED, and the errors of writing. @result may be NULL; success fills it in.
 */
int llm_quantize(const struct llm_quantize_options *opts, struct llm_quantize_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_QUANTIZE_H */
