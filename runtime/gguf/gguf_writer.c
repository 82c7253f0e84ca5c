// SPDX-License-Identifier: MIT
/*
 * Writing a GGUF file: two buffers collect the metadata and the tensor table. gguf_writer_data()
 * and gguf_writer_save() write them and the tensors' data to a sink, which is memory or a file.
 */
#define _GNU_SOURCE
#include "gguf_private.h"
#include "gguf_writer.h"
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_ALIGNMENT 32u
#define MAX_ALIGNMENT 64u
/* The magic, the version, and the numbers of tensors and of metadata */
#define HEAD_BYTES 24u

struct buffer {
	uint8_t *data;
	size_t bytes, max;
	bool failed;
};

/* A tensor's data: memory, or a function that writes it. */
struct payload {
	const void *data;
	int (*make)(void *ud, struct gguf_sink *sink);
	void *ud;
	uint64_t bytes;
};

/* Writes to the stream, or if there is none to the buffer. */
struct gguf_sink {
	struct buffer *buffer;
	FILE *stream;
	uint64_t bytes; /* so far */
	int err; /* of a failed write */
};

struct gguf_writer {
	struct buffer metadata, table, payloads, file;
	uint64_t n_kv, n_tensors;
	uint64_t data_bytes; /* of the tensors so far, padded */
	uint32_t alignment;
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
	struct gguf_writer *w = calloc(1, sizeof(*w));

	if (w)
		w->alignment = DEFAULT_ALIGNMENT;
	return w;
}

void gguf_writer_align(struct gguf_writer *w)
{
	if (!w)
		return;
	w->malformed |= w->n_tensors != 0;
	w->alignment = MAX_ALIGNMENT;
	gguf_writer_u32(w, "general.alignment", w->alignment);
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

static void put_scalar(struct gguf_writer *w, const char *key, enum gguf_kv_type type,
		       const void *v, size_t bytes)
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

static int entry_compare(const void *a, const void *b)
{
	const struct gguf_kv *const *x = a, *const *y = b;

	return ((*x)->entry > (*y)->entry) - ((*x)->entry < (*y)->entry);
}

static bool is_among(const struct gguf_kv *kv, const char *const *keys, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (kv->key_bytes == strlen(keys[i]) && !memcmp(kv->key, keys[i], kv->key_bytes))
			return true;
	return false;
}

void gguf_writer_copy(struct gguf_writer *w, const struct gguf_file *file,
		      const char *const *except, size_t n_except)
{
	const struct gguf_kv **kv;
	size_t i;

	if (!w)
		return;
	w->malformed |= w->missing != 0;
	kv = calloc(file->n_kv + 1, sizeof(*kv));
	if (!kv) {
		w->metadata.failed = true;
		return;
	}
	for (i = 0; i < file->n_kv; i++)
		kv[i] = &file->kv[i];
	qsort(kv, file->n_kv, sizeof(*kv), entry_compare);
	for (i = 0; i < file->n_kv; i++) {
		if (is_among(kv[i], except, n_except))
			continue;
		buffer_put(&w->metadata, kv[i]->entry, kv[i]->entry_bytes);
		w->n_kv++;
	}
	free(kv);
}

static void put_tensor(struct gguf_writer *w, const char *name, enum gguf_type type,
		       uint32_t n_dims, const uint64_t *dims, struct payload payload)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
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
	w->data_bytes += payload.bytes + (-payload.bytes & (w->alignment - 1));
	w->n_tensors++;
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum gguf_type type,
			uint32_t n_dims, const uint64_t *dims, const void *data)
{
	put_tensor(w, name, type, n_dims, dims, (struct payload){ .data = data });
}

void gguf_writer_tensor_made(struct gguf_writer *w, const char *name, enum gguf_type type,
			     uint32_t n_dims, const uint64_t *dims,
			     int (*make)(void *ud, struct gguf_sink *sink), void *ud)
{
	put_tensor(w, name, type, n_dims, dims, (struct payload){ .make = make, .ud = ud });
}

int gguf_sink_put(struct gguf_sink *sink, const void *data, size_t bytes)
{
	if (sink->err || !bytes)
		return sink->err;
	if (sink->stream)
		sink->err = fwrite(data, 1, bytes, sink->stream) == bytes ? 0 : -errno;
	else
		buffer_put(sink->buffer, data, bytes);
	if (!sink->stream && sink->buffer->failed)
		sink->err = -ENOMEM;
	sink->bytes += bytes;
	return sink->err;
}

