// SPDX-License-Identifier: MIT
/*
 * npu-trace: lines of tracefs as kmod/vnpu_trace.h prints them, other lines in that file, and a
 * job's kernel events beside libnpu's.
 *
 * The sources are included in this test.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tools/npu-trace/doc.c"
#include "tools/npu-trace/kernel.c"
#include "tools/npu-trace/tie.c"

int tool_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return 1;
}

/* ---- lines ---- */

#define HEAD "        llm-cli-1234    [001] .....   12.345678: "
#define JOB "dev=0 client=5 pid=1234 comm=llm-cli ctx=1 queue=2 hwq=3 seqno=4 "

static struct kernel_event parsed(const char *line)
{
	struct kernel_event e;
	uint64_t lost;

	if (kernel_parse(line, &e, &lost) != KERNEL_LINE_EVENT)
		fail_msg("not understood: %s", line);
	return e;
}

static void job_events_have_their_fields(void **state)
{
	struct kernel_event e = parsed(
		HEAD
		"vnpu_job_submit: " JOB
		"cmd_va=0x5000 cmd_bytes=560 table_bytes=216 priority=normal timeout_ms=10000");

	assert_int_equal(e.kind, KERNEL_SUBMIT);
	assert_int_equal(e.time_ns, 12345678000);
	assert_int_equal(e.dev, 0);
	assert_int_equal(e.client, 5);
	assert_int_equal(e.pid, 1234);
	assert_string_equal(e.comm, "llm-cli");
	assert_int_equal(e.ctx, 1);
	assert_int_equal(e.queue, 2);
	assert_int_equal(e.hwq, 3);
	assert_int_equal(e.seqno, 4);
	e = parsed("          <idle>-0       [000] d.h1.   12.345700: vnpu_job_start: " JOB
		   "queued_ns=22000");
	assert_int_equal(e.kind, KERNEL_START);
	assert_int_equal(e.queued_ns, 22000);
	e = parsed("         vnpu-fw-99      [001] .....   12.346: vnpu_job_complete: " JOB
		   "error=-110 duration_ns=1000 busy_ns=900 by=firmware");
	assert_int_equal(e.kind, KERNEL_COMPLETE);
	assert_int_equal(e.time_ns, 12346000000);
	assert_int_equal(e.error, -110);
	assert_int_equal(e.duration_ns, 1000);
	assert_int_equal(e.busy_ns, 900);
}

static void other_events_keep_their_fields_as_text(void **state)
{
	struct kernel_event e = parsed(HEAD "vnpu_fault: " JOB "va=0xdead000 access=write");

	assert_int_equal(e.kind, KERNEL_FAULT);
	assert_string_equal(e.fields, "va=0xdead000 access=write");
	e = parsed(HEAD "vnpu_bind: dev=1 client=6 pid=77 comm=x ctx=2 op=map va=0x1000 bytes=4096 "
			"handle=1 bo_offset=0 flags=");
	assert_int_equal(e.kind, KERNEL_BIND);
	assert_int_equal(e.dev, 1);
	assert_int_equal(e.ctx, 2);
	assert_int_equal(e.queue, 0);
	assert_string_equal(e.fields, "op=map va=0x1000 bytes=4096 handle=1 bo_offset=0 flags=");
	e = parsed(HEAD "vnpu_reset: dev=0 cause=hang epoch=2 nr_resets=1 state=lost fw_pid=99");
	assert_int_equal(e.kind, KERNEL_RESET);
	assert_string_equal(e.fields, "cause=hang epoch=2 nr_resets=1 state=lost fw_pid=99");
}

