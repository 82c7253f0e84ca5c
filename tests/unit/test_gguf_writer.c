// SPDX-License-Identifier: MIT
/* The GGUF writer: the reader reads its files, whether tensors are given or made while writing. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "gguf_image.h"
#include "gguf_writer.h"

static char err[256];

static void the_writers_file_is_read_back(void **state)
{
	static const float weights[2][32] = { { 1, 2 }, { 3 } };
	static const uint64_t dims[] = { 32, 2 };
	struct gguf_writer *w = gguf_writer_create();
	struct gguf_file *file;
	const void *data;
	const float *f;
	const int32_t *i;
	size_t bytes, n;
	float value;

	gguf_writer_string(w, "name", "x", 1);
	gguf_writer_array(w, "f", GGUF_KV_F32, 2);
	gguf_writer_f32_element(w, 1.5f);
	gguf_writer_f32_element(w, -2);
	gguf_writer_array(w, "i", GGUF_KV_I32, 1);
	gguf_writer_i32_element(w, -3);
	gguf_writer_bool(w, "b", true);
	gguf_writer_tensor(w, "v", GGUF_F32, 1, dims, weights[1]);
	gguf_writer_tensor(w, "w", GGUF_F32, 2, dims, weights);
	assert_int_equal(gguf_writer_data(w, &data, &bytes), 0);
	assert_int_equal(gguf_writer_bytes(w), bytes);
	assert_int_equal(image_open(data, bytes, &file, err, sizeof(err)), 0);
	assert_memory_equal(gguf_find_tensor(file, "w")->data, weights, sizeof(weights));
	assert_int_equal(gguf_f32_array(file, "f", &f, &n), 0);
	assert_int_equal(n, 2);
	memcpy(&value, &f[1], sizeof(value));
	assert_true(value == -2);
	assert_int_equal(gguf_i32_array(file, "i", &i, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(gguf_i32_array(file, "f", &i, &n), -EINVAL);
	assert_int_equal(gguf_f32_array(file, "i", &f, &n), -EINVAL);
	gguf_close(file);
	/* An array with fewer elements than announced. */
	gguf_writer_array(w, "short", GGUF_KV_I32, 2);
	gguf_writer_i32_element(w, 1);
	assert_int_equal(gguf_writer_data(w, &data, &bytes), -EINVAL);
	assert_int_equal(gguf_writer_save(w, "/nonexistent/x", err, sizeof(err)), -EINVAL);
	gguf_writer_free(w);
	assert_int_equal(gguf_writer_data(NULL, &data, &bytes), -ENOMEM);
}

static void the_size_is_known_before(void **state)
{
	static const uint8_t values[100];

	for (uint64_t n = 1; n < sizeof(values); n++) {
		const uint64_t dims[] = { n };
		struct gguf_writer *w = gguf_writer_create();
		const void *data;
		size_t bytes;

		if (n % 2)
			gguf_writer_align(w);
		gguf_writer_string(w, "name", (const char *)values, n);
		gguf_writer_tensor(w, "a", GGUF_I8, 1, dims, values);
		gguf_writer_tensor(w, "b", GGUF_I8, 1, dims, values);
		assert_int_equal(gguf_writer_data(w, &data, &bytes), 0);
		assert_int_equal(gguf_writer_bytes(w), bytes);
		gguf_writer_free(w);
	}
	assert_int_equal(gguf_writer_bytes(NULL), 0);
}

/* A tensor's function that puts @n floats one by one. */
struct made {
	const float *values;
	unsigned int n;
	int end; /* its result */
};

static int make_floats(void *ud, struct gguf_sink *sink)
{
	const struct made *made = ud;
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < made->n; i++)
		ret = gguf_sink_put(sink, &made->values[i], sizeof(float));
	return ret ? ret : made->end;
}

