// SPDX-License-Identifier: MIT
/*
 * Models that are split into several files, as llama.cpp's gguf-split does: each shard has the keys
 * split.no (from 0 on), split.count and split.tensors.count (of all shards together); the first has
 * all other metadata too. Names end with -00001-of-00003.gguf, counted from 1 on.
 */
#include "gguf_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format has 16 bits for them, and names five digits. */
#define MAX_SHARDS 65535

/* What a file says of its place in a model. A model that has been merged again has a count of 0. */
struct place {
	uint64_t no, count, n_tensors;
};

static int read_key(struct gguf_cursor *c, const char *key, uint64_t *value)
{
	int ret = gguf_u64(c->file, key, value);

	if (ret == -ENOENT)
		return gguf_fail(c, -EINVAL, "is a shard of a model, but has no key %s", key);
	return ret ? gguf_fail(c, -EINVAL, "%s is not an unsigned integer", key) : 0;
}

static int read_place(struct gguf_cursor *c, struct place *p)
{
	int ret;

	*p = (struct place){ 0 };
	if (gguf_u64(c->file, "split.count", &p->count) == -ENOENT)
		return 0;
	ret = read_key(c, "split.count", &p->count);
	if (ret || p->count < 2)
		return ret;
	ret = read_key(c, "split.no", &p->no);
	ret = ret ? ret : read_key(c, "split.tensors.count", &p->n_tensors);
	if (!ret && (p->count > MAX_SHARDS || p->no >= p->count))
		ret = gguf_fail(c, -EINVAL,
				"split.no is %" PRIu64 " and split.count %" PRIu64
				", which is no shard of a model",
				p->no, p->count);
	return ret;
}

/* The end of the name of shard @no. */
static void name_end(char end[32], uint64_t no, uint64_t count)
{
	snprintf(end, 32, "-%05u-of-%05u.gguf", (unsigned int)no + 1, (unsigned int)count);
}

/* The name of shard @no, to be freed, of the model whose shard @p has the name @path. NULL: it has
 * another name than a shard, or there is no memory. */
static char *shard_name(const char *path, const struct place *p, uint64_t no)
{
	char end[32];
	size_t n = strlen(path), n_end;
	char *name;

	name_end(end, p->no, p->count);
	n_end = strlen(end);
	if (n < n_end || strcmp(path + n - n_end, end) != 0)
		return NULL;
	name = strdup(path);
	name_end(end, no, p->count);
	if (name)
		memcpy(name + n - n_end, end, n_end);
	return name;
}

static int refuse_later(struct gguf_cursor *c, const struct place *p)
{
	char *first = shard_name(c->path, p, 0);

	gguf_fail(c, -EINVAL, "is shard %" PRIu64 " of %" PRIu64 " of a model; open the first%s%s",
		  p->no + 1, p->count, first ? ", " : "", first ? first : "");
	free(first);
	return -EINVAL;
}

/* Opens shard @no, which must agree with the first one's @p. */
static int open_other(struct gguf_cursor *c, const struct place *p, uint64_t no)
{
	struct place other;
	int ret = gguf_open_one(c);

	if (ret == -ENOENT)
		return gguf_fail(c, ret,
				 "is missing: shard %" PRIu64 " of %" PRIu64
				 ", which must lie beside the first",
				 no + 1, p->count);
	if (ret)
		return ret;
	ret = read_place(c, &other);
	if (!ret && (other.no != no || other.count != p->count))
		ret = gguf_fail(c, -EINVAL,
				"is not shard %" PRIu64 " of %" PRIu64
				" as its name says: split.no is %" PRIu64
				" and split.count %" PRIu64,
				no + 1, p->count, other.no, other.count);
	if (ret)
		gguf_close(c->file);
	return ret;
}

static int open_others(struct gguf_cursor *c, const struct place *p)
{
	struct gguf_file *file = c->file;
	int ret = 0;

	file->others = calloc(p->count - 1, sizeof(*file->others));
	if (!file->others)
		return gguf_fail(c, -ENOMEM, "no memory for %" PRIu64 " shards", p->count);
	for (uint64_t no = 1; no < p->count && !ret; no++) {
		struct gguf_cursor other = { .err = c->err, .err_bytes = c->err_bytes };
		char *name = shard_name(c->path, p, no);

		other.path = name;
		ret = name ? open_other(&other, p, no) : gguf_fail(c, -ENOMEM, "out of memory");
		if (!ret)
			file->others[file->n_others++] = other.file;
		free(name);
	}
	return ret;
}

/* Makes the tensors of all shards those of the first. */
static int take_tensors(struct gguf_cursor *c, uint64_t n_said)
{
	struct gguf_file *file = c->file;
	size_t n = file->n_tensors;
	struct gguf_tensor *tensors;

	for (size_t i = 0; i < file->n_others; i++)
		n += file->others[i]->n_tensors;
	if (n != n_said)
		return gguf_fail(c, -EINVAL,
				 "the shards have %zu tensors, and split.tensors.count is %" PRIu64
				 ": they are not of one model",
				 n, n_said);
	tensors = realloc(file->tensors, (n + 1) * sizeof(*tensors));
	if (tensors)
		file->tensors = tensors;
	free(file->by_name);
	file->by_name = calloc(n + 1, sizeof(*file->by_name));
	if (!tensors || !file->by_name)
		return gguf_fail(c, -ENOMEM, "no memory for a table of %zu tensors", n);
	for (size_t i = 0; i < file->n_others; i++) {
		const struct gguf_file *other = file->others[i];

		for (size_t j = 0; j < other->n_tensors; j++) {
			file->tensors[file->n_tensors] = other->tensors[j];
			file->tensors[file->n_tensors++].shard = (uint32_t)i + 1;
		}
	}
	return gguf_sort_tensors(c);
}

static bool is_split_key(const struct gguf_kv *kv)
{
	static const char *const keys[] = { "split.no", "split.count", "split.tensors.count" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (kv->key_bytes == strlen(keys[i]) && !memcmp(kv->key, keys[i], kv->key_bytes))
			return true;
	return false;
}

/* What has been opened is the whole model. */
static void drop_keys(struct gguf_file *file)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n_kv; i++)
		if (!is_split_key(&file->kv[i]))
			file->kv[n++] = file->kv[i];
	file->n_kv = n;
}

int gguf_open_others(struct gguf_cursor *c)
{
	struct place p;
	char end[32], *name;
	int ret = read_place(c, &p);

	if (!ret && p.count > 1 && p.no)
		return refuse_later(c, &p);
	if (!ret && p.count > 1) {
		name = shard_name(c->path, &p, 0);
		name_end(end, 0, p.count);
		if (!name)
			return gguf_fail(c, -EINVAL,
					 "is shard 1 of %" PRIu64
					 " of a model, so its name must end with %s",
					 p.count, end);
		free(name);
		ret = open_others(c, &p);
		ret = ret ? ret : take_tensors(c, p.n_tensors);
	}
	if (!ret)
		drop_keys(c->file);
	return ret;
}

size_t gguf_n_shards(const struct gguf_file *file)
{
	return 1 + file->n_others;
}

const struct gguf_shard *gguf_shard(const struct gguf_file *file, size_t i)
{
	return i ? &file->others[i - 1]->shard : &file->shard;
}