static void names_of_tasks_may_be_anything(void **state)
{
	struct kernel_event e = parsed(
		"1.5: vnpu_bind: -1234    [001] .....   12.345678: vnpu_job_start: dev=0 client=5 "
		"pid=1234 comm=a ctx=9 queue= ctx=1 queue=2 hwq=3 seqno=4 queued_ns=1");

	assert_int_equal(e.time_ns, 12345678000);
	assert_string_equal(e.comm, "a ctx=9 queue=");
	assert_int_equal(e.ctx, 1);
	e = parsed(HEAD "vnpu_job_start: dev=0 client=5 pid=1234 comm= ctx=1 queue=2 hwq=3 seqno=4 "
			"queued_ns=1");
	assert_string_equal(e.comm, "");
}

static void lines_that_are_not_events_are_recognised(void **state)
{
	static const char *const nothing[] = { "", "   ", "# tracer: nop",
					       "#           TASK-PID     CPU#" };
	static const char *const bad[] = {
		"junk",
		HEAD "vnpu_job_start: ",
		HEAD "vnpu_job_start: dev=0",
		HEAD "vnpu_job_start: " JOB,
		HEAD "vnpu_job_start: " JOB "queued_ns=",
		HEAD "vnpu_job_start: " JOB "queued_ns=1x",
		HEAD "vnpu_job_start: " JOB "queued_ns=99999999999999999999999",
		HEAD
		"vnpu_job_start: dev=4294967296 client=5 pid=1 comm=a ctx=1 queue=2 hwq=3 seqno=4 "
		"queued_ns=1",
		HEAD "vnpu_job_start: dev=-1 client=5 pid=1 comm=a ctx=1 queue=2 hwq=3 seqno=4 "
		     "queued_ns=1",
		HEAD
		"vnpu_job_start: dev=0 client=5 pid=1 comm=a-name-that-is-too-long ctx=1 queue=2 "
		"hwq=3 seqno=4 queued_ns=1",
		HEAD "vnpu_job_start: dev=0 client=5 pid=1 ctx=1 queue=2 hwq=3 seqno=4 queued_ns=1",
		HEAD "vnpu_job_finish: " JOB "queued_ns=1",
		HEAD "sched_switch: prev_comm=vnpu-fw",
		" a-1 [000] ..... vnpu_job_start: " JOB "queued_ns=1",
		" a-1 [000] ..... 12: vnpu_job_start: " JOB "queued_ns=1",
		" a-1 [000] ..... .5: vnpu_job_start: " JOB "queued_ns=1",
		" a-1 [000] ..... 99999999999.5: vnpu_job_start: " JOB "queued_ns=1",
		"CPU:0 [LOST many EVENTS]",
	};
	struct kernel_event e;
	uint64_t lost = 0;

	for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
		assert_int_equal(kernel_parse(nothing[i], &e, &lost), KERNEL_LINE_NONE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (kernel_parse(bad[i], &e, &lost) != KERNEL_LINE_BAD)
			fail_msg("understood: %s", bad[i]);
	assert_int_equal(kernel_parse("CPU:1 [LOST 1234 EVENTS]", &e, &lost), KERNEL_LINE_LOST);
	assert_int_equal(lost, 1234);
}

static void text_may_arrive_in_parts_of_any_size(void **state)
{
	static const char text[] =
		HEAD "vnpu_job_start: " JOB "queued_ns=1\nCPU:0 [LOST 3 EVENTS]\njunk\n\n" HEAD
		     "vnpu_job_start: " JOB "queued_ns=2\n" HEAD "vnpu_job_start: " JOB "queued_";

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct kernel_trace k = { 0 };

		for (size_t at = 0; at < sizeof(text) - 1; at += piece)
			assert_int_equal(kernel_add_text(&k, text + at,
							 sizeof(text) - 1 - at < piece
								 ? sizeof(text) - 1 - at
								 : piece),
					 0);
		assert_int_equal(k.nr, 2);
		assert_int_equal(k.events[1].queued_ns, 2);
		assert_int_equal(k.lost, 3);
		assert_int_equal(k.bad, 1);
		kernel_free(&k);
	}
}

