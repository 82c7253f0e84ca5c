// SPDX-License-Identifier: MIT
/*
 * NPU_TRACE: what a process writes about its calls, jobs and memory. libnpu reads the environment
 * only once, so each test is a process of its own, whose file is read after it has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu_json.h"
#include "cpus.h"
#include "npu_fixture.h"

#define MAX_EVENTS 20000

static char path[256];
static struct json_object *events[MAX_EVENTS];
static size_t nr_events;

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static const char *arg(struct json_object *o, const char *key)
{
	struct json_object *args;

	return json_object_object_get_ex(o, "args", &args) ? text(args, key) : "";
}

static double number(struct json_object *o, const char *key)
{
	return strtod(text(o, key), NULL);
}

/* Runs @body in a process with NPU_TRACE. Returns its status. */
static int run_traced(void (*body)(void))
{
	pid_t child = fork();
	int status;

	if (!child) {
		setenv("NPU_TRACE", path, 1);
		body();
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* The same, and reads its events into events[]. */
static int traced(void (*body)(void))
{
	char *line = NULL;
	size_t room = 0;
	int status = run_traced(body);
	FILE *f = fopen(path, "r");

	if (!f)
		return status;
	for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
		if (!strcmp(line, "[\n"))
			continue;
		assert_string_equal(line + n - 2, ",\n");
		line[n - 2] = 0;
		assert_true(nr_events < MAX_EVENTS);
		events[nr_events] = json_tokener_parse(line);
		if (!events[nr_events])
			fail_msg("no JSON: %s", line);
		nr_events++;
	}
	fclose(f);
	free(line);
	return status;
}

/* Number of events with that type and name ("": any); the last one in *@found. */
static unsigned int count(const char *ph, const char *name, struct json_object **found)
{
	unsigned int n = 0;

	for (size_t i = 0; i < nr_events; i++) {
		if (strcmp(text(events[i], "ph"), ph) ||
		    (*name && strcmp(text(events[i], "name"), name)))
			continue;
		n++;
		if (found)
			*found = events[i];
	}
	return n;
}

static int setup(void **state)
{
	close(fixture_file(path, sizeof(path)));
	return 0;
}

static int teardown(void **state)
{
	for (size_t i = 0; i < nr_events; i++)
		json_object_put(events[i]);
	nr_events = 0;
	unlink(path);
	return 0;
}

/* ---- events ---- */

/* With one worker there is a CPU to poll on, if there are two. */
static void two_jobs_and_a_refused_one(void)
{
	const struct npu_device_options one_worker = { .threads = 1 };
	struct npu_job *sleep, *missing;
	struct npu_buffer *buf;
	struct fixture *f;
	uint64_t seqno;
	void *state;

	fixture_open(&state, &one_worker);
	f = state;
	sleep = fixture_sleep(f->ctx, 2 * MS);
	missing = fixture_increment(f->ctx, 16, 0);
	npu_ok(npu_buffer_create(f->ctx, 10000, 0, &buf));
	npu_ok(npu_queue_submit(f->queue, &sleep, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_ok(npu_queue_submit(f->queue, &sleep, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_FAST));
	npu_fails(npu_queue_submit(f->queue, &missing, 1, NULL, &seqno), -EINVAL, "not bound");
	npu_buffer_free(buf);
	npu_job_free(sleep);
	npu_job_free(missing);
	fixture_teardown(&state);
}

static void calls_jobs_and_memory_are_traced(void **state)
{
	struct json_object *e, *begin, *end;

	assert_int_equal(traced(two_jobs_and_a_refused_one), 0);
	assert_int_equal(count("M", "process_name", &e), 1);
	assert_string_equal(arg(e, "name"), "test_npu_trace");
	assert_int_equal(count("M", "thread_name", NULL), 1);
	assert_int_equal(count("X", "npu_device_open", NULL), 1);
	assert_int_equal(count("X", "npu_queue_submit", &e), 3);
	assert_string_equal(arg(e, "ret"), "-22");
	assert_non_null(strstr(arg(e, "error"), "'x' is not bound"));
	assert_int_equal(count("X", "SUBMIT", &e), 2);
	assert_string_equal(arg(e, "ret"), "0");
	assert_non_null(strstr(arg(e, "fields"), "seqno=2"));
	assert_int_equal(count("b", "queue 1: sleep", &begin), 2);
	assert_string_equal(arg(begin, "seqno"), "2");
	assert_string_equal(arg(begin, "program"), "sleep");
	assert_string_equal(arg(begin, "device"), "1");
	assert_int_equal(count("e", "queue 1: sleep", &end), 2);
	assert_string_equal(text(begin, "id"), text(end, "id"));
	assert_string_equal(arg(end, "status"), "0");
	assert_string_equal(arg(end, "waited"), "true");
	assert_true(number(end, "ts") - number(begin, "ts") >= 2000);
	assert_true(count("C", "buffer memory", &e) > 0);
	assert_string_equal(arg(e, "bytes"), "0");
	assert_int_equal(count("C", "jobs in flight, context 1, queue 1", &e), 4);
	assert_string_equal(arg(e, "jobs"), "0");
}

/*
 * The second job's time is known from the first: most of it is slept, and the rest polled. If the
 * host stalled in the first, the second's wait sleeps in the driver: both again then.
 */
static void sleeping_and_polling_are_told_apart(void **state)
{
	struct json_object *poll, *wait;

	if (host_threads() == 1)
		skip();
	for (unsigned int i = 0; i < 20; i++) {
		assert_int_equal(traced(two_jobs_and_a_refused_one), 0);
		if (count("X", "sleep", NULL) + count("X", "poll", &poll) >= 1)
			break;
		teardown(state);
		setup(state);
	}
	assert_int_equal(count("X", "npu_queue_wait", &wait), 2);
	assert_string_equal(arg(wait, "mode"), "fast");
	assert_true(count("X", "sleep", NULL) + count("X", "poll", &poll) >= 1);
	for (size_t i = 0; i < nr_events; i++) {
		if (strcmp(text(events[i], "cat"), "wait"))
			continue;
		assert_true(number(events[i], "ts") >= number(wait, "ts"));
		assert_true(number(events[i], "ts") + number(events[i], "dur") <=
			    number(wait, "ts") + number(wait, "dur") + 0.001);
	}
}

static void jobs_that_nobody_waits_for(void)
{
	struct npu_fence *fence;
	struct npu_job *jobs[3];
	struct fixture *f;
	void *state;

	fixture_setup(&state);
	f = state;
	npu_ok(npu_fence_create(f->dev, false, &fence));
	for (unsigned int i = 0; i < 3; i++)
		jobs[i] = fixture_sleep(f->ctx, MS);
	npu_ok(npu_queue_submit(f->queue, jobs, 2,
				&(struct npu_submit_syncs){
					.signal = &(struct npu_sync){ fence, 0 }, .nr_signal = 1 },
				NULL));
	npu_ok(npu_fence_wait(fence, 0, NPU_FOREVER));
	npu_ok(npu_queue_submit(f->queue, &jobs[2], 1, NULL, NULL));
	while (npu_queue_completed(f->queue) < 3)
		usleep(1000);
	npu_fence_free(fence);
	for (unsigned int i = 0; i < 3; i++)
		npu_job_free(jobs[i]);
	fixture_teardown(&state);
}

static void the_end_of_a_job_is_traced_without_a_wait_for_it(void **state)
{
	struct json_object *e, *wait;

	assert_int_equal(traced(jobs_that_nobody_waits_for), 0);
	assert_int_equal(count("X", "npu_queue_wait", NULL), 0);
	assert_int_equal(count("b", "", NULL), 3);
	assert_int_equal(count("e", "", &e), 3);
	assert_string_equal(arg(e, "waited"), "false");
	assert_string_equal(arg(e, "status"), "0");
	assert_int_equal(count("X", "npu_fence_wait", &wait), 1);
	assert_true(number(e, "ts") > number(wait, "ts"));
}

static void a_job_that_takes_too_long(void)
{
	struct npu_job *job;
	struct fixture *f;
	uint64_t seqno;
	void *state;

	fixture_setup(&state);
	f = state;
	job = fixture_sleep(f->ctx, 2000 * MS);
	npu_job_timeout(job, 50);
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -ETIME, "timeout");
	npu_job_free(job);
	fixture_teardown(&state);
}

static void a_failed_job_ends_with_its_status(void **state)
{
	struct json_object *e;

	assert_int_equal(traced(a_job_that_takes_too_long), 0);
	assert_int_equal(count("e", "", &e), 1);
	assert_int_equal(strtol(arg(e, "status"), NULL, 10), -ETIMEDOUT);
	assert_int_equal(count("X", "npu_queue_wait", &e), 1);
	assert_int_equal(strtol(arg(e, "ret"), NULL, 10), -ETIME);
}

/* ---- threads and processes ---- */

static void *run_jobs(void *arg)
{
	struct fixture *f = arg;
	struct npu_queue *queue;
	struct npu_job *job;
	uint64_t seqno;

	npu_ok(npu_queue_create(f->ctx, NULL, &queue));
	job = fixture_sleep(f->ctx, 0);
	for (unsigned int i = 0; i < 200; i++) {
		npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_FAST));
	}
	npu_job_free(job);
	npu_queue_free(queue);
	return NULL;
}

