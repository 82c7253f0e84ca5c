/* SPDX-License-Identifier: MIT */
/* Shared by gguf.c (opening), gguf_tensors.c (the tensor table), gguf_split.c (models in several
 * files) and gguf_meta.c (look-ups). */
#ifndef GGUF_PRIVATE_H
#define GGUF_PRIVATE_H

#include "gguf.h"

/* A metadata entry in the mapping. For an array, @elem is the type and @value the first element. */
struct gguf_kv {
	const char *key;
	const uint8_t *value;
	const uint8_t *entry; /* key, type and value together */
	uint64_t entry_bytes;
	uint64_t n; /* array elements, or bytes of a string */
	uint32_t key_bytes;
	uint8_t type;
	uint8_t elem;
};

struct gguf_file {
	struct gguf_shard shard; /* fd -1: not open */
	struct gguf_kv *kv; /* sorted by key */
	size_t n_kv;
	struct gguf_tensor *tensors; /* in the file's order */
	size_t n_tensors;
	const struct gguf_tensor **by_name; /* sorted by name */
	char *names; /* the tensors' names, NUL-terminated */
	/* Of a split model: the other shards, whose tensors are among this one's too. */
	struct gguf_file **others;
	size_t n_others;
};

/* A position in the file during gguf_open(), whose caller owns the error line. */
struct gguf_cursor {
	struct gguf_file *file;
	uint64_t pos;
	const struct gguf_kv *kv; /* the metadata entry whose value is read; NULL: none */
	const char *path;
	char *err;
	size_t err_bytes;
};

/* Writes "PATH: message" and returns @ret. */
__attribute__((format(printf, 3, 4))) int gguf_fail(struct gguf_cursor *c, int ret, const char *fmt,
						    ...);
/* Each reads at the cursor and moves it; -EINVAL with the error line if the file is too short. */
int gguf_read_u32(struct gguf_cursor *c, const char *what, uint32_t *v);
int gguf_read_u64(struct gguf_cursor *c, const char *what, uint64_t *v);
/* Reads a length from 1 to @max and as many bytes, none of them NUL. */
int gguf_read_name(struct gguf_cursor *c, const char *what, uint64_t max, const char **s,
		   uint64_t *bytes);
/* Reads the tensor table at the cursor: @n entries, then the data. */
int gguf_read_tensors(struct gguf_cursor *c, uint64_t n);
/* Sorts the tensors by name. -EINVAL: two have the same one. */
int gguf_sort_tensors(struct gguf_cursor *c);
/* Opens the one file at the cursor's path. An error leaves no file. */
int gguf_open_one(struct gguf_cursor *c);
/* Opens the other shards of a split model whose first one is open, and takes their tensors. */
int gguf_open_others(struct gguf_cursor *c);

#endif /* GGUF_PRIVATE_H */