static void endless_lines_and_noise_are_survived(void **state)
{
	struct kernel_trace k = { 0 };
	char noise[5000];

	srand(1);
	for (unsigned int i = 0; i < 200; i++) {
		for (size_t j = 0; j < sizeof(noise); j++)
			noise[j] = (char)(i % 2 ? rand() : "vnpu_job: =0.1\n ["[rand() % 17]);
		assert_int_equal(kernel_add_text(&k, noise, sizeof(noise)), 0);
	}
	assert_int_equal(kernel_add_text(&k, "\n" HEAD "vnpu_job_start: " JOB "queued_ns=1\n",
					 strlen(HEAD JOB) + 29),
			 0);
	assert_int_equal(k.nr, 1);
	assert_true(k.bad > 0);
	kernel_free(&k);
}

/* Every prefix of a line, and every line with one byte changed. */
static void damaged_lines_are_survived(void **state)
{
	static const char line[] =
		HEAD "vnpu_job_complete: " JOB "error=0 duration_ns=1000 busy_ns=900 by=firmware";
	struct kernel_event e;
	char copy[sizeof(line)];
	uint64_t lost;

	for (size_t i = 0; i < sizeof(line) - 1; i++) {
		memcpy(copy, line, sizeof(line));
		copy[i] = 0;
		assert_true(kernel_parse(copy, &e, &lost) != KERNEL_LINE_EVENT ||
			    i > sizeof(line) - 10);
		for (int c = 1; c < 256; c++) {
			copy[i] = (char)c;
			kernel_parse(copy, &e, &lost);
		}
	}
}

/* ---- with libnpu's events ---- */

static char *document(const char *libnpu, const char *kernel, struct doc *doc)
{
	char path[] = "/tmp/npu-test-XXXXXX", *text = NULL;
	int fd = mkstemp(path);
	struct kernel_trace k = { 0 };
	size_t len;
	FILE *f;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, libnpu, strlen(libnpu)), strlen(libnpu));
	close(fd);
	*doc = (struct doc){ 0 };
	assert_int_equal(kernel_add_text(&k, kernel, strlen(kernel)), 0);
	assert_int_equal(k.bad, 0);
	assert_int_equal(doc_read(doc, path), 0);
	unlink(path);
	assert_int_equal(doc_finish(doc), 0);
	assert_int_equal(doc_add_kernel(doc, &k), 0);
	f = open_memstream(&text, &len);
	assert_int_equal(doc_write(doc, f, "\"a\":1"), 0);
	fclose(f);
	kernel_free(&k);
	return text;
}

static struct json_object *find_event(struct json_object *o, const char *ph, const char *cat,
				      unsigned int nth)
{
	struct json_object *list = json_object_object_get(o, "traceEvents");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *e = json_object_array_get_idx(list, i);

		if (!strcmp(get_text(e, "ph"), ph) && !strcmp(get_text(e, "cat"), cat) && !nth--)
			return e;
	}
	return NULL;
}

#define LIB_JOB(ph, ts, id, args)                                 \
	"{\"ph\":\"" ph "\",\"pid\":1234,\"tid\":1235,\"ts\":" ts \
	",\"name\":\"queue 2: p\",\"cat\":\"job\",\"id\":\"" id "\",\"args\":{" args "}},\n"
#define LIB_ARGS(seqno) "\"device\":1,\"ctx\":1,\"queue\":2,\"seqno\":" seqno ",\"program\":\"p\""
#define KERNEL_JOB(time, name, seqno, more)         \
	" x-1 [000] ..... " time ": vnpu_job_" name \
	": dev=0 client=5 pid=1234 comm=llm-cli ctx=1 queue=2 hwq=3 seqno=" seqno " " more "\n"

