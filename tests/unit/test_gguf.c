// SPDX-License-Identifier: MIT
/* The GGUF reader: good files, and every kind of bad file, which is refused with the reason. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "gguf_image.h"
#include "tokenizer.h"

#define MODEL "share/models/docs6m/docs6m-q8_0.gguf"

static char err[256];

/* Opening the image must fail with @ret and one line that contains @words. */
static void assert_refused(const struct image *m, int ret, const char *words)
{
	struct gguf_file *file;

	err[0] = 0;
	assert_int_equal(image_open(m->data, m->bytes, &file, err, sizeof(err)), ret);
	assert_null(file);
	if (!strstr(err, words) || strchr(err, '\n'))
		fail_msg("'%s' does not say '%s' in one line", err, words);
}

/* Thirteen entries and three tensors. */
static void put_good_file(struct image *m)
{
	static const uint64_t dims[4] = { 32, 2, 3, 1 };
	static const uint8_t data[1024] = { 1, 2, 3 };

	image_header(m, 3, 13);
	put_all_types(m);
	image_tensor(m, "b", 2, dims, GGUF_F32, 224);
	image_tensor(m, "a", 1, dims, GGUF_Q8_0, 0);
	image_tensor(m, "c", 4, dims, GGUF_F16, 480);
	image_pad(m, 32);
	image_put(m, data, 480 + 384);
}

static int collect(void *ud, size_t i, const char *s, size_t bytes)
{
	char *out = ud;

	sprintf(out + strlen(out), "%zu=%.*s;", i, (int)bytes, s);
	return 0;
}

static int stop(void *ud, size_t i, const char *s, size_t bytes)
{
	return -7;
}

