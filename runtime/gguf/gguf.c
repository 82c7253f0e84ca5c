// SPDX-License-Identifier: MIT
/*
 * Opening a GGUF file: mapping, header and metadata (the tensor table is in gguf_tensors.c).
 *
 * Each count is checked against what the rest of the file can hold before anything is allocated for
 * it, so memory and time stay proportional to the file's size. Sorting finds duplicate keys.
 */
#include "gguf_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of the shortest metadata entry: key length, one character, type, one byte of value. */
#define MIN_KV_BYTES (8 + 1 + 4 + 1)
/* The format's limit for keys. */
#define MAX_KEY_BYTES 65535
/* Nesting of arrays; files in use have at most two levels. */
#define MAX_ARRAY_DEPTH 4

/* Bytes of a scalar; 0 for strings and arrays. */
static const uint8_t kv_bytes[GGUF_KV_TYPES] = {
	[GGUF_KV_U8] = 1,  [GGUF_KV_I8] = 1,  [GGUF_KV_U16] = 2, [GGUF_KV_I16] = 2,
	[GGUF_KV_U32] = 4, [GGUF_KV_I32] = 4, [GGUF_KV_F32] = 4, [GGUF_KV_BOOL] = 1,
	[GGUF_KV_U64] = 8, [GGUF_KV_I64] = 8, [GGUF_KV_F64] = 8,
};

int gguf_fail(struct gguf_cursor *c, int ret, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (!c->err || !c->err_bytes)
		return ret;
	n = snprintf(c->err, c->err_bytes, "%s: ", c->path);
	if (n < 0 || (size_t)n >= c->err_bytes)
		return ret;
	va_start(ap, fmt);
	vsnprintf(c->err + n, c->err_bytes - n, fmt, ap);
	va_end(ap);
	return ret;
}

static int key_chars(const struct gguf_kv *kv)
{
	return kv->key_bytes > 64 ? 64 : (int)kv->key_bytes;
}

static void cursor_cut_off(struct gguf_cursor *c, const char *what, uint64_t bytes)
{
	gguf_fail(c, -EINVAL,
		  "%s%s%.*s%s at byte %" PRIu64 " is cut off: the file has %" PRIu64
		  " of its %" PRIu64 " bytes (truncated or malformed; get the file again)",
		  what, c->kv ? " of key '" : "", c->kv ? key_chars(c->kv) : 0,
		  c->kv ? c->kv->key : "", c->kv ? "'" : "", c->pos, c->file->shard.bytes - c->pos,
		  bytes);
}

/* Returns @bytes at the cursor and moves it behind them. */
static const uint8_t *cursor_take(struct gguf_cursor *c, const char *what, uint64_t bytes)
{
	const uint8_t *p = c->file->shard.map + c->pos;

	if (bytes > c->file->shard.bytes - c->pos) {
		cursor_cut_off(c, what, bytes);
		return NULL;
	}
	c->pos += bytes;
	return p;
}

int gguf_read_u32(struct gguf_cursor *c, const char *what, uint32_t *v)
{
	const uint8_t *p = cursor_take(c, what, sizeof(*v));

	if (!p)
		return -EINVAL;
	memcpy(v, p, sizeof(*v));
	return 0;
}

int gguf_read_u64(struct gguf_cursor *c, const char *what, uint64_t *v)
{
	const uint8_t *p = cursor_take(c, what, sizeof(*v));

	if (!p)
		return -EINVAL;
	memcpy(v, p, sizeof(*v));
	return 0;
}

int gguf_read_name(struct gguf_cursor *c, const char *what, uint64_t max, const char **s,
		   uint64_t *bytes)
{
	uint64_t at = c->pos;
	const uint8_t *p;

	if (gguf_read_u64(c, what, bytes))
		return -EINVAL;
	if (!*bytes || *bytes > max)
		return gguf_fail(c, -EINVAL,
				 "%s at byte %" PRIu64 " has a length of %" PRIu64
				 ", not 1..%" PRIu64,
				 what, at, *bytes, max);
	p = cursor_take(c, what, *bytes);
	if (!p)
		return -EINVAL;
	if (memchr(p, 0, *bytes))
		return gguf_fail(c, -EINVAL, "%s at byte %" PRIu64 " contains a NUL", what, at);
	*s = (const char *)p;
	return 0;
}

static int skip_value(struct gguf_cursor *c, uint32_t type, unsigned int depth, struct gguf_kv *kv);

