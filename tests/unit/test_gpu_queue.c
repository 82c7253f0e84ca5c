// SPDX-License-Identifier: MIT
/*
 * The GPU lane's devices, memory and queues: the choice of the device, the order of operators,
 * shared and copied memory, and flags that the host polls.
 */
#include "gpu_fixture.h"
#include "gpu_private.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- devices --------------------------------------------------------------------------------- */

static void devices_are_described_and_chosen(void **state)
{
	struct llm_gpu_info list[16];
	struct llm_gpu *gpu;
	char part[8];
	unsigned int n;

	if (no_platform)
		skip();
	OK(llm_gpu_list(list, 16, &n));
	assert_in_range(n, 1, 16);
	for (unsigned int i = 0; i < n; i++) {
		assert_true(list[i].platform[0] && list[i].name[0]);
		assert_true(!strncmp(list[i].version, "OpenCL ", 7));
		assert_true(list[i].compute_units > 0 && list[i].memory_bytes > 0 &&
			    list[i].max_buffer_bytes > 0);
	}
	OK(llm_gpu_open("0", NULL, &gpu));
	assert_string_equal(llm_gpu_info(gpu)->name, list[0].name);
	assert_true(llm_gpu_vector(gpu) >= 4);
	llm_gpu_close(gpu);
	/* A part of the name, in the other case of letters. */
	snprintf(part, sizeof(part), "%.6s", list[0].platform);
	for (char *c = part; *c; c++)
		*c ^= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ? 0x20 : 0;
	OK(llm_gpu_open(part, NULL, &gpu));
	assert_string_equal(llm_gpu_info(gpu)->platform, list[0].platform);
	llm_gpu_close(gpu);
}

static void unknown_devices_are_refused(void **state)
{
	static const char *const none[] = { "4711", "99999999999999999999", "no such device", "" };
	struct llm_gpu_options wide = { .vector = 5 };
	struct llm_gpu *gpu;

	if (no_platform)
		skip();
	for (int i = 0; i < 4; i++) {
		assert_int_equal(llm_gpu_open(none[i], NULL, &gpu), -ENOENT);
		assert_null(gpu);
		assert_non_null(strstr(llm_error(), "npu-info lists them"));
		assert_non_null(strstr(llm_error(), none[i]));
	}
	REFUSED(llm_gpu_open("0", &wide, &gpu), "4, 8 or 16");
	assert_null(gpu);
}

static void the_environment_chooses_the_default_device(void **state)
{
	struct llm_gpu *gpu;

	if (no_platform)
		skip();
	setenv("VNPU_OPENCL", "no such device", 1);
	assert_int_equal(llm_gpu_open(NULL, NULL, &gpu), -ENOENT);
	OK(llm_gpu_open("0", NULL, &gpu));
	llm_gpu_close(gpu);
	setenv("VNPU_OPENCL", "0", 1);
	OK(llm_gpu_open(NULL, NULL, &gpu));
	llm_gpu_close(gpu);
	unsetenv("VNPU_OPENCL");
}

/* Runs in another process, as the loader searches for platforms only once. */
static int without_platform(void)
{
	struct llm_gpu *gpu;
	unsigned int n;
	int listed = llm_gpu_list(NULL, 0, &n), opened = llm_gpu_open(NULL, NULL, &gpu);

	if (listed != -ENODEV || opened != -ENODEV || gpu ||
	    !strstr(llm_error(), "pocl-opencl-icd") || strchr(llm_error(), '\n')) {
		fprintf(stderr, "%d, %d: %s\n", listed, opened, llm_error());
		return 1;
	}
	return 0;
}