static void four_threads(void)
{
	pthread_t threads[4];
	void *state;

	fixture_setup(&state);
	for (unsigned int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_jobs, state);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	fixture_teardown(&state);
}

static void threads_have_tracks_of_their_own(void **state)
{
	assert_int_equal(traced(four_threads), 0);
	assert_int_equal(count("M", "thread_name", NULL), 5);
	assert_int_equal(count("b", "", NULL), 800);
	assert_int_equal(count("e", "", NULL), 800);
	assert_int_equal(count("X", "npu_queue_submit", NULL), 800);
}

/* Before the first process opens a device, so that each opens its own. */
static void two_processes(void)
{
	pid_t child = fork();
	int status;

	four_threads();
	if (!child)
		exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void processes_share_a_file(void **state)
{
	assert_int_equal(traced(two_processes), 0);
	assert_int_equal(count("M", "process_name", NULL), 2);
	assert_int_equal(count("b", "", NULL), 1600);
	assert_int_equal(count("e", "", NULL), 1600);
}

/* A child of a process that has traced before, with events in its buffer and jobs in flight. */
static void fork_in_the_middle(void)
{
	struct npu_job *job;
	struct fixture *f;
	uint64_t seqno;
	void *state;
	int status;
	pid_t child;

	fixture_setup(&state);
	f = state;
	job = fixture_sleep(f->ctx, 300 * MS);
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	/*
	 * The device's thread must sleep and hold no lock: a sanitizer's allocator has locks that
	 * do not survive a fork.
	 */
	usleep(100000);
	child = fork();
	if (!child) {
		npu_fails(npu_queue_wait(f->queue, 2, 0, NPU_WAIT_DRIVER), -EINVAL,
			  "not submitted");
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(job);
	fixture_teardown(&state);
}

static void a_child_traces_only_its_own_events(void **state)
{
	struct json_object *e;

	assert_int_equal(traced(fork_in_the_middle), 0);
	assert_int_equal(count("M", "process_name", NULL), 2);
	assert_int_equal(count("X", "npu_queue_submit", NULL), 1);
	assert_int_equal(count("X", "npu_queue_wait", NULL), 2);
	assert_int_equal(count("b", "", NULL), 1);
	assert_int_equal(count("e", "", &e), 1);
	assert_string_equal(arg(e, "status"), "0");
}

/* ---- errors ---- */

static void killed_in_the_middle(void)
{
	struct npu_job *job;
	struct fixture *f;
	uint64_t seqno;
	void *state;

	fixture_setup(&state);
	f = state;
	job = fixture_sleep(f->ctx, 0);
	for (int64_t end = fixture_now_ns() + 600 * MS; fixture_now_ns() < end;) {
		npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
		usleep(10000);
	}
	raise(SIGKILL);
}

static void a_killed_process_leaves_what_it_had_written(void **state)
{
	int status = traced(killed_in_the_middle);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(count("X", "npu_device_open", NULL), 1);
	assert_true(count("e", "", NULL) >= 2);
}

static void file_that_may_grow_no_further(void)
{
	struct npu_job *job;
	struct fixture *f;
	uint64_t seqno;
	void *state;

	if (!freopen("/dev/null", "w", stderr))
		exit(1);
	fixture_setup(&state);
	f = state;
	job = fixture_sleep(f->ctx, 0);
	signal(SIGXFSZ, SIG_DFL);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100000, 100000 });
	for (unsigned int i = 0; i < 1000; i++) {
		npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_FAST));
	}
	npu_job_free(job);
	fixture_teardown(&state);
}

