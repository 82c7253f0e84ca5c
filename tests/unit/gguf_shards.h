/* SPDX-License-Identifier: MIT */
/* Splits a GGUF file into shards as gguf-split does, in a folder of their own. */
#ifndef GGUF_SHARDS_H
#define GGUF_SHARDS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_image.h"

#define MAX_SHARDS 8

/* What a shard says of itself. */
struct shard_keys {
	uint16_t no, count;
	int32_t n_tensors;
};

struct shards {
	char folder[40];
	char path[MAX_SHARDS][80];
	unsigned int n;
	/* The tensors of shard i are those from first[i] on, before first[i + 1]. */
	size_t first[MAX_SHARDS + 1];
};

static inline void file_write(const char *path, const void *data, size_t bytes)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
		fail_msg("%s cannot be written", path);
}

/* The entries of the file's metadata as they are: they end where the first tensor's name begins. */
static inline void shard_metadata(struct image *m, const struct gguf_file *file)
{
	const struct gguf_shard *whole = gguf_shard(file, 0);
	struct image name = { 0 };
	const uint8_t *end;

	image_string(&name, gguf_tensor(file, 0)->name);
	end = memmem(whole->map, whole->bytes, name.data, name.bytes);
	assert_non_null(end);
	image_put(m, whole->map + 24, (size_t)(end - whole->map) - 24);
	free(name.data);
}

/* A shard with tensors of the file; with @metadata the file's, too. */
static inline void shard_make(struct image *m, const struct gguf_file *file, bool metadata,
			      const struct shard_keys *k, size_t from, size_t to)
{
	uint64_t alignment = 32, offset = 0, n_kv = 1;

	gguf_u64(file, "general.alignment", &alignment);
	if (metadata)
		memcpy(&n_kv, gguf_shard(file, 0)->map + 16, sizeof(n_kv));
	image_header(m, to - from, n_kv + 3);
	if (metadata) {
		shard_metadata(m, file);
	} else {
		image_key(m, "general.alignment", 4);
		image_u32(m, (uint32_t)alignment);
	}
	image_key(m, "split.no", 2);
	image_put(m, &k->no, 2);
	image_key(m, "split.count", 2);
	image_put(m, &k->count, 2);
	image_key(m, "split.tensors.count", 5);
	image_put(m, &k->n_tensors, 4);
	for (size_t i = from; i < to; i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i);

		image_tensor(m, t->name, t->n_dims, t->dims, t->type, offset);
		offset += (t->bytes + alignment - 1) / alignment * alignment;
	}
	for (size_t i = from; i < to; i++) {
		image_pad(m, alignment);
		image_put(m, gguf_tensor(file, i)->data, gguf_tensor(file, i)->bytes);
	}
	image_pad(m, alignment);
}

/* Shard @i again, which says @k. */
static inline void shard_write(const struct shards *s, const struct gguf_file *file, unsigned int i,
			       const struct shard_keys *k)
{
	struct image m = { 0 };

	shard_make(&m, file, !i, k, s->first[i], s->first[i + 1]);
	file_write(s->path[i], m.data, m.bytes);
	free(m.data);
}

static inline struct shard_keys shard_says(const struct shards *s, unsigned int i)
{
	return (struct shard_keys){ (uint16_t)i, (uint16_t)s->n, (int32_t)s->first[s->n] };
}

/* Cuts the file at random: shards may have no tensors, as gguf-split's first one may. */
static inline void shards_make(struct shards *s, const char *path, unsigned int n, uint64_t *seed)
{
	struct gguf_file *file;
	char line[256];

	if (gguf_open(path, &file, line, sizeof(line)))
		fail_msg("%s", line);
	strcpy(s->folder, "/tmp/test_shards-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	s->n = n;
	s->first[0] = 0;
	s->first[n] = gguf_n_tensors(file);
	for (unsigned int i = 1; i < n; i++) {
		size_t left = s->first[n] - s->first[i - 1];

		s->first[i] = s->first[i - 1] + random_u64(seed) % (2 * left / (n - i + 1) + 1);
	}
	for (unsigned int i = 0; i < n; i++) {
		const struct shard_keys k = shard_says(s, i);

		snprintf(s->path[i], sizeof(s->path[i]), "%s/m-%05u-of-%05u.gguf", s->folder, i + 1,
			 n);
		shard_write(s, file, i, &k);
	}
	gguf_close(file);
}

/* Removes the folder and all that is in it. */
static inline void shards_free(struct shards *s)
{
	DIR *dir = opendir(s->folder);
	struct dirent *entry;
	char path[320];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", s->folder, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	closedir(dir);
	assert_int_equal(rmdir(s->folder), 0);
}

#endif /* GGUF_SHARDS_H */
