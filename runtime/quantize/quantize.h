/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of llm_quantize(): the tensors of the new file, each with the source of its
 * values, which are converted while they are written.
 *
 *	quantize.c		llm_quantize(): types, files, threads
 *	quantize_convert.c	a model's tensors in another type
 *	quantize_panels.c	a model's matrices in the NPU's panels
 *	quantize_synthetic.c	the tensors of a shape
 *	quantize_stream.c	their values, window by window
 */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include "gguf_quantize.h"
#include "gguf_writer.h"
#include "llm_quantize.h"
#include "threadpool.h"

struct quantize;

/* A tensor of the new file. Its values are those of @from; if that is NULL, @base +
 * @scale * (random in -1..1). */
struct quantize_tensor {
	struct quantize *q;
	const char *name;
	enum gguf_type type;
	uint32_t n_dims;
	uint64_t dims[GGUF_MAX_DIMS];
	uint64_t n; /* values */
	const struct gguf_tensor *from;
	uint64_t key; /* seed of its random numbers */
	float base, scale;
};

struct quantize {
	const struct llm_quantize_options *opts;
	const char *in; /* for messages: the file, or the shape */
	enum gguf_type type;
	enum gguf_file_type file_type;
	struct llm_pool *pool;
	struct gguf_file *file; /* NULL: synthetic */
	struct gguf_writer *writer;
	uint64_t done; /* values written */
	struct llm_quantize_result sum; /* of the tensors added */
	uint8_t *window; /* the blocks of one window */
	float *values; /* the widened values of each thread's task */
};

/* The type of a tensor in a file of type @type. @from: its type now, which it keeps if it is no
 * matrix. @head: it is the output matrix. */
enum gguf_type quantize_target(enum gguf_type type, const char *name,
			       const uint64_t dims[GGUF_MAX_DIMS], enum gguf_type from, bool head);
/* Adds the tensor to the writer, which reads @t when it writes the file. */
void quantize_add(struct quantize *q, struct quantize_tensor *t);
/* Reports that @values of tensor @name were written. 0, or -ECANCELED with the error line. */
int quantize_progress(struct quantize *q, uint64_t values, const char *name);
/* Writes the file. 0 or -errno with the error line. */
int quantize_save(struct quantize *q);

/* Each makes the whole file. 0 or -errno with the error line. */
int quantize_convert(struct quantize *q);
int quantize_panels(struct quantize *q);
int quantize_synthetic(struct quantize *q);

#endif /* QUANTIZE_H */