static void a_write_that_fails_ends_the_trace_and_nothing_else(void **state)
{
	struct stat st;

	assert_int_equal(run_traced(file_that_may_grow_no_further), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 2 && st.st_size <= 100000);
}

/* As a daemon does, which then opens files of its own. */
static void descriptors_closed_and_used_again(void)
{
	char other[300];
	void *state;

	if (!freopen("/dev/null", "w", stderr))
		exit(1);
	fixture_setup(&state);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	snprintf(other, sizeof(other), "%s.other", path);
	for (int i = 0; i < 16; i++)
		if (open(other, O_RDWR | O_CREAT | O_APPEND, 0600) < 0)
			exit(2);
	fixture_teardown(&state);
}

static void a_descriptor_reused_for_another_file_is_not_written(void **state)
{
	char other[300];
	struct stat st;

	snprintf(other, sizeof(other), "%s.other", path);
	assert_int_equal(traced(descriptors_closed_and_used_again), 0);
	assert_int_equal(stat(other, &st), 0);
	unlink(other);
	assert_int_equal(st.st_size, 0);
}

static void no_trace_in_a_pipe(void)
{
	void *state;

	alarm(60);
	if (!freopen("/dev/null", "w", stderr))
		exit(1);
	fixture_setup(&state);
	fixture_teardown(&state);
}

