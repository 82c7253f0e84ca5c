// SPDX-License-Identifier: MIT
/*
 * Making a GGUF file: metadata and tensor table grow in two buffers and are joined, with the tensors' data behind them,
 * when the file is asked for.
 */
#include "gguf_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 32

struct buffer {
	uint8_t *data;
	size_t bytes, max;
	bool failed;
};

struct payload {
	const void *data;
	uint64_t bytes;
};

struct gguf_writer {
	struct buffer metadata, table, payloads, file;
	uint64_t n_kv, n_tensors;
	uint64_t data_bytes; /* of the tensors so far, padded */
	uint64_t missing; /* elements of the array last begun */
	bool malformed;
};

static void *buffer_grow(struct buffer *b, size_t bytes)
{
	if (b->failed)
		return NULL;
	if (bytes > b->max - b->bytes) {
		size_t max = (b->bytes + bytes) * 2 + 256;
		uint8_t *data = realloc(b->data, max);

		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->max = max;
	}
	b->bytes += bytes;
	return b->data + b->bytes - bytes;
}

static void buffer_put(struct buffer *b, const void *data, size_t bytes)
{
	void *p = buffer_grow(b, bytes);

	if (p && bytes)
		memcpy(p, data, bytes);
}

static void buffer_pad(struct buffer *b)
{
	size_t pad = -b->bytes & (ALIGNMENT - 1);
	void *p = buffer_grow(b, pad);

	if (p)
		memset(p, 0, pad);
}

static void put_u32(struct buffer *b, uint32_t v)
{
	buffer_put(b, &v, sizeof(v));
}

static void put_u64(struct buffer *b, uint64_t v)
{
	buffer_put(b, &v, sizeof(v));
}

static void put_string(struct buffer *b, const char *s, size_t bytes)
{
	put_u64(b, bytes);
	buffer_put(b, s, bytes);
}

struct gguf_writer *gguf_writer_create(void)
{
	return calloc(1, sizeof(struct gguf_writer));
}

void gguf_writer_free(struct gguf_writer *w)
{
	if (!w)
		return;
	free(w->metadata.data);
	free(w->table.data);
	free(w->payloads.data);
	free(w->file.data);
	free(w);
}

static void put_key(struct gguf_writer *w, const char *key, enum gguf_kv_type type)
{
	w->malformed |= w->missing != 0;
	put_string(&w->metadata, key, strlen(key));
	put_u32(&w->metadata, type);
	w->n_kv++;
}

static void put_scalar(struct gguf_writer *w, const char *key, enum gguf_kv_type type, const void *v, size_t bytes)
{
	if (!w)
		return;
	put_key(w, key, type);
	buffer_put(&w->metadata, v, bytes);
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
	put_scalar(w, key, GGUF_KV_U32, &v, sizeof(v));
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float v)
{
	put_scalar(w, key, GGUF_KV_F32, &v, sizeof(v));
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v)
{
	uint8_t byte = v;

	put_scalar(w, key, GGUF_KV_BOOL, &byte, 1);
}

void gguf_writer_string(struct gguf_writer *w, const char *key, const char *s, size_t bytes)
{
	if (!w)
		return;
	put_key(w, key, GGUF_KV_STRING);
	put_string(&w->metadata, s, bytes);
}

void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_kv_type type, uint64_t n)
{
	if (!w)
		return;
	put_key(w, key, GGUF_KV_ARRAY);
	put_u32(&w->metadata, type);
	put_u64(&w->metadata, n);
	w->missing = n;
}

static bool element_due(struct gguf_writer *w)
{
	if (!w)
		return false;
	if (!w->missing) {
		w->malformed = true;
		return false;
	}
	w->missing--;
	return true;
}

void gguf_writer_string_element(struct gguf_writer *w, const char *s, size_t bytes)
{
	if (element_due(w))
		put_string(&w->metadata, s, bytes);
}

void gguf_writer_i32_element(struct gguf_writer *w, int32_t v)
{
	if (element_due(w))
		put_u32(&w->metadata, v);
}

void gguf_writer_f32_element(struct gguf_writer *w, float v)
{
	if (element_due(w))
		buffer_put(&w->metadata, &v, sizeof(v));
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum gguf_type type, uint32_t n_dims,
			const uint64_t *dims, const void *data)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	struct payload payload = { .data = data };
	uint64_t values = 1;
	uint32_t d;

	if (!w)
		return;
	put_string(&w->table, name, strlen(name));
	put_u32(&w->table, n_dims);
	for (d = 0; d < n_dims; d++) {
		put_u64(&w->table, dims[d]);
		values *= dims[d];
	}
	put_u32(&w->table, type);
	put_u64(&w->table, w->data_bytes);
	if (!traits || values % traits->block_values) {
		w->malformed = true;
		return;
	}
	payload.bytes = values / traits->block_values * traits->block_bytes;
	buffer_put(&w->payloads, &payload, sizeof(payload));
	w->data_bytes += (payload.bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
	w->n_tensors++;
}

int gguf_writer_data(struct gguf_writer *w, const void **data, size_t *bytes)
{
	struct payload payload;
	struct buffer *file;
	uint64_t i;

	if (!w || w->metadata.failed || w->table.failed || w->payloads.failed)
		return -ENOMEM;
	if (w->malformed || w->missing)
		return -EINVAL;
	file = &w->file;
	file->bytes = 0;
	buffer_put(file, "GGUF", 4);
	put_u32(file, 3);
	put_u64(file, w->n_tensors);
	put_u64(file, w->n_kv);
	buffer_put(file, w->metadata.data, w->metadata.bytes);
	buffer_put(file, w->table.data, w->table.bytes);
	buffer_pad(file);
	for (i = 0; i < w->n_tensors; i++) {
		memcpy(&payload, w->payloads.data + i * sizeof(payload), sizeof(payload));
		buffer_put(file, payload.data, payload.bytes);
		buffer_pad(file);
	}
	if (file->failed)
		return -ENOMEM;
	*data = file->data;
	*bytes = file->bytes;
	return 0;
}

static int save_failed(int ret, const char *path, char *err, size_t err_bytes)
{
	if (err && err_bytes)
		snprintf(err, err_bytes, "%s: cannot be written: %s", path, strerror(-ret));
	return ret;
}

int gguf_writer_save(struct gguf_writer *w, const char *path, char *err, size_t err_bytes)
{
	char temporary[4096];
	const void *data;
	size_t bytes;
	FILE *f;
	int ret = gguf_writer_data(w, &data, &bytes);

	if (ret)
		return save_failed(ret, path, err, err_bytes);
	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.%d.part", path, (int)getpid()) >= sizeof(temporary))
		return save_failed(-ENAMETOOLONG, path, err, err_bytes);
	f = fopen(temporary, "wbe");
	if (!f)
		return save_failed(-errno, path, err, err_bytes);
	ret = fwrite(data, 1, bytes, f) == bytes ? 0 : -errno;
	if (fclose(f) && !ret)
		ret = -errno;
	if (!ret && rename(temporary, path))
		ret = -errno;
	if (!ret)
		return 0;
	unlink(temporary);
	return save_failed(ret, path, err, err_bytes);
}
