/* SPDX-License-Identifier: MIT */
/*
 * libnpu: devices, buffers, programs, queues and fences of a vnpu.
 *
 *	struct npu_device *dev;
 *	if (npu_device_open(NULL, &dev))
 *		errx(1, "%s", npu_error());
 *	npu_context_create(dev, &ctx);
 *	npu_queue_create(ctx, NULL, &queue);
 *	npu_program_load(ctx, image, image_bytes, &prog);	(image: from npu_graph_compile())
 *	npu_job_create(prog, &job);
 *	npu_job_bind(job, "x", x, 0, x_bytes);
 *	npu_queue_submit(queue, &job, 1, NULL, &seqno);
 *	npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
 *
 * Two transports implement the same calls: `drm` is /dev/accel/accelN, `sim` the same device inside
 * the process.
 *
 * Errors: functions return 0 or a negative errno. npu_error() then returns one line for the calling
 * thread that says what failed, where, and what to do. The library prints nothing except the log
 * and one line about a log or a trace that cannot be written.
 *
 * Environment:
 * - NPU_TRANSPORT=drm|sim|auto selects the transport if the program passes NPU_TRANSPORT_AUTO.
 * - NPU_DEVICE=PATH is the device node if the program sets none.
 * - NPU_PROFILE=NAME is the sim's profile if the program sets none.
 * - NPU_LOG=ioctl writes one decoded line per device call to stderr, or to the file NPU_LOG_FILE,
 *   which ends when a line cannot be written.
 * - NPU_TRACE=FILE appends calls, waits, jobs and memory with their times to FILE, as events in
 *   Chrome's trace format (docs/tracing.md; npu-trace(1) sets it for a program). If FILE cannot be
 *   written, or is no regular file, the program continues without a trace.
 *
 * Threads: different threads may use different objects at once; only one thread at a time may use a
 * given job or graph, or submit to a given queue. Meanwhile others may wait for the queue's jobs,
 * and ask what it has completed. Ownership: an object holds a reference to what it was created from
 * (a buffer to its context, a context to its device). Release each with its own function, in any
 * order.
 *
 * Processes: a device and everything created from it belong to the process that opened it. A child
 * of fork() calls no function with them, not even to release them, and does not touch the memory of
 * buffers: a sim's threads are not in the child, and drm's objects are the parent's. It may open a
 * device of its own and build graphs, unless another thread was in a function of this library
 * during fork(), and it may always exec() and exit. The parent goes on as if it had not forked; but
 * what it releases stays in memory, and the device node in use, until the child has ended or called
 * exec().
 */
#ifndef NPU_H
#define NPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct npu_device;
struct npu_context;
struct npu_buffer;
struct npu_queue;
struct npu_program;
struct npu_job;
struct npu_fence;

#define NPU_FOREVER INT64_MAX

/* The last error of this thread: one line without newline, never NULL. */
const char *npu_error(void);

/* ---- devices --------------------------------------------------------------------------------- */

enum npu_transport {
	NPU_TRANSPORT_AUTO = 0, /* drm if there is a usable vnpu node, else sim */
	NPU_TRANSPORT_DRM,
	NPU_TRANSPORT_SIM,
};

struct npu_device_options {
	enum npu_transport transport;
	const char *path; /* drm: the node; NULL: the first /dev/accel/accel* that is a vnpu */
	/* sim: number of worker threads; 0: one per CPU that the process may use, by its affinity
	 * mask and the quota of its control groups. */
	unsigned int threads;
	/* sim: instruction set of the kernels, as --isa of vnpu-fw(8); NULL: the best one
	 * supported. */
	const char *isa;
	/* sim: the SoC whose NPU is modelled, for the jobs' device times (docs/soc-model.md): a
	 * name in share/profiles, or a file with a '/' or ".conf" in its name. NULL: NPU_PROFILE,
	 * or else sd8gen3 if it is installed. With drm, vnpu-fw decides. */
	const char *profile;
};

/* What npu_device_open() opened, and why it chose this transport. */
struct npu_device_info {
	enum npu_transport transport; /* DRM or SIM */
	char name[32]; /* the firmware's name for the device */
	char path[64]; /* drm: the node; sim: "" */
	char reason[160]; /* one line: the reason for the transport */
	uint32_t isa_version; /* major << 16 | minor */
	uint32_t va_bits;
	uint64_t mem_limit_bytes; /* limit for all buffers of the device */
	uint32_t max_queue_depth;
	uint32_t max_jobs_per_submit;
	uint32_t default_timeout_ms;
	uint32_t max_timeout_ms;
	/* Longest lifetime of a fence, from the submission of the job that signals it. */
	uint32_t max_fence_ms;
	/* Jobs per queue that may wait, in addition to the queue's depth in the device. */
	uint32_t max_waiting_jobs;
};

