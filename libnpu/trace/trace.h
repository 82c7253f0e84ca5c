/* SPDX-License-Identifier: MIT */
/*
 * NPU_TRACE=FILE: records a program's calls to the device and their times, as events of Chrome's
 * trace format, one per line.
 *
 * The file is a JSON array without its end, as the format allows: Perfetto's UI and
 * chrome://tracing open it while the program still runs, and npu-trace makes a complete document of
 * it. All times are CLOCK_MONOTONIC, in microseconds with three decimals.
 *
 *	X  cat "npu"	a call of npu.h by a thread: arguments, ret, and
 *			npu_error() as error if it failed
 *	X  cat "wait"	inside npu_queue_wait(): "sleep", on the clock, and
 *			"poll", on the status page
 *	X  cat "call"	a device call, decoded as NPU_LOG does, and its ret
 *	b, n, e  cat "job"	a job, from the call that submits it until the library sees its end;
 *			all with the same id. b has device, ctx, queue, seqno and program. n is when
 *			the library saw that the device works on it. e has status (0, a negative
 *			errno, or null if unknown) and waited: true if a wait for it saw the end.
 *	C		"jobs in flight, ..." of each queue, and "buffer memory" in bytes
 *	M		process_name, thread_name
 *
 * The library sees a job's end only when it reads the status page or returns from WAIT; a job that
 * nobody waits for ends at the library's next access to its queue. device counts the openings of
 * devices in the process, from 1; ctx, queue and seqno are the driver's.
 *
 * Threads share a buffer under a lock. It is written when it is full, a quarter of a second after
 * the last write, and at exit(); always whole lines with one write() to a file opened with
 * O_APPEND, so that processes can share the file. A process that is killed loses what was not
 * written yet. After fork(), parent and child trace independently.
 *
 * If the file cannot be opened or written, the trace ends with one line on stderr.
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

/* Set only by npu_trace_init(); cleared when a write fails. */
extern atomic_bool npu_trace_on;

/* The first call reads NPU_TRACE. */
void npu_trace_init(void);
/* Returns a number for a newly opened device. */
uint32_t npu_trace_device(void);
/* Wraps @t in a transport that traces its calls; *@out is @t if tracing is off. 0 or -errno. */
int npu_trace_wrap(struct transport *t, struct transport **out);

/* Start time of a slice; 0 if tracing is off, and then no slice needs an end. */
static inline int64_t npu_trace_begin(void)
{
	return __builtin_expect(atomic_load_explicit(&npu_trace_on, memory_order_relaxed), 0)
		       ? npu_now_ns()
		       : 0;
}

/* Records a call of npu.h from @start_ns (of npu_trace_begin(), not 0) until now, with result @ret.
 * @fmt: its arguments as members of a JSON object; the caller escapes texts in them. */
void npu_trace_call(int64_t start_ns, const char *name, int ret, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Records a part of a wait: "sleep" or "poll". */
void npu_trace_wait_part(int64_t start_ns, const char *name);
/* Records a device call with its arguments as text, "NAME {...}". */
void npu_trace_device_call(int64_t start_ns, int64_t end_ns, const char *text, int ret);

/* NULL if tracing is off or memory is short; the queue's jobs are then not traced. @status must
 * stay readable until npu_trace_queue_free(), which ends the jobs in flight. */
struct npu_trace_queue *npu_trace_queue_create(const struct npu_device *dev, uint32_t ctx,
					       uint32_t queue,
					       const struct drm_vnpu_queue_status *status);
void npu_trace_queue_free(struct npu_trace_queue *tq);
/* A job was submitted by a call that began at @start_ns. */
void npu_trace_job(struct npu_trace_queue *tq, uint64_t seqno, const char *program,
		   int64_t start_ns);
/* A wait saw that the job and all before it are done; @status is that of the job. */
void npu_trace_job_done(struct npu_trace_queue *tq, uint64_t seqno, int status);
/* Read the queue's status page: the job that the device works on; ended jobs, of all queues. */
void npu_trace_look_started(struct npu_trace_queue *tq);
void npu_trace_look_ended(struct npu_trace_queue *tq);
void npu_trace_look_all(void);

/* Buffer memory grew or shrank. */
void npu_trace_memory(int64_t bytes);

#endif /* NPU_TRACE_H */
