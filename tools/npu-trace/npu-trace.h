/* SPDX-License-Identifier: MIT */
/*
 * npu-trace: a timeline of a command's use of libnpu, with the driver's
 * events where they can be had.
 *
 *	run the command (run.c), which makes libnpu write events (NPU_TRACE, libnpu/trace/trace.h);
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

/* An event of kmod/vnpu_trace.h. What a kind does not have is 0. */
struct kernel_event {
	enum kernel_kind kind;
	int64_t time_ns; /* a multiple of 1000: tracefs prints microseconds */
	uint32_t dev, ctx, queue, hwq;
	int32_t pid; /* of the process that made the context */
	uint64_t client, seqno;
	char comm[17];
	int32_t error;
	uint64_t queued_ns, duration_ns, busy_ns;
	char fields[256]; /* what follows the common fields, as the kernel prints it */
};

enum kernel_line {
	KERNEL_LINE_EVENT,
	KERNEL_LINE_NONE, /* a comment or nothing */
	KERNEL_LINE_LOST, /* the buffer of a CPU ran over */
	KERNEL_LINE_BAD,
};

/*
 * A line of tracefs' trace or trace_pipe, without its newline. @lost: events that a
 * KERNEL_LINE_LOST tells of.
 */
enum kernel_line kernel_parse(const char *line, struct kernel_event *event, uint64_t *lost);

struct kernel_trace {
	struct kernel_event *events; /* as they came */
	size_t nr, room;
	uint64_t lost; /* by the ring buffer */
	uint64_t bad; /* lines that could not be read */
	char line[1024];
	size_t line_len;
};

/* Text as read from trace_pipe, in pieces of any size. 0, or 1 after a message. */
int kernel_add_text(struct kernel_trace *k, const char *text, size_t len);
void kernel_free(struct kernel_trace *k);

/* ---- recording them (tracefs.c) ---- */

struct tracefs {
	char dir[128]; /* of the instance; "" while there is none */
	int pipe; /* trace_pipe, or -1 */
};

/*
 * An instance of our own that records events/vnpu. 0, or a negative errno with a line in
 * @why that says what to do.
 */
int tracefs_begin(struct tracefs *t, char *why, size_t why_size);
/* Takes what has been recorded since the last time. 0, or 1 after a message. */
int tracefs_read(struct tracefs *t, struct kernel_trace *k);
/* Stops, reads the rest and takes the instance away. 0, or 1 after a message. */
int tracefs_end(struct tracefs *t, struct kernel_trace *k);

/* ---- the command (run.c) ---- */

/*
 * Runs @argv with NPU_TRACE=@path in its environment. Signals that are sent to this process
 * go on to the command; those that a terminal sends reach it by themselves. @tick is called
 * every @tick_ms milliseconds (0: never). *@status: as of waitpid(). 0, or 126 or 127 as
 * env(1) has them, after a message.
 */
int run_command(char **argv, const char *path, int tick_ms, void (*tick)(void *ud), void *ud,
		int *status);

/* ---- the document (doc.c) ---- */

/* A job of libnpu's, from its b to its e. */
struct doc_job {
	int32_t pid, tid, end_tid;
	uint32_t dev, ctx, queue;
	uint64_t seqno, id;
	int64_t begin_ns, end_ns; /* end_ns 0: never seen */
	bool waited;
	const char *name;
	int64_t run_ns; /* on the device, as the driver saw it; -1: it did not */
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
	uint64_t nr_tied; /* jobs that the driver saw too */
	uint64_t nr_kernel_jobs;
	uint64_t nr_flows;
};

/* The lines that libnpu wrote. 0, or 1 after a message. */
int doc_read(struct doc *doc, const char *path);
/*
 * An event as JSON; @fmt begins behind pid, tid and ts: ",\"args\":{...}". Texts have been escaped.
 */
int doc_add(struct doc *doc, char ph, int pid, int tid, int64_t time_ns, int64_t duration_ns,
	    const char *name, const char *fmt, ...) __attribute__((format(printf, 8, 9)));
/* The job's latest submission before @before_ns, or NULL. */
struct doc_job *doc_find_job(struct doc *doc, int32_t pid, uint32_t ctx, uint32_t queue,
			     uint64_t seqno, int64_t before_ns);
/* Ends what has no end: jobs that were in flight when their process ended. */
int doc_finish(struct doc *doc);
/* @other: members of otherData. 0, or a negative errno. */
int doc_write(struct doc *doc, FILE *f, const char *other);
/* Per queue: jobs, and percentiles of their times. 0, or 1 after a message. */
int doc_print_stats(const struct doc *doc, FILE *f);
void doc_free(struct doc *doc);

/* Room for one more of @size bytes, or NULL after a message. */
void *doc_grow(void *array, size_t nr, size_t *room, size_t size);

/* ---- the driver's side of it (tie.c) ---- */

/*
 * Adds the driver's events, on tracks of their own, with arrows from and to libnpu's calls.
 * 0, or 1 after a message.
 */
int doc_add_kernel(struct doc *doc, struct kernel_trace *k);

#endif /* NPU_TRACE_TOOL_H */
