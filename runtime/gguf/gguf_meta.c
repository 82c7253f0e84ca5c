// SPDX-License-Identifier: MIT
/*
 * Look-ups in a GGUF file's metadata by bisection of the sorted keys. Values are copied from the
 * mapping, where they may be unaligned. gguf_open() has checked all bounds.
 */
#include "gguf_private.h"

#include <errno.h>
#include <string.h>

static const struct gguf_kv *find_kv(const struct gguf_file *file, const char *key)
{
	size_t low = 0, high = file->n_kv, key_bytes = strlen(key);

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct gguf_kv *kv = &file->kv[mid];
		size_t n = key_bytes < kv->key_bytes ? key_bytes : kv->key_bytes;
		int d = memcmp(key, kv->key, n);

		if (!d)
			d = (key_bytes > kv->key_bytes) - (key_bytes < kv->key_bytes);
		if (!d)
			return kv;
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

int gguf_u64(const struct gguf_file *file, const char *key, uint64_t *value)
{
	const struct gguf_kv *kv = find_kv(file, key);
	uint64_t raw = 0;
	int64_t v;

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_STRING && kv->type != GGUF_KV_ARRAY)
		memcpy(&raw, kv->value, kv->n); /* file and host are little-endian */
	switch (kv->type) {
	case GGUF_KV_U8:
	case GGUF_KV_U16:
	case GGUF_KV_U32:
	case GGUF_KV_U64:
	case GGUF_KV_BOOL:
		*value = raw;
		return 0;
	case GGUF_KV_I8:
		v = (int8_t)raw;
		break;
	case GGUF_KV_I16:
		v = (int16_t)raw;
		break;
	case GGUF_KV_I32:
		v = (int32_t)raw;
		break;
	case GGUF_KV_I64:
		v = (int64_t)raw;
		break;
	default:
		return -EINVAL;
	}
	if (v < 0)
		return -EINVAL;
	*value = v;
	return 0;
}

int gguf_f64(const struct gguf_file *file, const char *key, double *value)
{
	const struct gguf_kv *kv = find_kv(file, key);
	float f;

	if (!kv)
		return -ENOENT;
	if (kv->type == GGUF_KV_F64) {
		memcpy(value, kv->value, sizeof(*value));
		return 0;
	}
	if (kv->type != GGUF_KV_F32)
		return -EINVAL;
	memcpy(&f, kv->value, sizeof(f));
	*value = f;
	return 0;
}

int gguf_bool(const struct gguf_file *file, const char *key, bool *value)
{
	const struct gguf_kv *kv = find_kv(file, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_BOOL)
		return -EINVAL;
	*value = *kv->value;
	return 0;
}

int gguf_string(const struct gguf_file *file, const char *key, const char **s, size_t *bytes)
{
	const struct gguf_kv *kv = find_kv(file, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_STRING)
		return -EINVAL;
	*s = (const char *)kv->value;
	*bytes = kv->n;
	return 0;
}

int gguf_array_len(const struct gguf_file *file, const char *key, size_t *n)
{
	const struct gguf_kv *kv = find_kv(file, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_ARRAY)
		return -EINVAL;
	*n = kv->n;
	return 0;
}

int gguf_strings(const struct gguf_file *file, const char *key,
		 int (*fn)(void *ud, size_t i, const char *s, size_t bytes), void *ud)
{
	const struct gguf_kv *kv = find_kv(file, key);
	const uint8_t *p;
	uint64_t i, bytes;
	int ret;

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_ARRAY || kv->elem != GGUF_KV_STRING)
		return -EINVAL;
	p = kv->value;
	for (i = 0; i < kv->n; i++) {
		memcpy(&bytes, p, sizeof(bytes));
		p += sizeof(bytes);
		ret = fn(ud, i, (const char *)p, bytes);
		if (ret)
			return ret;
		p += bytes;
	}
	return 0;
}

int gguf_f32_array(const struct gguf_file *file, const char *key, const float **values, size_t *n)
{
	const struct gguf_kv *kv = find_kv(file, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_ARRAY || kv->elem != GGUF_KV_F32)
		return -EINVAL;
	*values = (const void *)kv->value;
	*n = kv->n;
	return 0;
}

int gguf_i32_array(const struct gguf_file *file, const char *key, const int32_t **values, size_t *n)
{
	const struct gguf_kv *kv = find_kv(file, key);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_KV_ARRAY || (kv->elem != GGUF_KV_I32 && kv->elem != GGUF_KV_U32))
		return -EINVAL;
	*values = (const void *)kv->value;
	*n = kv->n;
	return 0;
}
