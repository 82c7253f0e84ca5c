/* SPDX-License-Identifier: MIT */
/*
 * GGUF files for tests: bytes assembled one by one, or changed, and opened through a memory file.
 * The library's writer is not used, so that the reader is tested independently of it.
 */
#ifndef GGUF_IMAGE_H
#define GGUF_IMAGE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf.h"

struct image {
	uint8_t *data;
	size_t bytes, max;
};

static inline void image_put(struct image *m, const void *data, size_t bytes)
{
	if (m->bytes + bytes > m->max) {
		m->max = 2 * (m->bytes + bytes) + 4096;
		m->data = realloc(m->data, m->max);
		if (!m->data)
			abort();
	}
	if (bytes)
		memcpy(m->data + m->bytes, data, bytes);
	m->bytes += bytes;
}

static inline void image_u32(struct image *m, uint32_t v)
{
	image_put(m, &v, sizeof(v));
}

static inline void image_u64(struct image *m, uint64_t v)
{
	image_put(m, &v, sizeof(v));
}

static inline void image_string(struct image *m, const char *s)
{
	image_u64(m, strlen(s));
	image_put(m, s, strlen(s));
}

static inline void image_header(struct image *m, uint64_t n_tensors, uint64_t n_kv)
{
	m->bytes = 0;
	image_put(m, "GGUF", 4);
	image_u32(m, 3);
	image_u64(m, n_tensors);
	image_u64(m, n_kv);
}

/* Puts a key and the type of the value; the caller puts the value. */
static inline void image_key(struct image *m, const char *key, uint32_t type)
{
	image_string(m, key);
	image_u32(m, type);
}

static inline void image_array(struct image *m, const char *key, uint32_t type, uint64_t n)
{
	image_key(m, key, 9);
	image_u32(m, type);
	image_u64(m, n);
}

static inline void image_tensor(struct image *m, const char *name, uint32_t n_dims,
				const uint64_t *dims, uint32_t type, uint64_t offset)
{
	image_string(m, name);
	image_u32(m, n_dims);
	image_put(m, dims, n_dims * sizeof(*dims));
	image_u32(m, type);
	image_u64(m, offset);
}

static inline void image_pad(struct image *m, size_t alignment)
{
	while (m->bytes % alignment)
		image_put(m, "", 1);
}

/* Opens the bytes like gguf_open() a file. */
static inline int image_open(const void *data, size_t bytes, struct gguf_file **file, char *err,
			     size_t err_bytes)
{
	int fd = memfd_create("gguf", MFD_CLOEXEC), ret;
	char path[64];

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = gguf_open(path, file, err, err_bytes);
	close(fd);
	return ret;
}

/* xorshift64*: a seed gives the same numbers on every host. */
static inline uint64_t random_u64(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

/* Puts one entry of every type. */
static inline void put_all_types(struct image *m)
{
	static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1 };
	static const uint64_t minus_two = -2;
	float f = 0.5f;
	double d = 0.1;
	char key[8];
	uint32_t type;

	for (type = 0; type < 6; type++) {
		snprintf(key, sizeof(key), "t%u", type);
		image_key(m, key, type);
		image_put(m, &minus_two, sizes[type]);
	}
	image_key(m, "t6", 6);
	image_put(m, &f, 4);
	image_key(m, "t7", 7);
	image_put(m, "\1", 1);
	image_key(m, "t8", 8);
	image_string(m, "text");
	image_array(m, "t9", 8, 2);
	image_string(m, "one");
	image_string(m, "");
	image_key(m, "t10", 10);
	image_u64(m, minus_two);
	image_key(m, "t11", 11);
	image_u64(m, minus_two);
	image_key(m, "t12", 12);
	image_put(m, &d, 8);
}

#endif /* GGUF_IMAGE_H */