/* Two jobs in the ring at once: the second runs after the first. */
static void jobs_get_slices_that_follow_one_another(void **state)
{
	struct doc doc;
	char *text = document(
		"[\n" LIB_JOB("b", "1000000.000", "0x1",
			      LIB_ARGS("1")) LIB_JOB("b", "1000010.000", "0x2", LIB_ARGS("2"))
			LIB_JOB("e", "1000400.000", "0x1", "\"status\":0,\"waited\":false")
				LIB_JOB("e", "1000400.500", "0x2", "\"status\":0,\"waited\":true"),
		KERNEL_JOB("1.000001", "submit", "1", "cmd_va=0x1") KERNEL_JOB(
			"1.000002", "start", "1", "queued_ns=1000") KERNEL_JOB("1.000011", "submit",
									       "2", "cmd_va=0x1")
			KERNEL_JOB("1.000012", "start", "2", "queued_ns=1000") KERNEL_JOB(
				"1.000202", "complete", "1",
				"error=0 duration_ns=200000 busy_ns=190000 by=firmware")
				KERNEL_JOB("1.000302", "complete", "2",
					   "error=0 duration_ns=290000 busy_ns=100000 by=firmware"),
		&doc);
	struct json_object *o = json_tokener_parse(text), *first = find_event(o, "X", "vnpu", 0),
			   *second = find_event(o, "X", "vnpu", 1), *f;

	assert_non_null(o);
	assert_int_equal(doc.nr_jobs, 2);
	assert_int_equal(doc.nr_tied, 2);
	assert_int_equal(doc.bad, 0);
	assert_string_equal(get_text(first, "name"), "queue 2: p");
	assert_string_equal(json_object_get_string(json_object_object_get(first, "ts")),
			    "1000002.000");
	assert_string_equal(json_object_get_string(json_object_object_get(first, "dur")),
			    "200.000");
	assert_string_equal(json_object_get_string(json_object_object_get(second, "ts")),
			    "1000202.000");
	assert_string_equal(json_object_get_string(json_object_object_get(second, "dur")),
			    "100.000");
	/* Nobody waited for the first: its arrow ends on the device. The second's goes on. */
	assert_non_null(find_event(o, "s", "vnpu", 1));
	assert_null(find_event(o, "t", "vnpu", 1));
	f = find_event(o, "f", "vnpu", 1);
	assert_non_null(f);
	assert_int_equal(get_int(f, "pid"), 1234);
	json_object_put(o);
	free(text);
	doc_free(&doc);
}

/* A process that opens the device twice has job 1 of queue 2 twice. */
static void an_event_belongs_to_the_latest_earlier_job_of_that_number(void **state)
{
	struct doc doc;
	char *text = document(
		"[\n" LIB_JOB("b", "1000000.000", "0x1", LIB_ARGS("1"))
			LIB_JOB("b", "2000000.000", "0x2", LIB_ARGS("1")),
		KERNEL_JOB("2.000001", "submit", "1", "cmd_va=0x1")
			KERNEL_JOB("2.000002", "start", "1", "queued_ns=1000")
				KERNEL_JOB("2.000102", "complete", "1",
					   "error=0 duration_ns=100000 busy_ns=1 by=firmware"),
		&doc);

	assert_int_equal(doc.nr_tied, 1);
	assert_int_equal(doc.jobs[0].run_ns, -1);
	assert_int_equal(doc.jobs[1].run_ns, 100000);
	free(text);
	doc_free(&doc);
}

