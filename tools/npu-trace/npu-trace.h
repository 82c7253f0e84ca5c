/* SPDX-License-Identifier: MIT */
/*
 * npu-trace: a timeline of a command's use of libnpu, with the driver's events if possible.
 *
 *	run the command (run.c), in which libnpu writes events (NPU_TRACE, libnpu/trace/trace.h);
 *	meanwhile read the driver's tracepoints (tracefs.c, kernel.c); then put both into one
 *	document (doc.c, and tie.c for the driver's side)
 *
 * All times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef NPU_TRACE_TOOL_H
#define NPU_TRACE_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- the driver's tracepoints (kernel.c) ---- */

enum kernel_kind {
	KERNEL_BIND,
	KERNEL_SUBMIT,
	KERNEL_START,
	KERNEL_COMPLETE,
	KERNEL_FAULT,
	KERNEL_RESET
};

/* An event of kmod/vnpu_trace.h. Fields that its kind does not have are 0. */
struct kernel_event {
	enum kernel_kind kind;
	int64_t time_ns; /* a multiple of 1000: tracefs prints microseconds */
	uint32_t dev, ctx, queue, hwq;
	int32_t pid; /* of the process that made the context */
	uint64_t client, seqno;
	char comm[17];
	int32_t error;
	uint64_t queued_ns, duration_ns, busy_ns;
	char fields[256]; /* the fields after the common ones, as the kernel prints them */
};

enum kernel_line {
	KERNEL_LINE_EVENT,
	KERNEL_LINE_NONE, /* a comment or nothing */
	KERNEL_LINE_LOST, /* the buffer of a CPU overflowed */
	KERNEL_LINE_BAD,
};

/* Parses a line of tracefs's trace or trace_pipe, without newline. *@lost: events lost according to
 * a KERNEL_LINE_LOST. */
enum kernel_line kernel_parse(const char *line, struct kernel_event *event, uint64_t *lost);

struct kernel_trace {
	struct kernel_event *events; /* in the order of arrival */
	size_t nr, room;
	uint64_t lost; /* by the ring buffer */
	uint64_t bad; /* lines that could not be parsed */
	char line[1024];
	size_t line_len;
};

/* Adds text of trace_pipe, in pieces of any size. 0, or 1 after a message. */
int kernel_add_text(struct kernel_trace *k, const char *text, size_t len);
void kernel_free(struct kernel_trace *k);

/* ---- recording them (tracefs.c) ---- */

struct tracefs {
	char dir[128]; /* of the instance; "" while there is none */
	int pipe; /* trace_pipe, or -1 */
};

/* Creates an instance that records events/vnpu. 0, or a negative errno with a line in @why
 * that says what to do. */
int tracefs_begin(struct tracefs *t, char *why, size_t why_size);
/* Reads the events recorded since the last call. 0, or 1 after a message. */
int tracefs_read(struct tracefs *t, struct kernel_trace *k);
/* Stops recording, reads the rest and removes the instance. 0, or 1 after a message. */
int tracefs_end(struct tracefs *t, struct kernel_trace *k);

/* ---- the command (run.c) ---- */

/*
 * Runs @argv with NPU_TRACE=@path in its environment and forwards signals to it, except a
 * terminal's, which the command gets itself. Calls @tick every @tick_ms milliseconds (0: never).
 * *@status: that of waitpid(). Returns 0, or 126 or 127 like env(1) after a message.
 */
int run_command(char **argv, const char *path, int tick_ms, void (*tick)(void *ud), void *ud,
		int *status);

/* ---- the document (doc.c) ---- */

/* A job of libnpu, from its event b to its event e. */
struct doc_job {
	int32_t pid, tid, end_tid;
	uint32_t dev, ctx, queue;
	uint64_t seqno, id;
	int64_t begin_ns, end_ns; /* end_ns 0: no end was seen */
	bool waited;
	const char *name;
	int64_t run_ns; /* time on the device according to the driver; -1: unknown */
};

/* A call of npu.h. */
struct doc_call {
	int32_t tid;
	int64_t start_ns, end_ns;
};

struct doc_event {
	int64_t time_ns, duration_ns;
	size_t order;
	char *text; /* JSON */
};

struct doc {
	struct doc_event *events;
	size_t nr_events, room_events;
	struct doc_job *jobs; /* by pid, ctx, queue, seqno and begin_ns after doc_jobs_sort() */
	size_t nr_jobs, room_jobs;
	struct doc_call *calls;
	size_t nr_calls, room_calls;
	uint64_t nr_processes;
	uint64_t bad; /* lines that are no events */
	uint64_t nr_tied; /* libnpu's jobs with events of the driver */
	uint64_t nr_kernel_jobs;
	uint64_t nr_flows;
};

/* Reads the lines that libnpu wrote. 0, or 1 after a message. */
int doc_read(struct doc *doc, const char *path);
/* Adds an event as JSON; @fmt follows pid, tid and ts: ",\"args\":{...}". Texts must be escaped. */
int doc_add(struct doc *doc, char ph, int pid, int tid, int64_t time_ns, int64_t duration_ns,
	    const char *name, const char *fmt, ...) __attribute__((format(printf, 8, 9)));
/* The job's latest submission before @before_ns, or NULL. */
struct doc_job *doc_find_job(struct doc *doc, int32_t pid, uint32_t ctx, uint32_t queue,
			     uint64_t seqno, int64_t before_ns);
/* Adds ends for jobs without one, which were in flight when their process ended. */
int doc_finish(struct doc *doc);
/* @other: members of otherData. 0, or a negative errno. */
int doc_write(struct doc *doc, FILE *f, const char *other);
/* Prints jobs and percentiles of their times per queue. 0, or 1 after a message. */
int doc_print_stats(const struct doc *doc, FILE *f);
void doc_free(struct doc *doc);

/* Makes room for one more element of @size bytes. NULL after a message. */
void *doc_grow(void *array, size_t nr, size_t *room, size_t size);

/* ---- the driver's side of it (tie.c) ---- */

/* Adds the driver's events, on separate tracks, with flows from and to libnpu's calls. 0,
 * or 1 after a message. */
int doc_add_kernel(struct doc *doc, struct kernel_trace *k);

#endif /* NPU_TRACE_TOOL_H */
