// SPDX-License-Identifier: MIT
/* Buffers that are part of a file. A device with memory of its own has none, and says so. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_private.h"

/* Of the file: more than huge pages need, and no whole pages. */
#define BEFORE (3 * 4096u)
#define FLOATS ((5u << 20) / 4 + 3)

static void fill(int fd)
{
	float *values = calloc(1, BEFORE + FLOATS * sizeof(float));

	assert_non_null(values);
	for (uint32_t i = 0; i < FLOATS; i++)
		values[BEFORE / sizeof(float) + i] = (float)i;
	assert_int_equal(write(fd, values, BEFORE + FLOATS * sizeof(float)),
			 BEFORE + FLOATS * sizeof(float));
	free(values);
}

/* A buffer of the file's floats. NULL: this device has none. */
static struct npu_buffer *map_floats(struct fixture *f, int fd)
{
	struct npu_buffer *buf;
	int err = npu_buffer_map_file(f->ctx, fd, BEFORE, FLOATS * sizeof(float), &buf);

	if (npu_device_info(f->dev)->transport == NPU_TRANSPORT_DRM) {
		assert_int_equal(err, -EOPNOTSUPP);
		assert_null(buf);
		return NULL;
	}
	npu_ok(err);
	return buf;
}

/* y = x + x */
static struct npu_job *doubling(struct fixture *f)
{
	struct npu_graph *g = npu_graph_create("sum");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, FLOATS);

	npu_graph_output(g, "y", npu_add(g, x, x));
	return fixture_job(f->ctx, g);
}

static void the_device_reads_a_file_in_place(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *w, *y = fixture_floats(f->ctx, FLOATS, 0);
	struct npu_job *job = doubling(f);
	char path[256];
	int fd = fixture_file(path, sizeof(path));
	float changed = -5;

	fill(fd);
	w = map_floats(f, fd);
	if (w) {
		assert_int_equal(npu_buffer_size(w), FLOATS * sizeof(float));
		assert_true(fixture_float(w, FLOATS - 1) == (float)(FLOATS - 1));
		/* The page cache's memory, not a copy of it. */
		assert_int_equal(pwrite(fd, &changed, sizeof(changed), BEFORE), sizeof(changed));
		close(fd);
		fixture_bind(job, "x", w);
		fixture_bind(job, "y", y);
		npu_ok(fixture_run(f, job));
		assert_true(fixture_float(y, 0) == 2 * changed);
		for (uint32_t i = 1; i < FLOATS; i++)
			assert_true(fixture_float(y, i) == 2.0f * (float)i);
		npu_buffer_free(w);
	} else {
		close(fd);
	}
	npu_job_free(job);
	npu_buffer_free(y);
	unlink(path);
}

static void the_device_cannot_write_to_a_file(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *y, *zeros = fixture_floats(f->ctx, FLOATS, 0);
	struct npu_job *job = doubling(f);
	char path[256];
	int fd = fixture_file(path, sizeof(path));

	fill(fd);
	y = map_floats(f, fd);
	if (y) {
		fixture_bind(job, "x", zeros);
		fixture_bind(job, "y", zeros);
		assert_int_equal(npu_job_bind(job, "y", y, 0, npu_buffer_size(y)), -EACCES);
		/* As if libnpu had not looked. */
		job->slots[1].va = npu_buffer_va(y);
		assert_true(fixture_run(f, job) < 0);
		assert_true(fixture_float(y, 7) == 7.0f);
		npu_buffer_free(y);
	}
	npu_job_free(job);
	npu_buffer_free(zeros);
	close(fd);
	unlink(path);
}

static void a_part_that_the_file_does_not_have_is_refused(void **state)
{
	struct fixture *f = *state;
	bool drm = npu_device_info(f->dev)->transport == NPU_TRANSPORT_DRM;
	struct npu_buffer *buf;
	char path[256];
	int fd = fixture_file(path, sizeof(path)), null = open("/dev/null", O_RDONLY);

	assert_int_equal(ftruncate(fd, 8192), 0);
	if (!drm) {
		npu_fails(npu_buffer_map_file(f->ctx, fd, 4096, 4097, &buf), -EINVAL, "4097 bytes");
		npu_fails(npu_buffer_map_file(f->ctx, fd, 64, 4096, &buf), -EINVAL, "offset 64");
		npu_fails(npu_buffer_map_file(f->ctx, fd, 1ull << 63, 4096, &buf), -EINVAL,
			  "cannot be mapped");
		npu_fails(npu_buffer_map_file(f->ctx, null, 0, 4096, &buf), -EINVAL,
			  "cannot be mapped");
		npu_fails(npu_buffer_map_file(f->ctx, -1, 0, 4096, &buf), -EBADF, "4096 bytes");
		assert_null(buf);
		/* Nothing is left of them. */
		for (int i = 0; i < 300; i++) {
			npu_ok(npu_buffer_map_file(f->ctx, fd, 4096, 4096, &buf));
			npu_buffer_free(buf);
		}
	}
	npu_fails(npu_buffer_map_file(f->ctx, fd, 0, 0, &buf), -EINVAL, "0 bytes");
	close(null);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_device_reads_a_file_in_place, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(the_device_cannot_write_to_a_file, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_part_that_the_file_does_not_have_is_refused,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests_name("test_npu_file", tests, NULL, NULL);
}
