// SPDX-License-Identifier: MIT
/*
 * The tensor table of a GGUF file: reading, checking, finding.
 *
 * Sorting by name finds duplicates and serves later look-ups; sorting by offset finds overlaps. The
 * checks so take O(n log n).
 */
#include "gguf_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of the shortest entry: name length, one character, n_dims, one dimension, type, offset. */
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 8 + 4 + 8)
/* The format allows 64, but some converters write longer names. */
#define MAX_NAME_BYTES 255
#define DEFAULT_ALIGNMENT 32
/* The format requires a multiple of 8. The upper limit, a huge page, is our own. */
#define MIN_ALIGNMENT 8
#define MAX_ALIGNMENT (2u << 20)

static int read_alignment(struct gguf_cursor *c, uint64_t *alignment)
{
	int ret = gguf_u64(c->file, "general.alignment", alignment);

	if (ret == -ENOENT) {
		*alignment = DEFAULT_ALIGNMENT;
		return 0;
	}
	if (ret)
		return gguf_fail(c, -EINVAL, "general.alignment is not an unsigned integer");
	if (*alignment < MIN_ALIGNMENT || *alignment > MAX_ALIGNMENT ||
	    (*alignment & (*alignment - 1)))
		return gguf_fail(c, -EINVAL,
				 "general.alignment is %" PRIu64 ", not a power of two in %d..%u",
				 *alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
	return 0;
}

static int refuse_type(struct gguf_cursor *c, const char *tensor, uint32_t type)
{
	const char *name = gguf_type_name(type);

	if (!name)
		return gguf_fail(c, -ENOTSUP,
				 "tensor '%s' has type %u, which this version does not know",
				 tensor, type);
	if (gguf_type_is_removed(type))
		return gguf_fail(c, -ENOTSUP,
				 "tensor '%s' has type %s, which was removed from the format; "
				 "quantise the original model again",
				 tensor, name);
	return gguf_fail(c, -ENOTSUP, "tensor '%s' has type %s, which is not supported", tensor,
			 name);
}

/* Reads dimensions and type, and computes the size. */
static int read_shape(struct gguf_cursor *c, struct gguf_tensor *t)
{
	const struct gguf_type_traits *traits;
	uint64_t at = c->pos, values = 1;
	uint32_t type, d;

	if (gguf_read_u32(c, "tensor dimensions", &t->n_dims))
		return -EINVAL;
	if (!t->n_dims || t->n_dims > GGUF_MAX_DIMS)
		return gguf_fail(c, -EINVAL,
				 "tensor '%s' at byte %" PRIu64 " has %u dimensions, not 1..%d",
				 t->name, at, t->n_dims, GGUF_MAX_DIMS);
	for (d = 0; d < GGUF_MAX_DIMS; d++) {
		t->dims[d] = 1;
		if (d < t->n_dims && gguf_read_u64(c, "tensor dimensions", &t->dims[d]))
			return -EINVAL;
		if (!t->dims[d])
			return gguf_fail(c, -EINVAL,
					 "tensor '%s' at byte %" PRIu64 " has a dimension of 0",
					 t->name, at);
		if (__builtin_mul_overflow(values, t->dims[d], &values) || values > INT64_MAX / 8)
			return gguf_fail(c, -EINVAL,
					 "tensor '%s' at byte %" PRIu64
					 " has more values than 64 bits count",
					 t->name, at);
	}
	if (gguf_read_u32(c, "tensor type", &type))
		return -EINVAL;
	traits = gguf_type_traits(type);
	if (!traits)
		return refuse_type(c, t->name, type);
	if (t->dims[0] % traits->block_values)
		return gguf_fail(c, -EINVAL,
				 "tensor '%s' has rows of %" PRIu64
				 " values, not a multiple of %s's %u",
				 t->name, t->dims[0], traits->name, traits->block_values);
	t->type = type;
	t->bytes = values / traits->block_values * traits->block_bytes;
	return 0;
}

/* A tensor and its offset, the key to sort by. */
struct extent {
	uint64_t offset;
	uint32_t index;
};

static int extent_compare(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int name_compare(const void *a, const void *b)
{
	const struct gguf_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Turns offsets into pointers; checks that they are aligned, inside the file and do not overlap. */
static int place_tensors(struct gguf_cursor *c, struct extent *extents, uint64_t alignment)
{
	struct gguf_file *file = c->file;
	uint64_t start = (c->pos + alignment - 1) & ~(alignment - 1);
	uint64_t end = 0; /* of the previous tensor, counted from start */
	uint64_t space = start < file->shard.bytes ? file->shard.bytes - start : 0;
	const char *before = NULL;
	size_t i;

	qsort(extents, file->n_tensors, sizeof(*extents), extent_compare);
	for (i = 0; i < file->n_tensors; i++) {
		struct gguf_tensor *t = &file->tensors[extents[i].index];
		uint64_t offset = extents[i].offset;

		if (offset & (alignment - 1))
			return gguf_fail(c, -EINVAL,
					 "tensor '%s' has offset %" PRIu64
					 ", not a multiple of the alignment %" PRIu64,
					 t->name, offset, alignment);
		if (offset > space || t->bytes > space - offset)
			return gguf_fail(c, -EINVAL,
					 "tensor '%s' needs %" PRIu64 " bytes at offset %" PRIu64
					 " but the file holds %" PRIu64
					 " bytes of data (truncated; get the file again)",
					 t->name, t->bytes, offset, space);
		if (offset < end)
			return gguf_fail(c, -EINVAL,
					 "tensors '%s' and '%s' overlap at offset %" PRIu64, before,
					 t->name, offset);
		end = offset + t->bytes;
		before = t->name;
		t->data = file->shard.map + start + offset;
	}
	return 0;
}

int gguf_sort_tensors(struct gguf_cursor *c)
{
	struct gguf_file *file = c->file;

	for (size_t i = 0; i < file->n_tensors; i++)
		file->by_name[i] = &file->tensors[i];
	qsort(file->by_name, file->n_tensors, sizeof(*file->by_name), name_compare);
	for (size_t i = 1; i < file->n_tensors; i++)
		if (!name_compare(&file->by_name[i - 1], &file->by_name[i]))
			return gguf_fail(c, -EINVAL, "tensor '%s' occurs twice",
					 file->by_name[i]->name);
	return 0;
}

static int read_table(struct gguf_cursor *c, struct extent *extents)
{
	struct gguf_file *file = c->file;
	char *name = file->names;
	size_t i;
	int ret;

	for (i = 0; i < file->n_tensors; i++) {
		struct gguf_tensor *t = &file->tensors[i];
		const char *s;
		uint64_t bytes;

		ret = gguf_read_name(c, "tensor name", MAX_NAME_BYTES, &s, &bytes);
		if (ret)
			return ret;
		memcpy(name, s, bytes);
		t->name = name;
		name += bytes + 1;
		ret = read_shape(c, t);
		if (ret)
			return ret;
		if (gguf_read_u64(c, "tensor offset", &extents[i].offset))
			return -EINVAL;
		extents[i].index = i;
	}
	return gguf_sort_tensors(c);
}

int gguf_read_tensors(struct gguf_cursor *c, uint64_t n)
{
	struct gguf_file *file = c->file;
	uint64_t left = file->shard.bytes - c->pos, alignment;
	struct extent *extents;
	int ret;

	ret = read_alignment(c, &alignment);
	if (ret)
		return ret;
	if (n > left / MIN_TENSOR_BYTES || n > UINT32_MAX)
		return gguf_fail(c, -EINVAL,
				 "the header at byte 8 claims %" PRIu64
				 " tensors, more than the file holds",
				 n);
	file->n_tensors = n;
	file->tensors = calloc(n + 1, sizeof(*file->tensors));
	file->by_name = calloc(n + 1, sizeof(*file->by_name));
	/*
	 * A name with its NUL is shorter than its table entry, so the rest of the file bounds the
	 * size of all names.
	 */
	file->names = calloc(1, n * (MAX_NAME_BYTES + 1) < left ? n * (MAX_NAME_BYTES + 1) + 1
								: left + 1);
	extents = calloc(n + 1, sizeof(*extents));
	if (!file->tensors || !file->by_name || !file->names || !extents)
		ret = gguf_fail(c, -ENOMEM, "no memory for a table of %" PRIu64 " tensors", n);
	if (!ret)
		ret = read_table(c, extents);
	if (!ret)
		ret = place_tensors(c, extents, alignment);
	free(extents);
	return ret;
}

size_t gguf_n_tensors(const struct gguf_file *file)
{
	return file->n_tensors;
}

const struct gguf_tensor *gguf_tensor(const struct gguf_file *file, size_t i)
{
	return i < file->n_tensors ? &file->tensors[i] : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf_file *file, const char *name)
{
	size_t low = 0, high = file->n_tensors;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct gguf_tensor *t = file->by_name[mid];
		int d = strcmp(name, t->name);

		if (!d)
			return t;
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

void gguf_tensor_done(const struct gguf_file *file, const struct gguf_tensor *tensor)
{
	uintptr_t page = sysconf(_SC_PAGESIZE), data = (uintptr_t)tensor->data;
	/* Whole pages only: others share the first and the last page. */
	uintptr_t start = (data + page - 1) & ~(page - 1);
	uintptr_t end = (data + tensor->bytes) & ~(page - 1);

	if (start < end)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

uint64_t gguf_tensor_offset(const struct gguf_file *file, const struct gguf_tensor *tensor)
{
	return (uint64_t)((const uint8_t *)tensor->data - gguf_shard(file, tensor->shard)->map);
}

void gguf_tensor_ahead(const struct gguf_file *file, const struct gguf_tensor *tensor)
{
	/* Only a hint: without it, the mapping reads. */
	posix_fadvise(gguf_shard(file, tensor->shard)->fd, (off_t)gguf_tensor_offset(file, tensor),
		      (off_t)tensor->bytes, POSIX_FADV_WILLNEED);
}

int gguf_tensor_read(const struct gguf_file *file, const struct gguf_tensor *tensor,
		     uint64_t offset, void *out, size_t bytes)
{
	off_t at = (off_t)(gguf_tensor_offset(file, tensor) + offset);
	int fd = gguf_shard(file, tensor->shard)->fd;
	ssize_t n;

	for (size_t done = 0; done < bytes; done += (size_t)n) {
		n = pread(fd, (uint8_t *)out + done, bytes - done, at + (off_t)done);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
		n = n < 0 ? 0 : n;
	}
	return 0;
}