static int skip_array(struct gguf_cursor *c, unsigned int depth, struct gguf_kv *kv)
{
	uint64_t at = c->pos, n, i;
	uint32_t elem;
	int ret;

	if (depth >= MAX_ARRAY_DEPTH)
		return gguf_fail(c, -EINVAL,
				 "array at byte %" PRIu64 " is nested more than %d deep", at,
				 MAX_ARRAY_DEPTH);
	if (gguf_read_u32(c, "array type", &elem) || gguf_read_u64(c, "array length", &n))
		return -EINVAL;
	if (elem >= GGUF_KV_TYPES)
		return gguf_fail(c, -EINVAL,
				 "array at byte %" PRIu64 " has elements of unknown type %u", at,
				 elem);
	if (kv) {
		kv->elem = elem;
		kv->n = n;
		kv->value = c->file->shard.map + c->pos;
	}
	if (kv_bytes[elem]) {
		if (n > (c->file->shard.bytes - c->pos) / kv_bytes[elem])
			return gguf_fail(c, -EINVAL,
					 "array at byte %" PRIu64 " claims %" PRIu64
					 " elements, more than the file holds",
					 at, n);
		c->pos += n * kv_bytes[elem];
		return 0;
	}
	for (i = 0; i < n; i++) {
		ret = skip_value(c, elem, depth + 1, NULL);
		if (ret)
			return ret;
	}
	return 0;
}

/* Checks a value and moves the cursor behind it; fills in @kv unless it is NULL. */
static int skip_value(struct gguf_cursor *c, uint32_t type, unsigned int depth, struct gguf_kv *kv)
{
	uint64_t at = c->pos, bytes;
	const uint8_t *p;

	if (type >= GGUF_KV_TYPES)
		return gguf_fail(c, -EINVAL, "value at byte %" PRIu64 " has unknown type %u", at,
				 type);
	if (type == GGUF_KV_ARRAY)
		return skip_array(c, depth, kv);
	bytes = kv_bytes[type];
	if (type == GGUF_KV_STRING && gguf_read_u64(c, "string", &bytes))
		return -EINVAL;
	p = cursor_take(c, type == GGUF_KV_STRING ? "string" : "value", bytes);
	if (!p)
		return -EINVAL;
	if (type == GGUF_KV_BOOL && *p > 1)
		return gguf_fail(c, -EINVAL, "bool at byte %" PRIu64 " is %u, not 0 or 1", at, *p);
	if (kv) {
		kv->value = p;
		kv->n = bytes;
	}
	return 0;
}