static void metadata_of_every_type_is_read(void **state)
{
	struct image m = { 0 };
	struct gguf_file *file;
	char text[64] = "";
	const char *s;
	uint64_t u;
	double d;
	size_t n;
	bool b;

	put_good_file(&m);
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	assert_int_equal(gguf_u64(file, "t0", &u), 0);
	assert_int_equal(u, 0xfe);
	assert_int_equal(gguf_u64(file, "t2", &u), 0);
	assert_int_equal(u, 0xfffe);
	assert_int_equal(gguf_u64(file, "t4", &u), 0);
	assert_int_equal(u, 0xfffffffe);
	assert_int_equal(gguf_u64(file, "t10", &u), 0);
	assert_int_equal(u, UINT64_MAX - 1);
	assert_int_equal(gguf_u64(file, "t7", &u), 0);
	assert_int_equal(u, 1);
	/* Negative numbers, or no integers. */
	assert_int_equal(gguf_u64(file, "t1", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t3", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t5", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t11", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t6", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t8", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t9", &u), -EINVAL);
	assert_int_equal(gguf_u64(file, "t", &u), -ENOENT);
	assert_int_equal(gguf_u64(file, "t99", &u), -ENOENT);
	assert_int_equal(gguf_f64(file, "t6", &d), 0);
	assert_true(d == 0.5);
	assert_int_equal(gguf_f64(file, "t12", &d), 0);
	assert_true(d == 0.1);
	assert_int_equal(gguf_f64(file, "t4", &d), -EINVAL);
	assert_int_equal(gguf_bool(file, "t7", &b), 0);
	assert_true(b);
	assert_int_equal(gguf_bool(file, "t0", &b), -EINVAL);
	assert_int_equal(gguf_string(file, "t8", &s, &n), 0);
	assert_int_equal(n, 4);
	assert_memory_equal(s, "text", 4);
	assert_int_equal(gguf_string(file, "t9", &s, &n), -EINVAL);
	assert_int_equal(gguf_array_len(file, "t9", &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(gguf_strings(file, "t9", collect, text), 0);
	assert_string_equal(text, "0=one;1=;");
	assert_int_equal(gguf_strings(file, "t9", stop, NULL), -7);
	assert_int_equal(gguf_strings(file, "t8", collect, text), -EINVAL);
	gguf_close(file);
	free(m.data);
}

static void tensors_are_found_by_index_and_name(void **state)
{
	struct image m = { 0 };
	struct gguf_file *file;
	const struct gguf_tensor *t;

	put_good_file(&m);
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	assert_int_equal(gguf_n_tensors(file), 3);
	assert_string_equal(gguf_tensor(file, 0)->name, "b");
	assert_null(gguf_tensor(file, 3));
	t = gguf_find_tensor(file, "a");
	assert_ptr_equal(t, gguf_tensor(file, 1));
	assert_int_equal(t->type, GGUF_Q8_0);
	assert_int_equal(t->bytes, 34);
	assert_memory_equal(t->data, "\1\2\3", 3);
	t = gguf_find_tensor(file, "c");
	assert_int_equal(t->n_dims, 4);
	assert_int_equal(t->bytes, 2 * 32 * 2 * 3);
	assert_int_equal(gguf_find_tensor(file, "b")->dims[2], 1);
	assert_ptr_equal((const uint8_t *)t->data,
			 (const uint8_t *)gguf_find_tensor(file, "a")->data + 480);
	assert_null(gguf_find_tensor(file, "d"));
	assert_null(gguf_find_tensor(file, ""));
	gguf_tensor_done(file, t);
	gguf_close(file);
	free(m.data);
}

static void version_2_is_read_as_version_3(void **state)
{
	struct image m = { 0 };
	struct gguf_file *file;

	put_good_file(&m);
	m.data[4] = 2;
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	gguf_close(file);
	free(m.data);
}

static void other_versions_and_big_endian_are_not_supported(void **state)
{
	struct image m = { 0 };

	put_good_file(&m);
	m.data[4] = 1;
	assert_refused(&m, -ENOTSUP, "version 1");
	m.data[4] = 4;
	assert_refused(&m, -ENOTSUP, "version 4");
	memcpy(m.data + 4, "\0\0\0\3", 4);
	assert_refused(&m, -ENOTSUP, "big-endian");
	m.data[0] = 'g';
	assert_refused(&m, -EINVAL, "GGUF");
	free(m.data);
}

static void what_is_cut_off_is_named(void **state)
{
	static const struct {
		size_t bytes;
		const char *words;
	} cases[] = {
		{ 4, "format version at byte 4 is cut off: the file has 0 of its 4 bytes" },
		{ 6, "format version at byte 4 is cut off: the file has 2 of its 4 bytes" },
		{ 8, "tensor count at byte 8 is cut off" },
		{ 23, "metadata count at byte 16 is cut off: the file has 7 of its 8 bytes" },
		{ 39, "key at byte 32 is cut off: the file has 7 of its 8 bytes" },
		{ 40, "value type of key 'the.name' at byte 40 is cut off" },
		{ 44, "string of key 'the.name' at byte 44 is cut off" },
		{ 57, "string of key 'the.name' at byte 52 is cut off: the file has 5 of its 6" },
	};
	struct image m = { 0 };

	image_header(&m, 1, 1);
	image_key(&m, "the.name", GGUF_KV_STRING);
	image_string(&m, "values");
	image_tensor(&m, "a", 1, &(uint64_t){ 32 }, GGUF_F32, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		m.bytes = cases[i].bytes;
		assert_refused(&m, -EINVAL, cases[i].words);
	}
	free(m.data);
}

static void truncated_files_are_refused(void **state)
{
	struct image m = { 0 };
	size_t whole;

	put_good_file(&m);
	whole = m.bytes;
	for (m.bytes = 0; m.bytes < whole; m.bytes++)
		assert_refused(&m, -EINVAL, "");
	free(m.data);
}

static void counts_beyond_the_file_are_refused(void **state)
{
	static const uint64_t counts[] = { 1000,       1ull << 31, 1ull << 32,
					   1ull << 60, INT64_MAX,  UINT64_MAX };
	struct image m = { 0 };
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		put_good_file(&m);
		memcpy(m.data + 8, &counts[i], 8);
		assert_refused(&m, -EINVAL, "tensors, more than the file holds");
		put_good_file(&m);
		memcpy(m.data + 16, &counts[i], 8);
		assert_refused(&m, -EINVAL, "metadata entries, more than the file holds");
		image_header(&m, 0, 1);
		image_key(&m, "s", 8);
		image_u64(&m, counts[i]);
		image_u64(&m, 0);
		assert_refused(&m, -EINVAL, "string of key 's' at byte 45 is cut off");
		image_header(&m, 0, 1);
		image_array(&m, "a", 4, counts[i]);
		image_u64(&m, 0);
		assert_refused(&m, -EINVAL, "array at byte 37 claims");
		image_header(&m, 0, 1);
		image_array(&m, "a", 8, counts[i]);
		image_u64(&m, 0);
		assert_refused(&m, -EINVAL, "string of key 'a' at byte");
		image_header(&m, 0, 1);
		image_u64(&m, counts[i]);
		image_u64(&m, 0);
		assert_refused(&m, -EINVAL, "key at byte");
	}
	free(m.data);
}

static void unknown_types_and_odd_values_are_refused(void **state)
{
	struct image m = { 0 };

	image_header(&m, 0, 1);
	image_key(&m, "k", 13);
	image_u64(&m, 0);
	assert_refused(&m, -EINVAL, "unknown type 13");
	image_header(&m, 0, 1);
	image_key(&m, "k", UINT32_MAX);
	image_u64(&m, 0);
	assert_refused(&m, -EINVAL, "unknown type 4294967295");
	image_header(&m, 0, 1);
	image_array(&m, "k", 13, 0);
	assert_refused(&m, -EINVAL, "unknown type 13");
	image_header(&m, 0, 1);
	image_key(&m, "k", 7);
	image_put(&m, "\2", 1);
	assert_refused(&m, -EINVAL, "bool at byte 37 is 2");
	image_header(&m, 0, 1);
	image_u64(&m, 3);
	image_put(&m, "a\0b", 3);
	image_u32(&m, 7);
	image_put(&m, "", 1);
	assert_refused(&m, -EINVAL, "NUL");
	free(m.data);
}

static void too_deeply_nested_arrays_are_refused(void **state)
{
	struct image m = { 0 };
	struct gguf_file *file;
	int depth, i;

	for (depth = 1; depth < 2000; depth = depth < 8 ? depth + 1 : depth * 4) {
		image_header(&m, 0, 1);
		image_key(&m, "k", 9);
		for (i = 1; i < depth; i++) {
			image_u32(&m, 9);
			image_u64(&m, 1);
		}
		image_u32(&m, 0);
		image_u64(&m, 1);
		image_put(&m, "x", 1);
		if (depth > 4) {
			assert_refused(&m, -EINVAL, "nested");
		} else {
			assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
			gguf_close(file);
		}
	}
	free(m.data);
}

static void duplicates_are_refused(void **state)
{
	static const uint64_t dims[] = { 8 };
	struct image m = { 0 };

	image_header(&m, 0, 3);
	image_key(&m, "same", 7);
	image_put(&m, "", 1);
	image_key(&m, "other", 7);
	image_put(&m, "", 1);
	image_key(&m, "same", 0);
	image_put(&m, "", 1);
	assert_refused(&m, -EINVAL, "'same' occurs twice");
	image_header(&m, 3, 0);
	image_tensor(&m, "w", 1, dims, GGUF_F32, 0);
	image_tensor(&m, "v", 1, dims, GGUF_F32, 32);
	image_tensor(&m, "w", 1, dims, GGUF_F32, 64);
	image_pad(&m, 32);
	image_pad(&m, 1024);
	assert_refused(&m, -EINVAL, "'w' occurs twice");
	free(m.data);
}

/* Keys that differ only at their ends, in descending order: the worst case for a naive search for
 * duplicates. */
static void many_keys_and_tensors_are_read(void **state)
{
	static const uint64_t dims[] = { 8 };
	const int n = 50000;
	struct image m = { 0 };
	struct gguf_file *file;
	char name[64];
	uint64_t v;
	int i;

	image_header(&m, n, n);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "a.rather.long.common.prefix.%08d", n - i);
		image_key(&m, name, 4);
		image_u32(&m, i);
	}
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "a.rather.long.common.prefix.%08d", n - i);
		image_tensor(&m, name, 1, dims, GGUF_F32, 32ull * (n - 1 - i));
	}
	image_pad(&m, 32);
	for (i = 0; i < n; i++)
		image_put(&m, "01234567890123456789012345678901", 32);
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	assert_int_equal(gguf_u64(file, "a.rather.long.common.prefix.00000001", &v), 0);
	assert_int_equal(v, n - 1);
	assert_ptr_equal(gguf_find_tensor(file, "a.rather.long.common.prefix.00000002"),
			 gguf_tensor(file, n - 2));
	gguf_close(file);
	free(m.data);
}

