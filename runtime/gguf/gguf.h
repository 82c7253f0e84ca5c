/* SPDX-License-Identifier: MIT */
/*
 * GGUF files (versions 2 and 3), read in place.
 *
 * gguf_open() maps the file; metadata strings and tensor data point into the mapping and live until
 * gguf_close(). It checks the magic, the version, and every count, length, type, alignment and
 * offset against the file's size, so callers need no further checks. It refuses big-endian files.
 *
 * A model may be split into several files, its shards, as llama.cpp's gguf-split does:
 * NAME-00001-of-00003.gguf and so on, side by side. gguf_open() of the first opens all of them, and
 * gives what it would give of the whole file: the first shard's metadata, without the keys split.*
 * that say which shard it is, and the tensors of all in their order.
 */
#ifndef GGUF_H
#define GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tensor types, with the numbers of the file format. */
enum gguf_type {
	GGUF_F32 = 0,
	GGUF_F16 = 1,
	GGUF_Q4_0 = 2,
	GGUF_Q4_1 = 3,
	GGUF_Q5_0 = 6,
	GGUF_Q5_1 = 7,
	GGUF_Q8_0 = 8,
	GGUF_Q2_K = 10,
	GGUF_Q3_K = 11,
	GGUF_Q4_K = 12,
	GGUF_Q5_K = 13,
	GGUF_Q6_K = 14,
	GGUF_IQ2_XXS = 16,
	GGUF_IQ2_XS = 17,
	GGUF_IQ3_XXS = 18,
	GGUF_IQ1_S = 19,
	GGUF_IQ4_NL = 20,
	GGUF_IQ3_S = 21,
	GGUF_IQ2_S = 22,
	GGUF_IQ4_XS = 23,
	GGUF_I8 = 24, /* bytes that are no weights, such as packed panels */
	GGUF_IQ1_M = 29,
	GGUF_BF16 = 30,
	GGUF_TQ1_0 = 34,
	GGUF_TQ2_0 = 35,
	GGUF_MXFP4 = 39,
};

/* Metadata value types, with the numbers of the file format. */
enum gguf_kv_type {
	GGUF_KV_U8,
	GGUF_KV_I8,
	GGUF_KV_U16,
	GGUF_KV_I16,
	GGUF_KV_U32,
	GGUF_KV_I32,
	GGUF_KV_F32,
	GGUF_KV_BOOL,
	GGUF_KV_STRING,
	GGUF_KV_ARRAY,
	GGUF_KV_U64,
	GGUF_KV_I64,
	GGUF_KV_F64,
	GGUF_KV_TYPES,
};

struct gguf_type_traits {
	const char *name; /* "Q4_K" */
	uint32_t block_values;
	uint32_t block_bytes;
};
/* NULL for a type that is not supported. */
const struct gguf_type_traits *gguf_type_traits(enum gguf_type type);
/* The name of any type that the format has or had, supported or not; NULL: there is none. */
const char *gguf_type_name(uint32_t number);
/* Whether the format no longer has the type of this number. */
bool gguf_type_is_removed(uint32_t number);
/* Whether gguf_dequantize() supports the type. */
bool gguf_type_is_float(enum gguf_type type);
/*
 * Widens @n values (a multiple of block_values) from @src to F32. Exact for F32, F16, BF16, Q4_0,
 * Q5_0, Q8_0, Q3_K, Q6_K and all IQ, TQ and MXFP4 types, but for products that overflow; the types
 * with minima use the arithmetic of the format's definition and round each operation once.
 */
void gguf_dequantize(enum gguf_type type, const void *src, float *dst, size_t n);

#define GGUF_MAX_DIMS 4
struct gguf_tensor {
	const char *name; /* NUL-terminated */
	enum gguf_type type;
	uint32_t n_dims;
	uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] is the row length; unused ones are 1 */
	uint64_t bytes;
	const void *data;
	uint32_t shard; /* which has it, from 0 on */
};

struct gguf_file;

/* Returns 0, or -errno with one line in @err: -EINVAL for a malformed file (what, and at which
 * byte), shards that are not of one model, or one that is not the first; -ENOTSUP for its version,
 * endianness or a tensor type; -ENOENT for a file or one of its shards, -EACCES, ... */
int gguf_open(const char *path, struct gguf_file **file, char *err, size_t err_bytes);
/* The same of one file's content in memory, which is used until gguf_close(); errors call it
 * @name. */
int gguf_open_data(const void *data, size_t bytes, const char *name, struct gguf_file **file,
		   char *err, size_t err_bytes);
void gguf_close(struct gguf_file *file);

size_t gguf_n_tensors(const struct gguf_file *file);
const struct gguf_tensor *gguf_tensor(const struct gguf_file *file, size_t i);
/* NULL: no tensor has this name. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf_file *file, const char *name);

/* Metadata. Each function returns 0, -ENOENT if there is no such key, or -EINVAL if its type or
 * value does not fit. gguf_u64() accepts bools and non-negative integers of any width, gguf_f64()
 * f32 and f64. */
int gguf_u64(const struct gguf_file *file, const char *key, uint64_t *value);
int gguf_f64(const struct gguf_file *file, const char *key, double *value);
int gguf_bool(const struct gguf_file *file, const char *key, bool *value);
/* The string is not NUL-terminated. */
int gguf_string(const struct gguf_file *file, const char *key, const char **s, size_t *bytes);

/* Arrays of strings, of f32 or of 32-bit integers. */
int gguf_array_len(const struct gguf_file *file, const char *key, size_t *n);
/* Calls @fn for each string; stops at the first result that is not 0 and returns it. */
int gguf_strings(const struct gguf_file *file, const char *key,
		 int (*fn)(void *ud, size_t i, const char *s, size_t bytes), void *ud);
/* The values may be unaligned: use memcpy(). */
int gguf_f32_array(const struct gguf_file *file, const char *key, const float **values, size_t *n);
int gguf_i32_array(const struct gguf_file *file, const char *key, const int32_t **values,
		   size_t *n);

/* Tells the kernel that the tensor's whole pages will not be needed soon. */
void gguf_tensor_done(const struct gguf_file *file, const struct gguf_tensor *tensor);
/*
 * Begins to read the tensor's pages, and no others, into the page cache. Touching them through the
 * mapping later waits for these alone; without, the kernel reads ahead as far as the device's
 * setting goes, megabytes for each small tensor among large ones.
 */
void gguf_tensor_ahead(const struct gguf_file *file, const struct gguf_tensor *tensor);
/* Where a tensor's data begin in its shard's file. */
uint64_t gguf_tensor_offset(const struct gguf_file *file, const struct gguf_tensor *tensor);

/* A file itself, for reading by other means. */
struct gguf_shard {
	int fd;
	const uint8_t *map; /* all of it */
	uint64_t bytes;
};
/* A model that is not split is one shard. */
size_t gguf_n_shards(const struct gguf_file *file);
const struct gguf_shard *gguf_shard(const struct gguf_file *file, size_t i);
/*
 * Copies bytes of a tensor from the file, without making the pages of its mapping resident: the
 * kernel maps up to a huge page around each byte that is read there. 0, -errno, or -EIO if the file
 * has become shorter.
 */
int gguf_tensor_read(const struct gguf_file *file, const struct gguf_tensor *tensor,
		     uint64_t offset, void *out, size_t bytes);

#endif /* GGUF_H */