static void without_a_platform_the_error_is_one_line(void **state)
{
	char dir[] = "/tmp/test_gpu.XXXXXX";
	int status;
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		setenv("OCL_ICD_VENDORS", dir, 1);
		unsetenv("OCL_ICD_FILENAMES");
		execl("/proc/self/exe", "test_gpu_queue", "without-platform", NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rmdir(dir);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_that_cannot_be_mapped_is_refused(void **state)
{
	struct llm_gpu_buffer *buf;
	struct arena a;

	if (no_platform)
		skip();
	arena_open(&a, gpus[0], 4096, LLM_GPU_SHARED);
	REFUSED(llm_gpu_map(gpus[0], a.host + 64, 64, LLM_GPU_SHARED, &buf),
		"is not aligned to a page");
	assert_null(buf);
	REFUSED(llm_gpu_map(gpus[0], NULL, 64, LLM_GPU_COPIED, &buf), "is not aligned to a page");
	REFUSED(llm_gpu_map(gpus[0], a.host, 0, LLM_GPU_COPIED, &buf), "no bytes");
	REFUSED(llm_gpu_alloc(gpus[0], 0, &buf), "no bytes");
	OK(llm_gpu_alloc(gpus[0], 64, &buf));
	assert_false(llm_gpu_shared(buf));
	REFUSED(llm_gpu_to_host(queues[0], buf, 0, 64), "only the device has");
	REFUSED(llm_gpu_flag(queues[0], (struct llm_gpu_area){ buf, 0 }, 1), "only the device has");
	llm_gpu_unmap(buf);
	REFUSED(llm_gpu_to_device(queues[0], a.buf, 0, 0), "no bytes");
	REFUSED(llm_gpu_to_device(queues[0], a.buf, 4000, 97), "not inside");
	REFUSED(llm_gpu_to_host(queues[0], a.buf, SIZE_MAX, 2), "not inside");
	REFUSED(llm_gpu_flag(queues[0], (struct llm_gpu_area){ a.buf, 4094 }, 1),
		"not a multiple of 4");
	REFUSED(llm_gpu_flag(queues[0], (struct llm_gpu_area){ a.buf, 4096 }, 1), "not inside");
	arena_close(&a);
}

/* y = a + b over @cols floats. */
static struct llm_gpu_binary sum(unsigned int cols, struct llm_gpu_area a, struct llm_gpu_area b,
				 struct llm_gpu_area y)
{
	return (struct llm_gpu_binary){ LLM_GPU_ADD, a, b, y, 1, cols, cols, cols, cols };
}

static void copied_memory_is_a_second_copy(void **state)
{
	struct llm_gpu_area x, y;
	struct llm_gpu_binary op;
	struct arena a;
	float *xs, *ys;

	FOR_EACH_WIDTH(i)
	{
		arena_open(&a, gpus[i], 4096, LLM_GPU_COPIED);
		assert_false(llm_gpu_shared(a.buf));
		xs = arena_take(&a, 64, &x);
		ys = arena_take(&a, 64, &y);
		for (int j = 0; j < 16; j++)
			xs[j] = (float)j, ys[j] = -1;
		OK(llm_gpu_to_device(queues[i], a.buf, 0, 128));
		/* Written after the copy, so the device does not see it. */
		OK(llm_gpu_finish(queues[i]));
		xs[3] = 100;
		op = sum(16, x, x, y);
		OK(llm_gpu_binary(queues[i], &op));
		OK(llm_gpu_finish(queues[i]));
		/* Read before the copy, so the host does not see the result. */
		assert_true(ys[5] == -1);
		OK(llm_gpu_to_host(queues[i], a.buf, y.off, 64));
		OK(llm_gpu_finish(queues[i]));
		for (int j = 0; j < 16; j++)
			assert_true(ys[j] == (float)(2 * j));
		assert_true(xs[3] == 100);
		arena_close(&a);
	}
}

/* Only a flag synchronises host and device; no call waits for the end. */
static void shared_memory_is_one_copy_on_a_coherent_device(void **state)
{
	struct llm_gpu_area x, y, flag;
	struct llm_gpu_binary op;
	struct arena a;
	float *xs, *ys;
	uint32_t *word;

	FOR_EACH_WIDTH(i)
	{
		if (!llm_gpu_coherent(gpus[i]))
			skip();
		arena_open(&a, gpus[i], 1 << 20, LLM_GPU_SHARED);
		assert_true(llm_gpu_shared(a.buf));
		xs = arena_take(&a, 100000, &x);
		ys = arena_take(&a, 100000, &y);
		word = arena_take(&a, 4, &flag);
		op = sum(25000, x, x, y);
		*word = 0;
		for (uint32_t turn = 1; turn <= 50; turn++) {
			for (int j = 0; j < 25000; j++)
				xs[j] = (float)(j + turn);
			OK(llm_gpu_binary(queues[i], &op));
			OK(llm_gpu_flag(queues[i], flag, turn));
			while (!llm_gpu_flag_is(word, turn))
				sched_yield();
			for (int j = 0; j < 25000; j++)
				assert_true(ys[j] == (float)(2 * (j + turn)));
		}
		OK(llm_gpu_finish(queues[i]));
		arena_close(&a);
	}
}

static void flags_of_copied_memory_are_written_by_the_driver(void **state)
{
	struct llm_gpu_area x, y, flag;
	struct llm_gpu_binary op;
	struct arena a;
	float *xs, *ys;
	uint32_t *word;

	FOR_EACH_WIDTH(i)
	{
		arena_open(&a, gpus[i], 8192, LLM_GPU_COPIED);
		xs = arena_take(&a, 400, &x);
		ys = arena_take(&a, 400, &y);
		word = arena_take(&a, 4, &flag);
		op = sum(100, x, x, y);
		for (uint32_t turn = 1; turn <= 20; turn++) {
			for (int j = 0; j < 100; j++)
				xs[j] = (float)(j * turn);
			OK(llm_gpu_to_device(queues[i], a.buf, x.off, 400));
			OK(llm_gpu_binary(queues[i], &op));
			OK(llm_gpu_to_host(queues[i], a.buf, y.off, 400));
			OK(llm_gpu_flag(queues[i], flag, turn));
			while (!llm_gpu_flag_is(word, turn))
				sched_yield();
			for (int j = 0; j < 100; j++)
				assert_true(ys[j] == (float)(2 * j * turn));
		}
		arena_close(&a);
	}
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Each addition in place depends on the one before. */
static void operators_run_in_the_order_of_the_calls(void **state)
{
	enum { LINKS = 3000, COLS = 500 };
	FOR_EACH_WIDTH(i)
	{
		struct llm_gpu_area at, one;
		struct llm_gpu_binary op;
		float *v, *ones, want = 3;
		struct arena a;

		arena_open(&a, gpus[i], 2 * (COLS * 4 + 64), LLM_GPU_SHARED);
		ones = arena_take(&a, COLS * 4, &one);
		v = arena_take(&a, COLS * 4, &at);
		for (int j = 0; j < COLS; j++) {
			ones[j] = 1;
			v[j] = want;
		}
		arena_send(&a, queues[i]);
		for (int l = 0; l < LINKS; l++) {
			/* Some links double. */
			bool twice = l % 300 == 7;

			op = sum(COLS, at, twice ? at : one, at);
			OK(llm_gpu_binary(queues[i], &op));
			want += twice ? want : 1;
		}
		arena_fetch(&a, queues[i]);
		for (int j = 0; j < COLS; j++)
			assert_true(v[j] == want);
		arena_close(&a);
	}
}

/* One group takes long, while another thread of the device could run the next operator. */
static void a_short_operator_waits_for_a_long_one(void **state)
{
	enum { K = 1 << 20 };
	FOR_EACH_WIDTH(i)
	{
		struct llm_gpu_matmul dot = {
			.format = LLM_GPU_F32, .m = 1, .k = K, .n = 1, .ldx = K, .ldw = K, .ldy = 1
		};
		struct llm_gpu_area twice, flag;
		struct llm_gpu_binary op;
		struct arena a;
		float *x, *y, *z;
		uint32_t *word;

		arena_open(&a, gpus[i], K * 4 + 4096, LLM_GPU_SHARED);
		x = arena_take(&a, K * 4, &dot.x);
		dot.w = dot.x;
		y = arena_take(&a, 4, &dot.y);
		z = arena_take(&a, 4, &twice);
		word = arena_take(&a, 4, &flag);
		for (int j = 0; j < K; j++)
			x[j] = 1;
		op = sum(1, dot.y, dot.y, twice);
		for (unsigned int turn = 0; turn < 6; turn++) {
			*y = *z = 0;
			*word = 0;
			arena_send(&a, queues[i]);
			OK(llm_gpu_finish(queues[i]));
			OK(llm_gpu_matmul(queues[i], &dot));
			OK(llm_gpu_binary(queues[i], &op));
			OK(llm_gpu_flag(queues[i], flag, 1));
			while (!llm_gpu_flag_is(word, 1))
				sched_yield();
			arena_fetch(&a, queues[i]);
			assert_true(*y == K);
			assert_true(*z == 2.0f * K);
		}
		arena_close(&a);
	}
}

/* What the operator comes after has failed, so it fails too, long before its end is waited for. */
static void a_failure_is_told_by_what_waits_for_the_end(void **state)
{
	struct llm_gpu_area x;
	struct llm_gpu_queue *q;
	struct llm_gpu_binary op;
	cl_event never, failed;
	struct arena a;
	cl_int err;

	if (no_platform)
		skip();
	OK(llm_gpu_queue_create(gpus[0], &q));
	arena_open(&a, gpus[0], 4096, LLM_GPU_SHARED);
	arena_take(&a, 64, &x);
	op = sum(16, x, x, x);
	never = clCreateUserEvent(gpus[0]->context, &err);
	assert_int_equal(err, CL_SUCCESS);
	assert_int_equal(clEnqueueMarkerWithWaitList(q->queue, 1, &never, &failed), CL_SUCCESS);
	OK(llm_gpu_binary(q, &op));
	assert_int_equal(clSetUserEventStatus(never, -1), CL_SUCCESS);
	clFinish(q->queue);
	assert_int_equal(llm_gpu_finish(q), -EIO);
	/* Told once. */
	OK(llm_gpu_finish(q));
	clReleaseEvent(failed);
	clReleaseEvent(never);
	arena_close(&a);
	llm_gpu_queue_free(q);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_platform_the_error_is_one_line),
		cmocka_unit_test(devices_are_described_and_chosen),
		cmocka_unit_test(unknown_devices_are_refused),
		cmocka_unit_test(the_environment_chooses_the_default_device),
		cmocka_unit_test(memory_that_cannot_be_mapped_is_refused),
		cmocka_unit_test(copied_memory_is_a_second_copy),
		cmocka_unit_test(shared_memory_is_one_copy_on_a_coherent_device),
		cmocka_unit_test(flags_of_copied_memory_are_written_by_the_driver),
		cmocka_unit_test(operators_run_in_the_order_of_the_calls),
		cmocka_unit_test(a_short_operator_waits_for_a_long_one),
		cmocka_unit_test(a_failure_is_told_by_what_waits_for_the_end),
	};

	if (argc > 1 && !strcmp(argv[1], "without-platform"))
		return without_platform();
	return cmocka_run_group_tests_name("gpu_queue", tests, gpu_setup, gpu_teardown);
}