/* A file of one tensor "w", with 1 KiB of data after the table. */
static void put_one_tensor(struct image *m, uint32_t n_dims, const uint64_t *dims, uint32_t type,
			   uint64_t offset)
{
	static const uint8_t data[1024];

	image_header(m, 1, 0);
	image_tensor(m, "w", n_dims, dims, type, offset);
	image_pad(m, 32);
	image_put(m, data, sizeof(data));
}

static void errors_of_bad_shapes_name_the_tensor(void **state)
{
	static const uint64_t none[5] = { 0, 1, 1, 1, 1 }, ones[5] = { 1, 1, 1, 1, 1 },
			      zero_last[2] = { 1, 0 };
	static const uint64_t wraps[4] = { 1ull << 32, 1ull << 32, 1, 1 },
			      wraps_to_4[2] = { (1ull << 62) + 1, 4 };
	static const uint64_t large[1] = { 1ull << 61 }, odd[2] = { 33, 32 }, beyond[1] = { 257 };
	struct image m = { 0 };

	put_one_tensor(&m, 0, ones, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "'w' at byte 33 has 0 dimensions");
	put_one_tensor(&m, 5, ones, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "'w' at byte 33 has 5 dimensions");
	put_one_tensor(&m, 1, none, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "'w' at byte 33 has a dimension of 0");
	put_one_tensor(&m, 2, zero_last, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "dimension of 0");
	put_one_tensor(&m, 4, wraps, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "'w' at byte 33 has more values");
	put_one_tensor(&m, 2, wraps_to_4, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "more values");
	put_one_tensor(&m, 1, large, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "more values");
	put_one_tensor(&m, 2, odd, GGUF_Q8_0, 0);
	assert_refused(&m, -EINVAL, "'w' has rows of 33 values");
	put_one_tensor(&m, 1, beyond, GGUF_F32, 0);
	assert_refused(&m, -EINVAL, "'w' needs 1028 bytes");
	free(m.data);
}