/* Opening it for writing would wait for a reader, and a write after its reader's end be fatal. */
static void a_pipe_is_refused_and_the_program_goes_on(void **state)
{
	int reader;
	char c;

	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(run_traced(no_trace_in_a_pipe), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	assert_int_equal(run_traced(no_trace_in_a_pipe), 0);
	assert_int_equal(read(reader, &c, 1), 0);
	close(reader);
}

static void no_stream_is_open(void)
{
	char log[300];
	void *state;

	snprintf(log, sizeof(log), "%s.log", path);
	setenv("NPU_LOG", "ioctl", 1);
	setenv("NPU_LOG_FILE", log, 1);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	fixture_setup(&state);
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			_exit(10 + fd);
	fixture_teardown(&state);
	_exit(0);
}

/* What the program prints would go into the device's memory, the trace or the log. */
static void no_file_of_the_library_becomes_a_standard_stream(void **state)
{
	char log[300];
	struct stat st;

	assert_int_equal(run_traced(no_stream_is_open), 0);
	snprintf(log, sizeof(log), "%s.log", path);
	assert_int_equal(stat(log, &st), 0);
	unlink(log);
	assert_true(st.st_size > 0);
}

static void text_becomes_json(void **state)
{
	static const char *const pairs[][2] = {
		{ "plain", "plain" },
		{ "a\"b\\c", "a\\\"b\\\\c" },
		{ "tab\tnew\nline\x01", "tab\\u0009new\\u000aline\\u0001" },
		{ "gr\xc3\xb6\xc3\x9f"
		  "e \xe6\xa8\xa1 \xf0\x9f\x98\x80",
		  "gr\xc3\xb6\xc3\x9f"
		  "e \xe6\xa8\xa1 \xf0\x9f\x98\x80" },
		{ "cut \xe6\xa8", "cut ??" },
		{ "\xff\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80", "??? ??? ????" },
	};
	char out[NPU_JSON_TEXT_SIZE(64)];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_int_equal(npu_json_text(out, sizeof(out), pairs[i][0]), strlen(pairs[i][1]));
		assert_string_equal(out, pairs[i][1]);
	}
	npu_json_text(out, 4, "ab\"c");
	assert_string_equal(out, "ab");
	npu_json_text(out, 4, "ab\xe6\xa8\xa1");
	assert_string_equal(out, "ab");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_jobs_and_memory_are_traced, setup, teardown),
		cmocka_unit_test_setup_teardown(sleeping_and_polling_are_told_apart, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_end_of_a_job_is_traced_without_a_wait_for_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_job_ends_with_its_status, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_have_tracks_of_their_own, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_share_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_traces_only_its_own_events, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_killed_process_leaves_what_it_had_written, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_write_that_fails_ends_the_trace_and_nothing_else,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_descriptor_reused_for_another_file_is_not_written,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_pipe_is_refused_and_the_program_goes_on, setup,
						teardown),
		cmocka_unit_test_setup_teardown(no_file_of_the_library_becomes_a_standard_stream,
						setup, teardown),
		cmocka_unit_test(text_becomes_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
