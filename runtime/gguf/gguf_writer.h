/* SPDX-License-Identifier: MIT */
/*
 * Making a GGUF file (version 3): metadata in the order given, then tensors.
 *
 *	struct gguf_writer *w = gguf_writer_create();
 *	gguf_writer_string(w, "general.name", "x", 1);
 *	gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, n);
 *	for (i = 0; i < n; i++)
 *		gguf_writer_f32_element(w, scores[i]);
 *	ret = gguf_writer_save(w, "x.gguf", err, sizeof(err));
 *	gguf_writer_free(w);
 *
 * A lack of memory, or an array with another number of elements than announced, is remembered and
 * reported by gguf_writer_data() and gguf_writer_save().
 *
 * Tensors are given as memory, or as functions that make their data while the file is written, so
 * that a file may be larger than the memory.
 */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include "gguf.h"

struct gguf_writer;

/* NULL: no memory; every function accepts that and the final one reports it. */
struct gguf_writer *gguf_writer_create(void);
void gguf_writer_free(struct gguf_writer *w);

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float v);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v);
void gguf_writer_string(struct gguf_writer *w, const char *key, const char *s, size_t bytes);
/* An array of @n elements; they follow by as many calls of the function of its type. */
void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_kv_type type, uint64_t n);
void gguf_writer_string_element(struct gguf_writer *w, const char *s, size_t bytes);
void gguf_writer_i32_element(struct gguf_writer *w, int32_t v);
void gguf_writer_f32_element(struct gguf_writer *w, float v);
/* All entries of @file, in its order, without those of the @n_except keys. */
void gguf_writer_copy(struct gguf_writer *w, const struct gguf_file *file,
		      const char *const *except, size_t n_except);

/* @data is the caller's and is read when the file is made. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum gguf_type type,
			uint32_t n_dims, const uint64_t *dims, const void *data);

/* Where a tensor's data goes. */
struct gguf_sink;
/* Appends to it. 0 or -errno, which the caller hands on. */
int gguf_sink_put(struct gguf_sink *sink, const void *data, size_t bytes);
/*
 * @make is called when the file is made, for one tensor after the other: it puts all of the
 * tensor's bytes, in as many pieces as it likes, and returns 0; or what gguf_sink_put() failed
 * with; or a positive number of its own, which ends the writing and is what the caller gets.
 */
void gguf_writer_tensor_made(struct gguf_writer *w, const char *name, enum gguf_type type,
			     uint32_t n_dims, const uint64_t *dims,
			     int (*make)(void *ud, struct gguf_sink *sink), void *ud);

/*
 * The whole file in memory, the writer's until it is freed. -ENOMEM, -EINVAL, or what a function
 * of a tensor returned.
 */
int gguf_writer_data(struct gguf_writer *w, const void **data, size_t *bytes);
/*
 * Writes the file under a temporary name beside @path and renames it; after a failure
 * neither is there, and what was at @path before still is. If @path is no regular file (a
 * pipe, a device) it is written to. 0; -errno with one line in err; or a tensor's function's
 * positive number, without a line.
 */
int gguf_writer_save(struct gguf_writer *w, const char *path, char *err, size_t err_bytes);

#endif /* GGUF_WRITER_H */