static void errors_of_unsupported_types_name_tensor_and_type(void **state)
{
	static const uint64_t dims[] = { 256 };
	static const struct {
		uint32_t type;
		const char *words;
	} types[] = {
		{ 4, "Q4_2, which was removed from the format; quantise the original" },
		{ 5, "Q4_3, which was removed" },
		{ 9, "Q8_1, which is not supported" },
		{ 15, "Q8_K, which is not supported" },
		{ 25, "I16, which is not supported" },
		{ 28, "F64, which is not supported" },
		{ 31, "Q4_0_4_4, which was removed" },
		{ 33, "Q4_0_8_8, which was removed" },
		{ 38, "IQ4_NL_8_8, which was removed" },
		{ 40, "NVFP4, which is not supported" },
		{ 43, "43, which this version does not know" },
		{ UINT32_MAX, "4294967295, which this version does not know" },
	};
	struct image m = { 0 };
	char words[128];
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		put_one_tensor(&m, 1, dims, types[i].type, 0);
		snprintf(words, sizeof(words), "'w' has type %s", types[i].words);
		assert_refused(&m, -ENOTSUP, words);
		assert_null(gguf_type_traits(types[i].type));
	}
	free(m.data);
}

static void bad_offsets_are_refused(void **state)
{
	static const uint64_t dims[] = { 16 };
	static const uint64_t far[] = { 1024, 1ull << 40, UINT64_MAX - 31 };
	struct image m = { 0 };
	size_t i;

	put_one_tensor(&m, 1, dims, GGUF_F32, 8);
	assert_refused(&m, -EINVAL, "'w' has offset 8");
	for (i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		put_one_tensor(&m, 1, dims, GGUF_F32, far[i]);
		assert_refused(&m, -EINVAL, "'w' needs 64 bytes at offset");
	}
	image_header(&m, 2, 0);
	image_tensor(&m, "v", 1, dims, GGUF_F32, 32);
	image_tensor(&m, "w", 1, dims, GGUF_F32, 0);
	image_pad(&m, 32);
	image_pad(&m, 1024);
	assert_refused(&m, -EINVAL, "'w' and 'v' overlap");
	free(m.data);
}