static void tensors_made_while_writing_equal_given_ones(void **state)
{
	static const float values[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	static const uint64_t dims[] = { 5, 2 };
	struct made made = { values, 10, 0 };
	struct gguf_writer *given = gguf_writer_create(), *w = gguf_writer_create();
	char path[] = "/tmp/gguf-XXXXXX";
	size_t bytes[2];
	const void *data[2];
	struct gguf_file *file;
	int fd = mkstemp(path);
	struct stat st;

	assert_true(fd >= 0 && write(fd, "before", 6) == 6);
	gguf_writer_tensor(given, "a", GGUF_F32, 2, dims, values);
	gguf_writer_tensor(given, "b", GGUF_F32, 1, dims, values);
	gguf_writer_tensor_made(w, "a", GGUF_F32, 2, dims, make_floats, &made);
	gguf_writer_tensor(w, "b", GGUF_F32, 1, dims, values);
	assert_int_equal(gguf_writer_data(given, &data[0], &bytes[0]), 0);
	assert_int_equal(gguf_writer_data(w, &data[1], &bytes[1]), 0);
	assert_int_equal(bytes[0], bytes[1]);
	assert_memory_equal(data[0], data[1], bytes[0]);

	/* Too few, too many, and an error of the function: the old file stays. */
	made.n = 9;
	assert_int_equal(gguf_writer_save(w, path, err, sizeof(err)), -EINVAL);
	made.values = (const float[11]){ 0 };
	made.n = 11;
	assert_int_equal(gguf_writer_save(w, path, err, sizeof(err)), -EINVAL);
	made.end = 7;
	err[0] = '\0';
	assert_int_equal(gguf_writer_save(w, path, err, sizeof(err)), 7);
	assert_string_equal(err, "");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 6);

	made = (struct made){ values, 10, 0 };
	assert_int_equal(gguf_writer_save(w, path, err, sizeof(err)), 0);
	assert_int_equal(gguf_open(path, &file, err, sizeof(err)), 0);
	assert_memory_equal(gguf_find_tensor(file, "a")->data, values, sizeof(values));
	gguf_close(file);
	assert_int_equal(gguf_writer_save(w, "/dev/full", err, sizeof(err)), -ENOSPC);
	close(fd);
	unlink(path);
	gguf_writer_free(given);
	gguf_writer_free(w);
}

static void the_longest_names_can_be_written(void **state)
{
	char folder[] = "/tmp/gguf-XXXXXX", path[sizeof(folder) + 256];
	struct gguf_writer *w = gguf_writer_create();
	struct stat st;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/%0255d", folder, 1);
	for (int again = 0; again < 2; again++)
		assert_int_equal(gguf_writer_save(w, path, err, sizeof(err)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, gguf_writer_bytes(w));
	gguf_writer_free(w);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
}

static void metadata_is_copied_in_order(void **state)
{
	static const char *const except[] = { "t8", "t1", "general" };
	struct gguf_writer *w = gguf_writer_create();
	struct image m = { 0 };
	struct gguf_file *file;
	const void *data;
	size_t bytes;
	int i;

	/* Only metadata: the writer's file equals the image, except for the padding. */
	image_header(&m, 0, 14);
	image_key(&m, "z", 4);
	image_u32(&m, 7);
	put_all_types(&m);
	image_pad(&m, 32);
	assert_int_equal(image_open(m.data, m.bytes, &file, err, sizeof(err)), 0);
	gguf_writer_copy(w, file, NULL, 0);
	assert_int_equal(gguf_writer_data(w, &data, &bytes), 0);
	assert_int_equal(bytes, m.bytes);
	assert_memory_equal(data, m.data, bytes);
	gguf_writer_free(w);
	w = gguf_writer_create();
	gguf_writer_copy(w, file, except, 3);
	gguf_close(file);
	assert_int_equal(gguf_writer_data(w, &data, &bytes), 0);
	assert_int_equal(image_open(data, bytes, &file, err, sizeof(err)), 0);
	for (i = 0; i < 13; i++) {
		char key[16];
		size_t n;
		const char *s;

		snprintf(key, sizeof(key), "t%d", i);
		assert_int_equal(gguf_string(file, key, &s, &n) == -ENOENT, i == 1 || i == 8);
	}
	gguf_close(file);
	gguf_writer_free(w);
	free(m.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_writers_file_is_read_back),
		cmocka_unit_test(the_size_is_known_before),
		cmocka_unit_test(tensors_made_while_writing_equal_given_ones),
		cmocka_unit_test(the_longest_names_can_be_written),
		cmocka_unit_test(metadata_is_copied_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
