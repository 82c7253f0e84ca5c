// SPDX-License-Identifier: MIT
/* NPU_LOG=ioctl: one line per device call, with the names of all fields; nothing without it. */
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_private.h"

static char log_path[256];

static char *read_log(void)
{
	static char text[1 << 18];
	FILE *f = fopen(log_path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	assert_non_null(f);
	fclose(f);
	text[n] = 0;
	return text;
}

static void has_line(const char *text, const char *pattern)
{
	regex_t re;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
	if (regexec(&re, text, 0, NULL, 0))
		fail_msg("no line like %s in:\n%s", pattern, text);
	regfree(&re);
}

static int log_setup(void **state)
{
	close(fixture_file(log_path, sizeof(log_path)));
	setenv("NPU_LOG", "ioctl", 1);
	setenv("NPU_LOG_FILE", log_path, 1);
	return fixture_setup(state);
}

static int log_teardown(void **state)
{
	int ret = fixture_teardown(state);

	unsetenv("NPU_LOG");
	unsetenv("NPU_LOG_FILE");
	unlink(log_path);
	return ret;
}

#define NUMBER(x) #x
#define VERSION(major, minor) NUMBER(major) "\\." NUMBER(minor)
#define ISA VERSION(VNPU_ISA_MAJOR, VNPU_ISA_MINOR)
#define US "[0-9]+\\.[0-9] us$"

static void every_device_call_has_a_line_with_its_fields_and_its_time(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[2] = { fixture_sleep(f->ctx, 0), fixture_sleep(f->ctx, 0) };
	struct npu_context_state st;
	struct npu_fence *fence;
	struct npu_sync signal;
	struct npu_submit_syncs syncs = { .signal = &signal, .nr_signal = 1 };
	uint64_t seqno;
	char *text;

	npu_job_timeout(jobs[1], 1234);
	npu_ok(npu_fence_create(f->dev, false, &fence));
	signal = (struct npu_sync){ fence, 9 };
	npu_ok(npu_queue_submit(f->queue, jobs, 2, &syncs, &seqno));
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_ok(npu_fence_wait(fence, 9, NPU_FOREVER));
	npu_ok(npu_context_state(f->ctx, &st));
	npu_fence_free(fence);
	npu_job_free(jobs[0]);
	npu_job_free(jobs[1]);
	text = read_log();
	has_line(text, "^npu: DEV_QUERY \\{type=device size=[0-9]+ name=.* isa_version=" ISA
		       " .*va_bits=[0-9]+\\} = 0 " US);
	has_line(text,
		 "^npu: DEV_QUERY \\{type=limits .* max_queue_depth=[0-9]+ .*max_waiting_jobs=256 "
		 ".*max_timeout_ms=[0-9]+ max_fence_ms=[0-9]+ .*max_bytes_per_user=[0-9]+\\} = "
		 "0 " US);
	has_line(text, "^npu: CTX_CREATE \\{flags=0x0 ctx_id=[0-9]+ va_start=0x[0-9a-f]+ "
		       "va_range=0x[0-9a-f]+\\} = 0 " US);
	has_line(text, "^npu: QUEUE_CREATE \\{ctx_id=[0-9]+ priority=1 depth=[0-9]+ flags=0x0 "
		       "queue_id=[0-9]+ status_offset=0x[0-9a-f]+\\} = 0 " US);
	has_line(text, "^npu: BO_CREATE \\{size=4096 flags=0x1 handle=[0-9]+\\} = 0 " US);
	has_line(text,
		 "^npu: BO_INFO \\{handle=[0-9]+ flags=0x1 size=4096 mmap_offset=0x[0-9a-f]+\\} = "
		 "0 " US);
	has_line(text,
		 "^npu: mmap \\{offset=0x[0-9a-f]+ size=4096 prot=rw addr=0x[0-9a-f]+\\} = 0 " US);
	has_line(
		text,
		"^npu: VM_BIND \\{ctx_id=[0-9]+ flags=0x0 ops=\\[\\{op=map flags=0x1 handle=[0-9]+ "
		"bo_offset=0x0 va=0x[0-9a-f]+ size=4096\\}\\]\\} = 0 " US);
	has_line(text, "^npu: SUBMIT \\{ctx_id=[0-9]+ flags=0x0 count=2 jobs=\\[\\{queue_id=[0-9]+ "
		       "flags=0x0 "
		       "cmd_va=0x[0-9a-f]+ cmd_size=56 table_va=0x[0-9a-f]+ table_size=48 "
		       "timeout_ms=0 syncs=\\[\\] "
		       "seqno=1\\} \\{.* timeout_ms=1234 syncs=\\[\\{signal handle=[0-9]+ "
		       "timeline_value=9\\}\\] "
		       "seqno=2\\}\\]\\} = 0 " US);
	has_line(text, "^npu: WAIT \\{queue_id=[0-9]+ flags=0x0 seqno=2 timeout_ns=[0-9]+ status=0 "
		       "epoch=[0-9]+\\} = 0 " US);
	has_line(text, "^npu: SYNCOBJ_CREATE \\{flags=0x0 handle=[0-9]+\\} = 0 " US);
	has_line(text, "^npu: SYNCOBJ_TIMELINE_WAIT \\{handles=\\[[0-9]+\\] points=\\[9\\] "
		       "timeout_nsec=[0-9]+ flags=0x3\\} = 0 " US);
	has_line(text, "^npu: CTX_GET_STATE \\{ctx_id=[0-9]+ state=0x0 fault_va=0x0 .*\\} = 0 " US);
	has_line(text, "^npu: SYNCOBJ_DESTROY \\{handle=[0-9]+\\} = 0 " US);
	has_line(text, "^npu: VM_BIND \\{.*op=unmap flags=0x0 handle=0 .*\\} = 0 " US);
	has_line(text, "^npu: munmap \\{addr=0x[0-9a-f]+ size=4096\\} = 0 " US);
	has_line(text, "^npu: GEM_CLOSE \\{handle=[0-9]+\\} = 0 " US);
	/* The file has nothing else. */
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_int_equal(strncmp(line, "npu: ", 5), 0);
}

static void a_call_that_fails_shows_its_error_and_no_outputs(void **state)
{
	struct fixture *f = *state;
	struct npu_queue *queue;

	npu_fails(npu_queue_create(f->ctx, &(struct npu_queue_options){ .depth = 3 }, &queue),
		  -EINVAL, "depth 3");
	has_line(read_log(),
		 "^npu: QUEUE_CREATE \\{ctx_id=[0-9]+ priority=1 depth=3 flags=0x0\\} = -22 "
		 "\\(Invalid argument\\) " US);
}

static void a_line_that_is_too_long_is_truncated_but_keeps_its_result(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[40];
	char *text, *line;
	uint64_t seqno;

	for (int i = 0; i < 40; i++)
		jobs[i] = fixture_sleep(f->ctx, 0);
	npu_ok(npu_queue_submit(f->queue, jobs, 40, NULL, &seqno));
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	text = read_log();
	has_line(text, "^npu: SUBMIT \\{.* count=40 .*\\.\\.\\.\\]\\} = 0 " US);
	line = strstr(text, "npu: SUBMIT");
	assert_true(strcspn(line, "\n") < 4096);
	for (int i = 0; i < 40; i++)
		npu_job_free(jobs[i]);
}

static void an_unknown_kind_of_log_and_an_invalid_file_are_refused(void **state)
{
	struct npu_device *dev;

	setenv("NPU_LOG", "everything", 1);
	npu_fails(npu_device_open(NULL, &dev), -EINVAL, "NPU_LOG='everything'");
	setenv("NPU_LOG", "ioctl", 1);
	setenv("NPU_LOG_FILE", "/nonexistent/log", 1);
	npu_fails(npu_device_open(NULL, &dev), -ENOENT, "/nonexistent/log");
	setenv("NPU_LOG", "none", 1);
	npu_ok(npu_device_open(NULL, &dev));
	npu_device_close(dev);
	unsetenv("NPU_LOG");
	unsetenv("NPU_LOG_FILE");
}

/* What @fn prints on stderr. */
static char *said(void (*fn)(void))
{
	static char text[4096];
	char path[300];
	int fd = fixture_file(path, sizeof(path)), kept = dup(STDERR_FILENO);
	ssize_t n;

	unlink(path);
	dup2(fd, STDERR_FILENO);
	fn();
	dup2(kept, STDERR_FILENO);
	close(kept);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	assert_true(n >= 0);
	text[n] = 0;
	return text;
}

static void open_and_close(void)
{
	struct npu_device *dev;

	npu_ok(npu_device_open(NULL, &dev));
	npu_device_close(dev);
}

static void a_log_that_cannot_be_written_ends_with_one_line(void **state)
{
	struct rlimit limit, small;

	setenv("NPU_LOG", "ioctl", 1);
	setenv("NPU_LOG_FILE", "/dev/full", 1);
	assert_string_equal(
		said(open_and_close),
		"libnpu: NPU_LOG_FILE=/dev/full: No space left on device; the log ends here\n");
	/* Of a file that has its largest size, with room for the sim's memory. */
	close(fixture_file(log_path, sizeof(log_path)));
	assert_int_equal(truncate(log_path, 64 << 20), 0);
	setenv("NPU_LOG_FILE", log_path, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){ 64 << 20, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_non_null(strstr(said(open_and_close), "File too large; the log ends here\n"));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	unlink(log_path);
	unsetenv("NPU_LOG");
	unsetenv("NPU_LOG_FILE");
}

static void without_npu_log_no_transport_is_wrapped(void **state)
{
	struct transport *t;
	struct npu_device *dev;

	unsetenv("NPU_LOG");
	npu_ok(transport_sim_open(&(struct sim_options){ .threads = 1 }, &t));
	npu_ok(npu_device_open_on(t, NPU_TRANSPORT_SIM, "", "test", &dev));
	assert_ptr_equal(dev->t, t);
	npu_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_device_call_has_a_line_with_its_fields_and_its_time, log_setup,
			log_teardown),
		cmocka_unit_test_setup_teardown(a_call_that_fails_shows_its_error_and_no_outputs,
						log_setup, log_teardown),
		cmocka_unit_test_setup_teardown(
			a_line_that_is_too_long_is_truncated_but_keeps_its_result, log_setup,
			log_teardown),
		cmocka_unit_test(an_unknown_kind_of_log_and_an_invalid_file_are_refused),
		cmocka_unit_test(a_log_that_cannot_be_written_ends_with_one_line),
		cmocka_unit_test(without_npu_log_no_transport_is_wrapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
