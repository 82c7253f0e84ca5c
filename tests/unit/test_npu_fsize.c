// SPDX-License-Identifier: MIT
/*
 * A process whose files may not become large (ulimit -f): the sim's memory is a file, and so is an
 * image while it is written. Nothing may raise SIGXFSZ, which kills a process that does not handle
 * it. Each test is a process of its own.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu_fixture.h"

#define MIB (1u << 20)

static const struct npu_device_options sim = { .transport = NPU_TRANSPORT_SIM, .threads = 1 };

/* Runs @fn within the limit in a child, which must not die, nor have the signal pending. */
static void within(rlim_t bytes, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		sigset_t pending;

		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){ bytes, bytes });
		fn();
		sigpending(&pending);
		_exit(sigismember(&pending, SIGXFSZ) || signal(SIGXFSZ, SIG_IGN) != SIG_DFL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void open_fails(void)
{
	struct npu_device *dev;

	npu_fails(npu_device_open(&sim, &dev), -EFBIG, "ulimit -f");
}

static void without_room_for_the_status_pages_no_device_is_opened(void **state)
{
	within(MIB - 1, open_fails);
	within(0, open_fails);
}

static void buffers_up_to_the_limit(void)
{
	struct npu_buffer *buf, *small;
	void *state;
	struct fixture *f;

	fixture_open(&state, &sim);
	f = state;
	npu_fails(npu_buffer_create(f->ctx, 16 * MIB, 0, &buf), -EFBIG, "16777216 bytes");
	npu_fails(npu_buffer_create(f->ctx, 16 * MIB, 0, &buf), -EFBIG, "ulimit -f");
	npu_ok(npu_buffer_create(f->ctx, 4096, 0, &small));
	npu_ok(npu_buffer_create(f->ctx, 8 * MIB, 0, &buf));
	npu_buffer_free(buf);
	npu_buffer_free(small);
	fixture_teardown(&state);
}

static void a_buffer_beyond_the_limit_is_an_error_and_others_are_made(void **state)
{
	within(16 * MIB, buffers_up_to_the_limit);
}

static void many_buffers_one_after_another(void)
{
	struct npu_buffer *buf[2] = { NULL, NULL };
	void *state;
	struct fixture *f;

	fixture_open(&state, &sim);
	f = state;
	for (unsigned int i = 0; i < 200; i++) {
		size_t size = (1 + i % 5) * MIB;
		const uint8_t *data;

		npu_buffer_free(buf[i % 2]);
		npu_ok(npu_buffer_create(f->ctx, size, 0, &buf[i % 2]));
		data = npu_buffer_data(buf[i % 2]);
		for (size_t k = 0; k < size; k += 512)
			assert_int_equal(data[k], 0);
		memset(npu_buffer_data(buf[i % 2]), 0xff, size);
	}
	npu_buffer_free(buf[0]);
	npu_buffer_free(buf[1]);
	fixture_teardown(&state);
}

static void memory_of_freed_buffers_is_used_again_and_zero(void **state)
{
	within(24 * MIB, many_buffers_one_after_another);
}

static void parts_of_a_file_and_a_buffer(void)
{
	struct npu_buffer *parts[4], *buf;
	char path[300];
	void *state;
	struct fixture *f;
	int fd = fixture_file(path, sizeof(path));

	unlink(path);
	assert_int_equal(ftruncate(fd, 6 * MIB), 0);
	fixture_open(&state, &sim);
	f = state;
	for (int i = 0; i < 4; i++)
		npu_ok(npu_buffer_map_file(f->ctx, fd, 0, 6 * MIB, &parts[i]));
	npu_ok(npu_buffer_create(f->ctx, 2 * MIB, 0, &buf));
	for (int i = 0; i < 4; i++)
		npu_buffer_free(parts[i]);
	npu_buffer_free(buf);
	close(fd);
	fixture_teardown(&state);
}

static void buffers_of_files_do_not_count(void **state)
{
	within(8 * MIB, parts_of_a_file_and_a_buffer);
}

static void compile_a_large_image(void)
{
	struct npu_graph *g = npu_graph_create("large");
	float *ones = calloc(MIB, sizeof(float));
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, MIB);
	size_t bytes;
	void *image;

	npu_graph_output(g, "y", npu_add(g, x, npu_graph_const(g, "ones", ones, 1, MIB)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EFBIG, "ulimit -f");
	npu_graph_free(g);
	free(ones);
}

static void an_image_beyond_the_limit_is_an_error(void **state)
{
	within(2 * MIB, compile_a_large_image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_room_for_the_status_pages_no_device_is_opened),
		cmocka_unit_test(a_buffer_beyond_the_limit_is_an_error_and_others_are_made),
		cmocka_unit_test(memory_of_freed_buffers_is_used_again_and_zero),
		cmocka_unit_test(buffers_of_files_do_not_count),
		cmocka_unit_test(an_image_beyond_the_limit_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