/* Opens a device. @opts NULL: all defaults. -ENOENT no node, no module or no such profile; -EINVAL
 * the profile is not valid; -EACCES no permission; -ENODEV not a vnpu, or it has no firmware;
 * -EPROTO incompatible versions; -EFBIG sim only: the limit of file sizes is below 1 MiB. */
int npu_device_open(const struct npu_device_options *opts, struct npu_device **dev);
void npu_device_close(struct npu_device *dev);
const struct npu_device_info *npu_device_info(const struct npu_device *dev);

/* Present state of the device. */
struct npu_device_state {
	bool lost; /* its firmware is gone */
	bool wedged; /* reset too often: accepts no firmware any more */
	uint32_t epoch;
	uint32_t nr_resets;
	uint64_t nr_jobs; /* completed since the device exists */
	uint64_t busy_ns; /* wall-clock time spent on jobs since the device exists */
	uint64_t mem_bytes; /* sum of all buffers */
};
int npu_device_state(struct npu_device *dev, struct npu_device_state *state);

/* Device calls made through @dev so far, by kind, for tests and llm-bench's npu_jobs. */
struct npu_device_counts {
	uint64_t submits; /* SUBMIT calls */
	uint64_t jobs; /* jobs in them */
	uint64_t waits; /* WAIT and syncobj wait calls */
	uint64_t polls; /* completions read from a status page without a call */
};
void npu_device_counts(const struct npu_device *dev, struct npu_device_counts *counts);

/* ---- contexts and buffers -------------------------------------------------------------------- */

/* Creates an address space. Contexts cannot access one another's buffers. */
int npu_context_create(struct npu_device *dev, struct npu_context **ctx);
void npu_context_free(struct npu_context *ctx);

/* NPU_CONTEXT_* below; 0 if nothing went wrong. */
#define NPU_CONTEXT_TIMEDOUT (1u << 0)
#define NPU_CONTEXT_FAULT (1u << 1)
#define NPU_CONTEXT_FW_LOST (1u << 2)
struct npu_context_state {
	uint32_t state;
	uint64_t fault_va;
	bool fault_write;
	uint64_t seqno; /* the job that banned the context */
};
int npu_context_state(struct npu_context *ctx, struct npu_context_state *state);

#define NPU_BUFFER_DEVICE_READ_ONLY (1u << 0)

/* Allocates zeroed memory that CPU and NPU share, mapped for the program and bound in the context.
 * -ENOMEM; -ENOSPC over a limit of the device; -EFBIG (sim only) over the process's limit of file
 * sizes (ulimit -f), which counts the sim's memory as one file. Their error line has the number of
 * bytes. */
int npu_buffer_create(struct npu_context *ctx, size_t size_bytes, uint32_t flags,
		      struct npu_buffer **buf);
/*
 * Makes a buffer of @size_bytes of a file from @offset on, a multiple of 4096, which the device
 * reads in place: its memory is the page cache's, as with mmap(). Read-only for the program too.
 * @fd is open for reading, and may be closed afterwards. Whoever touches the buffer after the file
 * has become shorter dies of SIGBUS. -EOPNOTSUPP: this device reads no files (transport drm):
 * create a buffer, and read the file into it. -EINVAL: the offset, or a file that ends before, or
 * has no pages to map.
 */
int npu_buffer_map_file(struct npu_context *ctx, int fd, uint64_t offset, size_t size_bytes,
			struct npu_buffer **buf);
void npu_buffer_free(struct npu_buffer *buf);
void *npu_buffer_data(const struct npu_buffer *buf); /* NULL after npu_buffer_unmap() */
/* Unmaps the memory from the program, for good. Memory that the program fills once and only the
 * device reads then no longer counts as the program's. */
void npu_buffer_unmap(struct npu_buffer *buf);
size_t npu_buffer_size(const struct npu_buffer *buf);
uint64_t npu_buffer_va(const struct npu_buffer *buf);

/* ---- programs and jobs ----------------------------------------------------------------------- */