/* A queue is freed and another gets its number, as in llm-bench between two tests. */
static void the_number_of_a_freed_queue_may_be_used_again(void **state)
{
	struct doc doc;
	char *text = document(
		"[\n" LIB_JOB("b", "1000000.000", "0x1", LIB_ARGS("1"))
			LIB_JOB("b", "2000000.000", "0x2", LIB_ARGS("1")),
		KERNEL_JOB("1.000001", "submit", "1",
			   "cmd_va=0x1") KERNEL_JOB("1.000002", "start", "1", "queued_ns=1000")
			KERNEL_JOB("1.000052", "complete", "1",
				   "error=0 duration_ns=50000 busy_ns=1 by=firmware")
				KERNEL_JOB("2.000001", "submit", "1", "cmd_va=0x1") KERNEL_JOB(
					"2.000002", "start", "1", "queued_ns=1000")
					KERNEL_JOB(
						"2.000102", "complete", "1",
						"error=0 duration_ns=100000 busy_ns=1 by=firmware"),
		&doc);

	assert_int_equal(doc.nr_tied, 2);
	assert_int_equal(doc.jobs[0].run_ns, 50000);
	assert_int_equal(doc.jobs[1].run_ns, 100000);
	free(text);
	doc_free(&doc);
}

static void missing_and_strange_events_leave_a_valid_document(void **state)
{
	struct doc doc;
	char *text = document(
		"[\n" LIB_JOB("e", "1.000", "0x9", "\"status\":0") LIB_JOB(
			"b", "2.000", "0x1",
			LIB_ARGS("1")) "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":3.000,"
				       "\"name\":\"cut\n"
				       "{\"ph\":\"X\",\"ts\":\"now\"},\n"
				       "[1,2],\nfour\n{\"ph\":\"i\",\"ts\":1},\n"
				       "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":4.5,\"dur\":1,"
				       "\"name\":\"\\u0007 \\\" fine\"},\n",
		KERNEL_JOB(
			"3.000000", "complete", "7",
			"error=0 duration_ns=1000000 busy_ns=1 by=firmware") KERNEL_JOB("3.500000",
											"submit",
											"8",
											"cmd_va=0x"
											"1")
			KERNEL_JOB("3.600000", "start", "9", "queued_ns=1000") KERNEL_JOB(
				"4.000000", "complete", "10",
				"error=-125 duration_ns=0 busy_ns=0 by=kernel") " \x01-1 [000] "
										"..... 4.1: "
										"vnpu_bind: dev=0 "
										"client=5 pid=1 "
										"comm=\"\\\xff "
										"ctx=1 op=map "
										"va=0x1\n"
										" x-1 [000] ..... "
										"4.2: vnpu_reset: "
										"dev=0 cause=hang "
										"epoch=2 "
										"nr_resets=1 "
										"state=lost "
										"fw_pid=9\n",
		&doc);
	struct json_tokener *tok = json_tokener_new();
	struct json_object *o;

	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)strlen(text) + 1);
	if (!o)
		fail_msg("%s in\n%s", json_tokener_error_desc(json_tokener_get_error(tok)), text);
	/* Its job and its call, not events without a beginning, cut off, or of others. */
	assert_int_equal(doc.nr_jobs, 1);
	assert_int_equal(doc.bad, 6);
	assert_int_equal(doc.nr_kernel_jobs, 4);
	assert_non_null(strstr(text, "\"unfinished\":true"));
	assert_string_equal(
		json_object_get_string(json_object_object_get(find_event(o, "X", "vnpu", 0), "ts")),
		"2999000.000");
	json_object_put(o);
	json_tokener_free(tok);
	free(text);
	doc_free(&doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_events_have_their_fields),
		cmocka_unit_test(other_events_keep_their_fields_as_text),
		cmocka_unit_test(names_of_tasks_may_be_anything),
		cmocka_unit_test(lines_that_are_not_events_are_recognised),
		cmocka_unit_test(text_may_arrive_in_parts_of_any_size),
		cmocka_unit_test(endless_lines_and_noise_are_survived),
		cmocka_unit_test(damaged_lines_are_survived),
		cmocka_unit_test(jobs_get_slices_that_follow_one_another),
		cmocka_unit_test(an_event_belongs_to_the_latest_earlier_job_of_that_number),
		cmocka_unit_test(the_number_of_a_freed_queue_may_be_used_again),
		cmocka_unit_test(missing_and_strange_events_leave_a_valid_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