static int sink_pad(struct gguf_sink *sink, uint32_t alignment)
{
	static const uint8_t zeros[MAX_ALIGNMENT];

	return gguf_sink_put(sink, zeros, -sink->bytes & (alignment - 1));
}

static int sink_payload(struct gguf_sink *sink, const struct payload *payload)
{
	uint64_t start = sink->bytes;
	int ret;

	if (!payload->make)
		return gguf_sink_put(sink, payload->data, payload->bytes);
	ret = payload->make(payload->ud, sink);
	if (ret || sink->err)
		return ret ? ret : sink->err;
	return sink->bytes - start == payload->bytes ? 0 : -EINVAL;
}

/* The error of earlier calls. */
static int writer_state(const struct gguf_writer *w)
{
	if (!w || w->metadata.failed || w->table.failed || w->payloads.failed)
		return -ENOMEM;
	return w->malformed || w->missing ? -EINVAL : 0;
}

static int sink_file(struct gguf_sink *sink, const struct gguf_writer *w)
{
	struct buffer head = { 0 };
	struct payload payload;
	uint64_t i;
	int ret;

	buffer_put(&head, "GGUF", 4);
	put_u32(&head, 3);
	put_u64(&head, w->n_tensors);
	put_u64(&head, w->n_kv);
	ret = head.failed ? -ENOMEM : gguf_sink_put(sink, head.data, head.bytes);
	free(head.data);
	if (!ret)
		ret = gguf_sink_put(sink, w->metadata.data, w->metadata.bytes);
	if (!ret)
		ret = gguf_sink_put(sink, w->table.data, w->table.bytes);
	if (!ret)
		ret = sink_pad(sink, w->alignment);
	for (i = 0; !ret && i < w->n_tensors; i++) {
		memcpy(&payload, w->payloads.data + i * sizeof(payload), sizeof(payload));
		ret = sink_payload(sink, &payload);
		if (!ret)
			ret = sink_pad(sink, w->alignment);
	}
	return ret;
}

uint64_t gguf_writer_bytes(const struct gguf_writer *w)
{
	uint64_t head = w ? HEAD_BYTES + w->metadata.bytes + w->table.bytes : 0;

	return w ? head + (-head & (w->alignment - 1)) + w->data_bytes : 0;
}

int gguf_writer_data(struct gguf_writer *w, const void **data, size_t *bytes)
{
	struct gguf_sink sink = { 0 };
	int ret = writer_state(w);

	if (ret)
		return ret;
	sink.buffer = &w->file;
	w->file.bytes = 0;
	ret = sink_file(&sink, w);
	if (ret)
		return ret;
	*data = w->file.data;
	*bytes = w->file.bytes;
	return 0;
}

static int save_failed(int ret, const char *path, char *err, size_t err_bytes)
{
	if (err && err_bytes)
		snprintf(err, err_bytes, "%s: cannot be written: %s", path, strerror(-ret));
	return ret;
}

/* Closes @stream. 0, -errno, or the positive result of a tensor's function. */
static int save_to(struct gguf_writer *w, FILE *stream)
{
	struct gguf_sink sink = { .stream = stream };
	int ret;

	if (!stream)
		return -errno;
	ret = sink_file(&sink, w);
	if (fclose(stream) && !ret)
		ret = -errno;
	return ret;
}

static int save_new(struct gguf_writer *w, const char *path)
{
	struct new_file f;
	int ret = new_file_open(&f, path, 0666), fd;

	if (ret)
		return ret;
	/* Closing the stream tells of the last write's error; the file stays open without it. */
	fd = fcntl(f.fd, F_DUPFD_CLOEXEC, 0);
	ret = fd < 0 ? -errno : save_to(w, fdopen(fd, "wb"));
	if (!ret)
		return new_file_keep(&f);
	new_file_drop(&f);
	return ret;
}

int gguf_writer_save(struct gguf_writer *w, const char *path, char *err, size_t err_bytes)
{
	struct stat st;
	int ret = writer_state(w);

	if (ret)
		return save_failed(ret, path, err, err_bytes);
	if (stat(path, &st) || S_ISREG(st.st_mode))
		ret = save_new(w, path);
	else
		ret = S_ISDIR(st.st_mode) ? -EISDIR : save_to(w, fopen(path, "wbe"));
	return ret < 0 ? save_failed(ret, path, err, err_bytes) : ret;
}