/* Loads a compiled graph into device memory. Copies the image. -EINVAL: the error line says what is
 * wrong with the image. */
int npu_program_load(struct npu_context *ctx, const void *image, size_t image_bytes,
		     struct npu_program **prog);
void npu_program_free(struct npu_program *prog);

/* Creates a job: a program with its operands, in a binding table. All symbols must be bound before
 * it is submitted. After it has ended it may be submitted again, with the same operands or others.
 * Scratch memory belongs to the queue to which the job is submitted; the queue's jobs share it. */
int npu_job_create(struct npu_program *prog, struct npu_job **job);
/* Waits for the job first if it is in flight. */
void npu_job_free(struct npu_job *job);
/* Sets operand @symbol to @size_bytes at @offset of @buf. -ENOENT no such symbol; -ERANGE smaller
 * than the graph needs; -EINVAL @offset is not a multiple of 64 or outside the buffer; -EACCES an
 * output or a state in a buffer that the device may only read; -EBUSY the job is in flight. The job
 * holds a reference to the buffer. */
int npu_job_bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t offset,
		 size_t size_bytes);
int npu_job_param(struct npu_job *job, const char *param, int64_t value);
/*
 * Sets how long the device may show no progress before the job fails; 0: the device's default. A
 * job that is running then fails with -ETIME and its context is banned; a job that has not started
 * fails alone, with -EBUSY.
 */
void npu_job_timeout(struct npu_job *job, uint32_t timeout_ms);

/*
 * The time that a job took, on two clocks: the device's, which is that of the modelled SoC's NPU
 * (docs/soc-model.md), and this host's. Device times are the same for each run with the same
 * params, and 0 on a device without a profile; cycles are of the NPU's clock. Neither includes
 * waiting in the queue.
 */
struct npu_job_times {
	uint64_t device_ns, device_cycles; /* launch and all commands, one after another */
	/* From when the firmware started on the job until its last command was done. */
	uint64_t wall_ns;
	/* Commands of the job's stream with barriers and the end, as npuc dis lists them. */
	uint32_t nr_commands;
};
/* Times of the job's last submission that npu_queue_submit() accepted. -EBUSY it is in flight;
 * -EAGAIN it was never submitted; -ENODATA it failed or was cancelled; -EOPNOTSUPP the device's ISA
 * is older than 1.1. */
int npu_job_times(const struct npu_job *job, struct npu_job_times *times);

/* One command; times count from the job's start on each clock. */
struct npu_command_times {
	const char *op; /* as npuc dis names it; a static string */
	uint64_t device_start_ns, device_ns, device_cycles;
	/* Commands between two barriers run concurrently on the host: each has the time of all. */
	uint64_t wall_start_ns, wall_end_ns;
};
/* Turns recording of single commands' times on or off for later submissions of the job. Recording
 * costs 56 bytes of memory per command, two clock readings per barrier and one to two per command
 * and worker. -EBUSY the job is in
 * flight; -EOPNOTSUPP the device's ISA is older than 1.1; -ENOMEM. */
int npu_job_time_commands(struct npu_job *job, bool on);
/* Times of command @i of the last submission. Errors as npu_job_times(); also -ENODATA if that
 * submission did not record commands, and -ERANGE if @i is not below nr_commands. */
int npu_job_command(const struct npu_job *job, uint32_t i, struct npu_command_times *times);

/* Most operations that a job can have. */
#define NPU_MAX_OPS 64
/*
 * Where the time of the device's workers went: its threads on this host, which share the commands
 * between two barriers. A worker that finds no more work there, or that the device does not wake
 * for a short command, waits. Waiting is the rest: nr_workers (wall_ns - begin_ns) minus the sum of
 * all busy_ns.
 */
struct npu_job_work {
	uint32_t nr_workers;
	uint64_t wall_ns; /* as in struct npu_job_times */
	/* Of these, until the first command began: fetching and checking stream and table. */
	uint64_t begin_ns;
	uint32_t nr_ops; /* operations that the job has */
	struct {
		const char *op; /* as npuc dis names it; a static string */
		uint64_t busy_ns; /* with its commands, summed over the workers */
	} ops[NPU_MAX_OPS];
};
/* Sums of the last submission, which recorded its commands. Errors as npu_job_command();
 * -EOPNOTSUPP the device's firmware does not count this. */
int npu_job_work(const struct npu_job *job, struct npu_job_work *work);

