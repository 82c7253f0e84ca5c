/* SPDX-License-Identifier: MIT */
/*
 * Writing a GGUF file (version 3): metadata in the order of the calls, then tensors.
 *
 *	struct gguf_writer *w = gguf_writer_create();
 *	gguf_writer_string(w, "general.name", "x", 1);
 *	gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, n);
 *	for (i = 0; i < n; i++)
 *		gguf_writer_f32_element(w, scores[i]);
 *	ret = gguf_writer_save(w, "x.gguf", err, sizeof(err));
 *	gguf_writer_free(w);
 *
 * gguf_writer_data() and gguf_writer_save() report earlier errors too: a lack of memory, or an
 * array with another number of elements than announced.
 *
 * A tensor is memory, or a function that makes its data while the file is written, so that a file
 * may be larger than the memory.
 */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include "gguf.h"

struct gguf_writer;

/* NULL: no memory. Every function accepts NULL, and the final one reports it. */
struct gguf_writer *gguf_writer_create(void);
void gguf_writer_free(struct gguf_writer *w);

/* Before any tensor: tensors begin at multiples of 64 bytes in the file, not 32 as by default. */
void gguf_writer_align(struct gguf_writer *w);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float v);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v);
void gguf_writer_string(struct gguf_writer *w, const char *key, const char *s, size_t bytes);
/* Begins an array; @n calls of the function of its type add the elements. */
void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_kv_type type, uint64_t n);
void gguf_writer_string_element(struct gguf_writer *w, const char *s, size_t bytes);
void gguf_writer_i32_element(struct gguf_writer *w, int32_t v);
void gguf_writer_f32_element(struct gguf_writer *w, float v);
/* Adds all entries of @file, in its order, except those of the @n_except keys. */
void gguf_writer_copy(struct gguf_writer *w, const struct gguf_file *file,
		      const char *const *except, size_t n_except);

/* @data stays the caller's and is read when the file is made. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum gguf_type type,
			uint32_t n_dims, const uint64_t *dims, const void *data);

struct gguf_sink;
/* Appends to a tensor's data. Returns 0, or -errno that @make must return. */
int gguf_sink_put(struct gguf_sink *sink, const void *data, size_t bytes);
/*
 * Adds a tensor whose data @make writes when the file is made, one tensor after the other. @make
 * puts all of the tensor's bytes in any number of calls and returns 0, or an error of
 * gguf_sink_put(), or a positive number of its own, which ends the writing and is returned.
 */
void gguf_writer_tensor_made(struct gguf_writer *w, const char *name, enum gguf_type type,
			     uint32_t n_dims, const uint64_t *dims,
			     int (*make)(void *ud, struct gguf_sink *sink), void *ud);

/* Bytes of the file, as far as it has been described. */
uint64_t gguf_writer_bytes(const struct gguf_writer *w);
/*
 * Makes the whole file in memory, which the writer owns. -ENOMEM, -EINVAL, or the result of a
 * tensor's @make.
 */
int gguf_writer_data(struct gguf_writer *w, const void **data, size_t *bytes);
/*
 * Writes a file that takes its name when it is complete (new_file.h): a failure leaves the old one
 * at @path. Writes directly to @path if that is not a regular file (a pipe, a device). Returns 0,
 * -errno with one line in @err, or the positive number of a tensor's @make, without a line.
 */
int gguf_writer_save(struct gguf_writer *w, const char *path, char *err, size_t err_bytes);

#endif /* GGUF_WRITER_H */