static void alignment_is_obeyed_and_checked(void **state)
{
	static const uint32_t bad[] = { 0, 1, 4, 24, 33, 1u << 31 };
	static const uint64_t dims[] = { 4 };
	struct image m = { 0 };
	struct gguf_file *file;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		image_header(&m, 0, 1);
		image_key(&m, "general.alignment", 4);
		image_u32(&m, bad[i]);
		assert_refused(&m, -EINVAL, "general.alignment is");
	}
	image_header(&m, 0, 1);
	image_key(&m, "general.alignment", 8);
	image_string(&m, "32");
	assert_refused(&m, -EINVAL, "general.alignment is not");
	image_header(&m, 2, 1);
	image_key(&m, "general.alignment", 4);
	image_u32(&m, 128);
	image_tensor(&m, "v", 1, dims, GGUF_F32, 0);
	image_tensor(&m, "w", 1, dims, GGUF_F32, 128);
	image_pad(&m, 128);
	image_put(&m, "0123456789abcdef", 16);
	image_pad(&m, 128);
	image_put(&m, "ghijklmnopqrstuv", 16);
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	assert_memory_equal(gguf_find_tensor(file, "w")->data, "ghij", 4);
	gguf_close(file);
	free(m.data);
}

static void other_than_regular_files_are_refused(void **state)
{
	char path[] = "/tmp/test_gguf.XXXXXX", fifo[64];
	struct gguf_file *file;

	assert_int_equal(gguf_open("/nonexistent/x.gguf", &file, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent/x.gguf: No such file"));
	assert_int_equal(gguf_open("/tmp", &file, err, sizeof(err)), -EISDIR);
	assert_int_equal(gguf_open("/dev/null", &file, err, sizeof(err)), -EINVAL);
	assert_non_null(mkdtemp(path));
	snprintf(fifo, sizeof(fifo), "%s/fifo", path);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(gguf_open(fifo, &file, err, sizeof(err)), -EINVAL);
	unlink(fifo);
	rmdir(path);
	/* The buffer for the error line may be NULL. */
	assert_int_equal(gguf_open("/nonexistent/x.gguf", &file, NULL, 0), -ENOENT);
	assert_int_equal(gguf_open("/nonexistent/x.gguf", &file, err, 5), -ENOENT);
	assert_int_equal(strlen(err), 4);
}

/* ---- mutations ------------------------------------------------------------------------------- */

static int touch_string(void *ud, size_t i, const char *s, size_t bytes)
{
	uint64_t *sum = ud;
	size_t j;

	for (j = 0; j < bytes; j++)
		*sum += (uint8_t)s[j];
	return 0;
}

/* Reads everything in an accepted file; the sanitizers detect accesses outside of it. */
static void use_file(const struct gguf_file *file)
{
	static const char *const keys[] = { "t0", "t5",	 "t6",	"t8",
					    "t9", "t10", "t12", "tokenizer.ggml.tokens" };
	static const char text[] = "The kernel \xff allocates <s> memory.";
	float values[256];
	struct tokenizer *tok;
	uint64_t sum = 0, u;
	const float *f;
	const char *s;
	int32_t ids[128];
	size_t i, n;
	double d;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		gguf_u64(file, keys[i], &u);
		gguf_f64(file, keys[i], &d);
		if (!gguf_string(file, keys[i], &s, &n))
			touch_string(&sum, 0, s, n);
		gguf_strings(file, keys[i], touch_string, &sum);
		if (!gguf_f32_array(file, keys[i], &f, &n))
			touch_string(&sum, 0, (const char *)f, 4 * n);
	}
	for (i = 0; i < gguf_n_tensors(file); i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i);
		const struct gguf_type_traits *traits = gguf_type_traits(t->type);
		const uint8_t *last = (const uint8_t *)t->data + t->bytes - traits->block_bytes;

		gguf_dequantize(t->type, t->data, values, traits->block_values);
		gguf_dequantize(t->type, last, values, traits->block_values);
		assert_ptr_equal(gguf_find_tensor(file, t->name), t);
	}
	if (!tokenizer_create(file, &tok, err, sizeof(err))) {
		long got = tokenizer_encode(tok, text, sizeof(text) - 1,
					    TOKENIZE_BOS | TOKENIZE_SPECIAL, ids, 128);

		assert_true(got >= 0);
		if (got <= 128)
			tokenizer_decode(tok, ids, got, err, sizeof(err));
		tokenizer_free(tok);
	}
}

/* Changes one to four places in the first @bytes of the image, to random values or to boundary
 * values. */
static void mutate(uint8_t *data, size_t bytes, uint64_t *state)
{
	static const uint64_t values[] = { 0,	       1,	   2,	       9,
					   13,	       31,	   0x7f,       0xff,
					   1ull << 31, 1ull << 32, UINT32_MAX, INT64_MAX,
					   UINT64_MAX, 1ull << 63, 1ull << 60 };
	unsigned int n = 1 + random_u64(state) % 4;

	while (n--) {
		size_t at = random_u64(state) % bytes, width = 1u << random_u64(state) % 4;
		uint64_t v = values[random_u64(state) % (sizeof(values) / sizeof(values[0]))];

		switch (random_u64(state) % 3) {
		case 0:
			data[at] ^= 1u << random_u64(state) % 8;
			break;
		case 1:
			data[at] = random_u64(state);
			break;
		default:
			memcpy(data + at, &v, width < bytes - at ? width : bytes - at);
		}
	}
}