static int kv_compare(const void *a, const void *b)
{
	const struct gguf_kv *x = a, *y = b;
	uint32_t n = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
	int d = memcmp(x->key, y->key, n);

	return d ? d : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

static int read_metadata(struct gguf_cursor *c, uint64_t n)
{
	struct gguf_file *file = c->file;
	size_t i;
	int ret;

	if (n > (file->shard.bytes - c->pos) / MIN_KV_BYTES)
		return gguf_fail(c, -EINVAL,
				 "the header at byte 16 claims %" PRIu64
				 " metadata entries, more than the file holds",
				 n);
	file->kv = calloc(n ? n : 1, sizeof(*file->kv));
	if (!file->kv)
		return gguf_fail(c, -ENOMEM, "no memory for %" PRIu64 " metadata entries", n);
	file->n_kv = n;
	for (i = 0; i < n; i++) {
		struct gguf_kv *kv = &file->kv[i];
		uint64_t at = c->pos, bytes;
		uint32_t type;

		ret = gguf_read_name(c, "key", MAX_KEY_BYTES, &kv->key, &bytes);
		if (ret)
			return ret;
		kv->key_bytes = bytes;
		c->kv = kv;
		if (gguf_read_u32(c, "value type", &type))
			return -EINVAL;
		kv->type = type < GGUF_KV_TYPES ? type : 0;
		ret = skip_value(c, type, 0, kv);
		if (ret)
			return ret;
		c->kv = NULL;
		kv->entry = file->shard.map + at;
		kv->entry_bytes = c->pos - at;
	}
	qsort(file->kv, n, sizeof(*file->kv), kv_compare);
	for (i = 1; i < n; i++) {
		const struct gguf_kv *kv = &file->kv[i];

		if (!kv_compare(kv - 1, kv))
			return gguf_fail(c, -EINVAL, "key '%.*s' occurs twice, once at byte %td",
					 key_chars(kv), kv->key,
					 (const uint8_t *)kv->key - file->shard.map);
	}
	return 0;
}

static int read_file(struct gguf_cursor *c)
{
	uint64_t n_tensors, n_kv;
	uint32_t version;
	const uint8_t *p;
	int ret;

	p = cursor_take(c, "magic", 4);
	if (!p || memcmp(p, "GGUF", 4))
		return gguf_fail(c, -EINVAL, "not a GGUF file: it does not begin with 'GGUF'");
	if (gguf_read_u32(c, "format version", &version))
		return -EINVAL;
	if (version > 0 && !(version & 0xffffff))
		return gguf_fail(c, -ENOTSUP,
				 "big-endian GGUF (version %u); convert it to little-endian",
				 version >> 24);
	if (version != 2 && version != 3)
		return gguf_fail(c, -ENOTSUP,
				 "GGUF version %u at byte 4; versions 2 and 3 are supported",
				 version);
	if (gguf_read_u64(c, "tensor count", &n_tensors) ||
	    gguf_read_u64(c, "metadata count", &n_kv))
		return -EINVAL;
	ret = read_metadata(c, n_kv);
	return ret ? ret : gguf_read_tensors(c, n_tensors);
}

static int map_file(struct gguf_cursor *c)
{
	struct stat st;
	void *map;
	int fd;

	fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		int ret = -errno;

		if (fd >= 0)
			close(fd);
		return gguf_fail(c, ret, "%s", strerror(-ret));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return S_ISDIR(st.st_mode)
			       ? gguf_fail(c, -EISDIR, "is a directory; give a GGUF file")
			       : gguf_fail(c, -EINVAL,
					   "not a regular file, so it cannot be mapped");
	}
	if (!st.st_size) {
		close(fd);
		return gguf_fail(c, -EINVAL, "not a GGUF file: it is empty");
	}
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		int ret = -errno;

		close(fd);
		return gguf_fail(c, ret, "cannot map %jd bytes: %s", (intmax_t)st.st_size,
				 strerror(-ret));
	}
	c->file->shard.fd = fd;
	c->file->shard.map = map;
	c->file->shard.bytes = (uint64_t)st.st_size;
	return 0;
}

/* A file that has nothing yet. */
static int begin(struct gguf_cursor *c)
{
	c->file = calloc(1, sizeof(*c->file));
	if (!c->file)
		return gguf_fail(c, -ENOMEM, "out of memory");
	c->file->shard.fd = -1;
	return 0;
}

/* @ret: an error so far. An error leaves no file. */
static int read_or_close(struct gguf_cursor *c, int ret)
{
	if (!ret)
		ret = read_file(c);
	if (ret) {
		gguf_close(c->file);
		c->file = NULL;
	}
	return ret;
}

int gguf_open_one(struct gguf_cursor *c)
{
	int ret = begin(c);

	return ret ? ret : read_or_close(c, map_file(c));
}

int gguf_open_data(const void *data, size_t bytes, const char *name, struct gguf_file **file,
		   char *err, size_t err_bytes)
{
	struct gguf_cursor c = { .path = name, .err = err, .err_bytes = err_bytes };
	int ret = begin(&c);

	*file = NULL;
	if (ret)
		return ret;
	c.file->shard.map = data;
	c.file->shard.bytes = bytes;
	ret = read_or_close(&c, 0);
	*file = c.file;
	return ret;
}

int gguf_open(const char *path, struct gguf_file **file, char *err, size_t err_bytes)
{
	struct gguf_cursor c = { .path = path, .err = err, .err_bytes = err_bytes };
	int ret = gguf_open_one(&c);

	*file = NULL;
	if (ret)
		return ret;
	ret = gguf_open_others(&c);
	if (ret)
		gguf_close(c.file);
	else
		*file = c.file;
	return ret;
}

void gguf_close(struct gguf_file *file)
{
	if (!file)
		return;
	for (size_t i = 0; i < file->n_others; i++)
		gguf_close(file->others[i]);
	/* Without a descriptor, it is the caller's memory. */
	if (file->shard.fd >= 0) {
		munmap((void *)file->shard.map, file->shard.bytes);
		close(file->shard.fd);
	}
	free(file->kv);
	free(file->tensors);
	free(file->by_name);
	free(file->names);
	free(file->others);
	free(file);
}