/* ---- queues and fences ----------------------------------------------------------------------- */

enum npu_priority {
	NPU_PRIORITY_NORMAL = 0,
	NPU_PRIORITY_LOW,
	NPU_PRIORITY_HIGH,
};

struct npu_queue_options {
	enum npu_priority priority;
	uint32_t depth; /* power of two; 0: 16 */
};

/* Creates a queue. Its jobs run in order. */
int npu_queue_create(struct npu_context *ctx, const struct npu_queue_options *opts,
		     struct npu_queue **queue);
/* Cancels its jobs in flight. Other threads may use and free its jobs meanwhile. */
void npu_queue_free(struct npu_queue *queue);

/*
 * A point of a timeline syncobj, or (point 0) a binary syncobj.
 *
 * Points of a timeline should rise in the order in which they are submitted and signaled. As in the
 * kernel, one that does not gets the value of the point before it and hides all points before it: a
 * wait for any point up to that value waits for all of them, and npu_fence_query() counts from it
 * on, so that it may return less than before.
 */
struct npu_sync {
	struct npu_fence *fence;
	uint64_t point;
};

struct npu_submit_syncs {
	const struct npu_sync *wait; /* before the first job */
	unsigned int nr_wait;
	const struct npu_sync *signal; /* after the last job */
	unsigned int nr_signal;
};

/*
 * Submits @nr_jobs jobs with one device call, all or none. *@seqno: number of the last job in the
 * queue. If the queue already has as many jobs as its depth plus max_waiting_jobs, the call waits
 * until there is room.
 *
 * Only a job that signals has a fence. A fence lasts at most max_fence_ms: then it signals even if
 * its job is not done, and the job fails with -EBUSY. A job with a longer timeout cannot signal
 * (-ERANGE).
 *
 * Other errors: -EINVAL nothing to signal a fence to wait for, a timeout over max_timeout_ms, an
 * unbound symbol, or no job, or too many; -EBUSY a job is in flight; -ECANCELED the context is
 * banned; -ENODEV the device is gone; -ENOMEM. The error line says which. After an error no job was
 * submitted, and their times are as before.
 */
int npu_queue_submit(struct npu_queue *queue, struct npu_job *const *jobs, unsigned int nr_jobs,
		     const struct npu_submit_syncs *syncs, uint64_t *seqno);

enum npu_wait_mode {
	NPU_WAIT_DRIVER, /* sleep in WAIT */
	/*
	 * Poll the status page for about as long as similar jobs took, then sleep in WAIT. Sleep at
	 * once if they took more than 20 ms, or more than 1 ms and the workers of a sim device have
	 * all CPUs that the process may use.
	 */
	NPU_WAIT_FAST,
};

/*
 * Waits until job @seqno has ended. @timeout_ns is relative; 0 and less: only looks; NPU_FOREVER:
 * no timeout. Returns 0; -ETIMEDOUT if the wait timed out; or the job's error: -EINVAL, -EFAULT,
 * -ETIME (it ran for too long), -EBUSY (it waited for too long), -ECANCELED, -EIO. Errors of the
 * last depth + max_waiting_jobs jobs of a queue are kept.
 */
int npu_queue_wait(struct npu_queue *queue, uint64_t seqno, int64_t timeout_ns,
		   enum npu_wait_mode mode);
/* Number of the last job that the status page reports as done. Makes no device call. */
uint64_t npu_queue_completed(const struct npu_queue *queue);

int npu_fence_create(struct npu_device *dev, bool signaled, struct npu_fence **fence);
void npu_fence_free(struct npu_fence *fence);
/* @timeout_ns as for npu_queue_wait(); -ETIMEDOUT when it passes. Point 0: the binary syncobj. */
int npu_fence_wait(struct npu_fence *fence, uint64_t point, int64_t timeout_ns);
int npu_fence_signal(struct npu_fence *fence, uint64_t point);
/* The last point that is reached; 0: none, or a binary syncobj. */
int npu_fence_query(struct npu_fence *fence, uint64_t *point);
/* Exports the present fence of the binary syncobj as a sync_file, for another driver; the caller
 * closes *@fd. -EOPNOTSUPP on sim, or if vnpu.ko's parameter fence_export forbids it; -EINVAL if no
 * submitted job signals the syncobj. */
int npu_fence_export(struct npu_fence *fence, int *fd);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* NPU_H */
