/* SPDX-License-Identifier: MIT */
/*
 * What the parts of llm-quantize share: the tensors of the file to be written, each with where its values come from,
 * and their conversion while they are written.
 */
#ifndef LLM_QUANTIZE_H
#define LLM_QUANTIZE_H

#include "gguf_quantize.h"
#include "gguf_writer.h"
#include "llm_choices.h"
#include "threadpool.h"

struct quantize;

/* A tensor to be written. Its values: those of @from; if that is NULL, @base + @scale * (random in -1..1). */
struct quantize_tensor {
	struct quantize *q;
	const char *name;
	enum gguf_type type;
	uint32_t n_dims;
	uint64_t dims[GGUF_MAX_DIMS];
	uint64_t n; /* values */
	const struct gguf_tensor *from;
	uint64_t key; /* of its random numbers */
	float base, scale;
};

struct quantize {
	const char *in, *out;
	enum gguf_type type;
	enum gguf_file_type file_type;
	enum llm_weights panels; /* matrices become panels for these weights; AUTO: @type */
	struct llm_pool *pool;
	const struct gguf_file *file; /* NULL: synthetic */
	struct gguf_writer *writer;
	uint64_t total, done; /* values of all tensors, and those written */
	uint64_t bytes_before, bytes_after; /* of the tensors */
	size_t n_tensors;
	uint8_t *window; /* room for the blocks that are made at one time */
	float *values; /* and for those of each thread, widened */
};

struct synthetic_options {
	const char *shape;
	uint64_t seed;
	unsigned int vocab; /* 0: the shape's */
};

/* The type that a tensor is to have in a file of type @type; @from is what it has and keeps if it is no matrix. @head:
 * it is the output matrix. */
enum gguf_type quantize_target(enum gguf_type type, const char *name, const uint64_t dims[GGUF_MAX_DIMS],
			       enum gguf_type from, bool head);
/* Announces the tensor to the writer, which reads it when the file is written, and counts it. */
void quantize_add(struct quantize *q, struct quantize_tensor *t);
/* Writes the file. 0, or 1 after a message. */
int quantize_save(struct quantize *q);
/* Asks quantize_save() to stop; from a signal handler. */
void quantize_stop(void);
bool quantize_stopped(void);

/* The ways to a file: 0, or 1 after a message. */
int quantize_convert(struct quantize *q);
int quantize_panels(struct quantize *q);
int quantize_synthetic(struct quantize *q, const struct synthetic_options *opts);

#endif /* LLM_QUANTIZE_H */