static void fuzz(const uint8_t *good, size_t bytes, size_t mutable_bytes, unsigned int rounds,
		 uint64_t seed)
{
	uint8_t *data = malloc(bytes);
	unsigned int accepted = 0, round;
	struct gguf_file *file;

	assert_non_null(data);
	for (round = 0; round < rounds; round++) {
		size_t n = random_u64(&seed) % 16 ? bytes : random_u64(&seed) % bytes;

		memcpy(data, good, bytes);
		mutate(data, mutable_bytes, &seed);
		if (!image_open(data, n, &file, err, sizeof(err))) {
			accepted++;
			use_file(file);
			gguf_close(file);
		} else {
			assert_true(err[0] && !file);
		}
	}
	print_message("%u of %u mutated files were accepted\n", accepted, rounds);
	free(data);
}

static uint64_t fuzz_seed(void)
{
	const char *given = getenv("FUZZ_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0x5eed0001;

	print_message("FUZZ_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static void mutated_small_files_do_no_harm(void **state)
{
	struct image m = { 0 };

	put_good_file(&m);
	fuzz(m.data, m.bytes, m.bytes, 20000, fuzz_seed());
	free(m.data);
}

/* Mutates the embedded model's metadata, whose vocabulary can still be loaded. */
static void mutated_vocabularies_do_no_harm(void **state)
{
	uint8_t *data = malloc(128 << 10);
	FILE *f = fopen(MODEL, "rb");
	uint64_t none = 0;
	size_t n;

	if (!f)
		fail_msg("%s cannot be read; run the tests in the root of the source tree", MODEL);
	n = fread(data, 1, 128 << 10, f);
	fclose(f);
	memcpy(data + 8, &none, 8); /* no tensors, only metadata */
	fuzz(data, n, n, 1500, fuzz_seed());
	fuzz(data, n, 2048, 500, fuzz_seed());
	free(data);
}

static void the_embedded_model_is_read(void **state)
{
	struct gguf_file *file;
	const struct gguf_tensor *t;
	uint64_t v;

	assert_int_equal(gguf_open(MODEL, &file, err, sizeof(err)), 0);
	assert_int_equal(gguf_n_tensors(file), 56);
	assert_int_equal(gguf_u64(file, "llama.block_count", &v), 0);
	assert_int_equal(v, 6);
	t = gguf_find_tensor(file, "blk.5.ffn_down.weight");
	assert_non_null(t);
	assert_int_equal(t->type, GGUF_Q8_0);
	assert_int_equal(t->dims[0], 768);
	assert_int_equal(t->dims[1], 256);
	assert_int_equal(t->bytes, 768 / 32 * 34 * 256);
	use_file(file);
	gguf_close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_of_every_type_is_read),
		cmocka_unit_test(tensors_are_found_by_index_and_name),
		cmocka_unit_test(version_2_is_read_as_version_3),
		cmocka_unit_test(other_versions_and_big_endian_are_not_supported),
		cmocka_unit_test(what_is_cut_off_is_named),
		cmocka_unit_test(truncated_files_are_refused),
		cmocka_unit_test(counts_beyond_the_file_are_refused),
		cmocka_unit_test(unknown_types_and_odd_values_are_refused),
		cmocka_unit_test(too_deeply_nested_arrays_are_refused),
		cmocka_unit_test(duplicates_are_refused),
		cmocka_unit_test(many_keys_and_tensors_are_read),
		cmocka_unit_test(errors_of_bad_shapes_name_the_tensor),
		cmocka_unit_test(errors_of_unsupported_types_name_tensor_and_type),
		cmocka_unit_test(bad_offsets_are_refused),
		cmocka_unit_test(alignment_is_obeyed_and_checked),
		cmocka_unit_test(other_than_regular_files_are_refused),
		cmocka_unit_test(the_embedded_model_is_read),
		cmocka_unit_test(mutated_small_files_do_no_harm),
		cmocka_unit_test(mutated_vocabularies_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
