/* SPDX-License-Identifier: MIT */
/*
 * NPU_TRACE=FILE: what a program does with the device, and when, as events of Chrome's
 * trace format, one per line.
 *
 * The file is a JSON array whose end is missing, as the format allows: Perfetto's UI and
 * chrome://tracing open it while the program still runs, and npu-trace makes a complete document of
 * it. All times are CLOCK_MONOTONIC, in microseconds with three decimals.
 *
 *	X  cat "npu"	a call of npu.h by a thread: arguments, ret, and
 *			npu_error() as error if it failed
 *	X  cat "wait"	inside npu_queue_wait(): "sleep", on the clock, and
 *			"poll", on the status page
 *	X  cat "call"	a device call, decoded as NPU_LOG does, and its ret
 *	b, n, e  cat "job"	a job, from the call that submits it to the moment that the library
 *			sees its end; all with the same id. b has device, ctx, queue, seqno and
 *			program; n is the moment that the library saw that the device works on it; e
 *			has status (0, a negative errno, null if nobody asked for it) and waited:
 *			whether a wait for it saw the end, or the library came by it otherwise.
 *	C		"jobs in flight, ..." of each queue, and "buffer memory" in bytes
 *	M		process_name, thread_name
 *
 * The library knows a job's end only when it looks at the status page or comes back from WAIT; a
 * job that nobody waits for ends when the library next has to do with its queue. device counts the
 * openings of devices in the process, from 1; ctx, queue and seqno are the driver's.
 *
 * Threads share a buffer under a lock. It is written when it is full, when a quarter of a second
 * has passed since the last time, and at exit(); always whole lines with one write() to a file
 * opened with O_APPEND, so that processes can share the file. A process that is killed loses what
 * was not written yet. After fork() parent and child go on, each for itself.
 *
 * A file that cannot be opened or written ends the trace with one line on stderr, and nothing else.
 */
#ifndef NPU_TRACE_H
#define NPU_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct npu_device;
struct npu_trace_queue;
struct transport;
struct drm_vnpu_queue_status;

int64_t npu_now_ns(void);

/* Set by npu_trace_init() and never after; cleared when a write fails. */
extern atomic_bool npu_trace_on;

/* Looks at NPU_TRACE when it is first called. */
void npu_trace_init(void);
/* A number for a device that was opened. */
uint32_t npu_trace_device(void);
/*
 * A transport around @t whose calls are traced; @t itself where nothing is. 0, or
 * -errno, npu_error() set.
 */
int npu_trace_wrap(struct transport *t, struct transport **out);

/* When a slice begins; 0 while nothing is traced, and then there is no slice to end. */
static inline int64_t npu_trace_begin(void)
{
	return __builtin_expect(atomic_load_explicit(&npu_trace_on, memory_order_relaxed), 0)
		       ? npu_now_ns()
		       : 0;
}

/* A call of npu.h that began at @start_ns (of npu_trace_begin(), not 0) and ends now
 * with @ret. @fmt: its arguments, as members of a JSON object; texts in them are
 * escaped by the caller. */
void npu_trace_call(int64_t start_ns, const char *name, int ret, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A part of a wait, "sleep" or "poll". */
void npu_trace_wait_part(int64_t start_ns, const char *name);
/* A device call and its arguments as text, "NAME {...}". */
void npu_trace_device_call(int64_t start_ns, int64_t end_ns, const char *text, int ret);

/* NULL while nothing is traced, or without memory; then the queue's jobs are not traced. @status
 * can be read until npu_trace_queue_free(), which says that those still in flight end. */
struct npu_trace_queue *npu_trace_queue_create(const struct npu_device *dev, uint32_t ctx,
					       uint32_t queue,
					       const struct drm_vnpu_queue_status *status);
void npu_trace_queue_free(struct npu_trace_queue *tq);
/* A job was submitted by a call that began at @start_ns. */
void npu_trace_job(struct npu_trace_queue *tq, uint64_t seqno, const char *program,
		   int64_t start_ns);
/* A wait saw that the job, and all before it, are done; @status is this one's. */
void npu_trace_job_done(struct npu_trace_queue *tq, uint64_t seqno, int status);
/*
 * Look at the queue's status page: which job the device works on, which have
 * ended; that at all queues'.
 */
void npu_trace_look_started(struct npu_trace_queue *tq);
void npu_trace_look_ended(struct npu_trace_queue *tq);
void npu_trace_look_all(void);

/* Buffer memory grew or shrank. */
void npu_trace_memory(int64_t bytes);

#endif /* NPU_TRACE_H */
